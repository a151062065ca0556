package foreign_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/transfer/foreign"
)

func metadataOf(r *read) map[string]string {
	entries := map[string]string{}
	for _, item := range r.items["userMetadata"] {
		of := item.(*transferv1.TransferUserMetadata)
		entries[of.GetUserId()+" "+of.GetId()] = string(of.GetValue())
	}
	return entries
}

func linksOf(r *read) (links []string) {
	for _, item := range r.items["idpLinks"] {
		of := item.(*transferv1.TransferIDPLink)
		links = append(links, of.GetUserId()+" "+of.GetIdpId()+" "+of.GetExternalUserId())
	}
	slices.Sort(links)
	return links
}

func TestUsersOfAuth0AreCarried(t *testing.T) {
	t.Parallel()
	r := readFile(t, "auth0", "auth0-users.ndjson", foreign.Options{OrgID: "o1", OrgName: "Acme"})
	users := r.users()
	if len(users) != 3 || len(r.items["organizations"]) != 1 {
		t.Fatalf("got %v", r.items)
	}
	ada, bob, carol := users["ada"], users["bob@gmail.example"], users["carol@acme.example"]
	if ada.GetId() != "auth0|5f7c8ec7c33c6c004bbafe82" || ada.GetOrgId() != "o1" || !ada.GetHuman().GetEmail().GetIsVerified() || ada.GetHuman().GetProfile().GetDisplayName() != "Ada Lovelace" ||
		ada.GetPasswordHash() == "" || ada.GetCreationDate().AsTime().Year() != 2020 {
		t.Errorf("Ada: got %v", ada)
	}
	if bob.GetState() != userv3.UserState_USER_STATE_INACTIVE || bob.PasswordHash != nil || bob.GetHuman().GetProfile().GetDisplayName() != "" {
		t.Errorf("Bob: got %v", bob)
	}
	if carol.GetId() != "auth0|60425dc43519d90068f82973" || carol.GetHuman().GetEmail().GetIsVerified() || carol.GetPasswordHash() == "" || carol.GetPasswordChanged().AsTime().Year() != 2021 {
		t.Errorf("Carol: got %v", carol)
	}
	entries := metadataOf(r)
	for key, want := range map[string]string{"user_metadata.colour": "green", "user_metadata.shoes": `{"size":38}`, "app_metadata.plan": "gold", "app_metadata.seats": "3"} {
		if got := entries[ada.GetId()+" "+key]; got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
	if got, want := linksOf(r), []string{bob.GetId() + " github 4711", bob.GetId() + " google-oauth2 103547991597142817347"}; !slices.Equal(got, want) {
		t.Errorf("accounts: got %q, want %q", got, want)
	}
	if !r.loses("authenticators", "guardian") || !r.loses("idpLinks", `"github"`) {
		t.Errorf("got the report %q", r.lost)
	}
}

// TestTheManyHashesOfAuth0AreRead has custom_password_hash as its documentation shows it. The
// hashes are of "password" or as their schemes' own tests have them.
func TestTheManyHashesOfAuth0AreRead(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ hash, password string }{
		"bcrypt":                        {`{"algorithm":"bcrypt","hash":{"value":"` + bcryptOfPassword + `"}}`, "password"},
		"pbkdf2 with a length":          {`{"algorithm":"pbkdf2","hash":{"value":"$pbkdf2-sha256$i=29000,l=32$MDEyMzQ1Njc4OWFiY2RlZg$WESbwAFrAxbti1iLZGcYAsaqfsGUR0CbZsMH8Kxr8fg","encoding":"utf8"}}`, "Correct horse 1"},
		"scrypt (RFC 7914, section 12)": {`{"algorithm":"scrypt","cost":16384,"blockSize":8,"parallelization":1,"keylen":64,"salt":{"value":"SodiumChloride"},"hash":{"value":"7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2d5432955613f0fcf62d49705242a9af9e61e85dc0d651e40dfcf017b45575887","encoding":"hex"}}`, "pleaseletmein"},
		"md5":                           {`{"algorithm":"md5","hash":{"value":"5f4dcc3b5aa765d61d8327deb882cf99"}}`, ""},
		"hmac":                          {`{"algorithm":"hmac","hash":{"value":"00","encoding":"hex","digest":"sha256","key":{"value":"k"}}}`, ""},
	} {
		r := readAll("auth0", strings.NewReader(`[{"email":"a@acme.example","user_id":"a","custom_password_hash":`+test.hash+`}]`), foreign.Options{OrgID: "o"})
		if r.err != nil || len(r.items["users"]) != 1 {
			t.Errorf("%s: got %v, %v", name, r.err, r.lost)
			continue
		}
		user := r.items["users"][0].(*transferv1.TransferUser)
		if test.password == "" {
			if user.PasswordHash != nil || !r.loses("users auth0|a", "password") {
				t.Errorf("%s: got %v, %q", name, user, r.lost)
			}
			continue
		}
		if good, err := secret.VerifyPassword(user.GetPasswordHash(), test.password); err != nil || !good {
			t.Errorf("%s: got %v, %v of %q, %q", name, good, err, user.GetPasswordHash(), r.lost)
		}
	}
}

