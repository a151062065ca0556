package login_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
)

func (b *browser) register(email string, more ...string) *browser {
	b.Helper()
	if b.path != "/login/register" {
		b.begin.Store(&tokenv1.Flow{Request: "x=y", Create: true})
		b.open("/begin").want(200, "/login/register")
	}
	return b.send(append([]string{"givenName", "Carol", "familyName", "Jones", "email", email, "newPassword", "battery staple", "newPasswordAgain", "battery staple"}, more...)...)
}

func TestRegister(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser().register("carol@new.example").want(200, "/login/verify", "carol@new.example")
	w.begin.Store(&tokenv1.Flow{Request: "x=y"})
	w.browser().signIn("carol", "battery staple").want(400, "/login/password") // not before the address is verified
	m := w.mail()
	if m.Template != "verify_email" || m.Recipient != "carol@new.example" || len(m.Code) != 8 || !strings.Contains(m.Text, "Hello Carol,") {
		t.Fatalf("got %+v", m)
	}
	b.send("code", "00000000").want(400, "/login/verify", "The code is not right")
	b.send("code", m.Code).want(200, "/done")
	s := w.done()
	if s == nil || s.LoginName != "carol@a.example" || s.DisplayName != "Carol Jones" || strings.Join(s.AMR, " ") != "pwd" {
		t.Fatalf("got %+v", s)
	}
	if got := w.value("SELECT is_email_verified::text || state::text || preferred_language FROM users WHERE id = $1", s.UserID); got != "true1en" {
		t.Errorf("got %s", got)
	}
	w.browser().signIn("carol@new.example", "battery staple").want(200, "/done")
}

// TestRegistrationsThatAreBrokenOff goes away in the middle, as who clicks twice
// does: no user may be left who could sign in without having verified an address.
func TestRegistrationsThatAreBrokenOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser()
	w.begin.Store(&tokenv1.Flow{Request: "x=y", Create: true})
	b.open("/begin").want(200, "/login/register")
	values := b.forms["form"].values
	for name, value := range map[string]string{"givenName": "Carol", "familyName": "Jones", "newPassword": "battery staple", "newPasswordAgain": "battery staple"} {
		values.Set(name, value)
	}
	var going sync.WaitGroup
	for i := range 20 {
		values.Set("email", fmt.Sprintf("carol%d@new.example", i))
		body := values.Encode()
		going.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(20*(i+1))*time.Millisecond)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/login/register", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if res, err := b.client.Do(req); err == nil {
				_ = res.Body.Close()
			}
		})
	}
	going.Wait()
	// What was begun goes on for a while.
	const unfinished = "SELECT count(*)::text FROM users WHERE NOT is_email_verified AND email LIKE 'carol%' AND state = 1"
	for deadline := time.Now().Add(10 * time.Second); w.value(unfinished) != "0"; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s users are active who verified no address", w.value(unfinished))
		}
	}
	if made := w.value("SELECT count(*)::text FROM users WHERE email LIKE 'carol%'"); made == "0" {
		t.Error("no registration got far enough to be broken off")
	}
}

func TestRegistrationsThatAreNotGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser()
	for text, fields := range map[string][]string{
		"Enter your given name.":               {"givenName", " "},
		"Enter your family name.":              {"familyName", "a\x00b"},
		"Enter an email address":               {"email", "carol"},
		"at least 8 characters":                {"newPassword", "short"},
		"The two passwords are not the same.":  {"newPasswordAgain", "battery"},
		"Choose another login name":            {"loginName", "a\u200bb"},
		"Choose a password that is not your n": {"loginName", "battery staple"},
	} {
		b.register("carol@new.example", fields...).want(400, "/login/register", text, `value="Jones"`[:7])
		if strings.Contains(b.body, "battery staple\" autocomplete=\"new") {
			t.Error("the page repeats the password")
		}
	}
	if n := w.value("SELECT count(*)::text FROM users WHERE email LIKE '%new.example'"); n != "0" || w.mails() != "0" {
		t.Errorf("%s users and %s messages", n, w.mails())
	}
}

