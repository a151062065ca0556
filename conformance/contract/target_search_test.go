package contract

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
)

// search searches targets.
func (s *suite) search(req *actionv3.SearchTargetsRequest) *actionv3.SearchTargetsResponse {
	s.t.Helper()
	return must[*actionv3.SearchTargetsResponse](s, req)
}

// sorted are targets with ties in every column but the name, in the order of
// their creation.
func sorted() []*actionv3.Target {
	var all []*actionv3.Target
	for i, name := range []string{"b", "B", "a", "Ä", "ä", "_", "%", "aa", "日本", "\uffee", "🙂", " ", "z", "Z", "10", "9"} {
		target := webhook(name)
		target.Timeout = durationpb.New([]time.Duration{time.Second, 10 * time.Second, 1500 * time.Millisecond, 1}[i%4])
		url := []string{"https://b.example", "https://a.example/", "http://a.example", "https://a.example"}[i/2%4]
		if i%3 == 0 {
			target.TargetType = &actionv3.Target_RestRequestResponse{RestRequestResponse: &actionv3.RestRequestResponse{Url: url}}
		} else {
			target.TargetType = &actionv3.Target_RestWebhook{RestWebhook: &actionv3.RestWebhook{Url: url}}
		}
		switch i % 5 {
		case 0:
			target.ExecutionType = &actionv3.Target_IsAsync{IsAsync: true}
		case 1:
			target.ExecutionType = &actionv3.Target_IsAsync{IsAsync: false}
		case 2:
			target.ExecutionType = &actionv3.Target_InterruptOnError{InterruptOnError: true}
		case 3:
			target.ExecutionType = &actionv3.Target_InterruptOnError{InterruptOnError: false}
		}
		all = append(all, target)
	}
	return all
}

func urlOf(t *actionv3.Target) string {
	return t.GetRestWebhook().GetUrl() + t.GetRestRequestResponse().GetUrl()
}

