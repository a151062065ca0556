package server

import (
	"context"

	"github.com/writ-id/writ/impl/api/action"
	"github.com/writ-id/writ/impl/api/authenticator"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/signing"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/token"
)

// Sealed is a column of secrets that the master key seals.
type Sealed struct {
	Column string // table.column
	What   string // for people
	// Reseal seals all of them anew, by the key that seals now, and returns how many. It
	// may run while nodes do, and again after a failure.
	Reseal func(context.Context, *store.DB, secret.Sealer) (int, error)
}

// SealedColumns are all there are: what is missing here is lost with the old key.
func SealedColumns() []Sealed {
	return []Sealed{
		{"authenticators.secret", "secrets of authenticators", authenticator.Reseal},
		{"signing_keys.private_key", "signing keys", signing.Reseal},
		{"targets.signing_key", "signing keys of targets", action.Reseal},
		{"targets.old_signing_key", "those that still sign beside a new one", with("targets.signing_key")},
		{"token_keys.secret", "token keys", token.Reseal},
	}
}

// with is what there is to do for a column that is sealed anew with another one.
func with(string) func(context.Context, *store.DB, secret.Sealer) (int, error) {
	return func(context.Context, *store.DB, secret.Sealer) (int, error) { return 0, nil }
}
