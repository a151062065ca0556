package server_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	"github.com/writ-id/writ/impl/core/clock"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/server"
	"github.com/writ-id/writ/impl/server/servertest"
)

// kept is a log that a test reads.
type kept struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (k *kept) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.text.Write(p)
}

// requests returns the access lines by request ID, and all of the log.
func (k *kept) requests(t *testing.T) (lines map[string][]map[string]any, all string) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	lines = map[string][]map[string]any{}
	for scanner := bufio.NewScanner(strings.NewReader(k.text.String())); scanner.Scan(); {
		line := map[string]any{}
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		if id, ok := line["request_id"].(string); ok && line["msg"] == "request" {
			lines[id] = append(lines[id], line)
		}
	}
	return lines, k.text.String()
}

// logged starts a node whose log is kept.
func logged(t *testing.T) (*servertest.Cluster, *kept) {
	t.Helper()
	log := &kept{}
	key, err := secret.NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	return servertest.New(t, 1, func(c *server.Config) {
		c.Logger, c.Sealer = slog.New(slog.NewJSONHandler(log, nil)), key
	}), log
}

// token returns an access token of a service user.
func token(t *testing.T, node, username, secret string) string {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, node+"/oauth/v2/token", strings.NewReader("grant_type=client_credentials&scope=openid"))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "a.example"
	req.SetBasicAuth(username, secret)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var answer struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || answer.AccessToken == "" {
		t.Fatalf("no token: %d %v", res.StatusCode, err)
	}
	return answer.AccessToken
}

// A secret stands at every place that a request has; none of them is in the log.
const canary = "canary-5ce7a1b2d3"

