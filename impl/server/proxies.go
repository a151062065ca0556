package server

import (
	"errors"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/pires/go-proxyproto"
)

// Proxies are the reverse proxies that the operator trusts: what they say of a request
// counts, as far as their chain reaches. What anybody else says is a text like any other
// (SEC-186, SEC-215).
type Proxies struct {
	Trusted []netip.Prefix
	// Forwarded has the header of RFC 7239 read; otherwise it is X-Forwarded-For and
	// X-Forwarded-Host. One of them only: a proxy that sets one may pass on the other.
	Forwarded bool
	// Protocol has connections of trusted addresses begin with a header of the PROXY
	// protocol, version 1 or 2, if they do.
	Protocol bool
}

// ParsePrefix reads a network in CIDR notation, or one address.
func ParsePrefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return prefix, fmt.Errorf("%q is no network such as 10.0.0.0/8", text)
	case prefix != prefix.Masked():
		return prefix, fmt.Errorf("%q has bits behind its length; %s is the network", text, prefix.Masked())
	}
	return prefix, nil
}

func (p *Proxies) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(p.Trusted, func(network netip.Prefix) bool { return network.Contains(addr) })
}

// came is where a request came from, which host it asked for, and whether a trusted proxy
// brought it.
type came struct {
	from, host string
	trusted    bool
}

// of returns what is true of a request: of the peer of its connection, its host and its
// headers. What cannot be read ends the chain: the last address that a trusted proxy told
// is the client's. Nothing is looked up, and nothing fails.
func (p *Proxies) of(peer, host string, header func(name string) []string) came {
	at := came{host: host}
	at.from, _, _ = strings.Cut(hostOnly(peer), "%")
	if len(p.Trusted) == 0 {
		return at
	}
	addr, err := netip.ParseAddr(at.from)
	if addr = addr.Unmap(); err != nil || !p.trusts(addr) {
		return at
	}
	at.trusted = true
	if p.Forwarded {
		p.walk(&at, backwards(header("Forwarded"), true), readForwarded)
		return at
	}
	p.walk(&at, backwards(header("X-Forwarded-For"), false), func(hop string) (hopInfo, bool) { return hopInfo{client: strings.TrimSpace(hop)}, true })
	if hosts := header("X-Forwarded-Host"); len(hosts) == 1 && isHost(hosts[0]) { // a repeated header is no header
		at.host = hosts[0]
	}
	return at
}

// hopInfo is what one proxy says of who called it.
type hopInfo struct{ client, host string }

// walk goes back through what the proxies say, from the nearest one, as long as they are
// trusted.
func (p *Proxies) walk(at *came, hops iter.Seq[string], read func(string) (hopInfo, bool)) {
	for text := range hops {
		hop, ok := read(text)
		if !ok {
			return
		}
		addr, err := netip.ParseAddr(hostOnly(hop.client))
		if err != nil || addr.Zone() != "" {
			return
		}
		addr = addr.Unmap()
		at.from = addr.String()
		if isHost(hop.host) {
			at.host = hop.host
		}
		if !p.trusts(addr) {
			return
		}
	}
}

// backwards are the elements of the values of a list header, the last first. Only the header
// of RFC 7239 has quoted strings.
func backwards(values []string, quoting bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, value := range slices.Backward(values) {
			for {
				before, element := cutLast(value, quoting)
				if !yield(element) {
					return
				}
				if before < 0 {
					break
				}
				value = value[:before]
			}
		}
	}
}

// cutLast returns what is behind the last comma that is in no quoted string, and where
// that is; -1 when there is none. It reads from the end, which the nearest proxy wrote: a
// quote that a client left open hides nothing of that.
func cutLast(list string, quoting bool) (int, string) {
	quoted := false
	for i := len(list) - 1; i >= 0; i-- {
		switch c := list[i]; {
		case c == '"' && quoting:
			before := strings.TrimRight(list[:i], `\`)
			if (i-len(before))%2 == 0 { // it is not escaped
				quoted = !quoted
			}
		case c == ',' && !quoted:
			return i, list[i+1:]
		}
	}
	return -1, list
}

// readForwarded reads an element of the header of RFC 7239: pairs with "=" between ";". A
// parameter that comes twice says nothing.
func readForwarded(element string) (hopInfo, bool) {
	var hop hopInfo
	seen := map[string]bool{}
	for rest := strings.TrimSpace(element); rest != ""; {
		name, after, ok := strings.Cut(rest, "=")
		if !ok {
			return hop, false
		}
		value, left, ok := tokenOrQuoted(after)
		if name = strings.ToLower(strings.TrimSpace(name)); !ok || seen[name] {
			return hop, false
		}
		seen[name] = true
		switch name {
		case "for":
			hop.client = value
		case "host":
			hop.host = value
		}
		rest = strings.TrimSpace(left)
		if rest != "" {
			if rest[0] != ';' {
				return hop, false
			}
			rest = strings.TrimSpace(rest[1:])
		}
	}
	return hop, hop.client != ""
}

// tokenOrQuoted reads a value up to the next ";" and returns what is left.
func tokenOrQuoted(text string) (value, left string, ok bool) {
	if !strings.HasPrefix(text, `"`) {
		end := strings.IndexByte(text, ';')
		if end < 0 {
			end = len(text)
		}
		value = strings.TrimSpace(text[:end])
		return value, text[end:], value != "" && !strings.ContainsAny(value, "\", \t")
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			if i++; i < len(text) {
				b.WriteByte(text[i])
			}
		case '"':
			return b.String(), text[i+1:], true
		default:
			b.WriteByte(text[i])
		}
	}
	return "", "", false
}

// hostOnly is an address without its port, in the forms 192.0.2.1:80, [2001:db8::1]:80,
// [2001:db8::1] and those without a port.
func hostOnly(address string) string {
	if rest, ok := strings.CutPrefix(address, "["); ok {
		if inside, port, ok := strings.Cut(rest, "]"); ok && (port == "" || port[0] == ':') {
			return inside
		}
		return address
	}
	if colon := strings.LastIndexByte(address, ':'); colon >= 0 && strings.IndexByte(address, ':') == colon {
		return address[:colon]
	}
	return address
}

// isHost reports whether a text can stand in a Host header: letters, digits and what
// separates them.
func isHost(text string) bool {
	return text != "" && len(text) <= 255 && strings.IndexFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._:[]", r)
	}) < 0
}

// headerTimeout is how long a trusted proxy may take to say who is behind it.
const headerTimeout = 5 * time.Second

// accept reads the headers of the PROXY protocol that trusted addresses send.
func (p *Proxies) accept(listener net.Listener) net.Listener {
	if !p.Protocol {
		return listener
	}
	return &proxyproto.Listener{Listener: listener, ReadHeaderTimeout: headerTimeout, ConnPolicy: func(of proxyproto.ConnPolicyOptions) (proxyproto.Policy, error) {
		if peer, err := netip.ParseAddrPort(of.Upstream.String()); err == nil && p.trusts(peer.Addr().Unmap()) {
			return proxyproto.USE, nil
		}
		return proxyproto.SKIP, nil
	}}
}

// check refuses settings that would do nothing.
func (p *Proxies) check() error {
	if len(p.Trusted) == 0 && (p.Forwarded || p.Protocol) {
		return errors.New("server: no proxy is trusted whose headers could be read")
	}
	return nil
}
