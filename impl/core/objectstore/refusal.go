package objectstore

import (
	"context"
	"errors"
	"net/http"
	"regexp"

	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/outgoing"
)

var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$`)

// invalid refuses a member of a place by itself.
func (p *Place) invalid(member, format string, args ...any) *fault.Error {
	return p.refuse(fault.InvalidArgument, "STORAGE_INVALID", member, format, args...)
}

// refuse blames a member of a place.
func (p *Place) refuse(kind fault.Kind, reason, member, format string, args ...any) *fault.Error {
	if p.Field != "" {
		member = p.Field + "." + member
	}
	refusal := fault.Invalid(reason, member, format, args...)
	refusal.Kind = kind
	return refusal
}

// The refusals that all storages have.

func (p *Place) unauthenticated(member string) *fault.Error {
	return p.refuse(fault.FailedPrecondition, "STORAGE_CREDENTIALS", member, "the storage does not take these credentials")
}

func (p *Place) denied(member string) *fault.Error {
	return p.refuse(fault.FailedPrecondition, "STORAGE_DENIED", member, "these credentials do not permit it: an export needs to create objects in the bucket, an import to read them")
}

func (p *Place) noBucket() *fault.Error {
	return p.refuse(fault.FailedPrecondition, "STORAGE_BUCKET_NOT_FOUND", "bucket", "there is no such bucket")
}

func (p *Place) noObject() *fault.Error {
	return p.refuse(fault.FailedPrecondition, "STORAGE_OBJECT_NOT_FOUND", "path", "there is no such object, or no such bucket")
}

func (p *Place) changed() *fault.Error {
	return p.refuse(fault.FailedPrecondition, "STORAGE_OBJECT_CHANGED", "path", "the object changed while it was read")
}

// failed says what an error without a word of the storage means; who is the member that says
// which address was called.
func (p *Place) failed(err error, who string) error {
	if refusal, ok := errors.AsType[*fault.Error](err); ok {
		return refusal
	}
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return innermost(err)
	case errors.Is(err, outgoing.ErrForbidden):
		return p.refuse(fault.FailedPrecondition, "STORAGE_ADDRESS_FORBIDDEN", who, "%v", outgoing.ErrForbidden)
	}
	return unavailable(innermost(err))
}

func unavailable(cause error) *fault.Error {
	return fault.New(fault.Unavailable, "STORAGE_UNAVAILABLE", "the storage does not answer as it should; try again later").Because(cause)
}

// status says what a status means that has no other word beside it.
func (p *Place) status(status int, who string) error {
	switch {
	case status == http.StatusUnauthorized:
		return p.unauthenticated(who)
	case status == http.StatusForbidden:
		return p.denied(who)
	case status == http.StatusPreconditionFailed:
		return p.changed()
	case status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout:
		return unavailable(errors.New(http.StatusText(status)))
	}
	return p.refuse(fault.FailedPrecondition, "STORAGE_REFUSED", "bucket", "the storage refuses the request with the status %d", status)
}

// innermost is what an error is about, without the addresses around it: that of an upload under
// way is as good as a credential.
func innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
