package main

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
)

// webhook is what the target of an event condition is called with, one for each event of
// the catalogue. OpenAPI has a place for it since 3.1; until then it is an extension, so
// that generators of clients, who do not serve them, pass over it.
type webhook struct {
	Summary     string           `json:"summary"`
	Description string           `json:"description,omitempty"`
	OperationID string           `json:"operationId"`
	Aggregate   string           `json:"x-aggregate"`
	RequestBody *requestBody     `json:"requestBody"`
	Responses   fields[response] `json:"responses"`
	// The receiver knows us by the signature, which OpenAPI has no word for.
	Security []map[string][]string `json:"security"`
}

const (
	webhooksBefore31 = "x-webhooks"
	webhooksSince31  = "webhooks"
	eventPayload     = "EventPayload"
	payloadField     = "event_payload"
	typeField        = "event_type"
)

// events returns the messages of the catalogue, by the names of the events.
func (g *generator) events(files *protoregistry.Files) fields[protoreflect.MessageDescriptor] {
	var all fields[protoreflect.MessageDescriptor]
	files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Messages().Len() {
			m := file.Messages().Get(i)
			kind, _ := proto.GetExtension(m.Options(), policyv1.E_Event).(*policyv1.Event)
			if kind == nil {
				continue
			}
			all.add(kind.GetType(), m)
			for j := range m.Fields().Len() {
				g.markField(g.answered, m.Fields().Get(j)) // the page and the types of clients need them
			}
		}
		return true
	})
	slices.SortFunc(all, func(a, b field[protoreflect.MessageDescriptor]) int { return cmp.Compare(a.name, b.name) })
	return all
}

// webhooks returns the calls of the events, and the schema of what their bodies share.
func (g *generator) webhooks(files *protoregistry.Files, events fields[protoreflect.MessageDescriptor]) (fields[map[string]*webhook], *schema) {
	if len(events) == 0 {
		return nil, nil
	}
	found, err := files.FindDescriptorByName("writ.action.v3alpha." + eventPayload)
	if err != nil {
		g.errs = append(g.errs, err)
		return nil, nil
	}
	envelope := found.(protoreflect.MessageDescriptor)
	var all fields[map[string]*webhook]
	for _, event := range events {
		text := comment(event.value)
		if rest, ok := strings.CutPrefix(text, string(event.value.Name())+" is appended"); ok {
			rest = strings.TrimLeft(rest, " ,")
			text = strings.ToUpper(rest[:1]) + rest[1:]
		}
		first, rest := summary(text)
		payload := g.message(event.value, inAnswer, nil)
		payload.Description = ""
		body := &schema{
			Type: "object", Required: []string{typeField, payloadField},
			Properties: fields[*schema]{{typeField, &schema{Type: "string", Enum: []any{event.name}}}, {payloadField, payload}},
		}
		all.add(event.name, map[string]*webhook{"post": {
			Summary: first, Description: rest, OperationID: "on" + string(event.value.Name()), Aggregate: proto.GetExtension(event.value.Options(), policyv1.E_Event).(*policyv1.Event).GetAggregate(),
			RequestBody: &requestBody{Required: true, Content: map[string]mediaType{"application/json": {Schema: &schema{
				AllOf: []*schema{{Ref: schemaRef + eventPayload}, body},
			}}}},
			Responses: fields[response]{
				{"2XX", response{Description: "The event was taken."}},
				{"4XX", response{Description: "It is sent again, as with any other status; 410 ends it."}},
			},
			Security: []map[string][]string{},
		}})
	}
	return all, g.message(envelope, inAnswer, []protoreflect.FieldDescriptor{envelope.Fields().ByName(payloadField)})
}
