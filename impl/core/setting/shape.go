package setting

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/core/policy"
)

// Resolver fills the resolved message R of the properties M. A resolved message has a field of
// the name of each property: a message of its value and of the owner that it is inherited
// from. What goes where is found out once, by NewResolver.
type Resolver[M, R proto.Message] struct{ properties []resolved }

// resolved is one field of a resolved message.
type resolved struct {
	property, into, value, owner protoreflect.FieldDescriptor
	inner                        protoreflect.FieldDescriptor // of a property that is a message of one field so that it can be empty
}

// NewResolver returns the resolver of a pair of messages. It panics when they do not fit, so
// it belongs into a variable: then a contract that does not fit stops every start.
func NewResolver[M, R proto.Message]() *Resolver[M, R] {
	from, to := descriptor[M](), descriptor[R]()
	r := &Resolver[M, R]{}
	for i := range to.Fields().Len() {
		into := to.Fields().Get(i)
		one := resolved{property: from.Fields().ByName(into.Name()), into: into}
		if one.property == nil || into.Message() == nil {
			panic(misfit(into, from))
		}
		one.value, one.owner = into.Message().Fields().ByName("value"), into.Message().Fields().ByName("owner")
		if one.value == nil || one.owner == nil {
			panic(misfit(into, from))
		}
		given := one.property
		if given.Message() != nil && given.Message() != one.value.Message() {
			one.inner = given.Message().Fields().Get(0)
			given = one.inner
		}
		if given.Kind() != one.value.Kind() || given.Message() != one.value.Message() || given.IsList() != one.value.IsList() {
			panic(misfit(into, from))
		}
		r.properties = append(r.properties, one)
	}
	return r
}

func descriptor[M proto.Message]() protoreflect.MessageDescriptor {
	var none M
	return none.ProtoReflect().Descriptor()
}

func misfit(field protoreflect.FieldDescriptor, with protoreflect.MessageDescriptor) string {
	return fmt.Sprintf("setting: %s does not fit %s", field.FullName(), with.FullName())
}

// Resolve fills a resolved message. The defaults are the system's.
func (r *Resolver[M, R]) Resolve(words []Word[M], defaults M, in policy.Context, into R) R {
	to := into.ProtoReflect()
	for _, p := range r.properties {
		from, owner := defaults, &object.Owner{Type: object.OwnerType_OWNER_TYPE_SYSTEM}
		for _, word := range words {
			if word.Says.ProtoReflect().Has(p.property) {
				from, owner = word.Says, word.Inherited(in)
				break
			}
		}
		made := to.NewField(p.into)
		if from.ProtoReflect().Has(p.property) {
			value := from.ProtoReflect().Get(p.property)
			if p.inner != nil {
				value = value.Message().Get(p.inner)
			}
			made.Message().Set(p.value, value)
		}
		if owner != nil {
			made.Message().Set(p.owner, protoreflect.ValueOfMessage(owner.ProtoReflect()))
		}
		to.Set(p.into, made)
	}
	return into
}

// Asker takes what a request Q asks for as the properties M. Fields of the same name and type
// are the same property; what else the request has its service reads.
type Asker[Q, M proto.Message] struct {
	fields [][2]protoreflect.FieldDescriptor // of the request, of the properties
}

// NewAsker returns the asker of a pair of messages; as NewResolver, it panics when a field of
// the request is no property.
func NewAsker[Q, M proto.Message]() *Asker[Q, M] {
	from, to := descriptor[Q](), descriptor[M]()
	a := &Asker[Q, M]{}
	for i := range from.Fields().Len() {
		asked := from.Fields().Get(i)
		property := to.Fields().ByName(asked.Name())
		switch {
		case property == nil:
			panic(misfit(asked, to))
		case asked.Kind() == property.Kind() && asked.Message() == property.Message():
			a.fields = append(a.fields, [2]protoreflect.FieldDescriptor{asked, property})
		}
	}
	return a
}

// Asked returns the properties that are present in a request.
func (a *Asker[Q, M]) Asked(request Q) M {
	var none M
	from, asked := request.ProtoReflect(), none.ProtoReflect().New()
	for _, pair := range a.fields {
		if from.Has(pair[0]) {
			asked.Set(pair[1], from.Get(pair[0]))
		}
	}
	return asked.Interface().(M)
}
