package store

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"github.com/writ-id/writ/impl/core/admission"
	"github.com/writ-id/writ/impl/core/fault"
)

// Fault translates an error of the database to a refusal, or nil if err is not
// one that a client can do something about. An outage is Unavailable, never a
// "no": what cannot be read is not granted and not denied (REL-006).
func Fault(err error) *fault.Error {
	if _, connecting := errors.AsType[*pgconn.ConnectError](err); connecting {
		return outage(err) // whatever the server said, there is no connection
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case refused.Code == "22021" || refused.Code == "22P05":
			return fault.New(fault.InvalidArgument, "INVALID_TEXT", "a text holds a character that cannot be stored").Because(err)
		case refused.Code == frozen:
			return fault.New(fault.Unavailable, "INSTANCE_MOVING", "the instance is being moved to another database; try again").Because(err)
		case unavailable(refused.Code):
			return outage(err)
		}
		return nil
	}
	var netErr net.Error
	switch {
	case errors.Is(err, admission.ErrFull):
		return fault.New(fault.Unavailable, "OVERLOADED", "too many searches at once; try again").Because(err)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.As(err, &netErr), errors.Is(err, context.DeadlineExceeded):
		return outage(err)
	case errors.Is(err, context.Canceled):
		return fault.New(fault.Canceled, "CANCELED", "the call was canceled").Because(err)
	case errors.Is(err, pgconn.ErrConnClosed), errors.Is(err, puddle.ErrClosedPool):
		return outage(err)
	}
	return nil
}

// frozen is the SQLSTATE of what is refused while an instance moves (frozen() of sql/migrations).
const frozen = "57W01"

// IsFrozen reports whether err is that of a write to an instance that is being moved: asked
// for by its operator, and no failure.
func IsFrozen(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refused.Code == frozen
}

func outage(err error) *fault.Error {
	return fault.New(fault.Unavailable, "DATABASE_UNAVAILABLE", "the service cannot reach its data at the moment; try again").Because(err)
}

// unavailable lists the SQLSTATEs of an outage, an overload or a conflict that
// outlasted its retries.
func unavailable(code string) bool {
	switch code {
	case "40001", "40P01", "55P03", "57014", "25006", "25P03":
		return true
	}
	switch code[:2] {
	case "08", "53", "57", "58":
		return true
	}
	return false
}
