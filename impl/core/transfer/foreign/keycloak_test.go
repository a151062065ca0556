package foreign_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	appv3 "github.com/writ-id/writ/gen/proto/writ/app/v3alpha"
	idpv3 "github.com/writ-id/writ/gen/proto/writ/idp/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/transfer/foreign"
)

// The realm of the tests was made with Keycloak 26.0.7 by its own API, and written by
// kc.sh export --realm acme --users same_file. The passwords are "Correct horse N", those of
// Frank, Grace and Heidi under a policy that asks for pbkdf2-sha256, pbkdf2-sha512 and
// pbkdf2; Erin set up her app for one-time passwords in the browser.
const realm = "keycloak-realm.json"

func TestSEC278_PasswordsOfARealKeycloakSignIn(t *testing.T) {
	t.Parallel()
	users := readFile(t, "keycloak", realm, foreign.Options{}).users()
	for name, password := range map[string]string{
		"ada": "Correct horse 1", "bob": "Correct horse 2", "carol": "Correct horse 3", "erin": "Correct horse 5",
		"frank": "Correct horse 6", "grace": "Correct horse 7", "heidi": "Correct horse 8",
	} {
		user := users[name]
		if user == nil {
			t.Errorf("%s is not there", name)
			continue
		}
		for tried, want := range map[string]bool{password: true, password + "x": false} {
			if got, err := secret.VerifyPassword(user.GetPasswordHash(), tried); err != nil || got != want {
				t.Errorf("%s with %q: got %v, %v; want %v (%s)", name, tried, got, err, want, user.GetPasswordHash())
			}
		}
		if user.GetPasswordChanged() == nil {
			t.Errorf("%s: it is not known when the password was set", name)
		}
	}
}

func TestUsersOfKeycloakAreAsTheyWere(t *testing.T) {
	t.Parallel()
	r := readFile(t, "keycloak", realm, foreign.Options{})
	users := r.users()
	ada := users["ada"]
	if ada.GetId() != "6341f670-0c6a-4ef4-a284-35d4a3eb59a1" || ada.GetHuman().GetProfile().GetFamilyName() != "Lovelace" || !ada.GetHuman().GetEmail().GetIsVerified() ||
		ada.GetHuman().GetPhone().GetNumber() != "+41441234567" || !ada.GetHuman().GetPhone().GetIsVerified() || ada.GetCreationDate().AsTime().UnixMilli() != 1795363714275 {
		t.Errorf("Ada: got %v", ada)
	}
	for name, want := range map[string]bool{"ada": true, "bob": false, "dave": false, "erin": true} {
		if got := users[name].GetHuman().GetEmail().GetIsVerified(); got != want {
			t.Errorf("the address of %s is verified: got %v, want %v", name, got, want)
		}
	}
	if got := users["carol"].GetState(); got != userv3.UserState_USER_STATE_INACTIVE {
		t.Errorf("Carol is disabled: got %v", got)
	}
	if !users["bob"].GetPasswordChangeRequired() || users["ada"].GetPasswordChangeRequired() {
		t.Error("Bob, and not Ada, has to change the password")
	}
	if service := users["web"]; service.GetService() == nil || !secret.IsGood("web-secret-of-thirty-two-characters", service.GetSecretHash(), nil, nil, service.GetCreationDate().AsTime()) {
		t.Errorf("the service account has the client ID and the secret of its client: got %v", service)
	}
	if !r.loses("users", "VERIFY_EMAIL") || !r.loses("users", "UPDATE_PROFILE") {
		t.Error("the required actions that there are not are not reported")
	}
	metadata := map[string]string{}
	for _, item := range r.items["userMetadata"] {
		of := item.(*transferv1.TransferUserMetadata)
		metadata[of.GetUserId()[:4]+" "+of.GetId()] = string(of.GetValue())
	}
	for key, want := range map[string]string{"6341 department": "engines", "6341 badge": `["12","13"]`, "5285 groups": `["/staff"]`} {
		if metadata[key] != want {
			t.Errorf("metadata %s: got %q, want %q", key, metadata[key], want)
		}
	}
}

