package record_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writ-id/writ/impl/dev/record"
)

// Each secret of this exchange has its own name, so that the file tells which one is in it.
func TestNoSecretIsRecorded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "record.jsonl")
	r, err := record.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	r.Learn("SECRET-learned")
	server := httptest.NewServer(r.Handler(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_ = req.ParseForm()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", "https://client.example/cb?code=SECRET-code&state=shown-state#access_token=SECRET-fragment")
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "SECRET-set-cookie"})
		_, _ = fmt.Fprint(w, `{"access_token":"SECRET-access","nested":[{"clientSecret":"SECRET-nested","name":"shown-name"}],"password":{"plain":"SECRET-plain"},
			"link":"https://x.example/?token=SECRET-link","echo":"he typed SECRET-typed, SECRET-learned, SECRET-basic","pat":"writ_pat_SECRETSECRETSECRET","jwt":"eyJhbGciOiJub25lIn0.SECRETSECRET.SECRET","number":7}`)
	})))
	defer server.Close()
	for _, one := range []struct{ kind, body string }{
		{"application/x-www-form-urlencoded", "username=shown-user&password=SECRET-typed&client_secret=SECRET%2Bescaped&client_assertion=SECRET-assertion&refresh_token=SECRET-refresh&code_verifier=SECRET-verifier"},
		{"application/json", `{"user":{"human":{"password":{"plain":"SECRET-new"}}},"secret":"SECRET-json","code":"SECRET-otp","assertion":"SECRET-jwt","signingKey":"SECRET-key"}`},
		{"application/x-www-form-urlencoded", `{"password":"SECRET-curl"}`},
		{"text/plain", "SECRET-text"},
	} {
		req, _ := http.NewRequest(http.MethodPost, server.URL+"/path?token=SECRET-query&id_token_hint=SECRET-hint&client_id=shown-client", strings.NewReader(one.body))
		req.Header.Set("Content-Type", one.kind)
		req.Header.Set("Cookie", "a=SECRET-cookie; b=SECRET-second")
		req.Header.Set("Dpop-Token", "SECRET-header")
		req.SetBasicAuth("shown-client", "SECRET-basic")
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range strings.Split(string(content), "SECRET") {
		if i > 0 {
			at := strings.Index(string(content), "SECRET")
			t.Fatalf("recorded is …%s…", content[max(0, at-60):min(len(content), at+60)])
		}
	}
	for _, want := range []string{"shown-state", "shown-name", "shown-user", "shown-client", `"number":7`, `"status":200`} {
		if !strings.Contains(string(content), want) {
			t.Errorf("%s is missing", want)
		}
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v", info.Mode())
	}
}
