package event

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/writ-id/writ/sql/migrations"
)

// TestTheEventsOfTriggersAreInTheCatalogue reads the migrations: an event that a
// trigger appends has to be one of the contract, of its aggregate, with a payload
// that the contract states.
func TestTheEventsOfTriggersAreInTheCatalogue(t *testing.T) {
	t.Parallel()
	trigger := regexp.MustCompile(`EXECUTE FUNCTION append_removed\(([^)]*)\)`)
	files, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range files {
		text, err := fs.ReadFile(migrations.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range trigger.FindAllStringSubmatch(string(text), -1) {
			found++
			var args []string
			for _, arg := range strings.Split(match[1], ",") {
				args = append(args, strings.Trim(strings.TrimSpace(arg), "'"))
			}
			if len(args) < 3 || len(args)%2 == 0 {
				t.Errorf("%s: %s: an aggregate, an event, a column and pairs are expected", name, match[1])
				continue
			}
			message := messageOf(args[1])
			if message == nil {
				t.Errorf("%s: there is no event %s", name, args[1])
				continue
			}
			if of := Known.kinds[message.FullName()].GetAggregate(); of != args[0] {
				t.Errorf("%s: %s belongs to %s, not to %s", name, args[1], of, args[0])
			}
			for i := 3; i < len(args); i += 2 {
				if message.Fields().ByJSONName(args[i]) == nil {
					t.Errorf("%s: %s has no field %s", name, args[1], args[i])
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d triggers were found", found)
	}
}

// messageOf returns the payload of an event, nil when there is none of the name.
func messageOf(event string) protoreflect.MessageDescriptor {
	for name, kind := range Known.kinds {
		if kind.GetType() == event {
			found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
			if err != nil {
				return nil
			}
			return found.(protoreflect.MessageDescriptor)
		}
	}
	return nil
}
