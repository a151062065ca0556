package token

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/writ-id/writ/impl/core/signing"
)

// JWT is a compact JSON Web Signature that was taken apart (RFC 7515, RFC 7519).
// Nothing of it can be relied on before its signature was verified.
type JWT struct {
	KeyID     string
	Algorithm signing.Algorithm
	Type      string
	Claims    Claims

	Input, Signature []byte
}

// Claims are the members of the payload.
type Claims map[string]json.RawMessage

// ParseJWT takes a JWT apart, strictly: three segments in canonical base64url,
// objects whose members are there once, nothing behind them, no extension that is
// not understood (RFC 8725; SEC-071, SEC-073). Headers that bring keys along are
// ignored: keys are those that are registered.
func ParseJWT(text string) (*JWT, error) {
	if len(text) > maxLength || strings.ContainsAny(text, "\r\n") {
		return nil, ErrInvalid
	}
	head, rest, ok := strings.Cut(text, ".")
	body, signature, two := strings.Cut(rest, ".")
	if !ok || !two || strings.Contains(signature, ".") {
		return nil, ErrInvalid
	}
	header, err := decode(head)
	if err != nil {
		return nil, ErrInvalid
	}
	if _, critical := header["crit"]; critical {
		return nil, ErrInvalid
	}
	t := &JWT{Input: []byte(text[:len(head)+1+len(body)])}
	if t.Signature, err = strict.DecodeString(signature); err != nil || len(t.Signature) == 0 {
		return nil, ErrInvalid
	}
	if t.Claims, err = decode(body); err != nil {
		return nil, ErrInvalid
	}
	algorithm, ok := header.Text("alg")
	if !ok {
		return nil, ErrInvalid
	}
	t.Algorithm = signing.Algorithm(algorithm)
	t.KeyID, _ = header.Text("kid")
	t.Type, _ = header.Text("typ")
	return t, nil
}

// IsType reports whether the header says that the token is of a type, with or
// without the prefix of media types (RFC 7515, section 4.1.9).
func (t *JWT) IsType(kind signing.Type) bool {
	name := strings.ToLower(t.Type)
	return strings.TrimPrefix(name, "application/") == strings.ToLower(kind.String())
}

// VerifiedBy reports whether a key of the set signed the token.
func (t *JWT) VerifiedBy(keys *signing.Published) bool {
	return keys.Verify(t.KeyID, t.Algorithm, t.Input, t.Signature)
}

// HintVerifiedBy is VerifiedBy for ID token hints.
func (t *JWT) HintVerifiedBy(keys *signing.Published) bool {
	return keys.VerifyHint(t.KeyID, t.Algorithm, t.Input, t.Signature)
}

// decode reads a segment that holds an object.
func decode(segment string) (Claims, error) {
	text, err := strict.DecodeString(segment)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(text) {
		return nil, ErrInvalid
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, ErrInvalid
	}
	all := Claims{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, ErrInvalid
		}
		member := name.(string) // what a decoder returns in an object
		if _, twice := all[member]; twice {
			return nil, ErrInvalid
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		all[member] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, ErrInvalid
	}
	return all, nil
}

// Text returns a claim that is a string and not empty. One with a NUL is none: the
// database has no such text, so nothing it could name exists (SEC-291).
func (c Claims) Text(name string) (string, bool) {
	var text *string
	if json.Unmarshal(c[name], &text) != nil || text == nil || strings.IndexByte(*text, 0) >= 0 {
		return "", false
	}
	return *text, *text != ""
}

// Time returns a claim that is a NumericDate (RFC 7519, section 2).
func (c Claims) Time(name string) (time.Time, bool) {
	var seconds *float64
	if json.Unmarshal(c[name], &seconds) != nil || seconds == nil || *seconds < 0 || *seconds > 1<<40 {
		return time.Time{}, false
	}
	return time.Unix(int64(*seconds), 0).UTC(), true
}

// Has reports whether there is a claim of the name.
func (c Claims) Has(name string) bool { _, ok := c[name]; return ok }

// Texts returns a claim that is a list of strings, or one, such as aud.
func (c Claims) Texts(name string) []string {
	if one, ok := c.Text(name); ok {
		return []string{one}
	}
	var list []string
	if json.Unmarshal(c[name], &list) != nil {
		return nil
	}
	return list
}
