// Package wire is the run-time half of protoc-gen-writ: what the generated
// AppendJSON methods and Mount functions call.
//
// The JSON is that of the proto JSON mapping with the project's rules: zero
// scalars and empty lists are written, unset optional fields, messages and
// oneof members are left out. It is byte for byte what protojson writes with
// EmitDefaultValues, once compacted; a test holds the two side by side.
package wire

import (
	"encoding/base64"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Appender is a message that writes its own JSON.
type Appender interface {
	// AppendJSON appends the message's JSON to b.
	AppendJSON(b []byte) []byte
}

const hex = "0123456789abcdef"

// AppendString appends s as a JSON string. Control characters and invalid
// UTF-8 (as U+FFFD) are escaped; everything else is written as it is.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
			b = append(b, s[start:i]...)
			b = append(b, "\ufffd"...)
			i += size
			start = i
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		}
		i++
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// AppendRaw appends v, which is JSON; null when it is empty.
func AppendRaw(b, v []byte) []byte {
	if len(v) == 0 {
		return append(b, "null"...)
	}
	return append(b, v...)
}

// AppendBytes appends v as a base64 JSON string.
func AppendBytes(b, v []byte) []byte {
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, v)
	return append(b, '"')
}

// AppendInt64 appends v as a JSON string, as 64-bit integers are.
func AppendInt64(b []byte, v int64) []byte {
	b = append(b, '"')
	b = strconv.AppendInt(b, v, 10)
	return append(b, '"')
}

// AppendUint64 appends v as a JSON string, as 64-bit integers are.
func AppendUint64(b []byte, v uint64) []byte {
	b = append(b, '"')
	b = strconv.AppendUint(b, v, 10)
	return append(b, '"')
}

// AppendFloat appends v, the non-finite values as the strings of the mapping.
func AppendFloat(b []byte, v float64, bits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(b, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(b, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(b, `"-Infinity"`...)
	}
	return strconv.AppendFloat(b, v, 'g', -1, bits)
}

// AppendEnum appends the name of an enum value, or its number if it has none.
func AppendEnum[E ~int32](b []byte, v E, names map[int32]string) []byte {
	if name, ok := names[int32(v)]; ok {
		b = append(b, '"')
		b = append(b, name...)
		return append(b, '"')
	}
	return strconv.AppendInt(b, int64(v), 10)
}

// AppendTimestamp appends v in RFC 3339, UTC, with 0, 3, 6 or 9 digits of
// fraction.
func AppendTimestamp(b []byte, v *timestamppb.Timestamp) []byte {
	b = append(b, '"')
	b = time.Unix(v.GetSeconds(), 0).UTC().AppendFormat(b, "2006-01-02T15:04:05")
	b = appendFraction(b, v.GetNanos())
	return append(b, 'Z', '"')
}

// AppendDuration appends v in seconds, for example "1.500s".
func AppendDuration(b []byte, v *durationpb.Duration) []byte {
	seconds, nanos := v.GetSeconds(), v.GetNanos()
	b = append(b, '"')
	if seconds < 0 || nanos < 0 {
		b = append(b, '-')
		seconds, nanos = -seconds, -nanos
	}
	b = strconv.AppendInt(b, seconds, 10)
	b = appendFraction(b, nanos)
	return append(b, 's', '"')
}

func appendFraction(b []byte, nanos int32) []byte {
	if nanos == 0 {
		return b
	}
	digits := 9
	for _, step := range []int{3, 6} {
		if nanos%int32(math.Pow10(9-step)) == 0 {
			digits = step
			break
		}
	}
	value := strconv.Itoa(int(nanos) + 1_000_000_000) // a leading 1 keeps the zeros
	b = append(b, '.')
	return append(b, value[1:1+digits]...)
}

// fallback is protojson with the project's rules.
var fallback = protojson.MarshalOptions{EmitDefaultValues: true}

// AppendMessage appends a message without generated code, such as
// google.protobuf.Struct or google.rpc.Status.
func AppendMessage(b []byte, m proto.Message) []byte {
	if appender, ok := m.(Appender); ok {
		return appender.AppendJSON(b)
	}
	text, err := fallback.Marshal(m)
	if err != nil { // only an Any of an unlinked type
		return append(b, "null"...)
	}
	return append(b, Compact(text)...)
}

// Compact removes the insignificant spaces protojson adds on purpose.
func Compact(text []byte) []byte {
	out, inString := text[:0:0], false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case inString && c == '\\':
			out = append(out, c, text[i+1])
			i++
			continue
		case c == '"':
			inString = !inString
		case !inString && (c == ' ' || c == '\n' || c == '\t' || c == '\r'):
			continue
		}
		out = append(out, c)
	}
	return out
}
