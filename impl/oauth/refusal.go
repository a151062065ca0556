package oauth

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/writ-id/writ/gen/oauth"
	"github.com/writ-id/writ/impl/fault"
	"github.com/writ-id/writ/impl/form"
	"github.com/writ-id/writ/impl/policy"
	"github.com/writ-id/writ/impl/store"
)

// Refusal is an error of OAuth (RFC 6749, sections 4.1.2.1 and 5.2). Descriptions
// are plain ASCII without quotes and backslashes, and quote nothing of a request.
type Refusal struct {
	Code        string
	Description string
	Status      int
}

// Error implements error.
func (r *Refusal) Error() string { return r.Code + ": " + r.Description }

func refuse(code oauth.OAuthErrorError, format string, args ...any) *Refusal {
	return &Refusal{string(code), fmt.Sprintf(format, args...), http.StatusBadRequest}
}

func invalidRequest(format string, args ...any) *Refusal {
	return refuse(oauth.InvalidRequest, format, args...)
}

func invalidGrant(format string, args ...any) *Refusal {
	return refuse(oauth.InvalidGrant, format, args...)
}

func invalidScope(format string, args ...any) *Refusal {
	return refuse(oauth.InvalidScope, format, args...)
}

func unauthorizedClient(format string, args ...any) *Refusal {
	return refuse(oauth.UnauthorizedClient, format, args...)
}

// errClient is the one answer to all ways in which a client can fail to
// authenticate (SEC-116).
var errClient = refuse(oauth.InvalidClient, "the client is unknown, or its authentication failed")

// featureOff is what a feature that is off looks like here (SEC-100).
func featureOff(err error) error {
	if isOff(err) {
		return refuse(oauth.UnsupportedGrantType, "the grant type is switched off")
	}
	return err
}

// isOff reports whether an error says that a feature is off.
func isOff(err error) bool {
	off, ok := errors.AsType[*fault.Error](err)
	return ok && off.Kind == fault.FailedPrecondition
}

// RefuseRequest answers a request that is not looked at.
func (s *Server) RefuseRequest(w http.ResponseWriter, r *http.Request, err error) {
	c := &call{Server: s, w: w, r: r}
	if r.URL.Path == authorizePath || r.URL.Path == endSessionPath {
		c.errorPage(err)
		return
	}
	c.fail(err)
}

// RefuseMethod answers a request whose method an endpoint does not have.
func (s *Server) RefuseMethod(w http.ResponseWriter, r *http.Request, allowed string) {
	w.Header().Set("Allow", allowed)
	policy.RequestFrom(r.Context()).Reason = "METHOD_NOT_ALLOWED"
	c := &call{Server: s, w: w, r: r}
	c.answer(http.StatusMethodNotAllowed, &oauth.OAuthError{Error: oauth.InvalidRequest, ErrorDescription: r.Method + " is not allowed here, only " + allowed})
}

// refusalOf returns what a client may see of an error. The access line of the request
// tells it too, with what was noted on the way.
func (s *Server) refusalOf(r *http.Request, err error) *Refusal {
	refusal, request := s.translate(r, err), policy.RequestFrom(r.Context())
	if request.Reason != "" {
		request.Reason = "; " + request.Reason
	}
	request.Reason = refusal.Error() + request.Reason
	return refusal
}

// note adds to the access line what the client is not told. It quotes nothing of the
// request, which may hold a secret where none belongs.
func (c *call) note(format string, args ...any) {
	request := policy.RequestFrom(c.ctx())
	if request.Reason != "" {
		request.Reason += "; "
	}
	request.Reason += fmt.Sprintf(format, args...)
}

// from notes the client that a request comes from: then what was wrong with it as
// another kind of client is no matter.
func (c *call) from(client string) {
	request := policy.RequestFrom(c.ctx())
	request.Client, request.Reason = client, ""
}

// translate returns what a client may see of an error, and logs what it may not.
func (s *Server) translate(r *http.Request, err error) *Refusal {
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
		return invalidRequest("%s", wrong.Error())
	}
	if errors.Is(err, form.ErrTooLarge) {
		return &Refusal{string(oauth.InvalidRequest), err.Error(), http.StatusRequestEntityTooLarge}
	}
	outage, overload := store.Fault(err), false
	if outage == nil {
		outage, _ = errors.AsType[*fault.Error](err)
		overload = outage != nil && outage.Kind == fault.Unavailable
	}
	if outage != nil && outage.Kind == fault.InvalidArgument {
		return invalidRequest("a text holds a character that cannot be stored")
	}
	if outage == nil || outage.Kind != fault.Canceled && !overload {
		s.Logger.ErrorContext(r.Context(), "request failed", "path", r.URL.Path, "request_id", policy.RequestFrom(r.Context()).ID, "err", store.Explain(err))
	}
	if outage != nil && (outage.Kind == fault.Unavailable || outage.Kind == fault.Canceled) {
		return &Refusal{string(oauth.TemporarilyUnavailable), "the service cannot answer at the moment", http.StatusServiceUnavailable}
	}
	return &Refusal{string(oauth.ServerError), "an unexpected condition", http.StatusInternalServerError}
}

// fail answers with an error as token-style endpoints do.
func (c *call) fail(err error) {
	refusal := c.refusalOf(c.r, err)
	status := refusal.Status
	header := c.w.Header()
	if refusal.Code == string(oauth.InvalidClient) && (c.basic || status == http.StatusUnauthorized) {
		status = http.StatusUnauthorized
		header.Set("WWW-Authenticate", `Basic realm="`+c.issuer+`", charset="UTF-8"`)
	}
	if status == http.StatusServiceUnavailable {
		header.Set("Retry-After", "1")
	}
	c.answer(status, &oauth.OAuthError{Error: oauth.OAuthErrorError(refusal.Code), ErrorDescription: refusal.Description})
}

// answer writes a JSON body that nobody may keep (RFC 6749, section 5.1).
func (c *call) answer(status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		text, status = []byte(`{"error":"server_error"}`), http.StatusInternalServerError
	}
	c.answerText(status, text)
}

func (c *call) answerText(status int, text []byte) {
	header := c.w.Header()
	header["Content-Type"] = jsonType
	header["Cache-Control"] = noStore
	header["Pragma"] = noCache
	c.w.WriteHeader(status)
	_, _ = c.w.Write(text)
}

var (
	jsonType = []string{"application/json"}
	noStore  = []string{"no-store"}
	noCache  = []string{"no-cache"}
)
