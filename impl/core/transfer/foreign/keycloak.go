package foreign

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	authenticatorv3 "github.com/writ-id/writ/gen/proto/writ/authenticator/v3alpha"
	idpv3 "github.com/writ-id/writ/gen/proto/writ/idp/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
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

func (k *keycloak) user(o *jsonObject) {
	o.ignore("totp", "disableableCredentialTypes", "access", "origin", "self", "notBefore", "userProfileMetadata")
	id := o.needed("id")
	user := &transferv1.TransferUser{
		Id: id, OrgId: k.OrgID, Username: o.needed("username"), State: userv3.UserState_USER_STATE_ACTIVE, CreationDate: o.milliseconds("createdTimestamp"),
	}
	if o.has("enabled") && !o.flag("enabled") {
		user.State = userv3.UserState_USER_STATE_INACTIVE
	}
	o.ignore("enabled")
	more := k.profile(o, user)
	var factors []*transferv1.TransferAuthenticator
	if client := o.text("serviceAccountClientId"); client != "" {
		// The name of a service user is its client ID.
		user.Username = client
		user.Type = &transferv1.TransferUser_Service{Service: &userv3.Service{Name: client, AccessTokenType: object.AccessTokenType_ACCESS_TOKEN_TYPE_JWT}}
		user.SecretHash = secretHash(k.accounts[client])
		if user.SecretHash == nil {
			k.Lost("users", id, "without a client secret: Keycloak has none, or hid it")
		}
		o.ignore("credentials")
		user.IsEmailProven = false
	} else {
		factors = k.credentials(o, user)
	}
	for _, action := range o.texts("requiredActions") {
		if action == "UPDATE_PASSWORD" {
			user.PasswordChangeRequired = true
		} else {
			k.Lost("users", id, "without the required action "+action)
		}
	}
	k.put("users", id, user)
	for _, factor := range factors {
		k.put("authenticators", id, factor)
	}
	for _, link := range o.list("federatedIdentities") {
		alias := link.text("identityProvider")
		if idp := k.idps[alias]; idp != "" {
			k.idpLink(&transferv1.TransferIDPLink{OrgId: k.OrgID, UserId: id, IdpId: idp, ExternalUserId: link.text("userId"), ExternalUsername: link.text("userName")})
		} else {
			link.ignore("userId", "userName")
			k.Lost("idpLinks", id, fmt.Sprintf("the identity provider %q is not carried over", alias))
		}
		link.ignore("token")
		link.done()
	}
	k.grant(o, id)
	if groups := o.texts("groups"); len(groups) > 0 {
		text, _ := json.Marshal(groups)
		more = append(more, entryOf("groups", text))
	}
	for _, one := range more {
		one.UserId, one.OrgId = id, k.OrgID
		k.put("userMetadata", id+"/"+one.Id, one)
	}
	if o.text("federationLink") != "" {
		k.Lost("users", id, "without the link to a user federation: what is kept there is not here")
	}
	for _, consent := range o.list("clientConsents") {
		k.Lost("users", id, "without the consent for "+consent.text("clientId")+": nobody is asked")
	}
}

// grant gives a user the roles that they have themselves, by composites and by groups.
func (k *keycloak) grant(o *jsonObject, id string) {
	roles := slices.Concat(rolesOf(o, "realmRoles"), rolesByClient(o.member("clientRoles")))
	for _, group := range o.texts("groups") {
		of, known := k.groups[group]
		if !known {
			k.Lost("userGrants", id, fmt.Sprintf("without the roles of the group %q, which is not in the file", group))
		}
		roles = append(roles, of...)
	}
	var held []string
	seen := map[keycloakRole]bool{}
	for len(roles) > 0 { // those that roles contain are added behind them
		role := roles[0]
		if roles = roles[1:]; seen[role] {
			continue
		}
		seen[role] = true
		others, known := k.roles[role]
		switch {
		case role.client == "realm-management":
			k.Lost("memberships", id, fmt.Sprintf("the role %q of an administrator: make a membership", role.name))
		case k.isBuiltIn(role):
			k.often("userGrants", fmt.Sprintf("without the role %q, which Keycloak made for itself", role.key()))
		case known:
			held = append(held, role.key())
		default:
			k.Lost("userGrants", id, fmt.Sprintf("without the role %q, which is not in the file", role.key()))
		}
		roles = slices.Concat(roles, others)
	}
	slices.Sort(held)
	if len(held) > 0 {
		k.put("userGrants", id, &transferv1.TransferUserGrant{
			Id: derived("user grant", id, k.id), OrgId: k.OrgID, UserId: id, ProjectId: k.id, RoleKeys: held, State: object.EffectiveState_EFFECTIVE_STATE_ACTIVE,
		})
	}
}

