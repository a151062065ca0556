package login

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/writ-id/writ/gen/db"
	idpv3 "github.com/writ-id/writ/gen/proto/writ/idp/v3alpha"
	sessionv3 "github.com/writ-id/writ/gen/proto/writ/session/v3alpha"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/api/session"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/upstream"
	"github.com/writ-id/writ/impl/oidc/login/registration"
	"github.com/writ-id/writ/impl/oidc/login/rule"
)

// What becomes of somebody whom an identity provider has authenticated. Who they are is the
// provider and its subject, never an address or a name (SEC-201): whoever is linked to that
// is signed in. All others are strangers, who may link it to a user that they prove to be,
// or become a new one, as far as the options of the provider say so (SEC-202).

// externalLifetime is how long what a provider said can be used.
const externalLifetime = upstream.Lifetime

// recognize goes on with an identity.
func recognize(v *visit, p *upstream.Provider, pending *tokenv1.Upstream, who *upstream.Identity) error {
	at, ok := authenticated(v, pending, who)
	if !ok {
		return v.back("idp_stale")
	}
	linked, err := v.queries.LinkedUser(v.r.Context(), v.DB.Pool, db.LinkedUserParams{InstanceID: v.instance.ID, IdpID: p.ID, ExternalUserID: who.Subject})
	if store.NoRow(err) {
		return strange(v, p, pending, who, at)
	}
	if err != nil {
		return err
	}
	return enter(v, p, who, &linked, at)
}

// authenticated returns when the user authenticated at the provider, and whether that is as
// late as the login asks for. Who does not say when is believed to have done it now.
func authenticated(v *visit, pending *tokenv1.Upstream, who *upstream.Identity) (time.Time, bool) {
	at, wanted := v.Now(), v.flow.GetNotBefore()
	if v.flow.GetFresh() {
		wanted = max(wanted, pending.GetStartedAt())
		v.flow.Fresh, v.flow.NotBefore = false, wanted
	}
	if !who.AuthTime.IsZero() && who.AuthTime.Before(at) {
		at = who.AuthTime
	}
	if at.Unix() < wanted && at.Add(time.Minute).Unix() >= wanted { // clocks differ
		at = time.Unix(wanted, 0).UTC()
	}
	return at, at.Unix() >= wanted
}

// suits reports whether a linked user may sign in here and now: the login may be for others
// only, the provider switched off where they are (SEC-018, SEC-205).
func suits(v *visit, p *upstream.Provider, linked *db.LinkedUserRow) (bool, error) {
	const active = userv3.UserState_USER_STATE_ACTIVE
	if linked.State != active || linked.OrgState != 1 || v.flow.GetOrgId() != "" && v.flow.GetOrgId() != linked.OrgID || v.flow.GetUserId() != "" && v.flow.GetUserId() != linked.ID {
		return false, nil
	}
	there, err := v.upstreamOf(linked.OrgID, p.ID)
	return there != nil, err
}

// enter signs in the user who is linked to an identity.
func enter(v *visit, p *upstream.Provider, who *upstream.Identity, linked *db.LinkedUserRow, at time.Time) error {
	if linked.IsRegistering { // they made an account before, and have to verify their address still
		v.flow.Registering, v.flow.CodeUserId, v.flow.Address, v.flow.LoginName = true, linked.ID, linked.Email, linked.Email
		if err := sendAgain(v); err != nil {
			return err
		}
		return v.to(pathVerify)
	}
	ok, err := suits(v, p, linked)
	if err != nil {
		return err
	}
	if !ok {
		return v.back("idp_unsuitable")
	}
	if err := refresh(v, p, who, linked); err != nil {
		return err
	}
	intent := session.Intent{IDPID: p.ID, ExternalUserID: who.Subject, AuthTime: at}
	if err := signInBy(v, linked.OrgID, linked.ID, intent); err != nil {
		if reasonOf(err) == "CHECK_FAILED" { // they were ended, or unlinked, meanwhile
			return v.back("idp_unsuitable")
		}
		return err
	}
	v.flow.LoginName, v.flow.Registering = linked.LoginName, false
	if err := v.browser().remember(&tokenv1.KnownUser{UserId: linked.ID, Generation: linked.Generation}); err != nil {
		return err
	}
	return v.advance()
}

