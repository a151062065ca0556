package server

import (
	"errors"
	"strings"
	"testing"

	"github.com/writ-id/writ/contracts/generate/wire"
	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	"github.com/writ-id/writ/impl/fault"
)

// TestDecodeNamesTheField gives the decoder one mistake at a time.
func TestDecodeNamesTheField(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, body, reason, field string }{
		{"empty", ``, "BODY_MISSING", ""},
		{"only spaces", " \n", "BODY_MISSING", ""},
		{"null", `null`, "NULL_VALUE", "target"},
		{"a null member", `{"name":null}`, "NULL_VALUE", "target.name"},
		{"a nested null", `{"restWebhook":{"url":null}}`, "NULL_VALUE", "target.restWebhook.url"},
		{"a list", `[]`, "WRONG_TYPE", "target"},
		{"a text", `"x"`, "WRONG_TYPE", "target"},
		{"an unknown member", `{"titel":"x"}`, "UNKNOWN_FIELD", "target.titel"},
		{"an unknown nested member", `{"restWebhook":{"uri":"x"}}`, "UNKNOWN_FIELD", "target.restWebhook.uri"},
		{"a number for a text", `{"name":5}`, "WRONG_TYPE", "target.name"},
		{"a text for a bool", `{"isAsync":"true"}`, "WRONG_TYPE", "target.isAsync"},
		{"a number for a duration", `{"timeout":10}`, "WRONG_TYPE", "target.timeout"},
		{"a bad duration", `{"timeout":"10"}`, "INVALID_VALUE", "target.timeout"},
		{"the same member twice", `{"name":"a","name":"b"}`, "DUPLICATE_FIELD", "target.name"},
		{"both spellings of a member", `{"isAsync":true,"is_async":true}`, "DUPLICATE_FIELD", "target.is_async"},
		{"two members of a oneof", `{"isAsync":true,"interruptOnError":true}`, "ONEOF_CONFLICT", "target.interruptOnError"},
		{"bytes after the value", `{"name":"a"} {}`, "MALFORMED_REQUEST", "target"},
		{"not JSON", `{"name":"a"`, "MALFORMED_JSON", "target"},
		{"invalid UTF-8", "{\"name\":\"\xff\"}", "INVALID_UTF8", ""},
		{"too deep", strings.Repeat("[", 10_000), "TOO_DEEP", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var target *actionv3.Target
			err := decode([]byte(test.body), &target, "target")
			refusal, ok := errors.AsType[*fault.Error](err)
			if !ok {
				t.Fatalf("got %v, want a refusal", err)
			}
			field := ""
			if len(refusal.Fields) > 0 {
				field = refusal.Fields[0].Field
			}
			if refusal.Kind != fault.InvalidArgument || refusal.Reason != test.reason || field != test.field {
				t.Errorf("got %v %s %q, want InvalidArgument %s %q", refusal.Kind, refusal.Reason, field, test.reason, test.field)
			}
		})
	}
}

func TestDecodeTakesWhatTheMappingTakes(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"name":"null","restWebhook":{"url":"https://a"},"timeout":"1.5s","isAsync":false}`,
		`{"name":"\"n\"","rest_webhook":{"url":"a"},"is_async":true}`,
		` {} `,
	} {
		var target *actionv3.Target
		if err := decode([]byte(body), &target, "target"); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
	var filters []*actionv3.TargetSearchFilter
	if err := decode([]byte(`[{"inIds":{"ids":["a"]}},{"name":{"name":"n"}}]`), &filters, "filters"); err != nil || len(filters) != 2 {
		t.Errorf("got %d filters and %v, want 2 and no error", len(filters), err)
	}
}

// FuzzDecode looks for bodies that panic, that fail without a refusal, or that
// decode to something which does not decode again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{``, `{}`, `{"name":"x","timeout":"1s"}`, `{"name":null}`, `[1,{"a":[]}]`, "{\"\xff\":1}", `{"restWebhook":{"url":"\u0000\ud800"}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var filters []*actionv3.ExecutionSearchFilter
		if err := decode(body, &filters, "filters"); err != nil {
			if _, ok := errors.AsType[*fault.Error](err); !ok {
				t.Fatalf("%q: %v is not a refusal", body, err)
			}
		}
		var target *actionv3.Target
		err := decode(body, &target, "target")
		if err == nil {
			var again *actionv3.Target
			if err := decode(wire.AppendMessage(nil, target), &again, "target"); err != nil {
				t.Fatalf("%q decodes, but what it decodes to does not: %v", body, err)
			}
			return
		}
		if refusal, ok := errors.AsType[*fault.Error](err); !ok || refusal.HTTP() != 400 {
			t.Fatalf("%q: got %v, want a 400", body, err)
		}
	})
}

func TestCheckQuery(t *testing.T) {
	t.Parallel()
	search := (&actionv3.SearchTargetsRequest{}).ProtoReflect().Type()
	bound := map[string]bool{"filters": true}
	for _, test := range []struct{ name, query, reason, field string }{
		{"known", "query.limit=5&query.offset=0&query.asc=true&sortingColumn=TARGET_FIELD_NAME_NAME", "", ""},
		{"snake case", "sorting_column=TARGET_FIELD_NAME_NAME", "", ""},
		{"unknown", "limit=5", "UNKNOWN_PARAMETER", "limit"},
		{"unknown below a known", "query.limits=5", "UNKNOWN_PARAMETER", "query.limits"},
		{"a message", "query=5", "UNKNOWN_PARAMETER", "query"},
		{"what is in the body", "filters=x", "UNKNOWN_PARAMETER", "filters"},
		{"below what is in the body", "filters.name=x", "UNKNOWN_PARAMETER", "filters.name"},
		{"twice", "query.limit=5&query.limit=5", "REPEATED_PARAMETER", "query.limit"},
		{"negative", "query.limit=-1", "OUT_OF_RANGE", "query.limit"},
		{"overflowing", "query.offset=18446744073709551616", "OUT_OF_RANGE", "query.offset"},
		{"endless", "query.offset=" + strings.Repeat("9", 10_000), "WRONG_TYPE", "query.offset"},
		{"not a number", "query.limit=five", "WRONG_TYPE", "query.limit"},
		{"not a bool", "query.asc=1", "WRONG_TYPE", "query.asc"},
		{"an unknown enum name", "sortingColumn=NAME", "INVALID_ENUM", "sortingColumn"},
		{"an enum number", "sortingColumn=4", "", ""}, // as in a body
		{"a number of no value", "sortingColumn=99", "INVALID_ENUM", "sortingColumn"},
		{"an endless enum number", "sortingColumn=" + strings.Repeat("4", 100), "INVALID_ENUM", "sortingColumn"},
		{"a broken escape", "query.limit=%zz", "MALFORMED_QUERY", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			refusal := checkQuery(test.query, search, bound)
			reason, field := "", ""
			if refusal != nil {
				reason, field = refusal.Reason, refusal.Fields[0].Field
			}
			if reason != test.reason || field != test.field {
				t.Errorf("got %s %q, want %s %q", reason, field, test.reason, test.field)
			}
		})
	}
}