// TestSEC240_EveryColumnSortsBothWays pages through each order by three and
// compares it with an order made here. Ties are broken by the ID, so no page
// overlaps another.
func TestSEC240_EveryColumnSortsBothWays(t *testing.T) {
	s := newSuite(t)
	made := map[string]int{} // when a target was created, by ID
	for i, target := range sorted() {
		made[s.create(target).GetId()] = i
	}
	all := s.search(&actionv3.SearchTargetsRequest{}).GetResult()
	for i := len(all) - 1; i >= 0; i -= 3 { // so that the change is another order than the creation
		all[i].Details = s.patch(all[i].GetDetails().GetId(), &actionv3.PatchTarget{Timeout: durationpb.New(2 * time.Second)})
		all[i].Target.Timeout = durationpb.New(2 * time.Second)
	}
	boolean := func(b bool) int { // false before true
		if b {
			return 1
		}
		return 0
	}
	byCreation := func(a, b *actionv3.GetTarget) int {
		return made[a.GetDetails().GetId()] - made[b.GetDetails().GetId()]
	}
	columns := map[actionv3.TargetFieldName]func(a, b *actionv3.GetTarget) int{
		actionv3.TargetFieldName_TARGET_FIELD_NAME_UNSPECIFIED:   byCreation,
		actionv3.TargetFieldName_TARGET_FIELD_NAME_CREATION_DATE: byCreation,
		actionv3.TargetFieldName_TARGET_FIELD_NAME_ID:            func(a, b *actionv3.GetTarget) int { return 0 },
		actionv3.TargetFieldName_TARGET_FIELD_NAME_CHANGE_DATE: func(a, b *actionv3.GetTarget) int {
			return a.GetDetails().GetChangeDate().AsTime().Compare(b.GetDetails().GetChangeDate().AsTime())
		},
		actionv3.TargetFieldName_TARGET_FIELD_NAME_NAME: func(a, b *actionv3.GetTarget) int {
			return strings.Compare(a.GetTarget().GetName(), b.GetTarget().GetName())
		},
		actionv3.TargetFieldName_TARGET_FIELD_NAME_TARGET_TYPE: func(a, b *actionv3.GetTarget) int {
			return boolean(a.GetTarget().GetRestWebhook() != nil) - boolean(b.GetTarget().GetRestWebhook() != nil)
		},
		actionv3.TargetFieldName_TARGET_FIELD_NAME_URL: func(a, b *actionv3.GetTarget) int {
			return strings.Compare(urlOf(a.GetTarget()), urlOf(b.GetTarget()))
		},
		actionv3.TargetFieldName_TARGET_FIELD_NAME_TIMEOUT: func(a, b *actionv3.GetTarget) int {
			return cmp.Compare(a.GetTarget().GetTimeout().AsDuration(), b.GetTarget().GetTimeout().AsDuration())
		},
		actionv3.TargetFieldName_TARGET_FIELD_NAME_ASYNC: func(a, b *actionv3.GetTarget) int {
			return boolean(a.GetTarget().GetIsAsync()) - boolean(b.GetTarget().GetIsAsync())
		},
		actionv3.TargetFieldName_TARGET_FIELD_NAME_INTERRUPT_ON_ERROR: func(a, b *actionv3.GetTarget) int {
			return boolean(a.GetTarget().GetInterruptOnError()) - boolean(b.GetTarget().GetInterruptOnError())
		},
	}
	for number, name := range actionv3.TargetFieldName_name {
		column := actionv3.TargetFieldName(number)
		order, known := columns[column]
		if !known {
			t.Errorf("%s is not tested", name)
			continue
		}
		for _, asc := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s asc=%t", name, asc), func(t *testing.T) {
				s := s.in(t)
				want := slices.SortedFunc(slices.Values(all), func(a, b *actionv3.GetTarget) int {
					return cmp.Or(order(a, b), strings.Compare(a.GetDetails().GetId(), b.GetDetails().GetId()))
				})
				if !asc {
					slices.Reverse(want)
				}
				var got []*actionv3.GetTarget
				for offset := 0; ; offset += 3 {
					found := s.search(&actionv3.SearchTargetsRequest{
						Query: &object.ListQuery{Offset: uint64(offset), Limit: 3, Asc: asc}, SortingColumn: column,
					})
					got = append(got, found.GetResult()...)
					details := found.GetDetails()
					if details.GetAppliedLimit() != 3 || details.GetTotalResult() != uint64(len(all)) || found.GetSortingColumn() != column {
						t.Errorf("offset %d: got limit %d, total %d, column %s", offset, details.GetAppliedLimit(), details.GetTotalResult(), found.GetSortingColumn())
					}
					if atEnd := offset+3 >= len(all); details.GetEndOfList() != atEnd {
						t.Errorf("offset %d: got endOfList %t, want %t", offset, details.GetEndOfList(), atEnd)
					}
					if details.GetEndOfList() || offset > len(all) {
						break
					}
				}
				if diff := gocmp.Diff(names(want), names(got)); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			})
		}
	}
}

// names returns the names of what was found, in order.
func names(found []*actionv3.GetTarget) []string {
	list := []string{}
	for _, target := range found {
		list = append(list, target.GetTarget().GetName())
	}
	return list
}

