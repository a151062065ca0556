package server_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/writ-id/writ/gen/openapi"
	"github.com/writ-id/writ/impl/core/clock"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/server"
	"github.com/writ-id/writ/impl/server/servertest"
)

// TestABodyThatIsTheWholeRequest is strict about what the path and the query have
// to do with it.
func TestABodyThatIsTheWholeRequest(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	const path = "/v3alpha/users/u/otp_sms/s/verify"
	for _, test := range []struct{ name, path, body, want string }{
		{"good", path, `{"code":"x"}`, "NOT_FOUND"},
		{"nothing", path, ``, "UNSUPPORTED_MEDIA_TYPE"},
		{"an empty object", path, `{}`, "INVALID_FIELD"},
		{"a text", path, `"x"`, "WRONG_TYPE"},
		{"an unknown member", path, `{"code":"x","cod":"y"}`, "UNKNOWN_FIELD"},
		{"what is in the path", path, `{"code":"x","userId":"v"}`, "UNKNOWN_FIELD"},
		{"the same in the other spelling, empty", path, `{"code":"x","otp_sms_id":""}`, "UNKNOWN_FIELD"},
		{"a member as a parameter", path + "?code=x", `{"code":"x"}`, "UNKNOWN_PARAMETER"},
		{"what is in the path as a parameter", path + "?userId=u", `{"code":"x"}`, "UNKNOWN_PARAMETER"},
		{"null", path, `{"code":null}`, "NULL_VALUE"},
		{"too long a code", path, `{"code":"` + strings.Repeat("1", 201) + `"}`, "INVALID_FIELD"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := c.call(0, "a.example", c.token("a", "owner"), http.MethodPost, test.path, test.body)
			if !strings.Contains(got.body, `"reason":"`+test.want+`"`) {
				t.Errorf("got %d %s, want %s", got.status, got.body, test.want)
			}
		})
	}
}

// Every operation that the document of development has is nowhere in production, and not in
// the published document.
func TestWhatIsForDevelopmentIsNowhereElse(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	document, err := openapi3.NewLoader().LoadFromData(openapi.Development)
	if err != nil {
		t.Fatal(err)
	}
	for path, item := range document.Paths.Map() {
		for method := range item.Operations() {
			if got := c.call(0, "a.example", c.token("a", "owner"), method, strings.ReplaceAll(path, "{id}", "1"), ""); got.status != http.StatusNotFound || !strings.Contains(got.body, "PATH_UNKNOWN") {
				t.Errorf("%s %s: got %d %s", method, path, got.status, got.body)
			}
		}
		if strings.Contains(string(openapi.JSON), path) {
			t.Errorf("%s is published", path)
		}
	}
}

// What only development has is for who is at the machine: a name that leads there, of
// whomever, is not enough (DNS rebinding), nor is a form of another page.
func TestDevelopmentIsServedToThisMachineAlone(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, func(config *server.Config) {
		config.Dev = &server.Dev{Clock: clock.New(), Hosts: []string{"writ"}}
	})
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:8080": 200, "127.0.0.1:80": 200, "127.1.2.3": 200, "[::1]:80": 200, "app.localhost": 200, "writ:8080": 200,
		"evil.example": 403, "a.example": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403, "10.0.0.1": 403, "notlocalhost": 403, "0.0.0.0": 403,
	} {
		for _, path := range []string{"/_dev/messages", "/_dev/clock", "/_dev/faults", "/_dev/openapi.json"} {
			if got := c.Call(0, host, "", http.MethodGet, path, ""); got.Status != want {
				t.Errorf("%s as %s: got %d %s", path, host, got.Status, got.Body)
			}
		}
	}
	for origin, want := range map[string]int{"": 200, "http://evil.example": 403} {
		req, _ := http.NewRequest(http.MethodPost, c.Nodes[0]+"/_dev/clock", strings.NewReader(`{"advance":"1s"}`))
		req.Header.Set("Content-Type", "text/plain")
		if origin != "" {
			req.Header.Set("Origin", origin)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("a form of %q: got %d", origin, res.StatusCode)
		}
	}
	// What a page of another origin loads without asking (an image, a script) is refused too.
	for site, want := range map[string]int{"same-origin": 200, "none": 200, "same-site": 403, "cross-site": 403} {
		req, _ := http.NewRequest(http.MethodGet, c.Nodes[0]+"/_dev/messages", http.NoBody)
		req.Header.Set("Sec-Fetch-Site", site)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want || res.Header.Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("from %s: got %d %q", site, res.StatusCode, res.Header.Get("Cross-Origin-Resource-Policy"))
		}
	}
}

