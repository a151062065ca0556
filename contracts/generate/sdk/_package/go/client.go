package writ

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Config says which server a [Client] calls, and as whom. What is left empty comes from the
// environment where there is a variable for it; `writ exec` sets them all.
type Config struct {
	// BaseURL is where the server is: $WRIT_BASE_URL, else $OIDC_ISSUER. The host decides which
	// instance is called.
	BaseURL string
	// Credentials get the access tokens: a [Token], [ClientCredentials], a [KeyFile], a
	// [RefreshToken], a [SystemUser] or your own [TokenSource]. Otherwise $WRIT_ADMIN_TOKEN, else the client
	// credentials $CLIENT_ID and $CLIENT_SECRET, else none.
	Credentials TokenSource
	// ClientID and ClientSecret authenticate calls of client.OAuth: $CLIENT_ID and
	// $CLIENT_SECRET.
	ClientID, ClientSecret string

	// HTTPClient sends the requests; http.DefaultClient when nil. Its Transport is the place for
	// tracing (otelhttp), proxies and test doubles.
	HTTPClient *http.Client
	// Timeout bounds a call with all its attempts and waits: a minute when 0, not at all when
	// negative. The deadline of a context that ends sooner holds too.
	Timeout time.Duration
	// Retries are the further attempts after one that failed: 2 when 0, none when negative.
	Retries int
	// Header is sent along with each request.
	Header http.Header

	// OnRequest sees each attempt before it is sent and may change it, say to add a traceparent.
	OnRequest func(*http.Request)
	// OnResponse sees how each attempt ended: with a response, whose body is not to be read, or an
	// error. It is the place to log; requests carry secrets, so log no headers or bodies.
	OnResponse func(*http.Request, *http.Response, error)
}

// Client calls a server. It is safe for concurrent use.
type Client struct {
	services

	config Config
	base   string
	tokens *tokens
}

// New returns a client. It calls nobody yet.
func New(config Config) (*Client, error) {
	config.BaseURL = cmp.Or(config.BaseURL, os.Getenv("WRIT_BASE_URL"), os.Getenv("OIDC_ISSUER"))
	if config.BaseURL == "" {
		return nil, fmt.Errorf("writ: BaseURL is missing: say where the server is, or set WRIT_BASE_URL")
	}
	if base, err := url.Parse(config.BaseURL); err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
		return nil, fmt.Errorf("writ: BaseURL %q is not an absolute http or https URL", config.BaseURL)
	}
	id, secret := os.Getenv("CLIENT_ID"), os.Getenv("CLIENT_SECRET")
	if config.Credentials == nil {
		if token := os.Getenv("WRIT_ADMIN_TOKEN"); token != "" {
			config.Credentials = Token(token)
		} else if id != "" && secret != "" {
			config.Credentials = &ClientCredentials{ID: id, Secret: secret}
		}
	}
	if config.ClientID == "" {
		config.ClientID, config.ClientSecret = id, secret
	}
	if config.HTTPClient == nil {
		config.HTTPClient = http.DefaultClient
	}
	if config.Timeout == 0 {
		config.Timeout = time.Minute
	}
	if config.Retries == 0 {
		config.Retries = 2
	}
	c := &Client{config: config, base: strings.TrimRight(config.BaseURL, "/")}
	c.services = newServices(c)
	if config.Credentials != nil {
		c.tokens = &tokens{source: config.Credentials, client: c}
	}
	return c, nil
}

// BaseURL is where the server is.
func (c *Client) BaseURL() string { return c.base }

// CallOption is told to a single call, after what is in its path and its body: how to make
// it ([Timeout], [Retries], …), and the parameters of its query (&[SearchUsersParams]{Asc: true}).
// Of two that say the same the later one holds.
type CallOption interface{ apply(*settings) }

type option func(*settings)

func (o option) apply(s *settings) { o(s) }

type settings struct {
	params     []param
	paramsOf   string // the type that they came in
	timeout    time.Duration
	retries    int
	header     http.Header
	repeatable bool
	id, secret string
	answer     *Answer
}

// Timeout bounds the call with all its attempts and waits.
func Timeout(limit time.Duration) CallOption { return option(func(s *settings) { s.timeout = limit }) }

// Retries says how many further attempts there may be; 0 is none.
func Retries(n int) CallOption { return option(func(s *settings) { s.retries = n }) }

// Header is sent along.
func Header(name, value string) CallOption {
	return option(func(s *settings) { s.header.Set(name, value) })
}

// Repeatable says that the call may be repeated when its answer was lost, although it may
// have happened: otherwise only reads, PUT and DELETE are.
func Repeatable() CallOption { return option(func(s *settings) { s.repeatable = true }) }

// AsClient authenticates a call of client.OAuth. A public client has no secret.
func AsClient(id, secret string) CallOption {
	return option(func(s *settings) { s.id, s.secret = id, secret })
}

// Answer is what a call was answered with.
type Answer struct {
	Status int
	Header http.Header
	// Body is what was received, with what this package does not know.
	Body []byte
}

// Into keeps the answer of a call.
func Into(answer *Answer) CallOption { return option(func(s *settings) { s.answer = answer }) }
