package oauth

import (
	"encoding/json"
	"strconv"

	"github.com/writ-id/writ/contracts/generate/wire"
)

// claimSet is a JSON object that is being written. Values that are empty are left
// out, as OpenID Connect Core, section 5.3.2, asks for; a name is written once, the
// first time (SEC-039).
type claimSet struct {
	text  []byte
	names []string
}

func newClaimSet() *claimSet {
	return &claimSet{text: append(make([]byte, 0, 1024), '{'), names: make([]string, 0, 24)}
}

// key begins a member, if there is none of the name yet.
func (o *claimSet) key(name string) bool {
	for _, known := range o.names {
		if known == name {
			return false
		}
	}
	o.names = append(o.names, name)
	if len(o.text) > 1 {
		o.text = append(o.text, ',')
	}
	o.text = append(wire.AppendString(o.text, name), ':')
	return true
}

func (o *claimSet) string(name, value string) {
	if value != "" && o.key(name) {
		o.text = wire.AppendString(o.text, value)
	}
}

func (o *claimSet) bool(name string, value bool) {
	if o.key(name) {
		o.text = strconv.AppendBool(o.text, value)
	}
}

func (o *claimSet) number(name string, value int64) {
	if o.key(name) {
		o.text = strconv.AppendInt(o.text, value, 10)
	}
}

func (o *claimSet) strings(name string, values []string) {
	if len(values) == 0 || !o.key(name) {
		return
	}
	for i, value := range values {
		o.text = append(o.text, "[,"[min(i, 1)])
		o.text = wire.AppendString(o.text, value)
	}
	o.text = append(o.text, ']')
}

// raw adds a value that is JSON already; nothing when it is empty or null.
func (o *claimSet) raw(name string, value json.RawMessage) {
	if len(value) > 0 && string(value) != "null" && o.key(name) {
		o.text = append(o.text, value...)
	}
}

// value adds a value of any type.
func (o *claimSet) value(name string, value any) {
	text, err := json.Marshal(value)
	if err == nil { // of maps of texts
		o.raw(name, text)
	}
}

// end returns the text; the object is done.
func (o *claimSet) end() []byte { return append(o.text, '}') }
