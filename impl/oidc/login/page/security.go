package page

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// secureHeaders sets what keeps a page from running, loading, being framed by and
// telling others anything (SEC-146, SEC-147, SEC-148).
func secureHeaders(h http.Header, secure bool, targets, script, style string) {
	policy := "default-src 'none'; style-src " + strings.TrimSpace("'self' "+style) + "; img-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action " + targets
	if script != "" {
		policy += "; script-src " + script
	}
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if secure {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// FormTargets returns where forms of a login may lead: the last one leads to the
// client, if one waits.
func FormTargets(request string) string {
	query, err := url.ParseQuery(request)
	if targets := ClientTargets(query.Get("redirect_uri")); err == nil && targets != "" {
		return "'self' " + targets
	}
	return "'self'"
}

// Beyond adds to targets where forms lead that go on to identity providers: wherever those send
// the browser on, which nobody here knows; in development, to servers on this machine.
func Beyond(targets string, secure bool) string {
	more := []string{"https:"}
	if !secure {
		more = append(more, "http://localhost:*", "http://127.0.0.1:*")
	}
	for _, one := range more {
		if !slices.Contains(strings.Fields(targets), one) {
			targets += " " + one
		}
	}
	return targets
}

// ClientTargets returns where a form may lead that ends at a client. Chromium holds
// every redirect that answers a form to form-action, those of the client too, and a
// callback may send the browser on to an origin that nobody here knows: the pages of
// a backend are often elsewhere. So all that can be named is its scheme, and for
// clients without TLS, which are being developed or run on the user's device, the
// loopback hosts that can be a source: [::1] cannot.
func ClientTargets(address string) string {
	own := source(address)
	switch {
	case strings.HasPrefix(own, "https:"):
		return "https:"
	case strings.HasPrefix(own, "http:"):
		return own + " http://localhost:* http://127.0.0.1:* https:"
	}
	return own
}

// plainHost is a host that can stand in a content security policy.
var plainHost = regexp.MustCompile(`^[A-Za-z0-9.-]+(:[0-9]{1,5})?$`)

// source returns a URL as a source of a content security policy: its origin, or its
// scheme where that is all there is to name (an app's own, an IPv6 address).
func source(text string) string {
	target, err := url.Parse(text)
	switch {
	case err != nil || target.Scheme == "" || slices.Contains([]string{"javascript", "data", "vbscript"}, target.Scheme):
		return ""
	case (target.Scheme == "http" || target.Scheme == "https") && plainHost.MatchString(target.Host):
		return target.Scheme + "://" + target.Host
	}
	return target.Scheme + ":"
}
