package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"buf.build/go/protovalidate"
)

// location is a field of a request, however deep: the fields that lead to it.
// Where one of them is a list, it goes through the first element.
type location []protoreflect.FieldDescriptor

// String returns the location as a refusal names it.
func (l location) String() string {
	var names []string
	for i, field := range l {
		name := field.JSONName()
		if field.IsList() && i < len(l)-1 {
			name += "[0]"
		}
		names = append(names, name)
	}
	return strings.Join(names, ".")
}

func (l location) field() protoreflect.FieldDescriptor { return l[len(l)-1] }

// locations returns all fields of a message and of those below it. A message
// that recurs is entered once.
func locations(m protoreflect.MessageDescriptor, above location, within ...protoreflect.FullName) (all []location) {
	if slices.Contains(within, m.FullName()) {
		return nil
	}
	within = append(slices.Clone(within), m.FullName())
	for i := range m.Fields().Len() {
		field := m.Fields().Get(i)
		at := append(slices.Clone(above), field)
		all = append(all, at)
		if field.Message() != nil && !field.IsMap() && !wellKnown(field.Message()) {
			all = append(all, locations(field.Message(), at, within...)...)
		}
	}
	return all
}

// holder returns the message that holds the last field of a location, or nil.
// With create, it sets what leads there.
func holder(req proto.Message, at location, create bool) protoreflect.Message {
	m := req.ProtoReflect()
	for _, field := range at[:len(at)-1] {
		switch {
		case create && field.IsList():
			if m.Mutable(field).List().Len() == 0 {
				m.Mutable(field).List().AppendMutable()
			}
			m = m.Get(field).List().Get(0).Message()
		case create:
			m = m.Mutable(field).Message()
		case !m.Has(field):
			return nil
		case field.IsList():
			m = m.Get(field).List().Get(0).Message()
		default:
			m = m.Get(field).Message()
		}
	}
	return m
}

// leadingTo returns a valid request, made of another, in which the message is
// set that holds the last field of a location.
func leadingTo(base proto.Message, at location) (proto.Message, error) {
	req := proto.Clone(base)
	holder(req, at, true)
	if err := complete(req); err != nil {
		return nil, err
	}
	if holder(req, at, false) == nil {
		return nil, fmt.Errorf("no valid request has %s", at)
	}
	return req, nil
}

// freeFor returns req without another member of the oneof that the last field of
// a location belongs to, so that its JSON can be put beside the rest.
func freeFor(req proto.Message, at location) proto.Message {
	req = proto.Clone(req)
	if in, oneof := holder(req, at, false), at.field().ContainingOneof(); in != nil && oneof != nil {
		if member := in.WhichOneof(oneof); member != nil && member != at.field() {
			in.Clear(member)
		}
	}
	return req
}

// breach is one way to break the rules of a field, the same on each transport.
type breach struct {
	name   string
	reason string
	field  string // that is blamed
	apply  func(in protoreflect.Message)
}

