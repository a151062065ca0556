package oauth

import (
	"encoding/json"
	"testing"
)

func TestSEC039_WhatIsWrittenFirstStays(t *testing.T) {
	t.Parallel()
	o := newClaimSet()
	o.string("iss", "https://a.example")
	o.number("exp", 1)
	o.bool("active", true)
	o.strings("aud", []string{"a", `"`})
	for _, name := range []string{"iss", "exp", "active", "aud"} { // as metadata or an action would
		o.string(name, "other")
		o.number(name, 2)
		o.raw(name, json.RawMessage(`["other"]`))
		o.value(name, map[string]string{"other": ""})
	}
	o.string("empty", "")
	o.strings("none", nil)
	o.raw("null", json.RawMessage("null"))
	if got, want := string(o.end()), `{"iss":"https://a.example","exp":1,"active":true,"aud":["a","\""]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
