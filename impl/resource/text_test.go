package resource_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/resource"
)

func TestTextFiltersAreLiteral(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	for _, test := range []struct {
		name   string
		text   string
		method object.TextFilterMethod
		want   resource.TextFilters
	}{
		{"equals has no wildcard", `100%_\`, object.TextFilterMethod_TEXT_FILTER_METHOD_EQUALS, resource.TextFilters{Like: text(`100\%\_\\`)}},
		{"equals ignoring case folds by Unicode", "Straße", object.TextFilterMethod_TEXT_FILTER_METHOD_EQUALS_IGNORE_CASE, resource.TextFilters{Folded: text("strasse")}},
		{"starts with", "a%", object.TextFilterMethod_TEXT_FILTER_METHOD_STARTS_WITH, resource.TextFilters{Like: text(`a\%%`)}},
		{"starts with ignoring case", "Ab", object.TextFilterMethod_TEXT_FILTER_METHOD_STARTS_WITH_IGNORE_CASE, resource.TextFilters{Folded: text("ab%")}},
		{"contains also looks in the indexed column", "Ab", object.TextFilterMethod_TEXT_FILTER_METHOD_CONTAINS, resource.TextFilters{Like: text("%Ab%"), Folded: text("%ab%")}},
		{"contains ignoring case", "ΣΑΣ", object.TextFilterMethod_TEXT_FILTER_METHOD_CONTAINS_IGNORE_CASE, resource.TextFilters{Folded: text("%σασ%")}},
		{"ends with also looks in the indexed column", "_B", object.TextFilterMethod_TEXT_FILTER_METHOD_ENDS_WITH, resource.TextFilters{Like: text(`%\_B`), Folded: text(`%\_b`)}},
		{"ends with ignoring case", "B", object.TextFilterMethod_TEXT_FILTER_METHOD_ENDS_WITH_IGNORE_CASE, resource.TextFilters{Folded: text("%b")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got resource.TextFilters
			got.Add(test.text, test.method)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestFurtherTextFiltersAreAllKept(t *testing.T) {
	t.Parallel()
	var filters resource.TextFilters
	for _, text := range []string{"a", "b", "c"} {
		filters.Add(text, object.TextFilterMethod_TEXT_FILTER_METHOD_CONTAINS)
	}
	if diff := cmp.Diff([]string{"%b%", "%c%"}, filters.MoreLikes); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(filters.MoreFoldeds) != 2 {
		t.Errorf("got %d further folded patterns, want 2", len(filters.MoreFoldeds))
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
