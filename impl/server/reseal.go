package server

import (
	"context"

	"github.com/writ-id/writ/impl/api/action"
	"github.com/writ-id/writ/impl/api/authenticator"
	"github.com/writ-id/writ/impl/api/provider"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/signing"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/token"
)

// Sealed is a kind of secrets that the master key seals.
type Sealed struct {
	Columns []string // table.column
	What    string   // for people
	// Reseal seals all of them anew, by the key that seals now, and returns how many. It
	// may run while nodes do, and again after a failure.
	Reseal func(context.Context, *store.DB, secret.Sealer) (int, error)
}

// SealedColumns are all there are: what is missing here is lost with the old key.
func SealedColumns() []Sealed {
	return []Sealed{
		{[]string{"authenticators.secret"}, "secrets of authenticators", authenticator.Reseal},
		{[]string{
			"smtp_providers.password", "smtp_providers.client_secret", "smtp_providers.signing_key", "smtp_providers.old_signing_key",
			"sms_providers.token", "sms_providers.signing_key", "sms_providers.old_signing_key",
		}, "secrets of SMTP and SMS providers", provider.Reseal},
		{[]string{"signing_keys.private_key"}, "signing keys", signing.Reseal},
		{[]string{"targets.signing_key", "targets.old_signing_key"}, "signing keys of targets", action.Reseal},
		{[]string{"token_keys.secret"}, "token keys", token.Reseal},
	}
}
