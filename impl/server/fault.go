package server

import (
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/wire"
)

// writeFault writes a refusal as the contract's error body.
func writeFault(w http.ResponseWriter, refusal *fault.Error) {
	refused(w, refusal)
	header := w.Header()
	header.Set("Content-Type", "application/json")
	switch refusal.Kind {
	case fault.Unauthenticated:
		header.Add("WWW-Authenticate", challenge(refusal))
	case fault.Unavailable, fault.Busy:
		header.Set("Retry-After", strconv.Itoa(int(refusal.Retry().Seconds())))
	}
	w.WriteHeader(refusal.HTTP())
	// code and message are never empty, and there is always an ErrorInfo.
	text, _ := protojson.Marshal(refusal.GRPCStatus().Proto())
	_, _ = w.Write(wire.Compact(text))
}

// challenge is the WWW-Authenticate of a refusal (RFC 6750 §3): without a token
// it carries no error code.
func challenge(refusal *fault.Error) string {
	code := "invalid_token"
	switch refusal.Reason {
	case "TOKEN_MISSING":
		return `Bearer realm="writ"`
	case "TOKEN_REPEATED":
		code = "invalid_request"
	}
	return `Bearer realm="writ", error="` + code + `", error_description="` + refusal.Message + `"`
}

// faultOf returns err as a refusal: what decodes requests has its own, and a body may
// end before its end.
func faultOf(err error) *fault.Error {
	if refusal, ok := errors.AsType[*fault.Error](err); ok {
		return refusal
	}
	if refusal, ok := errors.AsType[*wire.Refusal](err); ok {
		return fault.Invalid(refusal.Reason, refusal.Field, "%s", plainText(refusal.Description))
	}
	return fault.New(fault.InvalidArgument, "MALFORMED_REQUEST", "%s", plainText(err.Error()))
}

// noise is what protobuf puts before its messages; the spaces in it vary on
// purpose.
var noise = regexp.MustCompile(`^(proto:|[\s\p{Zs}]|syntax error|\(line \d+:\d+\):|cannot parse invalid wire-format data:?)+`)

// plainText returns the text of a decoding error without the library's prefixes.
func plainText(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if short := noise.ReplaceAllString(text, ""); short != "" {
		return short
	}
	return "it is not a valid message"
}
