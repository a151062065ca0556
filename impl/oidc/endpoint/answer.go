package endpoint

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/writ-id/writ/gen/oauth"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/oidc/login/page"
)

// RefuseRequest answers a request that is not looked at.
func (e *Env) RefuseRequest(w http.ResponseWriter, r *http.Request, err error) {
	if r.URL.Path == PathAuthorize || r.URL.Path == PathEndSession {
		e.ErrorPage(w, r, err)
		return
	}
	e.Fail(w, r, Site{}, err)
}

// RefuseMethod answers a request whose method an endpoint does not have.
func (e *Env) RefuseMethod(w http.ResponseWriter, r *http.Request, allowed string) {
	w.Header().Set("Allow", allowed)
	policy.RequestFrom(r.Context()).Reason = "METHOD_NOT_ALLOWED"
	Answer(w, http.StatusMethodNotAllowed, &oauth.OAuthError{Error: oauth.InvalidRequest, ErrorDescription: r.Method + " is not allowed here, only " + allowed})
}

// ErrorPage shows an error to the user: where it would have been sent is not known
// to be the client's (RFC 6749, section 4.1.2.1).
func (e *Env) ErrorPage(w http.ResponseWriter, r *http.Request, err error) {
	refusal := e.RefusalOf(r, err)
	told := page.Problem{Status: refusal.Status, Code: string(refusal.Code), Description: refusal.Description}
	if wrong, ok := errors.AsType[*Unregistered](err); ok && e.Dev {
		told.Received, told.Registered = wrong.Received, wrong.Registered
	}
	e.Pages.Error(w, r, told)
}

// Unregistered is the refusal of an address that a client did not register. In
// development its page shows what came and what is registered.
type Unregistered struct {
	*Refusal
	Received   string
	Registered []string
}

// Unwrap returns the refusal.
func (u *Unregistered) Unwrap() error { return u.Refusal }

// Fail answers with an error as token-style endpoints do. Who tried to authenticate by
// the Authorization header is told how to (RFC 6749, section 5.2).
func (e *Env) Fail(w http.ResponseWriter, r *http.Request, at Site, err error) (code string) {
	refusal := e.RefusalOf(r, err)
	status, header := refusal.Status, w.Header()
	if refusal.Code == oauth.InvalidClient && (len(r.Header["Authorization"]) > 0 || status == http.StatusUnauthorized) {
		status = http.StatusUnauthorized
		header.Set("WWW-Authenticate", `Basic realm="`+at.Issuer+`", charset="UTF-8"`)
	}
	if status == http.StatusServiceUnavailable {
		header.Set("Retry-After", "1")
	}
	Answer(w, status, &oauth.OAuthError{Error: refusal.Code, ErrorDescription: refusal.Description})
	return string(refusal.Code)
}

// Answer writes a JSON body that nobody may keep (RFC 6749, section 5.1).
func Answer(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		text, status = []byte(`{"error":"server_error"}`), http.StatusInternalServerError
	}
	AnswerText(w, status, text)
}

// AnswerText is Answer with a body that is JSON already.
func AnswerText(w http.ResponseWriter, status int, text []byte) {
	header := w.Header()
	header["Content-Type"] = JSONType
	header["Cache-Control"] = NoStore
	header["Pragma"] = noCache
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// Redirect sends the browser away. After a form it is told to use GET (RFC 9700,
// section 4.12).
func Redirect(w http.ResponseWriter, r *http.Request, address string) {
	header := w.Header()
	header["Cache-Control"] = NoStore
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Location", address)
	if r.Method == http.MethodGet {
		w.WriteHeader(http.StatusFound)
	} else {
		w.WriteHeader(http.StatusSeeOther)
	}
}

// Headers that answers share.
var (
	JSONType = []string{"application/json"}
	NoStore  = []string{"no-store"}
	noCache  = []string{"no-cache"}
)
