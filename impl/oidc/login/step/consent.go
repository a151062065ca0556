package step

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/writ-id/writ/impl/oidc/login/flow"
	"github.com/writ-id/writ/impl/oidc/login/page"
)

// Consent is what an application asks of a user before its tokens are for the resource API.
type Consent struct {
	AppID, AppName string
	Roles          []Handed // that it gets
}

// Handed is a role that is handed over.
type Handed struct{ Name, ID, Place string }

// Due is the event that there is something to be asked. Where roles are handed over what
// proves the user has to be of this login: an old session is not enough.
func (c *Consent) Due() flow.Event { return flow.ConsentDue{Proof: len(c.Roles) > 0} }

// ids returns the roles as they are stored.
func (c *Consent) ids() []string {
	list := make([]string, len(c.Roles))
	for i, one := range c.Roles {
		list[i] = one.ID
	}
	return list
}

// mark names what a page shows, and to whom: an answer is to that.
func (c *Consent) mark(userID string) string {
	sum := sha256.Sum256([]byte(strings.Join(append(c.ids(), c.AppID, userID), "\x00")))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

func (s *Steps) showConsent(ctx context.Context, q *Request) (Answer, error) {
	asked, gone, err := s.asked(ctx, q)
	if asked == nil {
		return Answer{Event: gone}, err
	}
	return ask(consentPage(q, asked))
}

// asked returns what the user is asked; nil, and what has happened, when nothing is left to
// be asked, or they have to prove first who they are.
func (s *Steps) asked(ctx context.Context, q *Request) (*Consent, flow.Event, error) {
	k := &q.Session.Session
	asked, err := q.Asks(ctx, k)
	if err != nil || asked == nil {
		return nil, flow.Consented{}, err
	}
	if due := asked.Due(); flow.Next(q.Flow.After(due), k, s.Now()) != flow.Consent {
		return nil, due, nil
	}
	return asked, nil, nil
}

// takeConsent stores what the user was shown; a user with other roles since is shown those.
func (s *Steps) takeConsent(ctx context.Context, q *Request) (Answer, error) {
	asked, gone, err := s.asked(ctx, q)
	if asked == nil {
		return Answer{Event: gone}, err
	}
	k := q.Session
	if q.Form.Get("shown") != asked.mark(k.UserID) {
		return Answer{To: flow.PathConsent}, nil
	}
	return Answer{Event: flow.Consented{}}, s.Users.GiveConsent(q.Browser.As(ctx, k.OrgID, k.UserID), k.UserID, asked.AppID, asked.ids())
}

func consentPage(q *Request, asked *Consent) *page.Page {
	p := q.Words.Of(q.Flow, "consent", flow.PathConsent)
	p.Head = q.Words.Get("consent.head", asked.AppName)
	p.Who, p.Change = q.Session.LoginName, q.Words.Link("change", flow.PathName)
	if p.Lead = q.Words.Get("consent.lead"); len(asked.Roles) > 0 {
		p.Lead = q.Words.Get("consent.roles")
	}
	p.Hidden = []page.Param{{Name: "shown", Value: asked.mark(q.Session.UserID)}}
	for _, one := range asked.Roles {
		p.Handed = append(p.Handed, strings.TrimSpace(one.Name+" – "+one.Place))
	}
	return p
}
