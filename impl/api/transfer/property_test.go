package transfer_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	appv3 "github.com/writ-id/writ/gen/proto/writ/app/v3alpha"
	authenticatorv3 "github.com/writ-id/writ/gen/proto/writ/authenticator/v3alpha"
	domainv3 "github.com/writ-id/writ/gen/proto/writ/domain/v3alpha"
	idpv3 "github.com/writ-id/writ/gen/proto/writ/idp/v3alpha"
	membershipv3 "github.com/writ-id/writ/gen/proto/writ/membership/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	smtpv3 "github.com/writ-id/writ/gen/proto/writ/smtp/v3alpha"
	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/api/transfer"
	files "github.com/writ-id/writ/impl/core/transfer"
)

// tenants draws organizations with all that can be theirs, whole: an export has no more.
type tenants struct {
	*rapid.T
	n     int
	lists map[*files.Kind][]files.Item
}

func (d *tenants) add(kind *files.Kind, item files.Item) { d.lists[kind] = append(d.lists[kind], item) }

// id returns another ID each time, whose order says nothing.
func (d *tenants) id(what string) string {
	d.n++
	return fmt.Sprintf("%s%d-%d", rapid.SampledFrom([]string{"", "A", "z", "_"}).Draw(d.T, "prefix"), d.n, len(what)) + what
}

func (d *tenants) is(what string) bool { return rapid.Bool().Draw(d.T, what) }

func (d *tenants) some(what string) int { return rapid.IntRange(0, 3).Draw(d.T, what) }

// text is any that is not empty and no other text.
func (d *tenants) text(what string) string {
	d.n++
	return rapid.StringMatching(`[A-Za-zäßØ漢"\\<&' ]{0,10}`).Draw(d.T, what) + fmt.Sprintf("%d", d.n)
}

func (d *tenants) date() *timestamppb.Timestamp {
	return timestamppb.New(time.Unix(0, rapid.Int64Range(1e15, 1.8e15).Draw(d.T, "date")*1000).UTC())
}

func (d *tenants) state() object.EffectiveState {
	return rapid.SampledFrom([]object.EffectiveState{object.EffectiveState_EFFECTIVE_STATE_ACTIVE, object.EffectiveState_EFFECTIVE_STATE_INACTIVE}).Draw(d.T, "state")
}

func (d *tenants) policy() object.StatePolicy {
	return object.StatePolicy(rapid.Int32Range(1, 3).Draw(d.T, "policy"))
}

func (d *tenants) bytes(most int) []byte {
	return rapid.SliceOfN(rapid.Byte(), 20, most).Draw(d.T, "bytes")
}

func drawTenants(t *rapid.T) map[*files.Kind][]files.Item {
	d := &tenants{t, 0, map[*files.Kind][]files.Item{}}
	var orgs []string
	for range 1 + d.some("orgs") {
		orgs = append(orgs, d.id("org"))
		d.add(storage.MovedOrganizations, &transferv1.TransferOrganization{Id: orgs[len(orgs)-1], Name: d.text("name"), State: d.state(), CreationDate: d.date()})
	}
	var grants []*transferv1.TransferProjectGrant
	var projects []*transferv1.TransferProject
	var users []*transferv1.TransferUser
	for _, org := range orgs {
		d.settings(org)
		idps := d.providers(org)
		for range d.some("users") {
			users = append(users, d.user(org, idps))
		}
		for range d.some("projects") {
			project := &transferv1.TransferProject{
				Id: d.id("project"), OrgId: org, Name: d.text("name"), ProjectRoleAssertion: d.is("assertion"), ProjectRoleCheck: d.is("check"), HasProjectCheck: d.is("has"), State: d.state(), CreationDate: d.date(),
			}
			projects = append(projects, project)
			d.add(storage.MovedProjects, project)
			grants = append(grants, d.project(project, orgs)...)
		}
	}
	d.rights(orgs, users, projects, grants)
	for kind, items := range d.lists { // as the database orders them
		slices.SortFunc(items, func(a, b files.Item) int { return slices.Compare(keyOf(kind, a), keyOf(kind, b)) })
	}
	return d.lists
}

func keyOf(kind *files.Kind, item files.Item) []string {
	id, org := kind.Names(item)
	if kind == storage.MovedSettings || kind == storage.MovedSettingImages {
		return append([]string{org}, strings.Split(id, "/")...)
	}
	if m, ok := item.(*transferv1.TransferUserMetadata); ok {
		return []string{m.GetUserId(), m.GetId()}
	}
	return []string{id}
}

