package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// place is where a value stands. What clients send is closed and held to every
// rule; answers stay open, so that fields can be added.
type place int

const (
	inAnswer place = iota
	inBody
	inParameter // of a path or query: 64-bit integers are numbers there
)

// generator turns the services of an image into a document.
type generator struct {
	methods   []*method // all of them, for links
	validator protovalidate.Validator
	names     map[protoreflect.FullName]string
	// The messages and enums that answers and requests are made of.
	answered, sent map[protoreflect.FullName]protoreflect.Descriptor
	errs           []error
}

// answeredOnly are the messages that hand-written documents (contracts/openapi) answer with.
var answeredOnly = []protoreflect.FullName{"writ.transfer.v1.TransferFile", "writ.transfer.v1.ImportReport", "writ.transfer.v1.TransferOperation"}

// generate returns the document of all services in set. Whatever the contract
// says that the document cannot is an error: the published contract must not
// be weaker than the server.
func generate(set *descriptorpb.FileDescriptorSet) (*document, error) {
	files, err := protodesc.NewFiles(set)
	if err != nil {
		return nil, err
	}
	validator, err := protovalidate.New()
	if err != nil {
		return nil, err
	}
	g := &generator{
		validator: validator,
		answered:  map[protoreflect.FullName]protoreflect.Descriptor{},
		sent:      map[protoreflect.FullName]protoreflect.Descriptor{},
	}

	var methods []*method
	var tags []tag
	for _, file := range set.File { // in the order of the image, which is fixed
		desc, err := files.FindFileByPath(file.GetName())
		if err != nil {
			return nil, err
		}
		for i := range desc.Services().Len() {
			service := desc.Services().Get(i)
			tags = append(tags, tag{string(service.Name()), comment(service)})
			for j := range service.Methods().Len() {
				if m := g.read(service.Methods().Get(j)); m != nil {
					methods = append(methods, m)
				}
			}
		}
	}
	outputs := map[protoreflect.FullName]bool{}
	for _, m := range methods {
		outputs[m.desc.Output().FullName()] = true
		g.mark(g.answered, m.desc.Output())
		for _, field := range m.sent() {
			g.markField(g.sent, field)
		}
	}
	for _, name := range answeredOnly {
		if desc, err := files.FindDescriptorByName(name); err == nil {
			g.mark(g.answered, desc)
		}
	}
	events := g.events(files)
	g.name(outputs)
	g.methods = methods

	doc := &document{
		OpenAPI: "3.0.3",
		Info: info{
			Title:       "Writ",
			Label:       "3.0-alpha",
			Version:     "3.0.0-alpha", // Cargo, for one, takes semantic versions only
			Description: description,
			Contact:     contact{"The Writ project"},
			License:     license{"Apache-2.0", "https://www.apache.org/licenses/LICENSE-2.0"},
		},
		Servers: []server{{"/", "The server this document was read from."}},
		Tags:    tags,
	}
	ids := map[string]bool{}
	for _, m := range methods {
		operation := g.operation(m)
		if ids[operation.OperationID] {
			g.fail(m.desc, "a second method has this name: rename one of them")
		}
		ids[operation.OperationID] = true
		operations, known := doc.Paths.get(m.path)
		if !known {
			operations = new(path)
			doc.Paths.add(m.path, operations)
		}
		operations.add(m.verb, operation)
	}
	doc.bodies = map[string]string{}
	for name, sent := range g.sent {
		doc.bodies[string(name)] = g.component(sent, inBody)
	}
	doc.Components = components{
		Schemas:         g.schemas(methods),
		Responses:       sharedResponses(),
		SecuritySchemes: securitySchemes,
	}
	var shared *schema
	if doc.Webhooks, shared = g.webhooks(files, events); shared != nil {
		doc.Components.Schemas.add(eventPayload, shared)
		slices.SortFunc(doc.Components.Schemas, func(a, b field[*schema]) int { return cmp.Compare(a.name, b.name) })
	}
	return doc, errors.Join(g.errs...)
}

func (g *generator) fail(d protoreflect.Descriptor, format string, args ...any) {
	g.errs = append(g.errs, fmt.Errorf("%s: %s", d.FullName(), fmt.Sprintf(format, args...)))
}

// mark notes that d and all it is made of is used.
func (g *generator) mark(used map[protoreflect.FullName]protoreflect.Descriptor, d protoreflect.Descriptor) {
	if _, seen := used[d.FullName()]; seen {
		return
	}
	message, isMessage := d.(protoreflect.MessageDescriptor)
	if isMessage && wellKnown(message) != nil {
		return
	}
	used[d.FullName()] = d
	if isMessage {
		for i := range message.Fields().Len() {
			g.markField(used, message.Fields().Get(i))
		}
	}
}

func (g *generator) markField(used map[protoreflect.FullName]protoreflect.Descriptor, f protoreflect.FieldDescriptor) {
	switch {
	case f.IsMap():
		g.markField(used, f.MapValue())
	case f.Message() != nil:
		g.mark(used, f.Message())
	case f.Enum() != nil:
		g.mark(used, f.Enum())
	}
}

