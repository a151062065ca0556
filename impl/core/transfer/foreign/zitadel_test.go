package foreign_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	appv3 "github.com/writ-id/writ/gen/proto/writ/app/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/transfer/foreign"
)

// The file is in the shape that field-facts 6.1 documents, with what newer exports add.
const orgs = "zitadel.json"

func TestAnExportOfTheFieldIsCarried(t *testing.T) {
	t.Parallel()
	r := readFile(t, "zitadel", orgs, foreign.Options{})
	counts := map[string]int{
		"organizations": 2, "domains": 2, "settings": 3, "idps": 1, "users": 5, "userMetadata": 1, "authenticators": 1, "idpLinks": 2,
		"projects": 1, "projectRoles": 2, "apps": 3, "projectGrants": 1, "userGrants": 2, "memberships": 2,
	}
	for kind, want := range counts {
		if got := len(r.items[kind]); got != want {
			t.Errorf("%s: got %d, want %d", kind, got, want)
		}
	}
	ada := r.users()["ada"]
	if ada.GetState() != userv3.UserState_USER_STATE_LOCKED || !ada.GetPasswordChangeRequired() || !strings.HasPrefix(ada.GetPasswordHash(), "$2a$06$") ||
		ada.GetHuman().GetPhone().GetNumber() != "+41441234567" || ada.GetHuman().GetProfile().GetGender() != "female" || !ada.GetHuman().GetEmail().GetIsVerified() {
		t.Errorf("Ada: got %v", ada)
	}
	if got := r.items["authenticators"][0].(*transferv1.TransferAuthenticator); string(got.GetSecret()) != "12345678901234567890" {
		t.Errorf("one-time passwords: got %q", got.GetSecret())
	}
	if robot := r.users()["robot"]; robot.GetId() != "410" || robot.GetService().GetAccessTokenType() != object.AccessTokenType_ACCESS_TOKEN_TYPE_JWT {
		t.Errorf("the robot: got %v", robot)
	}
	apps := map[string]*transferv1.TransferApp{}
	for _, item := range r.items["apps"] {
		apps[item.(*transferv1.TransferApp).GetId()] = item.(*transferv1.TransferApp)
	}
	if web := apps["300"].GetOidc(); web.GetAuthMethodType() != appv3.AuthMethodType_AUTH_METHOD_TYPE_POST || web.GetClockSkew().GetSeconds() != 1 ||
		!slices.Equal(web.GetGrantTypes(), []appv3.GrantType{appv3.GrantType_GRANT_TYPE_AUTHORIZATION_CODE, appv3.GrantType_GRANT_TYPE_REFRESH_TOKEN}) {
		t.Errorf("the app with names: got %v", web)
	}
	if native := apps["302"].GetOidc(); native.GetApplicationType() != appv3.ApplicationType_APPLICATION_TYPE_NATIVE || native.GetAuthMethodType() != appv3.AuthMethodType_AUTH_METHOD_TYPE_NONE ||
		!slices.Equal(native.GetGrantTypes(), []appv3.GrantType{appv3.GrantType_GRANT_TYPE_IMPLICIT, appv3.GrantType_GRANT_TYPE_TOKEN_EXCHANGE}) {
		t.Errorf("the app with numbers: got %v", native)
	}
	settings := map[string]*transferv1.TransferSetting{}
	for _, item := range r.items["settings"] {
		settings[item.(*transferv1.TransferSetting).GetSubject()] = item.(*transferv1.TransferSetting)
	}
	if got := settings["branding"].GetProperties().AsMap(); got["primaryColorLight"] != "#5469d4" || got["termsLink"] != "https://acme.example/tos" || got["backgroundColorLight"] != nil {
		t.Errorf("branding: got %v", got)
	}
	if got := settings["message_texts/verify_email/de"].GetProperties().AsMap(); got["title"] != "Hallo {{.Name}}" || got["text"] != "Dein Code ist {{.Code}}" || got["greeting"] != nil {
		t.Errorf("words: got %v", got)
	}
	for _, words := range [][]string{
		{"users 401", "password", "drupal"}, {"users 402", "plain text"}, {"memberships 400", "ORG_SOMETHING"}, {"apps 300", "DEVICE_CODE"},
		{"actions 500"}, {"jwtIdps 601"}, {"appKeys k1"}, {"machineKeys k2"}, {"loginPolicy 100"}, {"secondFactors", "SECOND_FACTOR_TYPE_OTP"},
		{"domains other.example", "primary"}, {"settings 100/branding", "background_color_light"}, {"verify_email/de", "greeting", "PreferredLoginName"},
	} {
		if !r.loses(words...) {
			t.Errorf("there is no report of %q", words)
		}
	}
	if strings.Contains(strings.Join(r.lost, "\n"), "Plain text 1!") {
		t.Error("the report has a password")
	}
}

