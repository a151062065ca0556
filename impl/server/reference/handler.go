// Package reference serves the contract to its readers: the OpenAPI document
// and the descriptors for programs, and the pages below /docs for people: one about
// all of it, which lists the operations, one for each service, one that teaches
// executions and one with the events.
//
// Everything comes from package gen/openapi, so what is read here is what the
// server was built from. The pages are plain HTML, load nothing but their icon and
// are rendered once, when one is first asked for. Their script searches, copies
// commands and finds anchors of the time when there was one page; all else works
// without it.
package reference

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"regexp"
	"slices"
	"sync"

	"github.com/writ-id/writ/gen/openapi"
	"github.com/writ-id/writ/impl/core/compress"
	"github.com/writ-id/writ/impl/core/policy"
)

// Handler serves the contract. It is safe for concurrent use.
type Handler struct {
	// Origin returns the scheme and host under which a client reaches the
	// server, for the commands on the page. Nil means: as the request came,
	// which behind a proxy that ends TLS is http.
	Origin func(*http.Request) string

	json, yaml [2]*prepared // of OpenAPI 3.0 and 3.1
	proto      *prepared
	icon       *prepared
	services   []string // the paths of their pages
	pages      func() (map[string]*prepared, error)
}

// prepared is a body with its strong entity tag.
type prepared struct {
	compress.Prepared
	etag func() string // made when it is first asked for: a start hashes no documents
}

func prepare(body []byte) *prepared {
	return &prepared{compress.Prepared{Plain: body}, sync.OnceValue(func() string { return tag(body) })}
}

func tag(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:15]) + `"`
}

// New returns a Handler of the published contract, with the limits that searches have
// on this node. The pages show the services of further documents behind its own: they are
// not published with it.
func New(limits policy.SearchLimits, further ...[]byte) (*Handler, error) {
	if len(openapi.JSON) == 0 || len(openapi.Descriptors) == 0 {
		return nil, errors.New("reference: the contract is empty; run make generate")
	}
	limits = limits.OrDefault()
	document := limited(openapi.JSON, limits)
	var services []string
	for _, text := range append([][]byte{document}, further...) {
		more, err := paths(text)
		if err != nil {
			return nil, err
		}
		services = append(services, more...)
	}
	return &Handler{
		json:     [2]*prepared{prepare(document), prepare(limited(openapi.JSON31, limits))},
		yaml:     [2]*prepared{prepare(limited(openapi.YAML, limits)), prepare(limited(openapi.YAML31, limits))},
		proto:    prepare(openapi.Descriptors),
		icon:     prepare(icon),
		services: services,
		pages: sync.OnceValues(func() (map[string]*prepared, error) {
			bodies, err := render(document, further...)
			pages := map[string]*prepared{}
			for path, body := range bodies {
				pages[path] = prepare(body)
			}
			return pages, err
		}),
	}, nil
}

// searchLimit finds what a document says of the limit of a search, in JSON or YAML: the
// default in its description, and its maximum.
var searchLimit = regexp.MustCompile(`(?s)(name"?: ?"?query\.limit\b.{0,300}?default of )\d+(.{0,300}?maximum"?: ?)\d+`)

func limited(document []byte, limits policy.SearchLimits) []byte {
	if limits == (policy.SearchLimits{}).OrDefault() {
		return document
	}
	return searchLimit.ReplaceAll(document, fmt.Appendf(nil, "${1}%d${2}%d", limits.Default, limits.Max))
}

// Routes returns the handler of each path.
func (h *Handler) Routes() map[string]http.Handler {
	routes := map[string]http.Handler{
		"/openapi.json": public(versioned("application/json", &h.json)),
		"/openapi.yaml": public(versioned("application/yaml", &h.yaml)),
		"/proto": public(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Disposition", `inline; filename="writ.binpb"`)
			serve(w, r, "application/x-protobuf", h.proto)
		}),
	}
	for _, path := range slices.Concat([]string{pathDocs, pathExecutions, pathCatalogue, pathGuides}, guidePaths(), h.services) {
		routes[path] = public(h.docs)
	}
	return routes
}

// Icons returns the handlers of the icon, which other pages have too.
func (h *Handler) Icons() map[string]http.Handler {
	icon := public(h.favicon)
	return map[string]http.Handler{"/favicon.svg": icon, "/favicon.ico": icon} // the second is where browsers look by themselves
}

