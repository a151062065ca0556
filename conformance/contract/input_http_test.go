package contract

import (
	"encoding/base64"
	"encoding/binary"
	"io"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
)

// httpInput is an HTTP request. The content type is JSON unless it is set.
type httpInput struct {
	verb, path, body string
	contentType      string
	header           map[string]string
	allow            string // the Allow header that a refusal of the verb has
}

const (
	targets    = "/resources/v3alpha/targets"
	executions = "/resources/v3alpha/executions"
	features   = "/v2/features/instance"
)

// sendHTTP sends an input as the administrator; op says what an answer would be.
func (s *suite) sendHTTP(op *operation, in *httpInput) outcome {
	s.t.Helper()
	var body io.Reader
	if in.body != "" {
		body = strings.NewReader(in.body)
	}
	request, err := http.NewRequestWithContext(s.wrong(), in.verb, s.Issuer+in.path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.AdminToken)
	switch in.contentType {
	case "":
		request.Header.Set("Content-Type", "application/json")
	case "none":
	default:
		request.Header.Set("Content-Type", in.contentType)
	}
	for name, value := range in.header {
		request.Header.Set(name, value)
	}
	got := s.transports[len(s.transports)-1].(plain).send(s.t, op, request)
	if got.refusal != nil && got.header != nil && got.header.Get("Allow") != in.allow {
		s.t.Errorf("got Allow: %q, want %q", got.header.Get("Allow"), in.allow)
	}
	return got
}

func post(path, body string) *httpInput {
	return &httpInput{verb: http.MethodPost, path: path, body: body}
}

func get(path string) *httpInput { return &httpInput{verb: http.MethodGet, path: path} }

