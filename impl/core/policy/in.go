package policy

import policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"

// In returns the context of an organization, of an instance when none is named, or of the
// system when that is not either.
func In(instanceID, orgID string) Context {
	if instanceID == "" {
		return Context{Level: policyv1.Level_LEVEL_SYSTEM}
	}
	in := Context{Level: policyv1.Level_LEVEL_INSTANCE, InstanceID: instanceID}
	if orgID != "" {
		in.Level, in.OrgID = policyv1.Level_LEVEL_ORG, orgID
	}
	return in
}
