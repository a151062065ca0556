package wire

import (
	"context"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
)

// Transports is where a generated Mount function mounts a service. All
// serve the same chained implementation, so no transport can skip a check.
type Transports struct {
	// GRPC registers the service with grpc-go.
	GRPC grpc.ServiceRegistrar
	// REST mounts an operation at its route.
	REST func(route *Route, serve Serve)
	// Web mounts the handler of gRPC-web and Connect of a procedure ("/pkg.Service/Method").
	Web func(procedure string, handler http.Handler)
	// WebOptions are the options of each of these handlers.
	WebOptions []connect.HandlerOption
}

// Call runs chain around one method of a service. The generated wrappers are
// made of it.
func Call[Req, Res any](ctx context.Context, chain grpc.UnaryServerInterceptor, info *grpc.UnaryServerInfo, req *Req,
	method func(context.Context, *Req) (*Res, error),
) (*Res, error) {
	res, err := chain(ctx, req, info, func(ctx context.Context, req any) (any, error) {
		return method(ctx, req.(*Req))
	})
	if err != nil {
		return nil, err
	}
	return res.(*Res), nil
}
