package resource

import (
	"strings"

	"golang.org/x/text/cases"

	"github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
)

// Fold returns text with its case folded by Unicode's full folding ("Straße"
// and "STRASSE" are one). It is what *_folded columns hold.
func Fold(text string) string { return cases.Fold().String(text) }

// TextFilters collects the text filters of a search on one column, as LIKE
// patterns. The first of each kind stands alone because the planner can use an
// index for it; the others are only checked.
type TextFilters struct {
	Like        *string // on the column
	Folded      *string // on its case-folded twin
	MoreLikes   []string
	MoreFoldeds []string
}

// Add adds one filter; all that are added must be met.
func (f *TextFilters) Add(text string, method object.TextFilterMethod) {
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
	folded := before + literal(Fold(text)) + after
	if ignoreCase {
		put(&f.Folded, &f.MoreFoldeds, folded)
		return
	}
	put(&f.Like, &f.MoreLikes, before+literal(text)+after)
	if before != "" {
		// Only the folded column has the trigram index. Folding works character
		// by character, so what contains the text also contains it folded.
		put(&f.Folded, &f.MoreFoldeds, folded)
	}
}

func put(first **string, more *[]string, pattern string) {
	if *first == nil {
		*first = &pattern
	} else {
		*more = append(*more, pattern)
	}
}

var escape = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// literal escapes what LIKE would interpret.
func literal(text string) string { return escape.Replace(text) }