// wrongPaths are paths and query strings.
func wrongPaths(target string) []wrong {
	search := func(query string) *httpInput { return post(targets+"/_search?"+query, "[]") }
	return []wrong{
		{name: "an ID of 201", http: get(targets + "/" + strings.Repeat("a", 201)), reason: "INVALID_FIELD", field: "id"},
		{name: "an ID that is not UTF-8", http: get(targets + "/%ff"), reason: "INVALID_UTF8", field: "id"},
		{name: "an ID with a NUL", http: get(targets + "/a%00b"), reason: "INVALID_TEXT", field: "id"},
		{name: "an execution's ID that is not UTF-8", http: &httpInput{verb: http.MethodDelete, path: executions + "/event.%c3"}, reason: "INVALID_UTF8", field: "id"},
		{name: "an unknown path", http: get("/resources/v3alpha/nothing"), status: 404, code: codes.NotFound, reason: "PATH_UNKNOWN", named: "/resources/v3alpha/nothing"},
		{name: "an unknown path elsewhere", http: get("/no/such/page"), status: 404, code: codes.NotFound, reason: "PATH_UNKNOWN"},
		{name: "a path in other case", http: get("/Resources/v3alpha/targets/a"), status: 404, code: codes.NotFound, reason: "PATH_UNKNOWN"},
		{name: "a path with a double slash", http: get("/resources//v3alpha/targets/a"), status: 404, code: codes.NotFound, reason: "PATH_UNKNOWN"},
		{name: "a path that goes on", http: get(targets + "/a/b"), status: 404, code: codes.NotFound, reason: "PATH_UNKNOWN"},
		{name: "the older version", http: get("/resources/v2/targets/a"), status: 404, code: codes.NotFound, reason: "PATH_UNKNOWN"},

		{name: "an unknown parameter", http: search("colour=red"), reason: "UNKNOWN_PARAMETER", field: "colour", named: "colour"},
		{name: "an unknown parameter below a known one", http: search("query.size=3"), reason: "UNKNOWN_PARAMETER", field: "query.size", named: "query.size"},
		{name: "an unknown parameter of an operation without any", http: get(executions + "/methods?x=1"), reason: "UNKNOWN_PARAMETER", field: "x"},
		{name: "an unknown parameter without a value", http: search("colour"), reason: "UNKNOWN_PARAMETER", field: "colour"},
		{name: "a message as a parameter", http: search("query=3"), reason: "UNKNOWN_PARAMETER", field: "query"},
		{name: "the body as a parameter", http: search("filters=x"), reason: "UNKNOWN_PARAMETER", field: "filters"},
		{name: "a part of the body as a parameter", http: post(targets+"?target.name=x", "{}"), reason: "UNKNOWN_PARAMETER", field: "target.name"},
		{name: "the ID as a parameter", http: get(targets + "/" + target + "?id=other"), reason: "UNKNOWN_PARAMETER", field: "id"},
		{name: "a parameter in other case", http: search("Query.Limit=3"), reason: "UNKNOWN_PARAMETER", field: "Query.Limit"},
		{name: "a parameter of another operation", http: post(executions+"/_search?sortingColumn=TARGET_FIELD_NAME_ID", "[]"), reason: "UNKNOWN_PARAMETER", field: "sortingColumn"},
		{name: "a parameter on a read", http: get(targets + "/" + target + "?query.limit=1"), reason: "UNKNOWN_PARAMETER", field: "query.limit"},
		{name: "a parameter on a deletion", http: &httpInput{verb: http.MethodDelete, path: targets + "/" + target + "?force=true"}, reason: "UNKNOWN_PARAMETER", field: "force"},
		{name: "a parameter on a patch", http: &httpInput{verb: http.MethodPatch, path: targets + "/" + target + "?updateMask=name", body: "{}"}, reason: "UNKNOWN_PARAMETER", field: "updateMask"},
		{name: "a parameter on a put", http: &httpInput{verb: http.MethodPut, path: features + "?reset=true", body: "{}"}, reason: "UNKNOWN_PARAMETER", field: "reset"},

		{name: "a parameter twice", http: search("query.limit=1&query.limit=2"), reason: "REPEATED_PARAMETER", field: "query.limit"},
		{name: "a parameter twice with the same value", http: search("query.asc=true&query.asc=true"), reason: "REPEATED_PARAMETER", field: "query.asc"},
		{name: "an enum twice", http: search("sortingColumn=TARGET_FIELD_NAME_ID&sortingColumn=TARGET_FIELD_NAME_ID"), reason: "REPEATED_PARAMETER", field: "sortingColumn"},
		{name: "a parameter in both spellings", http: search("sortingColumn=TARGET_FIELD_NAME_ID&sorting_column=TARGET_FIELD_NAME_NAME"), reason: "REPEATED_PARAMETER", field: anyField},
		{name: "an instance twice", http: get(features + "?ctx.instanceId=a&ctx.instanceId=a"), reason: "REPEATED_PARAMETER", field: "ctx.instanceId"},

		{name: "a negative limit", http: search("query.limit=-1"), reason: "OUT_OF_RANGE", field: "query.limit"},
		{name: "an overflowing limit", http: search("query.limit=4294967296"), reason: "OUT_OF_RANGE", field: "query.limit"},
		{name: "a limit of 1001", http: search("query.limit=1001"), reason: "INVALID_FIELD", field: "query.limit"},
		{name: "a negative offset", http: search("query.offset=-1"), reason: "OUT_OF_RANGE", field: "query.offset"},
		{name: "an overflowing offset", http: search("query.offset=18446744073709551616"), reason: "OUT_OF_RANGE", field: "query.offset"},
		{name: "a limit with a fraction", http: search("query.limit=1.5"), reason: "WRONG_TYPE", field: "query.limit"},
		{name: "a limit with an exponent", http: search("query.limit=1e2"), reason: "WRONG_TYPE", field: "query.limit"},
		{name: "a limit in hexadecimal", http: search("query.limit=0x10"), reason: "WRONG_TYPE", field: "query.limit"},
		{name: "a limit with underscores", http: search("query.limit=1_0"), reason: "WRONG_TYPE", field: "query.limit"},
		{name: "a limit with a plus", http: search("query.limit=%2B1"), reason: "WRONG_TYPE", field: "query.limit"},
		{name: "a limit with a space", http: search("query.limit=1%20"), reason: "WRONG_TYPE", field: "query.limit"},
		{name: "a limit in Arabic digits", http: search("query.limit=%D9%A1"), reason: "WRONG_TYPE", field: "query.limit"},
		{name: "a word as limit", http: search("query.limit=all"), reason: "WRONG_TYPE", field: "query.limit"},
		{name: "an empty limit", http: search("query.limit="), reason: "WRONG_TYPE", field: "query.limit"},
		{name: "a limit without a value", http: search("query.limit"), reason: "WRONG_TYPE", field: "query.limit"},
		{name: "an endless offset", http: search("query.offset=" + strings.Repeat("9", 5000)), reason: "WRONG_TYPE", field: "query.offset"},
		{name: "1 as a boolean", http: search("query.asc=1"), reason: "WRONG_TYPE", field: "query.asc"},
		{name: "True as a boolean", http: search("query.asc=True"), reason: "WRONG_TYPE", field: "query.asc"},
		{name: "an empty boolean", http: search("query.asc="), reason: "WRONG_TYPE", field: "query.asc"},
		{name: "an unknown column", http: search("sortingColumn=NAME"), reason: "INVALID_ENUM", field: "sortingColumn", named: "NAME"},
		{name: "a column in lower case", http: search("sortingColumn=target_field_name_name"), reason: "INVALID_ENUM", field: "sortingColumn"},
		{name: "an unknown column by number", http: search("sortingColumn=99"), reason: "INVALID_ENUM", field: "sortingColumn"},
		{name: "an empty column", http: search("sortingColumn="), reason: "INVALID_ENUM", field: "sortingColumn"},
		{name: "a broken escape", http: search("query.limit=%zz"), reason: "MALFORMED_QUERY"},
		{name: "a semicolon", http: search("query.limit=1;query.asc=true"), reason: "MALFORMED_QUERY"},
		{name: "a value that is not UTF-8", http: get(features + "?ctx.instanceId=%ff"), reason: "INVALID_UTF8", field: "ctx.instanceId"},
		{name: "a name that is not UTF-8", http: search("%ff=1"), reason: "UNKNOWN_PARAMETER", field: anyField},
	}
}

