package server_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	projectv3 "github.com/writ-id/writ/gen/proto/writ/project/v3alpha"
	"github.com/writ-id/writ/impl/server"
	"github.com/writ-id/writ/impl/server/servertest"
)

func prefixes(t testing.TB, texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		prefix, err := server.ParsePrefix(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, prefix)
	}
	return all
}

// behind is a proxy that everything here comes through, as it is this machine; 10/8 is
// what else is trusted.
func behind(t testing.TB, forwarded bool) server.Proxies {
	return server.Proxies{Trusted: prefixes(t, "127.0.0.1", "::1", "10.0.0.0/8", "2001:db8:ffff::/48"), Forwarded: forwarded}
}

func TestSEC186_TheClientIsWhomTheLastTrustedProxyNames(t *testing.T) {
	t.Parallel()
	const peer = "127.0.0.1:4711"
	for _, test := range []struct {
		name, peer string
		forwarded  bool
		header     map[string][]string
		from, host string
	}{
		{name: "no header", peer: peer, from: "127.0.0.1", host: "asked"},
		{name: "a stranger's header", peer: "192.0.2.9:1", header: map[string][]string{"X-Forwarded-For": {"203.0.113.7"}, "X-Forwarded-Host": {"evil"}}, from: "192.0.2.9", host: "asked"},
		{name: "one proxy", peer: peer, header: map[string][]string{"X-Forwarded-For": {"203.0.113.7"}, "X-Forwarded-Host": {"a.example:8443"}}, from: "203.0.113.7", host: "a.example:8443"},
		{name: "what the client put before", peer: peer, header: map[string][]string{"X-Forwarded-For": {"1.1.1.1, 203.0.113.7"}}, from: "203.0.113.7", host: "asked"},
		{name: "two proxies", peer: peer, header: map[string][]string{"X-Forwarded-For": {"1.1.1.1, 203.0.113.7, 10.1.2.3"}}, from: "203.0.113.7", host: "asked"},
		{name: "two lines", peer: peer, header: map[string][]string{"X-Forwarded-For": {"1.1.1.1", "203.0.113.7,10.1.2.3"}}, from: "203.0.113.7", host: "asked"},
		{name: "only proxies", peer: peer, header: map[string][]string{"X-Forwarded-For": {"10.9.9.9, 10.1.2.3"}}, from: "10.9.9.9", host: "asked"},
		{name: "with ports", peer: peer, header: map[string][]string{"X-Forwarded-For": {"203.0.113.7:99, 10.1.2.3:1"}}, from: "203.0.113.7", host: "asked"},
		{name: "IPv6", peer: "[::1]:4711", header: map[string][]string{"X-Forwarded-For": {"2001:db8::7, [2001:db8:ffff::1]:88"}}, from: "2001:db8::7", host: "asked"},
		{name: "IPv4 in IPv6", peer: "[::ffff:127.0.0.1]:1", header: map[string][]string{"X-Forwarded-For": {"::ffff:203.0.113.7"}}, from: "203.0.113.7", host: "asked"},
		{name: "garbage", peer: peer, header: map[string][]string{"X-Forwarded-For": {"203.0.113.7, unknown"}}, from: "127.0.0.1", host: "asked"},
		{name: "garbage behind a proxy", peer: peer, header: map[string][]string{"X-Forwarded-For": {"203.0.113.7, x.example, 10.1.2.3"}}, from: "10.1.2.3", host: "asked"},
		{name: "empty", peer: peer, header: map[string][]string{"X-Forwarded-For": {""}}, from: "127.0.0.1", host: "asked"},
		{name: "two hosts", peer: peer, header: map[string][]string{"X-Forwarded-Host": {"a.example", "b.example"}}, from: "127.0.0.1", host: "asked"},
		{name: "a host that is none", peer: peer, header: map[string][]string{"X-Forwarded-Host": {"a.example, b.example"}}, from: "127.0.0.1", host: "asked"},
		{name: "the other header", peer: peer, header: map[string][]string{"Forwarded": {"for=203.0.113.7;host=a.example"}}, from: "127.0.0.1", host: "asked"},
		{name: "the other header, the other way", peer: peer, forwarded: true, header: map[string][]string{"X-Forwarded-For": {"203.0.113.7"}, "X-Forwarded-Host": {"a.example"}}, from: "127.0.0.1", host: "asked"},
		{name: "RFC 7239", peer: peer, forwarded: true, header: map[string][]string{"Forwarded": {`for=192.0.2.60;proto=http;by=203.0.113.43;host="a.example:8080"`}}, from: "192.0.2.60", host: "a.example:8080"},
		{name: "RFC 7239, IPv6", peer: peer, forwarded: true, header: map[string][]string{"Forwarded": {`For="[2001:db8:cafe::17]:4711"`}}, from: "2001:db8:cafe::17", host: "asked"},
		{name: "RFC 7239, a chain", peer: peer, forwarded: true, header: map[string][]string{"Forwarded": {`for=1.1.1.1;host=evil, for=203.0.113.7;host=a.example, for="10.1.2.3";host=inside`}}, from: "203.0.113.7", host: "a.example"},
		{name: "RFC 7239, a comma in quotes", peer: peer, forwarded: true, header: map[string][]string{"Forwarded": {`for=203.0.113.7;ext="a, for=10.0.0.1"`}}, from: "203.0.113.7", host: "asked"},
		{name: "RFC 7239, hidden", peer: peer, forwarded: true, header: map[string][]string{"Forwarded": {`for=1.1.1.1, for=_hidden`}}, from: "127.0.0.1", host: "asked"},
		{name: "RFC 7239, twice", peer: peer, forwarded: true, header: map[string][]string{"Forwarded": {`for=1.1.1.1;for=203.0.113.7`}}, from: "127.0.0.1", host: "asked"},
		{name: "a quote", peer: peer, header: map[string][]string{"X-Forwarded-For": {`", 203.0.113.7`}}, from: "203.0.113.7", host: "asked"},
		{name: "a quote in a line of its own", peer: peer, header: map[string][]string{"X-Forwarded-For": {`"`, `203.0.113.7`}}, from: "203.0.113.7", host: "asked"},
		{name: "no address behind a good one", peer: peer, header: map[string][]string{"X-Forwarded-For": {`203.0.113.7, x", 10.1.2.3`}}, from: "10.1.2.3", host: "asked"},
		{name: "RFC 7239, a quote that a client left open", peer: peer, forwarded: true, header: map[string][]string{"Forwarded": {`for=", for=203.0.113.7;host=a.example`}}, from: "203.0.113.7", host: "a.example"},
		{name: "RFC 7239, an escaped quote", peer: peer, forwarded: true, header: map[string][]string{"Forwarded": {`for=203.0.113.7;ext="a\", for=10.0.0.1"`}}, from: "203.0.113.7", host: "asked"},
		{name: "RFC 7239, an open quote", peer: peer, forwarded: true, header: map[string][]string{"Forwarded": {`for="1.1.1.1`}}, from: "127.0.0.1", host: "asked"},
	} {
		proxies := behind(t, test.forwarded)
		from, host := server.Came(&proxies, test.peer, "asked", func(name string) []string { return test.header[name] })
		if from != test.from || host != test.host {
			t.Errorf("%s: from %s to %s, want %s to %s", test.name, from, host, test.from, test.host)
		}
	}
}

