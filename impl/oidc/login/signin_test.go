package login_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/oidc/login/flow"
)

func insecure() http.RoundTripper {
	return &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the certificate of httptest
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"alice@a.example", " ALICE@A.example ", "alice", "alice@mail.example"} {
		w.browser().signIn(name, "correct horse").want(200, "/done")
		s := w.done()
		if s == nil || s.LoginName != "alice@a.example" || s.DisplayName != "Alice Adams" || strings.Join(s.AMR, " ") != "pwd" || !s.AuthTime.Equal(w.now()) {
			t.Fatalf("%q: %+v", name, s)
		}
	}
}

var sealedFlow = regexp.MustCompile(`writ_flow_[A-Za-z0-9_-]+`)

// sealedTries is what a browser keeps of its own wrong passwords, which is as long for all.
var sealedTries = regexp.MustCompile(`writ_wrong_[A-Za-z0-9_-]+`)

// TestSEC170_WhyNobodySignsInIsNotTold compares all that a browser gets to see: the
// page but for the sealed flow, its headers and its cookies; and the time.
func TestSEC170_WhyNobodySignsInIsNotTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	answers := map[string][]string{}
	for _, test := range []struct{ who, name, password string }{
		{"a wrong password", "alice@a.example", "wrong"},
		{"nobody", "nobod@a.example", "correct horse"},
		{"no domain", "alice@x.exampl", "correct horse"},
		{"locked", "locked@a.example", "correct horse"},
		{"a machine", "robot@a.example", "correct horse"},
		{"no password", "bare@a.example", "correct horse"},
		{"an address of two", "twice@mail.example", "correct horse"},
		{"a very long password", "alice@a.example", strings.Repeat("x", 8000)},
	} {
		b := w.browser()
		begun := time.Now()
		b.signIn(test.name, test.password).want(400, "/login/password", "We could not sign you in with this login name and password.")
		if took := time.Since(begun); took < 250*time.Millisecond { // however fast the machine is
			t.Errorf("%s: it took %s", test.who, took)
		}
		page := strings.ReplaceAll(sealedFlow.ReplaceAllString(b.body, "FLOW"), test.name, "NAME")
		header := b.got.Clone()
		header.Del("Date")
		header.Del("Content-Length")
		var text strings.Builder
		if err := header.Write(&text); err != nil {
			t.Fatal(err)
		}
		answer := sealedTries.ReplaceAllStringFunc(text.String(), func(cookie string) string { return fmt.Sprintf("TRIES of %d", len(cookie)) }) + page
		answers[answer] = append(answers[answer], test.who)
	}
	if len(answers) != 1 {
		t.Errorf("there are %d answers: %v", len(answers), answers)
	}
	if w.done() != nil {
		t.Error("somebody signed in")
	}
}

func TestSEC174_NamesOfAUserShareTheirTries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser()
	for i, name := range []string{"alice", "alice@a.example", "ALICE@a.example ", "alice@mail.example", "alice", "alice@a.example", "Alice@mail.example", "aLice", "alice", "alice"} {
		b.signIn(name, "wrong").want(400, "/login/password")
		if got := w.value("SELECT attempts::text FROM browser_tries t JOIN users u ON u.id = t.user_id WHERE u.username = 'alice'"); got != string("0123456789"[(i+1)%10]) && got != "10" {
			t.Fatalf("after %d: %s", i+1, got)
		}
	}
	for _, name := range []string{"alice", "alice@a.example", "alice@mail.example"} {
		b.signIn(name, "correct horse").want(400, "/login/password")
	}
	w.wait(10 * time.Minute) // SEC-177
	b.signIn("alice", "correct horse").want(200, "/done")
}

