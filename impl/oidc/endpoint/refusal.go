package endpoint

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/writ-id/writ/gen/oauth"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/oidc/form"
)

// Refusal is an error of OAuth (RFC 6749, sections 4.1.2.1 and 5.2), with a code of the
// contract. Descriptions are plain ASCII without quotes and backslashes, and quote
// nothing of a request.
type Refusal struct {
	Code        oauth.OAuthErrorError
	Description string
	Status      int
}

// Error implements error.
func (r *Refusal) Error() string { return string(r.Code) + ": " + r.Description }

// Refuse returns a refusal with status 400.
func Refuse(code oauth.OAuthErrorError, format string, args ...any) *Refusal {
	return &Refusal{code, fmt.Sprintf(format, args...), http.StatusBadRequest}
}

// InvalidRequest is Refuse for what a request lacks or has too much of.
func InvalidRequest(format string, args ...any) *Refusal {
	return Refuse(oauth.InvalidRequest, format, args...)
}

// InvalidGrant is Refuse for a grant that is not good.
func InvalidGrant(format string, args ...any) *Refusal {
	return Refuse(oauth.InvalidGrant, format, args...)
}

// InvalidScope is Refuse for scopes that cannot be granted.
func InvalidScope(format string, args ...any) *Refusal {
	return Refuse(oauth.InvalidScope, format, args...)
}

// UnauthorizedClient is Refuse for a client that may not do this.
func UnauthorizedClient(format string, args ...any) *Refusal {
	return Refuse(oauth.UnauthorizedClient, format, args...)
}

// ErrClient is the one answer to all ways in which a client can fail to authenticate
// (SEC-116).
var ErrClient = Refuse(oauth.InvalidClient, "the client is unknown, or its authentication failed")

// OrElse is err, or when there is none another one.
func OrElse(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// RefusalOf returns what a client may see of an error. The access line of the request
// tells it too, with what was noted on the way.
func (e *Env) RefusalOf(r *http.Request, err error) *Refusal {
	refusal, request := e.translate(r, err), policy.RequestFrom(r.Context())
	if request.Reason != "" {
		request.Reason = "; " + request.Reason
	}
	request.Reason = refusal.Error() + request.Reason
	return refusal
}

// translate returns what a client may see of an error, and logs what it may not.
func (e *Env) translate(r *http.Request, err error) *Refusal {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { // something failed beside the refusal: that is the answer
		for _, one := range joined.Unwrap() {
			if _, ok := errors.AsType[*Refusal](one); !ok {
				err = one
				break
			}
		}
	}
	if known, ok := errors.AsType[*Refusal](err); ok {
		return known
	}
	if wrong, ok := errors.AsType[*form.Error](err); ok {
		return InvalidRequest("%s", wrong.Error())
	}
	if errors.Is(err, form.ErrTooLarge) {
		return &Refusal{oauth.InvalidRequest, err.Error(), http.StatusRequestEntityTooLarge}
	}
	outage, overload := store.Fault(err), store.IsFrozen(err)
	if outage == nil {
		outage, _ = errors.AsType[*fault.Error](err)
		overload = outage != nil && outage.Kind == fault.Unavailable
	}
	if outage != nil && outage.Kind == fault.InvalidArgument {
		return InvalidRequest("a text holds a character that cannot be stored")
	}
	if outage == nil || outage.Kind != fault.Canceled && !overload {
		e.Logger.ErrorContext(r.Context(), "request failed", "path", r.URL.Path, policy.LogID(r.Context()), "err", store.Explain(err))
	}
	if outage != nil && (outage.Kind == fault.Unavailable || outage.Kind == fault.Canceled) {
		return &Refusal{oauth.TemporarilyUnavailable, "the service cannot answer at the moment", http.StatusServiceUnavailable}
	}
	return &Refusal{oauth.ServerError, "an unexpected condition", http.StatusInternalServerError}
}
