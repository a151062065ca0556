package courier

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wneessen/go-mail/smtp"
)

// Mechanism is a way to sign in to a mail server (SASL).
type Mechanism string

// The mechanisms. Automatic is the best one that the server offers.
const (
	Automatic   Mechanism = ""
	Plain       Mechanism = "PLAIN"
	LoginAuth   Mechanism = "LOGIN"
	ScramSHA1   Mechanism = "SCRAM-SHA-1"
	ScramSHA256 Mechanism = "SCRAM-SHA-256"
	XOAuth2     Mechanism = "XOAUTH2"
)

// best are those that a password is for, the best first.
var best = []Mechanism{ScramSHA256, ScramSHA1, Plain, LoginAuth}

// Login is how to sign in to a mail server: not at all without a user.
type Login struct {
	Mechanism      Mechanism
	User, Password string
	// Token is where XOAUTH2 gets its tokens; without it the password is one.
	Token *TokenSource
}

// tells reports whether the server learns by a mechanism what it could sign in with itself.
func (m Mechanism) tells() bool { return m != ScramSHA1 && m != ScramSHA256 }

// login signs in, once the server has said what it takes.
type login struct {
	Login
	host    string
	chosen  smtp.Auth
	begun   bool
	refused error // why we do not even try
}

// Start implements smtp.Auth.
func (l *login) Start(server *smtp.ServerInfo) (string, []byte, error) {
	mechanism := l.Mechanism
	if mechanism == Automatic {
		at := slices.IndexFunc(best, func(m Mechanism) bool {
			return slices.Contains(server.Auth, string(m)) && (server.TLS || !m.tells())
		})
		if at < 0 {
			l.refused = errors.New("it offers no mechanism that is known and safe here")
			return "", nil, l.refused
		}
		mechanism = best[at]
	}
	switch {
	case !slices.Contains(server.Auth, string(mechanism)):
		l.refused = errors.New("it does not offer " + string(mechanism))
	case mechanism.tells() && !server.TLS:
		l.refused = errors.New(string(mechanism) + " needs an encrypted connection")
	}
	if l.refused != nil {
		return "", nil, l.refused
	}
	switch mechanism {
	case ScramSHA256:
		l.chosen = smtp.ScramSHA256Auth(l.User, l.Password)
	case ScramSHA1:
		l.chosen = smtp.ScramSHA1Auth(l.User, l.Password)
	case LoginAuth:
		l.chosen = smtp.LoginAuth(l.User, l.Password, l.host, false)
	case XOAuth2:
		l.chosen = smtp.XOAuth2Auth(l.User, l.Password)
	default:
		l.chosen = smtp.PlainAuth("", l.User, l.Password, l.host, false)
	}
	l.begun = true
	return l.chosen.Start(server)
}

// Next implements smtp.Auth.
func (l *login) Next(fromServer []byte, more bool) ([]byte, error) {
	return l.chosen.Next(fromServer, more)
}

// TokenSource is where an application gets tokens of its own (RFC 6749, section 4.4).
type TokenSource struct {
	Endpoint           string
	ClientID, Password string
	Scopes             []string
}

// tokens are those that are good for a while yet.
type tokens struct {
	mu  sync.Mutex
	all map[string]token
}

type token struct {
	text  string
	until time.Time
}

func (t *tokens) forget(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, key)
}

// tokenMargin is how long before its end a token is not used any more.
const tokenMargin = time.Minute

// token returns a token of a source, which is remembered by a key.
func (c *Courier) token(ctx context.Context, key string, source *TokenSource) (string, error) {
	c.tokens.mu.Lock()
	known, ok := c.tokens.all[key]
	c.tokens.mu.Unlock()
	if ok && time.Now().Before(known.until) {
		return known.text, nil
	}
	form := url.Values{"grant_type": {"client_credentials"}}
	if len(source.Scopes) > 0 {
		form.Set("scope", strings.Join(source.Scopes, " "))
	}
	// RFC 6749, section 2.3.1: both are encoded before.
	begin := time.Now()
	answer, err := c.Out.PostOnce(ctx, key, source.Endpoint, formHeader(url.QueryEscape(source.ClientID), url.QueryEscape(source.Password)), []byte(form.Encode()), maxAnswer)
	const who = "the token endpoint"
	if err != nil {
		return "", &Problem{What: who + " gives no answer", Cause: err}
	}
	if problem := answered(who, answer.Status); problem != nil {
		problem.What, problem.Final = who+" gives no token", false
		return "", problem
	}
	var got struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int64  `json:"expires_in"`
	}
	if json.Unmarshal(answer.Body, &got) != nil || got.AccessToken == "" {
		return "", &Problem{What: who + " gives no token", Code: answer.Status}
	}
	lifetime := min(time.Duration(max(got.ExpiresIn, 0))*time.Second, time.Hour)
	c.tokens.mu.Lock()
	defer c.tokens.mu.Unlock()
	if len(c.tokens.all) >= linesInAll {
		clear(c.tokens.all)
	}
	c.tokens.all[key] = token{got.AccessToken, begin.Add(lifetime - tokenMargin)}
	return got.AccessToken, nil
}

// formHeader are the headers of a form that comes with a name and a password.
func formHeader(user, password string) http.Header {
	request := http.Request{Header: http.Header{
		"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"}, "User-Agent": {"writ"},
	}}
	request.SetBasicAuth(user, password)
	return request.Header
}
