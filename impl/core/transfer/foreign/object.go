package foreign

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// jsonObject is a JSON object being read, member by member. What is of the wrong type is
// kept as the error of the reading; what nobody asked for is reported in the end.
type jsonObject struct {
	*reading
	pattern, path string
	members       map[string]any
	asked         map[string]bool
	absent        bool
}

func (r *reading) object(at visit) *jsonObject {
	return r.inObject(at.pattern, at.path, at.value, at.value != nil)
}

func (r *reading) inObject(pattern, path string, value any, present bool) *jsonObject {
	o := &jsonObject{reading: r, pattern: pattern, path: path, asked: map[string]bool{}, absent: !present || value == nil}
	if o.absent {
		return o
	}
	members, ok := value.(map[string]any)
	if !ok {
		r.refuse(path, "expected an object, got %s", describe(value))
		o.absent = true
	}
	if o.members = members; r.walker != nil && r.walker.camel {
		o.members = make(map[string]any, len(members))
		for name, value := range members {
			name = lowerCamel(name)
			if _, twice := o.members[name]; twice {
				r.refuse(join(path, name), "it is there in both spellings")
			}
			o.members[name] = value
		}
	}
	return o
}

// has reports whether a member is there and is not null.
func (o *jsonObject) has(name string) bool { return o.members[name] != nil }

func (o *jsonObject) get(name string) any {
	o.asked[name] = true
	return o.members[name]
}

// ignore says that members are known and mean nothing here.
func (o *jsonObject) ignore(names ...string) {
	for _, name := range names {
		o.asked[name] = true
	}
}

// text returns a text; "" when it is not there.
func (o *jsonObject) text(name string) string {
	return o.textOf(join(o.path, name), o.get(name))
}

func (o *jsonObject) textOf(path string, value any) string {
	switch value := value.(type) {
	case nil:
	case string:
		if strings.ContainsRune(value, 0) {
			o.refuse(path, "a text has no NUL characters")
		}
		return value
	default:
		o.refuse(path, "expected a text, got %s", describe(value))
	}
	return ""
}

// needed returns a text that has to be there.
func (o *jsonObject) needed(name string) string {
	value := o.text(name)
	if value == "" {
		o.refuse(join(o.path, name), "it is missing")
	}
	return value
}

func (o *jsonObject) flag(name string) bool {
	switch value := o.get(name).(type) {
	case nil:
	case bool:
		return value
	default:
		o.refuse(join(o.path, name), "expected true or false, got %s", describe(value))
	}
	return false
}

// number returns a whole number, which may be written as a text, as protobuf does.
func (o *jsonObject) number(name string) int64 {
	value := o.get(name)
	text := fmt.Sprint(value)
	switch value.(type) {
	case nil:
		return 0
	case json.Number, string:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	}
	o.refuse(join(o.path, name), "expected a whole number, got %s", describe(value))
	return 0
}

// bytes returns what base64 of any kind says.
func (o *jsonObject) bytes(name string) []byte {
	text := o.text(name)
	plain := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
	read, err := base64.RawStdEncoding.DecodeString(plain)
	if err != nil {
		o.refuse(join(o.path, name), "expected base64")
	}
	return read
}

// milliseconds returns a moment counted from 1970; nil when it is not there.
func (o *jsonObject) milliseconds(name string) *timestamppb.Timestamp {
	n := o.number(name)
	if n <= 0 || n > 253402300799999 { // the year 9999
		return nil
	}
	return timestamppb.New(time.UnixMilli(n))
}

// date returns a moment as RFC 3339 writes it; nil when it is not there.
func (o *jsonObject) date(name string) *timestamppb.Timestamp {
	text := o.text(name)
	if text == "" {
		return nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if made := timestamppb.New(at); err == nil && made.IsValid() {
		return made
	}
	o.refuse(join(o.path, name), "expected a date and a time, such as 2026-11-22T12:00:00Z")
	return nil
}

// member returns an object in this one; one that is not there has nothing in it.
func (o *jsonObject) member(name string) *jsonObject {
	value, present := o.get(name), o.has(name)
	return o.inObject(join(o.pattern, name), join(o.path, name), value, present)
}

func (o *jsonObject) values(name string) []any {
	switch value := o.get(name).(type) {
	case nil:
		return nil
	case []any:
		return value
	default:
		o.refuse(join(o.path, name), "expected a list, got %s", describe(value))
		return nil
	}
}

func (o *jsonObject) texts(name string) []string {
	var texts []string
	for i, value := range o.values(name) {
		texts = append(texts, o.textOf(fmt.Sprintf("%s[%d]", join(o.path, name), i), value))
	}
	return texts
}

func (o *jsonObject) list(name string) []*jsonObject {
	var list []*jsonObject
	for i, value := range o.values(name) {
		list = append(list, o.inObject(join(o.pattern, name)+"[]", fmt.Sprintf("%s[%d]", join(o.path, name), i), value, true))
	}
	return list
}

// sorted returns the names of the members, whatever they are.
func (o *jsonObject) sorted() []string { return slices.Sorted(maps.Keys(o.members)) }

// done reports the members that nobody asked for.
func (o *jsonObject) done() {
	for name := range o.members {
		if !o.asked[name] {
			o.unknown(join(o.pattern, name))
		}
	}
}

func describe(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case bool:
		return "true or false"
	case json.Number, float64:
		return "a number"
	case string:
		return "a text"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	case json.Delim:
		return cmp.Or(map[json.Delim]string{'{': "an object", '[': "a list"}[value], "the end of it")
	}
	return "something else"
}
