package main

import (
	"fmt"
	"slices"
	"strings"
)

// services reads the operations, grouped as the contract groups them.
func (r *reader) services() error {
	groups := map[string]*service{}
	for _, tag := range r.doc.Tags {
		s := &service{Name: strings.TrimPrefix(tag.Name, "Service"), Doc: strings.TrimPrefix(tag.Description, tag.Name+" ")}
		groups[tag.Name] = s
		r.model.Services = append(r.model.Services, s)
	}
	for _, path := range r.doc.Paths {
		for _, verb := range path.value {
			if slices.Contains(pages, verb.value.ID) {
				continue
			}
			s := groups[verb.value.Tags[0]]
			if s == nil {
				return fmt.Errorf("%s: the tag %s is not described: give the service a comment", verb.value.ID, verb.value.Tags[0])
			}
			c, err := r.call(path.name, strings.ToUpper(verb.name), verb.value)
			if err != nil {
				return fmt.Errorf("%s: %w", verb.value.ID, err)
			}
			s.Operations = append(s.Operations, c)
			if _, async := verb.value.Responses.get("202"); async {
				started := *c
				started.Name, started.Started = "Start"+c.Name, true
				started.Doc = "Is like the call before, but does not wait: the answer is the operation, which goes on by itself."
				started.Result = &ref{Kind: "message", Name: "TransferOperation"}
				s.Operations = append(s.Operations, &started)
			}
		}
	}
	r.model.Services = slices.DeleteFunc(r.model.Services, func(s *service) bool { return len(s.Operations) == 0 })
	return nil
}

func (r *reader) call(path, verb string, o operation) (*call, error) {
	c := &call{
		Name: o.ID, Verb: verb, Path: path, RPC: o.Method, Auth: "none",
		Doc:        strings.TrimSpace(strings.TrimSuffix(o.Summary, ".") + ".\n\n" + o.Description),
		Repeatable: verb == "GET" || verb == "PUT" || verb == "DELETE" || strings.HasSuffix(path, "/_search"),
	}
	for _, way := range o.Security {
		for name := range way {
			c.Auth = map[string]string{"client": "client", "bearer": "bearer", "oauth2": "bearer"}[name]
		}
	}
	for _, p := range o.Parameters {
		if name, ok := strings.CutPrefix(p.Ref, "#/components/parameters/"); ok {
			p, _ = r.doc.Components.Parameters.get(name)
		}
		of, err := r.ref(p.Schema)
		if err != nil {
			return nil, err
		}
		if of.Kind == "uint64" || of.Kind == "int64" {
			of = &ref{Kind: "integer"}
		}
		name := p.Name[strings.LastIndex(p.Name, ".")+1:]
		if strings.HasPrefix(p.Name, "ctx.") && name == "system" {
			name = "ctxSystem"
		}
		each := &param{Name: name, Wire: p.Name, Doc: p.Description, In: p.In, Type: of}
		switch {
		case p.In == "path":
			c.PathParams = append(c.PathParams, each)
		case p.Name == "If-None-Match" || p.Name == "Range": // what a call's headers are for
		default:
			c.Query = append(c.Query, each)
		}
	}
	if err := r.bodyOf(c, o); err != nil {
		return nil, err
	}
	for _, answer := range o.Responses {
		if answer.name[0] != '2' || c.Result != nil {
			continue
		}
		body, ok := answer.value.Content.get("application/json")
		if !ok {
			continue
		}
		var err error
		if c.Result, err = r.ref(body.Schema); err != nil {
			return nil, err
		}
	}
	r.pages(c)
	return c, nil
}

func (r *reader) bodyOf(c *call, o operation) error {
	if o.RequestBody == nil || len(o.RequestBody.Content) == 0 {
		return nil
	}
	kind := o.RequestBody.Content[0]
	of, err := r.ref(kind.value.Schema)
	c.Body = &body{Name: "body", Doc: o.RequestBody.Description, Type: of, Example: kind.value.Example}
	if err != nil {
		return err
	}
	c.Body.Form = kind.name == "application/x-www-form-urlencoded"
	switch {
	case of.Kind == "list":
		c.Body.Name = "filters"
	case strings.HasSuffix(of.Name, "Request") || c.Body.Form:
		c.Body.Name = "request"
	case c.Verb == "PATCH":
		c.Body.Name = "patch"
	case of.Kind == "message":
		c.Body.Name = camel(strings.TrimPrefix(strings.TrimSuffix(of.Name, "IDP"), "Set"))
		if strings.HasSuffix(of.Name, "IDP") {
			c.Body.Name = "idp"
		}
	}
	return nil
}

// pages finds out whether a call answers a page of a list.
func (r *reader) pages(c *call) {
	offset := slices.ContainsFunc(c.Query, func(p *param) bool { return p.Wire == "query.offset" })
	if !offset || c.Result == nil {
		return
	}
	for _, f := range r.model.byName[c.Result.Name].Fields {
		if f.Wire == "result" && f.Type.Kind == "list" {
			c.Item = f.Type.Elem
		}
	}
	c.Follows = slices.ContainsFunc(c.Query, func(p *param) bool { return p.Wire == "after" })
}
