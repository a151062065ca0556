package reference

import (
	_ "embed"
	"fmt"
	"html/template"
	"strings"
)

// The pages that are about more than one service.
const (
	pathExecutions = pathDocs + "/executions"
	pathCatalogue  = pathDocs + "/event-catalogue"
)

// guides are these pages and their titles.
var guides = map[string]string{pathExecutions: "Executions", pathCatalogue: "Event catalogue"}

//go:embed guide.html
var guideText string

// catalogue is the page about all events, by the objects that they happen to.
type catalogue struct {
	Count  int
	Groups []eventGroup
}

type eventGroup struct {
	Name   string // of the kind of objects
	Events []eventView
}

type eventView struct {
	Name, Summary, Description string

	Rows []row // of the payload
}

// catalogue returns the events of the document, which has them as webhooks.
func (b *builder) catalogue() (*catalogue, error) {
	c := &catalogue{Count: len(b.doc.Webhooks)}
	at := map[string]int{}
	for _, hook := range b.doc.Webhooks {
		post := hook.Value.Post
		shown := eventView{Name: hook.Name, Summary: post.Summary, Description: post.Description}
		for _, media := range post.RequestBody.Content {
			for _, part := range media.Value.Schema.AllOf {
				payload, ok := part.Properties.get("event_payload")
				if !ok {
					continue
				}
				field, err := b.row(answered, "", payload, nil)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", hook.Name, err)
				}
				shown.Rows = field.Rows
			}
		}
		if _, known := at[post.Aggregate]; !known {
			at[post.Aggregate] = len(c.Groups)
			c.Groups = append(c.Groups, eventGroup{Name: post.Aggregate})
		}
		group := &c.Groups[at[post.Aggregate]]
		group.Events = append(group.Events, shown)
	}
	return c, nil
}

// dotsHTML returns the name of an event that may break behind each dot.
func dotsHTML(name string) template.HTML {
	return template.HTML(strings.ReplaceAll(template.HTMLEscapeString(name), ".", ".<wbr>")) //nolint:gosec // escaped
}
