package main

import (
	"fmt"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"

	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
)

// generateEvent writes which event a message is the payload of, so that nothing else can be
// appended as one (package event).
func generateEvent(g *protogen.GeneratedFile, message *protogen.Message) {
	of, ok := proto.GetExtension(message.Desc.Options(), policyv1.E_Event).(*policyv1.Event)
	if !ok || of == nil {
		return
	}
	g.P("// EventKind returns the type of the event, and of the object that it is about.")
	g.P("func (*", message.GoIdent, ") EventKind() (eventType, aggregate string) {")
	g.P(fmt.Sprintf("return %q, %q", of.GetType(), of.GetAggregate()))
	g.P("}")
	g.P()
}
