package app

import (
	"fmt"
	"slices"

	"github.com/writ-id/writ/gen/db"
	appv3 "github.com/writ-id/writ/gen/proto/writ/app/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/redirect"
)

const (
	grantCode     = appv3.GrantType_GRANT_TYPE_AUTHORIZATION_CODE
	grantImplicit = appv3.GrantType_GRANT_TYPE_IMPLICIT
	grantRefresh  = appv3.GrantType_GRANT_TYPE_REFRESH_TOKEN

	responseCode = appv3.ResponseType_RESPONSE_TYPE_CODE

	web       = appv3.ApplicationType_APPLICATION_TYPE_WEB
	userAgent = appv3.ApplicationType_APPLICATION_TYPE_USER_AGENT
	native    = appv3.ApplicationType_APPLICATION_TYPE_NATIVE

	methodBasic  = appv3.AuthMethodType_AUTH_METHOD_TYPE_BASIC
	methodPost   = appv3.AuthMethodType_AUTH_METHOD_TYPE_POST
	methodNone   = appv3.AuthMethodType_AUTH_METHOD_TYPE_NONE
	methodSecret = appv3.AuthMethodType_AUTH_METHOD_TYPE_SECRET
)

// setDefaults fills what a new application left out, as the contract says.
func setDefaults(row *db.App) {
	orElse(&row.AuthMethodType, methodSecret)
	if row.Type != typeOIDC {
		return
	}
	orElse(&row.ApplicationType, web)
	orElse(&row.AccessTokenType, object.AccessTokenType_ACCESS_TOKEN_TYPE_BEARER)
	if len(row.ResponseTypes) == 0 {
		row.ResponseTypes = []appv3.ResponseType{responseCode}
	}
	if len(row.GrantTypes) == 0 {
		row.GrantTypes = []appv3.GrantType{grantCode}
	}
}

// Complete gives an application that comes from elsewhere what it left out, and refuses
// what a new one could not have either; local is resource.Env.Local.
func Complete(m *transferv1.TransferApp, local bool) error {
	row := &db.App{}
	storage.AssignTransferApp(row, m)
	setDefaults(row)
	whole := storage.NewTransferApp(row)
	m.Config = whole.GetConfig()
	return check(row, local, "")
}

func orElse[E ~int32](value *E, or E) {
	if *value == 0 {
		*value = or
	}
}

func usesSecret(row *db.App) bool {
	return slices.Contains([]appv3.AuthMethodType{methodSecret, methodBasic, methodPost}, row.AuthMethodType)
}

// check refuses addresses that must not be registered, by all settings together:
// one that was fine in development mode stops it from being left (SEC-003). below
// is what follows the name of a list in the request.
func check(row *db.App, local bool, below string) error {
	client := redirect.Client{Native: row.ApplicationType == native, Development: row.DevelopmentMode, Local: local}
	origins := below
	if below != "" {
		origins = ".origins"
	}
	for _, list := range []struct {
		reason, field, below string
		values               []string
		check                func(string) error
	}{
		{"INVALID_REDIRECT_URI", "redirectUris", below, row.RedirectUris, client.Check},
		{"INVALID_REDIRECT_URI", "postLogoutRedirectUris", below, row.PostLogoutRedirectUris, client.Check},
		{"INVALID_ORIGIN", "additionalOrigins", origins, row.AdditionalOrigins, client.CheckOrigin},
	} {
		for i, value := range list.values {
			if err := list.check(value); err != nil {
				return fault.Invalid(list.reason, fmt.Sprintf("app.oidc.%s%s[%d]", list.field, list.below, i), "%q %v", value, err)
			}
		}
	}
	return nil
}

// AllowedOrigins returns the origins of browsers that may call the endpoints on
// behalf of an application, as browsers spell them.
func AllowedOrigins(row *db.App) []string {
	var origins []string
	for _, uri := range row.RedirectUris {
		if origin := redirect.Origin(uri); origin != "" && redirect.IsWeb(uri) {
			origins = append(origins, origin)
		}
	}
	for _, origin := range row.AdditionalOrigins {
		origins = append(origins, redirect.Origin(origin))
	}
	slices.Sort(origins)
	return slices.Compact(origins)
}

