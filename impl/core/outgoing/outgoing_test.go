package outgoing_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/writ-id/writ/impl/core/outgoing"
)

// resolver is a DNS server on loopback. addresses returns the answers for a name;
// it is asked for every query.
func resolver(t *testing.T, addresses func(name string) []netip.Addr) string {
	t.Helper()
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buffer := make([]byte, 1500)
		for {
			size, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			var query dnsmessage.Message
			if query.Unpack(buffer[:size]) != nil || len(query.Questions) != 1 {
				continue
			}
			asked := query.Questions[0]
			reply := dnsmessage.Message{Header: dnsmessage.Header{ID: query.ID, Response: true, RecursionAvailable: true}, Questions: query.Questions}
			header := dnsmessage.ResourceHeader{Name: asked.Name, Type: asked.Type, Class: dnsmessage.ClassINET}
			for _, at := range addresses(strings.TrimSuffix(asked.Name.String(), ".")) {
				switch {
				case at.Is4() && asked.Type == dnsmessage.TypeA:
					reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: at.As4()}})
				case at.Is6() && asked.Type == dnsmessage.TypeAAAA:
					reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: at.As16()}})
				}
			}
			packed, _ := reply.Pack()
			_, _ = conn.WriteTo(packed, from)
		}
	}()
	return conn.LocalAddr().String()
}

func always(at ...string) func(string) []netip.Addr {
	var addresses []netip.Addr
	for _, one := range at {
		addresses = append(addresses, netip.MustParseAddr(one))
	}
	return func(string) []netip.Addr { return addresses }
}

// victim is a listener on loopback, on IPv4 and IPv6 where there is one, that
// counts who comes.
type victim struct {
	port string
	seen atomic.Int64
}

func newVictim(t *testing.T) *victim {
	t.Helper()
	v := &victim{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, v.port, _ = net.SplitHostPort(listener.Addr().String())
	listeners := []net.Listener{listener}
	for _, at := range []string{"[::1]", "0.0.0.0"} {
		if more, err := net.Listen("tcp", net.JoinHostPort(strings.Trim(at, "[]"), v.port)); err == nil {
			listeners = append(listeners, more)
		}
	}
	for _, listener := range listeners {
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				v.seen.Add(1)
				_ = conn.Close()
			}
		}()
	}
	return v
}

// forbidden are addresses that no tenant may have us call: as netip reads them.
var forbidden = []string{
	// loopback, unspecified, "this network"
	"127.0.0.1", "127.0.0.2", "127.1.2.3", "127.255.255.254", "0.0.0.0", "0.0.0.1", "0.255.255.255", "::1", "::",
	// private, carrier-grade NAT, benchmarking
	"10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1", "192.168.255.255", "100.64.0.1", "100.127.255.254", "198.18.0.1", "198.19.255.255",
	// link-local, and what clouds keep there and elsewhere
	"169.254.0.1", "169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254", "fe80::1", "fe80::a9fe:a9fe", "febf::1",
	// documentation, protocol assignments, 6to4 relay, multicast, reserved, broadcast
	"192.0.0.1", "192.0.2.1", "198.51.100.1", "203.0.113.1", "192.88.99.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
	// unique local, site-local, multicast, discard, documentation, segment routing
	"fc00::1", "fd00::1", "fdff:ffff::1", "fec0::1", "ff02::1", "ff05::2", "100::1", "2001:db8::1", "3fff::1", "5f00::1",
	// IPv4 within IPv6: mapped, compatible, translated, NAT64, 6to4, Teredo, ORCHID
	"::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:0.0.0.0", "::127.0.0.1", "::10.0.0.1", "::ffff:0:127.0.0.1", "::ffff:0:a00:1",
	"64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1", "2002:7f00:1::", "2002:a00:1::1", "2001:0:7f00:1::", "2001:10::1",
	// what was never given out
	"4000::1", "8000::1", "dead::1",
}

