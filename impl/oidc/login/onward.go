package login

import (
	"context"
	"errors"
	"net/http"
	"time"

	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/token"
	"github.com/writ-id/writ/impl/core/upstream"
)

// Onward returns where a browser signs out of the identity provider too that a session was
// begun with; it comes back from there and goes to an address, which the caller has found
// registered, or stays when that is empty. It is "" when there is no such place: a logout
// here does not fail for one elsewhere.
func (p *Pages) Onward(r *http.Request, instance *policy.Instance, session *Session, to string) string {
	ctx, address := r.Context(), ""
	of, err := p.Upstreams.Provider(ctx, instance.ID, session.OrgID, session.IDPID)
	if err == nil && of != nil {
		var state string
		if state, err = p.Box.Seal(ctx, instance.ID, token.SignedOut, &tokenv1.SignedOut{To: to, StartedAt: p.Now().Unix()}); err == nil {
			err = policy.RequestFrom(ctx).Outside(ctx, upstream.Timeout, func(ctx context.Context) (err error) {
				address, err = p.Upstream.EndSession(ctx, of, p.Issuer(r)+pathSignedOut, state)
				return err
			})
		}
	}
	if err != nil {
		p.Logger.WarnContext(ctx, "the logout does not lead on to the identity provider", "idp", session.IDPID, "instance", instance.ID, policy.LogID(ctx), "err", err)
		return ""
	}
	return address
}

// serveSignedOut takes a browser on that comes back from there. What it brings was sealed
// here: it leads nowhere but to where a logout may lead (SEC-130).
func serveSignedOut(v *visit) error {
	out := &tokenv1.SignedOut{}
	if err := v.Box.Open(v.r.Context(), v.instance.ID, token.SignedOut, v.r.URL.Query().Get("state"), out); errors.Is(err, token.ErrInvalid) {
		out.Reset() // it leads nowhere
	} else if err != nil {
		return err
	}
	v.leave()
	if out.GetTo() == "" || v.Now().Sub(time.Unix(out.GetStartedAt(), 0)) >= upstream.Lifetime {
		v.SignedOut(v.w, v.r, v.instance)
		return nil
	}
	v.w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(v.w, v.r, out.GetTo(), http.StatusSeeOther)
	return nil
}