// TestTextFiltersAreLiteralAndFoldByUnicode has the names that each method finds.
func TestTextFiltersAreLiteralAndFoldByUnicode(t *testing.T) {
	s := newSuite(t)
	for _, name := range []string{
		"100%", "100x", "1%0", "a_b", "axb", `back\slash`, `back\\slash`, "backslash", `\`, "%", "_",
		"Straße", "STRASSE", "strasse", "straß", "ΣΊΣΥΦΟΣ", "σίσυφος", "σίσυφοσ", "İstanbul", "istanbul", "Istanbul", "i̇stanbul",
		"é", "e\u0301", "a", "a ", " a", "'; DROP TABLE targets; --", "𐐀", "𐐨",
	} {
		s.create(webhook(name))
	}
	const (
		equals     = object.TextFilterMethod_TEXT_FILTER_METHOD_EQUALS
		equalsFold = object.TextFilterMethod_TEXT_FILTER_METHOD_EQUALS_IGNORE_CASE
		starts     = object.TextFilterMethod_TEXT_FILTER_METHOD_STARTS_WITH
		startsFold = object.TextFilterMethod_TEXT_FILTER_METHOD_STARTS_WITH_IGNORE_CASE
		contains   = object.TextFilterMethod_TEXT_FILTER_METHOD_CONTAINS
		containsF  = object.TextFilterMethod_TEXT_FILTER_METHOD_CONTAINS_IGNORE_CASE
		ends       = object.TextFilterMethod_TEXT_FILTER_METHOD_ENDS_WITH
		endsFold   = object.TextFilterMethod_TEXT_FILTER_METHOD_ENDS_WITH_IGNORE_CASE
	)
	everything := names(s.search(&actionv3.SearchTargetsRequest{}).GetResult())
	for _, test := range []struct {
		text   string
		method object.TextFilterMethod
		want   []string
	}{
		{"100%", equals, []string{"100%"}},
		{"%", equals, []string{"%"}},
		{"_", equals, []string{"_"}},
		{`\`, equals, []string{`\`}},
		{`back\slash`, equals, []string{`back\slash`}},
		{`back\\slash`, equals, []string{`back\\slash`}},
		{"Straße", equals, []string{"Straße"}},
		{"a", equals, []string{"a"}},
		{"é", equals, []string{"é"}},
		{"", equals, nil},
		{"nothing", equals, nil},
		{"'; DROP TABLE targets; --", equals, []string{"'; DROP TABLE targets; --"}},

		{"straße", equalsFold, []string{"Straße", "STRASSE", "strasse"}},
		{"STRASSE", equalsFold, []string{"Straße", "STRASSE", "strasse"}},
		{"σίσυφος", equalsFold, []string{"ΣΊΣΥΦΟΣ", "σίσυφος", "σίσυφοσ"}},
		{"ΣΊΣΥΦΟΣ", equalsFold, []string{"ΣΊΣΥΦΟΣ", "σίσυφος", "σίσυφοσ"}},
		{"İSTANBUL", equalsFold, []string{"İstanbul", "i̇stanbul"}},
		{"ISTANBUL", equalsFold, []string{"istanbul", "Istanbul"}},
		{"𐐀", equalsFold, []string{"𐐀", "𐐨"}},
		{"É", equalsFold, []string{"é"}},
		{"A_B", equalsFold, []string{"a_b"}},
		{"", equalsFold, nil},

		{"100%", starts, []string{"100%"}},
		{"1", starts, []string{"100%", "100x", "1%0"}},
		{"1%", starts, []string{"1%0"}},
		{"a_", starts, []string{"a_b"}},
		{`\`, starts, []string{`\`}},
		{`back\`, starts, []string{`back\slash`, `back\\slash`}},
		{"stra", starts, []string{"strasse", "straß"}},
		{"", starts, everything},

		{"STRAS", startsFold, []string{"Straße", "STRASSE", "strasse", "straß"}},
		{"straß", startsFold, []string{"Straße", "STRASSE", "strasse", "straß"}},
		{"A_", startsFold, []string{"a_b"}},
		{"σΊς", startsFold, []string{"ΣΊΣΥΦΟΣ", "σίσυφος", "σίσυφοσ"}},
		{"", startsFold, everything},

		{"%", contains, []string{"100%", "1%0", "%"}},
		{"_", contains, []string{"a_b", "_"}},
		{`\`, contains, []string{`back\slash`, `back\\slash`, `\`}},
		{`\\`, contains, []string{`back\\slash`}},
		{"ß", contains, []string{"Straße", "straß"}},
		{"S", contains, []string{"Straße", "STRASSE"}},
		{" ", contains, []string{"a ", " a", "'; DROP TABLE targets; --"}},
		{"'", contains, []string{"'; DROP TABLE targets; --"}},
		{"", contains, everything},

		{"ΥΦΟΣ", containsF, []string{"ΣΊΣΥΦΟΣ", "σίσυφος", "σίσυφοσ"}},
		{"TRAß", containsF, []string{"Straße", "STRASSE", "strasse", "straß"}},
		{"STANB", containsF, []string{"İstanbul", "istanbul", "Istanbul", "i̇stanbul"}},
		{"X", containsF, []string{"100x", "axb"}},
		{`K\S`, containsF, []string{`back\slash`}},

		{"%", ends, []string{"100%", "%"}},
		{"_b", ends, []string{"a_b"}},
		{`\slash`, ends, []string{`back\slash`, `back\\slash`}},
		{`\\slash`, ends, []string{`back\\slash`}},
		{"ς", ends, []string{"σίσυφος"}},
		{"SSE", ends, []string{"STRASSE"}},

		{"sse", endsFold, []string{"Straße", "STRASSE", "strasse"}},
		{"ßE", endsFold, []string{"Straße", "STRASSE", "strasse"}},
		{"Σ", endsFold, []string{"ΣΊΣΥΦΟΣ", "σίσυφος", "σίσυφοσ"}},
		{"_B", endsFold, []string{"a_b"}},
		{"𐐨", endsFold, []string{"𐐀", "𐐨"}},
	} {
		t.Run(test.method.String()+" "+test.text, func(t *testing.T) {
			got := s.in(t).search(&actionv3.SearchTargetsRequest{Filters: []*actionv3.TargetSearchFilter{byName(test.text, test.method)}})
			if diff := gocmp.Diff(slices.Sorted(slices.Values(test.want)), slices.Sorted(slices.Values(names(got.GetResult())))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if total := got.GetDetails().GetTotalResult(); total != uint64(len(test.want)) {
				t.Errorf("got total %d, want %d", total, len(test.want))
			}
		})
	}
}

func TestTargetFiltersCombineWithAnd(t *testing.T) {
	s := newSuite(t)
	ids := map[string]string{}
	for _, name := range []string{"alpha one", "alpha two", "beta one", "beta two", "ALPHA ONE"} {
		ids[name] = s.create(webhook(name)).GetId()
	}
	const contains, containsF = object.TextFilterMethod_TEXT_FILTER_METHOD_CONTAINS, object.TextFilterMethod_TEXT_FILTER_METHOD_CONTAINS_IGNORE_CASE
	for _, test := range []struct {
		name    string
		filters []*actionv3.TargetSearchFilter
		want    []string
	}{
		{"no filter finds all", nil, []string{"ALPHA ONE", "alpha one", "alpha two", "beta one", "beta two"}},
		{"two of a kind", []*actionv3.TargetSearchFilter{byName("alpha", contains), byName("one", contains)}, []string{"alpha one"}},
		{"three of a kind", []*actionv3.TargetSearchFilter{byName("alpha", contains), byName("one", contains), byName("two", contains)}, nil},
		{"with case and without", []*actionv3.TargetSearchFilter{byName("alpha", containsF), byName("ONE", contains)}, []string{"ALPHA ONE"}},
		{"four without case", []*actionv3.TargetSearchFilter{byName("a", containsF), byName("l", containsF), byName("p", containsF), byName("TWO", containsF)}, []string{"alpha two"}},
		{"a name and IDs", []*actionv3.TargetSearchFilter{byName("one", contains), byIDs(ids["alpha one"], ids["alpha two"])}, []string{"alpha one"}},
		{"two lists of IDs", []*actionv3.TargetSearchFilter{byIDs(ids["alpha one"], ids["alpha two"]), byIDs(ids["alpha two"], ids["beta one"])}, []string{"alpha two"}},
		{"IDs", []*actionv3.TargetSearchFilter{byIDs(ids["beta two"], ids["alpha one"])}, []string{"alpha one", "beta two"}},
		{"no IDs", []*actionv3.TargetSearchFilter{byIDs()}, nil},
		{"no IDs and others", []*actionv3.TargetSearchFilter{byIDs(), byIDs(ids["alpha one"])}, nil},
		{"an unknown ID", []*actionv3.TargetSearchFilter{byIDs("unknown")}, nil},
		{"an ID twice", []*actionv3.TargetSearchFilter{byIDs(ids["beta one"], "unknown", ids["beta one"])}, []string{"beta one"}},
		{"an ID in other case", []*actionv3.TargetSearchFilter{byIDs(strings.ToUpper(ids["beta one"]))}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := s.in(t).search(&actionv3.SearchTargetsRequest{Filters: test.filters})
			if found := slices.Sorted(slices.Values(names(got.GetResult()))); !slices.Equal(found, test.want) {
				t.Errorf("got %q, want %q", found, test.want)
			}
			if details := got.GetDetails(); details.GetTotalResult() != uint64(len(test.want)) || !details.GetEndOfList() {
				t.Errorf("got details %v, want a total of %d and the end of the list", details, len(test.want))
			}
		})
	}
}

func TestPagesOfASearch(t *testing.T) {
	s := newSuite(t)
	const total = 105
	var last *object.Details
	for i := range total {
		last = s.create(webhook(fmt.Sprintf("page %03d", i)))
	}
	all := []*actionv3.TargetSearchFilter{byName("page", object.TextFilterMethod_TEXT_FILTER_METHOD_STARTS_WITH)}
	for _, test := range []struct {
		name    string
		query   *object.ListQuery
		applied uint32
		found   int
		end     bool
	}{
		{"no query", nil, 100, 100, false},
		{"a limit of 0 is 100", &object.ListQuery{Limit: 0}, 100, 100, false},
		{"a limit of 1", &object.ListQuery{Limit: 1}, 1, 1, false},
		{"a limit of 104", &object.ListQuery{Limit: 104}, 104, 104, false},
		{"a limit of exactly all", &object.ListQuery{Limit: total}, total, total, true},
		{"the largest limit", &object.ListQuery{Limit: 1000}, 1000, total, true},
		{"the last page", &object.ListQuery{Offset: 100}, 100, 5, true},
		{"the last one", &object.ListQuery{Offset: total - 1, Limit: 1}, 1, 1, true},
		{"right behind the end", &object.ListQuery{Offset: total}, 100, 0, true},
		{"far behind the end", &object.ListQuery{Offset: 1_000_000, Limit: 7}, 7, 0, true},
		{"the largest offset", &object.ListQuery{Offset: math.MaxInt64}, 100, 0, true},
		{"the largest offset and limit", &object.ListQuery{Offset: math.MaxInt64, Limit: 1000, Asc: true}, 1000, 0, true},
	} {
		for _, filters := range [][]*actionv3.TargetSearchFilter{nil, all} { // their totals come about in different ways
			t.Run(fmt.Sprintf("%s, %d filters", test.name, len(filters)), func(t *testing.T) {
				got := s.in(t).search(&actionv3.SearchTargetsRequest{Query: test.query, Filters: filters})
				details := got.GetDetails()
				if details.GetAppliedLimit() != test.applied || len(got.GetResult()) != test.found || details.GetEndOfList() != test.end || details.GetTotalResult() != total {
					t.Errorf("got limit %d, %d found, end %t, total %d; want %d, %d, %t, %d",
						details.GetAppliedLimit(), len(got.GetResult()), details.GetEndOfList(), details.GetTotalResult(), test.applied, test.found, test.end, total)
				}
				if details.GetProcessedSequence() != last.GetSequence() || !details.GetTimestamp().AsTime().Equal(last.GetChangeDate().AsTime()) {
					t.Errorf("got %d of %s, want the newest event, %d of %s",
						details.GetProcessedSequence(), details.GetTimestamp().AsTime(), last.GetSequence(), last.GetChangeDate().AsTime())
				}
			})
		}
	}
	t.Run("limits and offsets beyond the bounds are refused", func(t *testing.T) {
		s := s.in(t)
		for _, over := range s.transports {
			for _, test := range []struct {
				query *object.ListQuery
				field string
			}{{&object.ListQuery{Limit: 1001}, "query.limit"}, {&object.ListQuery{Limit: math.MaxUint32}, "query.limit"}} {
				s.refused(over.call(t, s.wrong(), s.AdminToken, &actionv3.SearchTargetsRequest{Query: test.query}), "INVALID_FIELD", test.field)
				s.refused(over.call(t, s.wrong(), s.AdminToken, &actionv3.SearchExecutionsRequest{Query: test.query}), "INVALID_FIELD", test.field)
			}
		}
	})
}
