package writ

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"
)

type authentication int

const (
	bearerAuth authentication = iota
	clientAuth                // of an OAuth client
	noneAuth
)

// operation is a call as the contract describes it.
type operation struct {
	verb, path string
	args       []string // of the path
	takes      string   // the type of its parameters
	body, form any
	repeatable bool
	auth       authentication
}

type param struct {
	in, name string
	value    any
}

// call performs an operation and decodes its answer.
func call[T any](ctx context.Context, c *Client, o operation, opts []CallOption) (*T, error) {
	s := &settings{timeout: c.config.Timeout, retries: c.config.Retries, header: http.Header{}, id: c.config.ClientID, secret: c.config.ClientSecret}
	for _, option := range opts {
		if option != nil {
			option.apply(s)
		}
	}
	if s.paramsOf != "" && s.paramsOf != o.takes {
		return nil, fmt.Errorf("writ: %s %s takes no %s", o.verb, o.path, s.paramsOf)
	}
	if s.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.timeout)
		defer cancel()
	}
	answer, err := c.send(ctx, o, s)
	if err != nil {
		return nil, err
	}
	if s.answer != nil {
		*s.answer = *answer
	}
	reply := new(T)
	if len(answer.Body) == 0 {
		return reply, nil
	}
	if err := json.Unmarshal(answer.Body, reply); err != nil {
		return nil, fmt.Errorf("writ: %s %s answered what is not of the contract: %w", o.verb, o.path, err)
	}
	return reply, nil
}

// send makes attempts until one is answered for good.
func (c *Client) send(ctx context.Context, o operation, s *settings) (*Answer, error) {
	var refreshed bool
	for attempt := 0; ; attempt++ {
		answer, token, err := c.attempt(ctx, o, s)
		if err == nil && answer.Status < 300 {
			return answer, nil
		}
		if err == nil {
			err = refusal(answer)
		}
		if answer != nil && answer.Status == http.StatusUnauthorized && o.auth == bearerAuth && !refreshed && c.tokens.drop(token) {
			refreshed = true // the token was revoked: the next one is asked for, once
			attempt--
			continue
		}
		if attempt >= s.retries || ctx.Err() != nil || !again(answer, err, o.repeatable || s.repeatable) {
			return nil, err
		}
		wait, bearable := pause(attempt, answer)
		if deadline, ok := ctx.Deadline(); !bearable || ok && time.Until(deadline) < wait {
			return nil, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("writ: %s %s: %w", o.verb, o.path, context.Cause(ctx))
		case <-timer.C:
		}
	}
}

// again says whether another attempt may help, and cannot do twice what should be done once.
func again(answer *Answer, err error, repeatable bool) bool {
	if answer == nil {
		var dial *net.OpError
		unsent := errors.As(err, &dial) && dial.Op == "dial"
		var lost *ConnectionError
		return errors.As(err, &lost) && (unsent || repeatable)
	}
	switch answer.Status {
	case http.StatusTooManyRequests: // refused before anything was done
		return true
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return repeatable
	}
	return false
}

// What is waited between attempts, and at most when the server says how long.
const (
	firstPause = 500 * time.Millisecond
	mostPause  = 8 * time.Second
	mostAsked  = time.Minute
)

// pause is how long to wait: what Retry-After says, else a part of ever longer times.
func pause(attempt int, answer *Answer) (wait time.Duration, bearable bool) {
	if answer != nil {
		if asked, ok := retryAfter(answer.Header); ok {
			return asked, asked <= mostAsked
		}
	}
	most := min(firstPause<<min(attempt, 10), mostPause)
	return most/2 + rand.N(most/2+1), true
}

func retryAfter(header http.Header) (time.Duration, bool) {
	text := header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil && seconds >= 0 {
		return time.Duration(seconds) * time.Second, true
	}
	if date, err := http.ParseTime(text); err == nil {
		return max(time.Until(date), 0), true
	}
	return 0, false
}

