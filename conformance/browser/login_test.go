package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestPasswordLogin follows one person through a day: a wrong password, the right
// one, another visit without any question, prompt=login, and out again.
func TestPasswordLogin(t *testing.T) {
	for name, s := range map[string]*server{"http": plain, "https": secure} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			who, b := s.newPerson(t, "Ada", "Lindgren", nil), newTab(t)

			login := s.app.begin()
			b.open(login.address)
			b.see("#loginName")
			b.wantText("to continue to Field Notes")
			if name == "http" {
				b.picture("name")
			}
			b.submitEmpty("#loginName", "Enter your login name or email address.")
			b.name(who)
			b.see("#password")
			b.wantText(who.LoginName)
			if name == "http" {
				b.picture("password")
			}
			b.fill("#password", "not my password")
			b.submit()
			b.wantText("We could not sign you in with this login name and password.")
			if title := b.text("title", "text"); !strings.HasPrefix(title, "Error: ") {
				t.Errorf("a page with a mistake has the title %q", title)
			}
			if !b.truth("document.activeElement.id === 'password'") {
				t.Error("after a mistake the field does not have the focus")
			}
			if name == "http" {
				b.picture("password-wrong")
			}
			b.password(who)
			b.arrive(s.app)
			first := login.finish(t)
			first.wantUser(t, who)
			if first.info.Email != who.Email || first.name != "Ada Lindgren" || !slices.Equal(first.claims.AMR, []string{"pwd"}) {
				t.Errorf("got %s, %q, %+v", first.info.Email, first.name, first.claims)
			}

			again := s.app.begin()
			b.open(again.address)
			b.arrive(s.app)
			again.finish(t).wantUser(t, who)

			time.Sleep(time.Until(time.Unix(first.claims.AuthTime+1, 0))) // auth_time is in seconds
			anew := s.app.begin("prompt", "login")
			b.open(anew.address)
			b.see("#loginName")
			if got := b.text("#loginName", "value"); got != who.LoginName {
				t.Errorf("with prompt=login the login name is %q, want it filled in", got)
			}
			b.submit()
			b.password(who)
			b.arrive(s.app)
			second := anew.finish(t)
			second.wantUser(t, who)
			if second.claims.AuthTime <= first.claims.AuthTime {
				t.Errorf("prompt=login: auth_time went from %d to %d", first.claims.AuthTime, second.claims.AuthTime)
			}

			b.open(s.app.logoutAddress(url.Values{"id_token_hint": {second.raw}, "post_logout_redirect_uri": {s.app.home}, "state": {"bye"}}))
			b.arrive(s.app)
			if at := b.address(); at != s.app.home+"?state=bye" {
				t.Errorf("after the logout the browser is at %s", at)
			}
			b.open(s.app.begin().address)
			b.see("#loginName")
			b.quiet()
		})
	}
}

// submitEmpty sends a form with an empty field: the browser keeps it, and so does
// the server when the browser is told not to look.
func (b *tab) submitEmpty(field, want string) {
	b.Helper()
	b.see(field)
	b.do(chromedp.Clear(chromedp.CSS(field)), chromedp.Click(chromedp.CSS("#submit")))
	if b.truth("document.querySelector('#form').checkValidity()") {
		b.Error("an empty form is valid")
	}
	eval[bool](b, "document.querySelector('#form').noValidate = true")
	b.submit()
	b.wantText(want)
}

func TestAccountChooser(t *testing.T) {
	t.Parallel()
	s, b := plain, newTab(t)
	ada, ben := s.newPerson(t, "Ada", "Lindgren", nil), s.newPerson(t, "Benedikt Maximilian", "von und zu Hohenwaldau-Lichtenstein", nil)
	for i, who := range []person{ada, ben} {
		login := s.app.begin("prompt", "select_account")
		b.open(login.address)
		if i > 0 {
			b.see("#accounts")
			b.clickText("Use another account")
		}
		b.name(who)
		b.password(who)
		b.arrive(s.app)
		login.finish(t).wantUser(t, who)
	}
	for _, who := range []person{ada, ben} {
		login := s.app.begin()
		b.open(login.address)
		b.see("#accounts")
		b.picture("accounts")
		b.clickText(who.LoginName)
		b.arrive(s.app)
		login.finish(t).wantUser(t, who)
	}

	login := s.app.begin("prompt", "login")
	b.open(login.address)
	b.wantText("Password needed")
	b.picture("accounts-password")
	b.clickText(ada.LoginName)
	b.password(ada)
	b.arrive(s.app)
	login.finish(t).wantUser(t, ada)
}

