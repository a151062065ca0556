// Package buckettest gives a test servers of cloud storage: fake-gcs-server, which speaks as
// Google Cloud Storage does, and Versity's gateway, an S3 server that keeps objects as files.
// tools/storage has their versions; they are built once, which takes a minute or two.
package buckettest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwt"

	"github.com/writ-id/writ/impl/core/objectstore"
	"github.com/writ-id/writ/impl/core/outgoing"
	"github.com/writ-id/writ/impl/dev/freeport"
)

// Bucket is a bucket that is there.
const Bucket = "exports"

// Server is a storage behind a gate that sees what is asked and breaks what it is told to.
type Server struct {
	t    *testing.T
	gate *httptest.Server

	// Out is how it is reached.
	Out outgoing.Config

	mu       sync.Mutex
	cuts     []int64
	requests []string
	refuse   func(*http.Request) int
	before   func(*http.Request)

	place objectstore.Place
	dir   string // of the gateway
}

// Place returns where an object is, with good credentials.
func (s *Server) Place(path string) objectstore.Place {
	place := s.place
	place.Path = path
	return place
}

// Cut has each of the next downloads break after so many bytes.
func (s *Server) Cut(after ...int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cuts = append(s.cuts, after...)
}

// Refuse has requests answered with a status; 0 lets one through.
func (s *Server) Refuse(status func(*http.Request) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = status
}

// Before has something happen before requests get through.
func (s *Server) Before(do func(*http.Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = do
}

// Requests returns what was asked: method, path and range.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

// newServer puts a gate before the storage that answers at an address.
func newServer(t *testing.T, at string, allowed func(*http.Request) bool) *Server {
	t.Helper()
	s := &Server{t: t}
	to, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		// The name that was asked stays: it is signed.
		Rewrite:        func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host },
		ModifyResponse: s.cut,
		FlushInterval:  -1, // so that what comes before a cut arrives
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	s.gate = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+r.Header.Get("Range")))
		refuse, before := s.refuse, s.before
		s.mu.Unlock()
		if before != nil {
			before(r)
		}
		if refuse != nil {
			if status := refuse(r); status != 0 {
				http.Error(w, "the gate is closed", status)
				return
			}
		}
		if !allowed(r) {
			http.Error(w, "who is this", http.StatusUnauthorized)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.gate.Close)
	s.Out.Allow = outgoing.Loopback
	return s
}

// cut breaks a download.
func (s *Server) cut(response *http.Response) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if response.Request.Method != http.MethodGet || len(s.cuts) == 0 {
		return nil
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(response.Body, s.cuts[0]), broken{}), response.Body}
	s.cuts = s.cuts[1:]
	return nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the connection is cut") }

// GCS starts a Google Cloud Storage. It takes the key of one service account, for which the
// token endpoint of the key gives tokens.
func GCS(t *testing.T) *Server {
	t.Helper()
	account, token := newAccount(t)
	port := freePort(t)
	s := newServer(t, "http://127.0.0.1:"+port, func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer "+token })
	start(t, "http://127.0.0.1:"+port+"/_internal/healthcheck", "fake-gcs-server",
		"-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", port, "-external-url", s.gate.URL, "-log-level", "error", "-data", t.TempDir())
	s.Out.Origins = map[string]string{googleOrigin: s.gate.URL}
	s.place = objectstore.Place{Kind: objectstore.GCS, Bucket: Bucket, Field: "gcs_output", ServiceAccount: account}
	s.call(token, http.MethodPost, "/storage/v1/b", `{"name":"`+Bucket+`"}`)
	s.dir = token
	return s
}

// googleOrigin is where the JSON API is.
const googleOrigin = "https://storage.googleapis.com"

// call calls the JSON API.
func (s *Server) call(token, method, path, body string) string {
	s.t.Helper()
	request, err := http.NewRequestWithContext(context.WithoutCancel(s.t.Context()), method, s.gate.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	if response.StatusCode/100 != 2 {
		s.t.Fatalf("%s %s: %s: %s", method, path, response.Status, text)
	}
	return string(text)
}

// newAccount makes a service account, the endpoint that gives it tokens, and the token.
func newAccount(t *testing.T) (account []byte, token string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	token = rand.Text()
	const email = "writ@project.iam.example"
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		claims, err := jwt.Parse([]byte(r.PostFormValue("assertion")), jwt.WithKey(jwa.RS256(), key.Public()))
		if issuer, _ := claimsIssuer(claims, err); issuer != email {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"invalid_grant","error_description":"Invalid JWT Signature."}`)
			return
		}
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":3600}`, token)
	}))
	t.Cleanup(endpoint.Close)
	return Key(t, key, email, endpoint.URL), token
}

