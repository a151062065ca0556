package reference

import (
	"fmt"
	"html/template"
	"regexp"
	"strconv"
	"strings"
)

// typeOf names the type of s for people.
func typeOf(s *schema) string {
	switch {
	case s.Type == "boolean" && len(s.Enum) == 1:
		return fmt.Sprint(s.Enum[0])
	case s.Type == "string" && len(s.Enum) > 0:
		return "enum"
	case s.Type == "string":
		switch s.Format {
		case "date-time":
			return "time"
		case "uint64", "int64":
			return "64-bit integer as string"
		case "uri":
			return "absolute URI"
		case "byte":
			return "base64 string"
		case "":
			return "string"
		}
		return s.Format
	case s.Type == "":
		return "any"
	}
	return s.Type
}

func plural(name string) string {
	if name == "any" || strings.HasSuffix(name, "s") || strings.Contains(name, " ") {
		return name
	}
	return name + "s"
}

// limits says the bounds of s in words.
func limits(s *schema) []string {
	var all []string
	span := func(low, high *int, unit string) {
		switch {
		case low != nil && high != nil && *low == *high:
			all = append(all, fmt.Sprintf("%d %s", *low, unit))
		case low != nil && *low > 0 && high != nil:
			all = append(all, fmt.Sprintf("%s to %s %s", grouped(*low), grouped(*high), unit))
		case low != nil && *low > 0:
			all = append(all, fmt.Sprintf("at least %s %s", grouped(*low), unit))
		case high != nil:
			all = append(all, fmt.Sprintf("at most %s %s", grouped(*high), unit))
		}
	}
	span(s.MinLength, s.MaxLength, "characters")
	span(s.MinItems, s.MaxItems, "items")
	span(s.MinProperties, s.MaxProperties, "members")
	if s.Minimum != nil {
		words := "from "
		if s.ExclusiveMinimum {
			words = "more than "
		}
		all = append(all, words+s.Minimum.String())
	}
	if s.Maximum != nil && !strings.HasPrefix(s.Maximum.String(), "9223372036854775807") {
		words := "to "
		if s.ExclusiveMaximum {
			words = "less than "
		}
		if s.Minimum != nil && len(all) > 0 {
			all[len(all)-1] += " " + words + s.Maximum.String()
		} else {
			all = append(all, words+s.Maximum.String())
		}
	}
	if s.UniqueItems {
		all = append(all, "no duplicates")
	}
	if s.Pattern != "" && s.Format == "" && !strings.Contains(s.Pattern, `\x00`) && len(s.Pattern) < 60 {
		all = append(all, "matches "+s.Pattern)
	}
	if s.Default != nil {
		all = append(all, fmt.Sprintf("default %v", s.Default))
	}
	if s.Example != nil {
		all = append(all, fmt.Sprintf("for example %v", s.Example))
	}
	return all
}

// grouped writes n with a thin space between thousands.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "\u2009" + digits[i:]
	}
	return digits
}

// exclusions says which fields of s exclude each other.
func exclusions(s *schema) []string {
	var notes []string
	for _, names := range s.ExactlyOneOf {
		notes = append(notes, "Exactly one of "+listed(names)+".")
	}
	for _, names := range s.AtMostOneOf {
		notes = append(notes, "At most one of "+listed(names)+".")
	}
	return notes
}

func listed(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = "`" + name + "`"
	}
	last := len(quoted) - 1
	return strings.Join(quoted[:last], ", ") + " or " + quoted[last]
}

var (
	inlineCode = regexp.MustCompile("`([^`]+)`")
	inlineBold = regexp.MustCompile(`\*\*([^*]+)\*\*`)
)

// prose returns text as paragraphs, with `code` and **bold**.
func prose(text string) template.HTML {
	var b strings.Builder
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		escaped := template.HTMLEscapeString(paragraph)
		escaped = inlineCode.ReplaceAllString(escaped, "<code>$1</code>")
		escaped = inlineBold.ReplaceAllString(escaped, "<strong>$1</strong>")
		b.WriteString("<p>" + escaped + "</p>")
	}
	return template.HTML(b.String()) //nolint:gosec // escaped above
}

var pathVariable = regexp.MustCompile(`\{([^}]+)\}`)

// pathHTML returns a path that may break before each inner slash, with its
// variables marked.
func pathHTML(path string) template.HTML {
	escaped := strings.ReplaceAll(template.HTMLEscapeString(path), "/", "<wbr>/")
	escaped = strings.TrimPrefix(escaped, "<wbr>")
	return template.HTML(pathVariable.ReplaceAllString(escaped, "<var>{$1}</var>")) //nolint:gosec // escaped above
}

// shellHTML returns a command whose long words may break after a slash.
func shellHTML(command string) template.HTML {
	return template.HTML(strings.ReplaceAll(template.HTMLEscapeString(command), "/", "/<wbr>")) //nolint:gosec // escaped
}

// spaced puts a space before each inner capital: IdentityProviders is Identity
// Providers.
func spaced(name string) string { return wordEnd.ReplaceAllString(name, "$1 $2") }

// humpsHTML returns a name that may break before each inner capital.
func humpsHTML(name string) template.HTML {
	return template.HTML(wordEnd.ReplaceAllString(template.HTMLEscapeString(name), "$1<wbr>$2")) //nolint:gosec // escaped
}