func (d *tenants) settings(org string) {
	for i := range 1 + d.some("domains") { // one is the primary (REL-025)
		d.add(storage.MovedDomains, &transferv1.TransferDomain{
			Id: d.id("domain"), OrgId: org, Domain: fmt.Sprintf("d%d.example", d.n), IsVerified: i == 0 || d.is("verified"), IsPrimary: i == 0,
			ValidationType: domainv3.ValidationType_VALIDATION_TYPE_DNS, ValidationToken: d.text("token"), CreationDate: d.date(),
		})
	}
	set := func(subject string, properties map[string]any) {
		if d.is(subject) {
			value, err := structpb.NewStruct(properties)
			if err != nil {
				d.Fatal(err)
			}
			d.add(storage.MovedSettings, &transferv1.TransferSetting{OrgId: org, Subject: subject, Properties: value})
		}
	}
	set("branding", map[string]any{"primaryColorLight": "#123456", "termsLink": "https://example.com/" + fmt.Sprint(d.n)})
	set("message_texts/otp_email/de", map[string]any{"subject": d.text("subject")})
	set("lifetimes", map[string]any{"accessTokenLifetime": "900s", "sessionLifetime": fmt.Sprint(300+d.n) + "s"})
	set("applications", map[string]any{"rolesNeedTrust": map[string]any{"value": true}})
	set("languages", map[string]any{"defaultLanguage": map[string]any{"key": "de"}})
}

func (d *tenants) providers(org string) []string {
	var idps []string
	for range d.some("idps") {
		idp := &transferv1.TransferIDP{
			Id: d.id("idp"), OrgId: org, Type: rapid.SampledFrom([]idpv3.ProviderType{idpv3.ProviderType_PROVIDER_TYPE_OIDC, idpv3.ProviderType_PROVIDER_TYPE_APPLE}).Draw(d.T, "type"),
			Name: d.text("name"), StatePolicy: d.policy(), ClientId: d.text("client"), ClientSecret: d.bytes(40), Scopes: []string{"openid"}, Issuer: "https://issuer.example",
			Options:      &idpv3.Options{IsLinkingAllowed: proto.Bool(d.is("a")), IsCreationAllowed: proto.Bool(d.is("b")), IsAutoCreation: proto.Bool(d.is("c")), IsAutoUpdate: proto.Bool(d.is("d")), AutoLinking: idpv3.AutoLinkingOption_AUTO_LINKING_OPTION_EMAIL.Enum()},
			CreationDate: d.date(),
		}
		idps = append(idps, idp.GetId())
		d.add(storage.MovedIdps, idp)
	}
	if d.is("smtp") {
		d.add(storage.MovedSmtpProviders, &transferv1.TransferSMTPProvider{
			Id: d.id("smtp"), OrgId: org, ProviderType: "smtp", Name: d.text("name"), Description: d.text("description"), StatePolicy: d.policy(), SenderAddress: "a@b.example", Host: "mail.example:587",
			Tls: smtpv3.TLSMode(1), Auth: smtpv3.AuthMechanism(1), Username: "u", Password: d.bytes(40), CreationDate: d.date(),
		})
	}
	if d.is("sms") {
		d.add(storage.MovedSmsProviders, &transferv1.TransferSMSProvider{
			Id: d.id("sms"), OrgId: org, ProviderType: "twilio", Name: d.text("name"), StatePolicy: d.policy(), Sid: "AC", Token: d.bytes(40), SenderNumber: proto.String("+41791234567"), CreationDate: d.date(),
		})
	}
	return idps
}

