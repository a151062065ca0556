package oauth

import (
	"context"
	"slices"

	"github.com/writ-id/writ/impl/policy"
)

// Caller returns the user of an access token that is for the resource API: one whose
// audience names it (SEC-122). It is nil when the token is not good.
func (s *Server) Caller(ctx context.Context, instance *policy.Instance, host, text string) (*policy.Identity, error) {
	c := &call{Server: s, context: ctx, instance: instance, issuer: s.Issuer(host, instance), now: s.Now()}
	t, err := c.readAccess(text)
	if err != nil || t == nil || !slices.Contains(t.GetAudience(), Platform) {
		return nil, err
	}
	found, err := c.stateOf(t, aboutToken(t, &scopes{}))
	if err != nil || found == nil {
		return nil, err
	}
	within := ""
	if t.GetAppId() != "" {
		of, err := c.client(t.GetClientId())
		if err != nil || of == nil {
			return nil, err
		}
		if !of.Trusted {
			within = of.OrgID
		}
	}
	return &policy.Identity{Within: within, UserID: found.ID, OrgID: found.OrgID, Expires: unix(t.GetExpiresAt()), Acting: len(t.GetActor()) > 0}, nil
}
