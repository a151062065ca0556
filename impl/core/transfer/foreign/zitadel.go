package foreign

import (
	"fmt"
	"io"
	"strings"

	authenticatorv3 "github.com/writ-id/writ/gen/proto/writ/authenticator/v3alpha"
	domainv3 "github.com/writ-id/writ/gen/proto/writ/domain/v3alpha"
	idpv3 "github.com/writ-id/writ/gen/proto/writ/idp/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	settingsv3 "github.com/writ-id/writ/gen/proto/writ/settings/v3alpha"
	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/core/transfer"
)

// Zitadel reads {"orgs": […]}: what the field calls data_orgsv1, from export or made by hand,
// with members in either casing. An organization's things may come before its ID, as long
// as they are not many.
func Zitadel(r io.Reader, options Options) transfer.Source {
	z := &zitadel{reading: newReading(options)}
	z.walker = newWalker(r, zitadelPlan)
	z.walker.camel = true
	z.handle = z.visit
	return z
}

type zitadel struct {
	*reading
	org zitadelOrg
}

// zitadelOrg is the organization being read.
type zitadelOrg struct {
	id      string
	early   []visit // what came before the ID
	earlier int64   // where the first of it began
	begun   bool
	look    *settingsv3.SetBrandingSettings
}

// maxEarly bounds what may come before the ID of its organization, in bytes of the file.
const maxEarly = 2 << 20

// zitadelLists are the lists of an organization, and what is read of each.
var zitadelLists = map[string]func(*zitadel, *jsonObject){
	"projects":                         (*zitadel).project,
	"projectRoles":                     (*zitadel).projectRole,
	"apiApps":                          (*zitadel).apiApp,
	"oidcApps":                         (*zitadel).oidcApp,
	"humanUsers":                       (*zitadel).human,
	"machineUsers":                     (*zitadel).machine,
	"projectGrants":                    (*zitadel).projectGrant,
	"userGrants":                       (*zitadel).userGrant,
	"orgMembers":                       (*zitadel).orgMember,
	"projectMembers":                   (*zitadel).projectMember,
	"projectGrantMembers":              (*zitadel).projectGrantMember,
	"userMetadata":                     (*zitadel).metadata,
	"oidcIdps":                         (*zitadel).oidcIDP,
	"userLinks":                        (*zitadel).userLink,
	"domains":                          (*zitadel).domain,
	"initMessages":                     lost("", "the message has no counterpart"),
	"passwordResetMessages":            message("reset_password"),
	"verifyEmailMessages":              message("verify_email"),
	"verifyPhoneMessages":              message("verify_phone"),
	"verifySmsOtpMessages":             message("otp_sms"),
	"verifyEmailOtpMessages":           message("otp_email"),
	"domainClaimedMessages":            message("domain_claimed"),
	"passwordChangeMessages":           message("password_changed"),
	"passwordlessRegistrationMessages": lost("", "the message has no counterpart"),
	"inviteUserMessages":               lost("", "the message has no counterpart"),
	"loginTexts":                       lost("", "the words of the log-in pages cannot be set"),
	"jwtIdps":                          lost("idpId", "identity providers of this type are not supported"),
	"actions":                          lost("actionId", "there are no scripts: use a target and an execution"),
	"triggerActions":                   lost("", "there are no scripts: use a target and an execution"),
	"secondFactors":                    lost("", "which factors are offered cannot be set"),
	"multiFactors":                     lost("", "which factors are offered cannot be set"),
	"idps":                             lost("idpId", "which identity providers are offered is said by their state"),
	"appKeys":                          lost("id", "keys are not carried over: make new ones"),
	"machineKeys":                      lost("keyId", "keys are not carried over: make new ones"),
}

