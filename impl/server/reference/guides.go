package reference

import (
	"bytes"
	"html"
	"html/template"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"

	"github.com/writ-id/writ/docs"
)

// pathGuides is the path of the list of the written pages; they are below it.
const pathGuides = pathDocs + "/guides"

// chapter is a part of their contents.
type chapter struct {
	Title string
	Pages []*written
}

// written is one of them.
type written struct {
	Href, Title string
	Lead        template.HTML // its first paragraph
	Body        template.HTML // all of it, with the lead
	Words       string        // those of it, each once, for the search
}

var markdown = goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()))

// local finds what the files of docs/ say of this machine: the origin of the request stands
// there on the page.
const local = "http://127.0.0.1:8080"

var (
	toFile   = regexp.MustCompile(`href="([^":]*)\.md(#[^"]*)?"`)
	codeOpen = []byte("<pre><code")
)

// guidePaths are the paths of the pages of docs/.
func guidePaths() (all []string) {
	for _, name := range docs.Names() {
		all = append(all, pathGuides+"/"+name)
	}
	return all
}

// readGuides renders the pages of docs/.
func readGuides() ([]chapter, error) {
	sections, err := docs.Contents()
	if err != nil {
		return nil, err
	}
	var all []chapter
	for _, section := range sections {
		one := chapter{Title: section.Title}
		for _, page := range section.Pages {
			var b bytes.Buffer
			if err := markdown.Convert(page.Markdown, &b); err != nil {
				return nil, err
			}
			body := bytes.ReplaceAll(b.Bytes(), []byte(local), []byte(originPlaceholder))
			body = bytes.ReplaceAll(body, codeOpen, []byte(`<pre tabindex="0"><code`))
			text := toFile.ReplaceAllStringFunc(string(body), func(link string) string {
				to := toFile.FindStringSubmatch(link)
				return `href="` + path.Join(pathGuides, path.Dir(page.Name), to[1]) + to[2] + `"`
			})
			lead, _, _ := strings.Cut(text, "</p>")
			one.Pages = append(one.Pages, &written{
				Href: pathGuides + "/" + page.Name, Title: page.Title,
				Lead:  template.HTML(strings.TrimPrefix(strings.TrimSpace(lead), "<p>")), //nolint:gosec // our own file
				Body:  template.HTML(text),                                               //nolint:gosec // our own file
				Words: wordsOf(text),
			})
		}
		all = append(all, one)
	}
	return all, nil
}

var (
	element = regexp.MustCompile(`<[^>]*>`)
	word    = regexp.MustCompile(`[\pL\pN_./:-]{3,}`)
)

// wordsOf returns the words of a text in HTML, each once and as the search compares them.
func wordsOf(text string) string {
	plain := strings.ToLower(html.UnescapeString(element.ReplaceAllString(text, " ")))
	words := word.FindAllString(strings.ReplaceAll(plain, originPlaceholder, ""), -1)
	for i := range words {
		words[i] = strings.Trim(words[i], ".:-/")
	}
	slices.Sort(words)
	return strings.Join(slices.Compact(words), " ")
}
