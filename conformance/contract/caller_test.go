package contract

import (
	"fmt"
	"net/http"
	"path"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	featurev2 "github.com/writ-id/writ/gen/proto/writ/feature/v2"
)

// allowed is who may use a permission, as the documents have it: owners write,
// viewers read, an organization's owner holds nothing on the instance.
var allowed = []struct {
	permissions string // a pattern of path.Match
	callers     string
}{
	{"", "admin viewer org_owner nobody system"}, // any authenticated caller
	{"action.target.read", "admin viewer"},
	{"execution.read", "admin viewer"},
	{"action.*.write", "admin"},
	{"action.*.delete", "admin"},
	{"iam.feature.*", "admin system"},
	{"system.feature.*", "system"},
}

// may reports whether a caller has the permission.
func may(t *testing.T, caller, permission string) bool {
	t.Helper()
	for _, row := range allowed {
		if matched, err := path.Match(row.permissions, permission); err == nil && matched {
			return strings.Contains(row.callers, caller)
		}
	}
	t.Fatalf("the table says nothing about the permission %q", permission)
	return false
}

// requestFor returns a request of an operation that succeeds for those who may
// make it, after making what it needs; nil if none is written down here.
func (s *suite) requestFor(op *operation) proto.Message {
	s.t.Helper()
	target := func() string { return s.create(webhook(fmt.Sprintf("matrix %d", s.state().newest))).GetId() }
	on := &featurev2.SetFeatures{MultitenancyResourcesApi: ptr(true), MultitenancySettings: ptr(true)}
	switch op.method.Input().FullName().Name() {
	case "CreateTargetRequest":
		return &actionv3.CreateTargetRequest{Target: webhook(fmt.Sprintf("matrix %d", s.state().newest))}
	case "PatchTargetRequest":
		return &actionv3.PatchTargetRequest{Id: target(), Target: &actionv3.PatchTarget{Name: ptr(fmt.Sprintf("matrix %d new", s.state().newest))}}
	case "DeleteTargetRequest":
		return &actionv3.DeleteTargetRequest{Id: target()}
	case "GetTargetRequest":
		return &actionv3.GetTargetRequest{Id: target()}
	case "SearchTargetsRequest":
		return &actionv3.SearchTargetsRequest{}
	case "PutExecutionRequest":
		return putRequest(onEvent("target.added"), []string{target()}, nil)
	case "DeleteExecutionRequest":
		return &actionv3.DeleteExecutionRequest{Id: s.put(onEvent("target.added"), nil, nil).GetId()}
	case "SearchExecutionsRequest":
		return &actionv3.SearchExecutionsRequest{}
	case "ListAvailableExecutionFunctionsRequest":
		return &actionv3.ListAvailableExecutionFunctionsRequest{}
	case "ListAvailableExecutionMethodsRequest":
		return &actionv3.ListAvailableExecutionMethodsRequest{}
	case "ListAvailableExecutionServicesRequest":
		return &actionv3.ListAvailableExecutionServicesRequest{}
	case "GetSystemFeaturesRequest":
		return &featurev2.GetSystemFeaturesRequest{}
	case "SetSystemFeaturesRequest":
		return &featurev2.SetSystemFeaturesRequest{Features: &featurev2.SetFeatures{UserSchema: ptr(s.state().newest%2 == 0)}}
	case "ResetSystemFeaturesRequest":
		return &featurev2.ResetSystemFeaturesRequest{}
	case "GetInstanceFeaturesRequest":
		return &featurev2.GetInstanceFeaturesRequest{}
	case "SetInstanceFeaturesRequest":
		return &featurev2.SetInstanceFeaturesRequest{Features: on}
	case "ResetInstanceFeaturesRequest":
		return &featurev2.ResetInstanceFeaturesRequest{}
	default:
		return nil
	}
}

