// Package feature switches features on and off, for the system and for an
// instance. An instance's word wins over the system's; a flag nobody decided has
// its default. Package policy enforces the flags; a change takes effect on this node
// before it is answered and on the others when they hear of it.
package feature

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	featurev2 "github.com/writ-id/writ/gen/proto/writ/feature/v2"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/store"
)

// Service implements the feature API. It is safe for concurrent use.
type Service struct {
	featurev2.UnsafeServiceFeaturesServer

	resource.Env
	queries *db.Queries
}

var _ featurev2.ServiceFeaturesServer = (*Service)(nil)

// New returns a Service over env.
func New(env resource.Env) *Service { return &Service{Env: env, queries: db.New()} }

// GetSystemFeatures reads the flags of the installation.
func (s *Service) GetSystemFeatures(ctx context.Context, _ *featurev2.GetSystemFeaturesRequest) (*featurev2.GetSystemFeaturesResponse, error) {
	details, features, err := s.get(ctx)
	return &featurev2.GetSystemFeaturesResponse{Details: details, Features: features}, err
}

// GetInstanceFeatures reads the flags as they apply to the instance.
func (s *Service) GetInstanceFeatures(ctx context.Context, _ *featurev2.GetInstanceFeaturesRequest) (*featurev2.GetInstanceFeaturesResponse, error) {
	details, features, err := s.get(ctx)
	return &featurev2.GetInstanceFeaturesResponse{Details: details, Features: features}, err
}

// SetSystemFeatures sets the flags that are present.
func (s *Service) SetSystemFeatures(ctx context.Context, req *featurev2.SetSystemFeaturesRequest) (*featurev2.SetSystemFeaturesResponse, error) {
	details, err := s.change(ctx, merge(req.GetFeatures()))
	return &featurev2.SetSystemFeaturesResponse{Details: details}, err
}

// SetInstanceFeatures sets the flags that are present.
func (s *Service) SetInstanceFeatures(ctx context.Context, req *featurev2.SetInstanceFeaturesRequest) (*featurev2.SetInstanceFeaturesResponse, error) {
	details, err := s.change(ctx, merge(req.GetFeatures()))
	return &featurev2.SetInstanceFeaturesResponse{Details: details}, err
}

// ResetSystemFeatures makes the system decide nothing.
func (s *Service) ResetSystemFeatures(ctx context.Context, _ *featurev2.ResetSystemFeaturesRequest) (*featurev2.ResetSystemFeaturesResponse, error) {
	details, err := s.change(ctx, reset)
	return &featurev2.ResetSystemFeaturesResponse{Details: details}, err
}

// ResetInstanceFeatures makes the instance decide nothing.
func (s *Service) ResetInstanceFeatures(ctx context.Context, _ *featurev2.ResetInstanceFeaturesRequest) (*featurev2.ResetInstanceFeaturesResponse, error) {
	details, err := s.change(ctx, reset)
	return &featurev2.ResetInstanceFeaturesResponse{Details: details}, err
}

// get returns the flags as they apply in the context of the call, and when the
// context's own last changed.
func (s *Service) get(ctx context.Context) (*object.SettingDetails, *featurev2.Features, error) {
	in := policy.CallFrom(ctx).Context
	features := &featurev2.Features{}
	fields := features.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() { // every flag is answered, also those nobody decided
		flag := &featurev2.FeatureFlag{Enabled: policy.FeatureDefaults[string(fields.Get(i).Name())]}
		features.ProtoReflect().Set(fields.Get(i), protoreflect.ValueOfMessage(flag.ProtoReflect()))
	}
	system, err := s.decide(ctx, "", featurev2.Source_SOURCE_SYSTEM, features)
	if err != nil || in.Level == policyv1.Level_LEVEL_SYSTEM {
		return detailsOf(in, system), features, err
	}
	own, err := s.decide(ctx, in.InstanceID, featurev2.Source_SOURCE_INSTANCE, features)
	return detailsOf(in, own), features, err
}

