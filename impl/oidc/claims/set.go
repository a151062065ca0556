// Package claims writes what tokens, introspection and userinfo tell of a user: the
// standard claims (OpenID Connect Core, section 5), roles, and those of the platform.
package claims

import (
	"encoding/json"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/writ-id/writ/impl/core/wire"
)

// Set is a JSON object that is being written. Values that are empty are left
// out, as OpenID Connect Core, section 5.3.2, asks for; a name is written once, the
// first time (SEC-039).
type Set struct {
	text  []byte
	names []string
}

// NewSet returns an object without members.
func NewSet() *Set {
	return &Set{text: append(make([]byte, 0, 1024), '{'), names: make([]string, 0, 24)}
}

// key begins a member, if there is none of the name yet.
func (o *Set) key(name string) bool {
	if o.Has(name) {
		return false
	}
	o.names = append(o.names, name)
	if len(o.text) > 1 {
		o.text = append(o.text, ',')
	}
	o.text = append(wire.AppendString(o.text, name), ':')
	return true
}

// String adds a text.
func (o *Set) String(name, value string) {
	if value != "" && o.key(name) {
		o.text = wire.AppendString(o.text, value)
	}
}

// Bool adds a truth value.
func (o *Set) Bool(name string, value bool) {
	if o.key(name) {
		o.text = strconv.AppendBool(o.text, value)
	}
}

// Number adds a number.
func (o *Set) Number(name string, value int64) {
	if o.key(name) {
		o.text = strconv.AppendInt(o.text, value, 10)
	}
}

// Strings adds a list of texts.
func (o *Set) Strings(name string, values []string) {
	if len(values) == 0 || !o.key(name) {
		return
	}
	separator := byte('[')
	for _, value := range values {
		o.text = wire.AppendString(append(o.text, separator), value)
		separator = ','
	}
	o.text = append(o.text, ']')
}

// Raw adds a value that is JSON already; nothing when it is empty or null.
func (o *Set) Raw(name string, value json.RawMessage) {
	if len(value) > 0 && string(value) != "null" && o.key(name) {
		o.text = append(o.text, value...)
	}
}

// Value adds a value of any type.
func (o *Set) Value(name string, value any) {
	text, err := json.Marshal(value)
	if err == nil { // of what JSON has
		o.Raw(name, text)
	}
}

// Has reports whether there is a member of a name.
func (o *Set) Has(name string) bool { return slices.Contains(o.names, name) }

// Struct returns the members so far.
func (o *Set) Struct() (*structpb.Struct, error) {
	so := &structpb.Struct{}
	return so, protojson.Unmarshal(append(slices.Clone(o.text), '}'), so)
}

// End returns the text; the object is done.
func (o *Set) End() []byte { return append(o.text, '}') }
