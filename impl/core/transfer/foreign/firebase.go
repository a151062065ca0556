package foreign

import (
	"encoding/base64"
	"fmt"
	"io"
	"strings"

	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/core/transfer"
)

// FirebaseScrypt are the parameters that the console of Firebase shows under "password hash
// parameters". Without them nobody can verify a hash of the project.
type FirebaseScrypt struct {
	SignerKey     string // base64_signer_key
	SaltSeparator string // base64_salt_separator
	Rounds        int    // rounds
	MemoryCost    int    // mem_cost
}

// Firebase reads the users that firebase auth:export writes as JSON.
func Firebase(file io.ReadSeeker, options Options) (transfer.Source, error) {
	f := &firebase{reading: newReading(options)}
	f.walker = newWalker(file, func(pattern string) plan {
		switch pattern {
		case "", "users":
			return into
		case "users[]":
			return whole
		}
		return over
	})
	f.handle = func(at visit) {
		switch {
		case at.passed:
			f.unknown(at.pattern)
		case at.pattern == "users[]" && at.value != nil:
			of := f.object(at)
			f.user(of)
			of.done()
		}
	}
	return f, f.organization()
}

type firebase struct{ *reading }

func (f *firebase) user(o *jsonObject) {
	id, email, phone := o.needed("localId"), o.text("email"), o.text("phoneNumber")
	user := &transferv1.TransferUser{
		Id: id, OrgId: f.OrgID, Username: either(email, phone, id), State: userv3.UserState_USER_STATE_ACTIVE,
		CreationDate: o.milliseconds("createdAt"), PasswordChanged: o.milliseconds("passwordUpdatedAt"),
	}
	if o.flag("disabled") {
		user.State = userv3.UserState_USER_STATE_INACTIVE
	}
	human := &userv3.Human{Profile: &userv3.Profile{DisplayName: o.text("displayName"), PictureUrl: o.text("photoUrl")}}
	if verified := o.flag("emailVerified"); email != "" {
		human.Email, user.IsEmailProven = &userv3.Email{Address: email, IsVerified: verified}, verified
	}
	if phone != "" { // it got a code when it was added
		human.Phone = &userv3.Phone{Number: telephone(phone), IsVerified: true}
	}
	user.Type = &transferv1.TransferUser_Human{Human: human}
	hash, salt := base64Bytes(o.text("passwordHash")), base64Bytes(o.text("salt"))
	switch {
	case len(hash) == 0:
		user.PasswordChanged = nil
	case f.Firebase == nil:
		user.PasswordChanged = nil
		f.Lost("users", id, "without the password: its hash needs the parameters of the project (Authentication, Users, Password hash parameters)")
	default:
		p, std := f.Firebase, base64.StdEncoding.EncodeToString
		written := fmt.Sprintf("$fbscrypt$v=1,n=%d,r=%d,p=1,ss=%s,sk=%s$%s$%s", p.MemoryCost, p.Rounds, std(base64Bytes(p.SaltSeparator)), std(base64Bytes(p.SignerKey)), std(salt), std(hash))
		if !f.password(user, written) {
			user.PasswordChanged = nil
		}
	}
	f.put("users", id, user)
	for _, provider := range o.list("providerUserInfo") {
		name, external := provider.text("providerId"), provider.text("rawId")
		if name == "password" || name == "phone" {
			provider.ignore("rawId")
		} else {
			f.idpLink(&transferv1.TransferIDPLink{OrgId: f.OrgID, UserId: id, IdpId: name, ExternalUserId: external, ExternalUsername: either(provider.text("email"), provider.text("screenName"))})
			f.often("idpLinks", fmt.Sprintf("the export does not have the provider %q: accounts there are linked to the identity provider with that ID, if there is one", name))
		}
		provider.ignore("email", "screenName", "displayName", "photoUrl", "phoneNumber", "federatedId")
		provider.done()
	}
	for _, factor := range o.list("mfaInfo") {
		f.Lost("authenticators", id, strings.TrimSpace("the second factor is added anew: "+factor.text("phoneInfo")))
	}
	if claims := o.text("customAttributes"); claims != "" {
		f.put("userMetadata", id+"/customAttributes", &transferv1.TransferUserMetadata{UserId: id, OrgId: f.OrgID, Id: "customAttributes", Value: []byte(claims)})
	}
	o.ignore("lastSignedInAt", "lastLoginAt", "version", "validSince", "passwordHash", "salt", "tenantId", "lastRefreshAt")
}
