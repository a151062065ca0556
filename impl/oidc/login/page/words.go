package page

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
	"golang.org/x/text/language"

	languages "github.com/writ-id/writ/impl/api/language"
	"github.com/writ-id/writ/impl/oidc/login/flow"
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

// Words are the texts in one language, the looks they stand in and the host they are of.
type Words struct {
	language string
	host     string
	scene    *scene
}

// Has reports whether there is a text.
func (w Words) Has(key string) bool { _, ok := catalogues[w.language][key]; return ok }

// Get returns a text; args fill it in.
func (w Words) Get(key string, args ...any) string {
	text := catalogues[w.language][key]
	if len(args) > 0 {
		return fmt.Sprintf(text, args...)
	}
	return text
}

// Text returns a text to a template.
func (w Words) Text(key string) string { return w.Get(key) }

// Language returns the language to a template.
func (w Words) Language() string { return w.language }

// Words returns the texts for a page on a host: in the first language of the lists that the
// settings allow of the instance or, when the login is one for an organization, of that. Of no
// instance nothing is known.
func (r *Renderer) Words(ctx context.Context, host, instanceID, orgID string, lists ...string) Words {
	scene := r.scene(ctx, instanceID, orgID)
	for _, list := range lists {
		for _, tag := range parseLanguages(list) {
			if found := languages.Of(tag, scene.languages); found != "" {
				return Words{found, host, scene}
			}
		}
	}
	return Words{scene.languages[0], host, scene}
}

// Languages returns the languages that the pages of an instance are shown in, the
// default one first; during an outage what was known last.
func (r *Renderer) Languages(ctx context.Context, instanceID string) []string {
	return r.scene(ctx, instanceID, "").languages
}

// What is read of a list of languages that somebody asks for (SEC-295).
const maxLanguages = 20

// parseLanguages reads the tags of ui_locales or Accept-Language, the best first.
// One that is none is passed over.
func parseLanguages(list string) []language.Tag {
	if len(list) > flow.MaxLanguages {
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
