package main

import (
	"errors"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
)

var (
	contextContext   = protogen.GoImportPath("context").Ident("Context")
	unaryInterceptor = protogen.GoImportPath("google.golang.org/grpc").Ident("UnaryServerInterceptor")
	unaryInfo        = protogen.GoImportPath("google.golang.org/grpc").Ident("UnaryServerInfo")
	newUnaryHandler  = protogen.GoImportPath("connectrpc.com/connect").Ident("NewUnaryHandlerSimple")
)

// generateService writes the chained wrapper of a service and its Mount.
func generateService(g *protogen.GeneratedFile, service *protogen.Service) error {
	name := service.GoName
	chained := strings.ToLower(name[:1]) + name[1:] + "Chained"

	g.P("// ", chained, " runs a chain around every method of a ", name, "Server.")
	g.P("type ", chained, " struct {")
	g.P("Unsafe", name, "Server")
	g.P("server ", name, "Server")
	g.P("chain ", unaryInterceptor)
	g.P("}")
	g.P()
	for _, method := range service.Methods {
		info := "info" + name + method.GoName
		g.P("var ", info, " = &", unaryInfo, "{FullMethod: ", fullName(service, method), "}")
		g.P()
		g.P("func (s *", chained, ") ", method.GoName, "(ctx ", contextContext, ", req *", method.Input.GoIdent, ") (*", method.Output.GoIdent, ", error) {")
		g.P("return ", wirePackage.Ident("Call"), "(ctx, s.chain, ", info, ", req, s.server.", method.GoName, ")")
		g.P("}")
		g.P()
	}
	g.P("// Mount", name, " serves server behind chain on every transport of t.")
	g.P("func Mount", name, "(t *", wirePackage.Ident("Transports"), ", server ", name, "Server, chain ", unaryInterceptor, ") {")
	g.P("s := &", chained, "{server: server, chain: chain}")
	g.P("t.GRPC.RegisterService(&", name, "_ServiceDesc, s)")
	for _, method := range service.Methods {
		if err := errors.Join(checkContext(method), checkSecrets(method)); err != nil {
			return err
		}
		procedure := fullName(service, method)
		g.P("t.Web(", procedure, ", ", newUnaryHandler, "(", procedure, ", s.", method.GoName, ", t.WebOptions...))")
		if err := generateREST(g, service, method); err != nil {
			return err
		}
	}
	g.P("}")
	g.P()
	return nil
}

// fullName is the constant protoc-gen-go-grpc declares for a method.
func fullName(service *protogen.Service, method *protogen.Method) string {
	return service.GoName + "_" + method.GoName + "_FullMethodName"
}
