package oidc

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestTheBrowserFindsItsWay: the browser gets past every kind of page that a
// provider may have on the way to a client.
func TestTheBrowserFindsItsWay(t *testing.T) {
	const (
		callback = "https://rp.example/callback"
		done     = `<form method="post" action="` + callback + `"><input type="hidden" name="code" value="c&amp;&quot;d"></form><script>document.forms[0].submit()</script>`
		language = `<form><select name="lang"><option>en<option selected>de</select><button>Change language</button></form>`
		search   = `<form action="/search"><input name="q"><button>Find</button></form>`
	)
	for _, test := range []struct {
		name  string
		pages []string // each leads to the next by a form or, when it is a path, by a redirect
		logs  int
		steps string // what the last form of each page sent
	}{
		{
			name:  "name and password on one page",
			pages: []string{language + search + `<form method=post><input name=login><input type=password name=pw><input type=hidden name=csrf value=1><button name=do value=in>Log in</button><button name=do value=out>Cancel</button></form>`, done},
			logs:  1, steps: "csrf=1&do=in&login=ada&pw=s3cret",
		},
		{
			name: "the name first, then the password, then a consent",
			pages: []string{
				search + `<form method=post><input type=email autocomplete=username name=id><button>Next</button></form>`,
				`<form method=post><input type=password name=pw autocomplete=current-password></form>`,
				`<form method=post><input type=checkbox name=remember><button name=consent value=deny>Deny</button><button name=consent value=yes>Allow</button></form>`,
				done,
			},
			logs: 1, steps: "id=ada pw=s3cret consent=yes",
		},
		{
			name: "an account to choose, a button outside of its form",
			pages: []string{
				`<form method=post><button name=account value=new>Another account</button></form><form method=post><button name=account value=1>ada</button></form>`,
				`<form method=post id=f></form><button form=f name=go value=1>Continue</button>`,
				done,
			},
			steps: "account=1 go=1",
		},
		{name: "nothing to do", pages: []string{done}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var sent []string
			op := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				step := 0
				if r.Method == http.MethodPost {
					_, _ = fmt.Sscanf(r.URL.Path, "/%d", &step)
					step++
					_ = r.ParseForm()
					sent = append(sent, r.PostForm.Encode())
					http.Redirect(w, r, fmt.Sprintf("/%d", step), http.StatusSeeOther)
					return
				}
				_, _ = fmt.Sscanf(r.URL.Path, "/%d", &step)
				fmt.Fprintf(w, "<!doctype html><title>x</title>%s", test.pages[step])
			}))
			defer op.Close()
			r := runOn(t, op.URL, callback)
			r.execute(func(r *run) {
				a := r.browser.get(op.URL+"/0", "", user)
				if !a.client || a.method != http.MethodPost || a.form.Get("code") != `c&"d` || !a.automatic {
					t.Errorf("arrived at %s %s with %v", a.method, a.at, a.form)
				}
				if a.logins != test.logs {
					t.Errorf("logged in %d times, want %d", a.logins, test.logs)
				}
			})
			if got := strings.Join(sent, " "); got != test.steps || len(r.findings) > 0 {
				t.Errorf("sent %q, want %q; %v", got, test.steps, r.findings)
			}
		})
	}
}

// TestTheBrowserSeesPolicies: what a real browser would refuse is noted.
func TestTheBrowserSeesPolicies(t *testing.T) {
	for _, test := range []struct {
		policy string
		want   int
	}{
		{"default-src 'self'", 0},
		{"form-action 'self' https://rp.example", 0},
		{"form-action *", 0},
		{"form-action https:", 0},
		{"form-action 'self'", 1},
		{"form-action 'none'", 1},
	} {
		t.Run(test.policy, func(t *testing.T) {
			t.Parallel()
			op := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Security-Policy", test.policy)
				_, _ = fmt.Fprint(w, `<!doctype html><form method=post action="https://rp.example/callback"></form>`)
			}))
			defer op.Close()
			r := runOn(t, op.URL, "https://rp.example/callback")
			r.execute(func(r *run) { r.browser.get(op.URL, "", user) })
			if len(r.browser.blocked) != test.want {
				t.Errorf("got %v, want %d", r.browser.blocked, test.want)
			}
		})
	}
}

// runOn returns a run against a server that is no provider.
func runOn(t *testing.T, issuer, callback string) *run {
	t.Helper()
	client := &Client{ClientID: "web", ClientSecret: "secret", RedirectURI: callback}
	suite, err := New(&Config{Issuer: issuer, User: User{LoginName: "ada", Password: "s3cret"}, Clients: map[string]*Client{roleMain: client}})
	if err != nil {
		t.Fatal(err)
	}
	r := &run{ctx: t.Context(), suite: suite, client: client, log: &transcript{base: suite.client}}
	r.browser = r.newBrowser()
	return r
}

func TestBirthdates(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"1990-12-10": true, "1990": true, "0000-02-29": true,
		"": false, "null": false, "1990-02-30": false, "90-1-1": false, "1300-01-01": false, "2999": false, "0000": false,
	} {
		if got := isBirthdate(s); got != want {
			t.Errorf("%q: got %v, want %v", s, got, want)
		}
	}
}

func TestEntropy(t *testing.T) {
	t.Parallel()
	for s, enough := range map[string]bool{
		"271828182845904523": false, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": false, randomText(43, unreserved): true,
	} {
		if got := entropy(s) > 96; got != enough {
			t.Errorf("%q: %.0f bits", s, entropy(s))
		}
	}
}
