package login

import (
	"context"
	"embed"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
	"golang.org/x/text/language"

	languagev3 "github.com/writ-id/writ/gen/proto/writ/language/v3alpha"
	languages "github.com/writ-id/writ/impl/language"
	"github.com/writ-id/writ/impl/policy"
)

//go:embed texts/*.yaml
var texts embed.FS

// catalogues are the texts by language and key.
var catalogues = func() map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, language := range languages.Supported {
		content, err := texts.ReadFile("texts/" + language + ".yaml")
		if err != nil {
			panic(err) // a defect that the first start finds
		}
		written := map[string]string{}
		if err := yaml.Unmarshal(content, &written); err != nil {
			panic(err)
		}
		all[language] = written
	}
	return all
}()

// words are the texts in one language.
type words struct{ language string }

func (w words) has(key string) bool { _, ok := catalogues[w.language][key]; return ok }

// get returns a text; args fill it in.
func (w words) get(key string, args ...any) string {
	text := catalogues[w.language][key]
	if len(args) > 0 {
		return fmt.Sprintf(text, args...)
	}
	return text
}

// Text returns a text to a template.
func (w words) Text(key string) string { return w.get(key) }

// Language returns the language to a template.
func (w words) Language() string { return w.language }

// wordsFor returns the texts for a request: in the first language asked for, by the
// flow or else the browser, that the settings of the instance allow.
func (p *Pages) wordsFor(r *http.Request, instance *policy.Instance, asked string) words {
	allowed := p.Languages(r, instance)
	for _, list := range []string{asked, r.Header.Get("Accept-Language")} {
		for _, tag := range parseLanguages(list) {
			base, _ := tag.Base()
			if slices.Contains(allowed, base.String()) {
				return words{base.String()}
			}
		}
	}
	return words{allowed[0]}
}

// Languages returns the languages that the pages of an instance are shown in, the
// default one first; during an outage what was known last.
func (p *Pages) Languages(r *http.Request, instance *policy.Instance) []string {
	if instance != nil {
		found, err := p.languages.Get(r.Context(), instance.ID, func(context.Context) ([]string, error) { return p.allowed(r, instance) })
		if err != nil {
			found, _ = p.languages.Last(instance.ID)
		}
		if len(found) > 0 {
			return found
		}
	}
	return []string{languages.Fallback}
}

// allowed returns the languages of an instance that there are texts in, its default
// one first.
func (p *Pages) allowed(r *http.Request, instance *policy.Instance) ([]string, error) {
	resolved, err := languages.New(p.Env).ResolveLanguages(p.as(r.Context(), instance, "", ""), &languagev3.ResolveLanguagesRequest{})
	if err != nil {
		return nil, err
	}
	found := []string{resolved.GetSettings().GetDefaultLanguage().GetValue()}
	for _, one := range resolved.GetSettings().GetRestrictedLanguages().GetValue() {
		if one.GetKey() != found[0] {
			found = append(found, one.GetKey())
		}
	}
	return slices.DeleteFunc(found, func(key string) bool { return catalogues[key] == nil }), nil
}

// What is read of a list of languages that somebody asks for (SEC-295).
const (
	maxLanguages    = 20
	maxLanguageText = 1000
)

// parseLanguages reads the tags of ui_locales or Accept-Language, the best first.
// One that is none is passed over.
func parseLanguages(list string) []language.Tag {
	if len(list) > maxLanguageText {
		return nil
	}
	type weighted struct {
		tag language.Tag
		q   float32
	}
	var found []weighted
	parts := strings.FieldsFunc(strings.ReplaceAll(list, "; ", ";"), func(r rune) bool { return r == ',' || r == ' ' })
	for _, part := range parts[:min(len(parts), maxLanguages)] {
		tags, q, err := language.ParseAcceptLanguage(part)
		if err == nil && len(tags) == 1 && q[0] > 0 {
			found = append(found, weighted{tags[0], q[0]})
		}
	}
	slices.SortStableFunc(found, func(a, b weighted) int {
		switch {
		case a.q > b.q:
			return -1
		case a.q < b.q:
			return 1
		}
		return 0
	})
	tags := make([]language.Tag, len(found))
	for i := range found {
		tags[i] = found[i].tag
	}
	return tags
}
