package login_test

import (
	"encoding/base32"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	authv3 "github.com/writ-id/writ/gen/proto/writ/authenticator/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/oidc/login/flow"
)

// addFactors gives a user an authenticator app, whose key it returns, and verified
// addresses for codes, as far as they are asked for.
func (w *world) addFactors(name string, kinds ...string) (key []byte) {
	w.Helper()
	ctx := policy.As(w.Context(), policy.Context{Level: policyv1.Level_LEVEL_INSTANCE, InstanceID: w.instance.ID}, "system", w.Roles)
	id := w.users[name].ID
	for _, kind := range kinds {
		var err error
		switch kind {
		case "totp":
			var added *authv3.AddTOTPResponse
			if added, err = w.factors.AddTOTP(ctx, &authv3.AddTOTPRequest{UserId: id}); err != nil {
				w.Fatal(err)
			}
			if key, err = base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(added.GetSecret()); err != nil {
				w.Fatal(err)
			}
			_, err = w.factors.VerifyTOTP(ctx, &authv3.VerifyTOTPRequest{UserId: id, TotpId: added.GetTotpId(), Code: secret.TOTP(key, w.now())})
			w.wait(time.Minute) // that code is used
		case "sms":
			_, err = w.factors.AddOTPSMS(ctx, &authv3.AddOTPSMSRequest{UserId: id, Phone: &authv3.OTPPhone{Number: "+41791234567", Verification: &authv3.OTPPhone_IsVerified{IsVerified: true}}})
		case "email":
			_, err = w.factors.AddOTPEmail(ctx, &authv3.AddOTPEmailRequest{UserId: id, Email: &authv3.OTPEmail{Address: "alice@second.example", Verification: &authv3.OTPEmail_IsVerified{IsVerified: true}}})
		}
		if err != nil {
			w.Fatal(err)
		}
	}
	return key
}

// mail is the newest message.
type mail struct{ Template, Recipient, Language, Subject, Text, Code string }

func (w *world) mail() (m mail) {
	w.Helper()
	text := w.value(`SELECT (payload || jsonb_build_object('template', template, 'recipient', recipient, 'language', language))::text
		FROM messages ORDER BY creation_date DESC, id DESC LIMIT 1`)
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		w.Fatal(err)
	}
	return m
}

func (w *world) mails() string { return w.value("SELECT count(*)::text FROM messages") }

func TestSEC179_SecondFactors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.addFactors("alice", "totp", "sms", "email")
	b := w.browser().signIn("alice", "correct horse").want(200, "/login/totp", "authenticator app", `autocomplete="one-time-code"`, `inputmode="numeric"`)
	if w.done() != nil || w.mails() != "0" {
		t.Fatal("the password is enough, or a message was sent unasked")
	}
	b.send("code", "000000").want(400, "/login/totp", "The code is not right")
	b.send("code", "12345").want(400, "/login/totp")
	code := secret.TOTP(key, w.now())
	b.send("code", code[:3]+" "+code[3:]).want(200, "/done")
	if s := w.done(); strings.Join(s.AMR, " ") != "pwd otp mfa" || s.LoginName != "alice@a.example" {
		t.Errorf("got %+v", s)
	}
	// The session is complete for eighteen hours, and its password for longer.
	w.wait(17 * time.Hour)
	b.open("/begin").want(200, "/login")
	for _, test := range []struct{ path, kind, recipient, amr string }{
		{"/login/sms", "otp_sms", "+41791234567", "pwd sms mfa"}, {"/login/email", "otp_email", "alice@second.example", "pwd otp mfa"},
	} {
		w.wait(2 * time.Hour)
		b = w.browser().signIn("alice", "correct horse").want(200, "/login/totp")
		b.post(test.path, url.Values{"flow": b.forms["form"].values["flow"], "send": {"yes"}}).want(200, test.path, "A code is on its way.")
		m := w.mail()
		if m.Template != test.kind || m.Recipient != test.recipient || strings.Contains(b.body, test.recipient) {
			t.Errorf("got %+v", m)
		}
		w.wait(time.Second)
		b.post(test.path, url.Values{"flow": b.forms["form"].values["flow"], "send": {"yes"}}).want(200, test.path)
		if old := m.Code; old == w.mail().Code {
			t.Error("the same code again")
		} else {
			b.send("code", old).want(400, test.path, "The code is not right")
		}
		b.send("code", w.mail().Code).want(200, "/done")
		if s := w.done(); strings.Join(s.AMR, " ") != test.amr {
			t.Errorf("got %+v", s)
		}
	}
}

func TestACodeIsSentToWhoHasNothingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addFactors("alice", "email")
	b := w.browser().signIn("alice", "correct horse").want(200, "/login/email", "a…@second.example")
	if w.mails() != "1" {
		t.Fatalf("%s messages", w.mails())
	}
	b.open("/login/email?flow="+b.forms["form"].values.Get("flow")).want(200, "/login/email") // a GET sends none
	if w.mails() != "1" {
		t.Errorf("%s messages", w.mails())
	}
	b.send("code", w.mail().Code).want(200, "/done")
}