// breaches returns the ways to break the rules of the last field.
func breaches(at location) (all []breach) {
	field := at.field()
	add := func(name, reason, below string, apply func(in protoreflect.Message)) {
		all = append(all, breach{name, reason, at.String() + below, apply})
	}
	item, set := "", func(value protoreflect.Value) func(protoreflect.Message) {
		return func(in protoreflect.Message) { in.Set(field, value) }
	}
	if field.IsList() {
		item, set = "[0]", func(value protoreflect.Value) func(protoreflect.Message) {
			return func(in protoreflect.Message) {
				in.Clear(field)
				in.Mutable(field).List().Append(value)
			}
		}
		if most, ok := listBound(field, "max_items"); ok && most <= 1000 {
			add("too many", "INVALID_FIELD", "", func(in protoreflect.Message) {
				if in.Get(field).List().Len() == 0 {
					appendTo(in, field)
				}
				for list := in.Mutable(field).List(); list.Len() <= most; {
					list.Append(list.Get(0))
				}
			})
		}
		if least, ok := listBound(field, "min_items"); ok && least > 0 {
			add("too few", "INVALID_FIELD", "", func(in protoreflect.Message) { in.Clear(field) })
		}
	}
	if required(field) {
		add("none", "INVALID_FIELD", "", func(in protoreflect.Message) { in.Clear(field) })
	}
	if field.IsMap() {
		return all
	}
	switch field.Kind() {
	case protoreflect.StringKind:
		text := func(value string) func(protoreflect.Message) { return set(protoreflect.ValueOfString(value)) }
		add("a NUL", "INVALID_TEXT", item, text("a\x00b"))
		if least, ok := bound(field, "min_len"); ok && least.Uint() > 0 {
			add("empty", "INVALID_FIELD", item, text(""))
		}
		for _, name := range []protoreflect.Name{"max_len", "len", "max_bytes"} {
			if most, ok := bound(field, name); ok && most.Uint() < 1<<19 {
				add(fmt.Sprintf("%d characters", most.Uint()+1), "INVALID_FIELD", item, text(strings.Repeat("a", int(most.Uint())+1)))
			}
		}
	case protoreflect.EnumKind:
		add("an unknown value", "INVALID_FIELD", item, set(protoreflect.ValueOfEnum(undefined(field.Enum()))))
	case protoreflect.BytesKind:
		if most, ok := bound(field, "max_len"); ok && most.Uint() < 1<<19 {
			add(fmt.Sprintf("%d bytes", most.Uint()+1), "INVALID_FIELD", item, set(protoreflect.ValueOfBytes(make([]byte, most.Uint()+1))))
		}
	case protoreflect.BoolKind, protoreflect.MessageKind, protoreflect.FloatKind, protoreflect.DoubleKind:
	default:
		if most, ok := bound(field, "lte"); ok {
			add("more than "+most.String(), "INVALID_FIELD", item, set(plus(field.Kind(), most, 1)))
		}
		if least, ok := bound(field, "gte"); ok && least.String() != "0" {
			add("less than "+least.String(), "INVALID_FIELD", item, set(plus(field.Kind(), least, -1)))
		}
	}
	return all
}

func undefined(e protoreflect.EnumDescriptor) protoreflect.EnumNumber {
	for number := protoreflect.EnumNumber(1); ; number++ {
		if e.Values().ByNumber(number) == nil {
			return number
		}
	}
}

// plus adds to an integer of a kind.
func plus(kind protoreflect.Kind, value protoreflect.Value, n int64) protoreflect.Value {
	switch number := value.Interface().(type) {
	case int32:
		return protoreflect.ValueOfInt32(number + int32(n))
	case int64:
		return protoreflect.ValueOfInt64(number + n)
	case uint32:
		return protoreflect.ValueOfUint32(number + uint32(n))
	case uint64:
		return protoreflect.ValueOfUint64(number + uint64(n))
	}
	panic(kind)
}

// report collects what could not be tried.
type report struct {
	tried   int
	skipped []string
}

func (r *report) skip(what, why any) { r.skipped = append(r.skipped, fmt.Sprintf("%v: %v", what, why)) }

// TestSEC291_SEC292_EveryRuleOfEveryFieldIsKept breaks each rule of the contract, one
// at a time, in a request that is valid but for that, and expects that field to
// be blamed, on REST and one of the other transports in turn. JSON and query
// strings are broken in the ways of their own; what the rules just allow has to
// pass. Nothing may be written.
func TestSEC291_SEC292_EveryRuleOfEveryFieldIsKept(t *testing.T) {
	all, report := newSuite(t), &report{}
	all.everyFeature()
	for _, op := range sortedOperations() {
		t.Run(string(op.method.Name()), func(t *testing.T) {
			s := all.in(t)
			base, err := example(t, s.Server, op)
			if err != nil {
				report.skip(op.path(), err)
				t.Skipf("no valid request is known: %v", err)
			}
			s.writesNothing(func() {
				s.breakQuery(report, op, base)
				for _, at := range locations(op.method.Input(), nil) {
					req, err := leadingTo(base, at)
					if err != nil {
						report.skip(op.path()+" "+at.String(), err)
						continue
					}
					s.breakField(report, op, req, at)
					s.keepsTo(report, op, req, at)
					if op.rule().place(at[0]) == "body" {
						s.breakJSON(report, op, req, at)
					}
				}
			})
		})
	}
	t.Logf("%d requests; %d could not be made", report.tried, len(report.skipped))
	for _, what := range report.skipped {
		t.Log(what)
	}
}

