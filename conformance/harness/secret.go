package harness

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"sync"
)

// secret is a value that only the answers of some operations may contain.
type secret struct {
	spellings [][]byte // as it is, in JSON, in base64
	allowed   []string
}

var secrets struct {
	sync.Mutex
	known []secret
}

// shortest is how long a secret has to be: a shorter one would be found by chance.
const shortest = 8

// RememberSecret makes every later answer with that value fail (SEC-059), but
// for those of the operations that may show it, such as
// "/writ.app.v1.ServiceApps/RotateSecret". A test calls it with what a creation
// or a rotation answered.
func RememberSecret(value string, allowed ...string) error {
	if len(value) < shortest {
		return fmt.Errorf("%q is too short for a secret that can be found", value)
	}
	var inJSON bytes.Buffer
	encoder := json.NewEncoder(&inJSON)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	escaped, err := json.Marshal(value)
	if err != nil {
		return err
	}
	s := secret{allowed: allowed, spellings: [][]byte{
		[]byte(value), bytes.Trim(inJSON.Bytes(), "\"\n"), bytes.Trim(escaped, `"`),
		[]byte(base64.RawStdEncoding.EncodeToString([]byte(value))), []byte(base64.RawURLEncoding.EncodeToString([]byte(value))),
	}}
	secrets.Lock()
	defer secrets.Unlock()
	secrets.known = append(secrets.known, s)
	return nil
}

// hidden is what no answer ever shows: password hashes in the PHC and crypt
// formats, private keys in PEM, the private member of a JWK.
var hidden = regexp.MustCompile(`\$2[abxy]?\$\d\d\$|\$(?:argon2\w*|1|5|6|7|y|s0|scrypt|pbkdf2[\w-]*|bcrypt[\w-]*|md5|sha1)\$[./A-Za-z0-9=,+]{3,}` +
	`|-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY|"d"\s*:\s*"[A-Za-z0-9_-]{32,}"`)

// FindSecret returns an error when a part of an answer of an operation has a
// secret in it, however deep. It does not repeat the secret.
func FindSecret(operation string, answer ...[]byte) error {
	secrets.Lock()
	known := secrets.known
	secrets.Unlock()
	for _, text := range answer {
		if at := hidden.FindIndex(text); at != nil {
			return fmt.Errorf("SEC-059: an answer of %s has a hash or a private key in it: %s…", operation, text[at[0]:at[0]+5])
		}
		for _, s := range known {
			if slices.ContainsFunc(s.spellings, func(spelling []byte) bool { return bytes.Contains(text, spelling) }) && !slices.Contains(s.allowed, operation) {
				return fmt.Errorf("SEC-059: an answer of %s has a secret in it: %s…", operation, s.spellings[0][:3])
			}
		}
	}
	return nil
}

type operationKey struct{}

// OfOperation returns a context whose requests Guard takes for an operation.
func OfOperation(ctx context.Context, operation string) context.Context {
	return context.WithValue(ctx, operationKey{}, operation)
}

// Guard returns a RoundTripper over base whose answers are searched for secrets,
// heads included: an answer with one is an error. It sees what is not
// compressed; messages that are, the transport of the messages searches.
func Guard(base http.RoundTripper) http.RoundTripper { return guard{base} }

type guard struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (g guard) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := g.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	var head bytes.Buffer
	if err := response.Header.Write(&head); err != nil {
		return nil, err
	}
	operation, ok := r.Context().Value(operationKey{}).(string)
	if !ok {
		operation = r.Method + " " + r.URL.Path
	}
	if err := FindSecret(operation, head.Bytes(), body); err != nil {
		return nil, err
	}
	return response, nil
}
