package policy

import policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"

// In returns the context of an organization or, when none is named, of an instance.
func In(instanceID, orgID string) Context {
	in := Context{Level: policyv1.Level_LEVEL_INSTANCE, InstanceID: instanceID}
	if orgID != "" {
		in.Level, in.OrgID = policyv1.Level_LEVEL_ORG, orgID
	}
	return in
}
