package secret

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/writ-id/writ/impl/core/admission"
	"github.com/writ-id/writ/impl/core/fault"
)

// Hashing is slow on purpose, so it is what would fall first under load
// (SEC-183): of one instance as many run at once as there are cores, some wait for a
// moment, the others are refused. There are more places for the other instances. The
// limit is one of the process, whoever hashes.
var work = admission.New(runtime.GOMAXPROCS(0)+max(1, runtime.GOMAXPROCS(0)/3), maxWaiting)

const (
	maxWaiting = 64
	maxWait    = 2 * time.Second
)

// Work runs something as heavy as hashing a password when there is a place for
// it, shared among tenants (package admission). A caller that goes
// away keeps its place until it is done.
func Work(ctx context.Context, tenant string, do func()) error {
	overloaded := fault.New(fault.Unavailable, "OVERLOADED", "too many passwords are being checked at once; try again")
	ctx, cancel := context.WithTimeoutCause(ctx, maxWait, overloaded)
	defer cancel()
	if err := work.Enter(ctx, tenant); errors.Is(err, admission.ErrFull) {
		return overloaded
	} else if err != nil {
		return err
	}
	defer work.Leave(tenant)
	do()
	return nil
}

// Refused is how many there was no place for.
func Refused() int64 { return work.Refused() }

// New returns the hash of a new password, made within the limit.
func (h Hasher) New(ctx context.Context, tenant, password string) (string, error) {
	var hash string
	err := Work(ctx, tenant, func() { hash = h.Hash(password) })
	return hash, err
}

// nothing is what is verified when there is no password anywhere.
var nothing, nothingCheap = sync.OnceValue(func() string { return Hasher{}.Hash(Random()) }), sync.OnceValue(func() string { return Cheap.Hash(Random()) })

// Verify reports, within the limit, whether password made hash, and whether the
// hash is to be replaced by a new one. For a user without a password, or for no
// user at all, hash is that of somebody else, or "" when there is none, and nobody
// says that it matches: that takes as long as a wrong password (SEC-170).
func (h Hasher) Verify(ctx context.Context, tenant, hash, password string, exists bool) (matches, rehash bool, err error) {
	if hash == "" {
		if hash, exists = nothing(), false; h.cheap {
			hash = nothingCheap()
		}
	}
	stored, err := ParseHash(hash)
	if err != nil {
		return false, false, err
	}
	if err := Work(ctx, tenant, func() { matches = stored.Matches(password) }); err != nil {
		return false, false, err
	}
	return matches && exists, matches && exists && h.replaces(stored), nil
}