// FuzzForwarded: whatever a header says, the client has an address, or is the peer.
func FuzzForwarded(f *testing.F) {
	for _, seed := range []string{"203.0.113.7, 10.1.2.3", `for="[2001:db8::1]:47";host=a.example`, `for=_x, for="a\"b,c"`, `;;=,"`} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, value string, forwarded bool) {
		proxies := behind(t, forwarded)
		from, host := server.Came(&proxies, "10.0.0.1:1", "asked", func(string) []string { return []string{value} })
		if _, err := netip.ParseAddr(from); err != nil {
			t.Errorf("%q comes from %q", value, from)
		}
		if strings.ContainsAny(host, " \",;\r\n/") {
			t.Errorf("%q asks for %q", value, host)
		}
	})
}

// newest returns where the newest event of an instance came from.
func newest(c *servertest.Cluster) (address string) {
	c.Helper()
	res := c.Must("owner", http.MethodPost, "/resources/v3alpha/events/_search?query.limit=1", "[]").Any(c.T)
	return res["result"].([]any)[0].(map[string]any)["clientAddress"].(string)
}

func TestSEC186_EventsSayWhereTheyCameFromOnEveryTransport(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, func(c *server.Config) { c.Proxies = behind(t, false) })
	n := 0
	create := func(header http.Header) {
		t.Helper()
		n++
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.Nodes[0]+"/resources/v3alpha/projects", strings.NewReader(fmt.Sprintf(`{"name":"P%d"}`, n)))
		if err != nil {
			t.Fatal(err)
		}
		req.Host, req.Header = "a.example", header
		header.Set("Authorization", "Bearer "+c.Token("owner"))
		header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusCreated {
			t.Fatalf("%d", res.StatusCode)
		}
	}
	create(http.Header{})
	if got := newest(c); got != "127.0.0.1" {
		t.Errorf("without a header: %q", got)
	}
	create(http.Header{"X-Forwarded-For": {"6.6.6.6, 203.0.113.7"}})
	if got := newest(c); got != "203.0.113.7" {
		t.Errorf("through a proxy: %q", got)
	}
	conn, err := grpc.NewClient(strings.TrimPrefix(c.Nodes[0], "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// The host that the proxy was asked for decides which instance is meant.
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+c.Token("owner"), "x-forwarded-for", "203.0.113.8", "x-forwarded-host", "a.example")
	made, err := projectv3.NewServiceProjectsClient(conn).CreateProject(ctx, &projectv3.CreateProjectRequest{Project: &projectv3.Project{Name: "G"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := newest(c); got != "203.0.113.8" {
		t.Errorf("by gRPC: %q", got)
	}
	// What goes along with a deletion comes from where the deletion came from.
	id := made.GetDetails().GetId()
	c.Create("owner", "/resources/v3alpha/apps", `{"projectId":"`+id+`","name":"web","api":{}}`)
	c.Must("owner", http.MethodDelete, "/resources/v3alpha/projects/"+id, "")
	gone := c.Must("owner", http.MethodPost, "/resources/v3alpha/events/_search", `[{"type":{"types":["project.removed","project.application.removed"]}}]`).Any(c.T)["result"].([]any)
	for _, event := range gone {
		if got := event.(map[string]any)["clientAddress"]; got != "127.0.0.1" {
			t.Errorf("%v", event)
		}
	}
	if len(gone) != 2 {
		t.Errorf("%d events of a project and its application that go", len(gone))
	}
}

// proxied writes a header of the PROXY protocol, version 2 (haproxy, proxy-protocol.txt),
// and a request behind it.
func proxied(ctx context.Context, t *testing.T, node, from string, token string) int {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(node, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	source, target := netip.MustParseAddr(from).As4(), netip.MustParseAddr("127.0.0.1").As4()
	head := append([]byte("\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c"), source[:]...)
	head = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(append(head, target[:]...), 4711), 80)
	body := `{"name":"proxied"}`
	if _, err := fmt.Fprintf(conn, "%sPOST /resources/v3alpha/projects HTTP/1.1\r\nHost: a.example\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		head, token, len(body), body); err != nil {
		t.Fatal(err)
	}
	var answer [12]byte
	if _, err := conn.Read(answer[:]); err != nil {
		return 0
	}
	var status int
	_, _ = fmt.Sscanf(string(answer[:]), "HTTP/1.1 %d", &status)
	return status
}

func TestSEC186_ThePROXYProtocolCountsFromTrustedAddressesOnly(t *testing.T) {
	t.Parallel()
	trusting := servertest.New(t, 1, func(c *server.Config) {
		c.Proxies = server.Proxies{Trusted: prefixes(t, "127.0.0.1"), Protocol: true}
	})
	if status := proxied(t.Context(), t, trusting.Nodes[0], "203.0.113.9", trusting.Token("owner")); status != http.StatusCreated {
		t.Fatalf("with a header: %d", status)
	}
	if got := newest(trusting); got != "203.0.113.9" {
		t.Errorf("from %q", got)
	}
	trusting.Create("owner", "/resources/v3alpha/projects", `{"name":"direct"}`) // a health check has none
	if got := newest(trusting); got != "127.0.0.1" {
		t.Errorf("without a header: from %q", got)
	}
	other := servertest.New(t, 1, func(c *server.Config) {
		c.Proxies = server.Proxies{Trusted: prefixes(t, "10.0.0.0/8"), Protocol: true}
	})
	if status := proxied(t.Context(), t, other.Nodes[0], "203.0.113.9", other.Token("owner")); status == http.StatusCreated {
		t.Error("whoever likes says where they come from")
	}
}

func TestSettingsOfProxiesThatDoNothingAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"10.0.0.1/8", "proxy.example", "", "10.0.0.0/33"} {
		if prefix, err := server.ParsePrefix(text); err == nil {
			t.Errorf("%q is %v", text, prefix)
		}
	}
	if _, err := server.New(server.Config{Proxies: server.Proxies{Protocol: true}}); err == nil {
		t.Error("the PROXY protocol of nobody")
	}
}
