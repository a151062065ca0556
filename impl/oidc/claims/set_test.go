package claims

import (
	"encoding/json"
	"testing"
)

func TestSEC039_WhatIsWrittenFirstStays(t *testing.T) {
	t.Parallel()
	o := NewSet()
	o.String("iss", "https://a.example")
	o.Number("exp", 1)
	o.Bool("active", true)
	o.Strings("aud", []string{"a", `"`})
	for _, name := range []string{"iss", "exp", "active", "aud"} { // as metadata or an action would
		o.String(name, "other")
		o.Number(name, 2)
		o.Raw(name, json.RawMessage(`["other"]`))
		o.Value(name, map[string]string{"other": ""})
	}
	o.String("empty", "")
	o.Strings("none", nil)
	o.Raw("null", json.RawMessage("null"))
	if got, want := string(o.End()), `{"iss":"https://a.example","exp":1,"active":true,"aud":["a","\""]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSEC039_NobodyElseWritesWhatReadersDecideBy(t *testing.T) {
	t.Parallel()
	for _, name := range append([]string{"iss", "sub", "aud", "exp", "jti", "act", "scope", "client_id", "active", "urn:service:iam:anything", "SUB", "Exp", "\u017fub", "URN:service:iam:anything"}, Supported...) {
		if !Reserved(name) {
			t.Errorf("%q is not reserved", name)
		}
	}
	for _, name := range []string{"groups", "tier", "https://claims.example/sub", "urn:service:other", "subject"} {
		if Reserved(name) {
			t.Errorf("%q is reserved", name)
		}
	}
}
