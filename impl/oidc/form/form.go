// Package form reads queries and form bodies into the request types of the
// contract (contracts/openapi/oauth.yaml), by the one rule of OAuth: a parameter
// may be there once, one without a value is not there, unknown ones are ignored
// (RFC 6749, sections 3.1 and 3.2).
package form

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"
)

// MaxBytes bounds a form: the longest tokens and a state of some KiB fit.
const MaxBytes = 64 << 10

// ErrTooLarge is the answer to a longer one.
var ErrTooLarge = errors.New("the body is too long")

// Error says what is wrong with the parameters of a request. Its text is fit for
// error_description (RFC 6749, section 5.2): it quotes nothing.
type Error struct {
	Parameter string // "" when it is not one parameter
	Problem   string
}

// Error implements error.
func (e *Error) Error() string {
	if e.Parameter == "" {
		return e.Problem
	}
	return e.Parameter + " " + e.Problem
}

// Request is a request type, generated of the contract (gen/oauth/params.go).
type Request interface {
	// Parameter returns where the value of a parameter goes, or a list of them if it may be
	// there more than once; nil for one that it does not have.
	Parameter(name string) (one *string, list *[]string)
}

// Query reads the query of a URL. The parameters that are good are read although others
// are not: the error tells of the first of these.
func Query(raw string, into Request) error {
	var first error
	for raw != "" {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		name, value, _ := strings.Cut(pair, "=")
		if err := set(into, name, value); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func set(into Request, name, value string) error {
	name, err := url.QueryUnescape(name)
	if err != nil {
		return &Error{Problem: "the parameters are not form-encoded"}
	}
	one, list := into.Parameter(name)
	if one == nil && list == nil || value == "" {
		return nil
	}
	if value, err = url.QueryUnescape(value); err != nil {
		return &Error{name, "is not form-encoded"}
	}
	if !utf8.ValidString(value) || strings.IndexByte(value, 0) >= 0 {
		return &Error{name, "is not text"}
	}
	if list != nil {
		*list = append(*list, value)
		return nil
	}
	if *one != "" {
		return &Error{name, "is repeated"}
	}
	*one = value
	return nil
}

// Body reads the form that a POST carries. Its parameters belong in the body:
// those of the type are refused in the URL, where logs see them (SEC-005, SEC-030).
func Body(w http.ResponseWriter, r *http.Request, into Request) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return &Error{Problem: "the body has to be application/x-www-form-urlencoded"}
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBytes))
	if err != nil {
		if _, long := errors.AsType[*http.MaxBytesError](err); long {
			return ErrTooLarge
		}
		return &Error{Problem: "the body cannot be read"}
	}
	err = Query(string(text), into)
	if r.URL.RawQuery != "" {
		for name := range r.URL.Query() {
			if one, list := into.Parameter(name); one != nil || list != nil {
				return &Error{name, "belongs in the body, not in the URL"}
			}
		}
	}
	return err
}