func TestUnknownMembersAreReportedOnceAndDoNoHarm(t *testing.T) {
	t.Parallel()
	file, err := os.Open("testdata/" + orgs)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	ignored := map[string]int{}
	source := foreign.Zitadel(file, foreign.Options{Ignored: func(member string, times int) { ignored[member] += times }})
	for err == nil {
		_, _, err = source.Next(t.Context())
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	want := map[string]int{"orgs[].humanUsers[].user.nickname": 2, "orgs[].somethingNewer": 2, "orgs[].users": 1, "orgs[].privacyPolicy.supportEmail": 1}
	if fmt.Sprint(ignored) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", ignored, want)
	}
}

// TestBothCasingsSayTheSame reads the file again with every member in snake_case.
func TestBothCasingsSayTheSame(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/" + orgs)
	if err != nil {
		t.Fatal(err)
	}
	members, inner := regexp.MustCompile(`"[A-Za-z0-9]+":`), regexp.MustCompile(`[a-z][A-Z]`)
	snake := members.ReplaceAllStringFunc(string(text), func(name string) string {
		return inner.ReplaceAllStringFunc(name, func(of string) string { return of[:1] + "_" + strings.ToLower(of[1:]) })
	})
	if !strings.Contains(snake, `"human_users":`) || strings.Contains(snake, "humanUsers") {
		t.Fatal("the file is as it was")
	}
	a, b := readFile(t, "zitadel", orgs, foreign.Options{}), readAll("zitadel", strings.NewReader(snake), foreign.Options{})
	if b.err != nil || len(b.lost) != len(a.lost) {
		t.Fatalf("got %v, %d lines for %d", b.err, len(b.lost), len(a.lost))
	}
	for kind, list := range a.items {
		if len(b.items[kind]) != len(list) {
			t.Errorf("%s: got %d, want %d", kind, len(b.items[kind]), len(list))
			continue
		}
		for i, item := range list {
			if !proto.Equal(item, b.items[kind][i]) {
				t.Errorf("%s: got %v, want %v", kind, b.items[kind][i], item)
			}
		}
	}
	both := readAll("zitadel", strings.NewReader(`{"orgs":[{"orgId":"1","humanUsers":[{"userId":"2","user_id":"3","user":{"userName":"a"}}]}]}`), foreign.Options{})
	if both.err == nil || !strings.Contains(both.err.Error(), "orgs[0].humanUsers[0].userId: it is there in both spellings") {
		t.Errorf("both at once: got %v", both.err)
	}
}

// TestAnOrganizationMaySayItsIDLast has the same organization with its ID first and last.
func TestAnOrganizationMaySayItsIDLast(t *testing.T) {
	t.Parallel()
	const things = `"humanUsers":[{"userId":"u","user":{"userName":"ada"}}],"org":{"name":"Acme"},"userMetadata":[{"id":"u","key":"k","value":"dg=="}]`
	for _, text := range []string{`{"orgs":[{"orgId":"1",` + things + `}]}`, `{"orgs":[{` + things + `,"orgId":"1"}]}`, `{"dataOrgs":{"orgs":[{` + things + `,"org_id":"1"}]},"timeout":"10s"}`} {
		r := readAll("zitadel", strings.NewReader(text), foreign.Options{})
		if r.err != nil || len(r.lost) > 0 && !strings.Contains(text, "timeout") || len(r.items["users"]) != 1 || len(r.items["userMetadata"]) != 1 || len(r.items["organizations"]) != 1 {
			t.Errorf("%s: got %v, %v, %v", text, r.err, r.items, r.lost)
			continue
		}
		for kind, list := range r.items {
			if of, ok := list[0].(interface{ GetOrgId() string }); ok && of.GetOrgId() != "1" {
				t.Errorf("%s: got the organization %q", kind, of.GetOrgId())
			}
		}
	}
	if r := readAll("zitadel", strings.NewReader(`{"orgs":[{`+things+`}]}`), foreign.Options{}); r.err == nil || !strings.HasSuffix(r.err.Error(), " orgs[0].orgId: it is missing") {
		t.Errorf("no ID: got %v", r.err)
	}
	late := io.MultiReader(strings.NewReader(`{"orgs":[{"humanUsers":[`), strings.NewReader(strings.Repeat(`{"userId":"u","user":{"userName":"`+strings.Repeat("a", 4000)+`"}},`, 2500)),
		strings.NewReader(`{"userId":"u","user":{"userName":"ada"}}],"orgId":"1"}]}`))
	source := foreign.Zitadel(late, foreign.Options{})
	if _, _, err := source.Next(t.Context()); err == nil || !strings.Contains(err.Error(), "orgId") {
		t.Errorf("an ID behind too much: got %v", err)
	}
}

