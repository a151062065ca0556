// Package fault holds the kinds of refusal the API knows and their one
// translation to gRPC codes and HTTP statuses. Handlers name a kind and a
// reason, never a status.
//
// A refusal is a google.rpc.Status with ErrorInfo (a stable reason in
// UPPER_SNAKE and the domain "writ") and, for bad input, BadRequest with one
// violation for each field. Any other error becomes "internal error" at the
// edge; its text never reaches a client.
package fault

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Domain is the ErrorInfo domain of every refusal.
const Domain = "writ"

// Kind is a kind of refusal.
type Kind int

// The kinds of refusal.
const (
	Internal             Kind = iota // a defect or an unforeseen failure
	InvalidArgument                  // the input is wrong by itself
	FailedPrecondition               // the input is fine but not in this state
	Unauthenticated                  // no token, or not a good one
	PermissionDenied                 // a good token without the permission
	NotFound                         // what the request names does not exist
	AlreadyExists                    // a name that must be unique is taken
	Unavailable                      // overload or an outage; try again later
	Canceled                         // the caller went away
	UnknownPath                      // no operation at this path
	MethodNotAllowed                 // no operation with this HTTP method
	UnsupportedMediaType             // the body is of another type
	TooLarge                         // the body is too long
	Blocked                          // the instance is switched off by its operator
	Busy                             // the caller has its share of something; try again later
	TooSlow                          // the request did not arrive in time
	OutOfRange                       // the file does not have the bytes
	Refused                          // a target of the tenant refuses, with a status of its own
)

var kinds = [...]struct {
	grpc codes.Code
	http int
}{
	Internal:             {codes.Internal, http.StatusInternalServerError},
	InvalidArgument:      {codes.InvalidArgument, http.StatusBadRequest},
	FailedPrecondition:   {codes.FailedPrecondition, http.StatusBadRequest},
	Unauthenticated:      {codes.Unauthenticated, http.StatusUnauthorized},
	PermissionDenied:     {codes.PermissionDenied, http.StatusForbidden},
	NotFound:             {codes.NotFound, http.StatusNotFound},
	AlreadyExists:        {codes.AlreadyExists, http.StatusConflict},
	Unavailable:          {codes.Unavailable, http.StatusServiceUnavailable},
	Canceled:             {codes.Canceled, 499},
	UnknownPath:          {codes.NotFound, http.StatusNotFound},
	MethodNotAllowed:     {codes.Unimplemented, http.StatusMethodNotAllowed},
	UnsupportedMediaType: {codes.InvalidArgument, http.StatusUnsupportedMediaType},
	TooLarge:             {codes.ResourceExhausted, http.StatusRequestEntityTooLarge},
	Blocked:              {codes.ResourceExhausted, http.StatusTooManyRequests},
	Busy:                 {codes.ResourceExhausted, http.StatusTooManyRequests},
	TooSlow:              {codes.DeadlineExceeded, http.StatusRequestTimeout},
	OutOfRange:           {codes.OutOfRange, http.StatusRequestedRangeNotSatisfiable},
	Refused:              {codes.FailedPrecondition, http.StatusBadRequest}, // see Forwarded
}

// RetryAfter is what a client is told to wait after an Unavailable.
const RetryAfter = time.Second

// Error is a refusal.
type Error struct {
	Kind    Kind
	Reason  string // UPPER_SNAKE, stable
	Message string
	Fields  []Violation
	Detail  proto.Message // something more to know, if there is
	Wait    time.Duration // what a client is told to wait after an Unavailable; 0 is RetryAfter
	status  int           // of Refused
	cause   error         // for the log only
}

// Violation says what is wrong with one field of the request.
type Violation struct {
	Field       string // a path in lowerCamelCase, for example target.restWebhook.url
	Description string
}

