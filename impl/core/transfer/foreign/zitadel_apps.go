package foreign

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	appv3 "github.com/writ-id/writ/gen/proto/writ/app/v3alpha"
	domainv3 "github.com/writ-id/writ/gen/proto/writ/domain/v3alpha"
	membershipv3 "github.com/writ-id/writ/gen/proto/writ/membership/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	"github.com/writ-id/writ/impl/core/policy"
)

var (
	zitadelValidation   = enum{"DOMAIN_VALIDATION_TYPE_", []string{"UNSPECIFIED", "HTTP", "DNS"}, "VALIDATION_TYPE_", domainv3.ValidationType_value}
	zitadelMachineToken = enum{"ACCESS_TOKEN_TYPE_", []string{"BEARER", "JWT"}, "ACCESS_TOKEN_TYPE_", object.AccessTokenType_value}
	zitadelToken        = enum{"OIDC_TOKEN_TYPE_", []string{"BEARER", "JWT"}, "ACCESS_TOKEN_TYPE_", object.AccessTokenType_value}
	zitadelResponse     = enum{"OIDC_RESPONSE_TYPE_", []string{"CODE", "ID_TOKEN", "ID_TOKEN_TOKEN"}, "RESPONSE_TYPE_", appv3.ResponseType_value}
	zitadelGrant        = enum{"OIDC_GRANT_TYPE_", []string{"AUTHORIZATION_CODE", "IMPLICIT", "REFRESH_TOKEN", "DEVICE_CODE", "TOKEN_EXCHANGE"}, "GRANT_TYPE_", appv3.GrantType_value}
	zitadelApp          = enum{"OIDC_APP_TYPE_", []string{"WEB", "USER_AGENT", "NATIVE"}, "APPLICATION_TYPE_", appv3.ApplicationType_value}
	zitadelAuth         = enum{"OIDC_AUTH_METHOD_TYPE_", []string{"BASIC", "POST", "NONE", "PRIVATE_KEY_JWT"}, "AUTH_METHOD_TYPE_", appv3.AuthMethodType_value}
	zitadelAPIAuth      = enum{"API_AUTH_METHOD_TYPE_", []string{"BASIC", "PRIVATE_KEY_JWT"}, "AUTH_METHOD_TYPE_", appv3.AuthMethodType_value}
)

// value reads a value of an enum of something; the default where it is not known, which
// is reported.
func (r *reading) value(kind, id string, o *jsonObject, name string, e enum) int32 {
	n, ok := e.of(o.get(name))
	if !ok {
		r.Lost(kind, id, fmt.Sprintf("without %s %v, which is not supported", name, o.get(name)))
		n = e.values[e.ours+e.names[0]]
	}
	return n
}

func (z *zitadel) project(o *jsonObject) {
	id, of := o.needed("projectId"), o.member("project")
	z.put("projects", id, &transferv1.TransferProject{
		Id: id, OrgId: z.org.id, Name: of.needed("name"), State: activeOr(o, "state", "PROJECT_STATE_"), CreationDate: o.date("creationDate"),
		ProjectRoleAssertion: of.flag("projectRoleAssertion"), ProjectRoleCheck: of.flag("projectRoleCheck"), HasProjectCheck: of.flag("hasProjectCheck"),
	})
	if label, ok := of.get("privateLabelingSetting").(string); ok && label != "PRIVATE_LABELING_SETTING_UNSPECIFIED" {
		z.Lost("projects", id, "without privateLabelingSetting: the organization says how its pages look")
	}
	of.done()
}

func (z *zitadel) projectRole(o *jsonObject) {
	project, key := o.needed("projectId"), o.needed("roleKey")
	z.put("projectRoles", project+"/"+key, &transferv1.TransferRole{
		Id: derived("role", project, key), OrgId: z.org.id, ProjectId: project, Key: key, DisplayName: o.text("displayName"), Group: o.text("group"),
	})
}