// TestSEC142_AFlowIsOfTheBrowserThatBeganIt opens and sends every page of a flow in
// another browser, and in one without cookies.
func TestSEC142_AFlowIsOfTheBrowserThatBeganIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	victim := w.browser().open("/begin").send("loginName", "alice@a.example").want(200, "/login/password")
	sealed := victim.forms["form"].values.Get("flow")
	attacker := w.browser().open("/begin")
	for _, path := range []string{"", "/password", "/totp", "/sms", "/email", "/change-password", "/accounts", "/register", "/verify", "/forgot", "/reset"} {
		for _, b := range []*browser{attacker, w.browser()} {
			b.open("/login"+path+"?flow="+sealed).want(400, "/login"+path, `id="error-code">login_expired<`)
			b.post("/login"+path, url.Values{"flow": {sealed}, "loginName": {"alice"}, "password": {"correct horse"}}).want(400, "/login"+path, "login_expired")
		}
	}
	if w.done() != nil {
		t.Error("somebody signed in")
	}
	victim.send("password", "correct horse").want(200, "/done")
}

func TestSEC143_FormsComeFromOurOwnPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, test := range []struct {
		name, origin, site, kind string
		status                   int
	}{
		{"another site", "https://evil.example", "cross-site", "", 403},
		{"another site without Sec-Fetch-Site", "https://evil.example", "-", "", 403},
		{"a sandboxed frame", "null", "cross-site", "", 403},
		{"a sibling host", "https://evil.a.example", "same-site", "", 403},
		{"a typed address", "null", "none", "", 403},
		{"text/plain", "null", "same-origin", "text/plain", 415},
		{"multipart", "null", "same-origin", "multipart/form-data; boundary=x", 415},
		{"no referrer", "null", "same-origin", "", 200},
		{"no origin", "-", "same-origin", "", 200},
		{"neither", "-", "-", "", 200},
		{"our own", w.url, "same-origin", "", 200},
	} {
		b := w.browser().open("/begin").send("loginName", "alice")
		req, err := http.NewRequest("POST", w.url+"/login/password", strings.NewReader(url.Values{"flow": {b.forms["form"].values.Get("flow")}, "password": {"correct horse"}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for name, value := range map[string]string{"Origin": test.origin, "Sec-Fetch-Site": test.site, "Content-Type": test.kind} {
			if value == "-" || value == "" {
				continue
			}
			req.Header.Set(name, value)
		}
		if b.do(req); b.status != test.status {
			t.Errorf("%s: got %d, want %d", test.name, b.status, test.status)
		}
		if s := w.done(); (s != nil) != (test.status == 200) {
			t.Errorf("%s: the session is %v", test.name, s)
		}
	}
	// The forms of one browser are not good in another one, whatever its origin.
	a, b := w.browser().open("/begin"), w.browser().open("/begin")
	b.forms["form"].values.Set("flow", a.forms["form"].values.Get("flow"))
	b.send("loginName", "alice").want(400, "/login", "login_expired")
}

func TestSEC140_CookiesOfABrowser(t *testing.T) {
	t.Parallel()
	w := start(t, true)
	b := w.browser()
	var cookies []*http.Cookie
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	collect := func() {
		cookies = append(cookies, (&http.Response{Header: b.got}).Cookies()...)
		if to := b.got.Get("Location"); to != "" {
			b.open(strings.TrimPrefix(to, w.url))
		}
	}
	b.open("/begin")
	collect()
	b.send("loginName", "alice")
	collect()
	b.send("password", "correct horse")
	collect()
	if len(cookies) != 3 {
		t.Fatalf("got %v", cookies)
	}
	for i, name := range []string{"__Host-writ_browser", "__Host-writ_known", "__Host-writ_sessions"} {
		c := cookies[i]
		if c.Name != name || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Domain != "" || c.Path != "/" || len(c.Value) != 43 && i != 1 {
			t.Errorf("got %+v", c)
		}
		if n := w.value("SELECT count(*)::text FROM sessions s WHERE s::text LIKE '%' || $1 || '%'", c.Value); n != "0" {
			t.Errorf("the database holds %s", c.Name)
		}
	}
	if w.done() == nil {
		t.Error("nobody signed in")
	}
}

// TestSEC141_EveryProofMakesANewToken plants a token of a session that is not proven.
func TestSEC141_EveryProofMakesANewToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser().signIn("alice", "correct horse").want(200, "/done")
	at, _ := url.Parse(w.url)
	tokens := func() string {
		for _, c := range b.client.Jar.Cookies(at) {
			if c.Name == "writ_sessions" {
				return c.Value
			}
		}
		return ""
	}
	old, first := tokens(), w.done()
	b.signIn("alice", "correct horse").want(200, "/done")
	if again := w.done(); tokens() == old || strings.Contains(tokens(), ".") || again.ID != first.ID {
		t.Errorf("session %s has the token %s, then %s the token %s", first.ID, old, again.ID, tokens())
	}
	thief := w.browser()
	thief.client.Jar.SetCookies(at, []*http.Cookie{{Name: "writ_sessions", Value: old}})
	thief.open("/begin").want(200, "/login")
}

func TestChooser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser().signIn("alice", "correct horse").want(200, "/done")
	alice := w.done()
	b.signIn("bob", "correct horse").want(200, "/done")
	bob := w.done()
	b.open("/begin").want(200, "/login/accounts", "Alice Adams", "bob@a.example", "Use another account")
	b.send("session", alice.ID).want(200, "/done")
	if s := w.done(); s.ID != alice.ID {
		t.Errorf("got %+v", s)
	}
	b.open("/begin").send("session", "nope").want(200, "/login")
	b.open("/begin").send("session", "").want(200, "/login")
	// With a fresh login the session alone is not enough, nor when it is too old.
	for _, fresh := range []bool{true, false} {
		flow := &begun{Asked: flow.Asked{Request: "x=y"}, Proof: flow.Proof{Fresh: fresh}}
		if !fresh {
			flow.Since = w.now().Unix() + 5
		}
		w.begin.Store(flow)
		b.open("/begin").want(200, "/login/accounts", "Password needed").send("session", bob.ID).want(200, "/login/password", "bob@a.example")
		w.wait(10 * time.Second)
		b.send("password", "wrong").want(400, "/login/password")
		b.send("password", "correct horse").want(200, "/done")
		if s := w.done(); s.ID != bob.ID || !s.AuthTime.Equal(w.now()) {
			t.Errorf("got %+v", s)
		}
	}
	// An app can ask for the chooser, and restrict it.
	w.begin.Store(&begun{Asked: flow.Asked{Request: "x=y", Choose: true, UserID: bob.UserID}})
	b.open("/begin").want(200, "/login/accounts", "Bob")
	if strings.Contains(b.body, "Alice") {
		t.Error("an account that may not be chosen is shown")
	}
	b.send("session", alice.ID).want(200, "/login").send("loginName", "alice").send("password", "correct horse").want(400, "/login/password")
}

