package scope

import (
	"slices"
	"strings"
	"testing"
)

// FuzzReadScopes: what is granted was asked for, is there once, and is granted again.
func FuzzReadScopes(f *testing.F) {
	for _, seed := range []string{
		"openid", "openid profile openid", " openid  email ", "", "openid\tprofile", "openid \"", URN + "org:project:id:service:aud", URN + "org:project:id::aud", URN + "org:project:role:",
		URN + "org:id:1 " + URN + "org:id:2", URN + "org:domain:primary:A.example", strings.Repeat("a ", 101),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		set, err := Read(text)
		if err != nil {
			return
		}
		granted := set.List
		asked := strings.Fields(text)
		for i, scope := range granted {
			if !slices.Contains(asked, scope) || slices.Contains(granted[:i], scope) {
				t.Fatalf("%q: granted %q", text, granted)
			}
		}
		again, err := Read(set.String())
		if err != nil || !slices.Equal(again.List, granted) {
			t.Fatalf("%q: %q became %q: %v", text, granted, again, err)
		}
	})
}
