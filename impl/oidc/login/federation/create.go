package federation

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/impl/oidc/login/browser"
	"github.com/writ-id/writ/impl/oidc/login/flow"
	"github.com/writ-id/writ/impl/oidc/login/registration"
)

// Form is what a provider says of a new user, as a form is filled in with it.
func (f *Found) Form() registration.Form {
	said := registration.Form{GivenName: f.GetGivenName(), FamilyName: f.GetFamilyName(), Email: f.GetEmail(), LoginName: f.GetUsername()}
	if at := strings.IndexByte(said.LoginName, '@'); at >= 0 { // no username reads like an address
		said.LoginName = said.LoginName[:at]
	}
	return said
}

// createUnasked makes a user of what the provider says. One whose address is another user's
// may choose to link the account to that.
func (s *Service) createUnasked(ctx context.Context, l *Login, found *Found) (flow.Event, error) {
	event, err := s.create(ctx, l, found, found.Form(), false)
	if !errors.Is(err, registration.ErrKnown) {
		return event, err
	}
	if found.Provider.Linking {
		return flow.Met{External: found.External}, nil
	}
	return flow.Refused{Reason: "idp_taken"}, nil
}

// Create makes a user of an account, and of what they say of themselves. It fails with
// registration.ErrKnown when the provider vouches for an address that is another user's.
func (s *Service) Create(ctx context.Context, l *Login, found *Found, said registration.Form) (flow.Event, error) {
	return s.create(ctx, l, found, said, true)
}

func (s *Service) create(ctx context.Context, l *Login, found *Found, said registration.Form, asked bool) (flow.Event, error) {
	org := newHome(l, found)
	at, err := s.Registrations.At(ctx, l.Browser, registration.Where{OrgID: org, Language: l.Language}, said.Email)
	if err != nil {
		return nil, err
	}
	there, err := s.provider(ctx, l, org, found.Provider.ID)
	if err != nil {
		return nil, err
	}
	if there == nil {
		return errGone, nil
	}
	begun, err := s.Registrations.Adopt(ctx, at, said, registration.External{External: found.External, Asked: asked, Use: func(ctx context.Context, tx pgx.Tx) (bool, error) {
		return s.once(ctx, tx, l.instance(), "identity", found.GetId())
	}})
	switch {
	case browser.ReasonOf(err) == "CHECK_FAILED": // nobody can sign in in that organization
		return flow.Refused{Reason: "idp_unsuitable"}, nil
	case errors.Is(err, registration.ErrUsed), browser.ReasonOf(err) == "IDP_LINK_EXISTS":
		return flow.Refused{Reason: "idp_again"}, nil
	case err != nil:
		return nil, err
	}
	l.Browser.Jar.Add(begun.SessionToken, "")
	if begun.Verifies {
		return flow.Registered{UserID: begun.UserID, Address: said.Email, SessionID: begun.SessionID, Since: l.Browser.Began.Unix()}, nil
	}
	return flow.Proved{
		SessionID: begun.SessionID, LoginName: cmp.Or(said.Email, found.GetUsername(), found.GetSubject()), Since: l.Browser.Began.Unix(),
	}, nil
}

// newHome returns the organization of a new user: what anybody can type, a domain of the
// login name, leads to one only with a provider or an address of its own.
func newHome(l *Login, found *Found) string {
	home := l.Flow.Asked().OrgID
	if domain := l.Flow.DomainOrg(); home == "" && domain != "" && found.Provider.OrgID == domain {
		home = domain
	}
	return cmp.Or(home, found.Provider.OrgID, l.Browser.Instance.DefaultOrg)
}