// TestSEC170_RegistrationDoesNotTellWhoIsKnown registers with an address that is
// known and one that is not, and compares all that a browser gets to see.
func TestSEC170_RegistrationDoesNotTellWhoIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	answers := map[string]string{}
	for _, email := range []string{"alice@mail.example", "carol@mail.example"} {
		b := w.browser()
		var seen strings.Builder
		note := func() {
			header := b.got.Clone()
			header.Del("Date")
			if err := header.Write(&seen); err != nil {
				t.Fatal(err)
			}
			seen.WriteString(strings.ReplaceAll(sealedFlow.ReplaceAllStringFunc(b.body, func(sealed string) string { return strings.Repeat("F", len(sealed)) }), email, "ADDRESS"))
		}
		b.register(email).want(200, "/login/verify")
		note()
		b.send("code", "00000000").want(400, "/login/verify")
		note()
		b.send("send", "yes").want(200, "/login/verify", "A code is on its way.")
		note()
		flow := b.forms["form"].values.Get("flow")
		for _, path := range []string{"", "/password", "/totp", "/sms", "/change-password", "/accounts", "/verify", "/forgot", "/reset", "/register"} {
			b.open("/login" + path + "?flow=" + flow)
			seen.WriteString(b.path)
			note()
		}
		b.post("/login/accounts", url.Values{"flow": {flow}, "session": {"x"}})
		note()
		w.begin.Store(&tokenv1.Flow{Request: "x=y"})
		b.signIn(email, "battery staple").want(400, "/login/password")
		note()
		b.signIn("bob", "correct horse").want(200, "/done") // the cookies then
		at, _ := url.Parse(w.url)
		for _, cookie := range b.client.Jar.Cookies(at) {
			seen.WriteString(cookie.Name + strings.Repeat("C", len(cookie.Value)))
		}
		b.open("/begin")
		note()
		answers[seen.String()] = email
	}
	if len(answers) != 1 {
		t.Errorf("the answers differ")
		for answer := range answers {
			t.Log(answer)
		}
	}
	if got := w.value("SELECT string_agg(template || ' ' || recipient, ', ' ORDER BY id) FROM messages"); got != "email_known alice@mail.example, verify_email carol@mail.example, verify_email carol@mail.example" {
		t.Errorf("the messages are %s", got)
	}
}

func TestATakenLoginNameIsNotTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, want := range []string{"alice2@a.example", "alice3@a.example"} {
		w.browser().register(want[:6]+"@new.example", "loginName", "alice").want(200, "/login/verify").send("code", w.mail().Code).want(200, "/done")
		if s := w.done(); s.LoginName != want {
			t.Errorf("got %s, want %s", s.LoginName, want)
		}
		w.wait(time.Second)
	}
}

func TestSEC145_RegistrationIsOffWhereItIsOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser().register("carol@new.example")
	flow := b.forms["form"].values.Get("flow")
	open := w.browser()
	open.begin.Store(&tokenv1.Flow{Request: "x=y", Create: true})
	open.open("/begin").want(200, "/login/register")
	w.instance.AllowRegistration = false
	open.register("dave@new.example").want(200, "/login")
	b.open("/login/register?flow="+flow).want(200, "/login")
	if strings.Contains(b.open("/begin").want(200, "/login").body, "Create an account") {
		t.Error("the page offers it")
	}
	if n := w.value("SELECT count(*)::text FROM users WHERE email = 'dave@new.example'"); n != "0" {
		t.Error("a user was made")
	}
}

func TestSEC185_AnAddressGetsSoManyMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 8 {
		w.browser().register("carol@new.example").want(200, "/login/verify")
	}
	var together sync.WaitGroup
	for range 6 {
		b := w.browser()
		b.begin.Store(&tokenv1.Flow{Request: "x=y", Create: true})
		b.open("/begin").want(200, "/login/register")
		together.Go(func() {
			if b.register("CAROL@new.example"); b.status != 200 && b.status != 503 {
				t.Errorf("got %d %s", b.status, b.path)
			}
		})
	}
	together.Wait()
	b := w.browser().register("dave@new.example")
	for range 12 {
		w.wait(time.Second)
		b.send("send", "yes").want(200, "/login/verify", "A code is on its way.")
	}
	w.begin.Store(&tokenv1.Flow{Request: "x=y"})
	for range 12 {
		w.wait(time.Second)
		w.browser().forgot("alice").want(200, "/login/reset")
	}
	if got := w.value("SELECT string_agg(recipient || ' ' || n, ', ' ORDER BY recipient) FROM (SELECT lower(recipient) AS recipient, count(*) n FROM messages GROUP BY 1) x"); got != "alice@mail.example 10, carol@new.example 10, dave@new.example 10" {
		t.Errorf("got %s", got)
	}
}

func (b *browser) forgot(name string) *browser {
	b.Helper()
	b.open("/begin")
	flow := b.forms["form"].values.Get("flow")
	return b.open("/login/forgot?flow="+flow).want(200, "/login/forgot").send("loginName", name)
}

const newPassword = "battery staple"

func (b *browser) reset(code string) *browser {
	b.Helper()
	return b.send("code", code, "newPassword", newPassword, "newPasswordAgain", newPassword)
}

