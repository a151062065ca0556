package browser

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
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

// Jar holds what a browser sent of our cookies, and what it is to keep.
type Jar struct {
	browser string   // "" when there is none
	tokens  []string // of sessions, with their prefix
	sent    []*http.Cookie
	secure  bool
	put     []*http.Cookie // what the answer sets
	changed bool           // whether the browser gets other session tokens
}

// NewJar reads the cookies of a request, which came over https or not; what is not as it was
// set is none.
func NewJar(sent []*http.Cookie, secure bool) *Jar {
	c := &Jar{secure: secure, sent: sent}
	if sent := c.get(browserCookie); isRandom(sent) {
		c.browser = sent
	}
	if sent := c.get(sessionsCookie); len(sent) <= maxSessions*(randomLength+1) {
		for one := range strings.SplitSeq(sent, ".") {
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

func (c *Jar) name(name string) string {
	if c.secure {
		return "__Host-" + name
	}
	return name
}

// get returns what the browser sent under a name, "" when it sent nothing.
func (c *Jar) get(name string) string {
	name = c.name(name)
	if i := slices.IndexFunc(c.sent, func(one *http.Cookie) bool { return one.Name == name }); i >= 0 {
		return c.sent[i].Value
	}
	return ""
}

// IsKnown reports whether the browser has a cookie of ours that flows are bound to.
func (c *Jar) IsKnown() bool { return c.browser != "" }

// HasSessions reports whether the browser has tokens of sessions.
func (c *Jar) HasSessions() bool { return len(c.tokens) > 0 }

// Bind gives a browser its cookie when it has none, and returns the hash of it.
func (c *Jar) Bind() []byte {
	if c.browser == "" {
		c.Rebind()
	}
	return c.hash()
}

// Rebind gives a browser another cookie: what was bound to the old one is void.
func (c *Jar) Rebind() {
	c.browser = secret.Random()
	c.set(browserCookie, c.browser, 0)
}

// hash returns what a flow or a form holds of the browser's cookie.
func (c *Jar) hash() []byte {
	if c.browser == "" {
		return nil
	}
	hash := sha256.Sum256([]byte(c.browser))
	return hash[:]
}

// Owns reports whether a hash is that of the browser's cookie.
func (c *Jar) Owns(hash []byte) bool { return len(hash) > 0 && bytes.Equal(hash, c.hash()) }

// Add makes a token the newest of the browser, instead of the one it had for the
// same session (SEC-141).
func (c *Jar) Add(token, old string) {
	c.keep(slices.Insert(slices.DeleteFunc(slices.Clone(c.tokens), func(one string) bool { return one == old }), 0, token))
}

// keep has the browser keep some sessions.
func (c *Jar) keep(tokens []string) { c.tokens, c.changed = tokens, true }

// Cookies returns what the answer sets.
func (c *Jar) Cookies() []*http.Cookie {
	if c.changed {
		c.tokens, c.changed = c.tokens[:min(len(c.tokens), maxSessions)], false
		short := make([]string, len(c.tokens))
		for i, token := range c.tokens {
			short[i] = strings.TrimPrefix(token, session.TokenPrefix)
		}
		age := lifetime.LongestSession
		if len(short) == 0 {
			age = -time.Second
		}
		c.set(sessionsCookie, strings.Join(short, "."), age)
	}
	put := c.put
	c.put = nil
	return put
}

// set has the answer set a cookie.
func (c *Jar) set(name, value string, age time.Duration) {
	c.put = append(c.put, &http.Cookie{
		Name: c.name(name), Value: value, Path: "/", MaxAge: int(age.Seconds()),
		Secure: c.secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}