// TestLogoutWithoutHint asks before it sends the browser on to a client, because any
// page can have it come here; somebody who only comes here is signed out (SEC-131).
func TestLogoutWithoutHint(t *testing.T) {
	t.Parallel()
	s, b := plain, newTab(t)
	who := s.newPerson(t, "Ada", "Lindgren", nil)
	login := s.app.begin()
	b.open(login.address)
	b.name(who)
	b.password(who)
	b.arrive(s.app)
	login.finish(t)

	ask := s.app.logoutAddress(url.Values{"client_id": {s.app.config.ClientID}, "post_logout_redirect_uri": {s.app.home}})
	b.open(ask)
	b.wantText("Sign out?")
	b.wantText(who.LoginName)
	b.picture("signout")
	b.open(s.app.begin().address)
	b.arrive(s.app) // nothing was ended by looking

	b.open(ask)
	b.submit()
	b.arrive(s.app)
	b.wantText("Signed out of Field Notes")
	login = s.app.begin()
	b.open(login.address)
	b.name(who)
	b.password(who)
	b.arrive(s.app)
	login.finish(t)

	b.open(s.app.logoutAddress(nil))
	b.wantText("Sign out?")
	b.submit()
	b.wantText("You are signed out")
	b.picture("signedout")
	b.open(s.app.begin().address)
	b.see("#loginName")
}

// TestFormPost brings the answer in a form that sends itself, or is sent by its
// button where no script runs (OAuth 2.0 Form Post Response Mode).
func TestFormPost(t *testing.T) {
	for name, s := range map[string]*server{"http": plain, "https": secure} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			who, b := s.newPerson(t, "Ada", "Lindgren", nil), newTab(t)
			login := s.app.begin("response_mode", "form_post")
			b.open(login.address)
			b.name(who)
			b.password(who)
			b.arrive(s.app)
			if got := login.finish(t); got.method != "POST" {
				t.Errorf("the answer came by %s", got.method)
			}

			b.withoutScripts()
			login = s.app.begin("response_mode", "form_post")
			b.open(login.address)
			b.see("#submit")
			b.wantText("please go on with the button")
			if name == "http" {
				b.picture("form-post")
			}
			b.submit()
			b.arrive(s.app)
			if got := login.finish(t); got.method != "POST" {
				t.Errorf("the answer came by %s", got.method)
			}
			b.quiet()
		})
	}
}

// TestCancel goes back to the client without signing in, from a page whose fields are
// empty, with or without scripts (RFC 6749, section 4.1.2.1).
func TestCancel(t *testing.T) {
	for name, s := range map[string]*server{"http": plain, "https": secure} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTab(t)
			for _, mode := range []string{"query", "form_post", "query without scripts"} {
				mode, still := strings.CutSuffix(mode, " without scripts")
				if still {
					b.withoutScripts()
				}
				login := s.app.begin("response_mode", mode)
				b.open(login.address)
				b.see("#loginName")
				b.click("#cancel")
				b.arrive(s.app)
				b.wantText("access_denied")
				if got := login.answer(t); got.Get("error") != "access_denied" || got.Get("iss") != s.Issuer || got.Has("code") {
					t.Errorf("%s: the client was told %v", mode, got.Values)
				}
			}
			login := s.app.begin() // the password page, which offers other ways too
			b.open(login.address)
			b.name(s.User)
			b.click("#cancel")
			b.arrive(s.app)
			if got := login.answer(t); got.Get("error") != "access_denied" {
				t.Errorf("the client was told %v", got.Values)
			}
			b.quiet()
		})
	}
}

