package wire

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Decoder is a message that reads its own JSON.
type Decoder interface {
	// ReadJSON reads the message from what comes next.
	ReadJSON(r *Reader)
}

// Refusal says why a request cannot be decoded, and at which field.
type Refusal struct {
	Reason      string // UPPER_SNAKE, stable
	Field       string // as the client spells it; "" when it is none
	Description string
	InQuery     bool // Field is a parameter of the query
}

// Error implements error.
func (r *Refusal) Error() string { return r.Reason + ": " + r.Field + ": " + r.Description }

// Reader reads a JSON text into messages by the proto JSON mapping, strictly: no
// member that the message does not have, none twice, no two of a oneof, no null. The
// first thing wrong ends it; from then on it reads nothing.
type Reader struct {
	data    []byte
	at      int
	path    []step
	root    string   // what the whole text is called
	without []string // members of the outermost object that there are not, because they are in the path
	list    bool     // the text is a list
	err     error
}

// step is a member of an object or an element of a list.
type step struct {
	name  []byte
	index int
}

// maxDepth bounds how deep objects and arrays nest (SEC-291).
const maxDepth = 64

// NewReader returns a reader of a text that is called root in refusals.
func NewReader(data []byte, root string) *Reader {
	return &Reader{data: data, root: root, err: checkShape(data)}
}

// checkShape refuses in one pass what nothing is to be read of: invalid UTF-8, what
// nests too deep, a text that is empty. All else is found while reading.
func checkShape(data []byte) error {
	if !utf8.Valid(data) {
		return &Refusal{Reason: "INVALID_UTF8", Field: "", Description: "the body is not valid UTF-8"}
	}
	depth, inString, empty := 0, false, true
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			inString, empty = !inString, false
		case inString:
			if c == '\\' {
				i++
			}
		case c == '{' || c == '[':
			empty = false
			if depth++; depth > maxDepth {
				return &Refusal{Reason: "TOO_DEEP", Field: "", Description: fmt.Sprintf("the body nests deeper than %d", maxDepth)}
			}
		case c == '}' || c == ']':
			depth--
		case c > ' ':
			empty = false
		}
	}
	if empty {
		return &Refusal{Reason: "BODY_MISSING", Field: "", Description: "the request needs a JSON body"}
	}
	return nil
}

// Read reads the whole text into a message.
func (r *Reader) Read(message Decoder) error {
	message.ReadJSON(r)
	return r.end()
}

// end returns what was wrong; something behind the value is.
func (r *Reader) end() error {
	if r.space(); r.err == nil && r.at < len(r.data) {
		what := "value"
		if r.list {
			what = "array"
		}
		r.err = &Refusal{Reason: "MALFORMED_REQUEST", Field: r.root, Description: "there is something after the JSON " + what}
	}
	return r.err
}

// ReadMessage reads what comes next into a new message.
func ReadMessage[M any, P interface {
	*M
	Decoder
}](r *Reader) P {
	message := P(new(M))
	message.ReadJSON(r)
	return message
}

// ReadList reads the whole text, which is a list, into messages.
func ReadList[M any, P interface {
	*M
	Decoder
}](r *Reader) ([]P, error) {
	r.list = true
	if c := r.peek(); c != '[' && c != 'n' {
		r.malformed()
	}
	var all []P
	for a := r.Array(); a.Next(); {
		all = append(all, ReadMessage[M, P](r))
	}
	return all, r.end()
}

// where returns the path of the value that is read.
func (r *Reader) where() string {
	path := r.root
	for _, s := range r.path {
		switch {
		case s.name == nil:
			path += "[" + strconv.Itoa(s.index) + "]"
		case path == "":
			path = string(s.name)
		default:
			path += "." + string(s.name)
		}
	}
	return path
}

func (r *Reader) refuse(reason, format string, args ...any) {
	if r.err == nil {
		r.err = &Refusal{Reason: reason, Field: r.where(), Description: fmt.Sprintf(format, args...)}
	}
}

func (r *Reader) malformed() {
	switch {
	case r.err != nil:
	case r.list:
		r.err = &Refusal{Reason: "MALFORMED_REQUEST", Field: r.root, Description: "the body must be one JSON array"}
	default:
		r.err = &Refusal{Reason: "MALFORMED_JSON", Field: r.root, Description: "the body is not JSON"}
	}
}