// breakField sends each breach of a field.
func (s *suite) breakField(report *report, op *operation, req proto.Message, at location) {
	s.t.Helper()
	place := op.rule().place(at[0])
	for _, breach := range breaches(at) {
		broken := proto.Clone(req)
		breach.apply(holder(broken, at, false))
		if why := anotherRule(broken, breach); why != "" {
			report.skip(fmt.Sprintf("%s %s: %s", op.path(), breach.field, breach.name), why)
			continue
		}
		report.tried++
		over := s.transports[1:5][report.tried%4]
		s.blamed(breach.name+" over "+over.name(), over.call(s.t, s.wrong(), s.AdminToken, broken), breach.field, breach.reason)
		rest := s.transports[len(s.transports)-1]
		switch {
		case place == "body" && len(at) == 1 && !broken.ProtoReflect().Has(at[0]): // REST has no body that is not there
		case place == "path" && breach.name == "empty":
			got := rest.call(s.t, s.wrong(), s.AdminToken, broken)
			if got.refusal == nil || !slices.Contains([]int{400, 404, 405}, got.http) {
				s.t.Errorf("an empty %s in the path: got %s, want a refusal", at, got)
			}
		default:
			reasons := []string{breach.reason}
			if place == "query" && at.field().Enum() != nil {
				reasons = []string{"INVALID_ENUM"} // a query has names only
			}
			s.blamed(breach.name+" over REST", rest.call(s.t, s.wrong(), s.AdminToken, broken), breach.field, reasons...)
		}
	}
}

// keepsTo sends values that the rules just allow: the shortest and the longest
// text, every value of an enum, the bounds of a number. A read has to answer the
// administrator; a change is asked for by somebody without a role, who is refused
// after the rules were checked.
func (s *suite) keepsTo(report *report, op *operation, req proto.Message, at location) {
	s.t.Helper()
	token, field := s.AdminToken, at.field()
	if !reads(op) {
		if token = s.NobodyToken; op.policy().GetPermission() == "" || op.policy().GetSelf() {
			return
		}
	}
	var values []protoreflect.Value
	switch field.Kind() {
	case protoreflect.StringKind:
		values = append(values, protoreflect.ValueOfString(""), protoreflect.ValueOfString("%_\\'\"ß🙂"))
		if most, ok := bound(field, "max_len"); ok {
			values = append(values, protoreflect.ValueOfString(strings.Repeat("🙂", int(most.Uint()))))
		}
	case protoreflect.BoolKind, protoreflect.EnumKind, protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Int32Kind, protoreflect.Int64Kind:
		values = candidates(field)
	}
	for i, value := range values {
		with := proto.Clone(req)
		if in := holder(with, at, false); field.IsList() {
			in.Clear(field)
			in.Mutable(field).List().Append(value)
		} else {
			in.Set(field, value)
		}
		if broken, err := violations(with); err != nil || len(broken) > 0 {
			continue // the rules do not allow it here
		}
		report.tried++
		got := s.transports[1+i%6].call(s.t, s.t.Context(), token, with)
		if got.refusal != nil && (got.code() == codes.Internal || got.code() == codes.Unavailable || got.reason() == "INVALID_FIELD") {
			s.t.Errorf("%s: the contract allows %q, got %s", at, value, got)
		}
	}
}

// anotherRule says why a breach would not be blamed on its field, or "".
func anotherRule(broken proto.Message, breach breach) string {
	if breach.reason != "INVALID_FIELD" { // what holds without a rule
		return ""
	}
	found, err := violations(broken)
	switch {
	case err != nil:
		return err.Error()
	case len(found) == 0 && breach.name != "an unknown value": // enums have to say defined_only
		return "the contract allows it"
	case len(found) > 0 && jsonNames(broken, found[0]) != breach.field:
		return "another rule speaks first: " + protovalidate.FieldPathString(found[0].Proto.GetField())
	}
	return ""
}

// jsonNames returns the field of a violation as JSON spells it.
func jsonNames(m proto.Message, violation *protovalidate.Violation) string {
	var names []string
	in := m.ProtoReflect().Descriptor()
	for _, element := range violation.Proto.GetField().GetElements() {
		name := element.GetFieldName()
		if in != nil && element.GetFieldNumber() == 0 && in.Oneofs().ByName(protoreflect.Name(name)) != nil {
			break // no field: the message that lacks its member is named
		}
		if in != nil {
			if field := in.Fields().ByName(protoreflect.Name(name)); field != nil {
				name, in = field.JSONName(), field.Message()
			}
		}
		if element.GetSubscript() != nil {
			name += fmt.Sprintf("[%d]", element.GetIndex())
		}
		names = append(names, name)
	}
	return strings.Join(names, ".")
}

// blamed fails the test unless a field was refused as invalid input.
func (s *suite) blamed(what string, got outcome, field string, reasons ...string) {
	s.t.Helper()
	if got.refusal == nil || got.code() != codes.InvalidArgument || got.http != 0 && got.http != http.StatusBadRequest ||
		!slices.Contains(reasons, got.reason()) || field != anyField && got.field() != field {
		s.t.Errorf("%s: %s: got %s at %q, want %v: %s", field, what, got.reason(), got.field(), reasons, got)
	}
}

