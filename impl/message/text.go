package message

import (
	"embed"
	"fmt"
	"strings"
	"sync"
	"text/template"

	"go.yaml.in/yaml/v4"
)

//go:embed texts/*.yaml
var files embed.FS

// defaultLanguage is that of users who prefer none that there are texts in.
const defaultLanguage = "en"

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

// render returns the words of a message and the language they are in.
func render(m *Message) (language string, p payload, err error) {
	all, err := texts()
	if err != nil {
		return "", p, err
	}
	language, _, _ = strings.Cut(strings.ToLower(m.Language), "-")
	one, ok := all[language][m.Template]
	if !ok {
		language = defaultLanguage
		if one, ok = all[language][m.Template]; !ok {
			return "", p, fmt.Errorf("message: there is no text %q", m.Template)
		}
	}
	var subject, body strings.Builder
	if err := one.subject.Execute(&subject, m.Data); err != nil {
		return "", p, err
	}
	if err := one.text.Execute(&body, m.Data); err != nil {
		return "", p, err
	}
	// A subject is one line, whatever a name in it holds.
	return language, payload{Subject: strings.Join(strings.Fields(subject.String()), " "), Text: body.String(), Code: m.Data.Code}, nil
}
