package reference

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/writ-id/writ/gen/openapi"
	"github.com/writ-id/writ/impl/core/policy"
)

func newServer(t *testing.T) *http.ServeMux {
	t.Helper()
	h, err := New(policy.SearchLimits{})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for _, routes := range []map[string]http.Handler{h.Routes(), h.Icons()} {
		for path, handler := range routes {
			mux.Handle(path, handler)
		}
	}
	return mux
}

func do(mux http.Handler, method, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	mux := newServer(t)
	for path, contentType := range map[string]string{
		"/openapi.json": "application/json",
		"/openapi.yaml": "application/yaml",
		"/proto":        "application/x-protobuf",
		"/docs":         "text/html; charset=utf-8",
		"/docs/actions": "text/html; charset=utf-8",
		"/favicon.svg":  "image/svg+xml",
		"/favicon.ico":  "image/svg+xml",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			got := do(mux, http.MethodGet, path)
			tag := got.Header().Get("ETag")
			if got.Code != http.StatusOK || got.Body.Len() == 0 || !regexp.MustCompile(`^"[A-Za-z0-9_-]{20}"$`).MatchString(tag) {
				t.Fatalf("got %d, %d bytes, ETag %s", got.Code, got.Body.Len(), tag)
			}
			for name, want := range map[string]string{
				"Content-Type": contentType, "Cache-Control": "public, max-age=300",
				"Access-Control-Allow-Origin": "*", "X-Content-Type-Options": "nosniff",
			} {
				if got := got.Header().Get(name); got != want {
					t.Errorf("%s: got %q, want %q", name, got, want)
				}
			}
			if again := do(mux, http.MethodGet, path); again.Header().Get("ETag") != tag || again.Body.String() != got.Body.String() {
				t.Error("a second read differs")
			}
			if head := do(mux, http.MethodHead, path); head.Code != http.StatusOK || head.Body.Len() != 0 || head.Header().Get("ETag") != tag ||
				head.Header().Get("Content-Length") != got.Header().Get("Content-Length") {
				t.Errorf("HEAD: got %d, %d bytes, %v", head.Code, head.Body.Len(), head.Header())
			}
			for _, known := range []string{tag, `"other", ` + tag, "*"} {
				if got := do(mux, http.MethodGet, path, "If-None-Match", known); got.Code != http.StatusNotModified || got.Body.Len() != 0 || got.Header().Get("ETag") != tag {
					t.Errorf("If-None-Match %s: got %d, %d bytes", known, got.Code, got.Body.Len())
				}
			}
			if got := do(mux, http.MethodGet, path, "If-None-Match", `"other"`); got.Code != http.StatusOK {
				t.Errorf("If-None-Match of another: got %d", got.Code)
			}
			if got := do(mux, http.MethodOptions, path, "Origin", "https://a.example", "Access-Control-Request-Method", "GET"); got.Code != http.StatusNoContent ||
				got.Header().Get("Access-Control-Allow-Methods") != "GET, HEAD" || got.Header().Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("OPTIONS: got %d %v", got.Code, got.Header())
			}
			for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
				got := do(mux, method, path)
				if got.Code != http.StatusMethodNotAllowed || got.Header().Get("Allow") != "GET, HEAD, OPTIONS" || !isStatus(got.Body.Bytes(), 12) {
					t.Errorf("%s: got %d, Allow %q, %s", method, got.Code, got.Header().Get("Allow"), got.Body)
				}
			}
		})
	}
}

// isStatus reports whether body is a Status of a code, with all its members.
func isStatus(body []byte, code int) bool {
	var status struct {
		Code    int
		Message string
		Details []any
	}
	return json.Unmarshal(body, &status) == nil && status.Code == code && status.Message != "" && status.Details != nil
}