// zitadelValues are its members that are no lists.
var zitadelValues = map[string]func(*zitadel, *jsonObject){
	"org":                      (*zitadel).organization,
	"labelPolicy":              (*zitadel).labelPolicy,
	"privacyPolicy":            (*zitadel).privacyPolicy,
	"iamPolicy":                lost("", "how login names are made cannot be set"),
	"domainPolicy":             lost("", "how login names are made cannot be set"),
	"lockoutPolicy":            lost("", "when users are locked out cannot be set"),
	"loginPolicy":              lost("", "how users may sign in cannot be set"),
	"passwordComplexityPolicy": lost("", "what is asked of passwords cannot be set"),
}

// inside strips what an import request has around the organizations.
func inside(pattern string) string {
	return strings.TrimPrefix(strings.TrimPrefix(pattern, "dataOrgsv1."), "dataOrgs.")
}

func zitadelPlan(pattern string) plan {
	pattern = inside(pattern)
	switch pattern {
	case "", "orgs", "orgs[]", "dataOrgs", "dataOrgsv1":
		return into
	case "orgs[].orgId":
		return whole
	}
	name, ok := strings.CutPrefix(pattern, "orgs[].")
	if name, ok := strings.CutSuffix(name, "[]"); ok && zitadelLists[name] != nil {
		return whole
	}
	switch {
	case ok && zitadelLists[name] != nil:
		return into
	case ok && zitadelValues[name] != nil:
		return whole
	}
	return over
}

func (z *zitadel) visit(at visit) {
	pattern := inside(at.pattern)
	if pattern == "orgs[]" && at.end {
		if z.org.id == "" {
			z.refuse(join(at.path, "orgId"), "it is missing")
		}
		z.ends()
		return
	}
	name, ofOrg := strings.CutPrefix(pattern, "orgs[].")
	switch {
	case at.passed && (name == "iamPolicyV1" || pattern == "timeout"):
	case at.passed:
		z.unknown(pattern)
	case at.end || !ofOrg || at.value == nil:
	case name == "orgId":
		if z.org.id = z.field(at); z.org.id == "" {
			z.refuse(at.path, "it is missing")
			return
		}
		for _, early := range z.org.early {
			z.read(early)
		}
		z.org.early = nil
	case z.org.id == "":
		offset := z.walker.decoder.InputOffset()
		if !z.org.begun {
			z.org.begun, z.org.earlier = true, offset
		}
		if offset-z.org.earlier > maxEarly {
			z.refuse(at.path, "the orgId of an organization has to come before what it has, or soon after")
		}
		z.org.early = append(z.org.early, at)
	default:
		z.read(at)
	}
}

// field returns the text that a value is.
func (r *reading) field(at visit) string {
	return (&jsonObject{reading: r}).textOf(at.path, at.value)
}

func (z *zitadel) read(at visit) {
	name := strings.TrimPrefix(inside(at.pattern), "orgs[].")
	read := zitadelValues[name]
	if read == nil {
		read = zitadelLists[strings.TrimSuffix(name, "[]")]
	}
	if text, ok := at.value.(string); ok { // a list of texts, none of which has a counterpart
		of := &jsonObject{reading: z.reading, pattern: at.pattern, path: at.path, asked: map[string]bool{}, members: map[string]any{"": text}}
		if strings.HasSuffix(name, "Factors[]") {
			lost("", "the factor "+text+": which factors are offered cannot be set")(z, of)
			return
		}
	}
	if of := z.object(at); !of.absent {
		read(z, of)
		of.done()
	}
}

func (z *zitadel) ends() {
	if z.org.look != nil {
		z.setting(z.org.id, "branding", z.org.look)
	}
	z.org = zitadelOrg{}
}

// lost reports what has no counterpart.
func lost(id, reason string) func(*zitadel, *jsonObject) {
	return func(z *zitadel, o *jsonObject) {
		name := z.org.id
		if id != "" {
			name = o.text(id)
		} else if language := o.text("language"); language != "" {
			name += "/" + language
		}
		z.Lost(strings.TrimSuffix(strings.TrimPrefix(inside(o.pattern), "orgs[]."), "[]"), name, reason)
		for member := range o.members {
			o.ignore(member)
		}
	}
}

