package writ

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// ErrSignature is the error of a delivery that was not signed with the key, or too long ago.
var ErrSignature = errors.New("writ: the delivery was not signed with this key, or not now")

// webhookAge is how old a delivery may be.
const webhookAge = 5 * time.Minute

var (
	webhookKey  = regexp.MustCompile(`^whsec_[A-Za-z0-9+/]+={0,2}$`)
	webhookTime = regexp.MustCompile(`^[0-9]{1,12}$`)
)

// WebhookVerifier verifies the calls of a target (Standard Webhooks). It is safe for
// concurrent use.
type WebhookVerifier struct{ keys [][]byte }

// NewWebhookVerifier makes a verifier of the signing key of the target (whsec_…), or of both
// of them while it is being rotated. It returns an error without a key, and when one of
// them is not whsec_ and the base64 of at least 24 bytes.
func NewWebhookVerifier(keys ...string) (*WebhookVerifier, error) {
	if len(keys) == 0 {
		return nil, errors.New("writ: there is no signing key to verify deliveries with")
	}
	v := &WebhookVerifier{}
	for i, key := range keys {
		secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(key, "whsec_"))
		if !webhookKey.MatchString(key) || err != nil || len(secret) < 24 {
			return nil, fmt.Errorf("writ: signing key %d is not whsec_ and the base64 of at least 24 bytes", i+1)
		}
		v.keys = append(v.keys, secret)
	}
	return v, nil
}

// Verify returns [ErrSignature] unless the delivery was signed with one of the keys in the
// last five minutes. The body is what was received, before anything parsed it; an
// [EventPayload] is what the body of an event is decoded into.
func (v *WebhookVerifier) Verify(body []byte, header http.Header) error {
	id, timestamp := header.Get("webhook-id"), header.Get("webhook-timestamp")
	if id == "" || !webhookTime.MatchString(timestamp) {
		return ErrSignature
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > webhookAge {
		return ErrSignature
	}
	for _, key := range v.keys {
		hash := hmac.New(sha256.New, key)
		fmt.Fprintf(hash, "%s.%s.%s", id, timestamp, body)
		right := hash.Sum(nil)
		for each := range strings.SplitSeq(header.Get("webhook-signature"), " ") {
			text, ok := strings.CutPrefix(each, "v1,")
			given, err := base64.StdEncoding.DecodeString(text)
			if ok && err == nil && hmac.Equal(given, right) {
				return nil
			}
		}
	}
	return ErrSignature
}