func TestSecondFactorsOfKeycloakAreCarriedWhereAppsShowTheSame(t *testing.T) {
	t.Parallel()
	r := readFile(t, "keycloak", realm, foreign.Options{})
	factors := r.items["authenticators"]
	if len(factors) != 1 {
		t.Fatalf("got %d, want 1: %v", len(factors), factors)
	}
	// Its app was given the base32 of these characters.
	if got := factors[0].(*transferv1.TransferAuthenticator); got.GetUserId() != r.users()["erin"].GetId() || string(got.GetSecret()) != "6NVbtDBS4S0LE5T3sRMr" || !got.GetIsVerified() {
		t.Errorf("got %v", got)
	}
	if !r.loses("authenticators", r.users()["ivan"].GetId(), "6 digits") {
		t.Error("an app with 8 digits is not reported")
	}
}

func TestRolesOfKeycloakAreGrantedAsTheyWork(t *testing.T) {
	t.Parallel()
	r := readFile(t, "keycloak", realm, foreign.Options{})
	users, held := r.users(), map[string]string{}
	for _, item := range r.items["userGrants"] {
		of := item.(*transferv1.TransferUserGrant)
		held[of.GetUserId()] = strings.Join(of.GetRoleKeys(), " ")
	}
	for name, want := range map[string]string{
		"ada": "editor super web:seller", "bob": "reader web:buyer", // reader by the group
		"grace": "reader", // by the group above hers
		"carol": "", "dave": "",
	} {
		if got := held[users[name].GetId()]; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	var keys []string
	for _, item := range r.items["projectRoles"] {
		keys = append(keys, item.(*transferv1.TransferRole).GetKey())
	}
	slices.Sort(keys)
	if want := []string{"editor", "reader", "super", "web:buyer", "web:seller"}; !slices.Equal(keys, want) {
		t.Errorf("got %v, want %v", keys, want)
	}
	if !r.loses("projectRoles super", "editor") || !r.loses("groups /staff/nurses") {
		t.Error("a composite or a group is not reported")
	}
}

func TestClientsOfKeycloakAreApps(t *testing.T) {
	t.Parallel()
	r := readFile(t, "keycloak", realm, foreign.Options{})
	apps := map[string]*transferv1.TransferApp{}
	for _, item := range r.items["apps"] {
		apps[item.(*transferv1.TransferApp).GetClientId()] = item.(*transferv1.TransferApp)
	}
	web, spa, jwt := apps["web"], apps["spa"].GetOidc(), apps["jwt-client"].GetOidc()
	if got := web.GetOidc(); got.GetAuthMethodType() != appv3.AuthMethodType_AUTH_METHOD_TYPE_SECRET || !slices.Equal(got.GetRedirectUris(), []string{"https://shop.example.com/callback"}) ||
		!slices.Equal(got.GetPostLogoutRedirectUris(), []string{"https://shop.example.com/bye", "https://shop.example.com/end"}) || web.GetName() != "Web shop" {
		t.Errorf("web: got %v", web)
	}
	if !secret.IsGood("web-secret-of-thirty-two-characters", web.GetSecretHash(), nil, nil, web.GetCreationDate().AsTime()) {
		t.Error("the secret of web is not good")
	}
	if spa.GetAuthMethodType() != appv3.AuthMethodType_AUTH_METHOD_TYPE_NONE || spa.GetApplicationType() != appv3.ApplicationType_APPLICATION_TYPE_USER_AGENT || len(spa.GetGrantTypes()) != 3 || len(apps["spa"].GetSecretHash()) > 0 {
		t.Errorf("spa: got %v", apps["spa"])
	}
	if jwt.GetAuthMethodType() != appv3.AuthMethodType_AUTH_METHOD_TYPE_PRIVATE_KEY_JWT || apps["api"].GetApi() == nil {
		t.Errorf("got %v and %v", jwt, apps["api"])
	}
	for _, words := range [][]string{{"apps web", "https://shop.example.com/app/*"}, {"apps spa", "origin *"}, {"apps saml-app", "saml"}, {"apps jwt-client", "keys"}} {
		if !r.loses(words...) {
			t.Errorf("there is no report of %q", words)
		}
	}
}

func TestClientsOfKeycloakKeepTheAlgorithmOfTheirTokens(t *testing.T) {
	t.Parallel()
	r := readAll("keycloak", strings.NewReader(`{"id":"r","realm":"r","clients":[
		{"clientId":"none"},
		{"clientId":"es","attributes":{"id.token.signed.response.alg":"ES256"}},
		{"clientId":"ed","attributes":{"id.token.signed.response.alg":"EdDSA"}},
		{"clientId":"ps","attributes":{"id.token.signed.response.alg":"PS512"}}]}`), foreign.Options{})
	got := map[string]object.SignatureAlgorithm{}
	for _, item := range r.items["apps"] {
		app := item.(*transferv1.TransferApp)
		got[app.GetClientId()] = app.GetOidc().GetIdTokenSignedResponseAlg()
	}
	if len(got) != 4 || got["none"] != 0 || got["es"] != object.SignatureAlgorithm_SIGNATURE_ALGORITHM_ES256 || got["ed"] != object.SignatureAlgorithm_SIGNATURE_ALGORITHM_EDDSA || got["ps"] != 0 {
		t.Errorf("got %v", got)
	}
	if !r.loses("apps ps", "PS512") || r.loses("apps es", "ES256") {
		t.Errorf("got the report %v", r.lost)
	}
}

func TestIdentityProvidersOfKeycloakKeepTheirAccounts(t *testing.T) {
	t.Parallel()
	r := readFile(t, "keycloak", realm, foreign.Options{})
	idps := map[string]*transferv1.TransferIDP{}
	for _, item := range r.items["idps"] {
		idps[item.(*transferv1.TransferIDP).GetId()] = item.(*transferv1.TransferIDP)
	}
	for _, item := range r.items["idpLinks"] {
		of := item.(*transferv1.TransferIDPLink)
		switch idp := idps[of.GetIdpId()]; of.GetUserId() {
		case r.users()["ada"].GetId():
			if idp.GetType() != idpv3.ProviderType_PROVIDER_TYPE_OIDC || idp.GetIssuer() != "https://login.partner.example" || string(idp.GetClientSecret()) != "partner-secret" || of.GetExternalUserId() != "partner-4711" {
				t.Errorf("Ada: got %v at %v", of, idp)
			}
		case r.users()["bob"].GetId():
			if idp.GetType() != idpv3.ProviderType_PROVIDER_TYPE_GOOGLE || idp.GetStatePolicy() != object.StatePolicy_STATE_POLICY_DEACTIVATE || of.GetExternalUserId() != "1234567890" {
				t.Errorf("Bob: got %v at %v", of, idp)
			}
		}
	}
	if len(idps) != 2 || len(r.items["idpLinks"]) != 2 || !r.loses("idps saml-partner", "saml") {
		t.Errorf("got %d providers and %d accounts", len(idps), len(r.items["idpLinks"]))
	}
}

// TestNothingOfAKeycloakGetsLostInSilence counts: whatever is in the file is an item or a line
// of the report.
func TestNothingOfAKeycloakGetsLostInSilence(t *testing.T) {
	t.Parallel()
	r := readFile(t, "keycloak", realm, foreign.Options{})
	text, err := os.ReadFile("testdata/" + realm)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Users             []struct{ ID string }
		Clients           []struct{ ID, ClientID string }
		IdentityProviders []struct{ InternalID, Alias string }
		Roles             struct {
			Realm  []struct{ ID, Name string }
			Client map[string][]struct{ ID, Name string }
		}
		Groups []struct{ Path string }
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &members); err != nil {
		t.Fatal(err)
	}
	items := map[string]bool{}
	for kind, list := range r.items {
		for _, item := range list {
			if of, ok := item.(interface{ GetId() string }); ok {
				items[kind+" "+of.GetId()] = true
			}
		}
	}
	counted := 0
	check := func(kind, id, name string) {
		counted++
		if !items[kind+" "+id] && !slices.ContainsFunc(r.lost, func(line string) bool { return strings.HasPrefix(line, kind+" "+name+":") }) {
			t.Errorf("%s %s is neither an item nor reported", kind, name)
		}
	}
	for _, of := range file.Users {
		check("users", of.ID, of.ID)
	}
	for _, of := range file.Clients {
		check("apps", of.ID, of.ClientID)
	}
	for _, of := range file.IdentityProviders {
		check("idps", of.InternalID, of.Alias)
	}
	for _, of := range file.Roles.Realm {
		check("projectRoles", of.ID, of.Name)
	}
	for client, roles := range file.Roles.Client {
		for _, of := range roles {
			if counted++; !items["projectRoles "+of.ID] && !r.loses("projectRoles "+client+": ", of.Name) {
				t.Errorf("the role %s of %s is neither an item nor reported", of.Name, client)
			}
		}
	}
	for _, of := range file.Groups {
		check("groups", "", of.Path)
	}
	if counted < 10+11+3+6+30+1 {
		t.Errorf("the file has only %d things", counted)
	}
	all := strings.Join(r.lost, "\n")
	for name, value := range members {
		read := slices.Contains([]string{"id", "realm", "displayName", "roles", "groups", "users", "clients", "identityProviders"}, name)
		if empty := slices.Contains([]string{"{}", "[]", `""`, "{ }", "[ ]"}, string(bytes.TrimSpace(value))); !read && !empty && !strings.Contains(all, name) {
			t.Errorf("the member %s is neither read nor reported", name)
		}
	}
}

