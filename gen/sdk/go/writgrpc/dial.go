// Package writgrpc speaks gRPC with the credentials of a [writ.Client]. The packages below it
// hold the clients that protoc-gen-go-grpc makes of the services.
//
//	conn, err := writgrpc.Dial(client)
//	actions := actionv3alpha.NewServiceActionsClient(conn)
//
// What is refused is a [*writ.Error], which status.FromError understands too. Reads are
// tried again as over HTTP.
package writgrpc

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	writ "github.com/writ-id/writ/gen/sdk/go/v3"
)

// Dial returns a connection to the server of a client. It connects with the first call.
func Dial(client *writ.Client, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	base, err := url.Parse(client.BaseURL())
	if err != nil {
		return nil, err
	}
	secured, port := credentials.NewTLS(nil), "443"
	if base.Scheme == "http" {
		secured, port = insecure.NewCredentials(), "80"
	}
	if base.Port() != "" {
		port = base.Port()
	}
	return grpc.NewClient("dns:///"+base.Hostname()+":"+port, append([]grpc.DialOption{
		grpc.WithTransportCredentials(secured),
		grpc.WithUserAgent("writ-sdk-go/" + writ.Version),
		grpc.WithUnaryInterceptor(caller{client}.intercept),
	}, opts...)...)
}

// caller authenticates calls, repeats what may be repeated and translates refusals.
type caller struct{ client *writ.Client }

const (
	attempts   = 3
	firstPause = 500 * time.Millisecond
	mostAsked  = time.Minute
)

func (c caller) intercept(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	refreshed := false
	for attempt := 1; ; attempt++ {
		token, err := c.client.AccessToken(ctx)
		if err != nil && !errors.Is(err, writ.ErrNoCredentials) {
			return err
		}
		authenticated := ctx
		if token != "" {
			authenticated = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
		}
		var header metadata.MD
		err = invoke(authenticated, method, req, reply, conn, append(slices.Clone(opts), grpc.Header(&header))...)
		if err == nil {
			return nil
		}
		failure := refusal(err, header)
		refused := failure.refused
		if refused.Code == writ.Unauthenticated && !refreshed && c.client.ForgetAccessToken(token) {
			refreshed = true
			attempt--
			continue
		}
		again := refused.Code == writ.ResourceExhausted || refused.Code == writ.Unavailable && reads(method)
		wait := refused.RetryAfter
		if wait == 0 {
			wait = firstPause<<(attempt-1)/2 + rand.N(firstPause<<(attempt-1)/2)
		}
		if deadline, ok := ctx.Deadline(); !again || attempt == attempts || wait > mostAsked || ok && time.Until(deadline) < wait {
			return failure
		}
		select {
		case <-ctx.Done():
			return failure
		case <-time.After(wait):
		}
	}
}

// reads says whether a method changes nothing.
func reads(method string) bool {
	name := method[strings.LastIndex(method, "/")+1:]
	return slices.ContainsFunc([]string{"Get", "Search", "List", "Resolve", "Preview"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// grpcError is a [*writ.Error] that came over gRPC.
type grpcError struct {
	refused *writ.Error
	status  *status.Status
}

func (e *grpcError) Error() string { return e.refused.Error() }

// Unwrap makes errors.As find the [*writ.Error].
func (e *grpcError) Unwrap() error { return e.refused }

// GRPCStatus makes status.FromError understand it.
func (e *grpcError) GRPCStatus() *status.Status { return e.status }

func refusal(err error, header metadata.MD) *grpcError {
	s, _ := status.FromError(err)
	refused := &writ.Error{Code: writ.Code(s.Code()), Message: s.Message()}
	if s.Code() == codes.OK {
		refused.Code = writ.Unknown
	}
	if id := header.Get("x-request-id"); len(id) > 0 {
		refused.RequestID = id[0]
	}
	for _, detail := range s.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			refused.Reason = writ.Reason(detail.GetReason())
		case *errdetails.RetryInfo:
			refused.RetryAfter = detail.GetRetryDelay().AsDuration()
		case *errdetails.BadRequest:
			for _, violation := range detail.GetFieldViolations() {
				refused.Violations = append(refused.Violations, writ.Violation{Field: violation.GetField(), Description: violation.GetDescription()})
			}
		}
	}
	return &grpcError{refused, s}
}