const bcryptOfPassword = "$2a$04$klyjc75ftsMxl.gXNrXv2u0X4uQVr1TavfxLSjrbVcYkKqRO4hQiO"

func TestUsersOfFirebaseSignInWithTheParametersOfTheirProject(t *testing.T) {
	t.Parallel()
	// The vector that Firebase's own implementation is published with.
	parameters := &foreign.FirebaseScrypt{SignerKey: "jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==", SaltSeparator: "Bw==", Rounds: 8, MemoryCost: 14}
	r := readFile(t, "firebase", "firebase-users.json", foreign.Options{OrgID: "o1", Firebase: parameters})
	users := r.users()
	one, two := users["user1@acme.example"], users["user2@acme.example"]
	for password, want := range map[string]bool{"user1password": true, "user2password": false} {
		if got, err := secret.VerifyPassword(one.GetPasswordHash(), password); err != nil || got != want {
			t.Errorf("%s: got %v, %v", password, got, err)
		}
	}
	if !one.GetHuman().GetEmail().GetIsVerified() || one.GetHuman().GetProfile().GetDisplayName() != "User One" || one.GetCreationDate().AsTime().Unix() != 1486324200 || metadataOf(r)[one.GetId()+" customAttributes"] != `{"admin":true}` {
		t.Errorf("the first: got %v", one)
	}
	if two.GetState() != userv3.UserState_USER_STATE_INACTIVE || two.PasswordHash != nil || two.GetHuman().GetPhone().GetNumber() != "+41441234567" || !two.GetHuman().GetPhone().GetIsVerified() {
		t.Errorf("the second: got %v", two)
	}
	if got := linksOf(r); !slices.Equal(got, []string{"2 google.com 103547991597142817347"}) {
		t.Errorf("accounts: got %q", got)
	}
	if !r.loses("authenticators 2", "+41441234568") {
		t.Errorf("got the report %q", r.lost)
	}
	without := readFile(t, "firebase", "firebase-users.json", foreign.Options{OrgID: "o1"})
	if without.users()["user1@acme.example"].PasswordHash != nil || !without.loses("users "+one.GetId(), "parameters of the project") {
		t.Errorf("without the parameters: got %q", without.lost)
	}
}