// signInBy notes in the session that this browser has for the user, or in a new one, with
// which provider they signed in. The session gets another token (SEC-141).
func signInBy(v *visit, orgID, userID string, intent session.Intent) error {
	if err := v.load(); err != nil {
		return err
	}
	idle, err := v.idle(v.r.Context(), v.instance.ID, orgID)
	if err != nil {
		return err
	}
	for i := range v.sessions {
		k := &v.sessions[i]
		if k.UserID != userID {
			continue
		}
		made, err := v.Sessions.PatchByIntent(asUser(v, k), &sessionv3.PatchSessionRequest{
			Id: k.ID, Session: &sessionv3.PatchSession{SessionToken: &k.token, Lifetime: durationpb.New(idle)},
		}, intent)
		if reason := reasonOf(err); reason != "NOT_FOUND" && reason != "SESSION_EXPIRED" && reason != "SESSION_TOKEN_INVALID" {
			if err == nil {
				v.proved(k.ID, made.GetSessionToken(), k.token)
			}
			return err
		}
	}
	made, err := v.Sessions.CreateByIntent(v.as(v.r.Context(), v.instance, orgID, userID), &sessionv3.Session{
		Checks:   &sessionv3.Checks{User: &sessionv3.CheckUser{Search: &sessionv3.CheckUser_UserId{UserId: userID}}},
		Lifetime: durationpb.New(idle), UserAgent: userAgent(v),
	}, intent)
	if err == nil {
		v.proved(made.GetDetails().GetId(), made.GetSessionToken(), "")
	}
	return err
}

// refresh brings a user up to date with what the provider says, if it is to.
func refresh(v *visit, p *upstream.Provider, who *upstream.Identity, linked *db.LinkedUserRow) error {
	ctx := v.as(v.r.Context(), v.instance, linked.OrgID, linked.ID)
	if name := who.Username; name != "" && name != linked.ExternalUsername {
		if err := v.Links.Rename(ctx, linked.LinkID, name); err != nil && reasonOf(err) != "NOT_FOUND" {
			return err
		}
	}
	if !p.AutoUpdate {
		return nil
	}
	patch := &userv3.PatchHuman{Profile: &userv3.PatchProfile{}}
	for _, one := range []struct {
		to   **string
		said string
	}{{&patch.Profile.GivenName, who.GivenName}, {&patch.Profile.FamilyName, who.FamilyName}, {&patch.Profile.NickName, who.Nickname}, {&patch.Profile.DisplayName, who.DisplayName}} {
		if one.said != "" { // what it does not say stays
			*one.to = &one.said
		}
	}
	address, err := ownAddress(v, p, who, linked.ID)
	if err != nil {
		return err
	}
	if address != "" {
		yes := true
		patch.Email = &userv3.PatchEmail{Address: &address, IsVerified: &yes}
	}
	_, err = v.Users.PatchUser(ctx, &userv3.PatchUserRequest{Id: linked.ID, User: &userv3.PatchUser{Type: &userv3.PatchUser_Human{Human: patch}}})
	if refusal, ok := errors.AsType[*fault.Error](err); ok && refusal.Kind == fault.InvalidArgument {
		v.Logger.WarnContext(ctx, "what an identity provider says of a user cannot be stored", "idp", p.ID, "user", linked.ID, policy.LogID(ctx), "err", err)
		return nil
	}
	return err
}

// ownAddress returns the address of a user if the provider vouches for it and it is nobody
// else's.
func ownAddress(v *visit, p *upstream.Provider, who *upstream.Identity, userID string) (string, error) {
	vouched, err := v.vouched(p, who)
	if err != nil || !vouched || !rule.IsEmail(who.Email) {
		return "", err
	}
	owner, err := v.queries.UserOfEmail(v.r.Context(), v.DB.Pool, db.UserOfEmailParams{InstanceID: v.instance.ID, EmailFolded: resource.Fold(who.Email)})
	if store.NoRow(err) || err == nil && owner.ID == userID {
		return who.Email, nil
	}
	return "", err
}

// strange goes on with an identity that no user is linked to.
func strange(v *visit, p *upstream.Provider, pending *tokenv1.Upstream, who *upstream.Identity, at time.Time) error {
	vouched, err := v.vouched(p, who)
	if err != nil {
		return err
	}
	e := &tokenv1.External{
		Id: pending.GetId(), EndedAt: v.Now().Unix(), ProviderId: p.ID, Realm: p.Realm(), Subject: who.Subject, Username: who.Username, AuthTime: at.Unix(),
		GivenName: who.GivenName, FamilyName: who.FamilyName, DisplayName: who.DisplayName, Nickname: who.Nickname, Language: who.Language,
	}
	if rule.IsEmail(who.Email) {
		e.Email, e.IsEmailVerified = who.Email, vouched
	}
	v.flow.External, v.flow.Linking = e, false
	match, err := candidate(v, p, e)
	if err != nil {
		return err
	}
	e.LoginName = match.LoginName
	if match.ID == "" && p.AutoCreation && mayCreate(v) {
		return adopt(v, p, e, formOf(e), false)
	}
	if !p.Linking && !mayAdopt(v)(p) {
		v.flow.External = nil
		return v.back("idp_unknown")
	}
	return v.to(pathUnknown)
}