func TestVersions(t *testing.T) {
	t.Parallel()
	mux := newServer(t)
	for _, test := range []struct {
		target string
		want   []byte // nil: refused
	}{
		{"/openapi.json", openapi.JSON},
		{"/openapi.json?version=3.0", openapi.JSON},
		{"/openapi.json?version=3.1", openapi.JSON31},
		{"/openapi.yaml", openapi.YAML},
		{"/openapi.yaml?version=3.1", openapi.YAML31},
		{"/openapi.json?version=2.0", nil},
		{"/openapi.json?version=", nil},
		{"/openapi.yaml?version=3", nil},
		{"/openapi.json?version=3.0&version=3.1", nil},
	} {
		got := do(mux, http.MethodGet, test.target)
		if test.want == nil {
			if got.Code != http.StatusBadRequest || !isStatus(got.Body.Bytes(), 3) || got.Header().Get("ETag") != "" || got.Header().Get("Content-Type") != "application/json" {
				t.Errorf("%s: got %d %s", test.target, got.Code, got.Body)
			}
			continue
		}
		if got.Code != http.StatusOK || got.Body.String() != string(test.want) {
			t.Errorf("%s: got %d and another document", test.target, got.Code)
		}
	}
	if do(mux, http.MethodGet, "/openapi.json").Header().Get("ETag") == do(mux, http.MethodGet, "/openapi.json?version=3.1").Header().Get("ETag") {
		t.Error("two versions have one ETag")
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(do(mux, http.MethodGet, "/proto").Body.Bytes(), set); err != nil || len(set.File) == 0 {
		t.Errorf("/proto is no descriptor set: %v", err)
	}
}

// operations are those of the published document, read with no help from the
// code under test.
func operations(t *testing.T) map[string]map[string]any {
	t.Helper()
	var doc struct {
		Paths      map[string]map[string]map[string]any
		Components struct{ Parameters map[string]any }
	}
	if err := json.Unmarshal(openapi.JSON, &doc); err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]any{}
	for path, item := range doc.Paths {
		for verb, operation := range item {
			operation["verb"], operation["path"] = strings.ToUpper(verb), path
			parameters, _ := operation["parameters"].([]any)
			for i, parameter := range parameters {
				if ref, ok := parameter.(map[string]any)["$ref"].(string); ok {
					parameters[i] = doc.Components.Parameters[strings.TrimPrefix(ref, "#/components/parameters/")]
				}
			}
			all[operation["operationId"].(string)] = operation
		}
	}
	if len(all) == 0 {
		t.Fatal("no operations")
	}
	return all
}

var markup = regexp.MustCompile(`<[^>]*>`)

// article returns the text of an operation on the page.
func article(t *testing.T, page, id string) string {
	t.Helper()
	_, after, found := strings.Cut(page, `<article id="`+id+`">`)
	if !found {
		t.Fatalf("%s is not on the page", id)
	}
	text, _, _ := strings.Cut(after, "</article>")
	return html.UnescapeString(markup.ReplaceAllString(text, ""))
}

// pages returns all pages, one after the other.
func pages(t *testing.T, mux http.Handler) string {
	t.Helper()
	h, err := New(policy.SearchLimits{})
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for path := range h.Routes() {
		if strings.HasPrefix(path, "/docs") {
			all.WriteString(do(mux, http.MethodGet, path).Body.String())
		}
	}
	return all.String()
}

func TestNoPageIsLong(t *testing.T) {
	t.Parallel()
	mux := newServer(t)
	h, err := New(policy.SearchLimits{})
	if err != nil {
		t.Fatal(err)
	}
	for path := range h.Routes() {
		if !strings.HasPrefix(path, "/docs") {
			continue
		}
		plain := do(mux, http.MethodGet, path)
		if elements := len(regexp.MustCompile(`<[a-z]`).FindAllString(plain.Body.String(), -1)); elements > 12_000 { // identity providers have nine types with operations of their own
			t.Errorf("%s has %d elements", path, elements)
		}
		for _, encoding := range []string{"gzip", "zstd"} {
			got := do(mux, http.MethodGet, path, "Accept-Encoding", encoding)
			if got.Header().Get("Content-Encoding") != encoding || got.Body.Len() > 60<<10 || got.Header().Get("ETag") == plain.Header().Get("ETag") || got.Header().Get("Vary") != "Accept-Encoding" {
				t.Errorf("%s by %s: %d bytes, %v", path, encoding, got.Body.Len(), got.Header())
			}
			if again := do(mux, http.MethodGet, path, "Accept-Encoding", encoding, "If-None-Match", got.Header().Get("ETag")); again.Code != http.StatusNotModified {
				t.Errorf("%s by %s again: got %d", path, encoding, again.Code)
			}
		}
	}
}

