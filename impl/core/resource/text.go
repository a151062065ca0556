package resource

import (
	"strings"

	"golang.org/x/text/cases"

	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
)

// Fold returns text with its case folded by Unicode's full folding ("Straße"
// and "STRASSE" are one). It is what *_folded columns hold.
func Fold(text string) string { return cases.Fold().String(text) }

// Patterns returns the LIKE patterns of a text filter: one for the column, one
// for its case-folded twin, nil for none.
func Patterns(text string, method object.TextFilterMethod) (exact, folded *string) {
	before, after, ignoreCase := "", "", false
	switch method {
	case object.TextFilterMethod_TEXT_FILTER_METHOD_EQUALS_IGNORE_CASE:
		ignoreCase = true
	case object.TextFilterMethod_TEXT_FILTER_METHOD_STARTS_WITH:
		after = "%"
	case object.TextFilterMethod_TEXT_FILTER_METHOD_STARTS_WITH_IGNORE_CASE:
		after, ignoreCase = "%", true
	case object.TextFilterMethod_TEXT_FILTER_METHOD_CONTAINS:
		before, after = "%", "%"
	case object.TextFilterMethod_TEXT_FILTER_METHOD_CONTAINS_IGNORE_CASE:
		before, after, ignoreCase = "%", "%", true
	case object.TextFilterMethod_TEXT_FILTER_METHOD_ENDS_WITH:
		before = "%"
	case object.TextFilterMethod_TEXT_FILTER_METHOD_ENDS_WITH_IGNORE_CASE:
		before, ignoreCase = "%", true
	}
	pattern := before + Literal(Fold(text)) + after
	if ignoreCase {
		return nil, &pattern
	}
	literal := before + Literal(text) + after
	if before == "" {
		return &literal, nil
	}
	// Only the folded column has the trigram index. Folding works character by
	// character, so what contains the text also contains it folded.
	return &literal, &pattern
}

var escape = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// Literal escapes what LIKE would interpret.
func Literal(text string) string { return escape.Replace(text) }
