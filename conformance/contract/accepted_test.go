package contract

import (
	"net/http"
	"strings"
	"testing"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
)

// TestInputThatLooksWrongButIsNot is the positive control of TestWrongInput.
func TestInputThatLooksWrongButIsNot(t *testing.T) {
	all := newSuite(t)
	name := func(text string) string { return strings.Replace(good, `"wrong"`, text, 1) }
	for _, test := range []struct {
		name string
		in   *httpInput
		want string // the name of the target; "" for a search
	}{
		{"spaces around the body", post(targets, " \r\n\t"+good+"\n"), "wrong"},
		{"a body of exactly 1 MiB", post(targets, good+strings.Repeat(" ", 1<<20-len(good))), "wrong"},
		{"snake case", post(targets, `{"name":"a","rest_request_response":{"url":"https://a.example"},"timeout":"1s","interrupt_on_error":true}`), "a"},
		{"escapes", post(targets, name(`"\u0061\/\\\"\n\ud83d\ude42"`)), "a/\\\"\n🙂"},
		{"an escaped member", post(targets, strings.Replace(good, `"name"`, `"n\u0061me"`, 1)), "wrong"},
		{"the replacement character", post(targets, name("\"\ufffd\"")), "\ufffd"},
		{"a name with braces and null", post(targets, name(`"[[[{{{null"`)), "[[[{{{null"},
		{"a name that is a space", post(targets, name(`" "`)), " "},
		{"UTF-8, named", &httpInput{verb: http.MethodPost, path: targets, body: good, contentType: "application/json; charset=UTF-8"}, "wrong"},
		{"the content type in other case", &httpInput{verb: http.MethodPost, path: targets, body: good, contentType: "Application/JSON"}, "wrong"},
		{"an unknown header", &httpInput{verb: http.MethodPost, path: targets, body: good, header: map[string]string{"X-Colour": "red"}}, "wrong"},
		{"any Accept", &httpInput{verb: http.MethodPost, path: targets, body: good, header: map[string]string{"Accept": "text/html"}}, "wrong"},
		{"an enum by number", post(targets+"/_search", `[{"name":{"name":"a","method":7}}]`), ""},
		{"a filter with an empty list", post(targets+"/_search", `[{"inIds":{}}]`), ""},
		{"no filters", &httpInput{verb: http.MethodPost, path: targets + "/_search"}, ""},
		{"an empty body", post(targets+"/_search", ""), ""},
		{"a sorting column by number", post(targets+"/_search?sortingColumn=1", `[]`), ""},
		{"an offset beyond 63 bits", post(targets+"/_search?query.offset=9223372036854775808", `[]`), ""},
		{"the largest offset", post(targets+"/_search?query.offset=18446744073709551615", `[]`), ""},
		{"a filter with the method of lists", post(targets+"/_search", `[{"inIds":{"ids":["a"],"method":"LIST_FILTER_METHOD_IN"}}]`), ""},
		{"an empty list", post(targets+"/_search", `[]`), ""},
		{"parameters in snake case", post(targets+"/_search?sorting_column=TARGET_FIELD_NAME_URL&query.limit=5", `[]`), ""},
		{"an empty query", post(targets+"/_search?", `[]`), ""},
		{"a limit with zeros before", post(targets+"/_search?query.limit=0005", `[]`), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := all.in(t)
			s.empty()
			op := operationOf(&actionv3.SearchTargetsRequest{})
			if test.want != "" {
				op = operationOf(&actionv3.CreateTargetRequest{})
			}
			got := s.sendHTTP(op, test.in)
			if got.refusal != nil {
				t.Fatalf("got %s", got)
			}
			if test.want == "" {
				return
			}
			read := s.get(got.message.(*actionv3.CreateTargetResponse).GetDetails().GetId()).GetTarget()
			if read.GetName() != test.want {
				t.Errorf("got the name %q, want %q", read.GetName(), test.want)
			}
		})
	}
}