// spellings are other ways to write some of them in a URL.
var spellings = []string{
	"2130706433", "0x7f000001", "0x7F.0.0.1", "017700000001", "0177.0.0.1", "0177.0.0.0x1", "127.1", "127.0.1", "0", "0x0", "00000000", "0.0", "127.0.0.1.", "1.0.0.127.in-addr.arpa",
	"2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518", "425.510.425.510", "3232235521", "10.1", "012.0.0.1",
	"[::1]", "[0:0:0:0:0:0:0:1]", "[::]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]", "[::ffff:127.0.0.1]", "[fe80::1%25lo]", "[fe80::1%25eth0]", "[::1%25lo]", "[64:ff9b::7f00:1]",
	"localhost", "LOCALHOST", "localhost.", "localhost.localdomain", "ip6-localhost", "127。0。0。1", "①②⑦.⓪.⓪.①", "127%2e0%2e0%2e1", "%31%32%37.0.0.1",
}

func isForbidden(err error) bool { return errors.Is(err, outgoing.ErrForbidden) }

// TestSEC252_WhatIsNotPublicIsRefused resolves names to forbidden addresses and
// writes them into URLs.
func TestSEC252_WhatIsNotPublicIsRefused(t *testing.T) {
	t.Parallel()
	if len(forbidden)+len(spellings) < 100 {
		t.Fatal("the table has shrunk")
	}
	v := newVictim(t)
	for _, address := range forbidden {
		at := netip.MustParseAddr(address)
		client := outgoing.New(outgoing.Config{Resolver: resolver(t, func(string) []netip.Addr { return []netip.Addr{at} })})
		for _, url := range []string{"http://name.example:" + v.port, "https://name.example:" + v.port, "http://" + net.JoinHostPort(address, v.port)} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := client.Get(ctx, url); !isForbidden(err) {
				t.Errorf("%s as %s: got %v, want that it is refused", address, url, err)
			}
			cancel()
		}
	}
	// A spelling that is no address is a name; whoever answers for it says loopback.
	client := outgoing.New(outgoing.Config{Resolver: resolver(t, always("127.0.0.1", "::1"))})
	for _, spelling := range spellings {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := client.Get(ctx, "http://"+spelling+":"+v.port); err == nil {
			t.Errorf("%s was called", spelling)
		}
		cancel()
	}
	system := outgoing.New(outgoing.Config{}) // with the resolver of this host
	for _, spelling := range spellings[:23] {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		if _, err := system.Get(ctx, "http://"+spelling+":"+v.port); err == nil {
			t.Errorf("%s was called", spelling)
		}
		cancel()
	}
	if got := v.seen.Load(); got != 0 {
		t.Errorf("the listener on loopback saw %d connections", got)
	}
}

func TestSEC252_WhatListensOnThisHostIsRefused(t *testing.T) {
	t.Parallel()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	v := newVictim(t)
	for _, one := range addresses {
		at := netip.MustParsePrefix(one.String()).Addr()
		if _, err := outgoing.New(outgoing.Config{}).Get(t.Context(), "http://"+net.JoinHostPort(at.String(), v.port)); !isForbidden(err) {
			t.Errorf("%s: got %v", at, err)
		}
	}
	if got := v.seen.Load(); got != 0 {
		t.Errorf("it saw %d connections", got)
	}
}

// TestSEC252_PublicAddressesAreTried shows that the table is no table of all: a
// call to a public address fails otherwise, or not at all.
func TestSEC252_PublicAddressesAreTried(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "192.167.0.1", "2606:4700::1111", "2a00:1450::1"} {
		client := outgoing.New(outgoing.Config{Resolver: resolver(t, always(address))})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := client.Get(ctx, "http://name.example:9999"); isForbidden(err) {
			t.Errorf("%s is refused", address)
		}
		cancel()
	}
}

