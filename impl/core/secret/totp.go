package secret

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Parameters of one-time passwords by time (RFC 6238): those that every
// authenticator app knows.
const (
	totpDigits      = 6
	totpPeriod      = 30 * time.Second
	totpWindow      = 1  // steps a clock may be off, either way
	totpSecretBytes = 20 // what RFC 4226 recommends for SHA-1
)

// NewTOTP returns a new secret.
func NewTOTP() []byte {
	secret := make([]byte, totpSecretBytes)
	_, _ = rand.Read(secret)
	return secret
}

// TOTPText returns a secret as people type it.
func TOTPText(secret []byte) string {
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(secret)
}

// TOTPURI returns what apps read as a QR code.
func TOTPURI(secret []byte, issuer, login string) string {
	values := url.Values{
		"secret": {TOTPText(secret)}, "issuer": {issuer}, "algorithm": {"SHA1"},
		"digits": {fmt.Sprint(totpDigits)}, "period": {fmt.Sprint(int(totpPeriod.Seconds()))},
	}
	uri := url.URL{Scheme: "otpauth", Host: "totp", Path: "/" + issuer + ":" + login, RawQuery: strings.ReplaceAll(values.Encode(), "+", "%20")} // apps read + as it is
	return uri.String()
}

// VerifyTOTP returns the time step around now whose code it is, or false. Every
// step is compared, in constant time.
func VerifyTOTP(secret []byte, code string, now time.Time) (step int64, ok bool) {
	current := now.Unix() / int64(totpPeriod.Seconds())
	for at := current - totpWindow; at <= current+totpWindow; at++ {
		if subtle.ConstantTimeCompare([]byte(totp(secret, at)), []byte(code)) == 1 {
			step, ok = at, true
		}
	}
	return step, ok
}

// TOTP returns the code of a moment, as an app shows it.
func TOTP(secret []byte, now time.Time) string {
	return totp(secret, now.Unix()/int64(totpPeriod.Seconds()))
}

func totp(secret []byte, step int64) string {
	mac := hmac.New(sha1.New, secret)
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(step)))
	sum := mac.Sum(nil)
	offset := sum[len(sum)-1] & 0xf
	return fmt.Sprintf("%0*d", totpDigits, (binary.BigEndian.Uint32(sum[offset:])&0x7fffffff)%1_000_000)
}
