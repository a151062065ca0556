package login_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	idpv3 "github.com/writ-id/writ/gen/proto/writ/idp/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/upstream"
	"github.com/writ-id/writ/impl/core/upstream/upstreamtest"
)

// house is a world with a provider.
type house struct {
	*world
	*upstreamtest.Server
	idp string
}

// T is that of the world, which the server has one of, too.
func newHouse(t *testing.T, of upstream.Type, change func(*idpv3.Options)) *house {
	t.Helper()
	server := upstreamtest.New(t, of)
	w := startBehind(t, false, server.Origins())
	server.Now = w.now
	h := &house{world: w, Server: server}
	h.idp = h.add(server, "", change)
	return h
}

// add makes a provider of the instance, or of an organization.
func (h *house) add(server *upstreamtest.Server, org string, change func(*idpv3.Options)) string {
	h.Helper()
	ctx := policy.As(h.Context(), policy.In(h.instance.ID, org), "", h.roles)
	yes, no, never := true, false, idpv3.AutoLinkingOption_AUTO_LINKING_OPTION_UNSPECIFIED
	options := &idpv3.Options{IsLinkingAllowed: &no, IsCreationAllowed: &no, IsAutoCreation: &yes, IsAutoUpdate: &no, AutoLinking: &never}
	if change != nil {
		change(options)
	}
	idp, hidden := &idpv3.IDP{Name: "Provider of <Ada>", Options: options}, upstreamtest.ClientSecret
	var details *object.Details
	var err error
	switch server.Type {
	case upstream.GitHub:
		made, e := h.idps.CreateGitHubIDP(ctx, &idpv3.CreateGitHubIDPRequest{Idp: &idpv3.GitHubIDP{Idp: idp, Config: &idpv3.GitHubConfig{ClientId: upstreamtest.ClientID, ClientSecret: &hidden}}})
		details, err = made.GetDetails(), e
	case upstream.Apple:
		key := string(server.AppleKey)
		made, e := h.idps.CreateAppleIDP(ctx, &idpv3.CreateAppleIDPRequest{Idp: &idpv3.AppleIDP{Idp: idp, Config: &idpv3.AppleConfig{
			ClientId: upstreamtest.ClientID, TeamId: "TEAM123456", KeyId: "KEY1234567", PrivateKey: &key,
		}}})
		details, err = made.GetDetails(), e
	default:
		made, e := h.idps.CreateOIDCIDP(ctx, &idpv3.CreateOIDCIDPRequest{Idp: &idpv3.OIDCIDP{Idp: idp, Config: &idpv3.OIDCConfig{Issuer: server.URL, ClientId: upstreamtest.ClientID, ClientSecret: &hidden}}})
		details, err = made.GetDetails(), e
	}
	if err != nil {
		h.Fatal(err)
	}
	return details.GetId()
}

func yes(to **bool) { is := true; *to = &is }

func no(to **bool) { is := false; *to = &is }

func linking(by idpv3.AutoLinkingOption) func(*idpv3.Options) {
	return func(o *idpv3.Options) { yes(&o.IsLinkingAllowed); no(&o.IsAutoCreation); o.AutoLinking = &by }
}

const (
	byEmail    = idpv3.AutoLinkingOption_AUTO_LINKING_OPTION_EMAIL
	byUsername = idpv3.AutoLinkingOption_AUTO_LINKING_OPTION_USERNAME
)

// press presses the button of a provider.
func (b *browser) press(idp string) *browser {
	b.Helper()
	if b.forms["providers"] == nil {
		b.Fatalf("%s has no buttons of providers: %s", b.path, b.body)
	}
	return b.post(b.forms["providers"].action, url.Values{"flow": b.forms["providers"].values["flow"], "idp": {idp}})
}

// other presses another button of the page, by the ID of its form or where that leads.
func (b *browser) other(id string) *browser {
	b.Helper()
	if b.forms[id] == nil {
		b.Fatalf("%s has no button for %s: %s", b.path, id, b.body)
	}
	return b.post(b.forms[id].action, b.forms[id].values)
}

