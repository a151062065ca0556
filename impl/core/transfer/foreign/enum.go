package foreign

import (
	"encoding/json"
	"strings"
)

// enum is an enum of theirs that says what one of ours does.
type enum struct {
	theirs string   // the prefix of its names
	names  []string // without it, in the order of their numbers; the first is meant when there is none
	ours   string
	values map[string]int32
}

// of reads a value, by its name with their prefix, ours or none, or by its number; false is
// that there is none of ours.
func (e enum) of(value any) (int32, bool) {
	name := e.names[0]
	switch value := value.(type) {
	case nil:
	case string:
		name = strings.TrimPrefix(strings.TrimPrefix(value, e.theirs), e.ours)
	case json.Number:
		n, err := value.Int64()
		if err != nil || n < 0 || n >= int64(len(e.names)) {
			return 0, false
		}
		name = e.names[n]
	default:
		return 0, false
	}
	n, ok := e.values[e.ours+name]
	return n, ok
}
