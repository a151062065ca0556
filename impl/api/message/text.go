package message

import (
	"cmp"
	"embed"
	"fmt"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"golang.org/x/text/language"
	"google.golang.org/protobuf/reflect/protoreflect"

	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	"github.com/writ-id/writ/impl/api/branding"
	languages "github.com/writ-id/writ/impl/api/language"
	"github.com/writ-id/writ/impl/core/setting"
)

//go:embed texts/*.yaml
var files embed.FS

// texts are the words of the product, by language and kind. They are the words of a setting
// that nobody says otherwise.
var texts = sync.OnceValues(func() (map[string]map[string]*eventv1.MessageTextSet, error) {
	all := map[string]map[string]*eventv1.MessageTextSet{}
	for _, language := range languages.Supported {
		content, err := files.ReadFile("texts/" + language + ".yaml")
		if err != nil {
			return nil, err
		}
		var written map[string]map[string]string
		if err := yaml.Unmarshal(content, &written); err != nil {
			return nil, fmt.Errorf("%s: %w", language, err)
		}
		all[language] = map[string]*eventv1.MessageTextSet{}
		for name, words := range written {
			one := &eventv1.MessageTextSet{}
			for property, text := range words {
				// The lines of a paragraph are only as long as our files like them.
				paragraphs := paragraphsOf(text)
				for i, lines := range paragraphs {
					paragraphs[i] = strings.Join(strings.Fields(lines), " ")
				}
				field := one.ProtoReflect().Descriptor().Fields().ByTextName(property)
				if field == nil {
					return nil, fmt.Errorf("%s: %s has no %s", language, name, property)
				}
				one.ProtoReflect().Set(field, protoreflect.ValueOfString(strings.Join(paragraphs, "\n\n")))
			}
			all[language][name] = one
		}
	}
	return all, nil
})

// subjectOf is what the words of a kind in a language are called where settings are stored.
func subjectOf(name, language string) string { return "message_texts/" + name + "/" + language }

// subjects are those that a message of a kind may need.
func subjects(name string) []string {
	all := []string{languages.Subject, branding.Subject}
	for _, language := range languages.Supported {
		all = append(all, subjectOf(name, language))
	}
	return all
}

// render returns the words of a message and the language they are in: the one that the
// user prefers, when the settings offer it, else the default one. There are texts in
// every language that settings can name. said is what is said of the subjects of its kind.
func render(m *Message, said setting.Said, origin string) (lang string, p *payload, err error) {
	offered, err := languages.Offered(said)
	if err != nil {
		return "", nil, err
	}
	lang = offered[0]
	if tag, err := language.Parse(m.Language); err == nil {
		lang = cmp.Or(languages.Of(tag, offered), lang)
	}
	all, err := texts()
	if err != nil {
		return "", nil, err
	}
	defaults, ok := all[lang][m.Template]
	if !ok {
		return "", nil, fmt.Errorf("message: there is no text %q in %q", m.Template, lang)
	}
	words, err := setting.Words[*eventv1.MessageTextSet](said, subjectOf(m.Template, lang))
	if err != nil {
		return "", nil, err
	}
	look, err := branding.LookOf(said)
	if err != nil {
		return "", nil, err
	}
	p, err = compose(kinds[m.Template], lang, setting.Applies(words, defaults), &m.Data, look, origin)
	return lang, p, err
}

// paragraphsOf returns the paragraphs of a text, which empty lines divide.
func paragraphsOf(text string) (paragraphs []string) {
	var lines []string
	for line := range strings.SplitSeq(text+"\n\n", "\n") {
		if strings.TrimSpace(line) != "" {
			lines = append(lines, strings.TrimRight(line, " \t"))
		} else if len(lines) > 0 {
			paragraphs, lines = append(paragraphs, strings.Join(lines, "\n")), nil
		}
	}
	return paragraphs
}

// How a user is called in a message, at most.
const (
	maxNameWords = 4
	maxNameRunes = 40
)

// spoken returns what of a name a message says: people say of themselves what they are
// called, and may register with the address of somebody else, who gets no links and no
// sentences from them. So a name is a few words of letters.
func spoken(name string) string {
	var words []string
	runes := 0
	for _, word := range strings.Fields(name) {
		if strings.ContainsFunc(word, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsMark(r) && !strings.ContainsRune("-'’", r)
		}) {
			continue
		}
		if runes += utf8.RuneCountInString(word); runes > maxNameRunes || len(words) == maxNameWords {
			break
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}
