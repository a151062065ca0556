package browser

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// TestScriptsOfOthers sends scripts as state, login hint, display name, login name
// and error: they are shown, and do not run (SEC-010, SEC-149).
func TestScriptsOfOthers(t *testing.T) {
	t.Parallel()
	s, b := plain, newTab(t)
	const attack = `"><script>window.hacked=1</script><img src=x onerror=window.hacked=1>'`
	safe := func(where string) {
		t.Helper()
		if b.truth("!!window.hacked || !!document.querySelector('main script:not([nonce]), main img, main svg')") {
			t.Errorf("the text of another became part of the page: %s", where)
		}
	}
	who := s.newPerson(t, "Eve"+attack, `</span><svg onload=window.hacked=1>`, nil)

	login := s.app.begin("state", attack, "login_hint", attack, "response_mode", "form_post")
	b.open(login.address)
	safe("login_hint")
	if got := b.text("#loginName", "value"); got != attack {
		t.Errorf("the login hint became %q", got)
	}
	b.fill("#loginName", attack)
	b.submit()
	safe("login name")
	b.wantText(attack)
	b.picture("hostile-password")
	b.click("#change")
	b.name(who)
	b.password(who)
	b.arrive(s.app) // the state came back as it was, or nobody would wait for it
	login.finish(t).wantUser(t, who)

	login = s.app.begin("prompt", "select_account", "state", attack)
	b.open(login.address)
	safe("display name")
	b.wantText("Eve" + attack)
	b.picture("hostile-accounts")
	b.clickText(who.LoginName)
	b.arrive(s.app)
	login.finish(t)

	b.withoutScripts() // so that the page that posts stays
	b.open(s.app.begin("response_mode", "form_post", "state", attack).address)
	safe("state")
	if got := b.text("input[name=state]", "value"); got != attack {
		t.Errorf("the state became %q", got)
	}
	for _, query := range []url.Values{
		{"client_id": {attack}}, {"client_id": {s.app.config.ClientID}, "redirect_uri": {attack}, "response_type": {attack}},
	} {
		b.open(s.app.config.Endpoint.AuthURL + "?" + query.Encode())
		safe("error page")
	}
	b.open(s.app.logoutAddress(url.Values{"state": {attack}, "post_logout_redirect_uri": {"javascript:window.hacked=1//" + attack}}))
	safe("logout")
	b.quiet()
}

// TestErrorPages are what people see when a client is wrong: in words, with a code
// for its developers, and without any way on to an address that nobody registered.
func TestErrorPages(t *testing.T) {
	t.Parallel()
	s, b := plain, newTab(t)
	for _, test := range []struct {
		name, address string
		want          string
	}{
		{"error-client", s.app.begin("client_id", "nobody").address, "invalid_request"},
		{"error-redirect", s.app.begin("redirect_uri", "https://evil.example/callback").address, "invalid_request"},
		{"error-not-found", s.Issuer + "/login/nowhere", "not_found"},
		{"error-flow", s.Issuer + "/login/password?flow=stale", "login_expired"},
		{"error-logout", s.app.logoutAddress(url.Values{"post_logout_redirect_uri": {"https://evil.example/"}}), ""},
	} {
		b.open(test.address)
		if got := b.text("#error-code", "textContent"); got != test.want && test.want != "" {
			t.Errorf("%s: got code %q, want %q: %s", test.name, got, test.want, b.describe())
		}
		if !strings.HasPrefix(b.address(), s.Issuer) || b.truth("[...document.querySelectorAll('a')].some(a => a.href.includes('evil'))") {
			t.Errorf("%s leads to the address of another: %s", test.name, b.describe())
		}
		b.picture(test.name)
	}
}

// TestOtherBrowser opens a login in a browser that did not begin it, and in one
// that keeps no cookies.
func TestOtherBrowser(t *testing.T) {
	t.Parallel()
	s, b := plain, newTab(t)
	who := s.newPerson(t, "Ada", "Lindgren", nil)
	b.open(s.app.begin().address)
	b.name(who)
	b.see("#password")

	other := newTab(t)
	other.open(b.address())
	other.wantText("login_expired")
	other.picture("error-other-browser")

	b.loseCookies()
	b.fill("#password", who.Password)
	b.submit()
	b.wantText("login_expired")
	b.picture("error-cookies")
}

// TestTwoTabs signs in in one tab while the other waits: both end at the client.
func TestTwoTabs(t *testing.T) {
	t.Parallel()
	s, b := plain, newTab(t)
	who := s.newPerson(t, "Ada", "Lindgren", nil)
	first, second := s.app.begin(), s.app.begin()
	b.open(first.address)
	other := b.another()
	other.open(second.address)
	b.name(who)
	other.name(who)
	other.password(who)
	other.arrive(s.app)
	second.finish(t).wantUser(t, who)
	b.password(who)
	b.arrive(s.app)
	first.finish(t).wantUser(t, who)
	b.quiet()
}

// TestBack goes back from the client to the pages of the login that is over.
func TestBack(t *testing.T) {
	t.Parallel()
	s, b := plain, newTab(t)
	who := s.newPerson(t, "Ada", "Lindgren", nil)
	login := s.app.begin()
	b.open(login.address)
	b.name(who)
	b.password(who)
	b.arrive(s.app)
	login.finish(t)

	b.back()
	b.picture("after-back")
	if b.truth("!!document.querySelector('#password') && document.querySelector('#password').value !== ''") {
		t.Error("the password is still in the page")
	}
	login = s.app.begin()
	b.open(login.address)
	b.arrive(s.app)
	login.finish(t).wantUser(t, who)
}

// back goes back by one page.
func (b *tab) back() {
	b.Helper()
	before := b.address()
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		history, err := cdp.Call(ctx, target, page.GetNavigationHistory, cdp.Empty{})
		if err != nil {
			return err
		}
		_, err = cdp.Call(ctx, target, page.NavigateToHistoryEntry, page.NavigateToHistoryEntryParams{EntryID: history.Entries[history.CurrentIndex-1].ID})
		return err
	}))
	for deadline := 0; b.address() == before && deadline < 1000; deadline++ {
		b.wait("document.readyState === 'complete'", "page to go back to")
	}
	b.see("#main")
}
