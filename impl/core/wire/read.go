package wire

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
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

// NewReader returns a reader of a text that is called root in refusals.
func NewReader(data []byte, root string) *Reader {
	return &Reader{data: data, root: root, err: checkShape(data)}
}

// checkShape refuses in one pass what nothing is to be read of: invalid UTF-8, what
// nests too deep or has too many values, a text that is empty. All else is found while reading.
func checkShape(data []byte) error {
	if !utf8.Valid(data) {
		return &Refusal{Reason: "INVALID_UTF8", Field: "", Description: "the body is not valid UTF-8"}
	}
	depth, values, inString, empty := 0, 0, false, true
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
			values++
			if depth++; depth > MaxDepth {
				return TooDeep()
			}
		case c == '}' || c == ']':
			depth--
		case c > ' ':
			empty = false
			if c == ',' {
				values++
			}
		}
	}
	if values > MaxValues {
		return TooMany()
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