// mayCreate reports whether anybody new can be who a login asks for.
func mayCreate(v *visit) bool {
	return v.flow.GetUserId() == "" && cmp.Or(v.home(), v.instance.DefaultOrg) != ""
}

// external returns the identity that a login goes on with, and its provider, as that is
// now; nil when the browser was sent back.
func external(v *visit, may func(*upstream.Provider) bool) (*upstream.Provider, *tokenv1.External, error) {
	e := v.flow.GetExternal()
	if e == nil || v.Now().Sub(time.Unix(e.GetEndedAt(), 0)) >= externalLifetime {
		v.flow.External, v.flow.Linking = nil, false
		return nil, nil, v.back("idp_expired")
	}
	p, err := v.upstreamOf(v.home(), e.GetProviderId())
	if err != nil {
		return nil, nil, err
	}
	if p == nil || p.Realm() != e.GetRealm() || !may(p) {
		v.flow.External, v.flow.Linking = nil, false
		return nil, nil, v.back("idp_gone")
	}
	return p, e, nil
}

func mayLink(p *upstream.Provider) bool { return p.Linking }

// provedHere reports whether the user proved their password since the identity came.
func (v *visit) provedHere(k *browserSession) bool {
	return k.hasPassword(v.Now()) && k.PasswordVerifiedAt.Unix() >= v.flow.GetExternal().GetEndedAt()
}

// takeLink has the user prove who they are, to link the identity to them.
func takeLink(v *visit) error {
	p, e, err := external(v, mayLink)
	if p == nil {
		return err
	}
	v.flow.Linking, v.flow.SessionId, v.flow.LoginName = true, "", e.GetLoginName()
	v.flow.NotBefore = max(v.flow.GetNotBefore(), e.GetEndedAt()) // of second factors, too
	if v.flow.GetLoginName() == "" {
		return v.to(pathName)
	}
	return v.to(pathPassword)
}

// linkExternal links the identity of a login to the user who has proven who they are. It
// reports false when the browser was sent elsewhere.
func linkExternal(v *visit, k *browserSession) (bool, error) {
	p, e, err := external(v, mayLink)
	if p == nil {
		return false, err
	}
	v.flow.External, v.flow.Linking = nil, false
	there, err := v.upstreamOf(k.OrgID, p.ID)
	if err != nil {
		return false, err
	}
	if there == nil {
		return false, v.back("idp_gone")
	}
	first := false
	err = v.DB.InTx(v.r.Context(), func(tx pgx.Tx) (err error) {
		if first, err = v.once(tx, "identity", e.GetId()); err != nil || !first {
			return err
		}
		_, err = v.Links.In(tx).AddIDPLink(asUser(v, k), &idpv3.AddIDPLinkRequest{UserId: k.UserID, Link: &idpv3.IDPLink{
			IdpId: p.ID, ExternalUserId: e.GetSubject(), ExternalUsername: e.GetUsername(),
		}})
		return err
	})
	switch {
	case reasonOf(err) == "IDP_LINK_EXISTS":
		return false, v.back("idp_linked")
	case err != nil:
		return false, err
	case !first:
		return false, v.back("idp_again")
	}
	intent := session.Intent{IDPID: p.ID, ExternalUserID: e.GetSubject(), AuthTime: time.Unix(e.GetAuthTime(), 0).UTC()}
	return true, signInBy(v, k.OrgID, k.UserID, intent)
}

// showUnknown shows what can become of an identity that no user is linked to.
func showUnknown(v *visit) error {
	p, e, err := external(v, func(*upstream.Provider) bool { return true })
	if p == nil {
		return err
	}
	shown := v.page("unknown", pathUnknown)
	account := cmp.Or(e.GetEmail(), e.GetUsername(), e.GetDisplayName(), e.GetSubject())
	create := mayAdopt(v)(p)
	shown.Lead = v.words.get("unknown.lead", account, p.Name)
	switch {
	case e.GetLoginName() != "":
		shown.Head, shown.Submit, shown.Action = v.words.get("match.head"), v.words.get("link.connect"), pathLink
		shown.Lead = v.words.get("match.lead", account, p.Name)
		if create && !e.GetIsEmailVerified() {
			shown.Other = append(shown.Other, v.link("create", pathUnknown))
		}
	case create:
		shown.Submit = v.words.get("link.create")
		if p.Linking {
			shown.Other = append(shown.Other, v.link("connect", pathLink))
		}
	case p.Linking:
		shown.Submit, shown.Action = v.words.get("link.connect"), pathLink
	default:
		return v.back("idp_unknown")
	}
	shown.Links = append(shown.Links, v.link("back", pathName))
	return v.render(shown, nil)
}