func TestSEC252_AnExceptionOpensOnlyWhatItNames(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") }))
	defer web.Close()
	_, port, _ := net.SplitHostPort(web.Listener.Addr().String())
	get := func(allow, address string) error {
		client := outgoing.New(outgoing.Config{Allow: []netip.Prefix{netip.MustParsePrefix(allow)}, Resolver: resolver(t, always(address))})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		body, err := client.Get(ctx, "http://name.example:"+port)
		if err == nil && string(body) != "here" {
			t.Errorf("got %q", body)
		}
		return err
	}
	if err := get("127.0.0.1/32", "127.0.0.1"); err != nil {
		t.Errorf("the named one: %v", err)
	}
	if err := get("127.0.0.1/32", "::ffff:127.0.0.1"); err != nil && isForbidden(err) {
		t.Errorf("the named one as IPv6: %v", err)
	}
	for _, other := range []string{"127.0.0.2", "127.0.0.0", "::1", "0.0.0.0", "10.0.0.1", "169.254.169.254"} {
		if err := get("127.0.0.1/32", other); !isForbidden(err) {
			t.Errorf("%s: got %v, want that it stays closed", other, err)
		}
	}
	for _, allow := range []string{"10.0.0.0/8", "::1/128", "fd00::/8"} {
		if err := get(allow, "127.0.0.1"); !isForbidden(err) {
			t.Errorf("with %s allowed: got %v", allow, err)
		}
	}
}

// TestSEC251_ANameThatChangesNeverReachesLoopback asks a resolver that says a
// public address and loopback by turns, or both at once.
func TestSEC251_ANameThatChangesNeverReachesLoopback(t *testing.T) {
	t.Parallel()
	v := newVictim(t)
	var asked atomic.Int64
	public, loopback := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("127.0.0.1")
	// 192.0.2.1 is nobody's; here it is allowed, so that it is tried.
	config := outgoing.Config{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	for name, answers := range map[string]func(string) []netip.Addr{
		"by turns":   func(string) []netip.Addr { return []netip.Addr{[]netip.Addr{public, loopback}[asked.Add(1)%2]} },
		"both":       func(string) []netip.Addr { return []netip.Addr{public, loopback} },
		"both again": func(string) []netip.Addr { return []netip.Addr{loopback, public, netip.MustParseAddr("::1")} },
	} {
		config.Resolver = resolver(t, answers)
		client := outgoing.New(config)
		var calls sync.WaitGroup
		for range 40 {
			calls.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				if _, err := client.Get(ctx, "http://name.example:"+v.port); err == nil {
					t.Errorf("%s: it was called", name)
				}
			})
		}
		calls.Wait()
	}
	if got := v.seen.Load(); got != 0 {
		t.Errorf("the listener on loopback saw %d connections", got)
	}
}

func TestSEC253_OnlyPlainWebAddressesAreCalled(t *testing.T) {
	t.Parallel()
	client := outgoing.New(outgoing.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	v := newVictim(t)
	for _, url := range []string{
		"file:///etc/passwd", "gopher://127.0.0.1:" + v.port + "/_x", "ftp://127.0.0.1:" + v.port, "unix:///var/run/docker.sock", "dict://127.0.0.1:" + v.port,
		"ws://127.0.0.1:" + v.port, "javascript:alert(1)", "data:text/plain,x", "//127.0.0.1:" + v.port, "127.0.0.1:" + v.port, "/path", "",
		"http://user@127.0.0.1:" + v.port, "http://user:password@127.0.0.1:" + v.port, "http://127.0.0.1:" + v.port + "@example.com:" + v.port,
		"http://", "http://:" + v.port, "http:127.0.0.1:" + v.port, "http:///x", "http://a b/", "http://127.0.0.1:" + v.port + "\r\nX: y",
		"http://127.0.0.1:22", "http://127.0.0.1:25", "http://127.0.0.1:0", "http://127.0.0.1:99999", "http://127.0.0.1:-1", "https://127.0.0.1:1023",
	} {
		if _, err := client.Get(t.Context(), url); err == nil {
			t.Errorf("%q was called", url)
		}
	}
	if got := v.seen.Load(); got != 0 {
		t.Errorf("the listener saw %d connections", got)
	}
}

func TestSEC253_RedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 303, 307, 308} {
		var paths []string
		client, base := serve(t, func(w http.ResponseWriter, r *http.Request) {
			paths = append(paths, r.URL.Path)
			http.Redirect(w, r, "/internal", status)
		})
		if _, err := client.Get(t.Context(), base+"/first"); err == nil {
			t.Errorf("%d counts as success", status)
		}
		if len(paths) != 1 {
			t.Errorf("%d: it called %v", status, paths)
		}
	}
}