// app returns what all applications have.
func (z *zitadel) app(o, of *jsonObject) *transferv1.TransferApp {
	id := o.needed("appId")
	app := &transferv1.TransferApp{
		Id: id, OrgId: z.org.id, ProjectId: of.needed("projectId"), Name: of.needed("name"), State: activeOr(o, "state", "APP_STATE_"),
		ClientId: either(o.text("clientId"), of.text("clientId")), CreationDate: o.date("creationDate"),
	}
	if app.ClientId == "" {
		app.ClientId = id
		z.often("apps", "the file does not tell client IDs: the ID of the application is its client ID")
	}
	return app
}

func (z *zitadel) apiApp(o *jsonObject) {
	of := o.member("app")
	app := z.app(o, of)
	method := z.value("apps", app.Id, of, "authMethodType", zitadelAPIAuth)
	app.Config = &transferv1.TransferApp_Api{Api: &appv3.APIConfig{AuthMethodType: appv3.AuthMethodType(method)}}
	of.done()
	z.put("apps", app.Id, app)
}

func (z *zitadel) oidcApp(o *jsonObject) {
	of := o.member("app")
	app := z.app(o, of)
	config := &appv3.OIDCConfig{
		RedirectUris: unique(of.texts("redirectUris")), PostLogoutRedirectUris: unique(of.texts("postLogoutRedirectUris")),
		ApplicationType:          appv3.ApplicationType(z.value("apps", app.Id, of, "appType", zitadelApp)),
		AuthMethodType:           appv3.AuthMethodType(z.value("apps", app.Id, of, "authMethodType", zitadelAuth)),
		AccessTokenType:          object.AccessTokenType(z.value("apps", app.Id, of, "accessTokenType", zitadelToken)),
		DevelopmentMode:          of.flag("devMode"),
		AccessTokenRoleAssertion: of.flag("accessTokenRoleAssertion"), IdTokenRoleAssertion: of.flag("idTokenRoleAssertion"),
		IdTokenUserinfoAssertion: of.flag("idTokenUserinfoAssertion"), AdditionalOrigins: unique(of.texts("additionalOrigins")),
	}
	for _, value := range of.values("responseTypes") {
		if n, ok := zitadelResponse.of(value); ok {
			config.ResponseTypes = append(config.ResponseTypes, appv3.ResponseType(n))
		} else {
			z.Lost("apps", app.Id, fmt.Sprintf("without the response type %v, which is not supported", value))
		}
	}
	for _, value := range of.values("grantTypes") {
		if n, ok := zitadelGrant.of(value); ok {
			config.GrantTypes = append(config.GrantTypes, appv3.GrantType(n))
		} else {
			z.Lost("apps", app.Id, fmt.Sprintf("without the grant type %v, which is not supported", value))
		}
	}
	config.ResponseTypes, config.GrantTypes = unique(config.ResponseTypes), unique(config.GrantTypes)
	if len(config.ResponseTypes) == 0 {
		config.ResponseTypes = []appv3.ResponseType{appv3.ResponseType_RESPONSE_TYPE_CODE}
	}
	if len(config.GrantTypes) == 0 {
		config.GrantTypes = []appv3.GrantType{appv3.GrantType_GRANT_TYPE_AUTHORIZATION_CODE}
	}
	if text := of.text("clockSkew"); text != "" {
		skew, err := time.ParseDuration(text)
		if err != nil {
			z.refuse(join(of.path, "clockSkew"), "expected a duration, such as 1s")
		}
		config.ClockSkew = durationpb.New(skew)
	}
	// The version has one value, and the page that native applications may have skipped is not there.
	of.ignore("version", "skipNativeAppSuccessPage")
	if of.text("backChannelLogoutUri") != "" {
		z.Lost("apps", app.Id, "without backChannelLogoutUri: there is no back-channel logout")
	}
	of.done()
	app.Config = &transferv1.TransferApp_Oidc{Oidc: config}
	z.put("apps", app.Id, app)
}

