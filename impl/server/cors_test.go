package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/writ-id/writ/impl/server/servertest"
)

// A page of a registered origin calls the resource API by REST and by gRPC-web: it is
// asked beforehand without a token, and told what it may send and read. Others are not
// told anything, and with no answer are cookies allowed.
func TestSEC150_PagesOfRegisteredOriginsCallTheResourceAPI(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	project := c.Create("owner", "/resources/v3alpha/projects", `{"name":"P"}`)
	c.Create("owner", "/resources/v3alpha/apps", `{"projectId":"`+project+`","name":"page","oidc":{"redirectUris":["https://page.example/cb"],"applicationType":"APPLICATION_TYPE_USER_AGENT","authMethodType":"AUTH_METHOD_TYPE_NONE","grantTypes":["GRANT_TYPE_AUTHORIZATION_CODE"],"responseTypes":["RESPONSE_TYPE_CODE"]}}`)
	for _, path := range []string{"/resources/v3alpha/projects", "/writ.project.v3alpha.ServiceProjects/GetProject", "/admin/v1/export"} {
		for origin, allowed := range map[string]bool{
			"https://page.example": true, "https://page.example:444": false, "http://page.example": false,
			"https://page.example.evil.example": false, "https://evilpage.example": false, "null": false,
		} {
			ask := func(method string, header http.Header) (int, http.Header) {
				t.Helper()
				req, err := http.NewRequestWithContext(t.Context(), method, c.Nodes[0]+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Host, req.Header = "a.example", header
				header.Set("Origin", origin)
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				if got := res.Header.Get("Access-Control-Allow-Origin"); allowed && got != origin || !allowed && got != "" {
					t.Errorf("%s %s from %s: allowed is %q", method, path, origin, got)
				}
				if res.Header.Get("Access-Control-Allow-Credentials") != "" || !strings.Contains(strings.Join(res.Header.Values("Vary"), ","), "Origin") {
					t.Errorf("%s %s from %s: %v", method, path, origin, res.Header)
				}
				return res.StatusCode, res.Header
			}
			status, preflight := ask(http.MethodOptions, http.Header{"Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"authorization,content-type,x-grpc-web,writ-context"}})
			if status != http.StatusNoContent {
				t.Errorf("a preflight of %s from %s: %d", path, origin, status)
			}
			for _, header := range []string{"Authorization", "X-Grpc-Web", "Grpc-Timeout", "Connect-Protocol-Version", "Writ-Context", "Traceparent"} {
				if got := preflight.Get("Access-Control-Allow-Headers"); allowed != strings.Contains(got, header) {
					t.Errorf("%s from %s: headers %q", path, origin, got)
				}
			}
			_, refused := ask(http.MethodPost, http.Header{"Content-Type": {"application/json"}})
			for _, header := range []string{"Grpc-Status", "Grpc-Message", "Grpc-Status-Details-Bin", "X-Request-Id", "Retry-After"} {
				if got := refused.Get("Access-Control-Expose-Headers"); allowed != strings.Contains(got, header) {
					t.Errorf("%s from %s: exposed is %q", path, origin, got)
				}
			}
		}
	}
}