func TestSEC175_TriesOfCodesEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.addFactors("alice", "totp")
	for range 11 { // starting again does not help
		w.browser().signIn("alice", "correct horse").want(200, "/login/totp").send("code", "000000").want(400, "/login/totp")
	}
	b := w.browser().signIn("alice", "correct horse").want(200, "/login/totp", "too many tries. Wait ten minutes before")
	b.send("code", secret.TOTP(key, w.now())).want(400, "/login/totp", "too many tries. Wait ten minutes, then")
	w.wait(10 * time.Minute)
	b.send("code", secret.TOTP(key, w.now())).want(200, "/done")
}

// TestSEC144_NoStepIsLeftOut opens and sends every page in every state of a login.
func TestSEC144_NoStepIsLeftOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addFactors("alice", "totp")
	begun := w.browser().open("/begin")
	named := w.browser().open("/begin").send("loginName", "alice").want(200, "/login/password")
	half := w.browser().signIn("alice", "correct horse").want(200, "/login/totp")
	changing := w.browser().signIn("changing", "correct horse").want(200, "/login/change-password")
	paths := []string{"/login", "/login/password", "/login/totp", "/login/sms", "/login/email", "/login/change-password", "/login/accounts", "/login/verify", "/login/reset"}
	full := url.Values{
		"code": {"000000"}, "newPassword": {"battery staple"}, "newPasswordAgain": {"battery staple"}, "password": {"wrong one"}, "session": {w.value("SELECT id FROM sessions LIMIT 1")},
	}
	for state, b := range map[string]*browser{"begun": begun, "named": named, "half": half, "changing": changing} {
		sealed := b.forms["form"].values.Get("flow")
		for _, path := range paths {
			for _, form := range []url.Values{{}, full} {
				if path == "/login/change-password" && state == "changing" {
					continue // that one is due
				}
				b.open("/login" + strings.TrimPrefix(path, "/login") + "?flow=" + sealed)
				sent := url.Values{"flow": {sealed}}
				for name, value := range form {
					sent[name] = value
				}
				if b.post(path, sent); b.path == "/done" || b.status >= 500 {
					t.Errorf("%s: %s with %v leads to %d %s", state, path, form, b.status, b.path)
				}
			}
		}
	}
	if s := w.done(); s != nil {
		t.Errorf("somebody signed in: %+v", s)
	}
	if n := w.value("SELECT count(*)::text FROM events WHERE event_type = 'user.human.password.changed'"); n != "0" {
		t.Error("a password was changed")
	}
}

func TestChangeRequired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	elsewhere := w.browser().signIn("changing", "correct horse").want(200, "/login/change-password")
	b := w.browser().signIn("changing", "correct horse").want(200, "/login/change-password", `autocomplete="new-password"`)
	for _, test := range []struct{ first, again, text, link string }{
		{"", "", "Enter a new password.", "#newPassword"},
		{"short", "short", "at least 8 characters", "#newPassword"},
		{strings.Repeat("x", 1001), "", "at most 1000 characters", "#newPassword"},
		{"battery staple", "battery stable", "The two passwords are not the same.", "#newPasswordAgain"},
		{"CHANGING@a.example", "CHANGING@a.example", "not your name here", "#newPassword"},
		{"correct horse", "correct horse", "other than the one you have now", "#newPassword"},
	} {
		b.send("newPassword", test.first, "newPasswordAgain", test.again).want(400, "/login/change-password", test.text, `id="errors" role="alert"`, `href="`+test.link+`"`)
		if test.first != "" && strings.Contains(b.body, test.first) {
			t.Error("the page repeats the password")
		}
	}
	w.wait(16 * time.Minute) // SEC-180: not with an old proof
	b.send("newPassword", "battery staple", "newPasswordAgain", "battery staple").want(200, "/login/password")
	b.send("password", "correct horse").want(200, "/login/change-password")
	b.send("newPassword", "battery staple", "newPasswordAgain", "battery staple").want(200, "/done")
	if s := w.done(); s == nil || !s.AuthTime.Equal(w.now()) {
		t.Errorf("got %+v", s)
	}
	if m := w.mail(); m.Template != "password_changed" || m.Recipient != "changing@mail.example" {
		t.Errorf("got %+v", m)
	}
	elsewhere.send("newPassword", "another staple", "newPasswordAgain", "another staple").want(200, "/login/password")
	if n := w.value("SELECT count(*)::text FROM sessions"); n != "1" {
		t.Errorf("%s sessions", n)
	}
	w.begin.Store(&begun{Asked: flow.Asked{Request: "x=y"}})
	b.signIn("changing", "correct horse").want(400, "/login/password")
	b.signIn("changing", "battery staple").want(200, "/done")
}
