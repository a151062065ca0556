// Package event appends the events of state changes and knows the catalogue of
// events and functions, which the contract states (contracts/proto/writ/event).
//
// An event is appended in the transaction of the change it tells of. Its
// payload is a message of the contract, so no event can exist that conditions
// cannot name.
package event

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
)

// Catalogue is what the contract says exists.
type Catalogue struct {
	events    []string // sorted
	functions []string // sorted
	kinds     map[protoreflect.FullName]*policyv1.Event
	messages  map[string]protoreflect.MessageDescriptor // of events and functions, by name
}

// Known is the catalogue of this build.
var Known = newCatalogue()

func newCatalogue() *Catalogue {
	c := &Catalogue{kinds: map[protoreflect.FullName]*policyv1.Event{}, messages: map[string]protoreflect.MessageDescriptor{}}
	pkg := eventv1.File_writ_event_v1_event_proto.Package()
	protoregistry.GlobalFiles.RangeFilesByPackage(pkg, func(file protoreflect.FileDescriptor) bool {
		c.add(file.Messages())
		return true
	})
	slices.Sort(c.events)
	slices.Sort(c.functions)
	return c
}

func (c *Catalogue) add(messages protoreflect.MessageDescriptors) {
	for i := range messages.Len() {
		message := messages.Get(i)
		if kind := proto.GetExtension(message.Options(), policyv1.E_Event).(*policyv1.Event); kind != nil {
			c.events = append(c.events, kind.GetType())
			c.kinds[message.FullName()] = kind
			c.messages[kind.GetType()] = message
		}
		if function := proto.GetExtension(message.Options(), policyv1.E_Function).(*policyv1.Function); function != nil {
			c.functions = append(c.functions, function.GetName())
			c.messages[function.GetName()] = message
		}
	}
}

// Functions returns the names of all functions, sorted.
func (c *Catalogue) Functions() []string { return slices.Clone(c.functions) }

// Events returns the names of all events, sorted.
func (c *Catalogue) Events() []string { return slices.Clone(c.events) }

// Message returns the payload of an event or a function, nil when there is none of the name.
func (c *Catalogue) Message(name string) protoreflect.MessageDescriptor { return c.messages[name] }

// HasFunction reports whether a function of that name exists.
func (c *Catalogue) HasFunction(name string) bool {
	_, found := slices.BinarySearch(c.functions, name)
	return found
}

// HasEvent reports whether an event of that name exists.
func (c *Catalogue) HasEvent(name string) bool {
	_, found := slices.BinarySearch(c.events, name)
	return found
}

// Named returns the names that a name or a group (name.*) stands for, sorted.
func (c *Catalogue) Named(name string) []string {
	group, isGroup := strings.CutSuffix(name, "*")
	var found []string
	for _, one := range c.events {
		if one == name || isGroup && strings.HasPrefix(one, group) {
			found = append(found, one)
		}
	}
	return found
}

// EventsOf returns the names of the events of a kind of objects.
func (c *Catalogue) EventsOf(aggregate string) []string {
	var found []string
	for _, kind := range c.kinds {
		if kind.GetAggregate() == aggregate {
			found = append(found, kind.GetType())
		}
	}
	return found
}

// HasGroup reports whether there are events below the dot-separated prefix.
func (c *Catalogue) HasGroup(prefix string) bool {
	below := prefix + "."
	at, _ := slices.BinarySearch(c.events, below)
	return at < len(c.events) && strings.HasPrefix(c.events[at], below)
}
