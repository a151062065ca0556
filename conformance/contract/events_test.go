package contract

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "github.com/writ-id/writ/gen/proto/writ/event/v1" // the catalogue
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	storagev1 "github.com/writ-id/writ/gen/proto/writ/storage/v1"
)

// Every operation that writes has appended events by the time the suite ends. An event
// has to say what the contract says that it says: eventInvariants finds those that leave
// out which object they are about, and those that contradict the row that they made.

// silent are texts of events that may be empty, though others of their kind may not.
var silent = map[string]bool{
	"UserDataSet.schema_id":       true, // no schema any more
	"OIDCSessionAdded.session_id": true, // a grant without a session of the user
	"MembershipAdded.object_id":   true, // the system
}

// identifies says whether a text of an event names something, and so cannot be empty.
func identifies(field protoreflect.FieldDescriptor) bool {
	name := string(field.Name())
	return strings.HasSuffix(name, "_id") ||
		slices.Contains([]string{"name", "key", "type", "domain", "username", "login_name", "url", "target_type", "algorithm"}, name)
}

// always says whether a field of an event is there whatever happened.
func always(field protoreflect.FieldDescriptor) bool {
	return !field.IsList() && !field.IsMap() && field.Message() == nil && !field.HasOptionalKeyword() && field.ContainingOneof() == nil
}

// tablesOf returns the table an event tells of, "" for none, and its column with the ID of
// the object.
func tablesOf(events []protoreflect.MessageDescriptor) map[protoreflect.FullName]*storagev1.Table {
	byName, byKind := map[string]*storagev1.Table{}, map[string]*storagev1.Table{}
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Messages().Len() {
			of, ok := proto.GetExtension(file.Messages().Get(i).Options(), storagev1.E_Table).(*storagev1.Table)
			if ok && of != nil {
				byName[of.GetName()] = of
				if of.GetSubject() == "" {
					byKind[of.GetAggregate()] = of
				}
			}
		}
		return true
	})
	found := map[protoreflect.FullName]*storagev1.Table{}
	for _, event := range events {
		name := proto.GetExtension(event.Options(), storagev1.E_Of).(string)
		if of := byName[name]; of != nil {
			found[event.FullName()] = of
		} else if of := byKind[kindOf(event).GetAggregate()]; of != nil {
			found[event.FullName()] = of
		}
	}
	return found
}

func kindOf(event protoreflect.MessageDescriptor) *policyv1.Event {
	kind, _ := proto.GetExtension(event.Options(), policyv1.E_Event).(*policyv1.Event)
	return kind
}

// eventInvariants makes a query for each field of each event of the contract.
func eventInvariants(columns map[column]bool) []invariant {
	var events []protoreflect.MessageDescriptor
	protoregistry.GlobalFiles.RangeFilesByPackage("writ.event.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Messages().Len() {
			if message := file.Messages().Get(i); kindOf(message) != nil {
				events = append(events, message)
			}
		}
		return true
	})
	tables := tablesOf(events)
	var all []invariant
	for _, event := range events {
		for i := range event.Fields().Len() {
			field := event.Fields().Get(i)
			if !always(field) {
				continue
			}
			of := kindOf(event).GetType()
			if field.Kind() == protoreflect.StringKind && identifies(field) && !silent[string(event.Name())+"."+string(field.Name())] {
				all = append(all, invariant{of + " without " + field.JSONName(), fmt.Sprintf(
					`SELECT e.aggregate_id FROM events e WHERE e.event_type = '%s' AND coalesce(e.payload ->> '%s', '') = ''`, of, field.JSONName())})
			}
			if sql := contradicts(columns, tables[event.FullName()], of, field); sql != "" {
				all = append(all, invariant{of + " with another " + field.JSONName() + " than its object", sql})
			}
		}
	}
	return all
}

// contradicts finds the rows whose last event says something else than they do.
func contradicts(columns map[column]bool, of *storagev1.Table, event string, field protoreflect.FieldDescriptor) string {
	if of == nil || proto.GetExtension(field.Options(), storagev1.E_Computed).(bool) {
		return ""
	}
	name := proto.GetExtension(field.Options(), storagev1.E_Column).(string)
	if name == "" {
		name = string(field.Name())
	}
	// What a view adds has no column; of enumerations the row has the number.
	if !columns[column{of.GetName(), name}] || field.Enum() != nil || field.Kind() == protoreflect.BytesKind {
		return ""
	}
	where := "r.instance_id = e.instance_id AND "
	if of.GetSystem() {
		where = ""
	}
	return fmt.Sprintf(`SELECT r.id || ' has ' || coalesce(r.%[2]s::text, 'none') || ', the event ' || coalesce(e.payload ->> '%[3]s', 'nothing')
		FROM events e JOIN %[1]s r ON %[5]s r.sequence = e.sequence WHERE e.event_type = '%[4]s' AND coalesce(r.%[2]s::text, '') <> coalesce(e.payload ->> '%[3]s', '')`,
		of.GetName(), quoted(name), field.JSONName(), event, where)
}

// quoted spells a column that is a word of SQL too.
func quoted(name string) string { return `"` + name + `"` }
