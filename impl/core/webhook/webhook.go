// Package webhook makes one call of a target: signed as the Standard Webhooks
// specification says, so that its libraries verify it, through the one client for
// addresses of tenants (package outgoing).
package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	"github.com/writ-id/writ/impl/core/outgoing"
	"github.com/writ-id/writ/impl/core/wire"
)

// Target is what is called.
type Target struct {
	InstanceID, ID, Name, URL string
	// Answers is set when the body of the answer counts (rest_request_response), not only
	// its status (rest_webhook).
	Answers bool
	// Timeout ends connecting, sending and reading together.
	Timeout time.Duration
	// Async and Interrupt are the execution type, at most one of them.
	Async, Interrupt bool
	// Keys sign, the newest first. Without one nothing is sent.
	Keys []Key
}

// Key is a key that calls are signed with.
type Key struct {
	Secret []byte
	Until  *time.Time // nil: until another one takes its place
}

// Message is what is sent.
type Message struct {
	// ID is the same at each attempt to deliver the same thing (webhook-id).
	ID string
	// RequestID is that of the request that led to the call, if one did.
	RequestID string
	// Traceparent is where the call stands in a trace (W3C Trace Context).
	Traceparent string
	Body        []byte
	// Keep is how much is kept of an answer that counts itself; 0 is what it may forward, and
	// what people look at.
	Keep int
	// Yield, if not nil, gives back the place of the call before a long answer waits for one.
	Yield func()
}

// Answer is what came of a call.
type Answer struct {
	Sent   http.Header // what was sent, without signatures
	Took   time.Duration
	Status int // 0 when there was no answer
	Body   []byte
	// RetryAfter is how long the target asks to be left alone, 0 when it does not.
	RetryAfter time.Duration

	got *outgoing.Answer
}

// Release says that the body is used no more (outgoing.Answer).
func (a *Answer) Release() {
	if a != nil {
		a.got.Release()
	}
}

// Caller calls targets. It is safe for concurrent use.
type Caller struct {
	Out *outgoing.Client
	Now func() time.Time
}

// maxKept is how much is kept of an answer unless the message says more.
const maxKept = 16 << 10

// ErrNoKey is the error of a target that has no key to sign with.
var ErrNoKey = errors.New("the target has no signing key; rotating it makes one")

// Call sends m to t. The answer is never nil; the error says that none came, or that it
// was cut off.
func (c *Caller) Call(ctx context.Context, t *Target, m *Message) (*Answer, error) {
	// The receiver compares it with its clock, whatever ours was moved to.
	begin := time.Now()
	header := http.Header{
		"Content-Type":      {"application/json"},
		"User-Agent":        {"writ"},
		"Webhook-Id":        {m.ID},
		"Webhook-Timestamp": {strconv.FormatInt(begin.Unix(), 10)},
		"Writ-Instance-Id":  {t.InstanceID},
	}
	if m.RequestID != "" {
		header["X-Request-Id"] = []string{m.RequestID}
	}
	if m.Traceparent != "" {
		header["Traceparent"] = []string{m.Traceparent}
	}
	answer := &Answer{Sent: header}
	signature := c.sign(t.Keys, m.ID, begin, m.Body)
	if signature == "" {
		return answer, ErrNoKey
	}
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	sent := header.Clone()
	sent["Webhook-Signature"] = []string{signature}
	got, err := c.Out.Post(ctx, t.InstanceID+"/"+t.ID, t.URL, sent, m.Body, max(m.Keep, maxKept), m.Yield)
	answer.Took = time.Since(begin)
	if got != nil {
		answer.got, answer.Status, answer.Body, answer.RetryAfter = got, got.Status, got.Body, got.RetryAfter(begin)
	}
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s", t.Timeout)
	}
	return answer, err
}

// sign returns a signature by each key that is good now.
func (c *Caller) sign(keys []Key, id string, at time.Time, body []byte) string {
	var signatures []string
	for _, key := range keys {
		if key.Until == nil || c.Now().Before(*key.Until) {
			signatures = append(signatures, Sign(key.Secret, id, at, body))
		}
	}
	return strings.Join(signatures, " ")
}

// Sign returns the signature of a message: v1, and the HMAC-SHA256 of its ID, time and body.
func Sign(secret []byte, id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.%d.", id, at.Unix())
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// keyPrefix is how libraries know a key.
const keyPrefix = "whsec_"

// NewKey returns 256 random bits, and as libraries for Standard Webhooks take them.
func NewKey() (secret []byte, text string) {
	secret = make([]byte, 32)
	_, _ = rand.Read(secret) // never fails: it crashes the program instead
	return secret, keyPrefix + base64.StdEncoding.EncodeToString(secret)
}

// ParseKey reads the text of a key.
func ParseKey(text string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(text, keyPrefix)
	secret, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(secret) < 24 {
		return nil, errors.New("a signing key is whsec_ and 24 bytes or more in base64")
	}
	return secret, nil
}

// Failure returns why an answer counts as a failure, nil when it is a success: a status of
// 2xx that refuses nothing.
func (a *Answer) Failure() error {
	if a.Status < 200 || a.Status > 299 {
		return fmt.Errorf("the answer has the status %d", a.Status)
	}
	if forwarded := a.forwarded(); forwarded != nil {
		return &Forwarded{int(forwarded.GetForwardedStatusCode()), forwarded.GetForwardedErrorMessage()}
	}
	return nil
}

// Forwarded is an error that a target wants the caller to see.
type Forwarded struct {
	Status  int // 400 to 499, otherwise nobody forwards it
	Message string
}

// Error implements error.
func (f *Forwarded) Error() string {
	return fmt.Sprintf("the target refuses with the status %d: %s", f.Status, f.Message)
}

// forwarded returns what an answer refuses with, nil when it does not.
func (a *Answer) forwarded() *actionv3.ForwardedError {
	if a.Status != http.StatusOK || !bytes.Contains(a.Body, []byte("orwarded")) {
		return nil
	}
	e := &actionv3.ForwardedError{}
	err := wire.UnmarshalJSON(a.Body, e, protojson.UnmarshalOptions{DiscardUnknown: true})
	if err != nil || e.GetForwardedStatusCode() == 0 && e.GetForwardedErrorMessage() == "" {
		return nil
	}
	return e
}

// Traceparent returns the next place in the trace of an incoming one, or the first of a
// new trace.
func Traceparent(incoming string) string {
	var id [24]byte
	_, _ = rand.Read(id[:])
	trace, span := hex.EncodeToString(id[:16]), hex.EncodeToString(id[16:])
	if part := strings.Split(incoming, "-"); len(part) >= 4 && len(part[1]) == 32 && isHex(part[1]) {
		trace = part[1]
	}
	return "00-" + trace + "-" + span + "-01"
}

func isHex(text string) bool {
	return strings.Trim(text, "0123456789abcdef") == "" && strings.Trim(text, "0") != ""
}
