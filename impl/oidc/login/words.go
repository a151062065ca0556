package login

import (
	"embed"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
	"golang.org/x/text/language"

	languages "github.com/writ-id/writ/impl/api/language"
	"github.com/writ-id/writ/impl/core/policy"
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

// words are the texts in one language, and the looks they stand in.
type words struct {
	language string
	scene    *scene
}

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
// flow or else the browser, that the settings allow of the instance or, when the login
// is one for an organization, of that.
func (p *Pages) wordsFor(r *http.Request, instance *policy.Instance, orgID, asked string) words {
	scene := p.scene(r, instance, orgID)
	for _, list := range []string{asked, r.Header.Get("Accept-Language")} {
		for _, tag := range parseLanguages(list) {
			if found := languages.Of(tag, scene.languages); found != "" {
				return words{found, scene}
			}
		}
	}
	return words{scene.languages[0], scene}
}

// Languages returns the languages that the pages of an instance are shown in, the
// default one first; during an outage what was known last.
func (p *Pages) Languages(r *http.Request, instance *policy.Instance) []string {
	return p.scene(r, instance, "").languages
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