// TestSEC144_AFreshProofIsEnoughHoweverLongItTakes has the clock go on between a proof and
// what is noted of it: the password is asked for once.
func TestSEC144_AFreshProofIsEnoughHoweverLongItTakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser().signIn("alice", "correct horse").want(200, "/done")
	w.begin.Store(&begun{Asked: flow.Asked{Request: "x=y"}, Proof: flow.Proof{Fresh: true}}) // prompt=login
	w.tick.Store(time.Second.Microseconds())
	b.signIn("alice", "correct horse").want(200, "/done")
}

func TestSEC018_OnlyUsersOfTheOrganization(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser().signIn("alice", "correct horse").want(200, "/done")
	alice := w.done()
	w.begin.Store(&begun{Asked: flow.Asked{Request: "x=y", OrgID: w.users["olga"].OrgID}})
	for _, name := range []string{"alice", "alice@a.example", "alice@mail.example"} {
		b.signIn(name, "correct horse").want(400, "/login/password", "We could not sign you in with this login name and password.")
	}
	b.open("/begin").want(200, "/login")
	sealed := b.forms["form"].values.Get("flow")
	b.post("/login/accounts", url.Values{"flow": {sealed}, "session": {alice.ID}}).want(200, "/login")
	b.signIn("olga@mail.example", "correct horse").want(200, "/done")
	if s := w.done(); s.OrgID != w.users["olga"].OrgID {
		t.Errorf("got %+v", s)
	}
}

