package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	_ "google.golang.org/grpc/encoding/proto" // the codec that strictCodec wraps

	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/wire"
)

// maxMessageBytes is where the transports of protobuf cut a connection off.
// Between policy.MaxRequestBytes and this the refusal has the contract's shape.
const maxMessageBytes = 16 * policy.MaxRequestBytes

// newGRPC returns the native gRPC server, with health and reflection (v1 and
// v1alpha) beside the services.
func (s *Server) newGRPC() *grpc.Server {
	server := grpc.NewServer(
		grpc.ForceServerCodecV2(strictCodec{encoding.GetCodecV2("proto")}),
		grpc.MaxRecvMsgSize(maxMessageBytes),
		grpc.MaxHeaderListSize(64<<10),
		grpc.MaxConcurrentStreams(250),
		grpc.UnaryInterceptor(s.logCall),
		grpc.StreamInterceptor(s.logStream),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			method, _ := grpc.MethodFromServerStream(stream)
			return status.Errorf(codes.Unimplemented, "there is no method %s", method)
		}),
		grpc.InTapHandle(limitStream),
		grpc.ConnectionTimeout(10*time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 30 * time.Minute, MaxConnectionAgeGrace: time.Minute, Time: time.Minute}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	)
	healthv1.RegisterHealthServer(server, s.health)
	return server
}

// streamTimeout is how long a call of ours may take, from its first header to the last
// byte of its answer: what a client neither sends nor reads is not waited for.
const streamTimeout = time.Minute

func limitStream(ctx context.Context, info *tap.Info) (context.Context, error) {
	if strings.HasPrefix(info.FullMethodName, "/grpc.") { // watching health has no end
		return ctx, nil
	}
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	_ = cancel // the stream cancels the context that this one is made of
	return ctx, nil
}

// strictCodec never fails to decode a request: it marks the message, so that
// the chain refuses it like any other wrong input. grpc-go would answer
// Internal, without details.
type strictCodec struct{ encoding.CodecV2 }

// Unmarshal implements encoding.CodecV2.
func (c strictCodec) Unmarshal(data mem.BufferSlice, v any) error {
	message, ok := v.(proto.Message)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	if data.Len() > policy.MaxRequestBytes {
		policy.MarkRefused(message, policy.TooLarge())
		return nil
	}
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	unmarshal(whole.ReadOnlyData(), message)
	return nil
}

// unmarshal decodes a request in the binary form, or marks the message.
func unmarshal(data []byte, message proto.Message) {
	err := wire.Unmarshal(data, message)
	if refusal, ok := errors.AsType[*wire.Refusal](err); ok {
		policy.MarkRefused(message, faultOf(refusal))
	} else if err != nil {
		policy.MarkRefused(message, policy.Malformed(plainText(err.Error())))
	}
}

// watchHealth keeps the health service in step with readiness until ctx ends.
func watchHealth(ctx context.Context, s *health.Server, services []string, ready func(context.Context) error, logger *slog.Logger) {
	wrong := ""
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		status := healthv1.HealthCheckResponse_SERVING
		reason := ""
		err := ready(ctx)
		if err != nil {
			status, reason = healthv1.HealthCheckResponse_NOT_SERVING, err.Error()
		}
		if reason != wrong && reason != "" && ctx.Err() == nil && !errors.Is(err, ErrDraining) { // the latter two were asked for
			logger.Warn("not ready", "err", reason)
		}
		wrong = reason
		for _, service := range append(services, "") {
			s.SetServingStatus(service, status)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
