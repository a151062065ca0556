package outgoing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Limits of what is posted (SEC-254).
const (
	// MaxAnswer is how long an answer may be.
	MaxAnswer    = 4 << 20
	maxRedirects = 5
	// Of answers longer than shortAnswer so many are in memory at a time, of one tenant so
	// many of these, and so many more wait. The rest of one arrives in so much time.
	shortAnswer = 256 << 10
	longAtOnce  = 12
	longOfOne   = 3
	longWaiting = 100
	longTime    = 10 * time.Second
	// maxPools is how many addresses connections are kept to; those that were used
	// longest ago make room.
	maxPools     = 1000
	idlePerPool  = 32
	idleLifetime = 60 * time.Second
)

// Answer is what came back.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte

	release func()
}

// Release says that the body is used no more: a long one has a place in memory, and others
// wait for it. It can be called again, and on nil.
func (a *Answer) Release() {
	if a != nil && a.release != nil {
		a.release()
		a.release = nil
	}
}

// RetryAfter returns how long the other side asks to be left alone, 0 when it does not. The
// header has seconds or a date.
func (a *Answer) RetryAfter(now time.Time) time.Duration {
	value := a.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(0, date.Sub(now))
	}
	return 0
}

// ErrTooLong is the error of an answer that is longer than anybody needs.
var ErrTooLong = fmt.Errorf("the answer is longer than %d MiB", MaxAnswer>>20)

// Post posts a body and reads the answer, whatever its status is, but keeps no more than
// so many bytes of it; more than 256 KiB until Release. Before a long answer waits for its
// place, yield, if not nil, gives back the places that the caller holds. Connections are kept for the pool of
// that name and used for nothing else; up to its slash it names the tenant. Redirects that keep the method are
// followed, a few of them, and never from https to http; each address is judged like the
// first (SEC-253). 303 and 300 are answers. ctx ends all of it.
func (c *Client) Post(ctx context.Context, pool, address string, header http.Header, body []byte, keep int, yield func()) (*Answer, error) {
	for redirects := 0; ; redirects++ {
		response, err := c.post(ctx, pool, address, header, body)
		if err != nil {
			return nil, err
		}
		switch response.StatusCode {
		case http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		default:
			return c.read(ctx, pool, response, keep, yield)
		}
		next, err := response.Location()
		response.Body.Close()
		switch {
		case err != nil:
			return nil, errors.New("the answer is a redirect to nowhere")
		case redirects == maxRedirects:
			return nil, errors.New("there are too many redirects")
		case response.Request.URL.Scheme == "https" && next.Scheme != "https":
			return nil, errors.New("the answer is a redirect from https to http")
		}
		address = next.String()
	}
}

// PostOnce is Post without redirects: they are answers. It is for what holds credentials,
// which go where they are meant to go and nowhere else.
func (c *Client) PostOnce(ctx context.Context, pool, address string, header http.Header, body []byte, keep int) (*Answer, error) {
	response, err := c.post(ctx, pool, address, header, body)
	if err != nil {
		return nil, err
	}
	return c.read(ctx, pool, response, keep, nil)
}

func (c *Client) post(ctx context.Context, pool, address string, header http.Header, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if err := check(request.URL); err != nil {
		return nil, err
	}
	request.Header = header
	response, err := observed{c, c.pool(pool)}.RoundTrip(request)
	if err != nil {
		return nil, plain(err)
	}
	return response, nil
}

// read reads an answer to its end, which is an error if that is too far.
func (c *Client) read(ctx context.Context, pool string, response *http.Response, keep int, yield func()) (*Answer, error) {
	defer response.Body.Close()
	answer := &Answer{Status: response.StatusCode, Header: response.Header}
	body := io.LimitReader(response.Body, MaxAnswer+1)
	keep = min(keep, MaxAnswer)
	var err error
	answer.Body, err = io.ReadAll(io.LimitReader(body, int64(min(keep, shortAnswer))))
	if err == nil && len(answer.Body) == shortAnswer && keep > shortAnswer {
		tenant, _, _ := strings.Cut(pool, "/")
		if err := c.placeOfLong(ctx, tenant, yield); err != nil {
			return answer, err
		}
		answer.release = func() { c.long.Leave(tenant) }
		late := time.AfterFunc(longTime, func() { response.Body.Close() })
		defer late.Stop()
		var rest []byte
		rest, err = io.ReadAll(io.LimitReader(body, int64(keep-shortAnswer)))
		answer.Body = append(answer.Body, rest...)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, body) // so that the connection can be used again
	}
	if end, ok := body.(*io.LimitedReader); err == nil && ok && end.N <= 0 {
		err = ErrTooLong
	}
	if err != nil {
		answer.Release()
		if len(answer.Body) > shortAnswer {
			answer.Body = bytes.Clone(answer.Body[:shortAnswer])
		}
	}
	return answer, plain(err)
}

// placeOfLong takes a place among the long answers.
func (c *Client) placeOfLong(ctx context.Context, tenant string, yield func()) error {
	if c.long.Try(tenant) {
		return nil
	}
	if yield != nil {
		yield()
	}
	return c.long.Enter(ctx, tenant)
}

// plain returns why a call failed without the addresses that the names of its URL lead to:
// tenants would learn from them what is around the node (SEC-259).
func plain(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrForbidden) {
		return ErrForbidden
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return errors.New("the host is not found")
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok && failed.Op == "dial" {
		return fmt.Errorf("no connection: %w", reason(failed))
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("the connection broke: %w", reason(failed))
	}
	return err
}

// reason is the innermost error, which names no address.
func reason(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// pools are connections that are kept, by the name of what they are for.
type pools struct {
	mu  sync.Mutex
	all map[string]*pool
}

type pool struct {
	*http.Transport
	used time.Time
}

// pool returns the connections of a name.
func (c *Client) pool(name string) *http.Transport {
	c.pools.mu.Lock()
	defer c.pools.mu.Unlock()
	now := time.Now()
	if kept, ok := c.pools.all[name]; ok {
		kept.used = now
		return kept.Transport
	}
	if len(c.pools.all) >= maxPools {
		c.pools.makeRoom(now)
	}
	if c.pools.all == nil {
		c.pools.all = map[string]*pool{}
	}
	made := &pool{c.transport(), now}
	c.pools.all[name] = made
	return made.Transport
}

// makeRoom forgets what has no connection left, or else the pool that was used longest
// ago. Calls under way go on; their connections end when they were idle for long.
func (p *pools) makeRoom(now time.Time) {
	oldest, before := "", len(p.all)
	for name, kept := range p.all {
		if now.Sub(kept.used) > idleLifetime {
			kept.CloseIdleConnections()
			delete(p.all, name)
		} else if oldest == "" || kept.used.Before(p.all[oldest].used) {
			oldest = name
		}
	}
	if len(p.all) == before {
		p.all[oldest].CloseIdleConnections()
		delete(p.all, oldest)
	}
}

// transport makes connections that are kept for a while.
func (c *Client) transport() *http.Transport {
	return &http.Transport{
		DialContext:            c.dial,
		TLSHandshakeTimeout:    connectTimeout,
		MaxResponseHeaderBytes: headerLimit,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           idlePerPool,
		MaxIdleConnsPerHost:    idlePerPool,
		IdleConnTimeout:        idleLifetime,
		Proxy:                  nil, // the environment's is not meant for tenants
		TLSClientConfig:        c.tls,
	}
}
