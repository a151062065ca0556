package token

import (
	"slices"

	appv3 "github.com/writ-id/writ/gen/proto/writ/app/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/oidc/client"
	"github.com/writ-id/writ/impl/oidc/endpoint"
)

// The grant types (RFC 6749, RFC 7523, RFC 8693).
const (
	codeType        = "authorization_code"
	refreshType     = "refresh_token"
	credentialsType = "client_credentials"
	assertionType   = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	exchangeType    = "urn:ietf:params:oauth:grant-type:token-exchange"
)

// grantType is a row of the table: all that can be said of a grant.
type grantType struct {
	name    string
	feature policyv1.Feature       // that switches it on; unspecified: it is always on
	by      caller                 // who uses it
	methods []appv3.AuthMethodType // how an application authenticates for it
	needs   appv3.GrantType        // what an application has to be configured for; unspecified: nothing
	denied  string                 // what one is told that is not

	scopes   limits
	nothing  string            // what is told when none is left
	stranger *endpoint.Refusal // the user is not of the organization that scopes name
	barred   *endpoint.Refusal // the user may not use the application

	refresh renewal
	writes  string // what is durable before it is answered
	begin   func(*Endpoint) grant
}

// caller is who uses a grant.
type caller int

const (
	applications caller = iota
	services            // service users, by their secret
	signers             // service users, by an assertion
)

// limits says where scopes come from.
type limits int

const (
	sealed  limits = iota // from the authorization endpoint, which has limited them a minute ago
	limited               // from the request or the grant; what the client may not have is left out
)

// renewal says whether a refresh token comes.
type renewal int

const (
	never   renewal = iota
	offline         // with the scope offline_access, where the application may use refresh tokens
	rotated         // always, in place of the one that was shown
)

// table has a row for each grant type; there are no others.
var table = []grantType{
	{
		name: codeType, by: applications, methods: client.All,
		needs: appv3.GrantType_GRANT_TYPE_AUTHORIZATION_CODE, denied: "the client may not use authorization codes",
		scopes: sealed, stranger: errCode, barred: errCode,
		refresh: offline, writes: "the grant, under the ID of the code: who makes the row was first",
		begin: func(e *Endpoint) grant { return &codeGrant{Endpoint: e} },
	},
	{
		name: refreshType, by: applications, methods: client.All,
		needs: appv3.GrantType_GRANT_TYPE_REFRESH_TOKEN, denied: "the client may not use refresh tokens",
		scopes: limited, nothing: "none of the scopes can be granted any more", stranger: errRefresh, barred: errRefresh,
		refresh: rotated, writes: "the next generation of the grant: who raises it was first",
		begin: func(e *Endpoint) grant { return &refreshGrant{Endpoint: e} },
	},
	{
		name: credentialsType, by: services, methods: client.Secret,
		scopes: limited, nothing: noServiceScope, stranger: errNotOfOrg,
		refresh: never, writes: "an event",
		begin: func(e *Endpoint) grant { return &serviceGrant{Endpoint: e} },
	},
	{
		name: assertionType, by: signers, methods: client.Confidential,
		scopes: limited, nothing: noServiceScope, stranger: errNotOfOrg,
		refresh: never, writes: "that the assertion was used, and an event",
		begin: func(e *Endpoint) grant { return &serviceGrant{Endpoint: e, id: true} },
	},
	{
		name: exchangeType, feature: policyv1.Feature_FEATURE_OIDC_TOKEN_EXCHANGE, by: applications, methods: client.All,
		needs: appv3.GrantType_GRANT_TYPE_TOKEN_EXCHANGE, denied: "the client may not exchange tokens",
		scopes: limited, nothing: "none of the scopes is known",
		stranger: endpoint.InvalidScope("the subject does not belong to the organization"),
		barred:   endpoint.InvalidRequest("the subject may not use the application"),
		refresh:  offline, writes: "an event; with a refresh token a grant, below that of the subject",
		begin: func(e *Endpoint) grant { return &exchangeGrant{Endpoint: e} },
	},
}

// find returns the row of a grant type; nil when there is none.
func find(name string) *grantType {
	if i := slices.IndexFunc(table, func(one grantType) bool { return one.name == name }); i >= 0 {
		return &table[i]
	}
	return nil
}

// Types returns the grant types of the endpoint, as the metadata lists them: those that
// are always on, and those whose feature is.
func Types(on func(policyv1.Feature) bool) (names []string) {
	for i := range table {
		if feature := table[i].feature; feature == policyv1.Feature_FEATURE_UNSPECIFIED || on(feature) {
			names = append(names, table[i].name)
		}
	}
	return names
}
