// Package function asks the targets of a tenant what to add to the claims of tokens,
// introspection and userinfo, and what to set in the metadata of the user: the functions
// that executions name (document 1, "Actions").
//
// A tenant without such executions pays for one look at what is remembered of them. With
// them nothing is held while targets are asked: no connection, no place among the requests
// that run, and nothing is used up yet, so that a client whose request failed may come again
// with its code or its refresh token. What has ended meanwhile is found out after it: Add
// says whether there was a meanwhile.
package function

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/gen/oauth"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/core/execution"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/wire"
	"github.com/writ-id/writ/impl/oidc/claims"
	"github.com/writ-id/writ/impl/oidc/client"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/subject"
)

// The functions, by their names in the contract.
const (
	Userinfo    = "preuserinfo"    // of ID tokens, userinfo and introspection
	AccessToken = "preaccesstoken" // of access tokens that are JWTs
)

// Functions asks targets. It is safe for concurrent use; every field is required.
type Functions struct {
	DB       *store.DB
	Engine   *execution.Engine
	Rules    *policy.Validator
	Subjects *subject.Reader
	// SetMetadata sets entries of the metadata of a user, in one transaction.
	SetMetadata func(ctx context.Context, instanceID, orgID, userID string, entries []*eventv1.FunctionMetadata) error
}

// About is whom claims are about.
type About struct {
	UserID  string
	Subject *subject.Subject // nil: it is not read yet
	Client  *client.Client   // who is told; nil for a service user, and where nobody is known
	Actor   []byte           // the claim act
}

// errFailed is all that a client learns of a target that failed; the log says more.
var errFailed = &endpoint.Refusal{Code: oauth.ServerError, Description: "an action of the instance failed", Status: http.StatusInternalServerError}

var errEnded = endpoint.InvalidGrant("the user is not active")

// Add adds to claims what the targets of a function answer. It reports whether targets
// were asked, which takes as long as they like.
func (f *Functions) Add(ctx context.Context, at endpoint.Site, name string, a About, o *claims.Set) (asked bool, err error) {
	table, err := f.Engine.Of(ctx, at.ID)
	if err != nil {
		return false, err
	}
	run := table.Function(name)
	if run == nil {
		return false, nil
	}
	payload, orgID, err := f.payload(ctx, at, name, a, o)
	if err != nil {
		return false, err
	}
	got := &answers{function: name, rules: f.Rules}
	if err := f.Engine.Function(ctx, run, payload, got.accept); err != nil {
		endpoint.Note(ctx, "the execution %s failed", run.ID)
		return true, failure(ctx, err)
	}
	if len(got.metadata) > 0 {
		if err := f.SetMetadata(ctx, at.ID, orgID, a.UserID, got.metadata); err != nil {
			return true, ended(err)
		}
	}
	got.appendTo(o)
	return true, nil
}

// failure is what a client learns of a function that failed: nothing, unless the service
// itself is to blame.
func failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if own, ok := errors.AsType[*fault.Error](err); ok && own.Kind == fault.Unavailable {
		return err
	}
	return errFailed
}

// ended is the refusal when the user went away meanwhile.
func ended(err error) error {
	if gone, ok := errors.AsType[*fault.Error](err); ok && gone.Kind == fault.NotFound {
		return errEnded
	}
	return err
}

// payload is what the targets are told, and the organization of the user.
func (f *Functions) payload(ctx context.Context, at endpoint.Site, name string, a About, o *claims.Set) (wire.Appender, string, error) {
	found := a.Subject
	if found == nil {
		var err error
		if found, err = f.Subjects.Read(ctx, at, subject.About{User: a.UserID}); err != nil {
			return nil, "", err
		}
	}
	if found == nil {
		return nil, "", errEnded
	}
	facts, err := db.New().FunctionFacts(ctx, f.DB.Pool, db.FunctionFactsParams{InstanceID: at.ID, UserID: a.UserID})
	if store.NoRow(err) {
		return nil, "", errEnded
	}
	if err != nil {
		return nil, "", err
	}
	p := &eventv1.PreUserinfo{
		Function: name, User: userOf(found, &facts),
		Org: &eventv1.FunctionOrg{Id: found.OrgID, Name: found.OrgName, PrimaryDomain: found.Domain},
	}
	if p.Userinfo, err = o.Struct(); err == nil {
		err = errors.Join(json.Unmarshal(facts.Metadata, &p.UserMetadata), json.Unmarshal(facts.Grants, &p.UserGrants))
	}
	if err != nil {
		return nil, "", err
	}
	if c := a.Client; c != nil {
		p.Application = &eventv1.FunctionApplication{Id: c.ID, ClientId: c.ClientID, Name: c.Name, ProjectId: c.ProjectID}
	}
	if actor := subject.Actor(a.Actor); actor != "" {
		p.Actor = &eventv1.FunctionActor{UserId: actor}
	}
	if name == Userinfo {
		return p, found.OrgID, nil
	}
	return &eventv1.PreAccessToken{
		Function: name, Userinfo: p.Userinfo, User: p.User, UserMetadata: p.UserMetadata, Org: p.Org, UserGrants: p.UserGrants,
		Application: p.Application, Actor: p.Actor,
	}, found.OrgID, nil
}

func userOf(s *subject.Subject, facts *db.FunctionFactsRow) *eventv1.FunctionUser {
	user := &eventv1.FunctionUser{
		Id: s.ID, CreationDate: timestamppb.New(facts.CreationDate), ChangeDate: timestamppb.New(s.ChangeDate),
		ResourceOwner: s.OrgID, Username: s.Username, PreferredLoginName: s.LoginName(),
	}
	if userv3.UserType(s.UserType) == userv3.UserType_USER_TYPE_HUMAN {
		user.Type = &eventv1.FunctionUser_Human{Human: &eventv1.FunctionHuman{
			GivenName: s.GivenName, FamilyName: s.FamilyName, NickName: s.NickName, DisplayName: s.DisplayName, PreferredLanguage: s.PreferredLanguage,
			Gender: s.Gender, Email: s.Email, IsEmailVerified: s.IsEmailVerified, Phone: s.Phone, IsPhoneVerified: s.IsPhoneVerified,
		}}
	} else {
		user.Type = &eventv1.FunctionUser_Service{Service: &eventv1.FunctionService{Name: s.DisplayName}}
	}
	return user
}
