package login

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"github.com/writ-id/writ/impl/api/lifetime"
	"github.com/writ-id/writ/impl/api/session"
	"github.com/writ-id/writ/impl/core/secret"
)

// The cookies of a browser. Over https their names begin with __Host-, so that no
// other host can have set them (SEC-140, SEC-141).
const (
	// browserCookie holds 256 random bits that flows and forms are bound to.
	browserCookie = "writ_browser"
	// sessionsCookie holds the tokens of the browser's sessions without their prefix,
	// the newest first, with a dot between two.
	sessionsCookie = "writ_sessions"
)

const (
	// maxSessions is how many sessions a browser keeps.
	maxSessions = 8
	// randomLength is the length of secret.Random.
	randomLength = 43
)

// cookies are what a browser sent of them, and what it is to keep.
type cookies struct {
	browser string   // "" when there is none
	tokens  []string // with their prefix
	secure  bool
}

// readCookies reads the cookies of a request; what is not as it was set is none.
func readCookies(r *http.Request, secure bool) *cookies {
	c := &cookies{secure: secure}
	if sent, err := r.Cookie(c.name(browserCookie)); err == nil && isRandom(sent.Value) {
		c.browser = sent.Value
	}
	if sent, err := r.Cookie(c.name(sessionsCookie)); err == nil && len(sent.Value) <= maxSessions*(randomLength+1) {
		for one := range strings.SplitSeq(sent.Value, ".") {
			if isRandom(one) {
				c.tokens = append(c.tokens, session.TokenPrefix+one)
			}
		}
	}
	return c
}

func isRandom(text string) bool {
	bits, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return err == nil && len(text) == randomLength && len(bits) == 32
}

func (c *cookies) name(name string) string {
	if c.secure {
		return "__Host-" + name
	}
	return name
}

// bind gives a browser its cookie when it has none, and returns the hash of it.
func (c *cookies) bind(w http.ResponseWriter) []byte {
	if c.browser == "" {
		c.rebind(w)
	}
	return c.hash()
}

// rebind gives a browser another cookie: what was bound to the old one is void.
func (c *cookies) rebind(w http.ResponseWriter) {
	c.browser = secret.Random()
	c.set(w, browserCookie, c.browser, 0)
}

// hash returns what a flow or a form holds of the browser's cookie.
func (c *cookies) hash() []byte {
	if c.browser == "" {
		return nil
	}
	hash := sha256.Sum256([]byte(c.browser))
	return hash[:]
}

// own reports whether a hash is that of the browser's cookie.
func (c *cookies) own(hash []byte) bool { return len(hash) > 0 && bytes.Equal(hash, c.hash()) }

// keep sets the cookie of the sessions.
func (c *cookies) keep(w http.ResponseWriter) {
	c.tokens = c.tokens[:min(len(c.tokens), maxSessions)]
	if len(c.tokens) == 0 {
		c.set(w, sessionsCookie, "", -time.Second)
		return
	}
	short := make([]string, len(c.tokens))
	for i, token := range c.tokens {
		short[i] = strings.TrimPrefix(token, session.TokenPrefix)
	}
	c.set(w, sessionsCookie, strings.Join(short, "."), lifetime.LongestSession)
}

func (c *cookies) set(w http.ResponseWriter, name, value string, age time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: c.name(name), Value: value, Path: "/", MaxAge: int(age.Seconds()),
		Secure: c.secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}
