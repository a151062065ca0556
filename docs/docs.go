// Package docs holds the pages for people who use Writ: Markdown, which the server renders
// below /docs/guides in the design of the API reference, and whose commands and files
// conformance/docs runs as they stand here.
package docs

import (
	"bytes"
	"embed"
	"fmt"
	"strings"
)

//go:embed *.md start/*.md concepts/*.md howto/*.md moving/*.md
var files embed.FS

// contents are the pages in the order in which they are listed.
var contents = []Section{
	{Title: "Quick start", Pages: pages("start", "five-minutes", "go", "javascript", "python", "java", "browser", "apache", "generated")},
	{Title: "Concepts", Pages: pages("concepts", "contexts", "grants", "settings", "tokens")},
	{Title: "How to", Pages: pages("howto", "register-an-application", "ci", "recipes", "proxies", "rotate-keys", "webhooks", "identity-providers", "move-a-tenant", "observe", "production", "deploy")},
	{Title: "Moving here", Pages: pages("moving", "keycloak", "auth0", "zitadel")},
	{Title: "More", Pages: pages("", "faq")},
}

// Section is a part of the contents.
type Section struct {
	Title string
	Pages []*Page
}

// Page is one page.
type Page struct {
	Name     string // what its address ends with, and its file without .md
	Title    string // the first heading
	Markdown []byte // what follows it
}

func pages(folder string, names ...string) (all []*Page) {
	for _, name := range names {
		if folder != "" {
			name = folder + "/" + name
		}
		all = append(all, &Page{Name: name})
	}
	return all
}

// Names are the names of all pages.
func Names() (all []string) {
	for _, section := range contents {
		for _, page := range section.Pages {
			all = append(all, page.Name)
		}
	}
	return all
}

// Contents reads all pages.
func Contents() (all []Section, err error) {
	for _, section := range contents {
		read := Section{Title: section.Title}
		for _, page := range section.Pages {
			text, err := files.ReadFile(page.Name + ".md")
			if err != nil {
				return nil, err
			}
			title, rest, ok := bytes.Cut(text, []byte("\n"))
			name, heading := strings.CutPrefix(string(title), "# ")
			if !ok || !heading {
				return nil, fmt.Errorf("docs: %s.md does not begin with its title", page.Name)
			}
			read.Pages = append(read.Pages, &Page{Name: page.Name, Title: name, Markdown: rest})
		}
		all = append(all, read)
	}
	return all, nil
}
