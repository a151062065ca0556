// Package redirect decides which addresses a client may register and which
// registered one an address asked for is.
//
// Both are about text. An address is compared byte for byte, before anything
// parses it (SEC-001); one that a parser, a browser and a person could read in
// different ways is not registered in the first place (SEC-003).
package redirect

import (
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Client is what the rules depend on.
type Client struct {
	Native      bool // it runs on a device of the user
	Development bool // the development mode is on
	Local       bool // the node is one of development, and clients run beside it
}

// parts are the parts of an address.
type parts struct {
	scheme, host, port string
	rest               string // path and query
	hierarchical       bool   // has a host: //
}

// scripts are schemes that run or show what the address itself says, read local
// files, or hand the address to another program.
var scripts = []string{
	"about", "blob", "chrome", "cid", "content", "data", "feed", "file", "filesystem", "ftp", "intent", "jar", "javascript",
	"jscript", "livescript", "mailto", "mhtml", "mid", "mk", "mocha", "ms-appx", "ms-appx-web", "ms-its", "res", "resource", "shell",
	"sms", "tel", "urn", "vbs", "vbscript", "view-source", "ws", "wss", "wyciwyg", "x-javascript",
}

// Check refuses an address that must not be registered as a redirect URI. The
// error is fit for the sender.
func (c Client) Check(uri string) error {
	p, err := split(uri)
	if err != nil {
		return err
	}
	if strings.Contains(uri, "*") && !c.Development {
		return errors.New("must not contain * outside of development mode")
	}
	switch {
	case slices.Contains(scripts, p.scheme):
		return errors.New("must not have the scheme " + p.scheme)
	case p.scheme == "http" && !c.mayHTTP(p.host):
		return errors.New("must be https; http is for loopback addresses of native applications and for development mode")
	case p.web() && (!p.hierarchical || p.host == ""):
		return errors.New("must name a host")
	case !p.hierarchical && p.rest == "":
		return errors.New("must say something after the scheme")
	}
	return p.checkHost()
}

// mayHTTP reports whether an address of plain http may be registered.
func (c Client) mayHTTP(host string) bool {
	return c.Development || (c.Native || c.Local) && loopback(host)
}

// CheckOrigin refuses what is no origin: a scheme, a host and maybe a port.
func (c Client) CheckOrigin(origin string) error {
	p, err := split(origin)
	if err != nil {
		return err
	}
	if !p.hierarchical || p.host == "" || p.rest != "" || strings.Contains(origin, "*") {
		return errors.New("must be a scheme, a host and maybe a port, such as https://app.example.com")
	}
	return c.Check(origin)
}

// Origin returns the origin of an address of the web as browsers spell it, or "".
func Origin(uri string) string {
	p, err := split(uri)
	if err != nil || !p.hierarchical || p.host == "" || strings.Contains(p.host, "*") {
		return ""
	}
	origin := p.scheme + "://" + strings.ToLower(p.host)
	if p.port == "" || p.scheme == "https" && p.port == "443" || p.scheme == "http" && p.port == "80" {
		return origin
	}
	return origin + ":" + p.port
}

// IsWeb reports whether an address is one of http or https.
func IsWeb(uri string) bool {
	p, err := split(uri)
	return err == nil && p.web()
}

// IsLoopback reports whether an address is http on the device itself.
func IsLoopback(uri string) bool {
	p, err := split(uri)
	return err == nil && p.scheme == "http" && loopback(p.host)
}

// IsHTTP reports whether an address is one of plain http.
func IsHTTP(uri string) bool {
	p, err := split(uri)
	return err == nil && p.scheme == "http"
}

func (p *parts) web() bool { return p.scheme == "http" || p.scheme == "https" }

// split takes an address apart. It refuses every character that RFC 3986 does
// not allow, which leaves nothing to normalise: no whitespace, control or
// non-ASCII characters, no backslashes; and fragments and user names.
func split(uri string) (*parts, error) {
	for i := range len(uri) {
		switch c := uri[i]; {
		case c <= ' ' || c >= 0x7f:
			return nil, errors.New("must not contain whitespace, control or non-ASCII characters")
		case c == '#':
			return nil, errors.New("must not have a fragment")
		case strings.IndexByte(`"<>\^`+"`{|}", c) >= 0:
			return nil, errors.New("must not contain " + string(c))
		case c == '%' && (i+2 >= len(uri) || !isHex(uri[i+1]) || !isHex(uri[i+2])):
			return nil, errors.New("must not contain % without two digits")
		}
	}
	scheme, rest, ok := strings.Cut(uri, ":")
	if !ok || !isScheme(scheme) {
		return nil, errors.New("must be an absolute URI")
	}
	p := &parts{scheme: strings.ToLower(scheme), rest: rest}
	if !strings.HasPrefix(rest, "//") {
		return p, nil
	}
	p.hierarchical = true
	authority := rest[2:]
	if end := strings.IndexAny(authority, "/?"); end >= 0 {
		authority, p.rest = authority[:end], authority[end:]
	} else {
		p.rest = ""
	}
	if strings.Contains(authority, "@") {
		return nil, errors.New("must not have a user name")
	}
	p.host = authority
	if colon := strings.LastIndexByte(authority, ':'); colon >= 0 && !strings.HasSuffix(authority, "]") {
		p.host, p.port = authority[:colon], authority[colon+1:]
		if n, err := strconv.ParseUint(p.port, 10, 16); err != nil || n == 0 || p.port[0] == '0' {
			return nil, errors.New("must have a port from 1 to 65535")
		}
	}
	return p, nil
}

// checkHost refuses hosts that are neither a name nor an address.
func (p *parts) checkHost() error {
	if p.host == "" {
		return nil
	}
	bad := errors.New("must have a valid host")
	if inner, ok := strings.CutPrefix(p.host, "["); ok {
		address, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		if err != nil || !address.Is6() || address.Zone() != "" || !strings.HasSuffix(p.host, "]") {
			return bad
		}
		return nil
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(p.host, "."), ".") {
		if label == "" || len(label) > 63 {
			return bad
		}
		for i := range len(label) {
			if !fills(label[i]) && label[i] != '*' {
				return bad
			}
		}
	}
	return nil
}

func loopback(host string) bool {
	return host == "127.0.0.1" || host == "[::1]" || host == "localhost"
}

func isScheme(s string) bool {
	for i := range len(s) {
		lower := s[i] | 0x20
		letter := lower >= 'a' && lower <= 'z'
		other := s[i] >= '0' && s[i] <= '9' || s[i] == '+' || s[i] == '-' || s[i] == '.'
		if !letter && (i == 0 || !other) {
			return false
		}
	}
	return s != ""
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'
}
