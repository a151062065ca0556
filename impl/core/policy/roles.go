package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/writ-id/writ/contracts"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
)

// Roles knows the built-in roles of contracts/roles.yaml.
type Roles struct {
	roles map[string]role
}

type role struct {
	level    policyv1.Level
	patterns []string // a permission, or a prefix ending in ".*"
}

var levelNames = map[string]policyv1.Level{
	"system": policyv1.Level_LEVEL_SYSTEM, "instance": policyv1.Level_LEVEL_INSTANCE, "org": policyv1.Level_LEVEL_ORG,
	"project": policyv1.Level_LEVEL_PROJECT, "project_grant": policyv1.Level_LEVEL_PROJECT_GRANT,
}

// NewRoles reads the table of the contract.
func NewRoles() (*Roles, error) {
	var table map[string]struct {
		Level       string
		Permissions []string
	}
	if err := yaml.Unmarshal(contracts.Roles, &table); err != nil {
		return nil, fmt.Errorf("roles.yaml: %w", err)
	}
	r := &Roles{roles: map[string]role{}}
	for name, row := range table {
		level, ok := levelNames[row.Level]
		if !ok {
			return nil, fmt.Errorf("roles.yaml: %s: unknown level %q", name, row.Level)
		}
		r.roles[name] = role{level, row.Permissions}
	}
	return r, nil
}

// Names returns the roles that can be held on a level, sorted.
func (r *Roles) Names(level policyv1.Level) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(r.roles)) {
		if r.roles[name].level == level {
			names = append(names, name)
		}
	}
	return names
}

// Level returns the level on which a role can be held, or UNSPECIFIED.
func (r *Roles) Level(name string) policyv1.Level { return r.roles[name].level }

// grants reports whether one of the roles gives the permission.
func (r *Roles) grants(names []string, permission string) bool {
	for _, name := range names {
		for _, pattern := range r.roles[name].patterns {
			if prefix, wild := strings.CutSuffix(pattern, "*"); pattern == permission || wild && strings.HasPrefix(permission, prefix) {
				return true
			}
		}
	}
	return false
}
