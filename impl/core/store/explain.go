package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// explained is an error that is told in other words; what it is stays known.
type explained struct {
	error
	text string
}

// Error implements error.
func (e *explained) Error() string { return e.text }

// Unwrap returns the error in its own words.
func (e *explained) Unwrap() error { return e.error }

// Explain tells why there is no connection to the database in one line, with what
// was tried once; any other error is returned as it is. pgx tells of every attempt,
// and makes two of most addresses: with TLS and without.
func Explain(err error) error {
	failed, connecting := errors.AsType[*pgconn.ConnectError](err)
	if !connecting {
		return err
	}
	config := failed.Config
	address := net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
	if filepath.IsAbs(config.Host) {
		address = fmt.Sprintf("the socket %s/.s.PGSQL.%d", config.Host, config.Port)
	}
	return &explained{err, fmt.Sprintf("the database %q at %s cannot be reached: %s", cmp.Or(config.Database, config.User), address, reason(config, err))}
}

// reason returns why a connection failed: what the server answered comes before what
// kept other attempts from getting that far.
func reason(config *pgconn.Config, err error) string {
	if refused, answered := errors.AsType[*pgconn.PgError](err); answered {
		switch refused.Code {
		case "28P01", "28000":
			return fmt.Sprintf("it refuses the user %q or the password", config.User)
		case "3D000":
			return "there is no database of this name"
		case "53300":
			return "it has no connection left"
		case "57P03":
			return "it is starting or stopping"
		}
		return refused.Message
	}
	unknown, isDNS := errors.AsType[*net.DNSError](err)
	var netErr net.Error
	switch {
	case isDNS && unknown.IsNotFound:
		return "no such host is known"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return "nothing listens there"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return "it does not answer in time"
	}
	return innermost(err).Error()
}

// innermost returns the first error that wraps no other.
func innermost(err error) error {
	for {
		switch wrapping := err.(type) { //nolint:errorlint // this is what unwraps
		case interface{ Unwrap() error }:
			if wrapping.Unwrap() == nil {
				return err
			}
			err = wrapping.Unwrap()
		case interface{ Unwrap() []error }:
			err = wrapping.Unwrap()[0]
		default:
			return err
		}
	}
}