// caught goes to the provider and returns the address that it sends the browser back to,
// which it does not open.
func (b *browser) caught(idp string) string {
	b.Helper()
	caught := ""
	b.client.CheckRedirect = func(req *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(req.URL.Path, "/login/idp/callback") {
			caught = req.URL.RequestURI()
			return http.ErrUseLastResponse
		}
		return nil
	}
	b.open("/begin").press(idp)
	b.client.CheckRedirect = nil
	if caught == "" {
		b.Fatalf("the browser did not come back: %d %s", b.status, b.body)
	}
	return caught
}

func (h *house) count(table string) string { return h.value("SELECT count(*)::text FROM " + table) }

// TestAnIdentityIsAUserFromTheFirstLoginOn covers creation, the second login, what is
// recorded, and events.
func TestAnIdentityIsAUserFromTheFirstLoginOn(t *testing.T) {
	t.Parallel()
	h := newHouse(t, upstream.OIDC, nil)
	before := h.count("users")
	b := h.browser().open("/begin").want(200, "/login", "Continue with Provider of &lt;Ada&gt;").press(h.idp).want(200, "/done")
	first := h.done()
	if first == nil || first.IDPID != h.idp || !slices.Equal(first.AMR, []string{"fed"}) || first.LoginName != "ada@a.example" || first.DisplayName != "Ada Lovelace" {
		t.Fatalf("got %+v", first)
	}
	if got := h.value("SELECT (is_email_verified AND is_email_proven AND password_hash IS NULL)::text FROM users WHERE id = $1", first.UserID); got != "true" {
		t.Error("the address is not verified")
	}
	if got := h.value("SELECT string_agg(event_type, ' ' ORDER BY sequence) FROM events WHERE aggregate_id IN ($1, $2)", first.UserID, first.ID); !strings.Contains(got, "user.human.externalidp.added") || !strings.Contains(got, "session.intent.checked") {
		t.Errorf("events %s", got)
	}
	tokens := func(b *browser) string {
		at, _ := url.Parse(b.url)
		for _, one := range b.client.Jar.Cookies(at) {
			if one.Name == "writ_sessions" {
				return one.Value
			}
		}
		return ""
	}
	old := tokens(b)
	b.open("/begin").want(200, "/login").press(h.idp).want(200, "/done")
	again := h.done()
	if again == nil || again.UserID != first.UserID || again.ID != first.ID {
		t.Fatalf("the second time: %+v", again)
	}
	if old == "" || tokens(b) == old {
		t.Error("SEC-141: the session has the same token as before")
	}
	h.browser().open("/begin").press(h.idp).want(200, "/done")
	if elsewhere := h.done(); elsewhere == nil || elsewhere.UserID != first.UserID || elsewhere.ID == first.ID {
		t.Errorf("in another browser: %+v", elsewhere)
	}
	if after := h.value("SELECT (count(*) - $1::bigint)::text FROM users", before); after != "1" {
		t.Errorf("%s users were made", after)
	}
}

// TestSEC200_AnAnswerCountsOnceAndWhereItBelongs brings it back elsewhere and twice.
func TestSEC200_AnAnswerCountsOnceAndWhereItBelongs(t *testing.T) {
	t.Parallel()
	h := newHouse(t, upstream.OIDC, nil)
	b := h.browser()
	at := b.caught(h.idp)
	h.browser().open(at).want(400, "/login/idp/callback", "login_expired")
	other := h.browser().open("/begin")
	other.open(at).want(400, "/login/idp/callback", "login_expired")
	path, query, _ := strings.Cut(at, "?")
	b.open(path+"/"+h.idp+"?"+query).want(400, path+"/"+h.idp, "login_expired")
	b.open(strings.Replace(at, "state=", "state=x", 1)).want(400, path, "login_expired")
	b.open(at+"&state=x").want(400, path, "login_expired")
	b.open(path).want(400, path, "login_expired")
	if h.done() != nil || h.count("idp_links") != "0" {
		t.Fatal("somebody is signed in")
	}
	b.open(at).want(200, "/done")
	if h.done() == nil {
		t.Fatal("the control")
	}
	b.open(at).want(200, "/login", "was used before")
	at = b.caught(h.idp)
	h.wait(10 * time.Minute)
	b.open(at).want(400, path, "login_expired")
	if h.done() != nil {
		t.Error("somebody is signed in")
	}
}