func claimsIssuer(claims jwt.Token, err error) (string, bool) {
	if err != nil {
		return "", false
	}
	return claims.Issuer()
}

// Key returns the JSON of a service account's key.
func Key(t *testing.T, key *rsa.PrivateKey, email, tokenURI string) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": email, "private_key_id": "k1", "token_uri": tokenURI,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// S3 starts an S3 server with one access key.
func S3(t *testing.T) *Server {
	t.Helper()
	dir, port := t.TempDir(), freePort(t)
	if err := os.MkdirAll(filepath.Join(dir, Bucket), 0o755); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, "http://127.0.0.1:"+port, func(*http.Request) bool { return true })
	id, secret := rand.Text(), rand.Text()
	start(t, "http://127.0.0.1:"+port+"/", "versitygw", "--access", id, "--secret", secret, "--port", "127.0.0.1:"+port, "--quiet", "posix", "--sidecar", t.TempDir(), dir)
	s.dir = dir
	s.place = objectstore.Place{
		Kind: objectstore.S3, Bucket: Bucket, Field: "s3_output", Endpoint: strings.TrimPrefix(s.gate.URL, "http://"), AccessKeyID: id, SecretAccessKey: secret, Insecure: true,
	}
	return s
}

// Left returns what is in the bucket: objects and, of an S3 server, unfinished uploads.
func (s *Server) Left() []string {
	s.t.Helper()
	var left []string
	if s.place.Kind == objectstore.GCS {
		var list struct{ Items []struct{ Name string } }
		if err := json.Unmarshal([]byte(s.call(s.dir, http.MethodGet, "/storage/v1/b/"+Bucket+"/o", "")), &list); err != nil {
			s.t.Fatal(err)
		}
		for _, item := range list.Items {
			left = append(left, item.Name)
		}
		return left
	}
	root := filepath.Join(s.dir, Bucket)
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			name, _ := filepath.Rel(root, path)
			left = append(left, name)
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return left
}

// start starts a program of tools/storage and waits until it answers.
func start(t *testing.T, ready, name string, args ...string) {
	t.Helper()
	path, err := program(name)
	if err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &output, &output, time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	for {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, ready, nil)
		if err != nil {
			t.Fatal(err)
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			_ = response.Body.Close()
			return
		}
		select {
		case <-ended:
			t.Fatalf("%s has ended: %s", name, output.String())
		case <-t.Context().Done():
			t.Fatalf("%s does not answer", name)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// program builds a program, if Go has it not already, and says where it is.
func program(name string) (string, error) {
	_, file, _, _ := runtime.Caller(0)
	cmd := exec.Command("go", "tool", "-n", name)
	cmd.Dir = filepath.Join(filepath.Dir(file), "../../../../tools/storage")
	cmd.Env = append(os.Environ(), "GOFLAGS=")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	path, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go tool -n %s: %w\n%s", name, err, stderr.String())
	}
	return strings.TrimSpace(string(path)), nil
}

func freePort(t *testing.T) string {
	t.Helper()
	port, err := freeport.Get()
	if err != nil {
		t.Fatal(err)
	}
	return port
}
