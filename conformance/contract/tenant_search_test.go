package contract

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	eventv3 "github.com/writ-id/writ/gen/proto/writ/event/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
)

// seen is a search and what was answered before the victim had more.
type seen struct {
	who      intruder
	what     string
	req      proto.Message
	answered string
}

// TestSEC233_SearchesNeitherShowNorCountTheHidden searches in every way as those
// who may not see the victim's objects: none of these is found, and nothing but
// the newest event changes when there are more of them.
func TestSEC233_SearchesNeitherShowNorCountTheHidden(t *testing.T) {
	w := newWorld(t)
	var all []seen
	for _, op := range sortedOperations() {
		if !reads(op) || len(op.rule().variables) > 0 || ofSystem(op) {
			continue
		}
		base, err := searchAll(w.victim.suite, op)
		if err != nil {
			continue
		}
		for _, req := range append(orders(op, base), w.victim.filters(op, base)...) {
			for _, who := range w.intruders() {
				if !who.unknown && (!who.sameInstance || !ofAllOrgs(op)) {
					all = append(all, seen{who, string(op.method.Name()), req, ""})
				}
			}
		}
	}
	ask := func(s seen) string {
		got := s.who.at[1].call(t, t.Context(), s.who.token, s.req)
		if got.refusal != nil {
			return got.String()
		}
		if details, ok := got.message.(interface{ GetDetails() *object.ListDetails }); ok {
			details.GetDetails().ProcessedSequence, details.GetDetails().Timestamp = 0, &timestamppb.Timestamp{}
		}
		if events, ok := got.message.(*eventv3.SearchEventsResponse); ok {
			events.GetDetails().Position, events.GetDetails().ProcessedSequence = 0, 0
		}
		text, err := protojson.Marshal(got.message)
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(text), " ", "")
	}
	for i := range all {
		all[i].answered = ask(all[i])
		for collection, of := range w.victim.objects {
			for _, object := range of {
				if uuid.MatchString(object.id) && collection != "instances" && strings.Contains(all[i].answered, object.id) {
					t.Errorf("%s: %s finds one of the victim's %s with %s: %s", all[i].who.name, all[i].what, collection, shown(all[i].req), all[i].answered)
				}
			}
		}
	}
	before := count(w.victim.objects)
	for range 3 {
		w.victim.furnish()
	}
	more := count(w.victim.objects) - before
	if more < 3*len(w.victim.objects)/2 {
		t.Errorf("only %d more objects were made, so the comparison proves little", more)
	}
	for _, s := range all {
		if now := ask(s); now != s.answered {
			t.Errorf("%s: %s with %s answers otherwise since the victim has more: %s, before %s", s.who.name, s.what, shown(s.req), now, s.answered)
		}
	}
	t.Logf("%d searches, %d more hidden objects", len(all), more)
}

func shown(req proto.Message) string { return protojson.MarshalOptions{}.Format(req) }

func count(objects map[string][]thing) (n int) {
	for _, of := range objects {
		n += len(of)
	}
	return n
}

// orders returns a search in every order, and its first page of one.
func orders(op *operation, base proto.Message) []proto.Message {
	all := []proto.Message{base}
	fields := op.method.Input().Fields()
	if column := fields.ByName("sorting_column"); column != nil {
		for i := range column.Enum().Values().Len() {
			for _, asc := range []bool{true, false} {
				req := proto.Clone(base)
				req.ProtoReflect().Set(column, protoreflect.ValueOfEnum(column.Enum().Values().Get(i).Number()))
				req.ProtoReflect().Set(fields.ByName("query"), protoreflect.ValueOfMessage((&object.ListQuery{Limit: 1, Asc: asc}).ProtoReflect()))
				all = append(all, req)
			}
		}
	}
	return all
}

// filters returns a search with each filter, comparing with the victim's IDs
// where it compares IDs.
func (o *tenant) filters(op *operation, base proto.Message) (all []proto.Message) {
	field := op.method.Input().Fields().ByName("filters")
	if field == nil || field.Message() == nil {
		return nil
	}
	_, whole := op.rule().collections()
	whole = strings.TrimSuffix(whole, "/_search")
	for i := range field.Message().Fields().Len() {
		member := field.Message().Fields().Get(i)
		for _, id := range o.filterIDs(member, whole) {
			req := proto.Clone(base)
			filter := req.ProtoReflect().Mutable(field).List().AppendMutable().Message()
			if member.Message() == nil {
				filter.Set(member, candidates(member)[0])
			} else if in := filter.Mutable(member).Message(); id != "" {
				for _, name := range []protoreflect.Name{"id", "ids"} {
					if to := in.Descriptor().Fields().ByName(name); to != nil {
						setReference(in.Interface(), location{to}, id)
					}
				}
			}
			if complete(req) == nil {
				all = append(all, req)
			}
		}
	}
	return all
}

// filterIDs returns the IDs that a filter is tried with; "" for one that compares
// something else.
func (o *tenant) filterIDs(member protoreflect.FieldDescriptor, whole string) []string {
	if member.Message() == nil || !slices.ContainsFunc([]protoreflect.Name{"id", "ids"}, func(n protoreflect.Name) bool {
		return member.Message().Fields().ByName(n) != nil
	}) {
		return []string{""}
	}
	of := o.objects[whole]
	if named := collectionNamed(string(member.Name())); named != "" && member.Name() != "in_ids" {
		of = o.objects[named]
	}
	var ids []string
	for _, object := range of[:min(len(of), 3)] {
		ids = append(ids, object.id)
	}
	if len(ids) == 0 {
		return []string{fmt.Sprint(o.orgID)}
	}
	return ids
}