// TestSEC017_AStateIsNothingElse swaps it with other sealed things.
func TestSEC017_AStateIsNothingElse(t *testing.T) {
	t.Parallel()
	h := newHouse(t, upstream.OIDC, nil)
	b := h.browser()
	at, _ := url.Parse(b.caught(h.idp))
	state := at.Query().Get("state")
	sealed := b.open("/begin").forms["form"].values.Get("flow")
	b.open("/login/idp/callback?code=x&state="+sealed).want(400, "/login/idp/callback", "login_expired")
	b.open("/login?flow="+state).want(400, "/login", "login_expired")
	b.open("/login/door?door="+state).want(400, "/login/door", "door_closed")
}

// TestSEC205_AProviderIsAskedForWhenItsTripBeginsAndEnds switches it off between.
func TestSEC205_AProviderIsAskedForWhenItsTripBeginsAndEnds(t *testing.T) {
	t.Parallel()
	h := newHouse(t, upstream.OIDC, nil)
	org := h.users["alice"].OrgID
	b := h.browser()
	at := b.caught(h.idp)
	h.exec("UPDATE idps SET state_policy = 2")
	b.open(at).want(200, "/login", "any more")
	if b.forms["providers"] != nil {
		// Buttons are remembered for a second.
		b.press(h.idp).want(200, "/login", "any more")
	}
	h.exec("UPDATE idps SET state_policy = 1")
	b = h.browser()
	b.open("/begin").press(h.idp).want(200, "/done")
	user := h.done().UserID

	// Switched off in the organization of the user.
	word := func(policyOf int) {
		h.exec(`INSERT INTO state_policies (instance_id, org_id, kind, resource_instance_id, resource_id, state_policy, sequence, change_date)
			VALUES ($1, $2, 'idps', $1, $3, $4, 1, now()) ON CONFLICT ON CONSTRAINT state_policies_pkey DO UPDATE SET state_policy = excluded.state_policy`, h.instance.ID, org, h.idp, policyOf)
	}
	word(2)
	h.browser().open("/begin").press(h.idp).want(200, "/login", "with this account")
	word(3)
	for _, state := range []int{2, 4} { // inactive, locked
		h.exec("UPDATE users SET state = $1 WHERE id = $2", state, user)
		h.browser().open("/begin").press(h.idp).want(200, "/login", "with this account")
	}
	h.exec("UPDATE users SET state = 1 WHERE id = $1", user)
	b = h.browser()
	at = b.caught(h.idp)
	h.exec("DELETE FROM idps")
	b.open(at).want(200, "/login", "any more")
	if h.done() != nil {
		t.Error("somebody is signed in")
	}
	if got := h.value("SELECT event_type FROM events WHERE aggregate_id = $1 AND event_type LIKE 'user.human.externalidp%' ORDER BY sequence DESC LIMIT 1", user); got != "user.human.externalidp.cascade.removed" {
		t.Errorf("of the link that went there is %s", got)
	}
}

// TestSEC018_WhoBelongsElsewhereIsNotSignedIn restricts the login.
func TestSEC018_WhoBelongsElsewhereIsNotSignedIn(t *testing.T) {
	t.Parallel()
	h := newHouse(t, upstream.OIDC, nil)
	h.browser().open("/begin").press(h.idp).want(200, "/done")
	user := h.done().UserID
	begin := *h.begin.Load()
	begin.OrgID = h.users["olga"].OrgID
	h.begin.Store(&begin)
	h.browser().open("/begin").press(h.idp).want(200, "/login", "with this account")
	begin.OrgID, begin.UserID = "", h.users["alice"].ID
	h.begin.Store(&begin)
	h.browser().open("/begin").press(h.idp).want(200, "/login", "with this account")
	if h.done() != nil {
		t.Error("somebody is signed in")
	}
	begin.UserID = user
	h.begin.Store(&begin)
	h.browser().open("/begin").press(h.idp).want(200, "/done")
}

