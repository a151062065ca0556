package upgrade

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/writ-id/writ/conformance/harness"
)

// balancer stands before the nodes as a load balancer does: requests go to them by turns.
type balancer struct {
	*httptest.Server
	mu     sync.Mutex
	nodes  []*harness.Server
	turn   int
	served map[string]int // requests by node
	failed []string
}

func newBalancer(t *testing.T) *balancer {
	b := &balancer{served: map[string]int{}}
	transport := &http.Transport{MaxIdleConnsPerHost: 32}
	b.Server = httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", b.next()
			r.Out.Host = r.In.Host
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			b.fail(fmt.Sprintf("%s %s at %s: %v", r.Method, r.URL.Path, r.URL.Host, err))
			w.WriteHeader(http.StatusBadGateway)
		},
	})
	t.Cleanup(func() {
		b.Close()
		transport.CloseIdleConnections()
	})
	return b
}

func (b *balancer) fail(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed = append(b.failed, what)
}

// next returns the address of the node whose turn it is.
func (b *balancer) next() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn++
	addr := b.nodes[b.turn%len(b.nodes)].Addr
	b.served[addr]++
	return addr
}

func (b *balancer) add(node *harness.Server) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nodes = append(b.nodes, node)
}

// remove has no further request go to a node.
func (b *balancer) remove(node *harness.Server) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nodes = slices.DeleteFunc(b.nodes, func(one *harness.Server) bool { return one == node })
}

// port is that of the issuer.
func (b *balancer) port(t *testing.T) string {
	t.Helper()
	at, err := url.Parse(b.URL)
	if err != nil {
		t.Fatal(err)
	}
	return at.Port()
}