func TestATableOfUsersIsCarried(t *testing.T) {
	t.Parallel()
	const text = "\xef\xbb\xbfusername,email,email_verified,given_name,phone,password_hash,external_id,metadata.team,totp_secret,state,shoe size\r\n" +
		"ada,ada@acme.example,true,\"Ada, the first\",0041 44 123 45 67," + bcryptOfPassword + ",7,engines,GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ,,38\r\n" +
		",bob@acme.example,no,,,,,,,inactive,\r\n"
	r := readAll("csv", strings.NewReader(text), foreign.Options{OrgID: "o1"})
	if r.err != nil {
		t.Fatal(r.err)
	}
	ada, bob := r.users()["ada"], r.users()["bob@acme.example"]
	if ada.GetId() != "7" || !ada.GetHuman().GetEmail().GetIsVerified() || ada.GetHuman().GetProfile().GetGivenName() != "Ada, the first" || ada.GetHuman().GetPhone().GetNumber() != "+41441234567" ||
		ada.GetPasswordHash() != bcryptOfPassword || metadataOf(r)["7 team"] != "engines" || len(r.items["authenticators"]) != 1 {
		t.Errorf("Ada: got %v", ada)
	}
	again := readAll("csv", strings.NewReader(text), foreign.Options{OrgID: "o1"})
	if bob.GetState() != userv3.UserState_USER_STATE_INACTIVE || bob.GetId() == "" || bob.GetId() != again.users()["bob@acme.example"].GetId() {
		t.Errorf("Bob: got %v", bob)
	}
	if !r.loses("column shoe size") {
		t.Errorf("got the report %q", r.lost)
	}
}

func TestWhatIsWrongWithATableIsSaidWithItsLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                        "the file: it is empty",
		"name\nada\n":                             "line 1: it has to name the columns",
		"email,email\n":                           `line 1: the column "email" is there twice`,
		"username,email\nada\n":                   "line 2, column 1: wrong number of fields",
		"username\nada\n\"bob\n":                  "line 3",
		"username,email_verified\nada,maybe\n":    `line 2: email_verified: expected true or false, got "maybe"`,
		"username,given_name\nada,x\n,Bob\n":      "line 3: there is no username",
		"username,state\nada,gone\n":              "line 2: state: expected",
		"username,creation_date\nada,monday\n":    "line 2: creation_date: expected",
		"username,given_name\nada,\xff\n":         "line 2: given_name: expected text in UTF-8",
		"username\n" + strings.Repeat("x", 9<<20): "longer than",
	} {
		if r := readAll("csv", strings.NewReader(text), foreign.Options{OrgID: "o"}); r.err == nil || !strings.Contains(r.err.Error(), want) {
			t.Errorf("%.60q: got %v, want %s", text, r.err, want)
		}
	}
}

func TestAFileWithoutAnOrganizationNeedsOne(t *testing.T) {
	t.Parallel()
	for format, text := range map[string]string{"auth0": "", "firebase": `{"users":[]}`, "csv": "email\n"} {
		if r := readAll(format, strings.NewReader(text), foreign.Options{}); r.err == nil || !strings.Contains(r.err.Error(), "organization") {
			t.Errorf("%s: got %v", format, r.err)
		}
		r := readAll(format, strings.NewReader(text), foreign.Options{OrgName: "Acme"})
		if r.err != nil || len(r.items["organizations"]) != 1 {
			t.Errorf("%s: got %v, %v", format, r.err, r.items)
		}
	}
	if r := readAll("okta", strings.NewReader(""), foreign.Options{}); r.err == nil || !strings.Contains(r.err.Error(), "auth0, csv, firebase, keycloak, zitadel") {
		t.Errorf("got %v", r.err)
	}
}

// TestNoFileBreaksASource has files with something changed at random: a byte, a token for
// another, an end. The fuzz tests below look further.
func TestNoFileBreaksASource(t *testing.T) {
	t.Parallel()
	tokens := []string{`"x"`, "7", "-1.5e999", "null", "true", "[]", "{}", "{", "}", "[", "]", ",", ":", `"`, `"\u0000"`, "\xff", `"orgId"`, `"id":`, `"users":[`, "\n"}
	for format, name := range map[string]string{"zitadel": orgs, "keycloak": realm, "auth0": "auth0-users.ndjson", "firebase": "firebase-users.json", "csv": ""} {
		text := []byte("username,email,email_verified,metadata.k,totp_secret\nada,a@b.example,true,v,GEZDGNBV\n")
		if name != "" {
			var err error
			if text, err = os.ReadFile("testdata/" + name); err != nil {
				t.Fatal(err)
			}
		}
		random, whole := rand.New(rand.NewPCG(1, 2)), 0
		for range 120 {
			changed := slices.Clone(text)
			for range 1 + random.IntN(3) {
				at, token := random.IntN(len(changed)), tokens[random.IntN(len(tokens))]
				switch random.IntN(8) {
				case 0:
					changed = changed[:at]
				case 1:
					changed = slices.Insert(changed, at, []byte(token)...)
				case 2:
					changed[at] = byte(random.IntN(256))
				default: // another value for one that is there
					if end := bytes.IndexAny(changed[at:], ":,["); end >= 0 {
						at += end + 1
						to := at + max(0, bytes.IndexAny(changed[at:], ",]}"))
						changed = slices.Replace(changed, at, to, []byte(token)...)
					}
				}
				if len(changed) == 0 {
					break
				}
			}
			if readAll(format, bytes.NewReader(changed), foreign.Options{OrgID: "o"}).err == nil {
				whole++
			}
		}
		if whole == 0 || whole == 120 {
			t.Errorf("%s: %d of 120 were read to the end: the changes are too large, or too small", format, whole)
		}
	}
}

