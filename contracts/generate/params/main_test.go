package main

import (
	"os"
	"strings"
	"testing"
)

const spec = `
paths:
  /token:
    post: {requestBody: {content: {application/x-www-form-urlencoded: {schema: {$ref: '#/components/schemas/TokenRequest'}}}}}
components:
  schemas:
    TokenRequest:
      properties:
        grant_type: {type: string}
        audience: {type: array, items: {type: string}}
    Other: {properties: {count: {type: integer}}}
`

func TestEachParameterHasItsField(t *testing.T) {
	t.Parallel()
	got, err := code([]byte(spec))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"func (r *TokenRequest) Parameter(", "return &r.GrantType, nil", "return nil, &r.Audience"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if strings.Contains(string(got), "Other") {
		t.Error("what no form is read into has parameters")
	}
}

func TestWhatIsNoTextFailsByName(t *testing.T) {
	t.Parallel()
	for change, want := range map[string]string{
		"grant_type: {type: string}|grant_type: {type: integer}":               "TokenRequest.grant_type: a parameter is a text or a list of texts, not a integer",
		"#/components/schemas/TokenRequest|#/components/schemas/NobodyRequest": "there is no schema NobodyRequest",
		"application/x-www-form-urlencoded|application/json":                   "no operation takes application/x-www-form-urlencoded",
	} {
		before, after, _ := strings.Cut(change, "|")
		if _, err := code([]byte(strings.Replace(spec, before, after, 1))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestTheGoldenFileIsGen(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../openapi/oauth.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := code(text)
	if err != nil {
		t.Fatal(err)
	}
	if want, err := os.ReadFile("../../../gen/oauth/params.go"); err != nil || string(got) != string(want) {
		t.Errorf("gen/oauth/params.go differs from what the generator writes; run make generate (%v)", err)
	}
}
