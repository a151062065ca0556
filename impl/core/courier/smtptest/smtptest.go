// Package smtptest is a mail server in the process of a test (emersion/go-smtp): what it
// offers, asks for and answers is up to the test, and what it gets can be looked at.
package smtptest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"hash"
	"io"
	"math/big"
	"net"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// Server is a mail server. What is not set is not offered or not asked for.
type Server struct {
	// Implicit has the server speak TLS from the first byte, StartTLS has it offer that.
	Implicit, StartTLS bool
	// Certificate is what it shows; by default one for 127.0.0.1 that Roots vouch for.
	Certificate Certificate
	// Mechanisms are the ways to sign in, without which it takes nothing.
	Mechanisms     []string
	User, Password string
	// Answer, if not nil, is asked for the answer to MAIL, RCPT and DATA; nil is yes.
	Answer func(step, argument string) *smtp.SMTPError

	Address string // host:port, once it runs
	Roots   *x509.CertPool

	mu          sync.Mutex
	got         []Mail
	connections int
	signedIn    []string
	server      *smtp.Server
}

// Certificate says what is wrong with the certificate of a server.
type Certificate int

// The kinds of certificates.
const (
	Good Certificate = iota
	OtherName
	Expired
	Unknown // nobody vouches for it
)

// Mail is an e-mail as it came.
type Mail struct {
	From, To string // of the envelope
	Raw      string
	Header   mail.Header
	Body     string
}

// Start starts the server until the test ends.
func (s *Server) Start(t *testing.T) *Server {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Address = listener.Addr().String()
	s.server = smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &session{server: s}, nil
	}))
	s.server.AllowInsecureAuth = !s.StartTLS
	s.server.Domain, s.server.EnableSMTPUTF8 = "mail.test.example", true
	s.server.ErrorLog = silent{}
	listener = counted{listener, s}
	config := s.certificate(t)
	if s.StartTLS {
		s.server.TLSConfig = config
	}
	if s.Implicit {
		listener = tls.NewListener(listener, config)
	}
	go func() { _ = s.server.Serve(listener) }()
	t.Cleanup(func() { _ = s.server.Close() })
	return s
}

// counted counts who comes.
type counted struct {
	net.Listener
	server *Server
}

func (c counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		c.server.connections++
	}
	return conn, err
}

type silent struct{}

func (silent) Printf(string, ...any) {}
func (silent) Println(...any)        {}

// Mails returns what the server got.
func (s *Server) Mails() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Mail(nil), s.got...)
}

// Connections returns how many there were.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connections
}

// SignedIn returns by which mechanisms somebody did, in their order.
func (s *Server) SignedIn() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.signedIn...)
}

// certificate makes what the server shows.
func (s *Server) certificate(t *testing.T) *tls.Config {
	t.Helper()
	authority, authorityKey := certify(t, nil, nil, &x509.Certificate{
		Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	})
	if s.Roots == nil {
		s.Roots = x509.NewCertPool()
	}
	if s.Certificate != Unknown {
		s.Roots.AddCert(authority)
	}
	leaf := &x509.Certificate{
		Subject: pkix.Name{CommonName: "mail"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	switch s.Certificate {
	case OtherName:
		leaf.IPAddresses, leaf.DNSNames = nil, []string{"other.example"}
	case Expired:
		leaf.NotBefore, leaf.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	}
	made, key := certify(t, authority, authorityKey, leaf)
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{made.Raw}, PrivateKey: key}}}
}

func certify(t *testing.T, parent *x509.Certificate, parentKey *ecdsa.PrivateKey, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made, key
}

// session is a connection.
type session struct {
	server   *Server
	from, to string
	known    bool
}

func (s *session) answer(step, argument string) error {
	if len(s.server.Mechanisms) > 0 && !s.known {
		return smtp.ErrAuthRequired
	}
	if s.server.Answer != nil {
		if answer := s.server.Answer(step, argument); answer != nil {
			return answer
		}
	}
	return nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	s.from = from
	return s.answer("MAIL", from)
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = to
	return s.answer("RCPT", to)
}

func (s *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := s.answer("DATA", string(raw)); err != nil {
		return err
	}
	got := Mail{From: s.from, To: s.to, Raw: string(raw)}
	if read, err := mail.ReadMessage(bytes.NewReader(raw)); err == nil {
		body, _ := io.ReadAll(read.Body)
		got.Header, got.Body = read.Header, string(body)
	}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.got = append(s.server.got, got)
	return nil
}

