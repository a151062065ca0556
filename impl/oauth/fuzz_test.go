package oauth_test

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/writ-id/writ/impl/oauth"
)

// FuzzBasic: what is accepted is text that encodes to the same header again; and what
// is encoded as RFC 6749, section 2.3.1, has it is accepted as it was (SEC-052).
func FuzzBasic(f *testing.F) {
	for _, seed := range []string{"Basic YTpi", "basic YTpi", "Basic  YTpi ", "Basic YSUzQWI6Yw==", "Basic JTAwOmI=", "Basic Og==", "Basic OmI=", "Bearer YTpi", "Basic", "", "Basic YTpiJXp6", "Basic YTol/w==", "Basic YTpi\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		id, secret, ok := oauth.Basic(header)
		if ok {
			if id == "" || !utf8.ValidString(id) || !utf8.ValidString(secret) || strings.IndexByte(id, 0) >= 0 {
				t.Fatalf("%q: accepted %q %q", header, id, secret)
			}
			again := "Basic " + base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id)+":"+url.QueryEscape(secret)))
			if id2, secret2, ok := oauth.Basic(again); !ok || id2 != id || secret2 != secret {
				t.Fatalf("%q: %q %q became %q %q", header, id, secret, id2, secret2)
			}
		}
		// The other way round, with the input as both.
		if !utf8.ValidString(header) || header == "" || strings.IndexByte(header, 0) >= 0 {
			return
		}
		encoded := "Basic " + base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(header)+":"+url.QueryEscape(header)))
		if id, secret, ok := oauth.Basic(encoded); !ok || id != header || secret != header {
			t.Fatalf("%q came back as %q %q", header, id, secret)
		}
	})
}

// FuzzReadScopes: what is granted was asked for, is there once, and is granted again.
func FuzzReadScopes(f *testing.F) {
	for _, seed := range []string{
		"openid", "openid profile openid", " openid  email ", "", "openid\tprofile", "openid \"", urn + "org:project:id:service:aud", urn + "org:project:id::aud", urn + "org:project:role:",
		urn + "org:id:1 " + urn + "org:id:2", urn + "org:domain:primary:A.example", strings.Repeat("a ", 101),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		granted, err := oauth.ReadScopes(text)
		if err != nil {
			return
		}
		asked := strings.Fields(text)
		for i, scope := range granted {
			if !slices.Contains(asked, scope) || slices.Contains(granted[:i], scope) {
				t.Fatalf("%q: granted %q", text, granted)
			}
		}
		again, err := oauth.ReadScopes(strings.Join(granted, " "))
		if err != nil || !slices.Equal(again, granted) {
			t.Fatalf("%q: %q became %q: %v", text, granted, again, err)
		}
	})
}

// FuzzProves: only the text that a challenge was made of proves it, if it is one that
// RFC 7636, section 4.1, allows.
func FuzzProves(f *testing.F) {
	f.Add(verifier, verifier)
	f.Add("", "")
	f.Add(verifier, challengeOf(verifier))
	f.Add(strings.Repeat("~", 128), strings.Repeat("~", 129))
	f.Fuzz(func(t *testing.T, shown, made string) {
		allowed := len(shown) >= 43 && len(shown) <= 128 && strings.Trim(shown, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~") == ""
		if got, want := oauth.Proves(shown, challengeOf(made)), allowed && shown == made; got != want {
			t.Fatalf("%q for the challenge of %q: %v", shown, made, got)
		}
		if oauth.Proves(shown, "") != (shown == "") {
			t.Fatalf("%q proves no challenge", shown)
		}
	})
}
