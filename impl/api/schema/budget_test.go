package schema

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// doubled is a schema in which each of some definitions says a thing twice of the
// next.
func doubled(depth int, keyword string) string {
	var defs []string
	for i := range depth {
		defs = append(defs, fmt.Sprintf(`"d%d":{%q:[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, keyword, i+1, i+1))
	}
	return fmt.Sprintf(`{"type":"object","$ref":"#/$defs/d0","$defs":{%s,"d%d":{"type":"object"}}}`, strings.Join(defs, ","), depth)
}

func many(n int, shape string) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(shape, i))
	}
	return strings.Join(all, ",")
}

func TestSEC293_ASchemaThatComesToTooMuchIsRefusedWhereItDoes(t *testing.T) {
	t.Parallel()
	chain := `{"type":"object","$ref":"#/$defs/d0","$defs":{`
	for i := range 70 {
		chain += fmt.Sprintf(`"d%d":{"$ref":"#/$defs/d%d"},`, i, i+1)
	}
	chain += `"d70":{}}}`
	for _, test := range []struct{ name, text, want string }{
		{"allOf of pairs", doubled(18, "allOf"), "#/$defs/d"},
		{"anyOf", doubled(22, "anyOf"), "more than 10000 schemas"},
		{"oneOf", doubled(25, "oneOf"), "more than 10000 schemas"},
		{"a long chain", chain, "more than 64 schemas refer to each other"},
		{"itself", `{"type":"object","$ref":"#"}`, "#: the schema refers to itself"},
		{"itself by another one", `{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"},true]}}}`, "refers to itself"},
		{"the metaschema", `{"type":"object","properties":{"a":{"$ref":"https://json-schema.org/draft/2020-12/schema"}}}`, "outside of the schema"},
		{"a long pattern", `{"type":"object","properties":{"a":{"pattern":"` + strings.Repeat("a", 501) + `"}}}`, "properties.a.pattern"},
		{"a pattern of many repetitions", `{"type":"object","properties":{"a":{"pattern":"((a{1,30}){1,30}b)*c{900}"}}}`, "the pattern is too long with its repetitions written out"},
		{"many patterns", `{"type":"object","allOf":[` + many(20, `{"pattern":"x%da{900}b{900}"}`) + `]}`, "too long together"},
		{"many schemas", `{"type":"object","allOf":[` + many(2000, `{"maxLength":%d}`) + `]}`, "at most 1500 schemas"},
		{"one for names", `{"type":"object","patternProperties":{"a{1000}b{1000}c{1000}":{}}}`, "the pattern is too long"},
	} {
		if _, err := Compile([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
	tree := `{"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#"}},"other":{"$ref":"#"}}}`
	for _, text := range []string{doubled(11, "allOf"), tree} {
		compiled, err := Compile([]byte(text))
		if err != nil {
			t.Errorf("%.80s: %v", text, err)
			continue
		}
		if err := compiled.Check(t.Context(), decode(t, `{"children":[{"children":[]},{"other":{}}]}`)); err != nil {
			t.Errorf("%.80s: %v", text, err)
		}
	}
}

// What is little by itself may be much of a value: then the work ends when it is
// used up, whatever the schema would have said.
func TestSEC293_TheWorkForAValueIsBounded(t *testing.T) {
	t.Parallel()
	nested := strings.Repeat(`{"a":`, 60) + `{}` + strings.Repeat(`}`, 60)
	twice := func(keyword, end string) string {
		child := `{"properties":{"a":{"$ref":"#/$defs/n"}},"required":["a"]` + end + `}`
		return fmt.Sprintf(`{"type":"object","$ref":"#/$defs/n","$defs":{"n":{%q:[%s,%s]}}}`, keyword, child, child)
	}
	list := many(10_000, "%d")
	for _, test := range []struct{ name, schema, data, want string }{
		{"allOf", twice("allOf", ""), nested, errTooMuchWork.Error()},
		{"anyOf", twice("anyOf", ""), nested, errTooMuchWork.Error()},
		{"oneOf", twice("oneOf", ""), nested, errTooMuchWork.Error()},
		{"what fails early", twice("anyOf", `,"not":{}`), nested, errTooMuchWork.Error()},
		{"not", `{"type":"object","properties":{"a":{"not":{"pattern":"b"}}}}`, `{"a":"` + strings.Repeat("a", 5000) + `"}`, "held against no pattern"},
		{"long lists", `{"type":"object","properties":{"l":{"items":{"enum":[` + list + `]}}}}`, `{"l":[` + list + `]}`, errTooMuchWork.Error()},
		{"a pattern on a long text", `{"type":"object","properties":{"a":{"pattern":"(a*)*b"}}}`, `{"a":"` + strings.Repeat("a", 30_000) + `"}`, "held against no pattern"},
		{"a pattern on many", `{"type":"object","properties":{"l":{"items":{"pattern":"(a{0,30}){0,30}b"}}}}`,
			`{"l":["` + strings.Repeat(strings.Repeat("a", 4000)+`","`, 15) + `"]}`, errTooMuchWork.Error()},
		{"names", `{"type":"object","patternProperties":{"(a{0,30}){0,30}b":{}}}`, `{"` + strings.Repeat("a", 5000) + `":1}`, "held against no pattern"},
		{"data that is a pattern", `{"type":"object","properties":{"a":{"format":"regex"}}}`, `{"a":"a{1000}b{1000}c{1000}"}`, "the pattern is too long"},
	} {
		compiled, err := Compile([]byte(test.schema))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if err := compiled.Check(t.Context(), decode(t, test.data)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
		// The next value begins anew.
		if err := compiled.Check(t.Context(), decode(t, `{}`)); errors.Is(err, errTooMuchWork) {
			t.Errorf("%s: the next value: %v", test.name, err)
		}
	}
}

func TestREL014_TheWorkForAValueEndsWithItsCall(t *testing.T) {
	t.Parallel()
	compiled, err := Compile([]byte(`{"type":"object","properties":{"l":{"items":{"type":"number"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	data := decode(t, `{"l":[`+strings.TrimSuffix(strings.Repeat("1,", 10_000), ",")+`]}`)
	if err := compiled.Check(t.Context(), data); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := compiled.Check(ctx, data); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
