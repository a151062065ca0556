package page

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"slices"
	"time"

	"github.com/writ-id/writ/impl/core/cache"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/oidc/login/flow"
)

//go:embed templates/*.html
var files embed.FS

var templates = template.Must(template.ParseFS(files, "templates/*.html"))

// Renderer draws pages. It is safe for concurrent use.
type Renderer struct {
	db     *store.DB
	scenes *cache.Cache[string, *scene] // of instances and organizations
	sheets sheets
}

// NewRenderer returns a Renderer of the settings in a database.
func NewRenderer(db *store.DB, now func() time.Time) *Renderer {
	return &Renderer{db: db, scenes: cache.New[string, *scene](func(id string) string { return id }).By(now)}
}

// Forget drops what is remembered of settings.
func (r *Renderer) Forget() { r.scenes.Drop() }

// Answer is a page as it is sent.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Login completes a page of a login with the flow, as it travels, and with the mistakes that
// were made on it.
func (p *Page) Login(f *flow.Flow, sealed string, mistakes []Mistake) {
	p.flow, p.who, p.Flow = sealed, p.Who, flowMark
	if p.Who != "" {
		p.Who = whoMark
	}
	if f.Asked().Request != "" {
		p.Cancel = p.Words.Link("cancel", flow.PathCancel)
	}
	for i := range p.Links {
		p.Links[i].Href += "?flow=" + flowMark
	}
	if p.Change.Href != "" {
		p.Change.Href += "?flow=" + flowMark
	}
	for i := range p.Fields {
		p.field(i, mistakes)
	}
	if len(p.Errors) > 0 {
		p.status = http.StatusBadRequest
	}
	if slices.ContainsFunc(p.Fields, func(f Field) bool { return f.Type == "password" }) {
		p.Reveal = template.JS(reveal) //nolint:gosec // our own file
	}
}

// field fills in the texts of an entry, with what is wrong with it.
func (p *Page) field(i int, mistakes []Mistake) {
	f, w := &p.Fields[i], p.Words
	if f.Label == "" {
		f.Label = w.Get("field." + f.Name)
	}
	if f.Hint == "" && w.Has("hint."+f.Name) {
		f.Hint = w.Get("hint." + f.Name)
	}
	for _, one := range mistakes {
		if one.Field == f.Name && f.Error == "" {
			f.Error = w.Get(one.Key)
			p.Errors = append(p.Errors, fieldError{f.Name, f.Error})
		}
	}
	f.Focus = i == 0 && len(mistakes) == 0 || f.Error != "" && len(p.Errors) == 1
}

// Render draws a page. Its form may go to ourselves and to what targets allow.
func (r *Renderer) Render(p *Page, secure bool, targets string) (*Answer, error) {
	p.Title = p.Words.title(p.Head)
	if len(p.Errors) > 0 {
		p.Title = p.Words.Get("title.error", p.Title)
	}
	p.Style, p.Brand = StyleURL, p.Words.brand()
	sheet, err := r.sheets.of(p, func() (*sheet, error) {
		var body bytes.Buffer
		err := templates.ExecuteTemplate(&body, p.template, p)
		return newSheet(body.Bytes()), err
	})
	if err != nil {
		return nil, err
	}
	body, err := sheet.fill(p.flow, p.who)
	if err != nil {
		return nil, err
	}
	script := ""
	switch {
	case p.Nonce != "":
		script = "'nonce-" + p.Nonce + "'"
	case p.Reveal != "":
		script = RevealHash
	}
	a := &Answer{Status: p.status, Header: http.Header{}, Body: body}
	secureHeaders(a.Header, secure, targets, script, p.Words.scene.hash)
	a.Header.Set("Content-Type", "text/html; charset=utf-8")
	a.Header.Set("Content-Language", p.Words.language)
	return a, nil
}
