// Package lifetime holds how long tokens and sign-ins are good: what the system, instances
// and organizations say, and what applications say of their own tokens (contracts/proto/writ/settings,
// lifetime_service.proto).
package lifetime

import (
	"context"

	"google.golang.org/protobuf/reflect/protoreflect"

	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	settingsv3 "github.com/writ-id/writ/gen/proto/writ/settings/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/setting"
)

// Subject is what these settings are called where settings are stored.
const Subject = "lifetimes"

// Service implements the lifetime settings API. It is safe for concurrent use.
type Service struct {
	settingsv3.UnsafeServiceLifetimeSettingsServer

	resource.Env
}

var _ settingsv3.ServiceLifetimeSettingsServer = (*Service)(nil)

// New returns a Service over env.
func New(env resource.Env) *Service { return &Service{Env: env} }

// ResolveLifetimes reads the lifetimes as they apply in the context of the call.
func (s *Service) ResolveLifetimes(ctx context.Context, _ *settingsv3.ResolveLifetimesRequest) (*settingsv3.ResolveLifetimesResponse, error) {
	in := policy.CallFrom(ctx).Context
	words, err := read(ctx, s.DB.Conn(), in.InstanceID, in.OrgID)
	if err != nil {
		return nil, err
	}
	return &settingsv3.ResolveLifetimesResponse{
		Details: setting.Details(words, in, s.Now()), Settings: storage.ResolveLifetimeSettings(words, defaults, in),
	}, nil
}

// SetLifetimes sets or takes back what is present.
func (s *Service) SetLifetimes(ctx context.Context, req *settingsv3.SetLifetimesRequest) (*settingsv3.SetLifetimesResponse, error) {
	details, err := setting.Set(ctx, &s.Env, setting.Change[*eventv1.LifetimesSet]{
		Subject: Subject, Says: storage.AskSetLifetimeSettings(req.GetSettings()),
		Agree: func(words []setting.Word[*eventv1.LifetimesSet]) error { return shorter(req.GetSettings(), words[1:]) },
		Event: func(changed, _ *eventv1.LifetimesSet) event.Payload { return changed },
	})
	return &settingsv3.SetLifetimesResponse{Details: details}, err
}

// shorter refuses lifetimes that are longer than contexts above say.
func shorter(asked *settingsv3.SetLifetimeSettings, above []setting.Word[*eventv1.LifetimesSet]) (err error) {
	bound(above)
	said := setting.Applies(above, &eventv1.LifetimesSet{}).ProtoReflect()
	asked.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		of := said.Descriptor().Fields().ByName(f.Name())
		if said.Has(of) && durationOf(v) > durationOf(said.Get(of)) {
			err = fault.Invalid("LIFETIME_TOO_LONG", "settings."+f.JSONName(), "must be at most %v, which is said above", durationOf(said.Get(of)))
		}
		return err == nil
	})
	return err
}
