package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/writ-id/writ/gen/db"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/core/cache"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/store"
)

// Features knows which features are on. It is safe for concurrent use.
type Features struct {
	db    *store.DB
	known cache.Cache[string, map[string]bool] // by instance
}

// NewFeatures returns the features of a database.
func NewFeatures(db *store.DB, memory *cache.Memory) *Features {
	f := &Features{db: db}
	memory.Holds(f.known.Drop)
	return f
}

// Enabled is nil when a feature is on for an instance.
func (f *Features) Enabled(ctx context.Context, feature policyv1.Feature, instance *Instance) error {
	on, err := f.IsOn(ctx, feature, instance)
	if err == nil && !on {
		err = fault.New(fault.FailedPrecondition, "FEATURE_DISABLED", "the feature %s is off; PUT /v2/features/instance switches it on", featureNames[feature])
	}
	return err
}

// IsOn reports whether a feature is on for an instance: the instance's word, else the
// system's, else the default of the contract.
func (f *Features) IsOn(ctx context.Context, feature policyv1.Feature, instance *Instance) (bool, error) {
	flags, err := f.known.Get(ctx, instance.ID, func(ctx context.Context) (map[string]bool, error) { return f.load(ctx, instance.ID) })
	return flags[featureNames[feature]], err
}

func (f *Features) load(ctx context.Context, instanceID string) (map[string]bool, error) {
	resolved := maps.Clone(FeatureDefaults)
	for _, level := range []string{"", instanceID} {
		row, err := db.New().FeaturesOf(ctx, f.db.Pool, level)
		if store.NoRow(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		own := map[string]bool{}
		if err := json.Unmarshal(row.Flags, &own); err != nil {
			return nil, fmt.Errorf("flags of %q: %w", level, err)
		}
		maps.Copy(resolved, own)
	}
	return resolved, nil
}
