package step

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/oidc/login/flow"
	"github.com/writ-id/writ/impl/oidc/login/page"
)

// showName shows the page that asks for the login name.
func (s *Steps) showName(ctx context.Context, q *Request) (Answer, error) {
	p, err := s.namePage(ctx, q, q.Flow.Hint())
	return Answer{Page: p}, err
}

// takeName takes the login name. Whether there is such a user is not looked up:
// the next page is the same for all (SEC-170).
func (s *Steps) takeName(ctx context.Context, q *Request) (Answer, error) {
	name := CanonicalName(q.Form.Get("loginName"))
	if name == "" {
		p, err := s.namePage(ctx, q, q.Form.Get("loginName"))
		return Answer{Page: p, Mistakes: []page.Mistake{{Field: "loginName", Key: "loginName.required"}}}, err
	}
	owner, err := s.domainOrg(ctx, q, name)
	return Answer{Event: flow.Named{LoginName: name, DomainOrg: owner}, To: flow.PathPassword}, err
}

func (s *Steps) namePage(ctx context.Context, q *Request, name string) (*page.Page, error) {
	p := q.Words.Of(q.Flow, "name", flow.PathName)
	p.Fields = []page.Field{{Name: "loginName", Type: "text", Value: name, Autocomplete: "username", Username: true}}
	if q.Browser.Instance.AllowRegistration {
		p.Links = append(p.Links, q.Words.Link("register", flow.PathRegister))
	}
	if q.Browser.Jar.HasSessions() {
		p.Links = append(p.Links, q.Words.Link("accounts", flow.PathAccounts))
	}
	return s.withProviders(ctx, q, p)
}

// CanonicalName returns the one form of a login name that was typed (SEC-174), ""
// when no name can be like that.
func CanonicalName(typed string) string {
	if len(typed) > flow.MaxHint || !utf8.ValidString(typed) || strings.ContainsRune(typed, 0) {
		return ""
	}
	return norm.NFC.String(strings.TrimSpace(typed))
}

// domainOrg returns which organization a verified domain of a login name leads to (SEC-222).
func (s *Steps) domainOrg(ctx context.Context, q *Request, name string) (string, error) {
	at := strings.LastIndexByte(name, '@')
	if at < 0 || q.Flow.Asked().OrgID != "" {
		return "", nil
	}
	instanceID, domain := q.Browser.Instance.ID, strings.ToLower(name[at+1:])
	return s.domains.Get(ctx, instanceID+"\x00"+domain, func(ctx context.Context) (string, error) {
		owner, err := s.queries.OrgByDomain(ctx, s.DB.Pool, db.OrgByDomainParams{InstanceID: instanceID, Domain: domain})
		if store.NoRow(err) {
			err = nil
		}
		return owner, err
	})
}

// Resolve returns whom a login name means here; with an empty ID nobody. A username alone means
// the user of the default organization, else the only one who has it: so a user who came with
// an organization from elsewhere is called what they were called there. One that
// reads like somebody's login name or verified address gives way to that; what is the
// login name of one and the address of another, or the address of two, means neither:
// nothing but a rank could decide, and the wrong one would be asked for a password, or
// sent the code for a new one (SEC-174). Whoever is meant has other names.
func (s *Steps) Resolve(ctx context.Context, f *flow.Flow, instanceID, defaultOrg, name string) (none db.LoginCandidatesRow, err error) {
	asked := f.Asked()
	params := db.LoginCandidatesParams{
		InstanceID: instanceID, NameFolded: resource.Fold(name), DefaultOrg: defaultOrg, OnlyOrg: asked.OrgID, OnlyUser: asked.UserID,
	}
	if at := strings.LastIndexByte(name, '@'); at >= 0 {
		params.UsernameFolded, params.Domain = resource.Fold(name[:at]), strings.ToLower(name[at+1:])
	}
	found, err := s.queries.LoginCandidates(ctx, s.DB.Pool, params)
	if err != nil {
		return none, err
	}
	for _, weak := range []int32{byOnlyUsername, byUsername} {
		is := func(one db.LoginCandidatesRow) bool { return one.Rank == weak }
		if !slices.ContainsFunc(found, func(one db.LoginCandidatesRow) bool { return !is(one) }) {
			break
		}
		found = slices.DeleteFunc(found, is)
	}
	if len(found) == 0 || slices.ContainsFunc(found, func(one db.LoginCandidatesRow) bool { return one.ID != found[0].ID }) {
		return none, nil
	}
	return found[0], nil
}

// byUsername is the rank of a candidate who is meant by a username of the default organization
// alone, byOnlyUsername of one of any.
const byUsername, byOnlyUsername = 2, 4

// showAccounts shows the accounts of the browser. Without any there is nothing to
// choose.
func (s *Steps) showAccounts(ctx context.Context, q *Request) (Answer, error) {
	sessions, err := q.Browser.Load(ctx, q.Flow)
	if err != nil || len(sessions) == 0 {
		return Answer{To: flow.PathName}, err
	}
	p := q.Words.Of(q.Flow, "accounts", flow.PathAccounts)
	if q.Flow.Asked().Request == "" {
		p.Lead = q.Words.Get("accounts.nowhere")
	}
	now, chosen := s.Now(), false
	for i := range sessions {
		k := &sessions[i]
		one := page.NewAccount(k.ID, k.DisplayName, k.LoginName)
		if !k.IsComplete(now) || !q.Flow.IsFresh(&k.Session, now) {
			one.State = q.Words.Get("accounts.again")
		}
		if k.LoginName == q.Flow.Hint() {
			one.Focus, chosen = true, true
		}
		p.Accounts = append(p.Accounts, one)
	}
	if !chosen {
		p.Accounts[0].Focus = true
	}
	return ask(p)
}

// takeAccount goes on with the account that was chosen: what its session lacks is
// asked for first.
func (s *Steps) takeAccount(ctx context.Context, q *Request) (Answer, error) {
	if _, err := q.Browser.Load(ctx, q.Flow); err != nil {
		return Answer{}, err
	}
	k := q.Browser.Find(q.Form.Get("session"))
	if k == nil { // another one, or one that is gone
		return Answer{Event: flow.Another{}}, nil
	}
	return Answer{Event: flow.Chose{SessionID: k.ID, LoginName: k.LoginName}}, nil
}
