package message

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// segment is a piece of words: a text, or a variable.
type segment struct{ text, variable string }

// variable is what may stand between braces: {{.Code}}.
var variable = regexp.MustCompile(`^\.([A-Za-z]+)$`)

// segments takes words apart. There is nothing in them but variables: no functions,
// conditions or pipelines, so that there is nothing to run. The error says what is wrong,
// for who wrote them.
func segments(words string) (found []segment, err error) {
	for words != "" {
		text, rest, opened := strings.Cut(words, "{{")
		if text != "" {
			found = append(found, segment{text: text})
		}
		if !opened {
			break
		}
		inside, after, closed := strings.Cut(rest, "}}")
		named := variable.FindStringSubmatch(strings.TrimSpace(inside))
		switch {
		case !closed:
			return nil, errors.New("a {{ is not closed by }}")
		case named == nil:
			return nil, fmt.Errorf("{{%s}} is no variable, as {{.Domain}} is one", inside)
		}
		found = append(found, segment{variable: named[1]})
		words = after
	}
	return found, nil
}

// fill puts words together. A variable without a value takes the spaces before it along:
// nobody is greeted as "Hello ,".
func fill(words []segment, data *Data) string {
	var b []byte
	for _, one := range words {
		if one.variable == "" {
			b = append(b, one.text...)
			continue
		}
		value := data.value(one.variable)
		if value == "" {
			b = []byte(strings.TrimRight(string(b), " "))
		}
		b = append(b, value...)
	}
	return string(b)
}

// value returns what a variable stands for. What values come from elsewhere never end a line.
func (d *Data) value(variable string) string {
	switch variable {
	case "Code":
		return oneLine(d.Code)
	case "Minutes":
		return strconv.Itoa(d.Minutes)
	case "Domain":
		return oneLine(d.Domain)
	case "Name":
		return spoken(d.Name)
	case "Link":
		return oneLine(d.Link)
	case "Username":
		return oneLine(d.Username)
	}
	return ""
}

// oneLine returns a text without anything that ends a line or moves what is beside it, so
// that no header follows from it.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r < ' ', r >= 0x7f && r < 0xa0, r == '\u2028', r == '\u2029', r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069':
			return -1
		}
		return r
	}, text)
}
