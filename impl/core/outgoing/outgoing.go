// Package outgoing makes the calls to addresses that tenants choose: webhook
// targets, domain validation, notification hooks, mail servers. There is one client for all of
// them (SEC-250), and it decides by the address it really dials (SEC-251): what
// is not a public address is refused unless the operator allows it (SEC-252).
package outgoing

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/writ-id/writ/impl/core/admission"
)

// Loopback are the networks of this machine, which only development may reach.
var Loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// Config says what may be called; the zero Config is the default: public
// addresses, by the system's resolver.
type Config struct {
	// Allow lists networks (CIDR) that are reached although they are not public.
	Allow []netip.Prefix
	// Resolver is the host:port of a DNS server; "" is the system's.
	Resolver string
	// Ports maps ports to others, for tests whose servers cannot have port 80.
	Ports map[string]string
	// Roots are whom the certificates of servers have to be from; nil is the system's.
	Roots *x509.CertPool
	// Observe, if not nil, hears of each request that leaves, which it may add to, and of
	// what came of it.
	Observe func(*http.Request) (*http.Request, func(*http.Response, error))
	// Origins maps origins to those that stand in for them, for tests of what always
	// calls the same server of somebody else.
	Origins map[string]string
}

// Origin returns an address at the origin that stands in for its own, if one does.
func (c *Client) Origin(address string) string {
	for origin, to := range c.Origins {
		if rest, ok := strings.CutPrefix(address, origin+"/"); ok {
			return to + "/" + rest
		}
	}
	return address
}

// Limits of one call (SEC-254).
const (
	connectTimeout = 5 * time.Second
	callTimeout    = 5 * time.Minute // the context may say less
	headerLimit    = 64 << 10
	maxBody        = 1 << 20
)

// Client calls out. It is safe for concurrent use.
type Client struct {
	Config
	resolver *net.Resolver
	dialer   *net.Dialer
	http     *http.Client // of single calls
	pools    pools
	long     *admission.Gate // long answers
	tls      *tls.Config     // nil is the default
}

// ErrForbidden is the error of an address that must not be called. It does not
// say which one it was (SEC-259).
var ErrForbidden = errors.New("the address is not public")

// New returns a client over c.
func New(c Config) *Client {
	client := &Client{Config: c, resolver: &net.Resolver{}, long: admission.NewShares(longAtOnce, longOfOne, longWaiting)}
	if c.Resolver != "" {
		client.resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: connectTimeout}).DialContext(ctx, network, c.Resolver)
		}}
	}
	client.dialer = &net.Dialer{Timeout: connectTimeout, Resolver: client.resolver, Control: client.control}
	if c.Roots != nil {
		client.tls = &tls.Config{RootCAs: c.Roots, MinVersion: tls.VersionTLS12}
	}
	transport := client.transport()
	transport.DisableKeepAlives = true // no connection is shared between tenants
	client.http = &http.Client{
		Timeout:   callTimeout,
		Transport: observed{client, transport},
		// A redirect is an answer, not an order (SEC-253).
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return client
}

// observed is a transport whose requests are heard of.
type observed struct {
	client *Client
	over   *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (o observed) RoundTrip(request *http.Request) (*http.Response, error) {
	if o.client.Observe == nil {
		return o.over.RoundTrip(request)
	}
	request, done := o.client.Observe(request)
	response, err := o.over.RoundTrip(request)
	done(response, err)
	return response, err
}

func (c *Client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return c.dialer.DialContext(ctx, network, c.mapped(address))
}

func (c *Client) mapped(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if to := c.Ports[port]; to != "" {
		return net.JoinHostPort(host, to)
	}
	return address
}

// control refuses a connection by the address it goes to, after resolution.
func (c *Client) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !c.allowed(at.Addr()) {
		return ErrForbidden
	}
	return nil
}

func (c *Client) allowed(at netip.Addr) bool {
	at = at.WithZone("").Unmap()
	if slices.ContainsFunc(c.Allow, func(network netip.Prefix) bool { return network.Contains(at) }) {
		return true
	}
	if at.Is6() && !unicast.Contains(at) || own(at) {
		return false
	}
	return at.IsGlobalUnicast() && !at.IsPrivate() && !slices.ContainsFunc(reserved, func(network netip.Prefix) bool { return network.Contains(at) })
}

// unicast is all of IPv6 that is given out; whatever else there is, it is not a
// public address, and some of it holds IPv4 addresses.
var unicast = netip.MustParsePrefix("2000::/3")

// own reports whether an address is one of this host's: what listens here is meant
// for others, or not for anybody.
func own(at netip.Addr) bool {
	addresses, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(addresses, func(one net.Addr) bool {
		local, err := netip.ParsePrefix(one.String())
		return err == nil && local.Addr().Unmap() == at
	})
}

// reserved are the networks that look public to package netip but are not, or
// that hold an IPv4 address (IANA special-purpose registries).
var reserved = func() []netip.Prefix {
	var list []netip.Prefix
	for _, network := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "240.0.0.0/4", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
	} {
		list = append(list, netip.MustParsePrefix(network))
	}
	return list
}()

// TXT returns the TXT records of a name.
func (c *Client) TXT(ctx context.Context, name string) ([]string, error) {
	return c.resolver.LookupTXT(ctx, strings.TrimSuffix(name, ".")+".")
}

// Get returns the body of a 200 answer to a GET, if it has at most maxBody bytes.
func (c *Client) Get(ctx context.Context, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	if err := check(request.URL); err != nil {
		return nil, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer has the status %d", response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = errors.New("the answer is too long")
	}
	return body, err
}

// check refuses URLs that no call may have (SEC-253).
func check(at *url.URL) error {
	switch {
	case at.Scheme != "http" && at.Scheme != "https":
		return errors.New("only http and https are called")
	case at.User != nil:
		return errors.New("a URL must not hold credentials")
	case at.Hostname() == "":
		return errors.New("the URL has no host")
	case at.Port() != "":
		// Below 1024 are services that were never meant to get HTTP.
		if port, err := strconv.Atoi(at.Port()); err != nil || port != 80 && port != 443 && (port < 1024 || port > 65535) {
			return errors.New("only the ports 80, 443 and those from 1024 are called")
		}
	}
	return nil
}