func TestEveryOperationIsOnThePage(t *testing.T) {
	t.Parallel()
	mux := newServer(t)
	contents, page := do(mux, http.MethodGet, "/docs").Body.String(), pages(t, mux)
	for id, operation := range operations(t) {
		text := article(t, page, id)
		want := []string{operation["verb"].(string), operation["path"].(string), operation["summary"].(string)}
		for _, extension := range []string{"x-permission", "x-feature", "x-grpc-method", "description"} {
			if value, ok := operation[extension].(string); ok {
				want = append(want, strings.Split(value, "\n")[0])
			}
		}
		if operation["x-permission"] == nil {
			switch {
			case isPublic(operation):
				want = append(want, "none, and no token")
			case isForClients(operation):
				want = append(want, "any OAuth client")
			default:
				want = append(want, "any authenticated caller")
			}
		}
		parameters, _ := operation["parameters"].([]any)
		for _, p := range parameters {
			want = append(want, p.(map[string]any)["name"].(string), p.(map[string]any)["description"].(string))
		}
		for status := range operation["responses"].(map[string]any) {
			want = append(want, status)
		}
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q is not on the page", id, part)
			}
		}
		// Where it was when there was one page, a link leads on to where it is.
		href := regexp.MustCompile(`<li id="` + id + `"><a href="(/docs/[a-z-]+)#` + id + `">`).FindStringSubmatch(contents)
		if href == nil || !strings.Contains(do(mux, http.MethodGet, href[1]).Body.String(), `<article id="`+id+`">`) {
			t.Errorf("%s is not in the contents, or its link leads elsewhere: %v", id, href)
		}
	}
	text := article(t, page, "CreateTarget")
	for _, part := range []string{"Exactly one of restWebhook or restRequestResponse.", "At most one of isAsync or interruptOnError.", "1 to 200 characters", "required", "More than 0s, at most 270s.", "absolute URI"} {
		if !strings.Contains(text, part) {
			t.Errorf("CreateTarget does not say %q", part)
		}
	}
}

func TestPagesAreSelfContained(t *testing.T) {
	t.Parallel()
	mux := newServer(t)
	for _, path := range []string{"/docs", "/docs/actions", "/docs/executions", "/docs/event-catalogue"} {
		got := do(mux, http.MethodGet, path)
		page := got.Body.String()
		hash := func(element string) string {
			_, after, _ := strings.Cut(page, "<"+element+">")
			text, _, _ := strings.Cut(after, "</"+element+">")
			sum := sha256.Sum256([]byte(text))
			return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
		}
		want := "default-src 'none'; style-src " + hash("style") + "; script-src " + hash("script") + "; img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
		if policy := got.Header().Get("Content-Security-Policy"); policy != want {
			t.Errorf("got policy %s, want %s", policy, want)
		}
		if got := got.Header().Get("Referrer-Policy"); got != "no-referrer" {
			t.Errorf("got Referrer-Policy %q", got)
		}
		if strings.Count(page, "<link") != 1 || strings.Count(page, "<script") != 1 {
			t.Errorf("%s loads more than its icon", path)
		}
		for _, foreign := range []string{"<img", "<iframe", " src=", " style=", " on", "@import", "url("} {
			if foreign != " on" && strings.Contains(page, foreign) || regexp.MustCompile(`<[^>]+ on[a-z]+=`).MatchString(page) {
				t.Errorf("the page has %q", foreign)
			}
		}
		for _, link := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			elsewhere, target, isAnchor := strings.Cut(link[1], "#")
			there := page
			if elsewhere != "" {
				answer := do(mux, http.MethodGet, elsewhere)
				if there = answer.Body.String(); answer.Code != http.StatusOK {
					t.Errorf("%s leads nowhere", link[1])
				}
			}
			if isAnchor && strings.Count(there, `id="`+target+`"`) != 1 {
				t.Errorf("%s leads nowhere", link[1])
			}
		}
		if strings.Contains(page, originPlaceholder) {
			t.Error("the origin was not filled in")
		}
	}
}

