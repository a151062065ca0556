package token

import (
	"context"

	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/ledger"
)

// doubt has a code or refresh token looked at again, by itself, when an outage kept that from
// being done: it may have been the second use, of which a thief would be glad that nobody
// noticed (SEC-033, SEC-092). An outage is when strangers could fill what waits, so only what
// opens as ours is kept of a request, and who asks for it: whoever did not get as far as to be
// authenticated, is then.
func (e *Endpoint) doubt(x *request, err error) {
	if refusal := store.Fault(err); refusal == nil || refusal.Kind != fault.Unavailable {
		return
	}
	use, clientID := e.used(x)
	if clientID == "" {
		return
	}
	at, kind := x.at, x.kind
	if x.client != nil {
		if x.client.ClientID == clientID {
			e.Ledger.Doubt(at, use, nil, nil)
		}
		return
	}
	shown, ok := x.shown.Kept()
	if !ok {
		return
	}
	e.Ledger.Doubt(at, use, shown, func(ctx context.Context) error {
		of, err := e.Proves.Authenticate(ctx, at, shown, kind.methods)
		if err == nil && of.ClientID != clientID {
			err = endpoint.ErrClient
		}
		return err
	})
}

// used returns which use a request makes of a code or refresh token of ours, and of which
// client that is; "" when it makes none that could be the second.
func (e *Endpoint) used(x *request) (use ledger.Use, clientID string) {
	if x.kind == nil {
		return use, ""
	}
	switch x.kind.name {
	case codeType:
		if code := e.Issuer.KnownCode(x.at, x.form.Code); code != nil && x.at.Now.Unix() < code.GetExpiresAt() {
			return ledger.Use{GrantID: code.GetId()}, code.GetClientId()
		}
	case refreshType:
		if t := e.Issuer.KnownRefresh(x.at, x.form.RefreshToken); t != nil {
			return ledger.Use{GrantID: t.GetGrantId(), Generation: t.GetGeneration()}, t.GetClientId()
		}
	}
	return use, ""
}