// unique returns the texts or numbers that are there, each once, in their order.
func unique[T comparable](all []T) []T {
	seen, kept := map[T]bool{}, all[:0:0]
	for _, one := range all {
		if !seen[one] {
			seen[one], kept = true, append(kept, one)
		}
	}
	return kept
}

func (z *zitadel) projectGrant(o *jsonObject) {
	id, of := o.needed("grantId"), o.member("projectGrant")
	z.put("projectGrants", id, &transferv1.TransferProjectGrant{
		Id: id, OrgId: z.org.id, ProjectId: of.needed("projectId"), GrantedOrgId: of.needed("grantedOrgId"), RoleKeys: unique(of.texts("roleKeys")),
		State: activeOr(o, "state", "PROJECT_GRANT_STATE_"), CreationDate: o.date("creationDate"),
	})
	of.done()
}

func (z *zitadel) userGrant(o *jsonObject) {
	user, project, under := o.needed("userId"), o.needed("projectId"), o.text("projectGrantId")
	grant := &transferv1.TransferUserGrant{
		Id: either(o.text("id"), derived("user grant", user, project, under)), OrgId: z.org.id, UserId: user, ProjectId: project,
		RoleKeys: unique(o.texts("roleKeys")), State: activeOr(o, "state", "USER_GRANT_STATE_"),
	}
	if under != "" {
		grant.ProjectGrantId = &under
	}
	z.put("userGrants", user+"/"+project, grant)
}

func (z *zitadel) orgMember(o *jsonObject) {
	z.member(o, policyv1.Level_LEVEL_ORG, &transferv1.TransferMembership{Level: membershipv3.MembershipLevel_MEMBERSHIP_LEVEL_ORG, ObjectId: z.org.id})
}

func (z *zitadel) projectMember(o *jsonObject) {
	project := o.needed("projectId")
	z.member(o, policyv1.Level_LEVEL_PROJECT, &transferv1.TransferMembership{
		Level: membershipv3.MembershipLevel_MEMBERSHIP_LEVEL_PROJECT, ObjectId: project, ProjectId: &project,
	})
}

func (z *zitadel) projectGrantMember(o *jsonObject) {
	project, grant := o.needed("projectId"), o.needed("grantId")
	z.member(o, policyv1.Level_LEVEL_PROJECT_GRANT, &transferv1.TransferMembership{
		Level: membershipv3.MembershipLevel_MEMBERSHIP_LEVEL_PROJECT_GRANT, ObjectId: grant, ProjectId: &project, ProjectGrantId: &grant,
	})
}

// managers are the roles that there are.
var managers = sync.OnceValues(policy.NewRoles)

// member hands on a membership with the roles of it that we have.
func (z *zitadel) member(o *jsonObject, level policyv1.Level, of *transferv1.TransferMembership) {
	of.UserId, of.OrgId = o.needed("userId"), z.org.id
	of.Id = derived("membership", of.Level.String(), of.ObjectId, of.UserId)
	known, err := managers()
	if err != nil {
		z.refuse(o.path, "%v", err)
		return
	}
	names := known.Names(level)
	for _, role := range unique(o.texts("roles")) {
		if slices.Contains(names, role) {
			of.Roles = append(of.Roles, role)
		} else {
			z.Lost("memberships", of.UserId, fmt.Sprintf("without the role %q on %s, which there is not", role, of.ObjectId))
		}
	}
	if len(of.Roles) > 0 {
		z.put("memberships", of.UserId, of)
	} else {
		z.Lost("memberships", of.UserId, "none of its roles on "+of.ObjectId+" is one of ours")
	}
}

// jsonText is JSON as it is kept in metadata.
func jsonText(value any) []byte {
	if text, ok := value.(string); ok {
		return []byte(text)
	}
	text, _ := json.Marshal(value) // it was read from JSON
	return text
}
