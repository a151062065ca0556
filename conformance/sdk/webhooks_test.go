package sdk

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// signedKey signs the deliveries of the table.
const signedKey = "whsec_YSBrZXkgdGhhdCBub2JvZHkga25vd3Mgb2Y="

// A delivery is a call of a target that the package of each language has to verify as the
// others do (Standard Webhooks): what comes of it is body, signature (a SignatureError) or
// key (the verifier is not made).
type delivery struct {
	Name    string            `json:"name"`
	Keys    []string          `json:"keys"`
	Body    string            `json:"body"`
	Headers map[string]string `json:"headers"`
	Want    string            `json:"want"`
}

// deliveries is the one table of cases for all languages (SEC-255: a missing secret is never
// a yes).
func deliveries(t *testing.T) string {
	t.Helper()
	const id, body = "a-delivery", `{"event_type":"user.human.added","sequence":"7"}`
	encode := base64.StdEncoding.EncodeToString
	sign := func(key []byte, id, at, body string) string {
		hash := hmac.New(sha256.New, key)
		fmt.Fprintf(hash, "%s.%s.%s", id, at, body)
		return "v1," + encode(hash.Sum(nil))
	}
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(signedKey, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Unix()
	at := strconv.FormatInt(now, 10)
	right := sign(secret, id, at, body)
	header := func(at, signature string) map[string]string {
		return map[string]string{"webhook-id": id, "webhook-timestamp": at, "webhook-signature": signature}
	}
	key, other := []string{signedKey}, "whsec_"+encode([]byte("this is the key of another target"))
	table := []delivery{
		{"signed", key, body, header(at, right), "body"},
		{"signed with the second key", []string{other, signedKey}, body, header(at, right), "body"},
		{"beside another signature", key, body, header(at, "v1a,x v1,x v2,"+right[3:]+" "+right), "body"},
		{"header names in capitals", key, body, map[string]string{"Webhook-Id": id, "Webhook-Timestamp": at, "Webhook-Signature": right}, "body"},
		{"of another target", []string{other}, body, header(at, right), "signature"},
		{"changed", key, body + " ", header(at, right), "signature"},
		{"without an ID", key, body, map[string]string{"webhook-timestamp": at, "webhook-signature": right}, "signature"},
		{"without headers", key, body, map[string]string{}, "signature"},
	}
	for _, signature := range []string{"", " ", "v1", "v1,", "v1,=", "v1,%", "v1,é", "v2," + right[3:], right[:20], strings.TrimRight(right, "="), right + "=", sign(nil, id, at, body)} {
		table = append(table, delivery{fmt.Sprintf("the signature %q", signature), key, body, header(at, signature), "signature"})
	}
	old, early := strconv.FormatInt(now-3600, 10), strconv.FormatInt(now+3600, 10)
	for _, stamp := range []string{"", " ", "x", "-1", "1", "²", "٣", "1e9", "0x65", "+" + at, " " + at, at + ".0", at + "n", "NaN", "Infinity", strings.Repeat("9", 30), old, early} {
		table = append(table, delivery{fmt.Sprintf("the time %q", stamp), key, body, header(stamp, sign(secret, id, stamp, body)), "signature"})
	}
	short := encode(secret[:23])
	for _, keys := range [][]string{
		{}, {""}, {"whsec_"}, {"whsec_YQ=="}, {"whsec_" + short}, {"whsec_" + strings.Repeat("!", 32)}, {signedKey, ""}, {"", signedKey}, {signedKey, "whsec_"},
		{strings.TrimPrefix(signedKey, "whsec_")}, {strings.TrimRight(signedKey, "=")}, {signedKey + "\n"}, {"whsec_" + strings.Repeat("-_", 16)}, {"undefined"}, {"None"},
	} {
		signed := header(at, sign(nil, id, at, body)) // what a verifier with no key would take
		table = append(table, delivery{fmt.Sprintf("the keys %q", keys), keys, body, signed, "key"})
	}
	text, err := json.Marshal(table)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