func (z *zitadel) organization(o *jsonObject) {
	z.put("organizations", z.org.id, &transferv1.TransferOrganization{
		Id: z.org.id, Name: o.needed("name"), State: activeOr(o, "state", "ORG_STATE_"), CreationDate: o.date("creationDate"),
	})
}

// activeOr reads a state that newer exports have; active when it is not there.
func activeOr(o *jsonObject, name, prefix string) object.EffectiveState {
	switch state := strings.TrimPrefix(o.text(name), prefix); state {
	case "", "ACTIVE", "UNSPECIFIED":
		return object.EffectiveState_EFFECTIVE_STATE_ACTIVE
	default:
		return object.EffectiveState_EFFECTIVE_STATE_INACTIVE
	}
}

func (z *zitadel) domain(o *jsonObject) {
	o.ignore("orgId", "details")
	name := strings.ToLower(strings.TrimSuffix(o.needed("domainName"), "."))
	domain := &transferv1.TransferDomain{
		Id: derived("domain", z.org.id, name), OrgId: z.org.id, Domain: name,
		IsVerified: o.flag("isVerified"), IsPrimary: o.flag("isPrimary"),
	}
	domain.ValidationType = domainv3.ValidationType_VALIDATION_TYPE_DNS
	if kind, _ := zitadelValidation.of(o.get("validationType")); kind != 0 {
		domain.ValidationType = domainv3.ValidationType(kind)
	}
	if domain.IsPrimary && !domain.IsVerified {
		domain.IsPrimary = false
		z.Lost("domains", name, "without being the primary one: it is not verified")
	}
	z.put("domains", name, domain)
}

func (z *zitadel) human(o *jsonObject) {
	id := o.needed("userId")
	of := o.member("user")
	user := &transferv1.TransferUser{
		Id: id, OrgId: z.org.id, Username: of.needed("userName"), State: z.state(o, of), CreationDate: o.date("creationDate"),
		PasswordChangeRequired: of.flag("passwordChangeRequired"),
	}
	profile, email, phone := of.member("profile"), of.member("email"), of.member("phone")
	human := &userv3.Human{Profile: &userv3.Profile{
		GivenName: profile.text("firstName"), FamilyName: profile.text("lastName"), NickName: profile.text("nickName"),
		DisplayName: profile.text("displayName"), PreferredLanguage: profile.text("preferredLanguage"), Gender: gender(profile),
	}}
	profile.done()
	if address := email.text("email"); address != "" {
		human.Email = &userv3.Email{Address: address, IsVerified: email.flag("isEmailVerified")}
		user.IsEmailProven = human.Email.IsVerified
	}
	email.ignore("isEmailVerified")
	email.done()
	if number := phone.text("phone"); number != "" {
		human.Phone = &userv3.Phone{Number: telephone(number), IsVerified: phone.flag("isPhoneVerified")}
	}
	phone.ignore("isPhoneVerified")
	phone.done()
	user.Type = &transferv1.TransferUser_Human{Human: human}
	hashed := of.member("hashedPassword")
	hashed.ignore("algorithm") // the value says it itself
	if hash := hashed.text("value"); hash != "" {
		z.password(user, hash)
	}
	hashed.done()
	if of.text("password") != "" {
		z.Lost("users", id, "without the password, which is in plain text: set a new one")
	}
	if of.flag("requestPasswordlessRegistration") {
		z.Lost("users", id, "without the request to register a passkey")
	}
	z.put("users", id, user)
	if code := of.text("otpCode"); code != "" {
		z.totp(z.org.id, id, base32Secret(code), "")
	}
	for _, link := range of.list("idps") {
		z.link(id, link.needed("configId"), link.needed("externalUserId"), link.text("displayName"))
		link.done()
	}
	of.done()
}

func (z *zitadel) state(o, of *jsonObject) userv3.UserState {
	text := either(o.text("state"), of.text("state"))
	switch state := strings.TrimPrefix(text, "USER_STATE_"); state {
	case "", "ACTIVE", "INITIAL", "UNSPECIFIED":
	case "INACTIVE":
		return userv3.UserState_USER_STATE_INACTIVE
	case "LOCKED":
		return userv3.UserState_USER_STATE_LOCKED
	default:
		z.Lost("users", o.text("userId"), fmt.Sprintf("the state %q is not known: inactive", text))
		return userv3.UserState_USER_STATE_INACTIVE
	}
	return userv3.UserState_USER_STATE_ACTIVE
}

