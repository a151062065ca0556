package reference

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strings"
)

//go:embed page.html
var pageText string

//go:embed page.css
var style string

//go:embed page.js
var script string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"prose": prose,
	"path":  pathHTML,
	"lower": strings.ToLower,
	"shell": shellHTML,
	"humps": humpsHTML,
	"dots":  dotsHTML,
}).Parse(pageText + guideText))

// originPlaceholder stands in the rendered page where the origin of the
// request goes.
const originPlaceholder = "origin.invalid"

// page is what page.html shows: of all services, of one, or a guide to several.
type page struct {
	Style    template.HTML
	Script   template.HTML
	Version  string
	Origin   string
	License  struct{ Name, URL string }
	Services []service
	Shared   []refusal
	Service  *service // the one that the page is about; nil on others
	Guide    string   // the title of a page that is about no one service
	Chapters []chapter
	Written  *written // the page of docs/ that this is; nil on others
	Events   *catalogue
}

type service struct {
	Name, Title, Description string
	Href                     string // of its page
	Package                  string // of the proto, empty for hand-written paths
	Operations               []*entryView
}

// entryView is one operation.
type entryView struct {
	ID, Verb, Path       string
	Summary, Description string
	Permission, Feature  string
	Levels               string
	GRPC                 string
	Public               bool // needs no token
	Client               bool // an OAuth client calls it, with its own credentials
	Parameters           []fieldGroup
	Body                 *bodyView
	Answers              []answerView
	Refusals             []refusal
	Curl                 string
}

type fieldGroup struct {
	Title string
	Rows  []row
}

type bodyView struct {
	Type        string
	Description string
	Row         row
}

type answerView struct {
	Status, Description string
	Headers             []string
	Row                 row
	Type                string
}

type refusal struct {
	Status, Description string
	Headers             []string
}

// row is a field, a parameter or a whole body.
type row struct {
	Name, Type  string
	Presence    string // required, in answers optional
	Limits      []string
	Description string
	Values      []value
	Notes       []string // how fields exclude each other
	Rows        []row
	Seen        bool // its fields are shown further up
}

type value struct{ Name, Description string }

// paths returns the paths of the pages of services.
func paths(text []byte) ([]string, error) {
	var doc struct{ Tags []struct{ Name string } }
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	var all []string
	for _, tag := range doc.Tags {
		all = append(all, pathOf(tag.Name))
	}
	return all, nil
}

// pathOf returns the path of the page of a service: ServiceUserSchemas is at
// /docs/user-schemas.
func pathOf(tag string) string {
	return pathDocs + "/" + strings.ReplaceAll(strings.ToLower(spaced(strings.TrimPrefix(tag, "Service"))), " ", "-")
}

// render returns the pages of an OpenAPI document by path, with the services of further ones.
func render(text []byte, further ...[]byte) (map[string][]byte, error) {
	read := func(text []byte) (*page, error) {
		var doc document
		if err := json.Unmarshal(text, &doc); err != nil {
			return nil, err
		}
		return (&builder{doc: &doc}).page()
	}
	view, err := read(text)
	if err != nil {
		return nil, err
	}
	for _, text := range further {
		more, err := read(text)
		if err != nil {
			return nil, err
		}
		view.Services = append(view.Services, more.Services...)
	}
	pages := map[string][]byte{}
	put := func(path string) error {
		var b bytes.Buffer
		err := pageTemplate.Execute(&b, view)
		pages[path] = b.Bytes()
		return err
	}
	if err := put(pathDocs); err != nil {
		return nil, err
	}
	for path, title := range guides {
		view.Guide = title
		if err := put(path); err != nil {
			return nil, err
		}
	}
	view.Guide = "Guides"
	if err := put(pathGuides); err != nil {
		return nil, err
	}
	for _, chapter := range view.Chapters {
		for _, one := range chapter.Pages {
			view.Written = one
			if err := put(one.Href); err != nil {
				return nil, err
			}
		}
	}
	view.Guide, view.Written = "", nil
	for i := range view.Services {
		view.Service = &view.Services[i]
		if err := put(view.Service.Href); err != nil {
			return nil, err
		}
	}
	return pages, nil
}

type builder struct{ doc *document }

// where a field stands decides what is worth saying: of a request, what must be
// sent; of an answer, what may be absent.
type where bool

const (
	sent     where = false
	answered where = true
)