// TestSEC201_AnAddressOrANameIsNobody: the same of another provider signs nobody in.
func TestSEC201_AnAddressOrANameIsNobody(t *testing.T) {
	t.Parallel()
	h := newHouse(t, upstream.OIDC, nil)
	h.User.Email, h.User.Username = "alice@mail.example", "alice"
	h.browser().open("/begin").press(h.idp).want(200, "/login", "already")
	h.User.Email = "new@mail.example"
	h.browser().open("/begin").press(h.idp).want(200, "/done")
	if got := h.done(); got.UserID == h.users["alice"].ID || got.LoginName == "alice@a.example" {
		t.Fatalf("got %+v", got)
	}
	second := upstreamtest.New(t, upstream.OIDC)
	second.User, second.Now = h.User, h.now
	idp := h.add(second, "", func(o *idpv3.Options) { no(&o.IsAutoCreation) })
	h.browser().open("/begin").press(idp).want(200, "/login", "none is made")
	if h.done() != nil {
		t.Error("the same subject of another provider signs in")
	}
}

// TestSEC202_LinkingNeedsTheLocalCredential walks to a link.
func TestSEC202_LinkingNeedsTheLocalCredential(t *testing.T) {
	t.Parallel()
	for _, by := range []idpv3.AutoLinkingOption{byEmail, byUsername} {
		h := newHouse(t, upstream.OIDC, linking(by))
		h.User.Email, h.User.Username = "alice@mail.example", "alice"
		if by == byUsername {
			h.User.Email = "somebody@mail.example"
		}
		b := h.browser()
		b.signIn("alice", "correct horse").want(200, "/done") // is no proof of now
		if h.done() == nil {
			t.Fatal("the control")
		}
		h.wait(time.Minute)
		b.open("/begin").want(200, "/login").press(h.idp).want(200, "/login/idp/account", "<title>Is this account yours?")
		link := b.forms["form"]
		b.send().want(200, "/login/password", "alice@a.example")
		if strings.Contains(b.body, `id="providers"`) {
			t.Error("the page of a link offers providers")
		}
		b.send("password", "wrong").want(400, "/login/password")
		if h.done() != nil || h.count("idp_links") != "0" {
			t.Fatal("a wrong password links")
		}
		b.send("password", "correct horse").want(200, "/done")
		if got := h.done(); got == nil || got.UserID != h.users["alice"].ID {
			t.Fatalf("got %+v", got)
		}
		// The proof was used up (SEC-203): with the same flow and the right password nothing more is linked.
		h.exec("DELETE FROM idp_links")
		b.post(link.action, link.values).want(200, "/login/password").send("password", "correct horse").want(200, "/login/password", "was used before")
		if h.count("idp_links") != "0" {
			t.Error("a proof links twice")
		}
		b.open("/begin").press(h.idp).want(200, "/login/idp/account")
		h.wait(10 * time.Minute)
		b.send().want(200, "/login", "took too long")
	}
}

// TestSEC202_WhoIsNoMatch covers whom an identity is not taken for.
func TestSEC202_WhoIsNoMatch(t *testing.T) {
	t.Parallel()
	h := newHouse(t, upstream.OIDC, linking(byEmail))
	for name, change := range map[string]func(){
		"an address that is not verified there": func() { h.User.Email, h.User.EmailVerified = "alice@mail.example", false },
		"one that two have":                     func() { h.User.Email = "twice@mail.example" },
		"one that is not verified here": func() {
			h.exec("UPDATE users SET is_email_verified = false WHERE username = 'bob'")
			h.User.Email = "bob@mail.example"
		},
		"of who cannot sign in":             func() { h.User.Email = "locked@mail.example" },
		"of nobody":                         func() { h.User.Email = "nobody@mail.example" },
		"a username, where addresses count": func() { h.User.Username, h.User.Email = "alice", "" },
	} {
		h.User = upstreamtest.User{Subject: "7", Username: "ada", EmailVerified: true, GivenName: "Ada", FamilyName: "L"}
		change()
		b := h.browser().open("/begin").press(h.idp).want(200, "/login/idp/account", "New here?")
		if strings.Contains(b.body, "alice@a.example") {
			t.Errorf("%s: %s", name, b.body)
		}
	}
	h.exec("UPDATE idps SET is_linking_allowed = false")
	h.User = upstreamtest.User{Subject: "7", Username: "ada", Email: "alice@mail.example", EmailVerified: true}
	h.browser().open("/begin").press(h.idp).want(200, "/login", "none is made")
}