func TestEveryRequestLeavesOneLineThatSaysWhyItWasRefused(t *testing.T) {
	t.Parallel()
	c, log := logged(t)
	project := c.Create("owner", "/resources/v3alpha/projects", `{"name":"P"}`)
	app := c.Must("owner", http.MethodPost, "/resources/v3alpha/apps", `{"projectId":"`+project+`","name":"web","oidc":{"redirectUris":["https://app.example/cb"],"authMethodType":"AUTH_METHOD_TYPE_BASIC","grantTypes":["GRANT_TYPE_AUTHORIZATION_CODE"],"responseTypes":["RESPONSE_TYPE_CODE"]}}`)
	clientID, _ := app.Any(t)["clientId"].(string)
	if clientID == "" {
		t.Fatalf("no client ID: %s", app.Body)
	}
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte(clientID+":"+app.Any(t)["clientSecret"].(string)))
	const form = "application/x-www-form-urlencoded"
	made := c.Must("owner", http.MethodPost, "/resources/v3alpha/users/"+c.User("nobody")+"/secret", "{}").Any(t)
	access := token(t, c.Nodes[0], "nobody", made["clientSecret"].(string))
	for _, test := range []struct {
		id, method, path, contentType, body string
		authorization                       string
		want                                map[string]any
	}{
		{
			id: "good", method: "GET", path: "/resources/v3alpha/projects/" + project, authorization: "Bearer " + c.Token("owner"),
			want: map[string]any{"http.request.method": "GET", "http.route": "/resources/v3alpha/projects/{id}", "http.response.status_code": 200., "user.id": c.User("owner"), "writ.instance.id": c.Instance("a"), "error.type": nil},
		},
		{
			id: "denied", method: "GET", path: "/resources/v3alpha/projects/" + canary, authorization: "Bearer " + canary,
			want: map[string]any{"http.route": "/resources/v3alpha/projects/{id}", "http.response.status_code": 401., "error.type": "TOKEN_INVALID", "user.id": nil},
		},
		{
			id: "undecodable", method: "POST", path: "/resources/v3alpha/projects", contentType: "application/json", body: `{"` + canary + `":1}`, authorization: "Bearer " + c.Token("owner"),
			want: map[string]any{"http.route": "/resources/v3alpha/projects", "http.response.status_code": 400.},
		},
		{
			id: "nowhere", method: "GET", path: "/" + canary + "?" + canary,
			want: map[string]any{"http.route": "", "http.response.status_code": 404., "error.type": "PATH_UNKNOWN"},
		},
		{
			id: "method", method: canary, path: "/oauth/v2/token",
			want: map[string]any{"http.request.method": "other", "http.response.status_code": 405., "error.type": "METHOD_NOT_ALLOWED"},
		},
		{
			id: "post", method: "POST", path: "/oauth/v2/token", contentType: form,
			body: "grant_type=authorization_code&code=" + canary + "&client_id=" + clientID + "&client_secret=" + canary,
			want: map[string]any{"http.route": "/oauth/v2/token", "http.response.status_code": 400., "writ.client.id": clientID, "error.type": "invalid_client: the client is unknown, or its authentication failed; the application is configured for client_secret_basic, the request came with client_secret_post"},
		},
		{
			id: "swapped", method: "POST", path: "/oauth/v2/token", contentType: form, body: "grant_type=authorization_code&code=x&client_id=" + canary,
			want: map[string]any{"writ.client.id": nil, "error.type": "invalid_client: the client is unknown, or its authentication failed; no active application has this client_id"},
		},
		{
			id: "page", method: "GET", path: "/oauth/v2/authorize?client_id=" + clientID + "&redirect_uri=https://" + canary + ".example/cb&state=" + canary,
			want: map[string]any{"http.route": "/oauth/v2/authorize", "http.response.status_code": 400., "writ.client.id": clientID, "error.type": "invalid_request: redirect_uri is not registered for the application"},
		},
		{
			id: "login", method: "GET", path: "/login/password?flow=" + canary,
			want: map[string]any{"http.route": "/login/password", "http.response.status_code": 400., "error.type": "login_expired"},
		},
		{
			id: "web", method: "POST", path: "/writ.action.v3alpha.ServiceActions/GetTarget", contentType: "application/grpc-web+proto", body: "\x00\x00\x00\x00\x00", authorization: "Bearer " + c.Token("owner"),
			want: map[string]any{"http.route": "/writ.action.v3alpha.ServiceActions/GetTarget", "http.response.status_code": 200., "error.type": "INVALID_FIELD", "user.id": c.User("owner")},
		},
		{
			id: "introspection", method: "POST", path: "/oauth/v2/introspect", contentType: form, body: "token=" + access, authorization: basic,
			want: map[string]any{"http.response.status_code": 200., "writ.client.id": clientID, "error.type": "inactive: the audience of the token names neither the application nor its project; it does with the scope urn:service:iam:org:project:id:PROJECT_ID:aud"},
		},
		{id: "docs", method: "GET", path: "/docs", want: map[string]any{"http.route": "/docs", "http.response.status_code": 200.}},
	} {
		req, err := http.NewRequest(test.method, c.Nodes[0]+test.path, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "a.example"
		req.Header.Set("X-Request-Id", test.id)
		for name, value := range map[string]string{"Content-Type": test.contentType, "Authorization": test.authorization, "Cookie": "writ=" + canary} {
			if value != "" {
				req.Header.Set(name, value)
			}
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		var found []map[string]any
		c.WithinASecond("the line of "+test.id, func() bool { // it follows the answer
			lines, _ := log.requests(t)
			found = lines[test.id]
			return len(found) > 0
		})
		if len(found) != 1 || found[0]["duration_us"] == nil {
			t.Errorf("%s: got the lines %v, want one", test.id, found)
			continue
		}
		for key, want := range test.want {
			if got := found[0][key]; got != want {
				t.Errorf("%s: %s: got %v, want %v", test.id, key, got, want)
			}
		}
	}
	if lines, all := log.requests(t); strings.Contains(all, canary) || strings.Contains(all, c.Token("owner")) {
		t.Errorf("the log holds what was sent in confidence: %v\n%s", lines, all)
	}
}

func TestGRPCCallsLeaveTheSameLine(t *testing.T) {
	t.Parallel()
	c, log := logged(t)
	conn, err := grpc.NewClient(strings.TrimPrefix(c.Nodes[0], "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("a.example"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+canary, "x-request-id", "native")
	if _, err := actionv3.NewServiceActionsClient(conn).GetTarget(ctx, &actionv3.GetTargetRequest{Id: canary}); err == nil {
		t.Fatal("the call was not refused")
	}
	if err := conn.Invoke(metadata.AppendToOutgoingContext(t.Context(), "x-request-id", "unknown"), "/"+canary+"/"+canary, &actionv3.GetTargetRequest{}, &actionv3.GetTargetResponse{}); err == nil {
		t.Fatal("the unknown method was served")
	}
	var lines map[string][]map[string]any
	var all string
	c.WithinASecond("the lines", func() bool {
		lines, all = log.requests(t)
		return len(lines["native"]) > 0 && len(lines["unknown"]) > 0
	})
	if got := lines["native"]; len(got) != 1 || got[0]["rpc.system.name"] != "grpc" || got[0]["http.route"] != "/writ.action.v3alpha.ServiceActions/GetTarget" || got[0]["rpc.response.status_code"] != "Unauthenticated" || got[0]["error.type"] != "TOKEN_INVALID" {
		t.Errorf("got %v", got)
	}
	if got := lines["unknown"]; len(got) != 1 || got[0]["rpc.response.status_code"] != "Unimplemented" || got[0]["http.route"] != "" {
		t.Errorf("an unknown method: got %v", got)
	}
	if strings.Contains(all, canary) {
		t.Errorf("the log holds what was sent in confidence: %s", all)
	}
}

func TestProbesAreHeardOfOnlyWhenTheyFail(t *testing.T) {
	t.Parallel()
	c, log := logged(t)
	c.Do("", http.MethodGet, "/readyz", "")
	c.Do("", http.MethodGet, "/docs", "")
	var routes []string
	c.WithinASecond("the line of /docs", func() bool {
		lines, _ := log.requests(t)
		routes = nil
		for _, line := range lines {
			routes = append(routes, line[0]["http.route"].(string))
		}
		return slices.Contains(routes, "/docs")
	})
	if slices.Contains(routes, "/readyz") {
		t.Error("a probe that succeeded is in the log")
	}
}

func TestOnlyInDevelopmentThePageShowsWhichAddressesAreRegistered(t *testing.T) {
	t.Parallel()
	for _, dev := range []*server.Dev{nil, {Clock: clock.New()}} {
		c := servertest.New(t, 1, func(c *server.Config) { c.Dev = dev })
		project := c.Create("owner", "/resources/v3alpha/projects", `{"name":"P"}`)
		app := c.Must("owner", http.MethodPost, "/resources/v3alpha/apps", `{"projectId":"`+project+`","name":"web","oidc":{"redirectUris":["https://app.example/cb"]}}`)
		got := c.Do("", http.MethodGet, "/oauth/v2/authorize?redirect_uri=https://app.example/<b>&client_id="+app.Any(t)["clientId"].(string), "")
		if got.Status != http.StatusBadRequest {
			t.Fatalf("got %d %s", got.Status, got.Body)
		}
		for _, address := range []string{"https://app.example/cb", "https://app.example/&lt;b&gt;"} {
			if shows := strings.Contains(got.Body, address); shows != (dev != nil) {
				t.Errorf("in development %v: the page shows %s: %v", dev != nil, address, shows)
			}
		}
	}
}