// recommendation is what settings should keep to. The keys are those of the field.
type recommendation struct {
	key, message string
	broken       func(*db.App) bool
}

var recommendations = []recommendation{
	{"NoRedirectUris", "At least one redirect URI is needed to log in.", func(a *db.App) bool { return len(a.RedirectUris) == 0 }},
	{"GrantType.Refresh.NoAuthCode", "The grant type refresh token needs the grant type authorization code.", func(a *db.App) bool {
		return slices.Contains(a.GrantTypes, grantRefresh) && !slices.Contains(a.GrantTypes, grantCode)
	}},
	{"NotAllCombinationsAreAllowed", "The response types and the grant types do not fit together.", func(a *db.App) bool {
		implicit := slices.ContainsFunc(a.ResponseTypes, func(t appv3.ResponseType) bool { return t != responseCode })
		return slices.Contains(a.ResponseTypes, responseCode) != slices.Contains(a.GrantTypes, grantCode) || implicit != slices.Contains(a.GrantTypes, grantImplicit)
	}},
	{"Code.RedirectUris.HttpOnlyForWeb", "Redirect URIs with http are for web applications only.", func(a *db.App) bool {
		return slices.Contains(a.GrantTypes, grantCode) && a.ApplicationType == userAgent && slices.ContainsFunc(a.RedirectUris, redirect.IsHTTP)
	}},
	{"Code.RedirectUris.CustomOnlyNative", "Redirect URIs with a scheme of their own are for native applications only.", func(a *db.App) bool {
		return slices.Contains(a.GrantTypes, grantCode) && a.ApplicationType != native && hasCustom(a)
	}},
	{"Implicit.RedirectUris.CustomNotAllowed", "The implicit flow does not allow redirect URIs with a scheme of their own.", func(a *db.App) bool {
		return slices.Contains(a.GrantTypes, grantImplicit) && hasCustom(a)
	}},
	{"Implicit.RedirectUris.HttpNotAllowed", "The implicit flow does not allow redirect URIs with http.", func(a *db.App) bool {
		return slices.Contains(a.GrantTypes, grantImplicit) && a.ApplicationType != native && slices.ContainsFunc(a.RedirectUris, redirect.IsHTTP)
	}},
	{"Implicit.RedirectUris.HttpLocalhostOnlyForNative", "The implicit flow of native applications allows http for loopback addresses only.", func(a *db.App) bool {
		return slices.Contains(a.GrantTypes, grantImplicit) && a.ApplicationType == native && hasRemoteHTTP(a)
	}},
	{"Native.RedirectUris.MustBeHttpLocalhost", "Native applications may use http for loopback addresses only.", func(a *db.App) bool {
		return a.ApplicationType == native && hasRemoteHTTP(a)
	}},
	{"Native.AuthMethodType.NotNone", "Native applications cannot keep a secret; use the method NONE.", func(a *db.App) bool {
		return a.ApplicationType == native && a.AuthMethodType != methodNone
	}},
	{"UserAgent.AuthMethodType.NotNone", "Applications in the browser cannot keep a secret; use the method NONE.", func(a *db.App) bool {
		return a.ApplicationType == userAgent && a.AuthMethodType != methodNone
	}},
}

func hasCustom(a *db.App) bool {
	return slices.ContainsFunc(a.RedirectUris, func(uri string) bool { return !redirect.IsWeb(uri) })
}

func hasRemoteHTTP(a *db.App) bool {
	return slices.ContainsFunc(a.RedirectUris, func(uri string) bool { return redirect.IsHTTP(uri) && !redirect.IsLoopback(uri) })
}

// problemsOf returns the recommendations that the settings of a client contradict.
func problemsOf(row *db.App) []*appv3.ComplianceProblem {
	var problems []*appv3.ComplianceProblem
	for _, r := range recommendations {
		if r.broken(row) {
			problems = append(problems, &appv3.ComplianceProblem{Key: "Application.OIDC.V1." + r.key, LocalizedMessage: r.message})
		}
	}
	return problems
}