func (w where) presence(required bool) string {
	switch {
	case w == sent && required:
		return "required"
	case w == answered && !required:
		return "optional"
	}
	return ""
}

var verbs = []string{"get", "put", "post", "delete", "patch", "head", "options", "trace"}

func (b *builder) page() (*page, error) {
	p := &page{
		Style:   template.HTML("<style>" + style + "</style>"),    //nolint:gosec // our own file
		Script:  template.HTML("<script>" + script + "</script>"), //nolint:gosec // our own file
		Version: b.doc.Info.Version,
		Origin:  originPlaceholder,
		License: b.doc.Info.License,
	}
	byTag := map[string]*service{}
	for _, tag := range b.doc.Tags {
		p.Services = append(p.Services, service{Name: tag.Name, Title: spaced(strings.TrimPrefix(tag.Name, "Service")), Href: pathOf(tag.Name), Description: tag.Description})
	}
	for i := range p.Services {
		byTag[p.Services[i].Name] = &p.Services[i]
	}
	for _, path := range b.doc.Paths {
		for _, item := range path.Value {
			if !slices.Contains(verbs, item.Name) {
				continue
			}
			var op operation
			if err := json.Unmarshal(item.Value, &op); err != nil {
				return nil, fmt.Errorf("%s %s: %w", item.Name, path.Name, err)
			}
			view, err := b.operation(item.Name, path.Name, &op)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", item.Name, path.Name, err)
			}
			if len(op.Tags) == 0 || byTag[op.Tags[0]] == nil {
				return nil, fmt.Errorf("%s %s: needs a tag of the document", item.Name, path.Name)
			}
			service := byTag[op.Tags[0]]
			service.Operations = append(service.Operations, view)
			if name, _, ok := strings.Cut(strings.TrimPrefix(op.GRPCMethod, "/"), "/"); ok {
				service.Package = name
			}
		}
	}
	shared, err := b.shared()
	if err != nil {
		return nil, err
	}
	p.Shared = shared
	if p.Events, err = b.catalogue(); err != nil {
		return nil, err
	}
	p.Chapters, err = readGuides()
	return p, err
}

// shared returns the shared refusals, the first of each status. Only the
// operations know the statuses.
func (b *builder) shared() ([]refusal, error) {
	statuses := map[string]string{}
	for _, path := range b.doc.Paths {
		for _, item := range path.Value {
			var op operation
			if slices.Contains(verbs, item.Name) {
				if err := json.Unmarshal(item.Value, &op); err != nil {
					return nil, err
				}
			}
			for _, response := range op.Responses {
				if name, ok := strings.CutPrefix(response.Value.Ref, "#/components/responses/"); ok {
					statuses[name] = response.Name
				}
			}
		}
	}
	var all []refusal
	for _, response := range b.doc.Components.Responses {
		status := statuses[response.Name]
		if status >= "400" && !slices.ContainsFunc(all, func(r refusal) bool { return r.Status == status }) {
			all = append(all, refusal{status, response.Value.Description, headerNames(response.Value)})
		}
	}
	return all, nil
}

func headerNames(r *response) []string {
	var names []string
	for _, header := range r.Headers {
		names = append(names, header.Name)
	}
	return names
}

