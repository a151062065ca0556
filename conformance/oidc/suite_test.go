package oidc

import (
	"bytes"
	"os"
	"testing"
)

// TestPlans fails on every FAIL and WARN: what is only recommended is kept too.
func TestPlans(t *testing.T) {
	suite, err := New(provider(t))
	if err != nil {
		t.Fatal(err)
	}
	results := suite.Run(t.Context())
	for _, result := range results {
		t.Run(shortPlan(result.Plan)+"/"+result.Module+"/"+result.Variant, func(t *testing.T) {
			switch {
			case result.Bad():
				t.Error(suite.Detail(result))
			case result.Verdict == Skip:
				t.Skip(result.seen())
			case result.Verdict == Review:
				t.Log(result.seen())
			}
		})
	}
	t.Log(Summary(results))
	if path := os.Getenv("WRIT_OIDC_RESULTS"); path != "" {
		var text bytes.Buffer
		suite.Markdown(&text, results)
		if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
			t.Error(err)
		}
	}
}
