package page

import (
	"bytes"
	"html/template"
	"strconv"
	"strings"
	"sync"

	"github.com/writ-id/writ/impl/core/secret"
)

// Of the pages of a login only the flow and the login name are of one visit; the rest is
// that of the tenant, the language and the page. So a page is rendered with marks in
// their places, once for as long as the settings are remembered that it shows, and then
// filled in. The marks are random, in an alphabet that no context escapes, and what is
// filled in is never searched for them.
var flowMark, whoMark = mark(), mark()

func mark() string {
	return "m" + strings.NewReplacer("-", "a", "_", "b").Replace(secret.Random())
}

// sheet is a page that was rendered with marks: holes[i] follows texts[i].
type sheet struct {
	texts [][]byte
	holes []byte // 'f': the flow, 'w': the login name
}

// newSheet takes a rendered page apart.
func newSheet(page []byte) *sheet {
	s := &sheet{}
	for {
		at, hole, length := len(page), byte(0), 0
		for _, one := range []struct {
			mark string
			hole byte
		}{{flowMark, 'f'}, {whoMark, 'w'}} {
			if i := bytes.Index(page[:at], []byte(one.mark)); i >= 0 {
				at, hole, length = i, one.hole, len(one.mark)
			}
		}
		s.texts = append(s.texts, page[:at:at])
		if hole == 0 {
			return s
		}
		s.holes, page = append(s.holes, hole), page[at+length:]
	}
}

// plainText escapes a text for the content of an element and for an attribute in quotes,
// which html/template does alike; those are the places of the login name.
var plainText = template.Must(template.New("").Parse("{{.}}"))

// fill returns a page with what is of one visit.
func (s *sheet) fill(flow, who string) ([]byte, error) {
	var escaped bytes.Buffer
	if who != "" {
		if err := plainText.Execute(&escaped, who); err != nil {
			return nil, err
		}
	}
	var page bytes.Buffer
	page.Grow(8 << 10)
	for i, text := range s.texts {
		page.Write(text)
		switch {
		case i >= len(s.holes):
		case s.holes[i] == 'f':
			page.WriteString(flow)
		default:
			page.Write(escaped.Bytes())
		}
	}
	return page.Bytes(), nil
}

// maxSheets bounds the sheets that are kept: some megabytes.
const maxSheets = 500

// sheets are those rendered before, by their looks and what else they show. Looks are read
// anew every second, so what is of old ones is of no use, and goes when there are too many.
type sheets struct {
	mu    sync.Mutex
	known map[sheetKey]*sheet
}

type sheetKey struct {
	scene *scene
	rest  string
}

// of returns the sheet of a page, which render makes if it is not known.
func (s *sheets) of(p *Page, render func() (*sheet, error)) (*sheet, error) {
	rest, ok := p.key()
	if !ok {
		return render()
	}
	key := sheetKey{p.Words.scene, rest}
	s.mu.Lock()
	found := s.known[key]
	s.mu.Unlock()
	if found != nil {
		return found, nil
	}
	made, err := render()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= maxSheets {
		s.known = map[sheetKey]*sheet{}
	}
	s.known[key] = made
	return made, nil
}

// key returns all that a page shows besides its looks, false of one that is rendered each
// time: with what somebody typed, accounts or what is wrong. Each text is preceded by its
// length, so that no two pages have one key.
func (p *Page) key() (string, bool) {
	if p.Flow != flowMark || p.Who != "" && p.Who != whoMark || len(p.Errors) > 0 || len(p.Accounts) > 0 || len(p.Hidden) > 0 ||
		p.Code+p.RequestID+p.Received+p.Nonce != "" || len(p.Registered) > 0 {
		return "", false
	}
	key := make([]byte, 0, 512)
	add := func(texts ...string) {
		for _, text := range texts {
			key = append(strconv.AppendInt(key, int64(len(text)), 10), ':')
			key = append(key, text...)
		}
	}
	flags := func(flags ...bool) {
		for _, flag := range flags {
			key = strconv.AppendBool(key, flag)
		}
	}
	links := func(list []Link) {
		key = append(strconv.AppendInt(key, int64(len(list)), 10), ';')
		for _, one := range list {
			add(one.Text, one.Href)
		}
	}
	add(p.template, strconv.Itoa(p.status), p.Words.language, p.Brand.Host, p.Title, p.Head, p.Lead, p.Notice, string(p.Action), p.Who, p.Submit, string(p.Reveal))
	add(p.Handed...)
	links([]Link{p.Change, p.Cancel})
	links(p.Links)
	links(p.Other)
	links(p.Providers)
	for _, f := range p.Fields {
		if f.Value != "" || f.Error != "" {
			return "", false
		}
		add(f.Name, f.Type, f.Autocomplete, f.Label, f.Hint, strconv.Itoa(f.MinLength))
		flags(f.Username, f.Numeric, f.Optional, f.Focus)
	}
	return string(key), true
}
