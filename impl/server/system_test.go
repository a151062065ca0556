package server_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jws"
	"github.com/lestrrat-go/jwx/v3/jwt"

	"github.com/writ-id/writ/impl/oidc/client"
	"github.com/writ-id/writ/impl/server"
	"github.com/writ-id/writ/impl/server/servertest"
)

// written writes a file into the folder of a test.
func written(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func publicPEM(t *testing.T, key crypto.Signer) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func TestSystemUsersSignTheirTokensThemselves(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ec, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	old, _ := rsa.GenerateKey(rand.Reader, 2048)
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	stranger, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	written(t, dir, "new.pem", publicPEM(t, ec))
	written(t, dir, "old.pem", publicPEM(t, old))
	written(t, dir, "viewer.pem", publicPEM(t, ed))
	path := written(t, dir, "system.yaml", "automation:\n  roles: [SYSTEM_OWNER]\n  keys: [new.pem, old.pem]\nviewer:\n  roles: [SYSTEM_OWNER_VIEWER]\n  keys: [viewer.pem]\n")
	users, err := client.ReadSystemUsers(path, []string{"SYSTEM_OWNER", "SYSTEM_OWNER_VIEWER"})
	if err != nil {
		t.Fatal(err)
	}
	var ahead atomic.Int64
	now := time.Now().UTC().Truncate(time.Second)
	c := servertest.New(t, 1, func(c *server.Config) {
		c.SystemUsers, c.Now = users, func() time.Time { return now.Add(time.Duration(ahead.Load())) }
	})
	token := func(key any, algorithm jwa.SignatureAlgorithm, change func(jwt.Token)) string {
		t.Helper()
		made, err := jwt.NewBuilder().Issuer("automation").Subject("automation").Audience([]string{"https://a.example"}).IssuedAt(now).Expiration(now.Add(time.Hour)).Build()
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(made)
		}
		text, err := jwt.Sign(made, jwt.WithKey(algorithm, key))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	ask := func(method, path, body, token string) (int, string) {
		t.Helper()
		got := c.Call(0, "a.example", token, method, path, body)
		return got.Status, got.Body
	}
	typed := func(typ string) string {
		t.Helper()
		made, err := jwt.NewBuilder().Issuer("automation").Subject("automation").Audience([]string{"https://a.example"}).IssuedAt(now).Expiration(now.Add(time.Hour)).Build()
		if err != nil {
			t.Fatal(err)
		}
		header := jws.NewHeaders()
		if err := header.Set("typ", typ); err != nil {
			t.Fatal(err)
		}
		text, err := jwt.Sign(made, jwt.WithKey(jwa.ES256(), ec, jws.WithProtectedHeaders(header)))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const search, instances = "/resources/v3alpha/instances/_search", "/resources/v3alpha/instances"
	good := token(ec, jwa.ES256(), nil)
	for name, text := range map[string]string{"the new key": good, "the old key": token(old, jwa.RS256(), nil)} {
		if status, body := ask(http.MethodPost, search, "[]", text); status != http.StatusOK {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	// It counts as often as one likes, until it ends.
	if status, body := ask(http.MethodPost, instances, `{"name":"made","domain":"made.example","organizationName":"Org","ownerUsername":"boss"}`, good); status != http.StatusCreated {
		t.Errorf("the same again: %d %s", status, body)
	}
	viewer := token(ed, jwa.EdDSA(), func(t jwt.Token) { _ = t.Set("iss", "viewer"); _ = t.Set("sub", "viewer") })
	if status, _ := ask(http.MethodPost, search, "[]", viewer); status != http.StatusOK {
		t.Errorf("a viewer may not look: %d", status)
	}
	if status, _ := ask(http.MethodPost, instances, `{"name":"no","domain":"no.example","organizationName":"Org","ownerUsername":"boss"}`, viewer); status != http.StatusForbidden {
		t.Errorf("a viewer may make instances: %d", status)
	}
	for name, text := range map[string]string{
		"a stranger's key":             token(stranger, jwa.ES256(), nil),
		"another user's key":           token(ed, jwa.EdDSA(), nil),
		"another algorithm":            token([]byte(publicPEM(t, ec)), jwa.HS256(), nil),
		"another subject":              token(ec, jwa.ES256(), func(t jwt.Token) { _ = t.Set("sub", "viewer") }),
		"nobody":                       token(ec, jwa.ES256(), func(t jwt.Token) { _ = t.Set("iss", "nobody"); _ = t.Set("sub", "nobody") }),
		"another audience":             token(ec, jwa.ES256(), func(t jwt.Token) { _ = t.Set("aud", "https://b.example") }),
		"others beside the audience":   token(ec, jwa.ES256(), func(t jwt.Token) { _ = t.Set("aud", []string{"https://a.example", "https://evil.example"}) }),
		"no audience":                  token(ec, jwa.ES256(), func(t jwt.Token) { _ = t.Remove("aud") }),
		"no end":                       token(ec, jwa.ES256(), func(t jwt.Token) { _ = t.Remove("exp") }),
		"an end behind tomorrow":       token(ec, jwa.ES256(), func(t jwt.Token) { _ = t.Set("exp", now.Add(25*time.Hour)) }),
		"over":                         token(ec, jwa.ES256(), func(t jwt.Token) { _ = t.Set("exp", now.Add(-time.Minute)) }),
		"not yet":                      token(ec, jwa.ES256(), func(t jwt.Token) { _ = t.Set("nbf", now.Add(10*time.Minute)) }),
		"issued before the last hours": token(ec, jwa.ES256(), func(t jwt.Token) { _ = t.Set("iat", now.Add(-3*time.Hour)) }),
		"no time of issue":             token(ec, jwa.ES256(), func(t jwt.Token) { _ = t.Remove("iat") }),
		"a life of two hours": token(ec, jwa.ES256(), func(t jwt.Token) {
			_ = t.Set("iat", now.Add(-59*time.Minute))
			_ = t.Set("exp", now.Add(50*time.Minute))
		}),
		"issued in the future":         token(ec, jwa.ES256(), func(t jwt.Token) { _ = t.Set("iat", now.Add(10*time.Minute)) }),
		"another algorithm of its key": token(old, jwa.PS256(), nil),
		"an access token":              typed("at+jwt"),
		"a logout token":               typed("logout+jwt"),
		"a security event":             typed("application/secevent+jwt"),
		"no signature":                 good[:strings.LastIndexByte(good, '.')+1],
	} {
		if status, _ := ask(http.MethodPost, search, "[]", text); status != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, status)
		}
	}
	ahead.Store(int64(2 * time.Hour))
	if status, _ := ask(http.MethodPost, search, "[]", good); status != http.StatusUnauthorized {
		t.Errorf("after its end: %d", status)
	}
}

func TestAFileOfSystemUsersThatIsWrongSaysWhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ec, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	written(t, dir, "good.pem", publicPEM(t, ec))
	private, err := x509.MarshalPKCS8PrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	written(t, dir, "private.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	for text, want := range map[string]string{
		"a:\n  roles: [SYSTEM_OWNER]\n  keys: [missing.pem]":       "missing.pem",
		"a:\n  roles: [IAM_OWNER]\n  keys: [good.pem]":             `"IAM_OWNER" is none of`,
		"a:\n  roles: [SYSTEM_OWNER]\n  keys: [private.pem]":       "a private key",
		"a:\n  roles: [SYSTEM_OWNER]":                              "roles and keys have to be named",
		"https://a/:\n  roles: [SYSTEM_OWNER]\n  keys: [good.pem]": "is no name",
		"a:\n  role: [SYSTEM_OWNER]\n  keys: [good.pem]":           "role",
		"a: [": "system.yaml",
	} {
		path := written(t, dir, "system.yaml", text)
		if _, err := client.ReadSystemUsers(path, []string{"SYSTEM_OWNER"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if users, err := client.ReadSystemUsers(written(t, dir, "empty.yaml", ""), nil); err != nil || len(users) != 0 {
		t.Errorf("nobody: %v %v", users, err)
	}
}