// wrongHTTP are wrong verbs, types and sizes.
func wrongHTTP(target string) []wrong {
	verb := func(verb, path, allow string) wrong {
		return wrong{
			name: verb + " " + path, http: &httpInput{verb: verb, path: strings.ReplaceAll(path, "{id}", target), body: "", allow: allow},
			status: http.StatusMethodNotAllowed, code: codes.Unimplemented, reason: "METHOD_NOT_ALLOWED",
		}
	}
	typed := func(name, contentType string, header map[string]string) wrong {
		return wrong{
			name: name, http: &httpInput{verb: http.MethodPost, path: targets, body: good, contentType: contentType, header: header},
			status: http.StatusUnsupportedMediaType, reason: "UNSUPPORTED_MEDIA_TYPE",
		}
	}
	// JSON in a frame of gRPC-web would be read by other rules than JSON of REST.
	framed := func(name, contentType string) wrong {
		message := `{"target":` + strings.TrimSuffix(good, "}") + `,"colour":"red"}}`
		body := "\x00" + string(binary.BigEndian.AppendUint32(nil, uint32(len(message)))) + message
		if strings.Contains(contentType, "text") {
			body = base64.StdEncoding.EncodeToString([]byte(body))
		}
		return wrong{
			name: name, http: &httpInput{verb: http.MethodPost, path: create, body: body, contentType: contentType},
			status: http.StatusUnsupportedMediaType, reason: "UNSUPPORTED_MEDIA_TYPE",
		}
	}
	large := func(name, body string) wrong {
		return wrong{
			name: name, http: post(targets, body),
			status: http.StatusRequestEntityTooLarge, code: codes.ResourceExhausted, reason: "REQUEST_TOO_LARGE", named: "1048576",
		}
	}
	return []wrong{
		verb("GET", targets, "POST"), verb("PUT", targets, "POST"), verb("DELETE", targets, "POST"), verb("OPTIONS", targets, "POST"),
		verb("TRACE", targets, "POST"), verb("BREW", targets, "POST"), verb("post", targets, "POST"),
		verb("POST", targets+"/{id}", "GET, PATCH, DELETE"), verb("PUT", targets+"/{id}", "GET, PATCH, DELETE"),
		verb("PUT", targets+"/_search", "POST"), verb("GET", targets+"/_search", "POST"), verb("DELETE", targets+"/_search", "POST"), verb("PATCH", targets+"/_search", "POST"),
		verb("GET", executions, "POST"), verb("PUT", executions, "POST"), verb("DELETE", executions, "POST"),
		verb("GET", executions+"/event.user.*", "DELETE"), verb("POST", executions+"/event.user.*", "DELETE"),
		verb("GET", executions+"/_search", "POST"), verb("DELETE", executions+"/_search", "POST"),
		verb("POST", executions+"/functions", "GET"), verb("DELETE", executions+"/functions", "GET"),
		verb("PUT", executions+"/methods", "GET"), verb("DELETE", executions+"/methods", "GET"), verb("PATCH", executions+"/services", "GET"),
		verb("POST", features, "GET, PUT, DELETE"), verb("PATCH", features, "GET, PUT, DELETE"), verb("POST", "/v2/features/system", "GET, PUT, DELETE"),
		verb("GET", actionv3.ServiceActions_GetTarget_FullMethodName, "POST"),

		typed("no content type", "none", nil),
		typed("plain text", "text/plain", nil),
		typed("a form", "application/x-www-form-urlencoded", nil),
		typed("a JSON relative", "application/vnd.api+json", nil),
		typed("two content types", "application/json, text/plain", nil),
		typed("an unreadable content type", "application/json; charset", nil),
		typed("JSON in another charset", "application/json; charset=latin1", nil),
		typed("JSON in UTF-16", "application/json; charset=utf-16", nil),
		typed("compressed JSON", "", map[string]string{"Content-Encoding": "gzip"}),
		typed("brotli", "", map[string]string{"Content-Encoding": "br"}),
		framed("gRPC-web in JSON", "application/grpc-web+json"),
		framed("a stream of Connect", "application/connect+proto"),
		framed("a stream of Connect in JSON", "application/connect+json"),
		framed("gRPC-web text in JSON", "application/grpc-web-text+json"),
		framed("gRPC in JSON", "application/grpc+json"),
		framed("gRPC-web in another codec", "application/grpc-web+thrift"),

		large("a body of 10 MiB", `{"name":"`+strings.Repeat("a", 10<<20)+`"}`),
		large("a body of one byte too many", good+strings.Repeat(" ", 1<<20-len(good)+1)),
		{name: "a body of 10 MiB for a list", http: post(targets+"/_search", "["+strings.Repeat(" ", 10<<20)+"]"), status: 413, code: codes.ResourceExhausted, reason: "REQUEST_TOO_LARGE"},
	}
}
