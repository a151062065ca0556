package foreign

import (
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/core/transfer"
)

// Auth0 reads users of Auth0: what its bulk export writes line by line (with the fields of
// users as they are), what its bulk import takes (a list, with custom_password_hash), and the file
// of password hashes that its support gives (_id, passwordHash). IDs stay as they are, with
// auth0| in front.
func Auth0(file io.ReadSeeker, options Options) (transfer.Source, error) {
	a := &auth0{reading: newReading(options)}
	r, list := startsWithList(file)
	a.walker = newWalker(r, func(pattern string) plan {
		if pattern == "" && list {
			return into
		}
		return whole
	})
	a.walker.many = !list
	a.handle = func(at visit) {
		if at.value != nil {
			of := a.object(at)
			a.user(of)
			of.done()
		}
	}
	return a, a.organization()
}

type auth0 struct{ *reading }

func (a *auth0) user(o *jsonObject) {
	// The spelling of the bulk export's columns, of the API and of the file of hashes.
	text := func(names ...string) (value string) {
		for _, name := range names {
			value = either(value, o.text(name))
		}
		return value
	}
	id := text("user_id", "Id")
	if hidden := o.member("_id"); id == "" && hidden.has("$oid") {
		id = "auth0|" + hidden.text("$oid")
	}
	if id == "" {
		a.refuse(join(o.path, "user_id"), "it is missing")
		return
	}
	if !strings.Contains(id, "|") { // the import of Auth0 itself adds it
		id = "auth0|" + id
	}
	email := text("email", "Email")
	user := &transferv1.TransferUser{
		Id: id, OrgId: a.OrgID, Username: either(text("username", "Username"), email, text("phone_number"), id),
		State: userv3.UserState_USER_STATE_ACTIVE, CreationDate: created(o),
	}
	if o.flag("blocked") || o.flag("Blocked") {
		user.State = userv3.UserState_USER_STATE_INACTIVE
	}
	human := &userv3.Human{Profile: &userv3.Profile{
		GivenName: text("given_name", "Given Name"), FamilyName: text("family_name", "Family Name"), NickName: text("nickname", "Nickname"),
		PictureUrl: text("picture", "Picture"), PreferredLanguage: text("locale"),
	}}
	if name := text("name", "Name"); name != email {
		human.Profile.DisplayName = name
	}
	if verified := o.flag("email_verified") || o.flag("Email Verified"); email != "" {
		human.Email, user.IsEmailProven = &userv3.Email{Address: email, IsVerified: verified}, verified
	}
	if phone := text("phone_number", "Phone Number"); phone != "" {
		human.Phone = &userv3.Phone{Number: telephone(phone), IsVerified: o.flag("phone_verified") || o.flag("Phone Verified")}
	}
	o.ignore("phone_verified", "Phone Verified")
	user.Type = &transferv1.TransferUser_Human{Human: human}
	a.hash(o, user)
	if at := o.member("password_set_date"); at.has("$date") {
		user.PasswordChanged = at.date("$date")
	}
	a.put("users", id, user)
	for _, name := range []string{"user_metadata", "app_metadata"} {
		of := o.member(name)
		for _, key := range of.sorted() {
			if value := jsonText(of.get(key)); of.has(key) && len(value) > 0 {
				a.put("userMetadata", id+"/"+name+"."+key, &transferv1.TransferUserMetadata{UserId: id, OrgId: a.OrgID, Id: name + "." + key, Value: value})
			}
		}
	}
	for _, identity := range o.list("identities") {
		provider, connection := identity.text("provider"), identity.text("connection")
		external := identity.get("user_id") // a number, of some
		if provider != "auth0" {            // that is the password
			a.idpLink(&transferv1.TransferIDPLink{OrgId: a.OrgID, UserId: id, IdpId: connection, ExternalUserId: strings.Trim(string(jsonText(external)), `"`)})
			a.often("idpLinks", fmt.Sprintf("the export does not have the connection %q: accounts there are linked to the identity provider with that ID, if there is one", connection))
		}
		identity.ignore("isSocial", "profileData", "access_token", "access_token_secret", "refresh_token", "expires_in")
		identity.done()
	}
	for _, factor := range o.list("mfa_factors") {
		a.factor(factor, id)
	}
	for _, factor := range o.texts("multifactor") {
		a.Lost("authenticators", id, fmt.Sprintf("the second factor %q: its secret is not in the file", factor))
	}
	o.ignore("_id", "_tmp_is_unique", "tenant", "connection", "Connection", "updated_at", "Updated At", "last_login", "last_ip", "last_password_reset", "logins_count", "guardian_authenticators", "username", "email_verified", "multifactor_last_modified")
}

// created reads when a user was made, which is a text, or a text in an object.
func created(o *jsonObject) *timestamppb.Timestamp {
	for _, name := range []string{"created_at", "Created At"} {
		if _, inside := o.members[name].(map[string]any); inside {
			return o.member(name).date("$date")
		}
		if at := o.date(name); at != nil {
			return at
		}
	}
	return nil
}

// factor reads a second factor of the bulk import.
func (a *auth0) factor(o *jsonObject, id string) {
	totp := o.member("totp")
	if text := totp.text("secret"); text != "" {
		a.totp(a.OrgID, id, base32Secret(text), "")
	}
	for _, other := range []string{"phone", "email"} {
		if o.has(other) {
			o.ignore(other)
			a.Lost("authenticators", id, "one-time passwords by "+other+": the user adds them anew")
		}
	}
	totp.done()
	o.done()
}

// hash reads the password's hash: a text, or what custom_password_hash says in its many ways.
func (a *auth0) hash(o *jsonObject, user *transferv1.TransferUser) {
	if hash := either(o.text("passwordHash"), o.text("password_hash")); hash != "" {
		a.password(user, withoutLength(hash))
	}
	of := o.member("custom_password_hash")
	if of.absent {
		return
	}
	algorithm, hash, salt := of.text("algorithm"), of.member("hash"), of.member("salt")
	value := hash.text("value")
	key, salted := encoded(value, either(hash.text("encoding"), "hex")), encoded(salt.text("value"), either(salt.text("encoding"), "utf8"))
	var written string
	switch algorithm {
	case "scrypt":
		written = scryptHash(of.number("cost"), of.number("blockSize"), of.number("parallelization"), salted, key)
	case "pbkdf2", "argon2", "bcrypt": // written as others do
		written = withoutLength(value)
	default:
		written = "$" + algorithm + "$"
	}
	a.password(user, written)
	of.ignore("keylen", "cost", "blockSize", "parallelization", "password")
	salt.ignore("position")
	hash.ignore("digest", "key")
}

// withoutLength leaves the length of the key out of a hash of PBKDF2, which the key tells.
func withoutLength(hash string) string {
	head, tail, ok := strings.Cut(hash, ",l=")
	if _, rest, more := strings.Cut(tail, "$"); ok && more && strings.HasPrefix(hash, "$pbkdf2") {
		return head + "$" + rest
	}
	return hash
}

func encoded(text, encoding string) []byte {
	switch encoding {
	case "hex":
		read, err := hex.DecodeString(text)
		if err != nil {
			return nil
		}
		return read
	case "base64":
		return base64Bytes(text)
	}
	return []byte(text)
}