// attempt sends a request once, and returns the token that it was sent with.
func (c *Client) attempt(ctx context.Context, o operation, s *settings) (*Answer, string, error) {
	request, err := c.request(ctx, o, s)
	if err != nil {
		return nil, "", err
	}
	token := ""
	switch {
	case o.auth == bearerAuth && c.tokens != nil && request.Header.Get("Authorization") == "":
		if token, err = c.tokens.get(ctx); err != nil {
			return nil, "", err
		}
		request.Header.Set("Authorization", "Bearer "+token)
	case o.auth == clientAuth && s.id != "" && s.secret != "" && request.Header.Get("Authorization") == "":
		request.SetBasicAuth(url.QueryEscape(s.id), url.QueryEscape(s.secret))
	}
	if c.config.OnRequest != nil {
		c.config.OnRequest(request)
	}
	response, err := c.config.HTTPClient.Do(request)
	if c.config.OnResponse != nil {
		c.config.OnResponse(request, response, err)
	}
	if err == nil {
		defer response.Body.Close()
		answer := &Answer{Status: response.StatusCode, Header: response.Header}
		if answer.Body, err = io.ReadAll(response.Body); err == nil {
			return answer, token, nil
		}
	}
	if ctx.Err() != nil {
		return nil, "", fmt.Errorf("writ: %s %s: %w", o.verb, o.path, context.Cause(ctx))
	}
	return nil, "", &ConnectionError{err}
}

// request makes the request of an operation.
func (c *Client) request(ctx context.Context, o operation, s *settings) (*http.Request, error) {
	path := o.path
	for _, arg := range o.args {
		if arg == "" || arg == "." || arg == ".." {
			return nil, fmt.Errorf("writ: %s %s: %q is not an ID", o.verb, o.path, arg)
		}
		start, end := strings.Index(path, "{"), strings.Index(path, "}")
		path = path[:start] + strings.ReplaceAll(strings.ReplaceAll(url.PathEscape(arg), "{", "%7B"), "}", "%7D") + path[end+1:]
	}
	query, header := url.Values{}, c.config.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	for _, p := range s.params {
		if text := p.text(); text != "" && p.in == "header" {
			header.Set(p.name, text)
		} else if text != "" {
			query.Set(p.name, text)
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	var sent []byte
	if o.form != nil {
		form := formOf(o.form)
		if s.id != "" && s.secret == "" && form.Get("client_id") == "" {
			form.Set("client_id", s.id)
		}
		sent = []byte(form.Encode())
		header.Set("Content-Type", "application/x-www-form-urlencoded")
	} else if o.body != nil && !reflect.ValueOf(o.body).IsZero() {
		var err error
		if sent, err = json.Marshal(o.body); err != nil {
			return nil, fmt.Errorf("writ: %s %s: %w", o.verb, o.path, err)
		}
		header.Set("Content-Type", "application/json")
	}
	request, err := http.NewRequestWithContext(ctx, o.verb, c.base+path, bytes.NewReader(sent))
	if err != nil {
		return nil, fmt.Errorf("writ: %w", err)
	}
	if len(sent) == 0 {
		request.Body, request.GetBody, request.ContentLength = nil, nil, 0
	}
	header.Set("Accept", "application/json")
	if header.Get("User-Agent") == "" {
		header.Set("User-Agent", "writ-sdk-go/"+Version)
	}
	for name, values := range s.header {
		header[name] = values
	}
	request.Header = header
	return request, nil
}

// text is a parameter as it is sent; what is zero is left out.
func (p param) text() string {
	value := reflect.ValueOf(p.value)
	if value.IsZero() {
		return ""
	}
	return fmt.Sprint(reflect.Indirect(value).Interface())
}

// formOf is a message as a form.
func formOf(message any) url.Values {
	form := url.Values{}
	value := reflect.Indirect(reflect.ValueOf(message))
	for i := range value.NumField() {
		name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
		field := reflect.Indirect(value.Field(i))
		if !field.IsValid() || field.IsZero() {
			continue
		}
		if field.Kind() != reflect.Slice {
			form.Set(name, fmt.Sprint(field.Interface()))
			continue
		}
		for j := range field.Len() {
			form.Add(name, fmt.Sprint(field.Index(j).Interface()))
		}
	}
	return form
}

// asynchronous is a request of what then goes on by itself.
func asynchronous[T any](request T) *T {
	yes := true
	reflect.ValueOf(&request).Elem().FieldByName("Async").Set(reflect.ValueOf(&yes))
	return &request
}