// TestSEC202_AProviderOfAnOrganizationSpeaksForThatOnly: its word on other people's addresses
// links and makes nobody elsewhere.
func TestSEC202_AProviderOfAnOrganizationSpeaksForThatOnly(t *testing.T) {
	t.Parallel()
	h := newHouse(t, upstream.OIDC, nil)
	own, server := h.users["olga"].OrgID, upstreamtest.New(t, upstream.OIDC)
	server.Now = h.now
	idp := h.add(server, own, func(o *idpv3.Options) { linking(byEmail)(o); yes(&o.IsAutoCreation) })
	begin := *h.begin.Load()
	begin.OrgID = own
	h.begin.Store(&begin)
	server.User.Email = "alice@mail.example"
	h.browser().open("/begin").press(idp).want(200, "/done")
	got := h.done()
	if got.OrgID != own || h.value("SELECT is_email_verified::text FROM users WHERE id = $1", got.UserID) != "false" {
		t.Errorf("got %+v", got)
	}
	// SEC-222: the domain of a login name leads to the providers of its organization, and
	// of no other.
	begin.OrgID = ""
	h.begin.Store(&begin)
	b := h.browser().open("/begin").want(200, "/login")
	if strings.Contains(b.body, idp) {
		t.Error("it is offered to all")
	}
	if b.send("loginName", "x@o.example").want(200, "/login/password"); !strings.Contains(b.body, idp) {
		t.Error("it is not offered to those of the domain")
	}
	h.exec("UPDATE domains SET is_verified = false, is_primary = false WHERE domain = 'o.example'")
	h.Forget()
	if b = h.browser().open("/begin").send("loginName", "x@o.example"); strings.Contains(b.body, idp) {
		t.Error("an unverified domain leads to it")
	}
	// Nor does who presses a button that they were not shown get there.
	if b.press(idp); b.path != "/login/password" || !strings.Contains(b.body, "any more") {
		t.Errorf("got %d %s", b.status, b.path)
	}
}

func creation(o *idpv3.Options) { no(&o.IsAutoCreation); yes(&o.IsCreationAllowed) }

// TestTheFormOfANewUserIsFilledIn covers addresses that need a code and that do not.
func TestTheFormOfANewUserIsFilledIn(t *testing.T) {
	t.Parallel()
	h := newHouse(t, upstream.OIDC, creation)
	form := func() *browser {
		return h.browser().open("/begin").press(h.idp).want(200, "/login/idp/account", "New here?").send().
			want(200, "/login/idp/register", `value="Ada"`, `value="Lovelace"`, `value="ada@mail.example"`)
	}
	b := form()
	if strings.Contains(b.body, `type="password"`) {
		t.Error("a password is asked for")
	}
	b.send("familyName", "").want(400, "/login/idp/register", "family name")
	b.send("familyName", "Lovelace", "email", "alice@mail.example", "loginName", "adax").want(200, "/login/verify") // is somebody's: the same as of nobody
	known := strings.ReplaceAll(b.body, "alice@mail.example", "")
	b = form().send("email", "other.one@mail.example", "loginName", "adax").want(200, "/login/verify")
	if got := strings.ReplaceAll(b.body, "other.one@mail.example", ""); shape(got) != shape(known) {
		t.Errorf("SEC-170: a known address looks like\n%s\nanother one like\n%s", known, got)
	}
	if h.done() != nil {
		t.Fatal("somebody is signed in before the address is verified")
	}
	// Who comes again before the address is verified goes on with that, by a code of that browser;
	// the one before stays good in its own.
	first := h.mail().Code
	h.wait(time.Second)
	again := h.browser().open("/begin").press(h.idp).want(200, "/login/verify")
	again.send("code", first).want(400, "/login/verify")
	b.send("code", h.mail().Code).want(400, "/login/verify")
	b.send("code", first).want(200, "/done")
	if got := h.done(); got == nil || got.LoginName != "adax@a.example" || !slices.Equal(got.AMR, []string{"fed"}) {
		t.Errorf("got %+v", got)
	}
	h.User.Subject, h.User.Email = "second", "second@mail.example"
	b = h.browser().open("/begin").press(h.idp).want(200, "/login/idp/account").send().want(200, "/login/idp/register")
	used := b.forms["form"]
	b.send().want(200, "/done")
	if got := h.done(); got == nil || h.value("SELECT email || is_email_proven::text FROM users WHERE id = $1", got.UserID) != "second@mail.exampletrue" {
		t.Errorf("a verified address needs a code: %+v", got)
	}
	// SEC-203: what made a user makes no other.
	h.exec("DELETE FROM idp_links")
	b.post(used.action, used.values).want(400, "/login/idp/register", "already")
	used.values.Set("email", "third@mail.example")
	b.post(used.action, used.values)
	if h.value("SELECT count(*)::text FROM users WHERE email = 'third@mail.example'") != "0" {
		t.Error("an identity makes two users")
	}
}

