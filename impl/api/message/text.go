package message

import (
	"cmp"
	"embed"
	"fmt"
	html "html/template"
	"strings"
	"sync"
	"text/template"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"golang.org/x/text/language"

	languages "github.com/writ-id/writ/impl/api/language"
)

//go:embed texts/*.yaml
var files embed.FS

type text struct {
	subject, text *template.Template
}

// texts are the texts by language and name.
var texts = sync.OnceValues(func() (map[string]map[string]text, error) {
	entries, err := files.ReadDir("texts")
	if err != nil {
		return nil, err
	}
	all := map[string]map[string]text{}
	for _, entry := range entries {
		content, err := files.ReadFile("texts/" + entry.Name())
		if err != nil {
			return nil, err
		}
		var written map[string]struct{ Subject, Text string }
		if err := yaml.Unmarshal(content, &written); err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		language := strings.TrimSuffix(entry.Name(), ".yaml")
		all[language] = map[string]text{}
		for name, one := range written {
			subject, err := template.New(name).Option("missingkey=error").Parse(one.Subject)
			if err != nil {
				return nil, err
			}
			body, err := template.New(name).Option("missingkey=error").Parse(one.Text)
			if err != nil {
				return nil, err
			}
			all[language][name] = text{subject, body}
		}
	}
	return all, nil
})

// render returns the words of a message and the language they are in: the one that the
// user prefers, when the settings offer it, else the default one. There are texts in
// every language that settings can name.
func render(m *Message, offered []string) (lang string, p payload, err error) {
	all, err := texts()
	if err != nil {
		return "", p, err
	}
	lang = offered[0]
	if tag, err := language.Parse(m.Language); err == nil {
		lang = cmp.Or(languages.Of(tag, offered), lang)
	}
	one, ok := all[lang][m.Template]
	if !ok {
		return "", p, fmt.Errorf("message: there is no text %q in %q", m.Template, lang)
	}
	m.Data.Name = spoken(m.Data.Name)
	var subject, body strings.Builder
	if err := one.subject.Execute(&subject, m.Data); err != nil {
		return "", p, err
	}
	if err := one.text.Execute(&body, m.Data); err != nil {
		return "", p, err
	}
	p = payload{Subject: subject.String(), Text: body.String(), Code: m.Data.Code}
	if m.Kind == Email {
		p.HTML, err = page(lang, p.Subject, p.Text)
	}
	return lang, p, err
}

//go:embed mail/mail.html
var mailFile string

var mail = html.Must(html.New("mail").Parse(mailFile))

// page returns the words of an e-mail as HTML: a paragraph for each that has an empty line
// before it. Whatever is in them stays text (SEC-149).
func page(language, subject, text string) (string, error) {
	var out strings.Builder
	err := mail.Execute(&out, map[string]any{
		"Language": language, "Subject": subject, "Paragraphs": strings.Split(strings.TrimSpace(text), "\n\n"),
	})
	return out.String(), err
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
