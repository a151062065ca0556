package client

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzBasic: what is accepted is text that encodes to the same header again; and what
// is encoded as RFC 6749, section 2.3.1, has it is accepted as it was (SEC-052).
func FuzzBasic(f *testing.F) {
	for _, seed := range []string{"Basic YTpi", "basic YTpi", "Basic  YTpi ", "Basic YSUzQWI6Yw==", "Basic JTAwOmI=", "Basic Og==", "Basic OmI=", "Bearer YTpi", "Basic", "", "Basic YTpiJXp6", "Basic YTol/w==", "Basic YTpi\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		id, secret, ok := readBasic(header)
		if ok {
			if id == "" || !utf8.ValidString(id) || !utf8.ValidString(secret) || strings.IndexByte(id, 0) >= 0 {
				t.Fatalf("%q: accepted %q %q", header, id, secret)
			}
			again := "Basic " + base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id)+":"+url.QueryEscape(secret)))
			if id2, secret2, ok := readBasic(again); !ok || id2 != id || secret2 != secret {
				t.Fatalf("%q: %q %q became %q %q", header, id, secret, id2, secret2)
			}
		}
		// The other way round, with the input as both.
		if !utf8.ValidString(header) || header == "" || strings.IndexByte(header, 0) >= 0 {
			return
		}
		encoded := "Basic " + base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(header)+":"+url.QueryEscape(header)))
		if id, secret, ok := readBasic(encoded); !ok || id != header || secret != header {
			t.Fatalf("%q came back as %q %q", header, id, secret)
		}
	})
}
