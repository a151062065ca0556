package wire

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// What JSON is made of: words, numbers and texts.

func (r *Reader) space() {
	for r.at < len(r.data) {
		switch r.data[r.at] {
		case ' ', '\t', '\n', '\r':
			r.at++
		default:
			return
		}
	}
}

// peek returns the first byte of the next token; 0 when there is none, or after an
// error.
func (r *Reader) peek() byte {
	if r.space(); r.err != nil || r.at >= len(r.data) {
		return 0
	}
	return r.data[r.at]
}

// take reports whether the next token is a delimiter, and reads it if so.
func (r *Reader) take(delimiter byte) bool {
	if r.peek() != delimiter {
		return false
	}
	r.at++
	return true
}

// literal reads a word.
func (r *Reader) literal(word string) bool {
	end := r.at + len(word)
	if end > len(r.data) || string(r.data[r.at:end]) != word || end < len(r.data) && isWord(r.data[end]) {
		r.malformed()
		return false
	}
	r.at = end
	return true
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '+' || c == '-' || c >= utf8.RuneSelf
}

// number reads a number and returns its text.
func (r *Reader) number() string {
	start := r.at
	digits := func() bool {
		from := r.at
		for r.at < len(r.data) && r.data[r.at] >= '0' && r.data[r.at] <= '9' {
			r.at++
		}
		return r.at > from
	}
	next := func(any string) bool {
		if r.at < len(r.data) && strings.IndexByte(any, r.data[r.at]) >= 0 {
			r.at++
			return true
		}
		return false
	}
	next("-")
	fits := next("0") || digits()
	if next(".") {
		fits = digits() && fits
	}
	if next("eE") {
		next("+-")
		fits = digits() && fits
	}
	if !fits || r.at < len(r.data) && isWord(r.data[r.at]) {
		r.malformed()
	}
	return string(r.data[start:r.at])
}

// text reads a string; the bytes are those of the body where it has no escapes.
func (r *Reader) text() []byte {
	r.at++ // the quote
	start := r.at
	for r.at < len(r.data) {
		switch c := r.data[r.at]; {
		case c == '"':
			r.at++
			return r.data[start : r.at-1]
		case c == '\\':
			return r.escaped(start)
		case c < ' ':
			r.malformed()
			return nil
		}
		r.at++
	}
	r.malformed()
	return nil
}

var escapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escaped goes on with a string at its first escape.
func (r *Reader) escaped(start int) []byte {
	out := append([]byte(nil), r.data[start:r.at]...)
	for r.at < len(r.data) && r.err == nil {
		c := r.data[r.at]
		switch {
		case c == '"':
			r.at++
			return out
		case c < ' ':
			r.malformed()
			return nil
		case c != '\\':
			out = append(out, c)
			r.at++
		case r.at+1 < len(r.data) && r.data[r.at+1] == 'u':
			out = utf8.AppendRune(out, r.unicode())
		default:
			if r.at+1 >= len(r.data) || escapes[r.data[r.at+1]] == 0 {
				r.malformed()
				return nil
			}
			out = append(out, escapes[r.data[r.at+1]])
			r.at += 2
		}
	}
	r.malformed()
	return nil
}

// unicode reads \uXXXX, two of them where they are a pair.
func (r *Reader) unicode() rune {
	one := func() rune {
		if r.at+6 > len(r.data) || r.data[r.at] != '\\' || r.data[r.at+1] != 'u' {
			return -1
		}
		n, err := strconv.ParseUint(string(r.data[r.at+2:r.at+6]), 16, 16)
		if err != nil {
			return -1
		}
		return rune(n)
	}
	first := one()
	if first < 0 {
		r.malformed()
		return 0
	}
	r.at += 6
	if !utf16.IsSurrogate(first) {
		return first
	}
	pair := utf16.DecodeRune(first, one())
	if pair == utf8.RuneError {
		r.unfit("invalid escape code %q in string", r.data[r.at-6:r.at])
	}
	r.at += 6
	return pair
}
