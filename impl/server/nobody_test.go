package server_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/writ-id/writ/gen/openapi"
	"github.com/writ-id/writ/impl/server/servertest"
)

// TestSEC236_NoBodyIsThrownAway sends a body to each operation of the contract that takes none: it
// is refused by its name, and an empty object, which some generated clients send, is none.
func TestSEC236_NoBodyIsThrownAway(t *testing.T) {
	t.Parallel()
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(openapi.JSON, &document); err != nil {
		t.Fatal(err)
	}
	c := servertest.New(t, 1, nil)
	variable := regexp.MustCompile(`\{\w+\}`)
	tried := 0
	for path, operations := range document.Paths {
		at := variable.ReplaceAllString(path, "1")
		for verb, text := range operations {
			var operation struct {
				Method string          `json:"x-grpc-method"`
				Body   json.RawMessage `json:"requestBody"`
			}
			if json.Unmarshal(text, &operation) != nil || operation.Method == "" || operation.Body != nil {
				continue
			}
			tried++
			for _, body := range []string{`{"organizationOnly":true}`, `[]`, `nope`, `{}{}`} {
				got := c.Do("", strings.ToUpper(verb), at, body)
				if got.Status != 400 || !strings.Contains(got.Body, `"UNEXPECTED_BODY"`) || !strings.Contains(got.Body, `"field":"body"`) {
					t.Errorf("%s %s of %s: got %d %s", verb, path, body, got.Status, got.Body)
				}
			}
			for _, body := range []string{``, `{}`, " { }\n"} {
				if got := c.Do("", strings.ToUpper(verb), at, body); strings.Contains(got.Body, "UNEXPECTED_BODY") {
					t.Errorf("%s %s of %q: got %d %s", verb, path, body, got.Status, got.Body)
				}
			}
		}
	}
	if tried < 80 {
		t.Errorf("there are %d operations without a body, the test did not find them", tried)
	}
}