// TestOnward ends at a client that sends the browser on to another origin, as a
// backend does whose pages are elsewhere: Chromium holds the whole chain of redirects
// to the form-action of the page whose form began it.
func TestOnward(t *testing.T) {
	pages := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<title>Field Notes</title><link rel="icon" href="data:,"><h1>Your notes</h1>`)
	})
	for name, s := range map[string]*server{"http": plain, "https": secure} {
		for _, mode := range []string{"query", "form_post"} {
			t.Run(name+" "+mode, func(t *testing.T) {
				t.Parallel()
				app := &party{}
				backend, frontend := httptest.NewUnstartedServer(app), httptest.NewUnstartedServer(pages)
				for _, one := range []*httptest.Server{backend, frontend} {
					if name == "https" {
						one.StartTLS()
					} else {
						one.Start()
					}
					t.Cleanup(one.Close)
				}
				app.onward = frontend.URL + "/"
				if err := app.register(s, "Notes of "+t.Name(), backend.URL+"/"); err != nil {
					t.Fatal(err)
				}
				who, b := s.newPerson(t, "Ada", "Lindgren", nil), newTab(t)
				login := app.begin("response_mode", mode)
				b.open(login.address)
				b.name(who)
				b.password(who)
				b.wait(fmt.Sprintf("location.href === %q", app.onward), "way on from the client")
				b.wantText("Your notes")
				login.finish(t).wantUser(t, who)
				b.quiet()
			})
		}
	}
}

// TestKeyboard signs in without a mouse: what is to be filled in has the focus,
// Enter sends, and Tab passes every control in the order in which it is read.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	s, b := plain, newTab(t)
	who := s.newPerson(t, "Ada", "Lindgren", nil)
	login := s.app.begin()
	b.open(login.address)
	b.wait("document.activeElement.id === 'loginName'", "focus in the field")
	b.do(chromedp.KeyEvent(who.LoginName))
	b.leave(chromedp.KeyEvent(kb.Enter))
	b.wait("document.activeElement.id === 'password'", "focus in the field")
	for _, want := range []string{"Show", "submit", "Forgot your password?", "cancel"} {
		b.press(kb.Tab)
		if got, _ := eval[string](b, "document.activeElement.id || document.activeElement.textContent"); got != want {
			t.Errorf("Tab leads to %q, want %q", got, want)
		}
		if outline, _ := eval[string](b, "getComputedStyle(document.activeElement).outlineStyle"); outline != "solid" {
			t.Errorf("the focus on %s is not to be seen", want)
		}
	}
	b.picture("password-focus")
	for range 4 {
		b.do(chromedp.KeyEvent(kb.Tab, chromedp.KeyModifiers(chromedp.ModifierShift)))
	}
	b.wait("document.activeElement.id === 'password'", "way back by Shift+Tab")
	b.do(chromedp.KeyEvent(who.Password), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Tab))
	b.leave(chromedp.KeyEvent(kb.Enter))
	b.arrive(s.app)
	login.finish(t).wantUser(t, who)
}

// TestGerman reads the pages in German, which the client asks for.
func TestGerman(t *testing.T) {
	t.Parallel()
	s, b := plain, newTab(t)
	who := s.newPerson(t, "Änne", "Größl", object{"changeRequired": true})
	secret := s.addTOTP(t, who)
	login := s.app.begin("ui_locales", "de-CH de")
	b.open(login.address)
	if language := b.text("html", "lang"); language != "de" {
		t.Errorf("the page is in %q", language)
	}
	b.wantText("weiter zu Field Notes")
	b.picture("de-name")
	b.clickText("Konto anlegen")
	b.picture("de-register")
	b.clickText("Ich habe ein Konto")
	b.name(who)
	b.picture("de-password")
	b.clickText("Passwort vergessen?")
	b.picture("de-forgot")
	b.submit()
	b.picture("de-reset")
	b.clickText("Zurück zur Anmeldung")
	b.submit()
	b.fill("#password", "ist es nicht")
	b.submit()
	b.picture("de-password-wrong")
	b.password(who)
	b.picture("de-totp")
	b.fill("#code", totp(t, secret, time.Now()))
	b.submit()
	b.picture("de-change-password")
	b.fill("#newPassword", "kurz")
	b.fill("#newPasswordAgain", "kürzer")
	eval[bool](b, "document.querySelector('#form').noValidate = true")
	b.submit()
	b.picture("de-change-password-short")
	b.fill("#newPassword", "vier Wörter hintereinander")
	b.fill("#newPasswordAgain", "vier Wörter hintereinander")
	b.submit()
	b.arrive(s.app)
	login.finish(t).wantUser(t, who)
	b.open(s.app.logoutAddress(url.Values{"ui_locales": {"de"}, "client_id": {s.app.config.ClientID}, "post_logout_redirect_uri": {s.app.home}}))
	b.wantText("Abmelden?")
	b.picture("de-signout")
	b.open(s.Issuer + "/oauth/v2/authorize?client_id=unknown&ui_locales=de")
	b.picture("de-error")
}
