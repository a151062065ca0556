package login

import (
	"net/http"
	"net/http/httptest"

	"google.golang.org/protobuf/types/known/durationpb"

	sessionv3 "github.com/writ-id/writ/gen/proto/writ/session/v3alpha"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
)

// SignInAs returns the cookies of a browser in which the user of that name has just typed their
// password, or says what keeps them from signing in by it alone. Only development calls it.
func (p *Pages) SignInAs(r *http.Request, instance *policy.Instance, name string) ([]*http.Cookie, error) {
	v := &visit{Pages: p, r: r, instance: instance, flow: &tokenv1.Flow{}}
	found, err := resolve(v, canonicalName(name))
	if err != nil {
		return nil, err
	}
	if found.ID == "" {
		return nil, fault.Invalid("USER_UNKNOWN", "user", "nobody signs in as %q here, or several people would", name)
	}
	idle, err := p.idle(r.Context(), instance.ID, found.OrgID)
	if err != nil {
		return nil, err
	}
	ctx := p.as(r.Context(), instance, found.OrgID, found.ID)
	created, err := p.Sessions.CreateProven(ctx, &sessionv3.Session{
		Checks:   &sessionv3.Checks{User: &sessionv3.CheckUser{Search: &sessionv3.CheckUser_UserId{UserId: found.ID}}},
		Lifetime: durationpb.New(idle),
	})
	if err != nil {
		return nil, err
	}
	session, err := p.read(r.Context(), instance.ID, []string{created.GetSessionToken()})
	if err != nil {
		return nil, err
	}
	now := p.Now()
	switch {
	case len(session) == 0 || !session[0].IsActive:
		return nil, fault.New(fault.FailedPrecondition, "USER_INACTIVE", "%q may not sign in: the user or their organization is not active", name)
	case session[0].mustChange(now):
		return nil, fault.New(fault.FailedPrecondition, "PASSWORD_CHANGE_REQUIRED", "%q has to change the password first, on the pages or by SetPassword without change_required", name)
	case !session[0].hasFactor(now):
		return nil, fault.New(fault.FailedPrecondition, "SECOND_FACTOR_REQUIRED", "%q has second factors, which the pages ask for; sign in there, or as a user without", name)
	}
	cookies, kept := readCookies(r, p.secure(r)), httptest.NewRecorder()
	cookies.put(created.GetSessionToken(), "")
	cookies.keep(kept)
	cookies.rebind(kept)
	return kept.Result().Cookies(), nil
}