func (d *tenants) user(org string, idps []string) *transferv1.TransferUser {
	u := &transferv1.TransferUser{
		Id: d.id("user"), OrgId: org, Username: "user" + fmt.Sprint(d.n), State: rapid.SampledFrom([]userv3.UserState{userv3.UserState_USER_STATE_ACTIVE, userv3.UserState_USER_STATE_INACTIVE, userv3.UserState_USER_STATE_LOCKED}).Draw(d.T, "state"), CreationDate: d.date(),
	}
	d.add(storage.MovedUsers, u)
	if d.is("service") {
		u.Type = &transferv1.TransferUser_Service{Service: &userv3.Service{Name: d.text("name"), Description: d.text("description"), AccessTokenType: object.AccessTokenType(rapid.Int32Range(1, 2).Draw(d.T, "tokens"))}}
		if d.is("secret") {
			u.SecretHash = d.bytes(32)[:20]
			u.SecretHash = append(u.SecretHash, make([]byte, 12)...)
		}
	} else {
		human := &userv3.Human{Profile: &userv3.Profile{GivenName: d.text("given"), FamilyName: d.text("family"), DisplayName: d.text("display"), PreferredLanguage: "de", Birthdate: "1990-05-17"}}
		if d.is("email") {
			human.Email = &userv3.Email{Address: fmt.Sprintf("u%d@example.com", d.n), IsVerified: d.is("verified")}
			u.IsEmailProven = human.GetEmail().GetIsVerified() && d.is("proven")
		}
		if d.is("phone") {
			human.Phone = &userv3.Phone{Number: "+4179" + fmt.Sprint(d.n), IsVerified: d.is("verified")}
		}
		if d.is("address") {
			human.Address = &userv3.Address{StreetAddress: d.text("street"), Country: "Schweiz"}
		}
		if d.is("password") {
			u.PasswordHash = proto.String("$2a$04$zVHmKQtGGQob.b/Nc7l9NO8UlrYcW05FiuCj/SxsFO/ZtiN9.mNzy")
			u.PasswordChanged, u.PasswordChangeRequired = d.date(), d.is("change")
		}
		u.Type = &transferv1.TransferUser_Human{Human: human}
	}
	for range d.some("metadata") {
		d.add(storage.MovedUserMetadata, &transferv1.TransferUserMetadata{UserId: u.GetId(), Id: d.text("key"), Value: d.bytes(60), OrgId: org, CreationDate: d.date()})
	}
	for factor := authenticatorv3.SecondFactorType(1); factor <= 3; factor++ {
		if !d.is("factor") {
			continue
		}
		one := &transferv1.TransferAuthenticator{Id: d.id("factor"), OrgId: org, UserId: u.GetId(), Type: factor, Address: "a@b.example", IsVerified: d.is("verified"), CreationDate: d.date()}
		if factor == 1 {
			one.Address, one.Secret = "", d.bytes(32)
		}
		d.add(storage.MovedAuthenticators, one)
	}
	if len(idps) > 0 {
		d.add(storage.MovedIdpLinks, &transferv1.TransferIDPLink{
			Id: d.id("link"), OrgId: org, UserId: u.GetId(), IdpId: rapid.SampledFrom(idps).Draw(d.T, "idp"), ExternalUserId: d.text("external"), ExternalUsername: d.text("name"), CreationDate: d.date(),
		})
	}
	return u
}

func (d *tenants) project(p *transferv1.TransferProject, orgs []string) (grants []*transferv1.TransferProjectGrant) {
	for range d.some("roles") {
		d.add(storage.MovedProjectRoles, &transferv1.TransferRole{Id: d.id("role"), OrgId: p.GetOrgId(), ProjectId: p.GetId(), Key: d.text("key"), DisplayName: d.text("name"), Group: d.text("group"), CreationDate: d.date()})
	}
	for range d.some("apps") {
		app := &transferv1.TransferApp{Id: d.id("app"), OrgId: p.GetOrgId(), ProjectId: p.GetId(), Name: d.text("name"), ClientId: d.id("client"), State: d.state(), Trusted: d.is("trusted"), CreationDate: d.date()}
		if d.is("api") {
			app.Config = &transferv1.TransferApp_Api{Api: &appv3.APIConfig{AuthMethodType: appv3.AuthMethodType_AUTH_METHOD_TYPE_BASIC}}
			app.SecretHash = make([]byte, 32)
		} else {
			app.Config = &transferv1.TransferApp_Oidc{Oidc: &appv3.OIDCConfig{
				RedirectUris: []string{"https://app.example/callback"}, PostLogoutRedirectUris: []string{}, ResponseTypes: []appv3.ResponseType{1}, GrantTypes: []appv3.GrantType{1},
				ApplicationType: 1, AuthMethodType: appv3.AuthMethodType_AUTH_METHOD_TYPE_NONE, AccessTokenType: 2, ClockSkew: durationpb.New(time.Second), AccessTokenLifetime: durationpb.New(15 * time.Minute), IdTokenLifetime: durationpb.New(0), RefreshTokenIdleLifetime: durationpb.New(0), RefreshTokenLifetime: durationpb.New(0), IdTokenRoleAssertion: d.is("roles"),
			}}
		}
		d.add(storage.MovedApps, app)
	}
	for _, org := range orgs {
		if org != p.GetOrgId() && d.is("grant") {
			grant := &transferv1.TransferProjectGrant{Id: d.id("grant"), OrgId: p.GetOrgId(), ProjectId: p.GetId(), GrantedOrgId: org, RoleKeys: []string{"a", "b"}, State: d.state(), CreationDate: d.date()}
			grants = append(grants, grant)
			d.add(storage.MovedProjectGrants, grant)
		}
	}
	return grants
}

