package outgoing_test

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/writ-id/writ/impl/core/outgoing"
)

func TestSEC252_MailServersAreCalledByTheSameRules(t *testing.T) {
	t.Parallel()
	v := newVictim(t)
	for _, at := range forbidden {
		for _, encrypted := range []bool{false, true} {
			client := outgoing.New(outgoing.Config{Resolver: resolver(t, always(at))})
			if _, err := client.DialMail(t.Context(), "mail.example:"+v.port, encrypted); err == nil {
				t.Errorf("%s is reached by a name", at)
			}
		}
		if _, err := outgoing.New(outgoing.Config{}).DialMail(t.Context(), net.JoinHostPort(at, v.port), false); !isForbidden(err) {
			t.Errorf("%s: got %v", at, err)
		}
	}
	if n := v.seen.Load(); n != 0 {
		t.Errorf("%d connections reached this machine", n)
	}
	allowed := outgoing.New(outgoing.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	conn, err := allowed.DialMail(t.Context(), "127.0.0.1:"+v.port, false)
	if err != nil {
		t.Fatalf("what is allowed is not reached: %v", err)
	}
	_ = conn.Close()
}

func TestSEC253_MailGoesToPortsOfMailServers(t *testing.T) {
	t.Parallel()
	client := outgoing.New(outgoing.Config{Allow: outgoing.Loopback})
	for _, port := range []string{"22", "80", "443", "0", "-1", "65536", "smtp", "", "1023"} {
		if _, err := client.DialMail(t.Context(), "127.0.0.1:"+port, false); !errors.Is(err, outgoing.ErrMailPort) {
			t.Errorf("port %q: got %v", port, err)
		}
	}
	for _, port := range []string{"25", "465", "587", "1024", "2525", "65535"} {
		if err := outgoing.MailPort(port); err != nil {
			t.Errorf("port %q: got %v", port, err)
		}
	}
}

func TestSEC259_TheErrorOfAMailServerSaysNoAddress(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	_, port, _ := net.SplitHostPort(closed.Addr().String())
	client := outgoing.New(outgoing.Config{Allow: outgoing.Loopback, Resolver: resolver(t, always("127.0.0.1"))})
	if _, err := client.DialMail(t.Context(), "mail.example:"+port, false); err == nil || strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("got %v", err)
	}
}
