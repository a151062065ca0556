package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/writ-id/writ/gen/db"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/fault"
	"github.com/writ-id/writ/impl/store"
)

// Enabled is nil when a feature is on for an instance.
func (c *Chain) Enabled(ctx context.Context, feature policyv1.Feature, instance *Instance) error {
	return c.enabled(ctx, feature, instance)
}

// enabled reports whether a feature is on for an instance: the instance's word,
// else the system's, else off.
func (c *Chain) enabled(ctx context.Context, feature policyv1.Feature, instance *Instance) error {
	flags, err := c.features.Get(ctx, instance.ID, func(ctx context.Context) (map[string]bool, error) { return c.loadFlags(ctx, instance.ID) })
	if err != nil {
		return err
	}
	if name := FeatureName(feature); !flags[name] {
		return fault.New(fault.FailedPrecondition, "FEATURE_DISABLED", "the feature %s is off; PUT /v2/features/instance switches it on", name)
	}
	return nil
}

func (c *Chain) loadFlags(ctx context.Context, instanceID string) (map[string]bool, error) {
	resolved := map[string]bool{}
	for _, level := range []string{"", instanceID} {
		row, err := db.New().FeaturesOf(ctx, c.DB.Pool, level)
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
