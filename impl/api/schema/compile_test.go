package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

const permission = `"urn:service:schema:permission":`

func TestCompileRefusesWhatIsNoSchemaOfAnObject(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"properties":{"a":`, 40) + `{}` + strings.Repeat(`}}`, 40)
	for _, text := range []string{
		``, `null`, `true`, `[]`, `1`, `{`, `{}`, `{"type":"string"}`, `{"type":["object"]}`, `{"properties":{}}`,
		`{"type":"object","$schema":"http://json-schema.org/draft-07/schema#"}`, `{"type":"object","$schema":"https://json-schema.org/draft/2019-09/schema"}`,
		`{"type":"object","$schema":"https://evil.example/meta"}`, `{"type":"object","$defs":{"a":{"$id":"a","$schema":"http://json-schema.org/draft-04/schema#"}}}`,
		`{"type":"object","properties":{"a":{"type":"nonsense"}}}`, `{"type":"object","properties":[]}`, `{"type":"object","required":"a"}`,
		`{"type":"object","properties":{"a":{"pattern":"("}}}`, `{"type":"object","minProperties":-1}`, `{"type":"object","properties":{"a":{"multipleOf":0}}}`,
		`{"type":"object","properties":{"a":` + deep + `}}`, `{"type":"object","description":"` + strings.Repeat("x", maxSchemaBytes) + `"}`,
	} {
		if _, err := Compile([]byte(text)); err == nil {
			t.Errorf("%.80s compiles", text)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%.80s: more than a line: %s", text, err)
		}
	}
	for _, text := range []string{
		`{"type":"object"}`, `{"type":"object","$schema":"https://json-schema.org/draft/2020-12/schema"}`,
		`{"type":"object","properties":{"$schema":{"type":"string"}},"additionalProperties":false}`,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"string"}}}`,
		`{"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#"}}}}`,
		`{"type":"object","prefixItems":[],"unevaluatedProperties":false}`,
	} {
		if _, err := Compile([]byte(text)); err != nil && !strings.Contains(text, "prefixItems") {
			t.Errorf("%s: %s", text, err)
		}
	}
}

func TestSEC250_ASchemaRefersToNothingOutside(t *testing.T) {
	t.Parallel()
	for _, ref := range []string{
		"https://example.com/schema.json", "http://127.0.0.1/", "file:///etc/passwd", "other.json", "/other.json", "urn:writ:other", "urn:uuid:1", "//example.com/x", "../x",
	} {
		for _, shape := range []string{`{"type":"object","$ref":%q}`, `{"type":"object","properties":{"a":{"$ref":%q}}}`, `{"type":"object","$dynamicRef":%q}`, `{"type":"object","$id":"https://example.com/","allOf":[{"$ref":%q}]}`} {
			if _, err := Compile(fmt.Appendf(nil, shape, ref)); err == nil {
				t.Errorf(shape+" compiles", ref)
			}
		}
	}
	if _, err := Compile([]byte(`{"type":"object","properties":{"a":{"$ref":"#/$defs/none"}}}`)); err == nil {
		t.Error("a reference to nothing compiles")
	}
}

func TestAPermissionIsMadeOfAdminAndSelfWithRAndWOnAProperty(t *testing.T) {
	t.Parallel()
	compiles := func(schema string) bool { _, err := Compile([]byte(schema)); return err == nil }
	for value, want := range map[string]bool{
		`{}`: true, `{"admin":"rw","self":"r"}`: true, `{"self":"w"}`: true, `{"admin":""}`: true, `{"admin":"wr"}`: true,
		`{"admin":"rwx"}`: false, `{"owner":"r"}`: false, `{"admin":"R"}`: false, `{"admin":true}`: false, `{"self":["r"]}`: false,
		`"rw"`: false, `null`: false, `[]`: false, `{"admin":"rww"}`: false, `{"admin":" r"}`: false, `{"":"r"}`: false,
	} {
		for _, shape := range []string{`{"type":"object","properties":{"a":{%s %s}}}`, `{"type":"object","properties":{"o":{"type":"object","properties":{"a":{"type":"string",%s %s}}}}}`} {
			if got := compiles(fmt.Sprintf(shape, permission, value)); got != want {
				t.Errorf("%s in %s: got %v", value, shape, got)
			}
		}
	}
	// Where nobody would obey it, it is refused.
	for _, shape := range []string{
		`{"type":"object",%s}`, `{"type":"object","$defs":{"d":{"properties":{"a":{%s}}}}}`, `{"type":"object","allOf":[{"properties":{"a":{%s}}}]}`,
		`{"type":"object","properties":{"a":{"items":{%s}}}}`, `{"type":"object","patternProperties":{"a":{%s}}}`, `{"type":"object","additionalProperties":{%s}}`,
		`{"type":"object","if":{"properties":{"a":{%s}}}}`, `{"type":"object","dependentSchemas":{"a":{"properties":{"b":{%s}}}}}`,
	} {
		if text := fmt.Sprintf(shape, permission+`{"admin":"r"}`); compiles(text) {
			t.Errorf("%s compiles", text)
		}
	}
	// A property may be called like it, or like a keyword.
	if !compiles(`{"type":"object","properties":{"urn:service:schema:permission":{"type":"string"},"properties":{"type":"object","properties":{"x":{` + permission + `{"self":"r"}}}}}}`) {
		t.Error("a property called like the keyword is refused")
	}
}

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	made := map[string]any{}
	if err := json.Unmarshal([]byte(text), &made); err != nil {
		t.Fatal(err)
	}
	return made
}