// TestTheSearchKnowsTheGuides: the page that searches holds the words of each guide, without
// asking the network for them.
func TestTheSearchKnowsTheGuides(t *testing.T) {
	t.Parallel()
	page := do(newServer(t), http.MethodGet, "/docs").Body.String()
	_, section, _ := strings.Cut(page, `<section id="written"`)
	section, _, _ = strings.Cut(section, "</section>")
	chapters, err := readGuides()
	if err != nil {
		t.Fatal(err)
	}
	for _, chapter := range chapters {
		for _, guide := range chapter.Pages {
			_, entry, found := strings.Cut(section, `<a href="`+guide.Href+`">`)
			if !found || !strings.HasPrefix(entry, guide.Title) && guide.Title == html.EscapeString(guide.Title) {
				t.Errorf("the search does not know %s", guide.Href)
			}
		}
	}
	for word, href := range map[string]string{"keycloak": "/docs/guides/moving/keycloak", "pg_dump": "/docs/guides/howto/production", "nginx": "/docs/guides/howto/proxies"} {
		before, _, found := strings.Cut(section, `"><a href="`+href+`">`)
		words := before[strings.LastIndex(before, `data-words="`)+1:]
		if href != "" && (!found || !strings.Contains(words, word)) {
			t.Errorf("the search does not find %s by %q in %q", href, word, words)
		}
	}
	if strings.Contains(section, originPlaceholder) {
		t.Error("a placeholder is a word")
	}
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	h, err := New(policy.SearchLimits{})
	if err != nil {
		t.Fatal(err)
	}
	get := func(host string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/docs/actions", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.Routes()["/docs/actions"].ServeHTTP(w, r)
		return w
	}
	for host, want := range map[string]string{
		"login.example.com":             `"http://login.example.com/`,
		"127.0.0.1:8080":                `"http://127.0.0.1:8080/`,
		"[::1]:8080":                    `"http://[::1]:8080/`,
		`"><script>alert(1)</script>`:   `"http://localhost/`,
		"a.example$(touch${IFS}pwned)":  `"http://localhost/`,
		"a.example/../b":                `"http://localhost/`,
		"a.example\"; rm -rf $HOME; x=": `"http://localhost/`,
	} {
		if text := article(t, get(host).Body.String(), "CreateTarget"); !strings.Contains(text, want) {
			t.Errorf("host %q: no %s", host, want)
		}
	}
	if get("a.example").Header().Get("ETag") == get("b.example").Header().Get("ETag") {
		t.Error("two hosts have one ETag")
	}
	h.Origin = func(*http.Request) string { return "https://public.example/<" }
	if page := get("a.example").Body.String(); !strings.Contains(page, "https://public.example/&lt;") || strings.Contains(page, "a.example/") {
		t.Error("Origin is not used, or not escaped")
	}
}

// Every text of a document is escaped, and a type within itself ends.
func TestRenderEscapes(t *testing.T) {
	t.Parallel()
	made, err := render([]byte(`{
		"info": {"version": "<i>1</i>"},
		"tags": [{"name": "T", "description": "<i>tag</i>"}],
		"paths": {"/a/{<i>}": {"post": {
			"tags": ["T"], "operationId": "Op", "summary": "<i>summary</i>", "description": "` + "`<i>code</i>` **<i>bold</i>**" + `",
			"x-permission": "<i>", "x-feature": "<i>", "x-grpc-method": "/<i>/<i>", "x-levels": ["<i>"],
			"parameters": [{"name": "<i>", "in": "query", "description": "<i>", "required": true, "schema": {"type": "string", "enum": ["<i>"], "x-enumDescriptions": {"<i>": "<i>"}}}],
			"requestBody": {"description": "<i>", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Tree"}, "example": {"name": "it's <i>"}}}},
			"responses": {"200": {"description": "<i>", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Tree"}}}}, "400": {"$ref": "#/components/responses/Bad"}}
		}}},
		"components": {
			"responses": {"Bad": {"description": "<i>", "headers": {"<i>": {}}}},
			"schemas": {"Tree": {"type": "object", "description": "<i>", "required": ["<i>"], "properties": {
				"<i>": {"type": "string", "description": "<i>", "pattern": "<i>", "default": "<i>", "example": "<i>"},
				"children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}},
				"labels": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/Tree"}}
			}}}
		}
	}`))
	if err != nil {
		t.Fatal(err)
	}
	page := string(made["/docs"]) + string(made["/docs/t"])
	if strings.Contains(page, "<i>") {
		at := strings.Index(page, "<i>")
		t.Errorf("not escaped: %s", page[max(0, at-200):at+20])
	}
	text := article(t, page, "Op")
	for _, part := range []string{"list of objects", "map to object", "The same fields as above.", `-d '{`, `it'\''s <i>`} {
		if !strings.Contains(text, part) {
			t.Errorf("the page does not say %q", part)
		}
	}
	for _, wrong := range []string{
		`{"paths": {"/a": {"get": {"operationId": "Op"}}}}`,
		`{"tags": [{"name": "T"}], "paths": {"/a": {"get": {"tags": ["T"], "parameters": [{"$ref": "#/components/parameters/None"}]}}}}`,
		`[]`,
	} {
		if _, err := render([]byte(wrong)); err == nil {
			t.Errorf("%s was rendered", wrong)
		}
	}
}