// decide puts the flags a level has decided into features.
func (s *Service) decide(ctx context.Context, instanceID string, source featurev2.Source, features *featurev2.Features) (db.Feature, error) {
	row, err := s.queries.FeaturesOf(ctx, s.DB.Conn(), instanceID)
	if store.NoRow(err) {
		return row, nil
	}
	if err != nil {
		return row, err
	}
	flags, err := flagsOf(row)
	if err != nil {
		return row, err
	}
	message := features.ProtoReflect()
	for name, enabled := range flags {
		if field := message.Descriptor().Fields().ByName(protoreflect.Name(name)); field != nil { // a retired flag is ignored
			flag := &featurev2.FeatureFlag{Enabled: enabled, Source: source}
			message.Set(field, protoreflect.ValueOfMessage(flag.ProtoReflect()))
		}
	}
	return row, nil
}

// change applies a change to the flags of the context of the call. When none
// changes nothing is written.
func (s *Service) change(ctx context.Context, apply func(flags map[string]bool) (changed map[string]bool)) (*object.SettingDetails, error) {
	call, now := policy.CallFrom(ctx), s.Now()
	in := call.Context
	var row db.Feature
	err := s.DB.InTx(ctx, func(tx pgx.Tx) (err error) {
		row, err = s.queries.LockFeatures(ctx, tx, db.LockFeaturesParams{InstanceID: in.InstanceID, Now: now})
		if err != nil {
			return err
		}
		flags, err := flagsOf(row)
		if err != nil {
			return err
		}
		changed := apply(flags)
		if len(changed) == 0 {
			return nil
		}
		row.ChangeDate = now
		row.Sequence, err = event.Append(ctx, tx, event.Event{
			InstanceID: in.InstanceID, ObjectID: in.Owner().GetType().String(), Payload: payload(in, flags, changed),
			Owner: in.Owner(), Cause: policy.CauseOf(ctx, now),
		})
		if err != nil {
			return err
		}
		if row.Flags, err = json.Marshal(flags); err != nil {
			return err
		}
		if err := s.queries.UpdateFeatures(ctx, tx, db.UpdateFeaturesParams{
			InstanceID: in.InstanceID, Flags: row.Flags, Sequence: row.Sequence, ChangeDate: now,
		}); err != nil {
			return err
		}
		return s.queries.NotifyChange(ctx, tx)
	})
	if err != nil {
		return nil, err
	}
	s.Invalidate()
	return detailsOf(in, row), nil
}

// merge sets the flags that are present in set.
func merge(set *featurev2.SetFeatures) func(map[string]bool) map[string]bool {
	return func(flags map[string]bool) map[string]bool {
		changed := map[string]bool{}
		set.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
			name, enabled := string(field.Name()), value.Bool()
			if old, decided := flags[name]; !decided || old != enabled {
				flags[name], changed[name] = enabled, enabled
			}
			return true
		})
		return changed
	}
}

// reset takes every decision back.
func reset(flags map[string]bool) map[string]bool {
	changed := map[string]bool{}
	for name := range flags {
		changed[name] = false
		delete(flags, name)
	}
	return changed
}

// payload returns the event of a change: a reset leaves no flag.
func payload(in policy.Context, left, changed map[string]bool) event.Payload {
	system := in.Level == policyv1.Level_LEVEL_SYSTEM
	switch {
	case system && len(left) == 0:
		return &eventv1.SystemFeaturesReset{}
	case system:
		return &eventv1.SystemFeaturesSet{Flags: changed}
	case len(left) == 0:
		return &eventv1.InstanceFeaturesReset{}
	}
	return &eventv1.InstanceFeaturesSet{Flags: changed}
}

func flagsOf(row db.Feature) (map[string]bool, error) {
	flags := map[string]bool{}
	if err := json.Unmarshal(row.Flags, &flags); err != nil {
		return nil, fmt.Errorf("flags of %q: %w", row.InstanceID, err)
	}
	return flags, nil
}

func detailsOf(in policy.Context, row db.Feature) *object.SettingDetails {
	return resource.SettingDetails(row.Sequence, row.ChangeDate, in.Owner())
}