func TestSEC151_SessionsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser()
	complete := func() int {
		at, _ := url.Parse(w.url)
		req, _ := http.NewRequest("GET", w.url, nil)
		for _, c := range b.client.Jar.Cookies(at) {
			req.AddCookie(c)
		}
		found, err := w.Browser(req, w.instance)
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	b.signIn("alice", "correct horse").want(200, "/done")
	for range 9 { // used each day, it lives for ten
		w.wait(23 * time.Hour)
		if complete() != 1 {
			t.Fatal("a session that is used has ended")
		}
	}
	w.wait(20 * time.Hour)
	if complete() != 1 {
		t.Fatal("a session that is used has ended")
	}
	w.wait(10*24*time.Hour - 9*23*time.Hour - 20*time.Hour)
	if complete() != 1 {
		t.Error("it ended before its password")
	}
	w.wait(time.Minute)
	if complete() != 0 {
		t.Error("it outlives its password")
	}
	b.signIn("alice", "correct horse").want(200, "/done")
	w.wait(24 * time.Hour)
	if complete() != 0 {
		t.Error("it outlives a day without use")
	}
	b.signIn("alice", "correct horse").want(200, "/done")
	for _, sql := range []string{
		"UPDATE users SET state = 2 WHERE username = 'alice'", "UPDATE users SET state = 1, password_change_required = true WHERE username = 'alice'",
		"UPDATE organizations SET state = 2", "UPDATE users SET password_changed = password_changed + interval '100 days' WHERE username = 'alice'",
	} {
		w.exec(sql)
		if complete() != 0 {
			t.Errorf("complete after %s", sql)
		}
		w.exec("UPDATE users SET state = 1, password_change_required = false WHERE username = 'alice'")
		w.exec("UPDATE organizations SET state = 1")
		if !strings.Contains(sql, "password_changed =") && complete() != 1 {
			t.Errorf("not complete again after %s", sql)
		}
	}
}