// shape is a page without what is sealed in it.
func shape(page string) string { return sealedText.ReplaceAllString(page, "") }

// TestSEC145_WhatIsNotAllowedIsRefusedByTheCommand sends forms that were not shown.
func TestSEC145_WhatIsNotAllowedIsRefusedByTheCommand(t *testing.T) {
	t.Parallel()
	h := newHouse(t, upstream.OIDC, func(o *idpv3.Options) { creation(o); yes(&o.IsLinkingAllowed) })
	b := h.browser().open("/begin").press(h.idp).want(200, "/login/idp/account").send().want(200, "/login/idp/register")
	register, link := b.forms["form"], b.forms["/login/idp/link"]
	h.exec("UPDATE idps SET is_creation_allowed = false, is_linking_allowed = false")
	b.post(register.action, register.values).want(200, "/login", "any more")
	b.post("/login/idp/link", link.values).want(200, "/login", "any more")
	h.exec("UPDATE idps SET is_linking_allowed = true")
	b.post("/login/idp/link", link.values).want(200, "/login").send("loginName", "alice").want(200, "/login/password")
	h.exec("UPDATE idps SET is_linking_allowed = false")
	b.send("password", "correct horse").want(200, "/login/password", "any more")
	if h.count("idp_links") != "0" {
		t.Error("it was linked")
	}
}

// TestSEC179_SecondFactorsAreAskedForAfterAProvider signs in a user who has some.
func TestSEC179_SecondFactorsAreAskedForAfterAProvider(t *testing.T) {
	t.Parallel()
	h := newHouse(t, upstream.OIDC, linking(byEmail))
	key := h.addFactors("alice", "totp")
	h.User.Email = "alice@mail.example"
	b := h.browser().open("/begin").press(h.idp).want(200, "/login/idp/account").send().send("password", "correct horse").want(200, "/login/totp")
	if h.count("idp_links") != "0" {
		t.Fatal("the password alone links")
	}
	b.send("code", secret.TOTP(key, h.now())).want(200, "/done")
	h.done()
	h.wait(time.Minute)
	h.browser().open("/begin").press(h.idp).want(200, "/login/totp")
	if h.done() != nil {
		t.Fatal("the provider alone signs in")
	}
	h.Claims = func(claims map[string]any) { claims["amr"] = []string{"mfa", "hwk"} }
	b = h.browser().open("/begin").press(h.idp).want(200, "/login/totp")
	b.send("code", secret.TOTP(key, h.now())).want(200, "/done")
	if got := h.done(); got == nil || !slices.Equal(got.AMR, []string{"fed", "otp", "mfa"}) {
		t.Errorf("got %+v", got)
	}
}

