package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// table is what the process serves: the one net/http.ServeMux. Its patterns are paths
// alone and each has its own methods, because a path that is named belongs to who names
// it: DELETE /memberships/_available_roles is not the deletion of a membership that is
// called so, which patterns with methods would make it, and HEAD is not served where
// the contract has only GET.
type table struct {
	mux   *http.ServeMux
	paths map[string]*path
}

func emptyTable() *table { return &table{http.NewServeMux(), map[string]*path{}} }

// ServeHTTP implements http.Handler.
func (t *table) ServeHTTP(w http.ResponseWriter, r *http.Request) { t.mux.ServeHTTP(w, r) }

// path is a pattern and what it does by method.
type path struct {
	pattern string
	methods map[string]http.Handler
	allowed string // the Allow of its refusals
	refuse  func(w http.ResponseWriter, r *http.Request, allowed string)
}

// group is a part of the table whose requests take the same steps.
type group struct {
	*table
	steps  []step
	refuse func(w http.ResponseWriter, r *http.Request, allowed string)
}

// step is one of the things that are done to a request on its way.
type step func(http.Handler) http.Handler

// through returns a handler behind steps, the first of which comes first.
func through(handler http.Handler, steps ...step) http.Handler {
	for _, one := range slices.Backward(steps) {
		handler = one(handler)
	}
	return handler
}

// any serves all methods of a pattern.
func (g *group) any(pattern string, handler http.Handler) {
	g.mux.Handle(pattern, through(labelled(pattern, handler), g.steps...))
}

// on serves one method of a pattern. It panics, as the mux does, when that is taken, or
// when another pattern stands for the same paths.
func (g *group) on(method, pattern string, handler http.Handler) {
	at := g.paths[pattern]
	if at == nil {
		at = &path{pattern: pattern, methods: map[string]http.Handler{}, refuse: g.refuse}
		g.paths[pattern] = at
		g.mux.Handle(pattern, through(at, g.steps...))
		if rest := strings.LastIndex(pattern, "{"); strings.HasSuffix(pattern, "...}") { // not for what has no rest
			g.mux.Handle(pattern[:rest]+"{$}", through(http.HandlerFunc(serveUnknown), g.steps...))
		}
	}
	if at.methods[method] != nil {
		panic(fmt.Sprintf("%s %s is there twice", method, pattern))
	}
	at.methods[method] = labelled(pattern, handler)
	at.allowed = ""
	for _, one := range methodOrder {
		if at.methods[one] != nil {
			at.allowed = strings.TrimPrefix(at.allowed+", "+one, ", ")
		}
	}
}

var methodOrder = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// share gives the paths that end in a literal the methods that a variable in its place
// has, and they have not: "_search" is a key of metadata too, which is put and deleted.
// A path without variables stays its own: no ID that it might be is anybody's choice.
func (t *table) share() {
	for pattern, at := range t.paths {
		end := strings.LastIndex(pattern, "/") + 1
		for other, from := range t.paths {
			name, isVariable := strings.CutPrefix(other, pattern[:end]+"{")
			if !isVariable || strings.Contains(name, "/") || !strings.Contains(pattern[:end], "{") || strings.Contains(pattern[end:], "{") {
				continue
			}
			for method, handler := range from.methods {
				if at.methods[method] == nil {
					at.methods[method] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						r.SetPathValue(strings.TrimSuffix(name, "}"), pattern[end:])
						handler.ServeHTTP(w, r)
					})
				}
			}
		}
	}
}

// ServeHTTP implements http.Handler.
func (p *path) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if handler := p.methods[r.Method]; handler != nil {
		handler.ServeHTTP(w, r)
		return
	}
	p.refuse(w, r, p.allowed)
}

// HandleFunc takes "METHOD /path", as the generated code of OAuth mounts it. What has a
// GET there has a HEAD.
func (g *group) HandleFunc(pattern string, handle func(http.ResponseWriter, *http.Request)) {
	method, pattern, _ := strings.Cut(pattern, " ")
	g.on(method, pattern, http.HandlerFunc(handle))
	if method == http.MethodGet {
		g.on(http.MethodHead, pattern, http.HandlerFunc(handle))
	}
}

// either is two groups that generated code mounts its routes in: some patterns in their own,
// all others in the rest.
type either struct {
	patterns  []string
	own, rest *group
}

// HandleFunc is as that of group.
func (e either) HandleFunc(pattern string, handle func(http.ResponseWriter, *http.Request)) {
	if slices.Contains(e.patterns, pattern) {
		e.own.HandleFunc(pattern, handle)
		return
	}
	e.rest.HandleFunc(pattern, handle)
}

// ServeHTTP implements http.Handler.
func (e either) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.rest.ServeHTTP(w, r) }

// labelled notes for the access line what was asked for.
func labelled(pattern string, handler http.Handler) http.Handler {
	label := strings.TrimSuffix(pattern, "{$}")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e, ok := w.(*exchange); ok {
			e.request.Route = label
		}
		handler.ServeHTTP(w, r)
	})
}

// isPlain reports whether a path is written as the mux has it. What is not is nowhere:
// the mux would send the client on, which a call is not made for.
func isPlain(path string) bool {
	return strings.HasPrefix(path, "/") && !strings.Contains(path, "//") && !strings.Contains(path+"/", "/./") && !strings.Contains(path+"/", "/../")
}