func (s *session) Reset()        {}
func (s *session) Logout() error { return nil }

// AuthMechanisms implements smtp.AuthSession.
func (s *session) AuthMechanisms() []string { return s.server.Mechanisms }

// Auth implements smtp.AuthSession.
func (s *session) Auth(mechanism string) (sasl.Server, error) {
	check := func(user, password string) error {
		if subtle.ConstantTimeCompare([]byte(user+"\x00"+password), []byte(s.server.User+"\x00"+s.server.Password)) != 1 {
			return smtp.ErrAuthFailed
		}
		return s.enter(mechanism)
	}
	switch mechanism {
	case sasl.Plain:
		return sasl.NewPlainServer(func(_, user, password string) error { return check(user, password) }), nil
	case "LOGIN":
		return &loginServer{check: check}, nil
	case "XOAUTH2":
		return oneStep(func(response string) error {
			parts := strings.Split(response, "\x01")
			if len(parts) != 4 {
				return smtp.ErrAuthFailed
			}
			return check(strings.TrimPrefix(parts[0], "user="), strings.TrimPrefix(parts[1], "auth=Bearer "))
		}), nil
	case "SCRAM-SHA-1":
		return &scramServer{session: s, mechanism: mechanism, hash: sha1.New}, nil
	case "SCRAM-SHA-256":
		return &scramServer{session: s, mechanism: mechanism, hash: sha256.New}, nil
	}
	return nil, smtp.ErrAuthUnknownMechanism
}

func (s *session) enter(mechanism string) error {
	s.known = true
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.signedIn = append(s.server.signedIn, mechanism)
	return nil
}

// oneStep is a mechanism of one response.
type oneStep func(response string) error

func (check oneStep) Next(response []byte) (challenge []byte, done bool, err error) {
	if response == nil {
		return []byte{}, false, nil
	}
	return nil, true, check(string(response))
}

// loginServer asks for the name and then for the password.
type loginServer struct {
	check func(user, password string) error
	step  int
	user  string
}

func (l *loginServer) Next(response []byte) (challenge []byte, done bool, err error) {
	l.step++
	switch l.step {
	case 1:
		return []byte("Username:"), false, nil
	case 2:
		l.user = string(response)
		return []byte("Password:"), false, nil
	}
	return nil, true, l.check(l.user, string(response))
}

// scramServer is SCRAM (RFC 5802) without channel binding.
type scramServer struct {
	session   *session
	mechanism string
	hash      func() hash.Hash
	step      int
	bare      string
	first     string
}

func (s *scramServer) mac(key []byte, text string) []byte {
	mac := hmac.New(s.hash, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

func (s *scramServer) Next(response []byte) (challenge []byte, done bool, err error) {
	const salt, rounds = "salt of the test", 4096
	s.step++
	switch {
	case s.step == 1 && len(response) == 0:
		s.step--
		return []byte{}, false, nil
	case s.step == 1:
		_, bare, ok := strings.Cut(string(response), ",,")
		at := strings.Index(bare, ",r=")
		if !ok || at < 0 || bare[:at] != "n="+s.session.server.User {
			return nil, true, smtp.ErrAuthFailed
		}
		s.bare = bare
		s.first = fmt.Sprintf("r=%sserver,s=%s,i=%d", bare[at+3:], base64.StdEncoding.EncodeToString([]byte(salt)), rounds)
		return []byte(s.first), false, nil
	case s.step == 3:
		return nil, true, s.session.enter(s.mechanism)
	}
	size := s.hash().Size()
	salted, err := pbkdf2.Key(s.hash, s.session.server.Password, []byte(salt), rounds, size)
	if err != nil {
		return nil, true, err
	}
	client := s.mac(salted, "Client Key")
	digest := s.hash()
	digest.Write(client)
	without, proof, _ := strings.Cut(string(response), ",p=")
	about := s.bare + "," + s.first + "," + without
	signature := s.mac(digest.Sum(nil), about)
	want := make([]byte, size)
	subtle.XORBytes(want, client, signature)
	if proof != base64.StdEncoding.EncodeToString(want) {
		return nil, true, smtp.ErrAuthFailed
	}
	return []byte("v=" + base64.StdEncoding.EncodeToString(s.mac(s.mac(salted, "Server Key"), about))), false, nil
}