// anyReason are the reasons of a value that has the wrong type, where the
// decoder is the library's.
var anyReason = []string{"WRONG_TYPE", "INVALID_VALUE", "INVALID_FIELD", "MALFORMED_REQUEST", "NULL_VALUE"}

// breakJSON puts values of wrong types into a body.
func (s *suite) breakJSON(report *report, op *operation, req proto.Message, at location) {
	s.t.Helper()
	field, path := at.field(), at.String()
	req = freeFor(req, at)
	send := func(what string, value any, below, reported string, reasons ...string) {
		s.t.Helper()
		body, err := bodyWith(op, req, at, below, value)
		if err != nil {
			report.skip(fmt.Sprintf("%s %s: %s", op.path(), path, what), err)
			return
		}
		report.tried++
		s.blamed(what, s.sendChanged(op, req, func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}), reported, reasons...)
	}
	item := path
	if field.IsList() {
		item += "[0]"
	}
	isMessage := field.Message() != nil && !field.IsMap() && !wellKnown(field.Message())
	if isMessage {
		send("an unknown member", 1, "noSuchMember", item+".noSuchMember", "UNKNOWN_FIELD")
	}
	if field.Message() != nil && field.Message().FullName() == "google.protobuf.Value" {
		return // anything is one
	}
	send("null", nil, "", path, "NULL_VALUE")
	if field.IsList() {
		send("null in a list", []any{nil}, "", item, "NULL_VALUE")
		if root := len(at) == 1; root {
			send("a text for a list", "x", "", path, "WRONG_TYPE", "MALFORMED_REQUEST")
		} else {
			send("a text for a list", "x", "", path, "WRONG_TYPE")
		}
	}
	single := func(what string, value any, reasons ...string) {
		s.t.Helper()
		if field.IsList() {
			value = []any{value}
		}
		send(what, value, "", item, reasons...)
	}
	switch {
	case field.IsMap():
		send("a text for a map", "x", "", anyField, anyReason...)
	case isMessage:
		single("a text for an object", "x", "WRONG_TYPE")
	case field.Message() != nil && slices.Contains([]protoreflect.FullName{"google.protobuf.Timestamp", "google.protobuf.Duration"}, field.Message().FullName()):
		single("a number for a text", 1, "WRONG_TYPE")
		single("a text that is none", "soon", "INVALID_VALUE")
	case field.Message() != nil:
		single("a list for something else", []any{[]any{}}, anyReason...)
	case field.Kind() == protoreflect.StringKind, field.Kind() == protoreflect.BytesKind:
		single("a number for a text", 1, "WRONG_TYPE")
		single("an object for a text", map[string]any{}, "WRONG_TYPE")
	case field.Kind() == protoreflect.EnumKind:
		single("an unknown name", "NO_SUCH_VALUE", "INVALID_ENUM")
		single("a boolean for an enum", true, "WRONG_TYPE")
	case field.Kind() == protoreflect.BoolKind:
		single("a text for a boolean", "true", "WRONG_TYPE")
		single("a number for a boolean", 1, "WRONG_TYPE")
	default:
		single("a boolean for a number", true, "WRONG_TYPE")
		single("a word for a number", "many", "WRONG_TYPE")
	}
}

// bodyWith returns the body of a request with another value at a location, or
// at a member below it.
func bodyWith(op *operation, req proto.Message, at location, below string, value any) ([]byte, error) {
	parts, err := op.parts(req)
	if err != nil {
		return nil, err
	}
	var steps []any // names of members and indexes of lists
	for i, field := range at {
		if i > 0 || parts.body == "*" {
			steps = append(steps, field.JSONName())
		}
		if field.IsList() && (i < len(at)-1 || below != "") {
			steps = append(steps, 0)
		}
	}
	if below != "" {
		steps = append(steps, below)
	}
	var body any
	if err := json.Unmarshal(parts.content, &body); err != nil {
		return nil, err
	}
	return json.Marshal(replaced(body, steps, value))
}

// replaced returns tree with another value at the end of steps.
func replaced(tree any, steps []any, value any) any {
	if len(steps) == 0 {
		return value
	}
	switch step := steps[0].(type) {
	case string:
		members, _ := tree.(map[string]any)
		if members == nil {
			members = map[string]any{}
		}
		members[step] = replaced(members[step], steps[1:], value)
		return members
	default:
		list, _ := tree.([]any)
		if len(list) == 0 {
			list = []any{nil}
		}
		list[0] = replaced(list[0], steps[1:], value)
		return list
	}
}

