// Package client is what the commands stand on that call a server: it asks for events,
// follows them over any outage (Follow), and calls a local address with what a target
// would get (Listen). It knows a server by its address and a token, like any client.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Server is where to call.
type Server struct {
	URL   string // without a slash at the end
	Token string
	HTTP  *http.Client
}

// Find says where the server is; it is asked again when a server does not answer any more
// or does not know the token: what runs in development may be another one by then.
type Find func(context.Context) (*Server, error)

// Refused is an answer that trying again does not change.
type Refused struct {
	Status  int
	Message string
}

func (r *Refused) Error() string {
	return fmt.Sprintf("the server answered %d: %s", r.Status, r.Message)
}

// Page is what a search for events answers.
type Page struct {
	Details struct {
		EndOfList                   bool
		Position, ProcessedSequence uint64 `json:",string"`
		InstanceID                  string
	}
	Result []json.RawMessage
}

// Query is what to ask for.
type Query struct {
	Filters []map[string]any // as the contract has them
	After   *uint64
	Limit   int
}

// Events asks for events once.
func (s *Server) Events(ctx context.Context, q Query) (*Page, error) {
	query := url.Values{"query.limit": {strconv.Itoa(q.Limit)}}
	if q.After != nil {
		query.Set("after", strconv.FormatUint(*q.After, 10))
	}
	page := &Page{}
	return page, s.call(ctx, http.MethodPost, "/resources/v3alpha/events/_search?"+query.Encode(), q.Filters, page)
}

// call makes a REST call.
func (s *Server) call(ctx context.Context, method, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, bytes.NewReader(text))
	if err != nil {
		return &Refused{Message: err.Error()}
	}
	req.Header.Set("Authorization", "Bearer "+s.Token)
	req.Header.Set("Content-Type", "application/json")
	res, err := s.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return err
	case res.StatusCode/100 == 2:
		if err := json.Unmarshal(answer, into); err != nil {
			return &Refused{res.StatusCode, "no answer of this API: " + err.Error()}
		}
		return nil
	}
	refusal := &Refused{Status: res.StatusCode, Message: http.StatusText(res.StatusCode)}
	var status struct{ Message string }
	if json.Unmarshal(answer, &status) == nil && status.Message != "" {
		refusal.Message = status.Message
	}
	if res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests {
		return errors.New(refusal.Error())
	}
	return refusal
}

// timeout of a call: those of the server end sooner.
const timeout = 30 * time.Second

// NewHTTP returns a client for calls; transport nil is the usual one.
func NewHTTP(transport http.RoundTripper) *http.Client {
	return &http.Client{Timeout: timeout, Transport: transport}
}