func addFile(f *testing.F, name string) {
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
}

func FuzzKeycloak(f *testing.F) {
	f.Add([]byte(`{"id":"x","realm":"r","roles":{"realm":[{"name":"a","composites":{"realm":["b"]}}],"client":{"c":[{"name":"d"}]}},"groups":[{"path":"/g","subGroups":[{"path":"/g/h","realmRoles":["a"]}]}],
		"users":[{"id":"u","username":"ada","enabled":false,"credentials":[{"type":"password","secretData":"{\"value\":\"AAAA\",\"salt\":\"AAAA\"}","credentialData":"{\"hashIterations\":5,\"algorithm\":\"argon2\",\"additionalParameters\":{\"memory\":[\"7168\"],\"type\":[\"id\"],\"version\":[\"1.3\"],\"parallelism\":[\"1\"]}}"},{"type":"otp","secretData":"{\"value\":\"x\"}","credentialData":"{\"digits\":6,\"period\":30,\"algorithm\":\"HmacSHA1\"}"}],"groups":["/g/h"],"realmRoles":["a"],"attributes":{"k":["v","w"]},"federatedIdentities":[{"identityProvider":"p","userId":"1"}]}],
		"clients":[{"clientId":"c","redirectUris":["/x","*"],"rootUrl":"https://a.example","attributes":{"post.logout.redirect.uris":"+"}}],"identityProviders":[{"alias":"p","providerId":"oidc","config":{}}]}`))
	fuzz(f, "keycloak")
}

func FuzzAuth0(f *testing.F)    { addFile(f, "auth0-users.ndjson"); fuzz(f, "auth0") }
func FuzzFirebase(f *testing.F) { addFile(f, "firebase-users.json"); fuzz(f, "firebase") }

// TestREL108_ColumnsThatSayNothingAreTold: a column that another one outdoes, or that says something of one
// that is missing, is told once, for the file.
func TestREL108_ColumnsThatSayNothingAreTold(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ header, row, lost string }{
		{"id,external_id,username", "1,x,ada", "external_id"},
		{"external_id,username", "x,ada", ""},
		{"username,email_verified", "ada,true", "email_verified"},
		{"username,email,email_verified", "ada,ada@a.example,true", ""},
		{"username,phone_verified", "ada,true", "phone_verified"},
		{"username,phone,phone_verified", "ada,+41791234567,true", ""},
		{"username,email_address,verified", "ada,ada@a.example,true", "email_address verified"},
	} {
		r := readAll("csv", strings.NewReader(test.header+"\n"+test.row+"\n"), foreign.Options{OrgID: "o"})
		var lost []string
		for _, line := range r.lost {
			if name, ok := strings.CutPrefix(line, "column "); ok {
				name, _, _ = strings.Cut(name, ":")
				lost = append(lost, name)
			}
		}
		if got := strings.Join(lost, " "); got != test.lost || len(r.users()) != 1 {
			t.Errorf("%s: told %q, want %q; %d users", test.header, got, test.lost, len(r.users()))
		}
	}
}

func FuzzCSV(f *testing.F) {
	f.Add([]byte("username,email,email_verified,metadata.k,totp_secret\nada,a@b.example,true,v,GEZDGNBV\n"))
	fuzz(f, "csv")
}