// sendChanged sends a request over REST as the administrator, changed.
func (s *suite) sendChanged(op *operation, req proto.Message, change func(*http.Request)) outcome {
	s.t.Helper()
	request, err := op.request(s.wrong(), s.Issuer, req)
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.AdminToken)
	change(request)
	return s.transports[len(s.transports)-1].(plain).send(s.t, op, request)
}

// breakQuery puts parameters into the query that are unknown, doubled or no
// value of their type.
func (s *suite) breakQuery(report *report, op *operation, req proto.Message) {
	s.t.Helper()
	var at location
	send := func(name, value string, times int, reason string) {
		s.t.Helper()
		report.tried++
		with := req
		if len(at) > 0 {
			with = freeFor(req, at)
		}
		s.blamed(fmt.Sprintf("%s=%s, %d times", name, value, times), s.sendChanged(op, with, func(r *http.Request) {
			query := r.URL.Query()
			query[name] = slices.Repeat([]string{value}, times)
			r.URL.RawQuery = query.Encode()
		}), name, reason)
	}
	send("noSuchParameter", "1", 1, "UNKNOWN_PARAMETER")
	for _, at = range locations(op.method.Input(), nil) {
		field, name := at.field(), at.String()
		switch place := op.rule().place(at[0]); {
		case place != "query":
			if len(at) == 1 && op.rule().body != "*" { // a field of another place is no parameter
				send(name, "1", 1, "UNKNOWN_PARAMETER")
			}
			continue
		case slices.ContainsFunc(at, protoreflect.FieldDescriptor.IsMap), slices.ContainsFunc(at[:len(at)-1], protoreflect.FieldDescriptor.IsList):
			report.skip(op.path()+" "+name, "no parameter has this form")
			continue
		case field.Message() != nil && !wellKnown(field.Message()):
			send(name, "1", 1, "UNKNOWN_PARAMETER")
			continue
		}
		value, reason := "x", "WRONG_TYPE"
		switch field.Kind() {
		case protoreflect.StringKind, protoreflect.BytesKind:
			reason = ""
		case protoreflect.EnumKind:
			reason = "INVALID_ENUM"
		case protoreflect.MessageKind:
			reason = "INVALID_VALUE"
		}
		if reason != "" {
			send(name, value, 1, reason)
			send(name, "", 1, reason)
		}
		if !field.IsList() {
			send(name, fmt.Sprint(parameter(field, candidates(field)[0])), 2, "REPEATED_PARAMETER")
		}
	}
	if query := op.method.Input().Fields().ByName("query"); query != nil && query.Message().FullName() == "writ.object.v3alpha.ListQuery" {
		at = nil
		send("query.limit", "1001", 1, "INVALID_FIELD")
	}
}

// TestSEC292_EveryFieldOfARequestHasABound: every text, list, map and enum says
// in the contract what is too much of it. A number has the bound of its type.
func TestSEC292_EveryFieldOfARequestHasABound(t *testing.T) {
	for _, op := range sortedOperations() {
		for _, at := range locations(op.method.Input(), nil) {
			field := at.field()
			if field.IsList() || field.IsMap() {
				stated, err := protovalidate.ResolveFieldRules(field)
				if err != nil || !stated.GetRepeated().HasMaxItems() && !stated.GetMap().HasMaxPairs() {
					t.Errorf("%s: %s has no greatest length", op.path(), at)
				}
			}
			var enough []protoreflect.Name
			switch {
			case field.IsMap():
				continue
			case field.Kind() == protoreflect.StringKind:
				enough = []protoreflect.Name{"max_len", "len", "max_bytes", "len_bytes", "const", "in", "uuid", "ip", "ipv4", "ipv6", "ip_prefix"}
			case field.Kind() == protoreflect.BytesKind:
				enough = []protoreflect.Name{"max_len", "len", "const", "in"}
			case field.Kind() == protoreflect.EnumKind:
				enough = []protoreflect.Name{"defined_only", "const", "in"}
			default:
				continue
			}
			if !slices.ContainsFunc(enough, func(name protoreflect.Name) bool { _, ok := bound(field, name); return ok }) {
				t.Errorf("%s: %s has none of the rules %v", op.path(), at, enough)
			}
		}
	}
}
