package seed

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/writ-id/writ/gen/db"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
)

// systemUser makes a service user of the system exist, with roles and tokens.
func (r *run) systemUser(ctx context.Context, user SystemUser) error {
	id, err := r.queries.UserByUsername(ctx, r.tx, db.UserByUsernameParams{UsernameFolded: resource.Fold(user.Username)})
	switch {
	case store.NoRow(err):
		if id, err = r.Users.AddSystemUser(ctx, user.ID, user.Username); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	if err := checkID(user.ID, id); err != nil {
		return err
	}
	if err := r.membership(ctx, id, user.Roles); err != nil {
		return err
	}
	row, err := r.Users.Find(ctx, id)
	if err != nil {
		return err
	}
	applied := AppliedUser{ID: id, Username: user.Username, Roles: user.Roles}
	if applied.Token, err = r.tokensOf(ctx, row, "system.users."+user.Username, user.Tokens); err != nil {
		return err
	}
	r.applied.Users = append(r.applied.Users, applied)
	return nil
}

// membership gives a user roles in the context.
func (r *run) membership(ctx context.Context, userID string, roles []string) error {
	if len(roles) == 0 {
		return nil
	}
	in := policy.CallFrom(ctx).Context
	object := in.InstanceID
	if in.Level == policyv1.Level_LEVEL_ORG {
		object = in.OrgID
	}
	filters := []Body{{"user_id": Body{"id": userID}}, {"level": Body{"level": int(in.Level)}}}
	if object != "" {
		filters = append(filters, Body{"object_id": Body{"id": object}})
	}
	_, _, err := r.ensure(ctx, memberships, Body{"user_id": userID, "roles": roles}, filters...)
	return err
}

// user makes a user of an organization exist, with its secrets and roles.
func (r *run) user(ctx context.Context, at place, user User) error {
	inside := r.in(ctx, at.Context)
	username, _ := user.Body["username"].(string)
	path := at.path + ".users." + username
	old, err := r.queries.UserByUsername(ctx, r.tx, db.UserByUsernameParams{
		InstanceID: at.InstanceID, OrgID: &at.OrgID, UsernameFolded: resource.Fold(username),
	})
	if err != nil && !store.NoRow(err) {
		return err
	}
	exists := err == nil
	body, human := withoutPassword(user.Body)
	password, change, given := passwordOf(user.Body)
	if human != nil && !given {
		password = r.unknown(path+".password", exists, secret.Random)
	}
	id, err := r.ensureUser(inside, old, user.Body, body, human, password)
	if err != nil {
		return err
	}
	if asked, _ := user.Body["id"].(string); asked != "" {
		if err := checkID(asked, id); err != nil {
			return err
		}
	}
	row, err := r.Users.Find(inside, id)
	if err != nil {
		return err
	}
	applied := AppliedUser{
		InstanceID: at.InstanceID, OrgID: at.OrgID, ID: id, Username: username, Human: human != nil, Email: row.Email, Password: password,
		Roles: append(append([]string(nil), user.InstanceRoles...), user.OrgRoles...),
	}
	if exists && password != "" {
		if err := r.setPassword(inside, row, password, change); err != nil {
			return err
		}
	}
	if err := r.credentials(inside, row, path, user, &applied); err != nil {
		return err
	}
	atInstance := r.in(ctx, policy.Context{Level: policyv1.Level_LEVEL_INSTANCE, InstanceID: at.InstanceID})
	if err := r.membership(atInstance, id, user.InstanceRoles); err != nil {
		return err
	}
	if err := r.membership(inside, id, user.OrgRoles); err != nil {
		return err
	}
	answer, err := r.call(inside, users, "GetUser", Body{"id": id})
	if err != nil {
		return err
	}
	applied.LoginName = answer.(*userv3.GetUserResponse).GetUser().GetLoginName()
	r.applied.Users = append(r.applied.Users, applied)
	return nil
}

// withoutPassword returns a copy of a user without its password, which is
// compared rather than patched, and its human part.
func withoutPassword(body Body) (Body, Body) {
	copied := Body{}
	for name, value := range body {
		copied[name] = value
	}
	given, ok := body["human"].(map[string]any)
	if !ok {
		return copied, nil
	}
	human := Body{}
	for name, value := range given {
		if name != "password" {
			human[name] = value
		}
	}
	copied["human"] = map[string]any(human)
	return copied, human
}

// passwordOf returns the plain password of a user in the file, whether it has to be
// changed, and whether the file says anything about it.
func passwordOf(body Body) (plain string, change, given bool) {
	human, _ := body["human"].(map[string]any)
	password, given := human["password"].(map[string]any)
	plain, _ = password["plain"].(string)
	for _, name := range []string{"change_required", "changeRequired"} {
		if asked, _ := password[name].(bool); asked {
			change = true
		}
	}
	return plain, change, given
}

// ensureUser is ensure for a user, who may be there under the ID old: a password
// goes with a creation only.
func (r *run) ensureUser(ctx context.Context, old string, given, body, human Body, password string) (string, error) {
	if old != "" {
		return old, r.patch(ctx, users, old, body)
	}
	switch asked := given["human"]; {
	case human == nil:
	case asked.(map[string]any)["password"] != nil:
		human["password"] = asked.(map[string]any)["password"]
	case password != "":
		human["password"] = Body{"plain": password}
	}
	answer, err := r.call(ctx, users, "CreateUser", Body{"user": body})
	if err != nil {
		return "", err
	}
	return detailsOf(answer.ProtoReflect()).GetId(), nil
}

// setPassword sets a password, unless it is that already: then it is what the file
// gave, so that what the file says of changing it still holds.
func (r *run) setPassword(ctx context.Context, row *db.UserRow, password string, change bool) error {
	if row.PasswordHash != nil {
		same, err := secret.VerifyPassword(*row.PasswordHash, password)
		if err != nil || same && (!change || row.PasswordChangeRequired) {
			return err
		}
	}
	_, err := r.call(ctx, users, "SetPassword", Body{"id": row.ID, "new_password": Body{"plain": password, "change_required": change}})
	return err
}

// credentials makes tokens, secret, keys and metadata of a user exist.
func (r *run) credentials(ctx context.Context, row *db.UserRow, path string, user User, applied *AppliedUser) (err error) {
	if applied.Token, err = r.tokensOf(ctx, row, path, user.Tokens); err != nil {
		return err
	}
	if user.Secret != nil {
		value := user.Secret.Value
		if value == "" {
			value = r.unknown(path+".secret", row.SecretHash != nil, secret.Random)
		}
		applied.Secret = value
		if value != "" { // an unknown one stays
			if err := r.Users.SetSecret(ctx, row.ID, value); err != nil {
				return err
			}
		}
	}
	for i, key := range user.Keys {
		value, err := r.key(ctx, users, "MachineKey", row.ID, path, key)
		if err != nil {
			return fmt.Errorf("key %q: %w", key.Name, err)
		}
		if i == 0 {
			applied.Key = value
		}
	}
	for name, value := range user.Metadata {
		if _, err := r.call(ctx, users, "SetUserMetadata", Body{
			"user_id": row.ID, "key": name, "metadata": Body{"value": base64.StdEncoding.EncodeToString([]byte(value))},
		}); err != nil {
			return fmt.Errorf("metadata %q: %w", name, err)
		}
	}
	return nil
}

// key makes a key of a user or an app exist and returns its key file, "" when
// only the public part is known.
func (r *run) key(ctx context.Context, k kind, name, parent, path string, key Key) (string, error) {
	path += ".keys." + key.Name
	parentField := k.body + "_id"
	if known := r.Known[path]; known != "" {
		var file struct {
			KeyID string `json:"keyId"`
		}
		if err := json.Unmarshal([]byte(known), &file); err == nil {
			found, err := r.call(ctx, k, "Search"+name+"s", Body{parentField: parent, "filters": []Body{{"in_ids": Body{"ids": []string{file.KeyID}}}}})
			if err != nil {
				return "", err
			}
			if list(found, "result").Len() > 0 {
				r.applied.Secrets[path] = known
				return known, nil
			}
		}
	}
	if !r.Reissue {
		found, err := r.call(ctx, k, "Search"+name+"s", Body{parentField: parent})
		if err != nil || list(found, "result").Len() > 0 {
			return "", err
		}
	}
	body := Body{}
	if key.PublicKey != "" {
		body["public_key"] = key.PublicKey
	}
	answer, err := r.call(ctx, k, "Create"+name, Body{parentField: parent, "key": body})
	if err != nil {
		return "", err
	}
	details := keyDetails(answer)
	if details != "" {
		r.keep(path, details)
	}
	return details, nil
}

// keyDetails returns the key file in the answer of a creation.
func keyDetails(answer proto.Message) string {
	m := answer.ProtoReflect()
	if field := m.Descriptor().Fields().ByName("key_details"); field != nil {
		return string(m.Get(field).Bytes())
	}
	return ""
}

// tokensOf makes tokens exist and returns the first one.
func (r *run) tokensOf(ctx context.Context, user *db.UserRow, path string, tokens []Token) (string, error) {
	first := ""
	for i, token := range tokens {
		value, err := r.token(ctx, user, path+".tokens."+token.Name, token)
		if err != nil {
			return "", fmt.Errorf("token %q: %w", token.Name, err)
		}
		if i == 0 {
			first = value
		}
	}
	return first, nil
}

// token makes a token exist and returns it, or "" when it exists unknown.
func (r *run) token(ctx context.Context, user *db.UserRow, path string, token Token) (string, error) {
	old, err := r.queries.TokenOfUser(ctx, r.tx, db.TokenOfUserParams{InstanceID: user.InstanceID, UserID: user.ID, Name: token.Name})
	if err != nil && !store.NoRow(err) {
		return "", err
	}
	exists, value := err == nil, token.Token
	if value == "" {
		value = r.unknown(path, exists, func() string { return policy.TokenPrefix + secret.Random() })
	}
	if value == "" {
		return "", nil
	}
	hash := secret.HashToken(value)
	if exists {
		if bytes.Equal(old.TokenHash, hash[:]) && resource.SameTime(old.ExpirationDate, token.Expires) {
			return value, nil
		}
		if err := r.Users.DropToken(ctx, old.ID); err != nil {
			return "", err
		}
	}
	return value, r.Users.AddToken(ctx, user, token.Name, value, token.Expires)
}
