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
	"maps"
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
	Details []json.RawMessage
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
	return page, s.Call(ctx, http.MethodPost, "/resources/v3alpha/events/_search?"+query.Encode(), q.Filters, page)
}

// Call makes a REST call; body nil is none.
func (s *Server) Call(ctx context.Context, method, path string, body, into any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	res, err := s.Stream(ctx, method, path, nil, content)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return &Refused{Status: res.StatusCode, Message: "no answer of this API: " + err.Error()}
	}
	return nil
}

// Stream makes a REST call that may last, until ctx ends it, and returns an answer that is no
// refusal. Its body is the caller's to close.
func (s *Server) Stream(ctx context.Context, method, path string, header http.Header, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, body)
	if err != nil {
		return nil, &Refused{Message: err.Error()}
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Authorization", "Bearer "+s.Token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := s.HTTP.Do(req)
	if err != nil || res.StatusCode/100 == 2 {
		return res, err
	}
	defer res.Body.Close()
	refusal := &Refused{Status: res.StatusCode, Message: http.StatusText(res.StatusCode)}
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxRefusal))
	if err != nil {
		return nil, err
	}
	var status struct {
		Message string
		Details []json.RawMessage
	}
	if json.Unmarshal(answer, &status) == nil && status.Message != "" {
		refusal.Message, refusal.Details = status.Message, status.Details
	}
	if res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests {
		return nil, errors.New(refusal.Error())
	}
	return nil, refusal
}

// maxRefusal is how much of a refusal is read: it may hold the report of an import.
const maxRefusal = 16 << 20

// timeout of a call: those of the server end sooner.
const timeout = 30 * time.Second

// NewHTTP returns a client for calls, which set how long they last; transport nil is the usual
// one.
func NewHTTP(transport http.RoundTripper) *http.Client { return &http.Client{Transport: transport} }
