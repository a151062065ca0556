package step

import (
	"cmp"
	"context"
	"errors"

	"github.com/writ-id/writ/impl/oidc/login/federation"
	"github.com/writ-id/writ/impl/oidc/login/flow"
	"github.com/writ-id/writ/impl/oidc/login/page"
	"github.com/writ-id/writ/impl/oidc/login/registration"
)

// takeExternal begins a round trip to the identity provider that was chosen.
func (s *Steps) takeExternal(ctx context.Context, q *Request) (Answer, error) {
	return s.Leave(ctx, q, q.Form.Get("idp"))
}

// Leave sends the browser to an identity provider.
func (s *Steps) Leave(ctx context.Context, q *Request, idpID string) (Answer, error) {
	l := q.login()
	l.Flow = q.Flow.After(flow.Left{})
	address, refused, err := s.Federation.Begin(ctx, l, idpID)
	return Answer{Address: address, Event: refused}, err
}

// found returns the account of a login that is in the state Unlinked.
func (s *Steps) found(ctx context.Context, q *Request) (*federation.Found, flow.Event, error) {
	return s.Federation.Find(ctx, q.login(), q.Flow.State().(flow.Unlinked).External)
}

// The reasons of refusals of what the provider does not allow here.
var (
	gone    = flow.Refused{Reason: "idp_gone"}
	unknown = flow.Refused{Reason: "idp_unknown"}
)

// showUnlinked shows what can become of an account that no user is linked to.
func (s *Steps) showUnlinked(ctx context.Context, q *Request) (Answer, error) {
	found, refused, err := s.found(ctx, q)
	if found == nil {
		return Answer{Event: refused}, err
	}
	p, links, w := q.Words.Of(q.Flow, "unknown", flow.PathUnlinked), found.Provider.Linking, q.Words
	account := cmp.Or(found.GetEmail(), found.GetUsername(), found.GetDisplayName(), found.GetSubject())
	p.Lead = w.Get("unknown.lead", account, found.Provider.Name)
	switch {
	case found.GetLoginName() != "":
		p.Head, p.Submit, p.Action = w.Get("match.head"), w.Get("link.connect"), flow.PathLink
		p.Lead = w.Get("match.lead", account, found.Provider.Name)
		if found.MayCreate && !found.GetIsEmailVerified() {
			p.Other = append(p.Other, w.Link("create", flow.PathUnlinked))
		}
	case found.MayCreate:
		p.Submit = w.Get("link.create")
		if links {
			p.Other = append(p.Other, w.Link("connect", flow.PathLink))
		}
	case links:
		p.Submit, p.Action = w.Get("link.connect"), flow.PathLink
	default:
		return Answer{Event: unknown}, nil
	}
	p.Links = append(p.Links, w.Link("back", flow.PathName))
	return ask(p)
}

// takeUnlinked goes on to a new user.
func (s *Steps) takeUnlinked(context.Context, *Request) (Answer, error) {
	return Answer{To: flow.PathCreate}, nil
}

// takeLink has the user prove who they are, to link the account to them.
func (s *Steps) takeLink(ctx context.Context, q *Request) (Answer, error) {
	found, refused, err := s.found(ctx, q)
	switch {
	case found == nil:
		return Answer{Event: refused}, err
	case !found.Provider.Linking:
		return Answer{Event: gone}, nil
	}
	return Answer{Event: flow.Linking{}}, nil
}

// showCreate shows the form for a new user, filled in by the provider.
func (s *Steps) showCreate(ctx context.Context, q *Request) (Answer, error) {
	found, refused, err := s.creatable(ctx, q)
	if found == nil {
		return Answer{Event: refused}, err
	}
	return ask(createPage(q, found, found.Form()))
}

// takeCreate makes the user. An address that the provider does not vouch for needs a
// code, and whether it is known is not told (SEC-170).
func (s *Steps) takeCreate(ctx context.Context, q *Request) (Answer, error) {
	found, refused, err := s.creatable(ctx, q)
	if found == nil {
		return Answer{Event: refused}, err
	}
	said := formSaid(q)
	if mistakes := mistakesIn(said); len(mistakes) > 0 {
		return again(createPage(q, found, said), mistakes...)
	}
	event, err := s.Federation.Create(ctx, q.login(), found, said)
	if errors.Is(err, registration.ErrKnown) {
		return wrong(createPage(q, found, said), page.Mistake{Field: registration.FieldEmail, Key: "email.known"})
	}
	return Answer{Event: event, Counts: true}, err // the address that was typed gets a message
}

// creatable is found for what can become a new user.
func (s *Steps) creatable(ctx context.Context, q *Request) (*federation.Found, flow.Event, error) {
	found, refused, err := s.found(ctx, q)
	if found != nil && !found.MayCreate {
		return nil, gone, nil
	}
	return found, refused, err
}

func createPage(q *Request, found *federation.Found, said registration.Form) *page.Page {
	p := q.Words.Of(q.Flow, "register", flow.PathCreate)
	p.Lead = q.Words.Get("external.lead", found.Provider.Name)
	p.Fields = personFields(q, said)
	if found.Provider.Linking {
		p.Other = append(p.Other, q.Words.Link("connect", flow.PathLink))
	}
	return p
}