func TestSEC253_TheProxiesOfTheEnvironmentAreIgnored(t *testing.T) {
	v := newVictim(t)
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
		t.Setenv(name, "http://127.0.0.1:"+v.port)
	}
	// 192.0.2.1 is not called directly either: nobody is there.
	client := outgoing.New(outgoing.Config{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("127.0.0.0/8")}})
	for _, url := range []string{"http://192.0.2.1:8080", "https://192.0.2.1:8443"} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if _, err := client.Get(ctx, url); err == nil {
			t.Errorf("%s was called", url)
		}
		cancel()
	}
	if got := v.seen.Load(); got != 0 {
		t.Errorf("the proxy saw %d connections", got)
	}
}

// serve starts a web server and returns a client that may call it.
func serve(t *testing.T, handle http.HandlerFunc) (*outgoing.Client, string) {
	t.Helper()
	web := httptest.NewServer(handle)
	t.Cleanup(web.Close)
	return local(), web.URL
}

func TestSEC254_EndlessAnswersEndAtTheirLimits(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 64<<10)
	for name, test := range map[string]struct {
		handle http.HandlerFunc
		works  bool
	}{
		"a body of 1 MiB": {func(w http.ResponseWriter, _ *http.Request) {
			for range 16 {
				_, _ = io.WriteString(w, long)
			}
		}, true},
		"a body of a byte more": {func(w http.ResponseWriter, _ *http.Request) {
			for range 16 {
				_, _ = io.WriteString(w, long)
			}
			_, _ = io.WriteString(w, "x")
		}, false},
		"an endless body": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, long)
			}
		}, false},
		"a bomb of gzip": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			packed := gzip.NewWriter(w)
			for range 1000 {
				if _, err := io.WriteString(packed, long); err != nil || r.Context().Err() != nil {
					return
				}
			}
			_ = packed.Close()
		}, false},
		"a huge header": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", long+long) }, false},
		"many headers": {func(w http.ResponseWriter, _ *http.Request) {
			for i := range 5000 {
				w.Header().Set(fmt.Sprint("X-", i), "0123456789")
			}
		}, false},
		"endless early hints": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				w.Header().Set("Link", "</x>")
				w.WriteHeader(http.StatusEarlyHints)
			}
		}, false},
		"a drip": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, "x")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(10 * time.Millisecond)
			}
		}, false},
		"no answer": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, false},
		"an error":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, false},
		"nothing":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, url := serve(t, test.handle)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			body, err := client.Get(ctx, url)
			if (err == nil) != test.works {
				t.Errorf("got %d bytes and %v", len(body), err)
			}
			if len(body) > 1<<20+1 {
				t.Errorf("%d bytes were read", len(body))
			}
		})
	}
}

func TestSEC254_ConnectionsAreNotShared(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	client, url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen[r.RemoteAddr] = true
		if r.Header.Get("Referer")+r.Header.Get("Authorization")+r.Header.Get("Cookie") != "" {
			t.Errorf("it sends %v", r.Header)
		}
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
	})
	for range 3 {
		if _, err := client.Get(t.Context(), url); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 3 {
		t.Errorf("%d connections for 3 calls", len(seen))
	}
}

func TestSEC254_ALineThatNeverEndsIsNotAnAnswer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_, _ = http.ReadRequest(bufio.NewReader(conn))
				for {
					if _, err := io.WriteString(conn, strings.Repeat("H", 4096)); err != nil {
						return
					}
				}
			}()
		}
	}()
	client := outgoing.New(outgoing.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := client.Get(ctx, "http://"+listener.Addr().String()); err == nil {
		t.Error("it is an answer")
	}
}

// TestSEC259_TheErrorOfAForbiddenAddressDoesNotSayIt is for what quotes it.
func TestSEC259_TheErrorOfAForbiddenAddressDoesNotSayIt(t *testing.T) {
	t.Parallel()
	if text := outgoing.ErrForbidden.Error(); strings.ContainsAny(text, "0123456789") {
		t.Errorf("got %q", text)
	}
}