// unfit refuses a value whose kind is right and which means nothing.
func (r *Reader) unfit(format string, args ...any) {
	if r.err == nil {
		r.err = &Refusal{Reason: "MALFORMED_REQUEST", Field: r.root, Description: fmt.Sprintf(format, args...)}
	}
}

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

// want refuses a value that is not of a kind: null, one of another, or what is none.
func (r *Reader) want(what string) {
	start := r.at
	switch c := r.peek(); {
	case c == 'n' && r.literal("null"):
		r.refuse("NULL_VALUE", "null is not a value; leave the member out")
	case c == '{' || c == '[':
		r.refuse("WRONG_TYPE", "must be %s", what)
	default:
		if r.skip(); r.err == nil {
			r.refuse("WRONG_TYPE", "must be %s", what)
		}
	}
	r.at = start
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

// skip reads a value of any kind.
func (r *Reader) skip() {
	switch c := r.peek(); {
	case c == '"':
		r.text()
	case c == '{':
		for o := r.Object(); o.Next(); {
			r.skip()
		}
	case c == '[':
		for a := r.Array(); a.Next(); {
			r.skip()
		}
	case c == 't':
		r.literal("true")
	case c == 'f':
		r.literal("false")
	case c == 'n':
		r.literal("null")
	case c == '-' || c >= '0' && c <= '9':
		r.number()
	default:
		r.malformed()
	}
}

// String reads a text.
func (r *Reader) String() string {
	if r.peek() != '"' {
		r.want("a text")
		return ""
	}
	return string(r.text())
}

// Bool reads true or false.
func (r *Reader) Bool() bool {
	switch r.peek() {
	case 't':
		return r.literal("true")
	case 'f':
		r.literal("false")
	default:
		r.want("true or false")
	}
	return false
}

// Bytes reads base64, of either alphabet, with or without padding.
func (r *Reader) Bytes() []byte {
	text := r.String()
	encoding := base64.StdEncoding
	if strings.ContainsAny(text, "-_") {
		encoding = base64.URLEncoding
	}
	if len(text)%4 != 0 {
		encoding = encoding.WithPadding(base64.NoPadding)
	}
	value, err := encoding.DecodeString(text)
	if err != nil {
		r.unfit("invalid value for bytes field %s: %q", r.path[len(r.path)-1].name, text)
	}
	return value
}

// Int reads a whole number of so many bits, bare or as a text.
func (r *Reader) Int(bits int) int64 {
	text := r.digits()
	value, err := strconv.ParseInt(whole(text), 10, bits)
	if err != nil {
		r.misfit(text, bits, true)
	}
	return value
}

// Uint is Int for what has no sign.
func (r *Reader) Uint(bits int) uint64 {
	text := r.digits()
	value, err := strconv.ParseUint(whole(text), 10, bits)
	if err != nil {
		r.misfit(text, bits, false)
	}
	return value
}

func (r *Reader) misfit(text string, bits int, signed bool) {
	reason, description := checkNumber(text, bits, signed)
	r.refuse(reason, "%s", description)
}

// digits reads a number, bare or as a text.
func (r *Reader) digits() string {
	switch c := r.peek(); {
	case c == '"':
		return string(r.text())
	case c == '-' || c >= '0' && c <= '9':
		return r.number()
	}
	r.want("a number")
	return ""
}

// Enum reads a value of an enum by its name or its number.
func (r *Reader) Enum(enum string, values map[string]int32) int32 {
	switch c := r.peek(); {
	case c == '"':
		name := r.text()
		value, ok := values[string(name)]
		if !ok {
			r.refuse("INVALID_ENUM", "%q is not a value of %s", name, enum)
		}
		return value
	case c == '-' || c >= '0' && c <= '9':
		return int32(r.Int(32)) //nolint:gosec // Int has checked it
	}
	r.want("the name of a value")
	return 0
}

// Timestamp reads a time.
func (r *Reader) Timestamp() *timestamppb.Timestamp {
	value := &timestamppb.Timestamp{}
	r.known(value, `a time such as "2026-01-31T12:00:00Z"`)
	return value
}

// Duration reads a duration.
func (r *Reader) Duration() *durationpb.Duration {
	value := &durationpb.Duration{}
	r.known(value, `a duration such as "10s"`)
	return value
}

func (r *Reader) known(value proto.Message, what string) {
	if r.peek() != '"' {
		r.want(what)
		return
	}
	start := r.at
	if r.text(); r.err == nil && protojson.Unmarshal(r.data[start:r.at], value) != nil {
		r.refuse("INVALID_VALUE", "must be %s", what)
	}
}

// Struct reads an object that may hold anything but null.
func (r *Reader) Struct() *structpb.Struct {
	value := &structpb.Struct{}
	if r.peek() != '{' {
		r.want("an object")
		return value
	}
	start := r.at
	r.free()
	if r.err == nil {
		if err := protojson.Unmarshal(r.data[start:r.at], value); err != nil {
			r.unfit("%s", err)
		}
	}
	return value
}

// free reads a value that has no descriptor; the null in it is refused at the place
// of the whole.
func (r *Reader) free() {
	depth := len(r.path)
	for o := r.Object(); o.Next(); {
		r.freeValue(depth)
	}
}

func (r *Reader) freeValue(depth int) {
	switch r.peek() {
	case '{':
		for o := r.Object(); o.Next(); {
			r.freeValue(depth)
		}
	case '[':
		for a := r.Array(); a.Next(); {
			r.freeValue(depth)
		}
	case 'n':
		if r.literal("null") {
			r.path = r.path[:depth]
			r.refuse("NULL_VALUE", "null is not a value; leave the member out")
		}
	default:
		r.skip()
	}
}

// Object is the object that is read.
type Object struct {
	Name []byte // of the member whose value comes next

	r     *Reader
	depth int
	any   bool
	seen  [2]uint64
}

// MaxFields is how many fields a message may have that is read.
const MaxFields = 128

// Object begins to read an object; Next goes from member to member.
func (r *Reader) Object() Object {
	if !r.take('{') {
		r.want("an object")
	}
	r.path = append(r.path, step{})
	return Object{r: r, depth: len(r.path)}
}

// Next reads the name of the next member.
func (o *Object) Next() bool {
	r := o.r
	if r.err != nil {
		return false
	}
	r.path = r.path[:o.depth-1]
	if r.take('}') {
		return false
	}
	if o.any && !r.take(',') || r.peek() != '"' {
		r.malformed()
		return false
	}
	o.any = true
	if o.Name = r.text(); o.Name == nil {
		o.Name = []byte{}
	}
	if r.err == nil && !r.take(':') {
		r.malformed()
	}
	r.path = append(r.path, step{name: o.Name})
	if o.depth == 1 {
		for _, name := range r.without {
			if name == string(o.Name) {
				r.refuse("UNKNOWN_FIELD", "there is no such field; it is in the path")
			}
		}
	}
	return r.err == nil
}

// Unknown refuses a member that the message does not have.
func (o *Object) Unknown() { o.r.refuse("UNKNOWN_FIELD", "there is no such field") }

// Once refuses a member that was there, in any spelling.
func (o *Object) Once(field int) {
	if o.seen[field/64]&(1<<(field%64)) != 0 {
		o.r.refuse("DUPLICATE_FIELD", "the field is there twice")
	}
	o.seen[field/64] |= 1 << (field % 64)
}

// One refuses a member of a oneof of which there was another.
func (o *Object) One(other *string) {
	if *other != "" {
		o.r.refuse("ONEOF_CONFLICT", "only one of %s and %s can be set", *other, o.Name)
	}
	*other = string(o.Name)
}

// Key returns the name of the member as the key of a map, whose keys are there once.
func Key[V any](o *Object, m map[string]V) string {
	name := string(o.Name)
	if _, twice := m[name]; twice {
		o.r.unfit("duplicate map key %q", name)
	}
	return name
}

// Array is the array that is read.
type Array struct {
	r     *Reader
	depth int
	index int
}

// Array begins to read an array; Next goes from element to element.
func (r *Reader) Array() Array {
	if !r.take('[') {
		r.want("an array")
	}
	r.path = append(r.path, step{index: -1})
	return Array{r: r, depth: len(r.path), index: -1}
}

// Next reports whether there is another element.
func (a *Array) Next() bool {
	r := a.r
	if r.err != nil {
		return false
	}
	r.path = r.path[:a.depth-1]
	if r.take(']') {
		return false
	}
	if a.index++; a.index > 0 && !r.take(',') {
		r.malformed()
		return false
	}
	if c := r.peek(); c == ']' || c == 0 {
		r.malformed()
		return false
	}
	r.path = append(r.path, step{index: a.index})
	return true
}
