package foreign

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	idpv3 "github.com/writ-id/writ/gen/proto/writ/idp/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	"github.com/writ-id/writ/impl/core/transfer"
)

// Keycloak reads the export of a realm (kc.sh export --users same_file). The realm becomes an
// organization with one project, whose roles are those of the realm (editor) and of its
// clients (web:seller), and whose apps are its clients. IDs stay, and so do client IDs and secrets,
// so that clients and users notice little.
//
// Users come before much of what they refer to, so the file is read twice.
func Keycloak(file io.ReadSeeker, options Options) (transfer.Source, error) {
	k := &keycloak{
		reading: newReading(options), roles: map[keycloakRole][]keycloakRole{}, groups: map[string][]keycloakRole{}, idps: map[string]string{}, names: map[string]bool{},
		accounts: map[string]string{}, settings: map[string]bool{},
	}
	k.walker = newWalker(file, keycloakPlan(false))
	k.handle = k.learn
	for {
		err := k.step()
		if err = cmp.Or(k.err, err); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
	}
	if k.realm == "" {
		return nil, malformed("realm", "it is missing: this is no export of a realm")
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	k.walker = newWalker(file, keycloakPlan(true))
	k.handle, k.finish = k.visit, k.ends
	if k.OrgID == "" && k.OrgName == "" {
		k.OrgID, k.OrgName = k.id, either(k.shown, k.realm)
	}
	if err := k.organization(); err != nil {
		return nil, err
	}
	if k.id == "" { // of the files with users that an export to a folder has
		k.id = derived("realm", k.realm)
		return k, nil
	}
	k.put("projects", k.id, &transferv1.TransferProject{
		Id: k.id, OrgId: k.OrgID, Name: either(k.shown, k.realm), ProjectRoleAssertion: true, State: object.EffectiveState_EFFECTIVE_STATE_ACTIVE,
	})
	return k, nil
}

type keycloak struct {
	*reading
	id, realm, shown string
	roles            map[keycloakRole][]keycloakRole // that who has one has too
	groups           map[string][]keycloakRole       // that members of a path have
	idps             map[string]string               // IDs of providers by alias, of those that are carried
	accounts         map[string]string               // secrets of clients that have a service account
	names            map[string]bool                 // of applications, in lower case
	settings         map[string]bool                 // what else the file says of the realm
}

// keycloakRole is a role of a client, or of the realm.
type keycloakRole struct{ client, name string }

// key is what it is called here.
func (r keycloakRole) key() string {
	if r.client == "" {
		return r.name
	}
	return r.client + ":" + r.name
}

// keycloakPlan is the plan of the second reading, or of the first, which passes over users.
func keycloakPlan(users bool) func(string) plan {
	return func(pattern string) plan {
		switch pattern {
		case "", "roles", "roles.realm", "groups", "clients", "identityProviders":
			return into
		case "id", "realm", "displayName", "roles.realm[]", "roles.client", "groups[]", "clients[]", "identityProviders[]":
			return whole
		case "users":
			if users {
				return into
			}
		case "users[]":
			return whole
		}
		return over
	}
}

// builtInClients are made by Keycloak in every realm.
var builtInClients = []string{"account", "account-console", "admin-cli", "broker", "realm-management", "security-admin-console"}

func (k *keycloak) isBuiltInClient(id string) bool {
	return slices.Contains(builtInClients, id) || k.realm == "master" && strings.HasSuffix(id, "-realm")
}

func (k *keycloak) isBuiltIn(of keycloakRole) bool {
	if of.client != "" {
		return k.isBuiltInClient(of.client)
	}
	role := of.name
	return role == "offline_access" || role == "uma_authorization" || role == "default-roles-"+strings.ToLower(k.realm) ||
		k.realm == "master" && (role == "admin" || role == "create-realm")
}

// learn keeps, in the first reading, what users refer to.
func (k *keycloak) learn(at visit) {
	if at.passed || at.end || at.value == nil {
		return
	}
	switch at.pattern {
	case "id":
		k.id = k.field(at)
	case "realm":
		k.realm = k.field(at)
	case "displayName":
		k.shown = k.field(at)
	case "roles.realm[]":
		k.learnRole("", k.object(at))
	case "roles.client":
		of := k.object(at)
		for _, client := range of.sorted() {
			for _, role := range of.list(client) {
				k.learnRole(client, role)
			}
		}
	case "groups[]":
		k.learnGroup(k.object(at), nil)
	case "identityProviders[]":
		of := k.object(at)
		if id := either(of.text("internalId"), of.text("alias")); keycloakProviders[of.text("providerId")] != 0 {
			k.idps[of.text("alias")] = id
		}
	case "clients[]":
		of := k.object(at)
		if of.flag("serviceAccountsEnabled") {
			k.accounts[of.text("clientId")] = of.text("secret")
		}
	}
}

func (k *keycloak) learnRole(client string, o *jsonObject) {
	composites := o.member("composites")
	k.roles[keycloakRole{client, o.text("name")}] = slices.Concat(rolesOf(composites, "realm"), rolesByClient(composites.member("client")))
}

// rolesOf are roles of the realm by their names.
func rolesOf(o *jsonObject, list string) []keycloakRole {
	var roles []keycloakRole
	for _, name := range o.texts(list) {
		roles = append(roles, keycloakRole{"", name})
	}
	return roles
}

// rolesByClient are roles of clients, by their client IDs.
func rolesByClient(o *jsonObject) []keycloakRole {
	var roles []keycloakRole
	for _, client := range o.sorted() {
		for _, name := range o.texts(client) {
			roles = append(roles, keycloakRole{client, name})
		}
	}
	return roles
}

func (k *keycloak) learnGroup(o *jsonObject, above []keycloakRole) {
	roles := slices.Concat(above, rolesOf(o, "realmRoles"), rolesByClient(o.member("clientRoles")))
	k.groups[o.text("path")] = roles
	for _, under := range o.list("subGroups") {
		k.learnGroup(under, roles)
	}
}

// keycloakLost is why parts of a realm are not carried over.
var keycloakLost = map[string]string{
	"authenticationFlows":        "how users sign in cannot be composed",
	"authenticatorConfig":        "how users sign in cannot be composed",
	"requiredActions":            "which actions there are cannot be set",
	"clientScopes":               "scopes and claims are those of OpenID Connect",
	"components":                 "there are no components: user federation, key providers and client policies have to be set up otherwise",
	"identityProviderMappers":    "the claims of identity providers are mapped as OpenID Connect has them",
	"smtpServer":                 "providers of e-mail have to be set up anew",
	"organizations":              "organizations within a realm are not read",
	"federatedUsers":             "what is kept of users of a federation is not read",
	"scopeMappings":              "every application may be told of every role",
	"clientScopeMappings":        "every application may be told of every role",
	"localizationTexts":          "the words of pages cannot be set",
	"protocolMappers":            "claims cannot be mapped; functions may add some",
	"browserSecurityHeaders":     "the security headers cannot be set",
	"eventsListeners":            "use a target and an execution on events",
	"clientProfiles":             "there are no client policies",
	"clientPolicies":             "there are no client policies",
	"defaultRoles":               "roles that everybody has are not given to new users",
	"defaultGroups":              "there are no groups",
	"applications":               "this is the export of a version that is too old",
	"oauthClients":               "this is the export of a version that is too old",
	"internationalization":       "languages are set by the language settings",
	"userManagedAccessAllowed":   "there is no user-managed access",
	"defaultDefaultClientScopes": "scopes and claims are those of OpenID Connect",
}

func (k *keycloak) visit(at visit) {
	switch {
	case at.passed && at.empty:
		return
	case at.passed:
		if reason := keycloakLost[at.pattern]; reason != "" {
			k.often(at.pattern, reason)
		} else {
			k.settings[at.pattern] = true
		}
		return
	case at.end || at.value == nil:
		return
	}
	switch at.pattern {
	case "roles.realm[]":
		of := k.object(at)
		k.role("", of)
		of.done()
	case "roles.client":
		of := k.object(at)
		for _, client := range of.sorted() {
			if k.isBuiltInClient(client) {
				k.ownRoles(client, of.list(client))
				continue
			}
			for _, role := range of.list(client) {
				k.role(client, role)
				role.done()
			}
		}
	case "groups[]":
		k.group(k.object(at))
	case "users[]":
		of := k.object(at)
		k.user(of)
		of.done()
	case "clients[]":
		of := k.object(at)
		k.client(of)
	case "identityProviders[]":
		of := k.object(at)
		k.provider(of)
	}
}

// ends reports the settings of the realm in one line: there are a hundred.
func (k *keycloak) ends() {
	var names []string
	for name := range k.settings {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) > 0 {
		k.Lost("realm", k.realm, "settings of the realm that are not carried over: "+strings.Join(names[:min(len(names), 200)], ", "))
	}
}

// ownRoles reports the roles of a client that Keycloak made, in one line.
func (k *keycloak) ownRoles(client string, roles []*jsonObject) {
	var names []string
	for _, role := range roles {
		names = append(names, role.text("name"))
	}
	if len(names) > 0 {
		k.Lost("projectRoles", client, "Keycloak made them for itself: "+strings.Join(names, ", "))
	}
}

func (k *keycloak) role(client string, o *jsonObject) {
	name := o.needed("name")
	role := keycloakRole{client, name}
	key := role.key()
	o.ignore("id", "composite", "clientRole", "containerId", "composites")
	if attributes := o.member("attributes"); len(attributes.members) > 0 {
		k.Lost("projectRoles", key, "without its attributes")
	}
	description := o.text("description")
	if k.isBuiltIn(role) {
		k.Lost("projectRoles", key, "Keycloak made it for itself")
		return
	}
	if strings.HasPrefix(description, "${") { // a text of Keycloak's
		description = ""
	}
	if len(k.roles[role]) > 0 {
		var others []string
		for _, other := range k.roles[role] {
			others = append(others, other.key())
		}
		k.Lost("projectRoles", key, fmt.Sprintf("roles do not contain others: who has it has %s too, each by itself", strings.Join(others, ", ")))
	}
	if len([]rune(description)) > 200 {
		k.Lost("projectRoles", key, "without the end of its description, which is longer than 200 characters")
		description = string([]rune(description)[:200])
	}
	k.put("projectRoles", key, &transferv1.TransferRole{
		Id: either(o.text("id"), derived("role", k.id, key)), OrgId: k.OrgID, ProjectId: k.id, Key: key, DisplayName: description, Group: client,
	})
}

func (k *keycloak) group(o *jsonObject) {
	path := o.text("path")
	reason := `there are no groups: its members have its roles one by one, and its path in their metadata "groups"`
	if attributes := o.member("attributes"); len(attributes.members) > 0 {
		reason += "; its attributes are left behind"
	}
	k.Lost("groups", path, reason)
	for _, under := range o.list("subGroups") {
		k.group(under)
	}
	o.ignore("id", "name", "parentId", "realmRoles", "clientRoles", "access", "subGroupCount")
	o.done()
}

func (k *keycloak) provider(o *jsonObject) {
	alias, of := o.needed("alias"), o.member("config")
	kind := keycloakProviders[o.text("providerId")]
	if kind == 0 {
		k.Lost("idps", alias, fmt.Sprintf("identity providers of the type %q are not supported", o.text("providerId")))
		return
	}
	clientSecret := of.text("clientSecret")
	if clientSecret == "" || strings.Trim(clientSecret, "*") == "" {
		k.Lost("idps", alias, "without the client secret: the file does not have it")
		clientSecret = ""
	}
	linking, creation := true, !o.flag("linkOnly")
	item := &transferv1.TransferIDP{
		Id: k.idps[alias], OrgId: k.OrgID, Type: kind, Name: either(o.text("displayName"), alias), ClientId: of.text("clientId"), ClientSecret: []byte(clientSecret),
		Scopes: strings.Fields(of.text("defaultScope")), StatePolicy: object.StatePolicy_STATE_POLICY_ACTIVATE,
		Options: &idpv3.Options{IsLinkingAllowed: &linking, IsCreationAllowed: &creation},
	}
	if o.has("enabled") && !o.flag("enabled") {
		item.StatePolicy = object.StatePolicy_STATE_POLICY_DEACTIVATE
	}
	// The configuration of an OpenID provider is read from where its issuer is.
	of.ignore("authorizationUrl", "tokenUrl", "userInfoUrl", "jwksUrl", "useJwksUrl", "validateSignature", "logoutUrl", "metadataDescriptorUrl", "clientAuthMethod", "syncMode", "pkceEnabled", "pkceMethod", "guiOrder", "hideOnLoginPage", "acceptsPromptNoneForwardFromClient", "disableUserInfo", "isAccessTokenJWT", "filteredByClaim", "caseSensitiveOriginalUsername", "allowedClockSkew")
	switch kind {
	case idpv3.ProviderType_PROVIDER_TYPE_OIDC:
		if item.Issuer = of.text("issuer"); item.Issuer == "" {
			item.Type, item.IdAttribute = idpv3.ProviderType_PROVIDER_TYPE_OAUTH, "sub"
			item.AuthorizationEndpoint, item.TokenEndpoint, item.UserEndpoint = of.text("authorizationUrl"), of.text("tokenUrl"), of.text("userInfoUrl")
			k.Lost("idps", alias, "it has no issuer: it is an OAuth provider, whose users are told by the claim sub")
		}
	case idpv3.ProviderType_PROVIDER_TYPE_AZURE_AD:
		item.Tenant, item.IsEmailVerified = either(of.text("tenantId"), "common"), o.flag("trustEmail")
	}
	if o.flag("trustEmail") && item.Type != idpv3.ProviderType_PROVIDER_TYPE_AZURE_AD {
		k.Lost("idps", alias, "without trustEmail: the provider itself says which addresses are verified")
	}
	if o.flag("storeToken") {
		k.Lost("idps", alias, "without storeToken: its tokens are not kept")
	}
	o.ignore("internalId", "providerId", "updateProfileFirstLoginMode", "addReadTokenRoleOnCreate", "authenticateByDefault", "hideOnLogin", "firstBrokerLoginFlowAlias", "postBrokerLoginFlowAlias", "enabled")
	of.done()
	o.done()
	k.put("idps", alias, item)
}
