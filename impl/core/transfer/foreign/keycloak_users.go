package foreign

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	authenticatorv3 "github.com/writ-id/writ/gen/proto/writ/authenticator/v3alpha"
	idpv3 "github.com/writ-id/writ/gen/proto/writ/idp/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
)

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
