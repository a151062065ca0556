package login

import (
	"net/http"

	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/oidc/login/flow"
	"github.com/writ-id/writ/impl/oidc/login/step"
)

// SignInAs returns the cookies of a browser in which the user of that name has just typed their
// password, or says what keeps them from signing in by it alone. Only development calls it.
func (p *Pages) SignInAs(r *http.Request, instance *policy.Instance, name string) ([]*http.Cookie, error) {
	ctx, b := r.Context(), p.browser(r, instance)
	found, err := p.steps.Resolve(ctx, flow.New(flow.Asked{}, flow.Proof{}, "", p.Now()), instance.ID, instance.DefaultOrg, step.CanonicalName(name))
	if err != nil {
		return nil, err
	}
	if found.ID == "" {
		return nil, fault.Invalid("USER_UNKNOWN", "user", "nobody signs in as %q here, or several people would", name)
	}
	k, err := b.SignInProven(ctx, found.OrgID, found.ID)
	if err != nil {
		return nil, err
	}
	now := p.Now()
	switch {
	case k == nil || !k.IsActive:
		return nil, fault.New(fault.FailedPrecondition, "USER_INACTIVE", "%q may not sign in: the user or their organization is not active", name)
	case k.MustChange(now):
		return nil, fault.New(fault.FailedPrecondition, "PASSWORD_CHANGE_REQUIRED", "%q has to change the password first, on the pages or by SetPassword without change_required", name)
	case !k.HasFactor(now):
		return nil, fault.New(fault.FailedPrecondition, "SECOND_FACTOR_REQUIRED", "%q has second factors, which the pages ask for; sign in there, or as a user without", name)
	}
	b.Jar.Rebind()
	return b.Jar.Cookies(), nil
}
