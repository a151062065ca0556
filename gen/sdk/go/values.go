package writ

import (
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"
)

// MustTime is for literals: a time in RFC 3339.
func MustTime(text string) time.Time {
	parsed, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return parsed
}

// Duration is a time.Duration that goes over the wire in seconds ("1.5s").
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON implements json.Marshaler.
func (d Duration) MarshalJSON() ([]byte, error) {
	sign, nanos := "", int64(d)
	if nanos < 0 {
		sign, nanos = "-", -nanos
	}
	text := fmt.Sprintf("%s%d.%09d", sign, nanos/1e9, nanos%1e9)
	return json.Marshal(strings.TrimRight(strings.TrimRight(text, "0"), ".") + "s")
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var seconds string
	if err := json.Unmarshal(text, &seconds); err != nil || seconds == "" {
		return err
	}
	parsed, err := time.ParseDuration(seconds)
	*d = Duration(parsed)
	return err
}

// paramsAmong returns the parameters that options hold, or empty ones.
func paramsAmong[P any](opts []CallOption) (found P) {
	for _, option := range opts {
		if given, ok := any(option).(*P); ok && given != nil {
			found = *given
		}
	}
	return found
}

// pages reads page after page; read moves page on.
func pages[P, T any](page P, read func(*P) (items []T, end bool, err error)) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		at := page
		for {
			items, end, err := read(&at)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range items {
				if !yield(&items[i], nil) {
					return
				}
			}
			if end {
				return
			}
		}
	}
}
