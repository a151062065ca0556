package reference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// curl returns a command that works when it is pasted into a shell. What it
// cannot know comes from variables: $TOKEN, or $CLIENT_ID and $CLIENT_SECRET, and
// one for each path parameter.
func curl(view *entryView, op *operation, body *requestBody) string {
	var b strings.Builder
	const next = " \\\n  "
	b.WriteString("curl")
	if view.Verb != "GET" {
		b.WriteString(" -X " + view.Verb)
	}
	url := pathVariable.ReplaceAllStringFunc(view.Path, func(name string) string { return "$" + shellName(name[1:len(name)-1]) })
	separator := "?"
	for _, p := range op.Parameters {
		if p.In == "query" && p.Required {
			url += separator + p.Name + "=$" + shellName(p.Name)
			separator = "&"
		}
	}
	fmt.Fprintf(&b, "%s\"%s%s\"", next, originPlaceholder, url)
	switch {
	case view.Client:
		b.WriteString(next + `-u "$CLIENT_ID:$CLIENT_SECRET"`)
	case !view.Public:
		b.WriteString(next + `-H "Authorization: Bearer $TOKEN"`)
	}
	if body == nil || len(body.Content) == 0 {
		return b.String()
	}
	media := body.Content[0]
	if media.Name == "application/x-www-form-urlencoded" {
		var form ordered[any]
		if json.Unmarshal(media.Value.Example, &form) == nil {
			for _, member := range form {
				b.WriteString(next + "--data-urlencode " + quoted(fmt.Sprintf("%s=%v", member.Name, member.Value)))
			}
		}
		return b.String()
	}
	b.WriteString(next + "-H 'Content-Type: " + media.Name + "'")
	var text bytes.Buffer
	if len(media.Value.Example) > 0 && json.Indent(&text, media.Value.Example, "", "  ") == nil {
		b.WriteString(next + "-d " + quoted(text.String()))
	}
	return b.String()
}

var (
	wordEnd     = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	notInAShell = regexp.MustCompile(`[^A-Za-z0-9_]`)
)

// shellName is the variable for a parameter: userId is USER_ID.
func shellName(name string) string {
	return strings.ToUpper(notInAShell.ReplaceAllString(wordEnd.ReplaceAllString(name, "${1}_$2"), "_"))
}

// quoted returns text as one word of a shell.
func quoted(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
