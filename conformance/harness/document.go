package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

// Document is the contract that a server publishes.
type Document struct {
	*openapi3.T
	router routers.Router
}

// Document reads the contract of s.
func (s *Server) Document(t testing.TB) *Document {
	t.Helper()
	return s.read(t, "/openapi.json")
}

// Development reads the document of what only development has.
func (s *Server) Development(t testing.TB) *Document {
	t.Helper()
	return s.read(t, "/_dev/openapi.json")
}

func (s *Server) read(t testing.TB, path string) *Document {
	t.Helper()
	document, err := s.document(t.Context(), path)
	if err != nil {
		t.Fatalf("read the published document: %v", err)
	}
	return document
}

func (s *Server) document(ctx context.Context, path string) (*Document, error) {
	from, err := url.Parse(s.Issuer + path)
	if err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromURI(from)
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(ctx); err != nil {
		return nil, err
	}
	router, err := gorillamux.NewRouter(doc)
	return &Document{doc, router}, err
}

// Transport returns a RoundTripper over base that holds every exchange against
// the document: a request or an answer that it does not allow is an error, and
// so is a status that it does not state.
func (d *Document) Transport(base http.RoundTripper) http.RoundTripper {
	return transport{d, base}
}

type wrongOnPurpose struct{}

// WrongOnPurpose returns a context whose requests may break the document. Their
// answers may not.
func WrongOnPurpose(ctx context.Context) context.Context {
	return context.WithValue(ctx, wrongOnPurpose{}, true)
}

type transport struct {
	document *Document
	base     http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	wrong, _ := r.Context().Value(wrongOnPurpose{}).(bool)
	input := &openapi3filter.RequestValidationInput{Request: r, Options: &openapi3filter.Options{
		IncludeResponseStatus: true, MultiError: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, SkipSettingDefaults: true,
	}}
	route, params, err := t.document.router.FindRoute(r)
	switch {
	case err == nil:
		input.Route, input.PathParams = route, params
	case !wrong:
		return nil, fmt.Errorf("%s %s is not in the published document: %w", r.Method, r.URL.Path, err)
	}
	if !wrong {
		body, err := readAll(r)
		if err != nil {
			return nil, err
		}
		if err := openapi3filter.ValidateRequest(r.Context(), input); err != nil {
			return nil, fmt.Errorf("the published document refuses the request: %w\n%s", err, body)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	response, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if err := t.document.checkResponse(r.Context(), input, response); err != nil {
		response.Body.Close()
		return nil, fmt.Errorf("the published document does not allow the answer to %s %s: %w", r.Method, r.URL.Path, err)
	}
	return response, nil
}

func readAll(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, errors.Join(err, r.Body.Close())
}

// checkResponse checks an answer, and puts its body back.
func (d *Document) checkResponse(ctx context.Context, request *openapi3filter.RequestValidationInput, response *http.Response) error {
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	check := func() error {
		if request.Route == nil { // no operation: the answer is a refusal all the same
			return d.checkRefusal(response, body)
		}
		input := &openapi3filter.ResponseValidationInput{
			RequestValidationInput: request, Status: response.StatusCode, Header: response.Header, Options: request.Options,
		}
		return openapi3filter.ValidateResponse(ctx, input.SetBodyBytes(body))
	}
	if err := check(); err != nil {
		return fmt.Errorf("%w\n%s\n%s", err, response.Status, body)
	}
	return nil
}

// checkRefusal checks that an answer is an error body.
func (d *Document) checkRefusal(response *http.Response, body []byte) error {
	if response.StatusCode < 400 {
		return errors.New("there is no such operation, but it succeeded")
	}
	if got, want := response.Header.Get("Content-Type"), "application/json"; got != want {
		return fmt.Errorf("got content type %q, want %q", got, want)
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return err
	}
	return d.Components.Schemas["Status"].Value.VisitJSON(value)
}
