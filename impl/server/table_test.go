package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func newTable() (*table, *group) {
	t := &table{http.NewServeMux(), map[string]*path{}}
	return t, &group{table: t, refuse: refuseMethod}
}

func says(what string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(what + " " + r.PathValue("id") + r.PathValue("key")))
	})
}

// Two routes for the same requests stop the start, whichever services they are of.
func TestTwoRoutesForTheSameRequestsPanic(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, first, second string }{
		{"the same", "GET /a/{id}", "GET /a/{id}"},
		{"another name of a variable", "GET /a/{id}", "POST /a/{key}"},
		{"neither is the more specific", "GET /a/{id}/b", "GET /a/c/{id}"},
	} {
		_, g := newTable()
		conflict := func() (conflict any) {
			defer func() { conflict = recover() }()
			for _, one := range []string{test.first, test.second} {
				method, pattern, _ := strings.Cut(one, " ")
				g.on(method, pattern, says(""))
			}
			return nil
		}()
		if conflict == nil {
			t.Errorf("%s: nothing was said", test.name)
		}
	}
}

func TestAPathHasItsMethods(t *testing.T) {
	t.Parallel()
	table, g := newTable()
	g.on("DELETE", "/a/{id}", says("delete"))
	g.on("GET", "/a/{id}", says("get"))
	g.on("GET", "/a/_list", says("list"))
	g.on("POST", "/a/{id}/k/_search", says("search"))
	g.on("PUT", "/a/{id}/k/{key}", says("put"))
	g.on("DELETE", "/b/{id...}", says("all"))
	g.on("POST", "/b", says("create"))
	table.share()
	table.mux.Handle("/", http.HandlerFunc(serveUnknown))
	for _, test := range []struct {
		request string
		status  int
		body    string // of a good answer
		allow   string
	}{
		{"GET /a/1", 200, "get 1", ""},
		{"GET /a/1%2F2", 200, "get 1/2", ""},
		{"GET /a/_list", 200, "list ", ""},
		{"DELETE /a/_list", 405, "", "GET"},
		{"HEAD /a/1", 405, "", "GET, DELETE"},
		{"OPTIONS /a/1", 405, "", "GET, DELETE"},
		{"get /a/1", 405, "", "GET, DELETE"},
		{"PUT /a/1/k/_search", 200, "put 1_search", ""}, // a key too
		{"GET /a/1/k/_search", 405, "", "POST"},
		{"DELETE /b/x/y", 200, "all x/y", ""},
		{"DELETE /b/", 404, "", ""},
		{"GET /b/", 404, "", ""},
		{"GET /b", 405, "", "POST"},
		{"GET /a/", 404, "", ""},
		{"GET /a", 404, "", ""},
		{"GET /a/1/", 404, "", ""},
	} {
		method, path, _ := strings.Cut(test.request, " ")
		w := httptest.NewRecorder()
		table.ServeHTTP(w, httptest.NewRequest(method, path, http.NoBody))
		if w.Code != test.status || test.body != "" && w.Body.String() != test.body || w.Header().Get("Allow") != test.allow {
			t.Errorf("%s: got %d %s, Allow: %q", test.request, w.Code, w.Body, w.Header().Get("Allow"))
		}
	}
}

// The name of an operation has one spelling; of what is in the place of a variable the
// mux makes what it means.
func TestTheNameOfAnOperationHasOneSpelling(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/a/b/%20": true, "/a/b/%2F": true, "/%61/b/x": false, "/a/%62/x": false,
	} {
		if got := hasSpelling("/a/b/{id}", path); got != want {
			t.Errorf("%s: got %v", path, got)
		}
	}
	if !hasSpelling("/a/{id...}", "/a/%20/%20") {
		t.Error("the rest of a path has escapes")
	}
}

func TestAPathThatIsNotPlainIsNowhere(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/": true, "/a": true, "/a/": true, "/a/..b": true, "/a/%2e%2e": true, "//a": false, "/a//": false, "/a/.": false, "/a/..": false, "/./a": false, "": false, "*": false,
	} {
		if got := isPlain(path); got != want {
			t.Errorf("%q: got %v", path, got)
		}
	}
}