func TestWhatIsWrongWithAFileIsSaidWithItsPlace(t *testing.T) {
	t.Parallel()
	user := func(members string) string {
		return `{"orgs":[{"orgId":"1","humanUsers":[{"userId":"u0","user":{"userName":"a"}},{` + members + `}]}]}`
	}
	for text, want := range map[string]string{
		``:                                     "the file: the file ends here",
		`[]`:                                   "",
		`"x"`:                                  "the file: expected an object or a list, got a text",
		`{"orgs":{}}`:                          "",
		`{"orgs":[{"orgId":5`:                  "orgs[0].orgId: expected a text, got a number",
		`{"orgs":[{"orgId":""`:                 "orgs[0].orgId: it is missing",
		`{"orgs":[7]}`:                         "orgs[0]: expected an object or a list, got a number",
		`{"orgs":[{"orgId":"1","orgId":"2"}]}`: "orgs[0].orgId: it is there twice",
		`{"orgs":[]} x`:                        "the file: something follows the end of its JSON",
		user(`"userId":"u1","user":7`):         "orgs[0].humanUsers[1].user: expected an object, got a number",
		user(`"userId":["u1"],"user":{}`):      "orgs[0].humanUsers[1].userId: expected a text, got a list",
		user(`"user":{"userName":"b"}`):        "orgs[0].humanUsers[1].userId: it is missing",
		user(`"userId":"u1","user":{"userName":"b\u0000"}`):                                                   "orgs[0].humanUsers[1].user.userName: a text has no NUL characters",
		user(`"userId":"u1","user":{"userName":"b","email":{"email":"b@b.example","isEmailVerified":"yes"}}`): "orgs[0].humanUsers[1].user.email.isEmailVerified: expected true or false, got a text",
		user(`"userId":"u1","user":{"userName":"b","idps":[{"configId":"c"}]}`):                               "orgs[0].humanUsers[1].user.idps[0].externalUserId: it is missing",
		user(`"userId":"u1","x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100)):                      "orgs[0].humanUsers[1]: it is nested more than 64 deep",
		user(`"userId":"u1","x":"` + strings.Repeat("x", 5<<20) + `"`):                                        "orgs[0].humanUsers[1]: a value is longer than 4194304 bytes",
		user(`"userId":"u1",`):                                                       "orgs[0].humanUsers[1]: not JSON",
		user(`"userId":"u1","user":{"userName":"b"}`)[:90]:                           "orgs[0].humanUsers[1]: the file ends here",
		`{"orgs":[{"orgId":"1","userMetadata":[{"id":"u","key":"k","value":"?"}]}]}`: "orgs[0].userMetadata[0].value: expected base64",
	} {
		r := readAll("zitadel", strings.NewReader(text), foreign.Options{})
		if want == "" && r.err == nil {
			continue
		}
		if refusal, ok := errors.AsType[*fault.Error](r.err); !ok || refusal.Kind != fault.InvalidArgument {
			t.Errorf("%.100s: got %v, want a refusal", text, r.err)
		}
		if r.err == nil || !strings.Contains(r.err.Error(), want) || len(r.err.Error()) > 10000 {
			t.Errorf("%.100s: got %v, want %s", text, r.err, want)
		}
	}
}

// TestWhatTheContractDoesNotTakeIsLeftOut has a user whose telephone number is none.
func TestWhatTheContractDoesNotTakeIsLeftOut(t *testing.T) {
	t.Parallel()
	text := `{"orgs":[{"orgId":"1","humanUsers":[
		{"userId":"u1","user":{"userName":"ada","phone":{"phone":"ask me"},"email":{"email":"not an address","isEmailVerified":true},"profile":{"preferredLanguage":"!!","firstName":"Ada"}}},
		{"userId":"a/b","user":{"userName":"bob"}}],
		"oidcApps":[{"appId":"a1","app":{"projectId":"p","name":"Web","redirectUris":["https://a.example","https://a.example/` + strings.Repeat("x", 2001) + `","https://b.example","http://c.example","javascript:alert(1)"],"additionalOrigins":["https://a.example/path"]}}]}]}`
	r := readAll("zitadel", strings.NewReader(text), foreign.Options{})
	if r.err != nil || len(r.items["users"]) != 1 {
		t.Fatalf("got %v, %v, %v", r.err, r.items["users"], r.lost)
	}
	if ada := r.users()["ada"]; ada.GetHuman().GetPhone() != nil || ada.GetHuman().GetEmail().GetAddress() != "" || ada.GetIsEmailProven() || ada.GetHuman().GetProfile().GetGivenName() != "Ada" {
		t.Errorf("got %v", ada)
	}
	for _, words := range [][]string{{"users u1", "human.phone.number"}, {"users u1", "human.email.address"}, {"users u1", "preferred_language"}, {"users a/b: id"}, {"apps a1", "redirect_uris[1]"}, {"apps a1", "http://c.example"}, {"apps a1", "javascript:"}, {"apps a1", "origin", "/path"}} {
		if !r.loses(words...) {
			t.Errorf("there is no report of %q in %q", words, r.lost)
		}
	}
	if app := r.items["apps"][0].(*transferv1.TransferApp); !slices.Equal(app.GetOidc().GetRedirectUris(), []string{"https://a.example", "https://b.example"}) {
		t.Errorf("got %v", app)
	}
}

// endless is an export of so many users.
type endless struct {
	users int
	next  string
	begun bool
}

func (e *endless) Read(p []byte) (int, error) {
	for e.next == "" {
		switch {
		case !e.begun:
			e.begun, e.next = true, `{"orgs":[{"orgId":"1","humanUsers":[`
		case e.users == 0:
			return 0, io.EOF
		default:
			e.users--
			text, _ := json.Marshal(map[string]any{"userId": fmt.Sprint(e.users), "user": map[string]any{"userName": fmt.Sprint("user", e.users), "surprise": e.users}})
			if e.next = string(text) + ","; e.users == 0 {
				e.next = string(text) + "]}]}"
			}
		}
	}
	n := copy(p, e.next)
	e.next = e.next[n:]
	return n, nil
}

// TestTheMemoryOfReadingDoesNotGrowWithTheFile compares a file with one of ten times as many users.
func TestTheMemoryOfReadingDoesNotGrowWithTheFile(t *testing.T) {
	held := func(users int) uint64 {
		source := foreign.Zitadel(&endless{users: users}, foreign.Options{})
		most, read := uint64(0), 0
		for {
			_, _, err := source.Next(context.Background())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if read++; read%(users/10) == 0 {
				var now runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&now)
				most = max(most, now.HeapAlloc)
			}
		}
		if read != users {
			t.Fatalf("read %d of %d", read, users)
		}
		return most
	}
	held(1000) // what is made once
	if few, many := held(2000), held(20000); many > few+4<<20 {
		t.Errorf("2000 users take %d KiB, 20000 %d", few>>10, many>>10)
	}
}

func FuzzZitadel(f *testing.F) {
	text, err := os.ReadFile("testdata/" + orgs)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"orgs":[{"humanUsers":[{"userId":"u","user":{"userName":"a"}}],"org_id":"1"}]}`))
	fuzz(f, "zitadel")
}

// fuzz finds no file that a source does not end with.
func fuzz(f *testing.F, format string) {
	f.Fuzz(func(t *testing.T, text []byte) {
		r := readAll(format, strings.NewReader(string(text)), foreign.Options{OrgID: "o", Firebase: &foreign.FirebaseScrypt{SignerKey: "AAAA", Rounds: 8, MemoryCost: 14}})
		for kind, list := range r.items {
			for _, item := range list {
				if _, err := proto.Marshal(item); err != nil {
					t.Errorf("%s: %v", kind, err)
				}
			}
		}
	})
}