// TestSEC151_SessionsEndWhenTheSettingsSaySo has an organization say less than the day.
func TestSEC151_SessionsEndWhenTheSettingsSaySo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO settings (instance_id, org_id, subject, properties, sequence, change_date) VALUES ($1, '', 'lifetimes', '{"sessionIdleLifetime":"1800s"}', 1, now())`, w.instance.ID)
	w.Forget()
	b := w.browser()
	complete := func() int {
		at, _ := url.Parse(w.url)
		req, _ := http.NewRequest("GET", w.url, nil)
		for _, c := range b.client.Jar.Cookies(at) {
			req.AddCookie(c)
		}
		found, err := w.Browser(req, w.instance)
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	b.signIn("alice", "correct horse").want(200, "/done")
	for range 3 { // used, it lives on
		w.wait(20 * time.Minute)
		if complete() != 1 {
			t.Fatal("a session that is used has ended")
		}
	}
	w.wait(30 * time.Minute)
	if complete() != 0 {
		t.Error("it outlives half an hour without use")
	}
	// However much it is used, it ends when the settings say so, which count at once.
	says := func(life string) {
		w.exec(`UPDATE settings SET properties = jsonb_build_object('sessionIdleLifetime', '864000s', 'sessionLifetime', $1::text) WHERE instance_id = $2 AND subject = 'lifetimes'`, life, w.instance.ID)
		w.Forget()
	}
	for _, life := range []time.Duration{time.Hour, 20 * 24 * time.Hour} {
		says(fmt.Sprintf("%ds", int(life.Seconds())))
		b.signIn("alice", "correct horse").want(200, "/done")
		for range 4 {
			w.wait(life / 5)
			if complete() != 1 {
				t.Fatalf("a session ended before %v", life)
			}
		}
		w.wait(life / 5)
		if complete() != 1 {
			t.Errorf("it ended at %v, not after", life)
		}
		w.wait(time.Second)
		if complete() != 0 {
			t.Errorf("it outlives %v", life)
		}
	}
	b.signIn("alice", "correct horse").want(200, "/done")
	w.wait(10 * time.Minute)
	says("300s")
	if complete() != 0 {
		t.Error("a session that was there outlives a shorter life")
	}
}

func TestSEC132_SignOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser().signIn("alice", "correct horse").signIn("bob", "correct horse").want(200, "/done")
	pending := w.browser()
	pending.client.Jar = b.client.Jar
	pending.open("/begin").want(200, "/login/accounts")
	b.open("/logout?state=a%22b&post_logout_redirect_uri=https%3A%2F%2Fapp.example%2F").want(200, "/logout", "Sign out?", `name="state" value="a&#34;b"`)
	if n := w.value("SELECT count(*)::text FROM sessions"); n != "2" {
		t.Fatalf("a GET left %s sessions", n)
	}
	other := w.browser().open("/logout")
	other.post("/logout", b.forms["form"].values).want(200, "/logout", "Sign out?") // a form of another browser asks again
	b.send().want(200, "/logout", "You are signed out")
	if n := w.value("SELECT count(*)::text FROM sessions"); n != "0" {
		t.Errorf("%s sessions are left", n)
	}
	if n := w.value("SELECT count(*)::text FROM events WHERE event_type = 'session.terminated'"); n != "2" {
		t.Errorf("%s events", n)
	}
	b.open("/begin").want(200, "/login")
	pending.send("session", "").want(400, "/login/accounts", "login_expired") // nothing begun before is good
}

// TestAFormOfAnotherSiteBringsNoCookies posts an authorization request as a browser
// does that keeps Lax cookies back: nothing of what it has may be overwritten.
func TestAFormOfAnotherSiteBringsNoCookies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser().signIn("alice", "correct horse").want(200, "/done")
	alice, cookies := w.done(), b.client.Jar
	follow := func(flow *begun) *browser {
		w.begin.Store(flow)
		away := w.browser()
		away.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		away.post("/begin", url.Values{})
		to := away.got.Get("Location")
		if away.status != 303 || !strings.HasPrefix(to, "/login/begin?flow=writ_flow_") || away.got.Get("Set-Cookie") != "" {
			t.Fatalf("got %d %v", away.status, away.got)
		}
		// What is not bound yet is no good elsewhere, and not for long.
		b.open("/login/password?"+strings.TrimPrefix(to, "/login/begin?")).want(400, "/login/password", "login_expired")
		return b.open(to)
	}
	follow(&begun{Asked: flow.Asked{Request: "x=y"}}).want(200, "/done")
	if s := w.done(); s.ID != alice.ID {
		t.Errorf("got %+v", s)
	}
	of := flow.Asked{Request: "x=y"}
	for _, flow := range []*begun{{Asked: of, Proof: flow.Proof{Fresh: true}}, {Asked: of, Proof: flow.Proof{Since: w.now().Unix() + 1}}, {Asked: flow.Asked{Request: "x=y", UserID: "another"}}} {
		follow(flow).want(200, "/login")
	}
	follow(&begun{Asked: flow.Asked{Request: "x=y", Choose: true}}).want(200, "/login/accounts").send("session", alice.ID).want(200, "/done")
	if b.client.Jar != cookies || w.done() == nil {
		t.Error("the cookies are others")
	}
	sealed := func() string {
		away := w.browser()
		away.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		return away.post("/begin", url.Values{}).got.Get("Location")
	}()
	w.wait(2 * time.Minute)
	b.open(sealed).want(400, "/login/begin", "login_expired")
	b.open("/login/begin?flow="+b.open("/login").want(200, "/login/accounts", "You are signed in.").forms["accounts"].values.Get("flow")).want(400, "/login/begin", "login_expired")
	b.post("/login/begin", url.Values{}).want(405, "/login/begin")
}

// TestSEC216_SessionsAreOfTheirInstance sends the cookies of one instance to
// another, which is SEC-217.
func TestSEC216_SessionsAreOfTheirInstance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser().signIn("alice", "correct horse").want(200, "/done")
	b.open("/begin").want(200, "/login")
	sealed := b.forms["form"].values.Get("flow")
	w.exec("INSERT INTO instances SELECT (jsonb_populate_record(i, '{\"id\": \"other\", \"name\": \"other\"}')).* FROM instances i WHERE id = $1", w.instance.ID)
	own := w.instance
	w.instance = &policy.Instance{ID: "other"}
	b.open("/login?flow="+sealed).want(400, "/login", "login_expired")
	b.open("/begin").want(200, "/login")
	if strings.Contains(b.body, "alice") {
		t.Error("the other instance knows her")
	}
	w.instance = own
	b.open("/login?flow="+sealed).want(200, "/login", "alice@a.example")
}

// TestSEC174_ANameOfTwoMeansNeither: a username that reads like an address gives way to who
// has proven that, the word of an administrator counts in their organization, and of two
// who could be meant nobody is signed in, but by another of their names.
func TestSEC174_ANameOfTwoMeansNeither(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	signsIn := func(name string, flow *begun) string {
		t.Helper()
		flow.Request = "x=y"
		w.begin.Store(flow)
		w.browser().signIn(name, "correct horse")
		if s := w.done(); s != nil {
			return s.LoginName
		}
		return "nobody"
	}
	check := func(what, name, want string) {
		t.Helper()
		if got := signsIn(name, &begun{}); got != want {
			t.Errorf("%s: %s signs in %s, want %s", what, name, got, want)
		}
	}
	check("a username of another organization that nobody else has", "other", "other@o.example")
	w.exec("UPDATE users SET username = 'other', username_folded = 'other' WHERE username = 'bob'")
	check("one that the default organization has too", "other", "other@a.example")
	w.exec("UPDATE users SET username = 'bob', username_folded = 'bob' WHERE username = 'other' AND org_id = $1", w.instance.DefaultOrg)
	w.exec("UPDATE users SET username = 'olga@mail.example', username_folded = 'olga@mail.example' WHERE username = 'bob'")
	check("a username of the default organization", "olga@mail.example", "olga@o.example")
	w.exec("UPDATE users SET email = 'olga@mail.example', email_folded = 'olga@mail.example', is_email_proven = false WHERE username = 'other'")
	check("the word of an administrator", "olga@mail.example", "olga@o.example")
	w.exec("UPDATE users SET is_email_proven = false WHERE username = 'alice'")
	check("an address that only an administrator vouches for", "alice@mail.example", "nobody")
	if got := signsIn("alice@mail.example", &begun{Asked: flow.Asked{OrgID: w.instance.DefaultOrg}}); got != "alice@a.example" {
		t.Errorf("in its organization it signs in %s", got)
	}
	w.exec("UPDATE users SET is_email_proven = true WHERE username IN ('alice', 'other')")
	check("an address of two", "olga@mail.example", "nobody")
	check("the login name of one of them", "olga@o.example", "olga@o.example")
	w.exec("UPDATE users SET email = 'alice@a.example', email_folded = 'alice@a.example' WHERE username = 'other'")
	check("a login name and an address", "alice@a.example", "nobody")
	check("another name of hers", "alice@mail.example", "alice@a.example")
}
