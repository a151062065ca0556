package writ

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Code is the kind of a refusal, a google.rpc.Code.
type Code int

// The codes of refusals.
const (
	Canceled           Code = 1
	Unknown            Code = 2
	InvalidArgument    Code = 3
	DeadlineExceeded   Code = 4
	NotFound           Code = 5
	AlreadyExists      Code = 6
	PermissionDenied   Code = 7
	ResourceExhausted  Code = 8
	FailedPrecondition Code = 9
	Aborted            Code = 10
	OutOfRange         Code = 11
	Unimplemented      Code = 12
	Internal           Code = 13
	Unavailable        Code = 14
	DataLoss           Code = 15
	Unauthenticated    Code = 16
)

var codeNames = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
	"FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

func (c Code) String() string {
	if c < 0 || int(c) >= len(codeNames) {
		return fmt.Sprintf("CODE_%d", int(c))
	}
	return codeNames[c]
}

// codeOf is the code of an answer that says none, as one of a proxy.
func codeOf(status int) Code {
	switch status {
	case http.StatusBadRequest:
		return InvalidArgument
	case http.StatusUnauthorized:
		return Unauthenticated
	case http.StatusForbidden:
		return PermissionDenied
	case http.StatusNotFound:
		return NotFound
	case http.StatusConflict:
		return AlreadyExists
	case http.StatusTooManyRequests:
		return ResourceExhausted
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return Unavailable
	}
	if status >= http.StatusInternalServerError {
		return Internal
	}
	return Unknown
}

// Error is a refusal of the API.
type Error struct {
	Status  int    // of HTTP; 0 when it came over gRPC
	Code    Code   // the kind of refusal
	Reason  Reason // what programs compare: stable, and empty when not the server answered but a proxy
	Message string // a sentence for developers, which may change
	// Violations are the fields that were refused.
	Violations []Violation
	RequestID  string // finds the call in the logs of the server
	// RetryAfter is how long the server asks to wait.
	RetryAfter time.Duration
	Header     http.Header
	Body       []byte // as it was received
}

// Violation is a field that was refused.
type Violation struct {
	Field       string `json:"field"`
	Description string `json:"description"`
}

func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString("writ: " + e.Code.String())
	if e.Reason != "" {
		text.WriteString(" " + string(e.Reason))
	}
	text.WriteString(": " + e.Message)
	if e.RequestID != "" {
		text.WriteString(" (request " + e.RequestID + ")")
	}
	return text.String()
}

// IsReason says whether err is a refusal for one of these reasons.
func IsReason(err error, reasons ...Reason) bool {
	var refused *Error
	if !errors.As(err, &refused) {
		return false
	}
	for _, reason := range reasons {
		if refused.Reason == reason {
			return true
		}
	}
	return false
}

// IsCode says whether err is a refusal of this kind.
func IsCode(err error, code Code) bool {
	var refused *Error
	return errors.As(err, &refused) && refused.Code == code
}

// OAuthError is a refusal of an OAuth endpoint (RFC 6749, section 5.2).
type OAuthError struct {
	Status      int
	Code        string `json:"error"` // invalid_grant, invalid_client, …
	Description string `json:"error_description"`
	RequestID   string
	RetryAfter  time.Duration
	Header      http.Header
	Body        []byte
}

func (e *OAuthError) Error() string {
	text := "writ: " + e.Code
	if e.Description != "" {
		text += ": " + e.Description
	}
	if e.RequestID != "" {
		text += " (request " + e.RequestID + ")"
	}
	return text
}

// ConnectionError says that there was no answer.
type ConnectionError struct{ Err error }

func (e *ConnectionError) Error() string { return "writ: no answer: " + e.Err.Error() }

func (e *ConnectionError) Unwrap() error { return e.Err }

// refusal is an answer as an error.
func refusal(answer *Answer) error {
	wait, _ := retryAfter(answer.Header)
	id := answer.Header.Get("X-Request-Id")
	oauth := &OAuthError{}
	if json.Unmarshal(answer.Body, oauth) == nil && oauth.Code != "" {
		oauth.Status, oauth.RequestID, oauth.RetryAfter, oauth.Header, oauth.Body = answer.Status, id, wait, answer.Header, answer.Body
		return oauth
	}
	e := &Error{Status: answer.Status, RequestID: id, RetryAfter: wait, Header: answer.Header, Body: answer.Body}
	var status struct {
		Code    Code   `json:"code"`
		Message string `json:"message"`
		Details []struct {
			Reason     Reason      `json:"reason"`
			Violations []Violation `json:"fieldViolations"`
		} `json:"details"`
	}
	if json.Unmarshal(answer.Body, &status) != nil || status.Code == 0 {
		e.Code, e.Message = codeOf(answer.Status), fmt.Sprintf("HTTP %d %s", answer.Status, http.StatusText(answer.Status))
		return e
	}
	e.Code, e.Message = status.Code, status.Message
	for _, detail := range status.Details {
		if detail.Reason != "" {
			e.Reason = detail.Reason
		}
		e.Violations = append(e.Violations, detail.Violations...)
	}
	return e
}
