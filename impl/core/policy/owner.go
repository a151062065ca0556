package policy

import (
	"context"
	"slices"
	"strings"

	"github.com/writ-id/writ/gen/db"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/core/fault"
)

// ownerRole is the role of who exports and imports.
const ownerRole = "IAM_OWNER"

// Owner returns the instance of a request and who moves its data: a service user with
// IAM_OWNER on it, whose access tokens are opaque, by a personal access token (document 2,
// "Authentication", 4).
func (c *Chain) Owner(ctx context.Context) (instance *Instance, userID string, err error) {
	instance, caller, err := c.authenticated(ctx)
	if err != nil {
		return nil, "", err
	}
	_, token, _ := strings.Cut(RequestFrom(ctx).Authorization[0], " ")
	owns := slices.ContainsFunc(caller.grants, func(g grant) bool {
		return g.level == policyv1.Level_LEVEL_INSTANCE && g.objectID == instance.ID && slices.Contains(g.roles, ownerRole)
	})
	switch {
	case !strings.HasPrefix(token, TokenPrefix):
		return nil, "", fault.New(fault.PermissionDenied, "PERSONAL_ACCESS_TOKEN_REQUIRED", "data is moved with a personal access token; this is another token")
	case caller.InstanceID != instance.ID || !owns:
		return nil, "", fault.New(fault.PermissionDenied, "OWNER_REQUIRED", "data is moved by users with the role %s on the instance", ownerRole)
	}
	user, err := db.New().OwnerOfToken(ctx, c.DB.Pool, db.OwnerOfTokenParams{InstanceID: instance.ID, ID: caller.UserID})
	switch {
	case err != nil:
		return nil, "", err
	case user.UserType != userv3.UserType_USER_TYPE_SERVICE:
		return nil, "", fault.New(fault.PermissionDenied, "SERVICE_USER_REQUIRED", "data is moved by service users; the token is of a person")
	case user.AccessTokenType != object.AccessTokenType_ACCESS_TOKEN_TYPE_BEARER:
		return nil, "", fault.New(fault.PermissionDenied, "BEARER_USER_REQUIRED", "data is moved by service users with the access token type Bearer; this one has JWTs")
	}
	return instance, caller.UserID, nil
}

// Authenticate returns an error unless the request has the token of a caller of its instance,
// or of the system.
func (c *Chain) Authenticate(ctx context.Context) error {
	_, _, err := c.authenticated(ctx)
	return err
}

// authenticated returns the instance and the caller of a request that is not a call.
func (c *Chain) authenticated(ctx context.Context) (*Instance, *Caller, error) {
	request := RequestFrom(ctx)
	instance, err := c.Instances.Find(ctx, request.Host)
	if err != nil {
		return nil, nil, err
	}
	request.Instance = instance.ID
	if instance.Blocked {
		return nil, nil, errBlocked
	}
	caller, err := c.caller(ctx, request.Authorization, instance)
	if err != nil {
		return nil, nil, err
	}
	request.User = caller.UserID
	return instance, caller, nil
}
