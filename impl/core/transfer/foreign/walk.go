package foreign

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/writ-id/writ/impl/core/fault"
)

// What a file may be made of. A list may be as long as it likes; what is held in
// memory at once is one value of it.
const (
	maxValueBytes = 4 << 20
	maxDepth      = 64
)

// plan says what becomes of a value: of an object or list it is read whole, or what it
// is made of one by one, or it is passed over.
type plan int

const (
	whole plan = iota
	into
	over
)

// walker reads JSON of any length. A place in the file has a pattern, in which a list
// has no positions (orgs[].humanUsers[]), and a path, in which it has (orgs[0].humanUsers[7]).
type walker struct {
	source  *budget
	decoder *json.Decoder
	plan    func(pattern string) plan
	// camel has snake_case members read as lowerCamelCase ones.
	camel bool

	stack   []frame
	started bool
	many    bool // values follow one another, without a list around them
	count   int  // of those
}

type frame struct {
	pattern, path string
	object        bool
	index         int
	seen          map[string]bool
}

// visit is a value that was read or passed over, or the end of an object or list that was
// entered.
type visit struct {
	pattern, path string
	value         any // of one that was read
	end, passed   bool
	empty         bool // of one that was passed over: there is nothing in it
}

func newWalker(r io.Reader, plan func(pattern string) plan) *walker {
	source := &budget{r: r, left: maxValueBytes}
	decoder := json.NewDecoder(source)
	decoder.UseNumber()
	return &walker{source: source, decoder: decoder, plan: plan}
}

// next returns the next value, and io.EOF behind the last.
func (w *walker) next() (visit, error) {
	for {
		if len(w.stack) == 0 {
			if w.started && !w.many {
				if _, err := w.decoder.Token(); err != io.EOF {
					return visit{}, malformed("", "something follows the end of its JSON")
				}
				return visit{}, io.EOF
			}
			if w.many && !w.decoder.More() {
				_, err := w.decoder.Token()
				return visit{}, w.wrong("", err)
			}
			path := ""
			if w.started = true; w.many {
				path = fmt.Sprintf("[%d]", w.count)
				w.count++
			}
			if at, err := w.value("", path); err != nil || at.pattern != entered {
				return at, err
			}
			continue
		}
		top := &w.stack[len(w.stack)-1]
		w.source.left = maxValueBytes
		if !w.decoder.More() {
			if _, err := w.decoder.Token(); err != nil {
				return visit{}, w.wrong(top.path, err)
			}
			at := visit{pattern: top.pattern, path: top.path, end: true}
			w.stack = w.stack[:len(w.stack)-1]
			return at, nil
		}
		pattern, path := top.pattern+"[]", fmt.Sprintf("%s[%d]", top.path, top.index)
		top.index++
		if top.object {
			token, err := w.decoder.Token()
			if err != nil {
				return visit{}, w.wrong(top.path, err)
			}
			name, _ := token.(string)
			if path = join(top.path, name); w.camel {
				name = lowerCamel(name)
			}
			pattern = join(top.pattern, name)
			if w.plan(pattern) != over { // of the others there may be any number
				if top.seen[name] {
					return visit{}, malformed(path, "it is there twice")
				}
				top.seen[name] = true
			}
		}
		if at, err := w.value(pattern, path); err != nil || at.pattern != entered {
			return at, err
		}
	}
}

// entered is the pattern of a visit that is none: what was found is on the stack.
const entered = "\x00"

func (w *walker) value(pattern, path string) (visit, error) {
	w.source.left = maxValueBytes
	switch w.plan(pattern) {
	case over:
		empty, err := w.pass(path)
		return visit{pattern: pattern, path: path, passed: true, empty: empty}, err
	case into:
		token, err := w.decoder.Token()
		if err != nil {
			return visit{}, w.wrong(path, err)
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			w.stack = append(w.stack, frame{pattern: pattern, path: path, object: token == json.Delim('{'), seen: map[string]bool{}})
		case nil: // as if it was not there
		default:
			return visit{}, malformed(path, "expected an object or a list, got %s", describe(token))
		}
		return visit{pattern: entered}, nil
	default:
		var raw json.RawMessage
		if err := w.decoder.Decode(&raw); err != nil {
			return visit{}, w.wrong(path, err)
		}
		if depth(raw) > maxDepth {
			return visit{}, malformed(path, "it is nested more than %d deep", maxDepth)
		}
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.UseNumber()
		var value any
		if err := decoder.Decode(&value); err != nil {
			return visit{}, w.wrong(path, err)
		}
		return visit{pattern: pattern, path: path, value: value}, nil
	}
}

// pass passes over a value of any length.
func (w *walker) pass(path string) (empty bool, err error) {
	empty = true
	for open := 0; ; {
		w.source.left = maxValueBytes
		token, err := w.decoder.Token()
		if err != nil {
			return false, w.wrong(path, err)
		}
		if _, isDelim := token.(json.Delim); !isDelim && token != nil && token != "" {
			empty = false
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			open++
		case json.Delim('}'), json.Delim(']'):
			open--
		}
		if open > 1000*maxDepth {
			return false, malformed(path, "it is nested too deep")
		}
		if open == 0 {
			return empty, nil
		}
	}
}

func (w *walker) wrong(path string, err error) error {
	switch {
	case errors.Is(err, errLong):
		return malformed(path, "a value is longer than %d bytes", maxValueBytes)
	case errors.Is(err, io.EOF) && len(w.stack) == 0 && w.many:
		return io.EOF
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return malformed(path, "the file ends here")
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return malformed(path, "not JSON, at byte %d: %v", w.decoder.InputOffset(), err)
	}
	return fmt.Errorf("%s: %w", place(path), err) // of who gives the file
}

// malformed is a refusal of a file, with the place of what is wrong.
func malformed(path, format string, a ...any) error {
	description := short(fmt.Sprintf(format, a...))
	if path == "" {
		description = "the file: " + description
	}
	return fault.Invalid("MALFORMED_FILE", short(path), "%s", description)
}

// budget ends a reader that gives more than what is left.
type budget struct {
	r    io.Reader
	left int
}

var errLong = errors.New("too long")

func (b *budget) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errLong
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// startsWithList tells a list from values that follow one another, and returns the
// whole of what it looked at.
func startsWithList(r io.Reader) (io.Reader, bool) {
	buffered := bufio.NewReader(r)
	if mark, err := buffered.Peek(3); err == nil && string(mark) == "\xef\xbb\xbf" {
		_, _ = buffered.Discard(3)
	}
	for {
		next, err := buffered.Peek(1)
		if err != nil || !strings.ContainsRune(" \t\r\n", rune(next[0])) {
			return buffered, err == nil && next[0] == '['
		}
		_, _ = buffered.Discard(1)
	}
}

// depth is how deep JSON is nested.
func depth(raw []byte) int {
	deepest, now, text := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

func join(path, name string) string {
	if len(name) > 100 {
		name = name[:100] + "…"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

func place(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}

// lowerCamel is the other spelling of a member in snake_case.
func lowerCamel(name string) string {
	if !strings.Contains(name, "_") {
		return name
	}
	var b strings.Builder
	for i, part := range strings.Split(name, "_") {
		if i > 0 && part != "" {
			part = strings.ToUpper(part[:1]) + part[1:]
		}
		b.WriteString(part)
	}
	return b.String()
}
