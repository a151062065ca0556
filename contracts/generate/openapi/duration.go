package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
)

// anyDuration matches the JSON of a google.protobuf.Duration: seconds without
// leading zeros, at most nine digits of fraction.
const anyDuration = `^-?(0|[1-9][0-9]{0,11})(\.[0-9]{1,9})?s$`

// maxSeconds is the largest google.protobuf.Duration, about 10,000 years.
const maxSeconds = 315_576_000_000

// durationRules says the bounds in words, and as an exact pattern when they
// are whole seconds from zero on.
func (g *generator) durationRules(f protoreflect.FieldDescriptor, s *schema, rules *validate.DurationRules) {
	s.Example = durationExample(rules)
	var bounds []string
	var least *durationpb.Duration // of those that are not none at all
	each(rules, func(name string, value protoreflect.Value) {
		words := map[string]string{"gt": "more than", "gte": "at least", "lt": "less than", "lte": "at most", "none_or_gte": "0s, or at least"}
		if words[name] == "" {
			g.unknown(f, name)
			return
		}
		d := value.Message().Interface().(*durationpb.Duration)
		if name == "none_or_gte" {
			least = d
		}
		bounds = append(bounds, fmt.Sprintf("%s %vs", words[name], d.AsDuration().Seconds()))
	})
	if len(bounds) == 0 {
		return
	}
	s.note("%s", strings.Join(bounds, ", "))

	low, high := cmp.Or(rules.GetGte(), least), rules.GetLte()
	if rules.HasGt() {
		low = rules.GetGt()
	}
	if rules.HasLt() {
		high = rules.GetLt()
	} else if high == nil {
		high = &durationpb.Duration{Seconds: maxSeconds}
	}
	if low != nil && low.GetSeconds() >= 0 && low.GetNanos() == 0 && high.GetNanos() == 0 && low.GetSeconds() < high.GetSeconds() {
		s.Pattern = durationPattern(low.GetSeconds(), high.GetSeconds(), !rules.HasGt(), !rules.HasLt())
		if least != nil {
			s.Pattern = strings.Replace(s.Pattern, "^(", `^(0(\.0{1,9})?|`, 1)
		}
	}
}

// durationExample returns the example of the rules, or one that most rules allow.
func durationExample(rules *validate.DurationRules) string {
	if given := rules.GetExample(); len(given) > 0 {
		return fmt.Sprintf("%ds", given[0].GetSeconds())
	}
	return "10s"
}

// durationPattern matches the durations from low to high seconds.
func durationPattern(low, high int64, withLow, withHigh bool) string {
	var either []string
	first := low
	if !withLow { // low itself needs a fraction that is not zero, with up to two zeros at its end as the server writes it
		either = append(either, strconv.FormatInt(low, 10)+`\.[0-9]{0,6}([0-9]{0,2}[1-9]|[0-9]?[1-9]0|[1-9]00)`)
		first++
	}
	if first < high {
		either = append(either, "("+strings.Join(digits(first, high-1), "|")+`)(\.[0-9]{1,9})?`)
	}
	if withHigh {
		either = append(either, strconv.FormatInt(high, 10)+`(\.0{1,9})?`)
	}
	return "^(" + strings.Join(either, "|") + ")s$"
}

// digits returns patterns that together match the numbers from low to high: 1
// to 269 are [1-9], [1-9][0-9], 1[0-9]{2} and 2[0-6][0-9].
func digits(low, high int64) []string {
	var patterns []string
	for low <= high {
		// A block is one digit with any `free` digits after it.
		block, free := int64(1), 0
		for next := block * 10; low%next == 0 && low >= next && low+next-1 <= high; next *= 10 {
			block, free = next, free+1
		}
		digit := low / block % 10
		blocks := min(10-digit, (high-low+1)/block)
		var b strings.Builder
		if head := low / block / 10; head > 0 {
			b.WriteString(strconv.FormatInt(head, 10))
		}
		if blocks == 1 {
			b.WriteString(strconv.FormatInt(digit, 10))
		} else {
			fmt.Fprintf(&b, "[%d-%d]", digit, digit+blocks-1)
		}
		switch free {
		case 0:
		case 1:
			b.WriteString("[0-9]")
		default:
			fmt.Fprintf(&b, "[0-9]{%d}", free)
		}
		patterns = append(patterns, b.String())
		low += blocks * block
	}
	return patterns
}