// New returns a refusal; reason is stable, UPPER_SNAKE.
func New(kind Kind, reason, format string, args ...any) *Error {
	return &Error{Kind: kind, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Invalid returns an InvalidArgument that blames one field.
func Invalid(reason, field, format string, args ...any) *Error {
	description := fmt.Sprintf(format, args...)
	message := description
	if field != "" {
		message = field + ": " + description
	}
	return &Error{Kind: InvalidArgument, Reason: reason, Message: message, Fields: []Violation{{field, description}}}
}

// On returns e with a violation of field by e's own message. As with Because, e stays
// what it is: refusals that are always the same are shared.
func (e *Error) On(field string) *Error {
	on := *e
	on.Fields = append(slices.Clip(e.Fields), Violation{field, e.Message})
	return &on
}

// After returns e with the time that a client is told to wait.
func (e *Error) After(wait time.Duration) *Error {
	after := *e
	after.Wait = wait
	return &after
}

// Retry returns what a client is told to wait after an Unavailable or a Busy.
func (e *Error) Retry() time.Duration { return cmp.Or(e.Wait, RetryAfter) }

// Telling returns e with a message that says more.
func (e *Error) Telling(detail proto.Message) *Error {
	telling := *e
	telling.Detail = detail
	return &telling
}

// Within returns e with the paths of fields below the one that has them all.
func (e *Error) Within(field string) *Error {
	within := *e
	within.Fields = slices.Clone(e.Fields)
	for i := range within.Fields {
		violation := &within.Fields[i]
		path := strings.TrimSuffix(field+"."+violation.Field, ".")
		if after, named := strings.CutPrefix(within.Message, violation.Field+": "); named && violation.Field != "" {
			within.Message = path + ": " + after
		} else if i == 0 {
			within.Message = path + ": " + within.Message
		}
		violation.Field = path
	}
	if len(e.Fields) == 0 {
		within.Fields, within.Message = []Violation{{field, e.Message}}, field+": "+e.Message
	}
	return &within
}

// Below returns e with the paths of fields as they are from field on: of a request's
// field that is the whole body, clients know only what is in it. Field itself is
// called whole.
func (e *Error) Below(field, whole string) *Error {
	if field == "" || len(e.Fields) == 0 {
		return e
	}
	below := *e
	below.Fields = slices.Clone(e.Fields)
	for i := range below.Fields {
		violation := &below.Fields[i]
		rest, found := strings.CutPrefix(violation.Field, field)
		switch {
		case !found || rest != "" && rest[0] != '.' && rest[0] != '[':
			continue
		case rest == "":
			rest = whole
		}
		rest = strings.TrimPrefix(rest, ".")
		if after, named := strings.CutPrefix(below.Message, violation.Field+": "); named {
			below.Message = rest + ": " + after
		}
		violation.Field = rest
	}
	return &below
}

// Because returns e with a cause, which only the log sees.
func (e *Error) Because(cause error) *Error {
	because := *e
	because.cause = cause
	return &because
}

// Error implements error.
func (e *Error) Error() string {
	if e.cause != nil {
		return e.Reason + ": " + e.Message + ": " + e.cause.Error()
	}
	return e.Reason + ": " + e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// Forwarded returns the refusal of a target of the tenant, with an HTTP status of 400 to
// 499 and a message of its own.
func Forwarded(status int, message string) *Error {
	message = valid(message)
	if len(message) > maxForwarded {
		message = strings.ToValidUTF8(message[:maxForwarded], "")
	}
	if message == "" {
		message = "an execution refuses the call"
	}
	return &Error{Kind: Refused, Reason: "EXECUTION_REFUSED", Message: message, status: status}
}

// maxForwarded bounds the message of a Forwarded, in bytes: gRPC sends it as a header.
const maxForwarded = 1000

// HTTP returns the HTTP status of e.
func (e *Error) HTTP() int {
	if e.status != 0 {
		return e.status
	}
	return kinds[e.Kind].http
}

// code returns the gRPC code of e: of a status of somebody else's, that of the kind of
// refusal which has it too.
func (e *Error) code() codes.Code {
	if e.status == 0 {
		return kinds[e.Kind].grpc
	}
	for _, kind := range kinds {
		if kind.http == e.status && e.status != http.StatusBadRequest {
			return kind.grpc
		}
	}
	return kinds[e.Kind].grpc
}

// GRPCStatus returns e as it goes over the wire; grpc-go calls it.
func (e *Error) GRPCStatus() *status.Status {
	s := status.New(e.code(), valid(e.Message))
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: e.Reason, Domain: Domain}}
	if len(e.Fields) > 0 {
		bad := &errdetails.BadRequest{}
		for _, field := range e.Fields {
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
				Field: valid(field.Field), Description: valid(field.Description),
			})
		}
		details = append(details, bad)
	}
	if e.Kind == Unavailable || e.Kind == Busy {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.Retry())})
	}
	if e.Detail != nil {
		details = append(details, protoadapt.MessageV1Of(e.Detail))
	}
	if with, err := s.WithDetails(details...); err == nil {
		return with
	}
	return s
}

// valid makes what a refusal quotes of its request fit for the wire.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