func TestSEC173_AResetDoesNotSignIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser().signIn("alice", "correct horse").want(200, "/done")
	w.done()
	w.addFactors("alice", "totp")
	w.exec(`INSERT INTO oauth_grants SELECT (jsonb_populate_record(NULL::oauth_grants, jsonb_build_object(
		'instance_id', a.instance_id, 'id', 'g', 'org_id', $2::text, 'user_id', $1::text, 'app_id', a.id, 'scopes', '[]'::jsonb, 'audience', '[]'::jsonb,
		'auth_time', now(), 'amr', '[]'::jsonb, 'claims', '[]'::jsonb, 'revoked', false, 'generation', 1, 'idle_date', now(), 'expiration_date', now(), 'creation_date', now()))).*
		FROM apps a`, w.users["alice"].ID, w.instance.DefaultOrg)
	w.wait(time.Second)
	b.forgot("alice").want(200, "/login/reset", "If alice is known here")
	if m := w.mail(); m.Template != "reset_password" || m.Recipient != "alice@mail.example" || !strings.Contains(m.Text, "localhost") {
		t.Fatalf("got %+v", m)
	}
	code := w.mail().Code
	w.wait(time.Second)
	b.reset(code).want(200, "/login/password", "Your new password is set.")
	if w.done() != nil {
		t.Error("it signed in")
	}
	if n := w.value("SELECT count(*)::text FROM sessions"); n != "0" {
		t.Errorf("%s sessions are left", n)
	}
	if m := w.mail(); m.Template != "password_changed" {
		t.Errorf("got %+v", m)
	}
	if got := w.value("SELECT string_agg(revoked::text, '') FROM oauth_grants"); got != "true" {
		t.Errorf("revoked: %s", got)
	}
	b.send("password", "correct horse").want(400, "/login/password")
	b.send("password", newPassword).want(200, "/login/totp")
}

func TestSEC172_CodesOfAReset(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code := func() string { w.wait(time.Second); return w.mail().Code }
	b := w.browser().forgot("alice")
	first := code()
	b.forgot("alice@mail.example").reset(first).want(400, "/login/reset", "The code is not right") // void by a newer one
	b.forgot("bob").reset(code()).want(200, "/login/password")
	b.forgot("alice")
	second := code()
	w.browser().forgot("bob").reset(second).want(400, "/login/reset") // of another user
	for range 5 {
		b.reset("00000000").want(400, "/login/reset")
	}
	b.reset(second).want(400, "/login/reset") // tried too often
	b.forgot("alice")
	third := code()
	w.wait(10 * time.Minute)
	b.reset(third).want(400, "/login/reset") // too old
	b.forgot("alice")
	fourth := code()
	again := w.browser().forgot("bob")
	w.wait(time.Second)
	b.reset(fourth).want(200, "/login/password")
	b.forgot("nobody at all").reset(fourth).want(400, "/login/reset")
	again.reset(fourth).want(400, "/login/reset")
	// A code for an address is none for a password.
	w.browser().register("carol@new.example")
	verify := w.mail()
	b.forgot("carol@new.example").reset(verify.Code).want(400, "/login/reset")
}

// TestSEC170_ForgottenPasswordsDoNotTellWhoIsKnown compares the answers.
func TestSEC170_ForgottenPasswordsDoNotTellWhoIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	answers := map[string]string{}
	for _, name := range []string{"alice@a.example", "nobod@a.example", "robot@a.example", "alice@x.example"} {
		b := w.browser().forgot(name).want(200, "/login/reset")
		page := sealedFlow.ReplaceAllStringFunc(b.body, func(sealed string) string { return strings.Repeat("F", len(sealed)) })
		b.reset("00000000").want(400, "/login/reset")
		page += sealedFlow.ReplaceAllStringFunc(b.body, func(sealed string) string { return strings.Repeat("F", len(sealed)) })
		answers[strings.ReplaceAll(page, name, "NAME")] = name
	}
	if len(answers) != 1 {
		t.Errorf("there are %d answers", len(answers))
	}
	if w.mails() != "1" {
		t.Errorf("%s messages", w.mails())
	}
}

func TestSEC171_NoHeaderOfARequestGetsIntoAMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := func(header ...string) string {
		b := w.browser()
		for i := 0; i < len(header); i += 2 {
			b.header[header[i]] = []string{header[i+1]}
		}
		b.forgot("alice").want(200, "/login/reset")
		w.wait(time.Minute)
		m := w.mail()
		return strings.ReplaceAll(m.Subject+"\n"+m.Text, m.Code, "CODE")
	}
	want := text()
	if strings.Contains(want, "evil") || !strings.Contains(want, "CODE") {
		t.Fatal(want)
	}
	for _, name := range []string{"X-Forwarded-Host", "Forwarded", "X-Host", "X-Original-Host", "X-Forwarded-Server", "X-Http-Host-Override", "X-Forwarded-Prefix", "X-Rewrite-Url"} {
		value := "evil.example"
		if name == "Forwarded" {
			value = "host=evil.example;proto=http"
		}
		if got := text(name, value); got != want {
			t.Errorf("with %s: %s\n%s", name, value, got)
		}
	}
}
