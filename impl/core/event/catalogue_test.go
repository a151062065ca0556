package event

import (
	"regexp"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	storagev1 "github.com/writ-id/writ/gen/proto/writ/storage/v1"
	"github.com/writ-id/writ/impl/core/store/pgtest"
)

// TestTheEventsOfTriggersAreInTheCatalogue reads what the triggers of a database append:
// an event of the contract, of its aggregate, with the payload that the contract states,
// for every table whose rows the contract says an event of when they go.
func TestTheEventsOfTriggersAreInTheCatalogue(t *testing.T) {
	t.Parallel()
	rows, err := pgtest.Open(t, 1).Pool.Query(t.Context(), `
		SELECT t.tgrelid::regclass::text, p.prosrc FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
		WHERE NOT t.tgisinternal AND p.prosrc LIKE '%append_event%'`)
	if err != nil {
		t.Fatal(err)
	}
	appended := regexp.MustCompile(`append_event\(g\.instance_id, '([^']*)', g\.\w+, '([^']*)', (.*),\n`)
	key := regexp.MustCompile(`'(\w+)', g\.`)
	found := map[protoreflect.FullName]bool{}
	var table, source string
	if _, err := pgx.ForEachRow(rows, []any{&table, &source}, func() error {
		match := appended.FindStringSubmatch(source)
		if match == nil {
			t.Errorf("%s: an aggregate, a column, an event and a payload are expected: %s", table, source)
			return nil
		}
		message := messageOf(match[2])
		if message == nil {
			t.Errorf("%s: there is no event %s", table, match[2])
			return nil
		}
		found[message.FullName()] = true
		if of := Known.kinds[message.FullName()].GetAggregate(); of != match[1] {
			t.Errorf("%s: %s belongs to %s, not to %s", table, match[2], of, match[1])
		}
		keys := key.FindAllStringSubmatch(match[3], -1)
		if len(keys) != message.Fields().Len() {
			t.Errorf("%s: %s has %d fields, the trigger sets %d", table, match[2], message.Fields().Len(), len(keys))
		}
		for _, one := range keys {
			if message.Fields().ByJSONName(one[1]) == nil {
				t.Errorf("%s: %s has no field %s", table, match[2], one[1])
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	said := 0
	for name := range Known.kinds {
		message, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if proto.GetExtension(message.Options(), storagev1.E_Gone) == storagev1.Gone_GONE_UNSPECIFIED {
			continue
		}
		said++
		if !found[name] && !slices.Contains(toldOtherwise, name) {
			t.Errorf("no trigger appends %s", name)
		}
	}
	if said < 10 || len(found) != said-len(toldOtherwise) {
		t.Errorf("the contract has %d events of rows that are gone, the triggers append %d", said, len(found))
	}
}

// toldOtherwise are of rows that have another event when they go along.
var toldOtherwise = []protoreflect.FullName{"writ.event.v1.UserGrantRemoved", "writ.event.v1.UserIDPLinkRemoved"}

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

// TestWhatGoesAlongLeavesAnEvent finds tables of resources whose rows go with what they
// belong to, while no event of the contract says so (writ.storage.v1.gone).
func TestWhatGoesAlongLeavesAnEvent(t *testing.T) {
	t.Parallel()
	rows, err := pgtest.Open(t, 1).Pool.Query(t.Context(), `
		SELECT DISTINCT of.relname::text, t.oid IS NOT NULL
		FROM pg_constraint c JOIN pg_class of ON of.oid = c.conrelid
		LEFT JOIN pg_trigger t ON t.tgrelid = of.oid AND t.tgname = of.relname || '_gone'
		WHERE c.contype = 'f' AND c.confdeltype = 'c'
		AND 2 = (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = of.oid AND a.attname IN ('sequence', 'change_date'))
		ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	var table string
	var told bool
	several := false
	if _, err := pgx.ForEachRow(rows, []any{&table, &told}, func() error {
		several = several || told
		if !told && !silentlyGone[table] {
			t.Errorf("rows of %s go with what they belong to and leave no event: mark the one that says so with writ.storage.v1.gone", table)
		}
		if told && silentlyGone[table] {
			t.Errorf("%s leaves an event: it is no exception", table)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !several {
		t.Error("no table leaves an event")
	}
}

// silentlyGone are parts of what they go with, and settings of it: the event of that tells
// of them.
var silentlyGone = map[string]bool{"authenticators": true, "executions": true, "features": true, "settings": true, "setting_images": true, "messages": true, "state_policies": true}