// TestWhatGoesWrongIsToldWithAWayBack covers what providers answer.
func TestWhatGoesWrongIsToldWithAWayBack(t *testing.T) {
	t.Parallel()
	h := newHouse(t, upstream.OIDC, nil)
	for said, want := range map[string]string{"access_denied": "You did not sign in there", "interaction_required": "did not sign you in", "<script>alert(2)</script>": "did not sign you in"} {
		h.Deny = said
		b := h.browser().open("/begin").press(h.idp).want(200, "/login", want, `id="cancel"`)
		if strings.Contains(b.body, "alert(") {
			t.Errorf("what the provider says is shown: %s", b.body)
		}
		b.other("leave").want(200, "/canceled")
	}
	h.Deny = ""
	h.Claims = func(claims map[string]any) { claims["nonce"] = "another" }
	h.browser().open("/begin").press(h.idp).want(200, "/login", "cannot be relied on")
	h.Claims = nil
	b := h.browser()
	at := b.caught(h.idp)
	h.Down = true
	b.open(at).want(200, "/login", "does not answer")
	h.wait(2 * time.Hour) // what is known of it is asked for again
	h.browser().open("/begin").send("loginName", "ada").press(h.idp).want(200, "/login/password", "does not answer")
	if h.done() != nil {
		t.Error("somebody is signed in")
	}
}

// TestAHintGoesStraightToTheProvider and comes back from it without going there again.
func TestAHintGoesStraightToTheProvider(t *testing.T) {
	t.Parallel()
	h := newHouse(t, upstream.OIDC, nil)
	begin := *h.begin.Load()
	begin.IDPID = h.idp
	h.begin.Store(&begin)
	h.Deny = "access_denied"
	h.browser().open("/begin").want(200, "/login", "You did not sign in there")
	h.Deny = ""
	h.browser().open("/begin").want(200, "/done")
	begin.IDPID = "another"
	h.begin.Store(&begin)
	h.browser().open("/begin").want(200, "/login", "any more")
}

// TestALoginThatHasToBeNewIsNewAtTheProvider covers prompt=login and max_age.
func TestALoginThatHasToBeNewIsNewAtTheProvider(t *testing.T) {
	t.Parallel()
	h := newHouse(t, upstream.OIDC, nil)
	begin := *h.begin.Load()
	begin.Fresh = true
	h.begin.Store(&begin)
	h.browser().open("/begin").press(h.idp).want(200, "/done")
	if got := h.LastAuthorization.Get("prompt") + h.LastAuthorization.Get("max_age"); got != "login0" {
		t.Errorf("asked for %q", got)
	}
	old := h.now().Add(-time.Hour).Unix()
	h.Claims = func(claims map[string]any) { claims["auth_time"] = old }
	h.done()
	h.browser().open("/begin").press(h.idp).want(200, "/login", "authenticate at the provider anew")
	begin.Fresh, begin.Since = false, old+600
	h.begin.Store(&begin)
	h.browser().open("/begin").press(h.idp).want(200, "/login", "authenticate at the provider anew")
	begin.Since = old - 600
	h.begin.Store(&begin)
	h.browser().open("/begin").press(h.idp).want(200, "/done")
	if got := h.done(); got == nil || got.AuthTime.Unix() != old {
		t.Errorf("auth_time is %v", got)
	}
}

// TestAppleAnswersByAForm, which comes without cookies.
func TestAppleAnswersByAForm(t *testing.T) {
	t.Parallel()
	h := newHouse(t, upstream.Apple, nil)
	b := h.browser().open("/begin").press(h.idp)
	form := upstreamtest.Form(t, strings.NewReader(b.body))
	if form.Get("state") == "" || form.Get("user") == "" {
		t.Fatalf("got %s", b.body)
	}
	jar := b.client.Jar
	var to string
	b.client.Jar = nil // the browser sends none along
	b.client.CheckRedirect = func(req *http.Request, _ []*http.Request) error {
		to = req.URL.RequestURI()
		return http.ErrUseLastResponse
	}
	b.post("/login/idp/callback", form)
	b.client.Jar, b.client.CheckRedirect = jar, nil
	if b.status != http.StatusSeeOther {
		t.Fatalf("got %d", b.status)
	}
	b.open(to).want(200, "/done")
	if got := h.done(); got == nil || got.DisplayName != "Ada Lovelace" {
		t.Errorf("got %+v", got)
	}
	b.open("/begin").press(h.idp)
	if form = upstreamtest.Form(t, strings.NewReader(b.body)); form.Has("user") {
		t.Error("the name comes twice")
	}
	b.open("/login/idp/callback?"+form.Encode()).want(200, "/done")
	if got := h.done(); got == nil || got.DisplayName != "Ada Lovelace" {
		t.Errorf("the second time: %+v", got)
	}
}