func TestARealmComesIntoAnOrganizationThatThereIs(t *testing.T) {
	t.Parallel()
	r := readFile(t, "keycloak", realm, foreign.Options{OrgID: "o1"})
	if len(r.items["organizations"]) != 0 {
		t.Errorf("an organization is made: %v", r.items["organizations"])
	}
	for kind, list := range r.items {
		for _, item := range list {
			if got := item.(interface{ GetOrgId() string }).GetOrgId(); got != "o1" {
				t.Errorf("%s: got %q", kind, got)
			}
		}
	}
}

// TestAFileOfUsersAloneIsRead has one of those that an export to a folder writes beside the realm's.
func TestAFileOfUsersAloneIsRead(t *testing.T) {
	t.Parallel()
	r := readAll("keycloak", strings.NewReader(`{"realm":"acme","users":[{"id":"u1","username":"ada","realmRoles":["editor","offline_access"]}]}`), foreign.Options{OrgID: "o1"})
	if r.err != nil || len(r.items["users"]) != 1 || len(r.items["projects"]) != 0 || !r.loses("userGrants u1", `"editor"`, "not in the file") {
		t.Errorf("got %v, %v, %q", r.err, r.items, r.lost)
	}
}

func TestTheOrderOfARealmDoesNotMatter(t *testing.T) {
	t.Parallel()
	const users = `"users":[{"id":"u1","username":"ada","realmRoles":["editor"],"groups":["/staff"],"federatedIdentities":[{"identityProvider":"p","userId":"1","userName":"a"}]}]`
	const rest = `"roles":{"realm":[{"id":"r1","name":"editor"},{"id":"r2","name":"reader"}]},"groups":[{"path":"/staff","realmRoles":["reader"]}],
		"identityProviders":[{"alias":"p","internalId":"i1","providerId":"oidc","config":{"issuer":"https://p.example","clientId":"c","clientSecret":"s"}}]`
	for _, text := range []string{`{"id":"x","realm":"r",` + users + "," + rest + "}", `{` + rest + `,"realm":"r","id":"x",` + users + "}"} {
		r := readAll("keycloak", strings.NewReader(text), foreign.Options{})
		if r.err != nil || len(r.lost) > 0 && !r.loses("groups") {
			t.Errorf("got %v, lost %v", r.err, r.lost)
			continue
		}
		if grants := r.items["userGrants"]; len(grants) != 1 || len(grants[0].(*transferv1.TransferUserGrant).GetRoleKeys()) != 2 {
			t.Errorf("grants: got %v", grants)
		}
		if links := r.items["idpLinks"]; len(links) != 1 || links[0].(*transferv1.TransferIDPLink).GetIdpId() != "i1" {
			t.Errorf("accounts: got %v", links)
		}
	}
}