func gender(o *jsonObject) string {
	switch text := strings.TrimPrefix(o.text("gender"), "GENDER_"); text {
	case "UNSPECIFIED":
		return ""
	default:
		return strings.ToLower(text)
	}
}

func (z *zitadel) machine(o *jsonObject) {
	id, of := o.needed("userId"), o.member("user")
	kind, ok := zitadelMachineToken.of(of.get("accessTokenType"))
	if !ok {
		z.Lost("users", id, "without the type of its access tokens, which is not known")
	}
	name := of.needed("userName")
	z.put("users", id, &transferv1.TransferUser{
		Id: id, OrgId: z.org.id, Username: name, State: z.state(o, of), CreationDate: o.date("creationDate"),
		Type: &transferv1.TransferUser_Service{Service: &userv3.Service{
			Name: either(of.text("name"), name), Description: of.text("description"), AccessTokenType: object.AccessTokenType(kind),
		}},
	})
	of.done()
}

func (z *zitadel) metadata(o *jsonObject) {
	id, key := o.needed("id"), o.needed("key")
	z.put("userMetadata", id+"/"+key, &transferv1.TransferUserMetadata{UserId: id, OrgId: z.org.id, Id: key, Value: o.bytes("value")})
}

func (z *zitadel) userLink(o *jsonObject) {
	o.ignore("idpName", "idpType", "details")
	z.link(o.needed("userId"), o.needed("idpId"), o.needed("providedUserId"), o.text("providedUserName"))
}

func (z *zitadel) link(userID, idpID, externalID, name string) {
	z.idpLink(&transferv1.TransferIDPLink{OrgId: z.org.id, UserId: userID, IdpId: idpID, ExternalUserId: externalID, ExternalUsername: name})
}

func (z *zitadel) oidcIDP(o *jsonObject) {
	id, of := o.needed("idpId"), o.member("idp")
	of.ignore("stylingType")
	for _, mapping := range []string{"displayNameMapping", "usernameMapping"} {
		if text := of.text(mapping); text != "" && !strings.HasSuffix(text, "_UNSPECIFIED") {
			z.Lost("idps", id, "without "+mapping+": the standard claims are used")
		}
	}
	auto, yes := of.flag("autoRegister"), true
	z.put("idps", id, &transferv1.TransferIDP{
		Id: id, OrgId: z.org.id, Type: idpv3.ProviderType_PROVIDER_TYPE_OIDC, Name: either(of.text("name"), id), ClientId: of.text("clientId"),
		ClientSecret: []byte(of.text("clientSecret")), Issuer: of.text("issuer"), Scopes: of.texts("scopes"),
		StatePolicy: object.StatePolicy_STATE_POLICY_ACTIVATE,
		Options:     &idpv3.Options{IsLinkingAllowed: &yes, IsCreationAllowed: &yes, IsAutoCreation: &auto},
	})
	of.done()
}

func (r *reading) totp(orgID, userID string, secret []byte, name string) {
	if len(secret) == 0 {
		r.Lost("authenticators", userID, strings.TrimSpace("the secret of one-time passwords is not readable "+name))
		return
	}
	r.put("authenticators", userID, &transferv1.TransferAuthenticator{
		Id: derived("totp", userID, string(secret)), OrgId: orgID, UserId: userID, Secret: secret, IsVerified: true,
		Type: authenticatorv3.SecondFactorType_SECOND_FACTOR_TYPE_TOTP,
	})
}

func (r *reading) idpLink(link *transferv1.TransferIDPLink) {
	link.Id = derived("link", link.UserId, link.IdpId, link.ExternalUserId)
	r.put("idpLinks", link.UserId+"/"+link.IdpId, link)
}