// TestGitHubAnswersAtAnAddressOfItsOwn: it has no ID token that would bind its answer.
func TestGitHubAnswersAtAnAddressOfItsOwn(t *testing.T) {
	t.Parallel()
	h := newHouse(t, upstream.GitHub, nil)
	b := h.browser()
	at := b.caught(h.idp)
	if !strings.HasPrefix(at, "/login/idp/callback/"+h.idp+"?") {
		t.Fatalf("it answers at %s", at)
	}
	b.open(strings.Replace(at, "/"+h.idp, "", 1)).want(400, "/login/idp/callback", "login_expired")
	b.open(at).want(200, "/done")
	if got := h.done(); got == nil || h.value("SELECT external_user_id || external_username FROM idp_links WHERE user_id = $1", got.UserID) != "248289761001ada" {
		t.Errorf("got %+v", got)
	}
}

// TestAutoUpdateBringsAUserUpToDate, and only where it is switched on.
func TestAutoUpdateBringsAUserUpToDate(t *testing.T) {
	t.Parallel()
	h := newHouse(t, upstream.OIDC, nil)
	h.browser().open("/begin").press(h.idp).want(200, "/done")
	user := h.done().UserID
	h.User.FamilyName, h.User.Email, h.User.Username = "King", "king@mail.example", "king"
	profile := func() string {
		h.browser().open("/begin").press(h.idp).want(200, "/done")
		return h.value("SELECT given_name || ' ' || family_name || ' ' || display_name || ' ' || email || ' ' || username FROM users WHERE id = $1", user)
	}
	if got := profile(); got != "Ada Lovelace Ada Lovelace ada@mail.example ada" {
		t.Errorf("without it: %s", got)
	}
	h.exec("UPDATE idps SET is_auto_update = true")
	if got := profile(); got != "Ada King Ada King king@mail.example ada" {
		t.Errorf("with it: %s", got)
	}
	h.User.Email = "alice@mail.example" // is somebody's
	if got := profile(); got != "Ada King Ada King king@mail.example ada" {
		t.Errorf("with another's address: %s", got)
	}
	h.User.Email, h.User.EmailVerified, h.User.FamilyName = "x@mail.example", false, ""
	if got := profile(); got != "Ada King Ada King king@mail.example ada" && got != "Ada King Ada king@mail.example ada" {
		t.Errorf("with less: %s", got)
	}
	if got := h.value("SELECT external_username FROM idp_links"); got != "king" {
		t.Errorf("the link says %s", got)
	}
}

// TestALinkThatIsGoneProvesNobody ends sessions with it.
func TestALinkThatIsGoneProvesNobody(t *testing.T) {
	t.Parallel()
	h := newHouse(t, upstream.OIDC, nil)
	b := h.browser().open("/begin").press(h.idp).want(200, "/done")
	at := func() int { sessions, _ := h.Browser(b.request(), h.instance); return len(sessions) }
	if at() != 1 {
		t.Fatal("the control")
	}
	user := h.done().UserID
	ctx := policy.As(t.Context(), policy.In(h.instance.ID, ""), "", h.roles)
	links, err := h.links.SearchIDPLinks(ctx, &idpv3.SearchIDPLinksRequest{UserId: user})
	if err != nil || len(links.GetResult()) != 1 {
		t.Fatal(links, err)
	}
	if _, err := h.links.RemoveIDPLink(ctx, &idpv3.RemoveIDPLinkRequest{UserId: user, Id: links.GetResult()[0].GetDetails().GetId()}); err != nil {
		t.Fatal(err)
	}
	if at() != 0 {
		t.Error("the session counts still")
	}
	b.open("/begin").press(h.idp).want(200, "/login", "already")
}

// request is one with the cookies of the browser.
func (b *browser) request() *http.Request {
	at, _ := url.Parse(b.url)
	req, _ := http.NewRequest(http.MethodGet, b.url, nil) //nolint:noctx // of nobody
	for _, one := range b.client.Jar.Cookies(at) {
		req.AddCookie(one)
	}
	return req.WithContext(policy.WithRequest(b.Context(), &policy.Request{}))
}

var sealedText = regexp.MustCompile(`writ_[a-z]+_[A-Za-z0-9_-]+`)