func TestATransportHeedsNothingOfAnother(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	send := func(method, path, contentType, body string, header http.Header) (int, string) {
		req, err := http.NewRequest(method, c.Nodes[0]+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Host, req.Header = "a.example", header
		req.Header.Set("Authorization", "Bearer "+c.Token("owner"))
		req.Header.Set("Content-Type", contentType)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(text) + res.Header.Get("Grpc-Status")
	}
	for _, timeout := range []string{"1n", "0S", "nonsense"} {
		if status, text := send("POST", "/resources/v3alpha/targets/_search", "application/json", "[]", http.Header{"Grpc-Timeout": {timeout}}); status != 200 {
			t.Errorf("Grpc-Timeout: %s: got %d %s", timeout, status, text)
		}
	}
	for path, want := range map[string]int{
		"/writ.action.v3alpha.ServiceActions/SearchTargets":   200,
		"/writ.action.v3alpha.ServiceActions%2FSearchTargets": 404,
		"/writ.action.v3alpha.ServiceActions/Search%54argets": 404,
	} {
		if status, text := send("POST", path, "application/grpc-web+proto", "\x00\x00\x00\x00\x00", http.Header{}); status != want {
			t.Errorf("%s: got %d %s", path, status, text)
		}
	}
}

// No body is no filters, and no change.
func TestNothingIsSaidWithoutABody(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	org := c.Org("A")
	before := c.Events(org)
	for _, contentType := range []string{"", "application/json", "text/plain"} {
		for _, chunked := range []bool{false, true} {
			for _, call := range [][2]string{
				{http.MethodPost, "/resources/v3alpha/organizations/_search"}, {http.MethodPatch, "/resources/v3alpha/organizations/" + org},
				{http.MethodPatch, "/settings/v3alpha/languages"}, {http.MethodPost, "/resources/v3alpha/organizations"},
			} {
				var body io.Reader
				if chunked { // of unknown length
					body = io.MultiReader(strings.NewReader(""))
				}
				req, err := http.NewRequest(call[0], c.Nodes[0]+call[1], body)
				if err != nil {
					t.Fatal(err)
				}
				req.Host = "a.example"
				req.Header.Set("Authorization", "Bearer "+c.Token("owner"))
				if contentType != "" {
					req.Header.Set("Content-Type", contentType)
				}
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				text, _ := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if refused := call[1] == "/resources/v3alpha/organizations"; refused != (res.StatusCode/100 == 4) {
					t.Errorf("%s %s as %q, chunked %v: got %d %s", call[0], call[1], contentType, chunked, res.StatusCode, text)
				}
			}
		}
	}
	if after := c.Events(org); after != before {
		t.Errorf("events: %s, then %s", before, after)
	}
}

// The limits of searches are the operator's, and the published document says which.
func TestTheLimitsOfSearchesAreConfigured(t *testing.T) {
	t.Parallel()
	const search = "/resources/v3alpha/organizations/_search"
	for _, test := range []struct {
		limits         policy.SearchLimits
		standard, most int
		over           string
	}{
		{policy.SearchLimits{}, 100, 1000, "1001"},
		{policy.SearchLimits{Default: 7, Max: 5000}, 7, 5000, "5001"},
		{policy.SearchLimits{Max: 20}, 20, 20, "21"},
	} {
		c := servertest.New(t, 1, func(config *server.Config) { config.SearchLimits = test.limits })
		applied := func(query string) string {
			return fmt.Sprint(c.Must("owner", http.MethodPost, search+query, "[]").Object(t, "details")["appliedLimit"])
		}
		if got := applied(""); got != fmt.Sprint(test.standard) {
			t.Errorf("%+v: %s without a limit", test.limits, got)
		}
		if got := applied(fmt.Sprint("?query.limit=", test.most)); got != fmt.Sprint(test.most) {
			t.Errorf("%+v: %s for the most", test.limits, got)
		}
		c.Refused("owner", http.MethodPost, search+"?query.limit="+test.over, "[]", 400, "INVALID_FIELD")
		for _, path := range []string{"/openapi.json", "/openapi.yaml", "/openapi.json?version=3.1", "/openapi.yaml?version=3.1"} {
			text := c.Call(0, "a.example", "", http.MethodGet, path, "").Body
			found := regexp.MustCompile(`(?s)name"?: "?query\.limit"?.{0,300}default of (\d+)\..{0,300}maximum"?: (\d+)`).FindAllStringSubmatch(text, -1)
			if len(found) < 15 {
				t.Errorf("%s tells of %d limits", path, len(found))
			}
			for _, one := range found {
				if one[1] != fmt.Sprint(test.standard) || one[2] != fmt.Sprint(test.most) {
					t.Errorf("%s says %v, want %+v", path, one[1:], test)
					break
				}
			}
		}
	}
}

func TestASearchSaysWhereToSearch(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	names := func(query string) string {
		var names []string
		for _, one := range c.Must("owner", http.MethodPost, "/resources/v3alpha/organizations/_search?sortingColumn=ORGANIZATION_FIELD_NAME_NAME&query.asc=true"+query, "").Any(t)["result"].([]any) {
			names = append(names, fmt.Sprint(one.(map[string]any)["name"]))
		}
		return strings.Join(names, " ")
	}
	for query, want := range map[string]string{"": "A A2", "&ctx.instanceId=" + c.Instance("a"): "A A2", "&ctx.orgId=" + c.Org("A2"): "A2"} {
		if got := names(query); got != want {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
	}
	c.Refused("owner", http.MethodPost, "/resources/v3alpha/organizations/_search?ctx.instanceId="+c.Instance("b"), "", 404, "CONTEXT_NOT_FOUND")
	c.Must("owner", http.MethodPost, "/resources/v3alpha/user_schemas/_search?ctx.instanceId="+c.Instance("a"), "")
	c.Refused("owner", http.MethodPost, "/resources/v3alpha/user_schemas/_search?ctx.orgId="+c.Org("A"), "", 400, "CONTEXT_NOT_APPLICABLE")
}
