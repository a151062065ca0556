package outgoing

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
)

// HTTP returns a client for libraries that want one. It goes the one road: connections
// are kept for the pool of that name, a redirect is an answer (SEC-253), and of a body
// there are so many bytes at most; one that is longer is an error (SEC-254).
func (c *Client) HTTP(pool string, most int64) *http.Client {
	return &http.Client{
		Timeout:       callTimeout,
		Transport:     c.road(pool, most),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Own returns a client for what lasts longer than a call, as the transfer of a file does: only
// the context ends it. Its connections are nobody else's, until its CloseIdleConnections.
func (c *Client) Own(most int64) *http.Client {
	return &http.Client{
		Transport:     &road{c, c.transport(), most},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Fetch gets a document with headers by HTTP, and reads it whatever its status is.
func (c *Client) Fetch(ctx context.Context, pool, address string, header http.Header, most int64) (*Answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	if header != nil {
		request.Header = header
	}
	response, err := c.road(pool, most).RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return &Answer{Status: response.StatusCode, Header: response.Header, Body: body}, plain(err)
}

// road is the transport of HTTP.
type road struct {
	client *Client
	over   *http.Transport
	most   int64
}

func (c *Client) road(pool string, most int64) *road { return &road{c, c.pool(pool), most} }

// CloseIdleConnections ends the connections that no call is using.
func (r *road) CloseIdleConnections() { r.over.CloseIdleConnections() }

// RoundTrip implements http.RoundTripper.
func (r *road) RoundTrip(request *http.Request) (*http.Response, error) {
	if len(r.client.Origins) > 0 {
		at, err := url.Parse(r.client.Origin(request.URL.String()))
		if err != nil {
			return nil, err
		}
		request = request.Clone(request.Context())
		request.URL, request.Host = at, at.Host
	}
	if err := check(request.URL); err != nil {
		if request.Body != nil {
			request.Body.Close()
		}
		return nil, err
	}
	response, err := observed{r.client, r.over}.RoundTrip(request)
	if err != nil {
		return nil, plain(err)
	}
	response.Body = &bounded{response.Body, r.most}
	return response, nil
}

var errBody = errors.New("the answer is too long")

// bounded is a body that ends with an error when it is too long.
type bounded struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *bounded) Read(into []byte) (int, error) {
	if int64(len(into)) > b.left+1 {
		into = into[:b.left+1]
	}
	n, err := b.ReadCloser.Read(into)
	if b.left -= int64(n); b.left < 0 {
		return n, errBody
	}
	return n, err
}
