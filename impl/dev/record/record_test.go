package record_test

import (
	"fmt"
	"io"
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
	if err := os.WriteFile(path, []byte("of an earlier run"), 0o644); err != nil { //nolint:gosec // as a shell would have made it
		t.Fatal(err)
	}
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

func TestSecretsOfOtherShapesAreNotRecordedEither(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"a bucket's key":             `{"s3":{"access_key_id":"shown","secret_access_key":"SECRET-bucket"}}`,
		"the hash of a password":     `{"passwordHash":"SECRET-hash","secretHash":"SECRET-hash2","hash":"SECRET-hash3"}`,
		"an address with a password": `{"url":"postgres://writ:SECRET-pw@db.example/writ","echo":"SECRET-pw"}`,
		"a seed file":                `{"seed":"instances: [{name: a, users: [{password: SECRET-seed}]}]"}`,
		"a number":                   `{"code":5EC4E7,"totpCode":1,"x":{"password":424242},"echo":"424242"}`,
		"a page of this server":      `{"link":"/login/link?code=SECRET-page"}`,
		"an address in an address":   `{"authorize":"https://x.example/?next=%2Flogin%3Fcode%3DSECRET-inner%26a%3Db"}`,
		"an authorization":           `{"headers":{"Authorization":"Bearer SECRET-value","x-api-key":"SECRET-api"}}`,
		"quotes in a password":       `{"password":"SECRET\"<quoted>","echo":"he typed SECRET\"<quoted>"}`,
		"a private key":              `{"pem":"-----BEGIN PRIVATE KEY-----\nSECRETabc+/=\n-----END PRIVATE KEY-----\n"}`,
		"a user, by themselves":      `{"auth":{"plain":{"user":"shown","password":"SECRET-smtp"}},"proxy":"http://u:SECRET-proxy@h.example"}`,
		"a JWT's private part":       `{"kty":"RSA","n":"shown","d":"SECRET-d","p":"SECRET-p","q":"SECRET-q","dp":"SECRET-dp","dq":"SECRET-dq","qi":"SECRET-qi"}`,
		"JSON in a text":             `{"payload":"{\"client_secret\":\"SECRET-inside\"}"}`,
		"JSON after JSON":            `{"a":1}` + "\n" + `{"password":"SECRET-second"}`,
		"a form of another name":     `{"PASSWORD":"SECRET-upper","new-password":"SECRET-dash","newPasswordAgain":"SECRET-mistyped","passwd":"SECRET-short","pwd":"SECRET-pwd"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "record.jsonl")
			r, err := record.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(r.Handler(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { _, _ = io.Copy(io.Discard, req.Body) })))
			defer server.Close()
			for _, kind := range []string{"application/json", "application/x-ndjson"} {
				res, err := http.Post(server.URL, kind, strings.NewReader(strings.ReplaceAll(body, "5EC4E7", "535353")))
				if err != nil {
					t.Fatal(err)
				}
				_ = res.Body.Close()
			}
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, secret := range []string{"SECRET", "535353", "424242"} {
				if at := strings.Index(string(content), secret); at >= 0 {
					t.Errorf("recorded is …%s…", content[max(0, at-60):min(len(content), at+60)])
				}
			}
			if strings.Contains(string(content), `"request":{"bytes":0}`) || strings.Count(string(content), "\n") != 2 {
				t.Errorf("recorded is %s", content)
			}
		})
	}
}
