package oidc

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
)

// siteJar is a cookie jar that knows SameSite, which the standard library's does
// not: a link of another site brings no Strict cookies, and a form of another
// site only those with None. A cookie that says nothing is Lax, as in Chromium
// (draft-ietf-httpbis-rfc6265bis §5.6.7).
type siteJar struct {
	*cookiejar.Jar
	sameSite map[string]http.SameSite
	// Of the next request; a browser makes one at a time.
	crossSite, post bool
}

func newSiteJar() *siteJar {
	jar, _ := cookiejar.New(nil) // never fails without options
	return &siteJar{Jar: jar, sameSite: map[string]http.SameSite{}}
}

// SetCookies implements http.CookieJar.
func (j *siteJar) SetCookies(u *url.URL, cookies []*http.Cookie) {
	for _, c := range cookies {
		j.sameSite[c.Name] = c.SameSite
	}
	j.Jar.SetCookies(u, cookies)
}

// Cookies implements http.CookieJar.
func (j *siteJar) Cookies(u *url.URL) []*http.Cookie {
	all := j.Jar.Cookies(u)
	if !j.crossSite {
		return all
	}
	var sent []*http.Cookie
	for _, c := range all {
		if same := j.sameSite[c.Name]; same == http.SameSiteNoneMode || !j.post && same != http.SameSiteStrictMode {
			sent = append(sent, c)
		}
	}
	return sent
}
