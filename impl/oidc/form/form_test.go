package form_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/writ-id/writ/impl/oidc/form"
)

// request is a type as the contract generates them.
type request struct {
	State, Scope string
	Audience     []string
}

func (r *request) Parameter(name string) (one *string, list *[]string) {
	switch name {
	case "state":
		return &r.State, nil
	case "scope":
		return &r.Scope, nil
	case "audience":
		return nil, &r.Audience
	}
	return nil, nil
}

func TestSEC005_ParametersAreReadOnce(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, raw, wrong, state string }{
		{"once", "state=a", "", "a"},
		{"unknown ones are ignored", "x=1&state=a&x=2&State=b", "", "a"},
		{"without a value it is not there", "state=&state=a&scope", "", "a"},
		{"repeated", "state=a&state=b", "state", "a"},
		{"the same again", "state=a&state=a", "state", "a"},
		{"repeated, escaped", "state=a&%73tate=b", "state", "a"},
		{"not form-encoded", "state=%zz", "state", ""},
		{"a name that is not form-encoded", "%zz=a&state=b", "-", "b"},
		{"a NUL", "state=a%00b", "state", ""},
		{"not UTF-8", "state=%ff", "state", ""},
		{"a semicolon separates nothing", "state=a;state=b", "", "a;state=b"},
		{"plus is a space", "state=a+b%2Bc", "", "a b+c"},
	} {
		var got request
		err := form.Query(test.raw, &got)
		wrong, _ := errors.AsType[*form.Error](err)
		switch {
		case test.wrong == "" && err != nil, test.wrong != "" && wrong == nil, wrong != nil && test.wrong != "-" && wrong.Parameter != test.wrong, test.wrong == "-" && wrong.Parameter != "":
			t.Errorf("%s: got %v, want one about %q", test.name, err, test.wrong)
		}
		if got.State != test.state {
			t.Errorf("%s: state is %q, want %q", test.name, got.State, test.state)
		}
	}
	var list request
	if err := form.Query("audience=a&audience=b&audience=", &list); err != nil || strings.Join(list.Audience, " ") != "a b" {
		t.Errorf("a list: %v, %v", list.Audience, err)
	}
}

func TestSEC030_ParametersAreInTheBody(t *testing.T) {
	t.Parallel()
	const kind = "application/x-www-form-urlencoded"
	for _, test := range []struct {
		name, kind, query, body string
		good                    bool
	}{
		{"a form", kind, "", "state=a", true},
		{"with a charset", kind + "; charset=UTF-8", "", "state=a", true},
		{"another query", kind, "x=1", "state=a", true},
		{"in the query", kind, "state=a", "", false},
		{"in both", kind, "scope=a", "state=a", false},
		{"in the query, escaped", kind, "%73cope=a", "state=a", false},
		{"in the query, empty", kind, "scope=", "state=a", false},
		{"text", "text/plain", "", "state=a", false},
		{"JSON", "application/json", "", `{"state":"a"}`, false},
		{"no type", "", "", "state=a", false},
		{"parts", "multipart/form-data; boundary=x", "", "--x--", false},
	} {
		r := httptest.NewRequest(http.MethodPost, "/?"+test.query, strings.NewReader(test.body))
		if test.kind != "" {
			r.Header.Set("Content-Type", test.kind)
		}
		var got request
		err := form.Body(httptest.NewRecorder(), r, &got)
		if (err == nil) != test.good || test.good && got.State != "a" {
			t.Errorf("%s: got %v %v", test.name, got, err)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("state="+strings.Repeat("a", 64<<10)))
	r.Header.Set("Content-Type", kind)
	var got request
	if err := form.Body(httptest.NewRecorder(), r, &got); !errors.Is(err, form.ErrTooLarge) || got.State != "" {
		t.Errorf("too long: got %v", err)
	}
}

// FuzzQuery: what is accepted is text without NUL, read as url.ParseQuery reads it,
// and reads the same when it is written again. No error quotes the input.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		"state=a&scope=b", "state=a&state=b", "%73tate=a", "state=%zz", "state=%00", "state=%ff", "audience=a&audience=b", "=&&==&state", "state=a;b", "state=a=b=c", "state=+%2B", "&", "state=\u00e9",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		var got request
		if err := form.Query(raw, &got); err != nil {
			for _, c := range []byte(err.Error()) { // fit for error_description (RFC 6749, section 5.2)
				if c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
					t.Fatalf("%q: the error is %q", raw, err)
				}
			}
			return
		}
		for _, text := range append([]string{got.State, got.Scope}, got.Audience...) {
			if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
				t.Fatalf("%q: accepted %q", raw, text)
			}
		}
		written := url.Values{}
		for name, value := range map[string]string{"state": got.State, "scope": got.Scope} {
			if value != "" {
				written.Set(name, value)
			}
		}
		for _, one := range got.Audience {
			written.Add("audience", one)
		}
		var again request
		if err := form.Query(written.Encode(), &again); err != nil || again.State != got.State || again.Scope != got.Scope || strings.Join(again.Audience, "\x00") != strings.Join(got.Audience, "\x00") {
			t.Fatalf("%q: %v became %v: %v", raw, got, again, err)
		}
		if standard, err := url.ParseQuery(raw); err == nil {
			for name, value := range map[string]string{"state": got.State, "scope": got.Scope} {
				if values := strings.Join(standard[name], ""); values != value {
					t.Fatalf("%q: %s is %q, net/url says %q", raw, name, value, standard[name])
				}
			}
		}
	})
}