// The commands do what they say, when a shell runs them.
func TestCommandsWork(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl")
	}
	type call struct{ method, path, authorization, contentType, body string }
	calls := make(chan call, 1)
	mux := newServer(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/docs") {
			mux.ServeHTTP(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		calls <- call{r.Method, r.URL.Path, r.Header.Get("Authorization"), r.Header.Get("Content-Type"), string(body)}
	}))
	defer server.Close()
	var page strings.Builder
	h, err := New(policy.SearchLimits{})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range h.services {
		answer, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(&page, answer.Body)
		answer.Body.Close()
	}

	for id, operation := range operations(t) {
		_, after, _ := strings.Cut(page.String(), `<article id="`+id+`">`)
		_, after, _ = strings.Cut(after, `<pre tabindex="0" role="group"`)
		_, after, _ = strings.Cut(after, ">")
		command, _, _ := strings.Cut(after, "</pre>")
		command = html.UnescapeString(markup.ReplaceAllString(command, ""))
		shell := exec.CommandContext(t.Context(), "sh", "-c", command)
		shell.Env = append(os.Environ(), "TOKEN=t0k", "CLIENT_ID=me", "CLIENT_SECRET=s3cret")
		for _, name := range pathVariable.FindAllString(operation["path"].(string), -1) {
			shell.Env = append(shell.Env, shellName(name[1:len(name)-1])+"=an-id")
		}
		if out, err := shell.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s\n%s", id, err, command, out)
			continue
		}
		got := <-calls
		path := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(operation["path"].(string), "an-id")
		authorization := "Bearer t0k"
		switch {
		case isPublic(operation):
			authorization = ""
		case isForClients(operation):
			authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte("me:s3cret"))
		}
		if got.method != operation["verb"] || got.path != path || got.authorization != authorization {
			t.Errorf("%s: got %+v", id, got)
		}
		body, _ := operation["requestBody"].(map[string]any)
		content, _ := body["content"].(map[string]any)
		if form, ok := content["application/x-www-form-urlencoded"].(map[string]any); ok {
			want := url.Values{}
			example, ok := form["example"].(map[string]any)
			if !ok && body["required"] == true {
				t.Errorf("%s: no example of the body it needs", id)
			}
			for name, value := range example {
				want.Set(name, value.(string))
			}
			if sent, err := url.ParseQuery(got.body); err != nil || !maps.EqualFunc(sent, want, slices.Equal) || ok != (got.contentType == "application/x-www-form-urlencoded") {
				t.Errorf("%s: got the form %q of type %q, want %v", id, got.body, got.contentType, want)
			}
			continue
		}
		hasBody := body != nil
		if hasBody != json.Valid([]byte(got.body)) || hasBody != (got.contentType == "application/json") {
			t.Errorf("%s: got the body %q of type %q", id, got.body, got.contentType)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	number := func(text string) *json.Number { return new(json.Number(text)) }
	for _, test := range []struct {
		schema schema
		want   string
	}{
		{schema{Type: "string", MinLength: new(1), MaxLength: new(1000)}, "1 to 1\u2009000 characters"},
		{schema{Type: "string", MaxLength: new(200)}, "at most 200 characters"},
		{schema{Type: "string", MinLength: new(6), MaxLength: new(6)}, "6 characters"},
		{schema{Type: "string", Pattern: `^[^\x00]*$`}, ""},
		{schema{Type: "string", Pattern: `^[a-z]+$`}, "matches ^[a-z]+$"},
		{schema{Type: "integer", Minimum: number("0"), Maximum: number("1000")}, "from 0 to 1000"},
		{schema{Type: "integer", Maximum: number("5"), ExclusiveMaximum: true}, "less than 5"},
		{schema{Type: "array", MaxItems: new(100), UniqueItems: true}, "at most 100 items, no duplicates"},
	} {
		if got := strings.Join(limits(&test.schema), ", "); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
	groups := &schema{ExactlyOneOf: [][]string{{"a", "b", "e"}}, AtMostOneOf: [][]string{{"c", "d"}}}
	if got, want := exclusions(groups), []string{"Exactly one of `a`, `b` or `e`.", "At most one of `c` or `d`."}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := spaced("IdentityProviders"); got != "Identity Providers" {
		t.Errorf("got %q", got)
	}
	if got := shellName("otpSmsId"); got != "OTP_SMS_ID" {
		t.Errorf("got %q", got)
	}
}

// isPublic reports whether an operation says that it needs no token.
func isPublic(operation map[string]any) bool {
	security, said := operation["security"].([]any)
	return said && len(security) == 0
}

// isForClients reports whether an operation takes the credentials of a client.
func isForClients(operation map[string]any) bool {
	security, _ := operation["security"].([]any)
	return slices.ContainsFunc(security, func(one any) bool { return one.(map[string]any)["client"] != nil })
}
