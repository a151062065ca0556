package browser

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // RFC 6238
	"crypto/tls"
	"crypto/x509"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/writ-id/writ/conformance/harness"
)

// server is a provider: the content of its ready file, and the relying party that
// is registered with it.
type server struct {
	Issuer     string `json:"issuer"`
	ProjectID  string `json:"project_id"`
	AdminToken string `json:"admin_token"`
	User       person `json:"user"`

	client *http.Client
	app    *party
}

// person is somebody who sits in front of a browser.
type person struct {
	ID        string `json:"id"`
	LoginName string `json:"login_name"`
	Password  string `json:"password"`
	Email     string `json:"email"`
}

// startServers starts plain, house and secure at once.
func startServers() error {
	plain, house, secure = &server{}, &server{}, &server{}
	starts := errgroup.Group{}
	starts.Go(func() error { return plain.start() })
	starts.Go(func() error { return house.start() })
	starts.Go(func() error { return secure.start("--tls") })
	if err := starts.Wait(); err != nil {
		return err
	}
	house.Issuer = strings.Replace(house.Issuer, "127.0.0.1", "localhost", 1) // cookies do not tell ports apart
	for _, s := range []*server{plain, house, secure} {
		var err error
		if s.app, err = newParty(s); err != nil {
			return fmt.Errorf("register a client: %w", err)
		}
	}
	return nil
}

// start starts a server, and reads what it says of itself.
func (s *server) start(args ...string) error {
	d, err := harness.StartDev(args...)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(d.ReadyFile)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if certificate, err := os.ReadFile(filepath.Join(d.DataDir, "tls.crt")); err == nil {
		roots.AppendCertsFromPEM(certificate)
	}
	s.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	return json.Unmarshal(text, s)
}

// call asks the API of the provider as its administrator. A nil body is a GET.
func (s *server) call(path string, body, into any) error {
	method, content := http.MethodGet, io.Reader(nil)
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		method, content = http.MethodPost, bytes.NewReader(text)
	}
	req, err := http.NewRequest(method, s.Issuer+path, content)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.AdminToken)
	req.Header.Set("Content-Type", "application/json")
	res, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %s", method, path, res.Status, text)
	}
	return json.Unmarshal(text, into)
}

// must is call for what cannot be refused.
func (s *server) must(t *testing.T, path string, body, into any) {
	t.Helper()
	if err := s.call(path, body, into); err != nil {
		t.Fatal(err)
	}
}

type object map[string]any

// created is what the API says of something new.
type created struct {
	Details struct {
		ID string `json:"id"`
	} `json:"details"`
	TotpID string `json:"totpId"`
	Secret string `json:"secret"`
}

var people atomic.Int64

const goodPassword = "correct horse battery"

// newPerson makes a user of the test's own. password adds to the password.
func (s *server) newPerson(t *testing.T, given, family string, password object) person {
	t.Helper()
	name := fmt.Sprintf("%s%d", strings.ToLower(strings.Map(letters, given)), people.Add(1))
	p := person{LoginName: name + "@default.localhost", Password: goodPassword, Email: name + "@mail.example"}
	secret := object{"plain": p.Password}
	for key, value := range password {
		secret[key] = value
	}
	var user created
	s.must(t, "/resources/v3alpha/users", object{"username": name, "human": object{
		"profile": object{"givenName": given, "familyName": family}, "email": object{"address": p.Email, "isVerified": true}, "password": secret,
	}}, &user)
	p.ID = user.Details.ID
	return p
}

func letters(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
		return r
	}
	return -1
}

// addTOTP gives a user an authenticator app and returns its secret. The code that
// proves it is of the step before, so that the one of now is good for a login.
func (s *server) addTOTP(t *testing.T, p person) string {
	t.Helper()
	var added created
	path := "/v3alpha/users/" + p.ID + "/totp"
	s.must(t, path, object{}, &added)
	s.must(t, path+"/"+added.TotpID+"/verify", object{"code": totp(t, added.Secret, time.Now().Add(-30*time.Second))}, &created{})
	return added.Secret
}

// totp returns the code of a moment (RFC 6238).
func totp(t *testing.T, secret string, at time.Time) string {
	t.Helper()
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha1.New, key)
	_ = binary.Write(mac, binary.BigEndian, uint64(at.Unix()/30))
	sum := mac.Sum(nil)
	offset := sum[len(sum)-1] & 0xf
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[offset:])&0x7fffffff%1_000_000)
}

// mailed returns the code in the newest message to an address.
func (s *server) mailed(t *testing.T, address string) string {
	t.Helper()
	codes := s.allMailed(t, address)
	if len(codes) == 0 {
		t.Fatalf("no code was sent to %s", address)
	}
	return codes[0]
}

// allMailed returns the codes in all messages to an address, the newest first.
func (s *server) allMailed(t *testing.T, address string) (codes []string) {
	t.Helper()
	var messages []struct{ Recipient, Code string }
	s.must(t, "/_dev/messages", nil, &messages)
	for _, message := range messages {
		if message.Recipient == address {
			codes = append(codes, message.Code)
		}
	}
	return codes
}
