package wire

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Route is one operation in REST, as its HTTP rule states it.
type Route struct {
	Verb    string // PATCH
	Pattern string // of net/http.ServeMux, without the verb: /resources/v3alpha/targets/{id}
	Method  string // /package.Service/Method
	Body    string // the JSON name of the request's field that is the body; "" when it is the request, or there is none
	Without string // what no body means, where it means something: no filters, no change
}

// Serve decodes a request of a route, makes the call and returns its answer.
type Serve func(ctx context.Context, in *Input) (Appender, error)

// Input is a request of REST on its way into a message. The first thing wrong with it
// is kept; from then on nothing is read.
type Input struct {
	Request *http.Request
	// Body returns the body to decode, or why there is none. It is called at most once,
	// after the query has been read.
	Body func() ([]byte, error)
	// Root is what the whole body is called in refusals.
	Root string

	err error
}

// Err returns what is wrong.
func (in *Input) Err() error { return in.err }

// Path returns a variable of the path.
func (in *Input) Path(name string) string { return in.Request.PathValue(name) }

func (in *Input) reader() (*Reader, bool) {
	if in.err != nil {
		return nil, false
	}
	data, err := in.Body()
	if err != nil {
		in.err = err
		return nil, false
	}
	return NewReader(data, in.Root), true
}

// Message reads the body into message; without are members of it that are in the path.
func (in *Input) Message(message Decoder, without ...string) {
	if r, ok := in.reader(); ok {
		r.without = without
		in.err = r.Read(message)
	}
}

// List reads a body that is a list.
func List[M any, P interface {
	*M
	Decoder
}](in *Input) []P {
	r, ok := in.reader()
	if !ok {
		return nil
	}
	var all []P
	all, in.err = ReadList[M, P](r)
	return all
}

// NoBody refuses a body: the operation has none, and what a caller asks for is not thrown away.
// An empty object, which some generated clients send, asks for nothing.
func (in *Input) NoBody() {
	if in.err != nil || in.Request.Body == nil || in.Request.Body == http.NoBody {
		return
	}
	data, err := io.ReadAll(in.Request.Body)
	if data = bytes.TrimSpace(data); err == nil && len(data) > 0 && data[0] == '{' && data[len(data)-1] == '}' {
		data = bytes.TrimSpace(data[1 : len(data)-1])
	}
	if err != nil || len(data) > 0 {
		in.err = &Refusal{Reason: "UNEXPECTED_BODY", Field: "body", Description: "the operation takes none"}
	}
}

// NoQuery refuses parameters: the operation has none.
func (in *Input) NoQuery() {
	if in.Request.URL.RawQuery != "" {
		for q := in.Query(); q.Next(); {
			q.Unknown()
		}
	}
}

// Query reads the parameters of a query one after the other.
type Query struct {
	Name string // of the parameter that is read

	in    *Input
	left  []parameter
	value string
	seen  [2]uint64
}

type parameter struct{ name, value string }

// Query returns the parameters, all of which can be decoded.
func (in *Input) Query() Query {
	q := Query{in: in}
	for text := in.Request.URL.RawQuery; text != "" && in.err == nil; {
		var one string
		one, text, _ = strings.Cut(text, "&")
		if one == "" {
			continue
		}
		name, value, _ := strings.Cut(one, "=")
		name, errName := url.QueryUnescape(name)
		value, errValue := url.QueryUnescape(value)
		if errName != nil || errValue != nil || strings.Contains(one, ";") {
			in.err = &Refusal{Reason: "MALFORMED_QUERY", Description: "the query string cannot be decoded", InQuery: true}
			break
		}
		q.left = append(q.left, parameter{name, value})
	}
	return q
}

// Next goes to the next parameter.
func (q *Query) Next() bool {
	if q.in.err != nil || len(q.left) == 0 {
		return false
	}
	q.Name, q.value = q.left[0].name, q.left[0].value
	q.left = q.left[1:]
	return true
}

func (q *Query) refuse(reason, format string, args ...any) {
	if q.in.err == nil {
		q.in.err = &Refusal{Reason: reason, Field: q.Name, Description: fmt.Sprintf(format, args...), InQuery: true}
	}
}

// Unknown refuses a parameter that the operation does not have.
func (q *Query) Unknown() { q.refuse("UNKNOWN_PARAMETER", "there is no such query parameter") }

// Once refuses a parameter that was there, in any spelling.
func (q *Query) Once(field int) {
	if q.seen[field/64]&(1<<(field%64)) != 0 {
		q.refuse("REPEATED_PARAMETER", "the query parameter is there more than once")
	}
	q.seen[field/64] |= 1 << (field % 64)
}

// One refuses a parameter of a oneof of which there was another.
func (q *Query) One(other *string) {
	if *other != "" {
		q.refuse("ONEOF_CONFLICT", "only one of %s and %s can be set", *other, q.Name)
	}
	*other = q.Name
}

// String returns the value as a text.
func (q *Query) String() string { return q.value }

// Bool returns true or false.
func (q *Query) Bool() bool {
	if q.value != "true" && q.value != "false" {
		q.refuse("WRONG_TYPE", "must be true or false")
	}
	return q.value == "true"
}

// Int returns a whole number of so many bits.
func (q *Query) Int(bits int) int64 {
	value, err := strconv.ParseInt(q.value, 10, bits)
	q.check(err, bits, true)
	return value
}

// Uint is Int for what has no sign.
func (q *Query) Uint(bits int) uint64 {
	value, err := strconv.ParseUint(q.value, 10, bits)
	q.check(err, bits, false)
	return value
}

func (q *Query) check(err error, bits int, signed bool) {
	if err != nil || strings.HasPrefix(q.value, "+") || len(q.value) > 40 {
		reason, description := checkNumber(q.value, bits, signed)
		q.refuse(reason, "%s", description)
	}
}

// Enum returns a value of an enum by its name or, as in a body, its number.
func (q *Query) Enum(enum string, values map[string]int32, names map[int32]string) int32 {
	if value, ok := values[q.value]; ok {
		return value
	}
	number, err := strconv.ParseInt(q.value, 10, 32)
	if names[int32(number)] == "" || err != nil { //nolint:gosec // of 32 bits
		q.refuse("INVALID_ENUM", "%q is not a value of %s", q.value, enum)
	}
	return int32(number) //nolint:gosec // of 32 bits
}

// Set returns what a pointer points to, made when there is nothing yet.
func Set[M any](at **M) *M {
	if *at == nil {
		*at = new(M)
	}
	return *at
}
