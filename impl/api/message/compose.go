package message

import (
	_ "embed"
	"fmt"
	"html/template"
	"strings"
	"unicode/utf8"

	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	"github.com/writ-id/writ/impl/api/branding"
)

//go:embed mail/mail.html
var mailFile string

// mail is the one design of all e-mails. What it is filled with is plain text, which
// html/template escapes, whoever wrote it (SEC-149).
var mail = template.Must(template.New("mail").Funcs(template.FuncMap{"shown": branding.Shown}).Parse(mailFile))

// letter is what an e-mail shows.
type letter struct {
	Language, Subject, Preheader, Title, Greeting string

	Blocks []block
	Footer []string // paragraphs
	Links  []branding.Link
	Look   *branding.Look
	Origin string // where its pictures are; "" for none
	Domain string
}

// block is a paragraph: words, or a code, a link or a name alone.
type block struct{ Text, Code, Link, Button, Name string }

// Lines returns the lines of a paragraph.
func (b block) Lines() []string { return strings.Split(b.Text, "\n") }

// compose puts a message together.
func compose(k kind, language string, words *eventv1.MessageTextSet, data *Data, look *branding.Look, origin string) (*payload, error) {
	var failed error
	say := func(words string) string {
		parts, err := segments(words)
		if err != nil && failed == nil {
			failed = fmt.Errorf("message: stored words: %w", err)
		}
		return fill(parts, data)
	}
	l := &letter{
		Language: language, Subject: strings.TrimSpace(oneLine(say(words.GetSubject()))), Preheader: say(words.GetPreheader()), Title: say(words.GetTitle()),
		Greeting: say(words.GetGreeting()), Links: look.Links(language), Look: look, Origin: origin, Domain: data.value("Domain"),
	}
	for _, paragraph := range paragraphsOf(words.GetText()) {
		parts, err := segments(paragraph)
		if err != nil {
			return nil, fmt.Errorf("message: stored words: %w", err)
		}
		text := fill(parts, data)
		if text == "" { // it was a variable without a value
			continue
		}
		var one block
		switch alone(parts) {
		case "Code":
			one.Code = text
		case "Link":
			one.Link, one.Button = text, say(words.GetButtonText())
		case "Username":
			one.Name = text
		default:
			one.Text = text
		}
		l.Blocks = append(l.Blocks, one)
	}
	for _, paragraph := range paragraphsOf(words.GetFooter()) {
		l.Footer = append(l.Footer, say(paragraph))
	}
	if failed != nil {
		return nil, failed
	}
	p := &payload{Subject: l.Subject, Text: l.text(), Code: data.Code}
	if k.sms {
		var paragraphs []string
		for _, one := range l.Blocks {
			paragraphs = append(paragraphs, one.Text+one.Code+one.Link+one.Name)
		}
		p.Subject, p.Text = "", strings.Join(paragraphs, "\n\n")
		return p, nil
	}
	var html strings.Builder
	if err := mail.Execute(&html, l); err != nil {
		return nil, err
	}
	p.HTML = html.String()
	return p, nil
}

// alone returns the variable that a paragraph is, "" when it is anything else.
func alone(parts []segment) (variable string) {
	for _, one := range parts {
		switch {
		case one.variable == "" && strings.TrimSpace(one.text) == "":
		case one.variable == "" || variable != "":
			return ""
		default:
			variable = one.variable
		}
	}
	return variable
}

// text returns the letter as plain text, with all that the HTML says.
func (l *letter) text() string {
	var paragraphs []string
	add := func(text string) {
		if text != "" {
			paragraphs = append(paragraphs, text)
		}
	}
	add(wrap(l.Title))
	add(wrap(l.Greeting))
	for _, one := range l.Blocks {
		switch {
		case one.Code+one.Name != "":
			add("    " + one.Code + one.Name)
		case one.Link != "" && one.Button != "":
			add(wrap(one.Button) + ":\n\n    " + one.Link)
		case one.Link != "":
			add("    " + one.Link)
		default:
			add(wrap(one.Text))
		}
	}
	var small []string
	for _, paragraph := range l.Footer {
		small = append(small, wrap(paragraph))
	}
	for _, link := range l.Links {
		small = append(small, link.Text+": "+link.Href)
	}
	if len(small) > 0 {
		add("-- \n" + strings.Join(small, "\n"))
	}
	return strings.Join(paragraphs, "\n\n") + "\n"
}

// lineWidth is where lines of plain text end, for programs that do not end them.
const lineWidth = 76

// wrap ends the lines of a paragraph between words.
func wrap(paragraph string) string {
	var b strings.Builder
	for i, line := range strings.Split(paragraph, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		width := 0
		for word := range strings.FieldsSeq(line) {
			runes := utf8.RuneCountInString(word)
			switch {
			case width == 0:
			case width+1+runes > lineWidth:
				b.WriteByte('\n')
				width = 0
			default:
				b.WriteByte(' ')
				width++
			}
			b.WriteString(word)
			width += runes
		}
	}
	return b.String()
}
