package browser

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestTheFormThatLeadsOn(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, page, want string }{
		{"asks for a password, not for a language", `<form action="/language"><select name="l"></select><button>Go</button></form>
			<form method="post" action="/password"><input type="hidden" name="csrf" value="c"><input name="password" type="password"><button name="go" value="1">Next</button></form>`,
			"/password csrf=c go=1 password="},
		{"has its buttons outside, and only the first is pressed", `<form id="f" method="post" action="/logout"><input type="hidden" name="x" value="y"></form>
			<button form="f" name="logout" value="yes">Yes</button><button form="f" name="logout" value="no">No</button>`, "/logout logout=yes x=y"},
		{"sends what is checked and not what is disabled", `<form><input name="a" type="checkbox" checked value="1"><input name="b" type="checkbox" value="1"><input name="c" disabled></form>`, " a=1"},
		{"is none on a page that says something", `<p>You are logged out.</p>`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f, err := chooseForm(test.page, true)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if f != nil {
				values := url.Values{}
				for _, field := range f.fields {
					values.Add(field.name, field.value)
				}
				got = f.action + " " + strings.ReplaceAll(values.Encode(), "&", " ")
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestALogin(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /start", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "flow", Value: "1", Path: "/", Secure: true})
		http.Redirect(w, r, "/login", http.StatusFound)
	})
	page := func(w http.ResponseWriter, fields string) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, `<form method="post" action="/login">`+fields+`<button>Next</button></form>`)
	}
	mux.HandleFunc("/login", func(w http.ResponseWriter, r *http.Request) {
		if _, err := r.Cookie("flow"); err != nil {
			http.Error(w, "no cookie", http.StatusBadRequest)
			return
		}
		switch {
		case r.FormValue("password") == "right":
			http.Redirect(w, r, "http://party.example/callback?code=c", http.StatusSeeOther)
		case r.FormValue("login_name") != "":
			page(w, `<input type="hidden" name="login_name" value="`+r.FormValue("login_name")+`"><input type="password" name="password">`)
		default:
			page(w, `<input name="login_name" autofocus>`)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)

	at, _, err := New(http.DefaultTransport, "alice", "right").Visit(t.Context(), server.URL+"/start", "http://party.example/callback")
	if err != nil || at.Query().Get("code") != "c" {
		t.Errorf("got %v, %v, want the callback with a code", at, err)
	}
	if _, _, err = New(http.DefaultTransport, "alice", "wrong").Visit(t.Context(), server.URL+"/start", "http://party.example/callback"); err == nil {
		t.Error("a wrong password led somewhere")
	}
}
