package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/writ-id/writ/impl/clock"
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

func TestMessagesAreShownOnlyInDevelopment(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	if got := c.call(0, "a.example", c.token("a", "owner"), http.MethodGet, "/_dev/messages", ""); got.status != http.StatusNotFound {
		t.Errorf("got %d %s", got.status, got.body)
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
		for _, path := range []string{"/_dev/messages", "/_dev/clock"} {
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
