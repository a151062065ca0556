package redirect

import (
	"strconv"
	"strings"
)

// Match reports whether the address asked for is the registered one: byte for
// byte, but that the port of an http loopback address of a native application may
// be any (RFC 8252, 7.3; SEC-002).
func Match(registered, asked string, native bool) bool {
	if registered == asked {
		return true
	}
	if !native {
		return false
	}
	// Both are cut at the same literal texts, so that no other part can take the
	// place of the port.
	for _, host := range []string{"http://127.0.0.1", "http://[::1]", "http://localhost"} {
		r, ok := strings.CutPrefix(registered, host)
		a, asks := strings.CutPrefix(asked, host)
		if ok && asks {
			r, ok = afterPort(r)
			a, asks = afterPort(a)
			return ok && asks && r == a
		}
	}
	return false
}

// afterPort returns what follows the port, if there is one.
func afterPort(text string) (string, bool) {
	if port, ok := strings.CutPrefix(text, ":"); ok {
		digits := len(port) - len(strings.TrimLeft(port, "0123456789"))
		n, err := strconv.ParseUint(port[:digits], 10, 16)
		if err != nil || n == 0 || port[0] == '0' {
			return "", false
		}
		text = port[digits:]
	}
	return text, text == "" || text[0] == '/' || text[0] == '?'
}

// MatchDevelopment is Match for clients in development mode: each * of the
// registered address stands for one or more letters, digits, hyphens or
// underscores, which is never more than a host label or a path segment.
func MatchDevelopment(registered, asked string, native bool) bool {
	if !strings.Contains(registered, "*") {
		return Match(registered, asked, native)
	}
	return glob(strings.Split(registered, "*"), asked)
}

// glob matches literal texts with a wildcard between each and the next. It takes
// the shortest fill and never goes back: what a longer one could reach, the next
// wildcard can fill too.
func glob(literals []string, asked string) bool {
	rest, ok := strings.CutPrefix(asked, literals[0])
	if !ok {
		return false
	}
	last := literals[len(literals)-1]
	if rest, ok = strings.CutSuffix(rest, last); !ok {
		return false
	}
	for _, literal := range literals[1 : len(literals)-1] {
		filled := false
		for i := 1; i <= len(rest) && fills(rest[i-1]); i++ {
			if after, ok := strings.CutPrefix(rest[i:], literal); ok {
				rest, filled = after, true
				break
			}
		}
		if !filled {
			return false
		}
	}
	for i := range len(rest) {
		if !fills(rest[i]) {
			return false
		}
	}
	return rest != ""
}

// fills reports whether a wildcard can stand for a character.
func fills(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}