// profile reads who a user is. Attributes that Keycloak's own scopes make claims of are the
// same claims here; the others are metadata.
func (k *keycloak) profile(o *jsonObject, user *transferv1.TransferUser) (more []*transferv1.TransferUserMetadata) {
	human := &userv3.Human{Profile: &userv3.Profile{GivenName: o.text("firstName"), FamilyName: o.text("lastName")}, Address: &userv3.Address{}}
	if address := o.text("email"); address != "" {
		human.Email = &userv3.Email{Address: address, IsVerified: o.flag("emailVerified")}
		user.IsEmailProven = human.Email.IsVerified
	}
	o.ignore("emailVerified")
	attributes := o.member("attributes")
	p, a := human.Profile, human.Address
	places := map[string]*string{
		"middleName": &p.MiddleName, "nickname": &p.NickName, "profile": &p.ProfileUrl, "picture": &p.PictureUrl, "website": &p.WebsiteUrl,
		"gender": &p.Gender, "birthdate": &p.Birthdate, "zoneinfo": &p.Zoneinfo, "locale": &p.PreferredLanguage,
		"street": &a.StreetAddress, "locality": &a.Locality, "region": &a.Region, "postal_code": &a.PostalCode, "country": &a.Country,
	}
	verified := false
	for _, name := range attributes.sorted() {
		values := attributes.texts(name)
		switch to := places[name]; {
		case to != nil && len(values) == 1:
			*to = values[0]
		case name == "phoneNumber" && len(values) == 1:
			human.Phone = &userv3.Phone{Number: telephone(values[0])}
		case name == "phoneNumberVerified" && len(values) == 1:
			verified = isTrue(values[0])
		case len(values) == 1:
			more = append(more, entryOf(name, []byte(values[0])))
		default:
			text, _ := json.Marshal(values)
			more = append(more, entryOf(name, text))
		}
	}
	if human.Phone != nil {
		human.Phone.IsVerified = verified
	}
	user.Type = &transferv1.TransferUser_Human{Human: human}
	return more
}

func entryOf(key string, value []byte) *transferv1.TransferUserMetadata {
	return &transferv1.TransferUserMetadata{Id: key, Value: value}
}

// credentials reads the password and the second factors of a user.
func (k *keycloak) credentials(o *jsonObject, user *transferv1.TransferUser) (factors []*transferv1.TransferAuthenticator) {
	for _, credential := range o.list("credentials") {
		kind := credential.text("type")
		created := credential.milliseconds("createdDate")
		secretData, data := k.embedded(credential, "secretData"), k.embedded(credential, "credentialData")
		name := credential.text("userLabel")
		switch {
		case kind == "password":
			if k.password(user, keycloakHash(secretData, data)) {
				user.PasswordChanged = created
			}
			if credential.flag("temporary") {
				user.PasswordChangeRequired = true
			}
		case kind != "otp" && kind != "totp":
			k.Lost("authenticators", user.Id, strings.TrimSpace(fmt.Sprintf("credentials of the type %q are not carried over %s", kind, name)))
		case data.text("subType") == "hotp" || data.number("digits") != 6 || data.number("period") != 30 || data.text("algorithm") != "HmacSHA1":
			k.Lost("authenticators", user.Id, strings.TrimSpace("one-time passwords have 6 digits by SHA-1 every 30 seconds: "+name))
		case len(factors) > 0:
			k.Lost("authenticators", user.Id, strings.TrimSpace("there is one app for one-time passwords for each user: "+name))
		default:
			key := []byte(secretData.text("value")) // as it is: the app got its base32
			if data.text("secretEncoding") == "BASE32" {
				key = base32Secret(secretData.text("value"))
			}
			factors = append(factors, &transferv1.TransferAuthenticator{
				Id: either(credential.text("id"), derived("totp", user.Id)), OrgId: k.OrgID, UserId: user.Id, Secret: key, IsVerified: true, CreationDate: created,
				Type: authenticatorv3.SecondFactorType_SECOND_FACTOR_TYPE_TOTP,
			})
		}
		credential.ignore("id", "priority", "userLabel", "createdDate", "temporary")
		credential.done()
	}
	return factors
}

// embedded reads an object that is written into a text.
func (k *keycloak) embedded(o *jsonObject, name string) *jsonObject {
	text, path := o.text(name), join(o.path, name)
	var value any
	if text != "" {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		if err := decoder.Decode(&value); err != nil || depth([]byte(text)) > maxDepth {
			k.refuse(path, "expected JSON in a text")
			return &jsonObject{reading: k.reading, path: path, asked: map[string]bool{}}
		}
	}
	return k.inObject(join(o.pattern, name), path, value, text != "")
}

// keycloakHash writes a password's hash as others do.
func keycloakHash(secretData, data *jsonObject) string {
	rounds, algorithm := data.number("hashIterations"), data.text("algorithm")
	salt, key := base64Bytes(secretData.text("salt")), base64Bytes(secretData.text("value"))
	parameters := data.member("additionalParameters")
	first := func(name string) string { return either(append(parameters.texts(name), "", "")[0]) }
	if digest, ok := strings.CutPrefix(algorithm, "pbkdf2"); ok {
		return pbkdf2Hash(strings.TrimPrefix(either(digest, "-sha1"), "-"), rounds, salt, key)
	}
	switch {
	case algorithm == "argon2" && first("version") == "1.3":
		return argon2Hash(first("type"), parameters.firstNumber("memory"), rounds, parameters.firstNumber("parallelism"), salt, key)
	case algorithm == "bcrypt": // of a well-known extension, which keeps the whole hash
		return secretData.text("value")
	}
	return algorithm
}

// firstNumber returns the first of a list of texts as a number.
func (o *jsonObject) firstNumber(name string) int64 {
	texts := append(o.texts(name), "")
	inner := &jsonObject{reading: o.reading, path: join(o.path, name), asked: map[string]bool{}, members: map[string]any{"": json.Number(texts[0])}}
	return inner.number("")
}

// keycloakProviders are the identity providers that there are here too.
var keycloakProviders = map[string]idpv3.ProviderType{
	"oidc": idpv3.ProviderType_PROVIDER_TYPE_OIDC, "keycloak-oidc": idpv3.ProviderType_PROVIDER_TYPE_OIDC,
	"google": idpv3.ProviderType_PROVIDER_TYPE_GOOGLE, "github": idpv3.ProviderType_PROVIDER_TYPE_GITHUB,
	"gitlab": idpv3.ProviderType_PROVIDER_TYPE_GITLAB, "microsoft": idpv3.ProviderType_PROVIDER_TYPE_AZURE_AD,
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
