package federation

import (
	"cmp"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	idpv3 "github.com/writ-id/writ/gen/proto/writ/idp/v3alpha"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/api/session"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/upstream"
	"github.com/writ-id/writ/impl/oidc/login/browser"
	"github.com/writ-id/writ/impl/oidc/login/flow"
	"github.com/writ-id/writ/impl/oidc/login/rule"
)

// stranger returns the verdict on an identity that no user is linked to: it becomes a user at
// once, or the choice is offered.
func (s *Service) stranger(ctx context.Context, l *Login, p *upstream.Provider, pending *tokenv1.Upstream, who *upstream.Identity, at time.Time) (flow.Event, error) {
	vouched, err := s.vouches(ctx, l, p, who)
	if err != nil {
		return nil, err
	}
	e := &tokenv1.External{
		Id: pending.GetId(), EndedAt: s.Now().Unix(), ProviderId: p.ID, Realm: p.Realm(), Subject: who.Subject, Username: who.Username, AuthTime: at.Unix(),
		GivenName: who.GivenName, FamilyName: who.FamilyName, DisplayName: who.DisplayName, Nickname: who.Nickname, Language: who.Language,
	}
	if rule.IsEmail(who.Email) {
		e.Email, e.IsEmailVerified = who.Email, vouched
	}
	match, err := s.candidate(ctx, l, p, e)
	if err != nil {
		return nil, err
	}
	e.LoginName = match.LoginName
	found := &Found{e, p, mayCreate(l, p)}
	if match.ID == "" && p.AutoCreation && found.MayCreate {
		return s.createUnasked(ctx, l, found)
	}
	if !p.Linking && !found.MayCreate {
		return flow.Refused{Reason: "idp_unknown"}, nil
	}
	return flow.Met{External: e}, nil
}

// candidate is whom an unknown identity may be, by the way that the provider allows
// (SEC-202): only where it is active; several are none.
func (s *Service) candidate(ctx context.Context, l *Login, p *upstream.Provider, who *tokenv1.External) (none db.LinkCandidatesRow, err error) {
	asked := l.Flow.Asked()
	params := db.LinkCandidatesParams{
		InstanceID: l.instance(), OnlyOrg: cmp.Or(asked.OrgID, p.OrgID), OnlyUser: asked.UserID,
		DefaultOrg: cmp.Or(p.OrgID, l.Flow.Home(), l.Browser.Instance.DefaultOrg),
	}
	switch {
	case !p.Linking:
		return none, nil
	case p.AutoLinking == upstream.LinkByEmail && who.GetIsEmailVerified():
		params.EmailFolded = resource.Fold(who.GetEmail())
	case p.AutoLinking == upstream.LinkByUsername && who.GetUsername() != "":
		params.UsernameFolded = resource.Fold(who.GetUsername())
	default:
		return none, nil
	}
	found, err := s.queries.LinkCandidates(ctx, s.DB.Pool, params)
	if err != nil || len(found) != 1 {
		return none, err
	}
	there, err := s.provider(ctx, l, found[0].OrgID, p.ID)
	if err != nil || there == nil {
		return none, err
	}
	return found[0], nil
}

// Link links the account of a login to the user of a session, who has just proven who they
// are. The session notes that they have signed in by it.
func (s *Service) Link(ctx context.Context, l *Login, k *browser.Session) (flow.Event, error) {
	found, refused, err := s.Find(ctx, l, l.Flow.Link())
	if found == nil {
		return refused, err
	}
	there, err := s.provider(ctx, l, k.OrgID, found.Provider.ID)
	if err != nil {
		return nil, err
	}
	if there == nil || !found.Provider.Linking {
		return errGone, nil
	}
	first := false
	err = s.DB.InTx(ctx, func(tx pgx.Tx) (err error) {
		if first, err = s.once(ctx, tx, l.instance(), "identity", found.GetId()); err != nil || !first {
			return err
		}
		_, err = s.Links.In(tx).AddIDPLink(l.Browser.As(ctx, k.OrgID, k.UserID), &idpv3.AddIDPLinkRequest{UserId: k.UserID, Link: &idpv3.IDPLink{
			IdpId: found.Provider.ID, ExternalUserId: found.GetSubject(), ExternalUsername: found.GetUsername(),
		}})
		return err
	})
	switch {
	case browser.ReasonOf(err) == "IDP_LINK_EXISTS":
		return flow.Refused{Reason: "idp_linked"}, nil
	case err != nil:
		return nil, err
	case !first:
		return flow.Refused{Reason: "idp_again"}, nil
	}
	id, err := l.Browser.SignInBy(ctx, l.Flow, k.OrgID, k.UserID, session.Intent{
		IDPID: found.Provider.ID, ExternalUserID: found.GetSubject(), AuthTime: time.Unix(found.GetAuthTime(), 0).UTC(),
	})
	return flow.Linked{SessionID: id}, err
}