// name chooses the component names: the short name of a type, or, when two
// packages have one of that name, the name with its package (ActionV3alphaState).
//
// What CreateTarget answers is CreateTargetReply: oapi-codegen, for one, needs
// the name CreateTargetResponse for a type of its own.
func (g *generator) name(outputs map[protoreflect.FullName]bool) {
	short := func(d protoreflect.Descriptor) string {
		name := strings.TrimPrefix(string(d.FullName()), string(d.ParentFile().Package())+".")
		if outputs[d.FullName()] && strings.HasSuffix(name, "Response") {
			name = strings.TrimSuffix(name, "Response") + "Reply"
		}
		return strings.ReplaceAll(name, ".", "")
	}
	owners := map[string]map[protoreflect.FullName]bool{statusName: {"google.rpc.Status": true}}
	for _, used := range []map[protoreflect.FullName]protoreflect.Descriptor{g.answered, g.sent} {
		for full, d := range used {
			if owners[short(d)] == nil {
				owners[short(d)] = map[protoreflect.FullName]bool{}
			}
			owners[short(d)][full] = true
		}
	}
	g.names = map[protoreflect.FullName]string{}
	for _, used := range []map[protoreflect.FullName]protoreflect.Descriptor{g.answered, g.sent} {
		for full, d := range used {
			g.names[full] = short(d)
			if len(owners[short(d)]) > 1 {
				var long strings.Builder
				for _, part := range strings.Split(string(d.ParentFile().Package()), ".")[1:] {
					long.WriteString(strings.ToUpper(part[:1]) + part[1:])
				}
				g.names[full] = long.String() + short(d)
			}
		}
	}
}

// component is the name of the schema of d at a place. What is sent has the plain
// name in every service: Target, PatchTarget. A message that is both sent and
// answered has a second, open one for answers, TargetOutput.
func (g *generator) component(d protoreflect.Descriptor, at place) string {
	name := g.names[d.FullName()]
	if _, isEnum := d.(protoreflect.EnumDescriptor); isEnum || at != inAnswer {
		return name
	}
	if _, both := g.sent[d.FullName()]; both {
		return name + "Output"
	}
	return name
}

// schemas returns the schema components, sorted by name.
func (g *generator) schemas(methods []*method) fields[*schema] {
	var all fields[*schema]
	all.add(statusName, status)
	put := func(d protoreflect.Descriptor, at place) {
		name := g.component(d, at)
		if _, taken := all.get(name); taken {
			if _, isEnum := d.(protoreflect.EnumDescriptor); !isEnum { // one for both directions
				g.fail(d, "the component name %s is taken: rename the message", name)
			}
			return
		}
		switch d := d.(type) {
		case protoreflect.MessageDescriptor:
			all.add(name, g.message(d, at, nil))
		case protoreflect.EnumDescriptor:
			all.add(name, g.enum(d))
		}
	}
	for _, d := range g.answered {
		put(d, inAnswer)
	}
	for _, d := range g.sent {
		if _, isEnum := d.(protoreflect.EnumDescriptor); isEnum {
			if _, both := g.answered[d.FullName()]; both {
				continue
			}
		}
		put(d, inBody)
	}
	for _, m := range methods {
		if m.body == "*" {
			all.add(string(m.desc.Input().Name()), g.message(m.desc.Input(), inBody, m.inPath))
		}
	}
	slices.SortFunc(all, func(a, b field[*schema]) int { return cmp.Compare(a.name, b.name) })
	return all
}

// refusedWhenAbsent returns the names of the fields without which m is
// refused. Package protovalidate, which the server refuses with, decides it:
// these are the fields an empty message is reproached with.
func (g *generator) refusedWhenAbsent(m protoreflect.MessageDescriptor) map[string]bool {
	refused := map[string]bool{}
	err := g.validator.Validate(dynamicpb.NewMessage(m))
	if violations, ok := errors.AsType[*protovalidate.ValidationError](err); ok {
		for _, violation := range violations.Violations {
			if path := violation.Proto.GetField().GetElements(); len(path) > 0 {
				refused[path[0].GetFieldName()] = true
			}
		}
	} else if err != nil {
		g.fail(m, "%v", err)
	}
	return refused
}

// comment returns the comment of d as paragraphs of one line each.
func comment(d protoreflect.Descriptor) string {
	text := d.ParentFile().SourceLocations().ByDescriptor(d).LeadingComments
	var paragraphs []string
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		paragraphs = append(paragraphs, strings.Join(strings.Fields(paragraph), " "))
	}
	return strings.Join(paragraphs, "\n\n")
}

// summary splits a comment into its first sentence and the rest.
func summary(text string) (first, rest string) {
	end := len(text)
	if i := strings.Index(text, "\n\n"); i >= 0 {
		end = i
	}
	if i := strings.Index(text, ". "); i >= 0 && i < end {
		end = i + 1
	}
	return strings.TrimSuffix(text[:end], "."), strings.TrimSpace(text[end:])
}

// trimmed returns set without the source information of the imports and
// without what buf adds to its images.
func trimmed(set *descriptorpb.FileDescriptorSet) *descriptorpb.FileDescriptorSet {
	set = proto.CloneOf(set)
	for _, file := range set.File {
		file.ProtoReflect().SetUnknown(nil)
		if !strings.HasPrefix(file.GetPackage(), "writ.") {
			file.SourceCodeInfo = nil
		}
	}
	return set
}