// rights draws grants and memberships, of users of any organization.
func (d *tenants) rights(orgs []string, users []*transferv1.TransferUser, projects []*transferv1.TransferProject, grants []*transferv1.TransferProjectGrant) {
	for _, u := range users {
		if len(projects) > 0 && d.is("grant") {
			p := rapid.SampledFrom(projects).Draw(d.T, "project")
			d.add(storage.MovedUserGrants, &transferv1.TransferUserGrant{Id: d.id("usergrant"), OrgId: p.GetOrgId(), UserId: u.GetId(), ProjectId: p.GetId(), RoleKeys: []string{"a"}, State: d.state(), CreationDate: d.date()})
		}
		if len(grants) > 0 && d.is("granted") {
			g := rapid.SampledFrom(grants).Draw(d.T, "project grant")
			d.add(storage.MovedUserGrants, &transferv1.TransferUserGrant{Id: d.id("usergrant"), OrgId: g.GetGrantedOrgId(), UserId: u.GetId(), ProjectId: g.GetProjectId(), ProjectGrantId: proto.String(g.GetId()), RoleKeys: []string{"b"}, State: d.state(), CreationDate: d.date()})
			d.add(storage.MovedMemberships, &transferv1.TransferMembership{
				Id: d.id("membership"), OrgId: g.GetOrgId(), ProjectId: proto.String(g.GetProjectId()), ProjectGrantId: proto.String(g.GetId()), UserId: u.GetId(),
				Level: membershipv3.MembershipLevel_MEMBERSHIP_LEVEL_PROJECT_GRANT, ObjectId: g.GetId(), Roles: []string{"PROJECT_GRANT_OWNER"}, CreationDate: d.date(),
			})
		}
		if d.is("member") {
			org := rapid.SampledFrom(orgs).Draw(d.T, "org")
			d.add(storage.MovedMemberships, &transferv1.TransferMembership{Id: d.id("membership"), OrgId: org, UserId: u.GetId(), Level: membershipv3.MembershipLevel_MEMBERSHIP_LEVEL_ORG, ObjectId: org, Roles: []string{"ORG_OWNER"}, CreationDate: d.date()})
		}
	}
}

// shuffled is a source of items in any order.
type shuffled struct {
	kinds []*files.Kind
	items []files.Item
}

// Next implements transfer.Source.
func (s *shuffled) Next(context.Context) (*files.Kind, files.Item, error) {
	if len(s.items) == 0 {
		return nil, nil, io.EOF
	}
	kind, item := s.kinds[0], s.items[0]
	s.kinds, s.items = s.kinds[1:], s.items[1:]
	return kind, proto.CloneOf(item.(proto.Message)).(files.Item), nil
}

// TestARoundTripIsAFixedPoint imports what was drawn, in any order, and finds the same bytes
// exported.
func TestARoundTripIsAFixedPoint(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	s := service(t, c)
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		lists := drawTenants(r)
		var wanted bytes.Buffer
		w := files.NewWriter(&wanted, storage.Moved)
		from := &shuffled{}
		for _, kind := range storage.Moved {
			for _, item := range lists[kind] {
				if err := w.Item(kind, item); err != nil {
					r.Fatal(err)
				}
				from.kinds, from.items = append(from.kinds, kind), append(from.items, item)
			}
		}
		if err := w.Close(&transferv1.Summary{}); err != nil {
			r.Fatal(err)
		}
		rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 1)).Shuffle(len(from.items), func(i, j int) {
			from.kinds[i], from.kinds[j] = from.kinds[j], from.kinds[i]
			from.items[i], from.items[j] = from.items[j], from.items[i]
		})
		n++
		instance := fmt.Sprintf("i%d", n)
		if _, err := c.DB.Pool.Exec(t.Context(), "INSERT INTO instances (id, name, name_folded, sequence, creation_date, change_date) VALUES ($1, $1, $1, 1, now(), now())", instance); err != nil {
			r.Fatal(err)
		}
		report, err := s.Import(t.Context(), from, transfer.Plan{InstanceID: instance, By: "tester", ImportID: "i"}, tell)
		if err != nil || report.GetTotalNotCarried() != 0 {
			r.Fatalf("%v %v", err, report)
		}
		if got := export(t, s, instance, transfer.Selection{Asked: all}); items(got) != items(wanted.String()) {
			r.Fatalf("imported\n%s\nexported\n%s", wanted.String(), got)
		}
		// Each object has one event, which says so.
		if other := c.Value("SELECT count(*) FROM events WHERE instance_id = $1 AND (event_type NOT LIKE '%.imported' OR payload ->> 'importId' <> 'i')", instance); other != "0" {
			r.Fatalf("%s events are others", other)
		}
	})
}