// TestSEC230_SEC231_EveryCallerOnEveryOperationOnEveryTransport is the whole
// matrix of the operations with a request of their own: who has the permission of the contract gets an answer, who has not
// gets 403, who is nobody gets 401; who is refused changes nothing.
func TestSEC230_SEC231_EveryCallerOnEveryOperationOnEveryTransport(t *testing.T) {
	all := newSuite(t)
	tokens := []struct{ caller, token string }{
		{"admin", all.AdminToken},
		{"viewer", all.ViewerToken},
		{"org_owner", all.OrgOwnerToken},
		{"nobody", all.NobodyToken},
		{"system", all.SystemToken},
		{"no token", ""},
		{"an altered token", flipLast(all.AdminToken)},
		{"a token of another kind", strings.TrimPrefix(all.AdminToken, "writ_pat_")},
	}
	for _, op := range operations {
		t.Run(string(op.method.Name()), func(t *testing.T) {
			s := all.in(t)
			for _, who := range tokens {
				for _, over := range s.transports {
					req := s.requestFor(op)
					if req == nil {
						t.Skip("no request that succeeds is known")
					}
					anonymous := strings.Contains(who.caller, "token")
					if !anonymous && may(t, who.caller, op.policy().GetPermission()) {
						if got := over.call(t, t.Context(), who.token, req); got.refusal != nil {
							t.Errorf("%s over %s: got %s, want an answer", who.caller, over.name(), got)
						}
						if op.path() == featurev2.ServiceFeatures_ResetInstanceFeatures_FullMethodName {
							s.empty() // switches the features on again
						}
						continue
					}
					want := codes.PermissionDenied
					if anonymous {
						want = codes.Unauthenticated
					}
					s.writesNothing(func() {
						got := over.call(t, t.Context(), who.token, req)
						if got.refusal == nil || got.code() != want {
							t.Errorf("%s over %s: got %s, want %s", who.caller, over.name(), got, want)
							return
						}
						if want == codes.PermissionDenied && !strings.Contains(got.refusal.GetMessage(), op.policy().GetPermission()) {
							t.Errorf("%s over %s: %q does not name the permission %s", who.caller, over.name(), got.refusal.GetMessage(), op.policy().GetPermission())
						}
						if got.http == http.StatusUnauthorized {
							checkChallenge(t, got.header.Get("WWW-Authenticate"), who.token != "")
						}
					})
				}
			}
		})
	}
}

// checkChallenge checks a WWW-Authenticate (RFC 6750 §3): no error code for who
// sent no token.
func checkChallenge(t *testing.T, challenge string, sent bool) {
	t.Helper()
	if !strings.HasPrefix(challenge, `Bearer realm="`) || strings.Contains(challenge, `error="invalid_token"`) != sent {
		t.Errorf("got the challenge %q, sent a token: %t", challenge, sent)
	}
}

func flipLast(token string) string {
	last := byte('A')
	if token[len(token)-1] == last {
		last = 'B'
	}
	return token[:len(token)-1] + string(last)
}

