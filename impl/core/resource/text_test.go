package resource_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/core/resource"
)

func TestTextFiltersAreLiteral(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name          string
		text          string
		method        object.TextFilterMethod
		exact, folded string
	}{
		{"equals has no wildcard", `100%_\`, object.TextFilterMethod_TEXT_FILTER_METHOD_EQUALS, `100\%\_\\`, ""},
		{"equals ignoring case folds by Unicode", "Straße", object.TextFilterMethod_TEXT_FILTER_METHOD_EQUALS_IGNORE_CASE, "", "strasse"},
		{"starts with", "a%", object.TextFilterMethod_TEXT_FILTER_METHOD_STARTS_WITH, `a\%%`, ""},
		{"starts with ignoring case", "Ab", object.TextFilterMethod_TEXT_FILTER_METHOD_STARTS_WITH_IGNORE_CASE, "", "ab%"},
		{"contains also looks in the indexed column", "Ab", object.TextFilterMethod_TEXT_FILTER_METHOD_CONTAINS, "%Ab%", "%ab%"},
		{"contains ignoring case", "ΣΑΣ", object.TextFilterMethod_TEXT_FILTER_METHOD_CONTAINS_IGNORE_CASE, "", "%σασ%"},
		{"ends with also looks in the indexed column", "_B", object.TextFilterMethod_TEXT_FILTER_METHOD_ENDS_WITH, `%\_B`, `%\_b`},
		{"ends with ignoring case", "B", object.TextFilterMethod_TEXT_FILTER_METHOD_ENDS_WITH_IGNORE_CASE, "", "%b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			exact, folded := resource.Patterns(test.text, test.method)
			for _, pattern := range []struct {
				got  *string
				want string // empty: none
			}{{exact, test.exact}, {folded, test.folded}} {
				if (pattern.got == nil) != (pattern.want == "") || pattern.got != nil && *pattern.got != pattern.want {
					t.Errorf("got %v, want %q", pattern.got, pattern.want)
				}
			}
		})
	}
}

func TestIntersect(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name            string
		ids, more, want []string
	}{
		{"the first list counts as it is", nil, []string{"a", "b"}, []string{"a", "b"}},
		{"an empty first list finds nothing", nil, nil, []string{}},
		{"two lists have to agree", []string{"a", "b"}, []string{"b", "c"}, []string{"b"}},
		{"nothing stays nothing", []string{}, []string{"a"}, []string{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, resource.Intersect(test.ids, test.more)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
