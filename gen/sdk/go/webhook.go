package writ

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ErrSignature is the error of a delivery that was not signed with the key, or too long ago.
var ErrSignature = errors.New("writ: the delivery was not signed with this key, or not now")

// webhookAge is how old a delivery may be.
const webhookAge = 5 * time.Minute

// VerifyWebhook verifies a call of a target (Standard Webhooks). The body is what was received;
// keys are the signing key of the target (whsec_…), or both of them while it is being
// rotated. An [EventPayload] is what the body of an event is decoded into.
func VerifyWebhook(body []byte, header http.Header, keys ...string) error {
	id, timestamp := header.Get("webhook-id"), header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if id == "" || err != nil || time.Since(time.Unix(seconds, 0)).Abs() > webhookAge {
		return ErrSignature
	}
	for _, key := range keys {
		secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(key, "whsec_"))
		if err != nil {
			return fmt.Errorf("writ: the signing key is not whsec_ and base64: %w", err)
		}
		hash := hmac.New(sha256.New, secret)
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