// TestSEC231_OnlyTheAuthorizationHeaderCarriesAToken tries the other places a
// token could be in, and headers that are no bearer token.
func TestSEC231_OnlyTheAuthorizationHeaderCarriesAToken(t *testing.T) {
	s := newSuite(t)
	token := s.AdminToken
	get := func(change func(*http.Request)) outcome {
		request, err := operationOf(&actionv3.ListAvailableExecutionMethodsRequest{}).request(s.wrong(), s.Issuer, &actionv3.ListAvailableExecutionMethodsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		change(request)
		return s.transports[len(s.transports)-1].(plain).send(t, operationOf(&actionv3.ListAvailableExecutionMethodsRequest{}), request)
	}
	for _, test := range []struct {
		name   string
		change func(*http.Request)
		want   int
	}{
		{"a bearer token", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }, 200},
		{"the scheme in other case", func(r *http.Request) { r.Header.Set("Authorization", "bEARER "+token) }, 200},
		{"another scheme", func(r *http.Request) { r.Header.Set("Authorization", "Basic "+token) }, 401},
		{"no scheme", func(r *http.Request) { r.Header.Set("Authorization", token) }, 401},
		{"a scheme alone", func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") }, 401},
		{"an empty header", func(r *http.Request) { r.Header.Set("Authorization", "") }, 401},
		{"something behind the token", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token+" x") }, 401},
		{"something before the token", func(r *http.Request) { r.Header.Set("Authorization", "Bearer x "+token) }, 401},
		{"two headers", func(r *http.Request) { r.Header["Authorization"] = []string{"Bearer " + token, "Bearer " + token} }, 401},
		{"two headers that differ", func(r *http.Request) { r.Header["Authorization"] = []string{"Bearer " + token, "Bearer x"} }, 401},
		{"a query parameter", func(r *http.Request) { r.URL.RawQuery = "access_token=" + token }, 400},
		{"the gateway's metadata header", func(r *http.Request) { r.Header.Set("Grpc-Metadata-Authorization", "Bearer "+token) }, 401},
		{"a cookie", func(r *http.Request) { r.Header.Set("Cookie", "access_token="+token) }, 401},
		{"the proxy's header", func(r *http.Request) { r.Header.Set("Proxy-Authorization", "Bearer "+token) }, 401},
		{"a header with an underscore", func(r *http.Request) { r.Header["authorization_"] = []string{"Bearer " + token} }, 401},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := get(test.change)
			if got.http != test.want {
				t.Errorf("got %s, want HTTP %d", got, test.want)
			}
			if repeated := strings.HasPrefix(test.name, "two"); repeated != (got.refusal != nil && got.reason() == "TOKEN_REPEATED") {
				t.Errorf("got %s, called repeated: %t", got, !repeated)
			}
		})
	}
	t.Run("gRPC metadata twice", func(t *testing.T) {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token, "authorization", "Bearer "+token)
		_, err := actionv3.NewServiceActionsClient(dial(t, s.Server)).ListAvailableExecutionMethods(ctx, &actionv3.ListAvailableExecutionMethodsRequest{})
		if status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "repeated") {
			t.Errorf("got %v, want Unauthenticated, repeated", err)
		}
	})
	t.Run("the query of a gRPC-web call", func(t *testing.T) {
		w := s.transports[2].(web)
		w.client = &http.Client{Transport: withQuery{w.client.Transport, "access_token=" + token}}
		if got := w.call(t, t.Context(), "", &actionv3.ListAvailableExecutionMethodsRequest{}); got.refusal == nil || got.code() != codes.Unauthenticated {
			t.Errorf("got %s, want Unauthenticated", got)
		}
	})
}

// withQuery adds a query to every request.
type withQuery struct {
	base  http.RoundTripper
	query string
}

// RoundTrip implements http.RoundTripper.
func (w withQuery) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.RawQuery = w.query
	return w.base.RoundTrip(r)
}

// TestSEC231_HeadersDoNotChangeTheOperation sends headers that frameworks know.
func TestSEC231_HeadersDoNotChangeTheOperation(t *testing.T) {
	s := newSuite(t)
	id := s.create(webhook("overridden")).GetId()
	for _, header := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
		request, err := operationOf(&actionv3.GetTargetRequest{}).request(s.wrong(), s.Issuer, &actionv3.GetTargetRequest{Id: id})
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set(header, http.MethodDelete)
		request.Header.Set("Authorization", "Bearer "+s.AdminToken)
		if got := s.transports[len(s.transports)-1].(plain).send(t, operationOf(&actionv3.GetTargetRequest{}), request); got.refusal != nil {
			t.Errorf("%s: got %s, want the target", header, got)
		}
	}
	for _, header := range []string{"X-Forwarded-Host", "Forwarded", "X-Original-Host", "X-Forwarded-Prefix"} { // no proxy is trusted
		request, err := operationOf(&actionv3.GetTargetRequest{}).request(s.wrong(), s.Issuer, &actionv3.GetTargetRequest{Id: id})
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set(header, "host=elsewhere.example")
		request.Header.Set("Authorization", "Bearer "+s.AdminToken)
		if got := s.transports[len(s.transports)-1].(plain).send(t, operationOf(&actionv3.GetTargetRequest{}), request); got.refusal != nil {
			t.Errorf("%s: got %s, want the target", header, got)
		}
	}
	s.get(id) // it is still there
}