func (b *builder) operation(verb, path string, op *operation) (*entryView, error) {
	view := &entryView{
		ID: op.OperationID, Verb: strings.ToUpper(verb), Path: path,
		Summary: strings.TrimSuffix(op.Summary, "."), Description: op.Description,
		Permission: op.Permission, Feature: op.Feature, GRPC: op.GRPCMethod, Levels: strings.Join(op.Levels, ", "),
		Public: op.Security != nil && len(op.Security) == 0,
		Client: slices.ContainsFunc(op.Security, func(one map[string][]string) bool { _, ok := one["client"]; return ok }),
	}
	groups := map[string]*fieldGroup{}
	for _, p := range op.Parameters {
		p, err := resolve(b.doc.Components.Parameters, p.Ref, p)
		if err != nil {
			return nil, err
		}
		field, err := b.row(sent, p.Name, p.Schema, nil)
		if err != nil {
			return nil, err
		}
		field.Presence = sent.presence(p.Required)
		if p.Schema != nil && p.Schema.Ref != "" { // its text is about the type, not the parameter
			field.Description = ""
		}
		field.Description = strings.TrimSpace(p.Description + " " + field.Description)
		if groups[p.In] == nil {
			groups[p.In] = &fieldGroup{Title: strings.ToUpper(p.In[:1]) + p.In[1:]}
		}
		groups[p.In].Rows = append(groups[p.In].Rows, field)
	}
	for _, in := range []string{"path", "query", "header", "cookie"} {
		if groups[in] != nil {
			view.Parameters = append(view.Parameters, *groups[in])
		}
	}
	var body *requestBody
	if op.RequestBody != nil {
		var err error
		if body, err = resolve(b.doc.Components.RequestBodies, op.RequestBody.Ref, op.RequestBody); err != nil {
			return nil, err
		}
		for _, media := range body.Content[:min(1, len(body.Content))] {
			field, err := b.row(sent, "", media.Value.Schema, nil)
			if err != nil {
				return nil, err
			}
			view.Body = &bodyView{Type: media.Name, Description: body.Description, Row: field}
		}
	}
	for _, response := range op.Responses {
		r, err := resolve(b.doc.Components.Responses, response.Value.Ref, response.Value)
		if err != nil {
			return nil, err
		}
		if response.Name >= "400" {
			view.Refusals = append(view.Refusals, refusal{response.Name, r.Description, headerNames(r)})
			continue
		}
		answer := answerView{Status: response.Name, Description: strings.TrimSuffix(r.Description, "."), Headers: headerNames(r)}
		for _, media := range r.Content[:min(1, len(r.Content))] {
			answer.Type = media.Name
			if answer.Row, err = b.row(answered, "", media.Value.Schema, nil); err != nil {
				return nil, err
			}
		}
		view.Answers = append(view.Answers, answer)
	}
	view.Curl = curl(view, op, body)
	return view, nil
}

// row describes s. within holds the names of the components it is part of.
func (b *builder) row(at where, name string, s *schema, within []string) (row, error) {
	if s == nil {
		return row{Name: name}, nil
	}
	r := row{Name: name, Description: s.Description}
	component := s.Ref
	if component == "" && len(s.AllOf) == 1 {
		component = s.AllOf[0].Ref
	}
	var excluded []any // values of an enum that may not be sent here
	if component != "" {
		if s.Not != nil {
			excluded = s.Not.Enum
		}
		target, err := resolve(b.doc.Components.Schemas, component, s)
		if err != nil {
			return r, err
		}
		s = target
		if slices.Contains(within, component) {
			r.Type, r.Seen = typeOf(s), true
			return r, nil
		}
		within = append(slices.Clone(within), component)
		if r.Description == "" && len(s.Enum) > 0 {
			r.Description = s.Description
		}
	}
	r.Type = typeOf(s)
	r.Limits = limits(s)
	inner := s
	if s.Type == "array" && s.Items != nil {
		item, err := b.row(at, "", s.Items, within)
		if err != nil {
			return r, err
		}
		r.Type = "list of " + plural(item.Type)
		for _, limit := range item.Limits {
			r.Limits = append(r.Limits, "each "+limit)
		}
		r.Values, r.Notes, r.Rows, r.Seen = item.Values, item.Notes, item.Rows, item.Seen
		if item.Description != "" && len(item.Rows) == 0 {
			r.Description = strings.TrimSpace(r.Description + " " + item.Description)
		}
		return r, nil
	}
	if isSchema(s.AdditionalProperties) && len(s.Properties) == 0 {
		var values schema
		if err := json.Unmarshal(s.AdditionalProperties, &values); err != nil {
			return r, err
		}
		item, err := b.row(at, "", &values, within)
		if err != nil {
			return r, err
		}
		r.Type = "map to " + item.Type
		r.Rows = item.Rows
		return r, nil
	}
	for _, v := range inner.Enum {
		if name, ok := v.(string); ok && !slices.Contains(excluded, v) {
			r.Values = append(r.Values, value{name, inner.EnumDescriptions[name]})
		}
	}
	for _, property := range inner.Properties {
		field, err := b.row(at, property.Name, property.Value, within)
		if err != nil {
			return r, err
		}
		field.Presence = at.presence(slices.Contains(inner.Required, property.Name))
		r.Rows = append(r.Rows, field)
	}
	r.Notes = exclusions(inner)
	return r, nil
}

// isSchema reports whether additionalProperties is one, not true or false.
func isSchema(text json.RawMessage) bool { return bytes.HasPrefix(text, []byte("{")) }
