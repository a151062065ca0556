package executions

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/writ-id/writ/conformance/harness"
)

// service is a service user of the tenant, who gets tokens.
type service struct {
	*tenant
	id, name, secret string
}

func (n *tenant) service(name, kind string) *service {
	n.Helper()
	made := n.must(http.MethodPost, "/resources/v3alpha/users", map[string]any{"username": name, "service": map[string]any{"name": name, "accessTokenType": kind}})
	shown := n.must(http.MethodPost, "/resources/v3alpha/users/"+idOf(made)+"/secret", map[string]any{})
	s := &service{n, idOf(made), name, text(shown, "clientSecret")}
	if err := harness.RememberSecret(s.secret); err != nil {
		n.Fatal(err)
	}
	return s
}

// oauth sends a request to the provider and returns what it says.
func (s *service) oauth(r *http.Request) (int, map[string]any) {
	s.Helper()
	res, err := s.RoundTrip(r)
	if err != nil {
		s.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	said := map[string]any{}
	if err != nil || json.Unmarshal(body, &said) != nil {
		s.Errorf("%s: got %d %s, %v", r.URL.Path, res.StatusCode, body, err)
	}
	return res.StatusCode, said
}

// token gets an access token.
func (s *service) token() (int, map[string]any) {
	s.Helper()
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {"openid"}}
	r, err := http.NewRequestWithContext(s.Context(), http.MethodPost, s.server.Issuer+"/oauth/v2/token", strings.NewReader(form.Encode()))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth(url.QueryEscape(s.name), url.QueryEscape(s.secret))
	return s.oauth(r)
}

// TestFunctions goes through function × target type × execution type × way to answer.
func TestFunctions(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"function.preuserinfo", "function.preaccesstoken"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			n := newTenant(t, strings.ReplaceAll(kind, ".", "-"))
			opaque, jwt := n.service("opaque", "ACCESS_TOKEN_TYPE_BEARER"), n.service("jwt", "ACCESS_TOKEN_TYPE_JWT")
			_, granted := opaque.token()
			access := text(granted, "access_token")
			if access == "" {
				t.Fatalf("no token: %v", granted)
			}
			user, ask := opaque.id, func() (int, map[string]any) {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.server.Issuer+"/oidc/v1/userinfo", nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Authorization", "Bearer "+access)
				return opaque.oauth(r)
			}
			if kind == "function.preaccesstoken" {
				user, ask = jwt.id, func() (int, map[string]any) {
					status, said := jwt.token()
					if parts := strings.Split(text(said, "access_token"), "."); len(parts) == 3 {
						claims := map[string]any{}
						body, err := base64.RawURLEncoding.DecodeString(parts[1])
						if err != nil || json.Unmarshal(body, &claims) != nil {
							t.Errorf("a token with the claims %q", body)
						}
						return status, claims
					}
					return status, said
				}
			}
			for _, of := range []string{webhook, answering} {
				for _, exec := range []string{waiting, async, interrupting} {
					for _, one := range ways {
						timeout := patient
						if one.slow {
							timeout = hasty
						}
						at := n.register(fmt.Sprintf("%s, %s, %s", of, exec, one.name), of, exec, n.receiver.at(one, "x"), timeout)
						n.put(in(kind), nil, at)
						n.receiver.forget()
						status, got := ask()
						want := expect(true, of, exec, one)
						what := fmt.Sprintf("%s, %s, %q, %s", kind, of, exec, one.name)
						switch {
						case want.refused && (status != http.StatusInternalServerError || got["error"] != "server_error" || strings.Contains(fmt.Sprint(got), at.id) || strings.Contains(fmt.Sprint(got), forwarded)):
							t.Errorf("%s: got %d %v, want server_error that names nothing", what, status, got)
						case !want.refused && (status != http.StatusOK || got["sub"] != user || (got["added"] == true) != want.changed):
							t.Errorf("%s: got %d %v, want %+v", what, status, got, want)
						}
						if one.silent {
							continue
						}
						calls := n.receiver.await(1 + one.hops)
						told, _ := calls[0].JSON["userinfo"].(map[string]any)
						whom, _ := calls[0].JSON["user"].(map[string]any)
						if "function."+text(calls[0].JSON, "function") != kind || told["sub"] != user || whom["id"] != user {
							t.Errorf("%s: the target was told %s", what, calls[0].Body)
						}
					}
				}
			}
		})
	}
}
