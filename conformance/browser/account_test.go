package browser

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// TestSecondFactor asks for the code of an authenticator app, and lets the user
// take another factor instead.
func TestSecondFactor(t *testing.T) {
	t.Parallel()
	s, b := plain, newTab(t)
	who := s.newPerson(t, "Ada", "Lindgren", nil)
	secret := s.addTOTP(t, who)
	login := s.app.begin()
	b.open(login.address)
	b.name(who)
	b.password(who)
	b.see("#code")
	b.picture("totp")
	b.fill("#code", "000 00")
	b.submit()
	b.wantText("The code is not right")
	b.picture("totp-wrong")
	b.fill("#code", totp(t, secret, time.Now()))
	b.submit()
	b.arrive(s.app)
	got := login.finish(t)
	got.wantUser(t, who)
	if !slices.Equal(got.claims.AMR, []string{"pwd", "otp", "mfa"}) {
		t.Errorf("got amr %v", got.claims.AMR)
	}

	s.must(t, "/v3alpha/users/"+who.ID+"/otp_sms", object{"number": "+41791234567", "isVerified": true}, &created{})
	s.must(t, "/v3alpha/users/"+who.ID+"/otp_email", object{"address": who.Email, "isVerified": true}, &created{})
	other := newTab(t)
	login = s.app.begin()
	other.open(login.address)
	other.name(who)
	other.password(who)
	other.picture("totp-or-others")
	other.clickText("Get a code by text message")
	other.wantText("A code is on its way.")
	other.picture("sms")
	other.clickText("Get a code by email")
	other.picture("email")
	other.fill("#code", s.mailed(t, who.Email))
	other.submit()
	other.arrive(s.app)
	login.finish(t).wantUser(t, who)
}

// TestForcedChange has the user choose another password before the login ends.
func TestForcedChange(t *testing.T) {
	t.Parallel()
	s, b := plain, newTab(t)
	who := s.newPerson(t, "Ada", "Lindgren", object{"changeRequired": true})
	login := s.app.begin()
	b.open(login.address)
	b.name(who)
	b.password(who)
	b.see("#newPassword")
	b.picture("change-password")
	b.fill("#newPassword", "four words in a row")
	b.fill("#newPasswordAgain", "four words in a raw")
	b.submit()
	b.wantText("The two passwords are not the same.")
	b.picture("change-password-wrong")
	who.Password = "four words in a row"
	b.fill("#newPassword", who.Password)
	b.fill("#newPasswordAgain", who.Password)
	b.submit()
	b.arrive(s.app)
	login.finish(t).wantUser(t, who)

	other := newTab(t)
	login = s.app.begin()
	other.open(login.address)
	other.name(who)
	other.password(who)
	other.arrive(s.app)
	login.finish(t).wantUser(t, who)
}

// TestRegister makes an account with the code that is mailed.
func TestRegister(t *testing.T) {
	t.Parallel()
	s, b := plain, newTab(t)
	login := s.app.begin()
	b.open(login.address)
	b.clickText("Create an account")
	b.see("#givenName")
	b.picture("register")
	eval[bool](b, "document.querySelector('#form').noValidate = true")
	b.submit()
	b.wantText("Enter your given name.")
	b.picture("register-empty")
	for field, text := range map[string]string{
		"#givenName": "Nora", "#familyName": "Neu", "#email": "nora.neu@mail.example", "#newPassword": goodPassword, "#newPasswordAgain": goodPassword,
	} {
		b.fill(field, text)
	}
	b.submit()
	b.wantText("Check your email")
	b.picture("verify")
	b.fill("#code", "0")
	b.submit()
	b.wantText("The code is not right")
	b.fill("#code", s.mailed(t, "nora.neu@mail.example"))
	b.submit()
	b.arrive(s.app)
	got := login.finish(t)
	if got.info.Email != "nora.neu@mail.example" || !got.info.EmailVerified || got.name != "Nora Neu" {
		t.Errorf("registered %s, verified %t, %q", got.info.Email, got.info.EmailVerified, got.name)
	}
}

// TestForgottenPassword sets a new one with the code that is mailed.
func TestForgottenPassword(t *testing.T) {
	t.Parallel()
	s, b := plain, newTab(t)
	who := s.newPerson(t, "Ada", "Lindgren", nil)
	login := s.app.begin()
	b.open(login.address)
	b.name(who)
	b.clickText("Forgot your password?")
	if got := b.text("#loginName", "value"); got != who.LoginName {
		t.Errorf("the login name is %q, want it filled in", got)
	}
	b.picture("forgot")
	b.submit()
	b.see("#code")
	b.picture("reset")
	who.Password = "another horse entirely"
	b.fill("#code", s.mailed(t, who.Email))
	b.fill("#newPassword", who.Password)
	b.fill("#newPasswordAgain", who.Password)
	b.submit()
	b.wantText("Your new password is set.")
	b.picture("password-after-reset")
	b.password(who)
	b.arrive(s.app)
	login.finish(t).wantUser(t, who)
}

// TestClickingTwice breaks the first request off in the middle: the second one ends
// well, and it made the only user.
func TestClickingTwice(t *testing.T) {
	t.Parallel()
	s, b := plain, newTab(t)
	login := s.app.begin("prompt", "create")
	b.open(login.address)
	for field, text := range map[string]string{
		"#givenName": "Dora", "#familyName": "Doppel", "#email": "dora@mail.example", "#newPassword": goodPassword, "#newPasswordAgain": goodPassword,
	} {
		b.fill(field, text)
	}
	b.twice("#submit")
	b.wantText("Check your email")
	for _, code := range s.allMailed(t, "dora@mail.example") { // which of two came last is not sure
		if b.truth("!!document.querySelector('#code')") {
			b.fill("#code", code)
			b.submit()
		}
	}
	b.arrive(s.app)
	dora := login.finish(t)
	var users struct {
		Result []struct {
			Details struct{ ID string } `json:"details"`
			State   string              `json:"state"`
			Human   struct {
				Email struct{ Address string } `json:"email"`
			} `json:"human"`
		} `json:"result"`
	}
	s.must(t, "/resources/v3alpha/users/_search", []any{}, &users)
	for _, user := range users.Result {
		if user.Human.Email.Address == "dora@mail.example" && (user.Details.ID != dora.id.Subject || user.State != "USER_STATE_ACTIVE") {
			t.Errorf("there is another user %+v", user)
		}
	}
}

// twice clicks on something as impatient people do.
func (b *tab) twice(selector string) {
	b.Helper()
	b.do(chromedp.ScrollIntoView(chromedp.CSS(selector)))
	at, ok := eval[[]float64](b, fmt.Sprintf("(r => [r.x + r.width / 2, r.y + r.height / 2])(document.querySelector(%q).getBoundingClientRect())", selector))
	if !ok || len(at) != 2 {
		b.Fatalf("no %s at %s", selector, b.describe())
	}
	click := chromedp.MouseClickXY(at[0], at[1])
	b.leave(click, chromedp.Sleep(100*time.Millisecond), click)
}
