package server

import (
	"bytes"
	"unicode/utf8"

	"github.com/writ-id/writ/impl/fault"
)

// maxJSONDepth bounds how deep objects and arrays nest (SEC-291).
const maxJSONDepth = 64

// scanJSON refuses, in one pass and before anything is decoded, what the proto
// JSON mapping lets pass or pays too much for: null (which would silently mean
// "absent"), deep nesting, invalid UTF-8, an empty body. The grammar itself is
// the decoder's business.
func scanJSON(body []byte) *fault.Error {
	if !utf8.Valid(body) {
		return fault.Invalid("INVALID_UTF8", "", "the body is not valid UTF-8")
	}
	depth, inString, empty := 0, false, true
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString, empty = !inString, false
		case inString:
		case c == '{' || c == '[':
			empty = false
			if depth++; depth > maxJSONDepth {
				return fault.Invalid("TOO_DEEP", "", "the body nests deeper than %d", maxJSONDepth)
			}
		case c == '}' || c == ']':
			depth--
		case c == 'n' && bytes.HasPrefix(body[i:], []byte("null")):
			return fault.Invalid("NULL_VALUE", "", "null is not a value; leave the member out")
		case c > ' ':
			empty = false
		}
	}
	if empty {
		return fault.Invalid("BODY_MISSING", "", "the request needs a JSON body")
	}
	return nil
}