// pathDocs is the path of the page about all; those of services are below it.
const pathDocs = "/docs"

//go:embed icon.svg
var icon []byte

func (h *Handler) favicon(w http.ResponseWriter, r *http.Request) {
	serve(w, r, "image/svg+xml", h.icon)
}

// public lets any origin read what next serves, and nobody do more than read.
func public(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Access-Control-Allow-Origin", "*")
		header.Set("Access-Control-Expose-Headers", "ETag")
		header.Set("X-Content-Type-Options", "nosniff")
		switch r.Method {
		case http.MethodGet, http.MethodHead:
			next(w, r)
		case http.MethodOptions:
			header.Set("Allow", "GET, HEAD, OPTIONS")
			header.Set("Access-Control-Allow-Methods", "GET, HEAD")
			header.Set("Access-Control-Allow-Headers", "If-None-Match")
			header.Set("Access-Control-Max-Age", "86400")
			w.WriteHeader(http.StatusNoContent)
		default:
			header.Set("Allow", "GET, HEAD, OPTIONS")
			refuse(w, http.StatusMethodNotAllowed, 12, r.Method+" is not allowed here")
		}
	})
}

// versioned serves a document in the OpenAPI version that is asked for.
func versioned(contentType string, documents *[2]*prepared) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		asked := r.URL.Query()["version"]
		switch {
		case len(asked) == 0, len(asked) == 1 && asked[0] == "3.0":
			serve(w, r, contentType, documents[0])
		case len(asked) == 1 && asked[0] == "3.1":
			serve(w, r, contentType, documents[1])
		default:
			refuse(w, http.StatusBadRequest, 3, "version must be 3.0 or 3.1")
		}
	}
}

func serve(w http.ResponseWriter, r *http.Request, contentType string, p *prepared) {
	w.Header().Set("Content-Type", contentType)
	shared(w.Header())
	w.Header().Set("ETag", p.etag())
	p.Serve(w, r)
}

// shared lets caches keep an answer for everybody, unless it is for who asked.
func shared(header http.Header) {
	if header.Get("Cache-Control") == "" {
		header.Set("Cache-Control", "public, max-age=300")
	}
}

// refuse writes a google.rpc.Status, the body of every refusal.
func refuse(w http.ResponseWriter, status, code int, message string) {
	body, err := json.Marshal(struct {
		Code    int        `json:"code"`
		Message string     `json:"message"`
		Details []struct{} `json:"details"`
	}{code, message, []struct{}{}})
	if err != nil {
		body = nil // a number and two strings always have a JSON form
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// contentSecurityPolicy allows the style sheet and the script in the page, its icon
// and its search, and no other image, font, form or frame.
var contentSecurityPolicy = fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
	hashOf(style), hashOf(script))

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

func (h *Handler) docs(w http.ResponseWriter, r *http.Request) {
	pages, err := h.pages()
	page := pages[r.URL.Path]
	if err != nil || page == nil { // a defect that the tests of this package find
		refuse(w, http.StatusInternalServerError, 13, "internal error")
		return
	}
	origin := originOf(r)
	if h.Origin != nil {
		origin = h.Origin(r)
	}
	header := w.Header()
	header.Set("Content-Security-Policy", contentSecurityPolicy)
	header.Set("Referrer-Policy", "no-referrer")
	body := bytes.ReplaceAll(page.Plain, []byte(originPlaceholder), []byte(template.HTMLEscapeString(origin)))
	header.Set("Content-Type", "text/html; charset=utf-8")
	shared(header)
	header.Set("ETag", tag([]byte(page.etag()+origin)))
	compress.Serve(w, r, body)
}

// plainHost is what may stand in a command that people paste into a shell.
var plainHost = regexp.MustCompile(`^[A-Za-z0-9.-]+(:[0-9]+)?$|^\[[0-9A-Fa-f:.]+\](:[0-9]+)?$`)

func originOf(r *http.Request) string {
	scheme, host := "http", r.Host
	if r.TLS != nil {
		scheme = "https"
	}
	if !plainHost.MatchString(host) {
		host = "localhost"
	}
	return scheme + "://" + host
}
