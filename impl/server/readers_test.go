package server_test

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/writ-id/writ/impl/server"
	"github.com/writ-id/writ/impl/server/servertest"
)

// TestSEC297_TheReferenceIsForWhoMayReadIt: the contract is read by whom the operator lets read it, and the sign-in pages keep their
// icon.
func TestSEC297_TheReferenceIsForWhoMayReadIt(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reference        server.Reference
		stranger, caller int
		root             string
	}{
		{server.ReferencePublic, 200, 200, "/docs"},
		{server.ReferenceAuthenticated, 401, 200, ""},
		{server.ReferenceOff, 404, 404, "/login"},
	} {
		c := servertest.New(t, 1, func(c *server.Config) { c.Reference = test.reference })
		for _, path := range []string{"/docs", "/docs/guides", "/docs/actions", "/openapi.json", "/openapi.yaml", "/proto"} {
			if got := c.Do("", http.MethodGet, path, ""); got.Status != test.stranger {
				t.Errorf("%d: a stranger gets %d at %s, want %d", test.reference, got.Status, path, test.stranger)
			}
			if got := c.Do("nobody", http.MethodGet, path, ""); got.Status != test.caller {
				t.Errorf("%d: a caller gets %d at %s, want %d", test.reference, got.Status, path, test.caller)
			}
		}
		for _, path := range []string{"/docs", "/openapi.json", "/proto"} { // what needed a token is nobody else's
			header := c.Do("nobody", http.MethodGet, path, "").Header
			shared := strings.Contains(header.Get("Cache-Control"), "public")
			if shared != (test.reference == server.ReferencePublic) {
				t.Errorf("%d: %s is %q", test.reference, path, header.Get("Cache-Control"))
			}
			if varies := strings.Contains(strings.Join(header.Values("Vary"), ","), "Authorization"); varies != (test.reference == server.ReferenceAuthenticated) {
				t.Errorf("%d: %s varies by %q", test.reference, path, header.Values("Vary"))
			}
		}
		if got := reflects(t, c.Nodes[0]); got != (test.reference == server.ReferencePublic) {
			t.Errorf("%d: reflection shows the contract to a stranger: %t", test.reference, got)
		}
		if got := c.Do("wrong", http.MethodGet, "/openapi.json", ""); got.Status != test.stranger {
			t.Errorf("%d: a wrong token gets %d", test.reference, got.Status)
		}
		if got := c.Do("", http.MethodGet, "/favicon.svg", ""); got.Status != 200 {
			t.Errorf("%d: the icon of the pages answers %d", test.reference, got.Status)
		}
		client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		get := func(path, user string) (int, http.Header) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.Nodes[0]+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = "a.example"
			req.Header.Set("Accept", "text/html")
			if user != "" {
				req.SetBasicAuth("anybody", c.Token(user))
			}
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			return res.StatusCode, res.Header
		}
		if _, header := get("/", ""); header.Get("Location") != test.root {
			t.Errorf("%d: / leads to %q, want %q", test.reference, header.Get("Location"), test.root)
		}
		if status, header := get("/nope", ""); status != 404 || !strings.HasPrefix(header.Get("Content-Type"), "text/html") {
			t.Errorf("%d: a browser gets %d %s where nothing is", test.reference, status, header.Get("Content-Type"))
		}
		if test.reference == server.ReferenceAuthenticated {
			if status, header := get("/docs", ""); status != 401 || !strings.HasPrefix(header.Get("WWW-Authenticate"), "Basic ") {
				t.Errorf("a browser is not asked for a password: %d %q", status, header.Values("WWW-Authenticate"))
			}
			if status, _ := get("/docs", "nobody"); status != 200 {
				t.Errorf("a browser with a personal access token gets %d", status)
			}
		}
	}
}

// reflects reports whether gRPC reflection tells a stranger the services of a node.
func reflects(t *testing.T, node string) bool {
	t.Helper()
	conn, err := grpc.NewClient(strings.TrimPrefix(node, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}); err != nil {
		return false
	}
	answer, err := stream.Recv()
	return err == nil && len(answer.GetListServicesResponse().GetService()) > 0
}