func TestSEC236_DataIsWrittenByWhomThePermissionNames(t *testing.T) {
	t.Parallel()
	compiled, err := Compile([]byte(`{"type":"object","properties":{
		"free":{},
		"both":{"type":["string","number"],` + permission + `{"admin":"rw","self":"rw"}},
		"admin":{` + permission + `{"admin":"rw","self":"r"}},
		"secret":{` + permission + `{"admin":"rw"}},
		"self":{` + permission + `{"admin":"r","self":"rw"}},
		"nobody":{` + permission + `{}},
		"o":{"type":"object","properties":{"in":{` + permission + `{"admin":"rw"}},"out":{}}}
	},"required":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ access, before, data, want string }{
		{"admin", `{}`, `{"free":1,"both":"x","admin":1,"secret":1,"o":{"in":1}}`, `{"free":1,"both":"x","admin":1,"secret":1,"o":{"in":1}}`},
		{"admin", `{}`, `{"self":1}`, ""}, {"admin", `{}`, `{"nobody":1}`, ""}, {"self", `{}`, `{"nobody":1}`, ""},
		{"self", `{}`, `{"self":1,"both":"x","free":{"a":1}}`, `{"self":1,"both":"x","free":{"a":1}}`},
		{"self", `{}`, `{"admin":1}`, ""}, {"self", `{}`, `{"secret":1}`, ""}, {"self", `{}`, `{"o":{"in":1}}`, ""},
		{"self", `{"admin":1}`, `{"admin":1,"free":2}`, `{"admin":1,"free":2}`}, // unchanged
		{"self", `{"admin":1}`, `{"admin":"1"}`, ""},                            // another type is a change
		{"self", `{"admin":1,"secret":{"a":[1]}}`, `{"free":2}`, `{"admin":1,"secret":{"a":[1]},"free":2}`},
		{"self", `{"free":1,"both":"x"}`, `{}`, `{}`}, // theirs to take away
		{"self", `{"o":{"in":1,"out":2}}`, `{"o":{"out":3}}`, `{"o":{"in":1,"out":3}}`},
		{"self", `{"o":{"in":1,"out":2}}`, `{}`, `{"o":{"in":1}}`},
		{"self", `{"o":{"in":1}}`, `{"o":{"in":2}}`, ""}, {"self", `{"o":{"in":1}}`, `{"o":{"in":null}}`, ""},
		{"admin", `{"o":{"in":1}}`, `{}`, `{}`}, {"admin", `{"self":1}`, `{}`, `{"self":1}`},
		{"admin", `{}`, `{"both":true}`, ""}, {"admin", `{}`, `{"o":1}`, ""}, {"self", `{}`, `{"secret":null}`, ""},
	} {
		got, err := compiled.Apply(t.Context(), decode(t, test.data), decode(t, test.before), Access(test.access))
		if (err != nil) != (test.want == "") || err == nil && !reflect.DeepEqual(got, decode(t, test.want)) {
			t.Errorf("%s writes %s over %s: got %v, %v; want %s", test.access, test.data, test.before, got, err, test.want)
		}
	}
	for access, want := range map[Access]string{Admin: `{"free":1,"both":1,"admin":1,"secret":1,"self":1,"o":{"in":1,"out":1},"more":{"secret":1}}`, Self: `{"free":1,"both":1,"admin":1,"self":1,"o":{"out":1},"more":{"secret":1}}`} {
		data := decode(t, `{"free":1,"both":1,"admin":1,"secret":1,"self":1,"nobody":1,"o":{"in":1,"out":1},"more":{"secret":1}}`)
		Readable(compiled.document, data, access)
		if !reflect.DeepEqual(data, decode(t, want)) {
			t.Errorf("%s reads %v, want %s", access, data, want)
		}
	}
}

// FuzzCompile looks for schemas that crash, and for permissions that are not
// obeyed: what compiles never lets self write or read what only admin may.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{
		`{"type":"object"}`, `{"type":"object","properties":{"a":{"urn:service:schema:permission":{"admin":"rw"}}}}`, `{"type":"object","$ref":"#"}`, `{"type":"object","$id":"x","$anchor":"y","$dynamicRef":"#y"}`,
		`{"type":"object","patternProperties":{"^(a+)+$":{"format":"uri"}},"propertyNames":{"pattern":"a"}}`, `{"type":"object","$schema":"https://json-schema.org/draft/2020-12/schema","unevaluatedProperties":{"$ref":"#/properties/a"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		compiled, err := Compile(text)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %q", err)
			}
			return
		}
		data := map[string]any{"a": "x", "b": map[string]any{"a": 1.0}}
		if next, err := compiled.Apply(t.Context(), data, map[string]any{}, Self); err == nil {
			properties, _ := compiled.document["properties"].(map[string]any)
			for name := range next {
				if !allowed(properties[name], Self, "w") {
					t.Errorf("self wrote %s", name)
				}
			}
			Readable(compiled.document, next, Self)
			for name := range next {
				if !allowed(properties[name], Self, "r") {
					t.Errorf("self reads %s", name)
				}
			}
		}
	})
}