// takeUnknown goes on to a new user.
func takeUnknown(v *visit) error { return v.to(pathNewExternal) }

// formOf fills in what a provider says of a new user.
func formOf(e *tokenv1.External) registration.Form {
	said := registration.Form{GivenName: e.GetGivenName(), FamilyName: e.GetFamilyName(), Email: e.GetEmail(), LoginName: e.GetUsername()}
	if at := strings.IndexByte(said.LoginName, '@'); at >= 0 { // no username reads like an address
		said.LoginName = said.LoginName[:at]
	}
	return said
}

// mayAdopt reports whether a login by a provider can end with a new user.
func mayAdopt(v *visit) func(*upstream.Provider) bool {
	return func(p *upstream.Provider) bool { return (p.Creation || p.AutoCreation) && mayCreate(v) }
}

// showNewExternal shows the form for a new user, filled in by the provider.
func showNewExternal(v *visit) error {
	p, e, err := external(v, mayAdopt(v))
	if p == nil {
		return err
	}
	return newExternalForm(v, p, formOf(e), nil)
}

// takeNewExternal makes the user. An address that the provider does not vouch for needs a
// code, and whether it is known is not told (SEC-170).
func takeNewExternal(v *visit) error {
	p, e, err := external(v, mayAdopt(v))
	if p == nil {
		return err
	}
	said := formSaid(v)
	if mistakes := mistakesIn(said); len(mistakes) > 0 {
		return newExternalForm(v, p, said, mistakes)
	}
	v.spent = true // whose address it is said to be gets a message
	return adopt(v, p, e, said, true)
}

func newExternalForm(v *visit, p *upstream.Provider, said registration.Form, mistakes []mistake) error {
	shown := v.page("register", pathNewExternal)
	shown.Lead = v.words.get("external.lead", p.Name)
	shown.Fields = personFields(v, said)
	if p.Linking {
		shown.Other = append(shown.Other, v.link("connect", pathLink))
	}
	return v.render(shown, mistakes)
}

// adopt makes a user of an identity. asked is whether the user was asked for what is said of
// them; otherwise it is what the provider says.
func adopt(v *visit, p *upstream.Provider, e *tokenv1.External, said registration.Form, asked bool) error {
	org := v.newHome(p, e)
	at, err := registeringIn(v, org, said.Email)
	if err != nil {
		return err
	}
	there, err := v.upstreamOf(org, p.ID)
	if err != nil {
		return err
	}
	if there == nil {
		return v.back("idp_gone")
	}
	from := registration.External{External: e, Asked: asked, Use: func(ctx context.Context, tx pgx.Tx) (bool, error) {
		return v.onceIn(ctx, tx, v.instance.ID, "identity", e.GetId())
	}}
	var begun *registration.Begun
	enroll := func() (err error) {
		begun, err = v.registrations.Adopt(v.r.Context(), at, said, from)
		return err
	}
	if asked {
		err = inTime(v.r.Context(), enroll)
	} else {
		err = enroll()
	}
	switch {
	case errors.Is(err, registration.ErrKnown) && asked:
		return newExternalForm(v, p, said, []mistake{{registration.FieldEmail, "email.known"}})
	case errors.Is(err, registration.ErrKnown) && p.Linking:
		return v.to(pathUnknown)
	case errors.Is(err, registration.ErrKnown):
		v.flow.External = nil
		return v.back("idp_taken")
	case reasonOf(err) == "CHECK_FAILED": // nobody can sign in in that organization
		return v.back("idp_unsuitable")
	case errors.Is(err, registration.ErrUsed), reasonOf(err) == "IDP_LINK_EXISTS":
		v.flow.External = nil
		return v.back("idp_again")
	case err != nil:
		return err
	}
	v.flow.External = nil
	v.proved(begun.SessionID, begun.SessionToken, "")
	v.flow.LoginName = cmp.Or(said.Email, e.GetUsername(), e.GetSubject())
	if begun.Verifies {
		v.flow.Registering, v.flow.CodeUserId, v.flow.Address = true, begun.UserID, said.Email
		return v.to(pathVerify)
	}
	return v.advance()
}

// newHome returns the organization of a new user: what anybody can type, a domain of the
// login name, leads to one only with a provider or an address of its own.
func (v *visit) newHome(p *upstream.Provider, e *tokenv1.External) string {
	home := v.flow.GetOrgId()
	if domain := v.flow.GetDomainOrgId(); home == "" && domain != "" && p.OrgID == domain {
		home = domain
	}
	return cmp.Or(home, p.OrgID, v.instance.DefaultOrg)
}
