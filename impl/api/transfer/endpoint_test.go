package transfer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	"github.com/writ-id/writ/impl/core/outgoing"
	"github.com/writ-id/writ/impl/server"
	"github.com/writ-id/writ/impl/server/servertest"
)

const (
	exportPath, importPath, operations = "/admin/v1/export", "/admin/v1/import", "/admin/v1/operations/"
	answered                           = `{"response_output":true}`
)

// TestSEC232_OnlyOwnersMoveData has each caller that is not one, and each token.
func TestSEC232_OnlyOwnersMoveData(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	for user, reason := range map[string]string{
		"manager": "OWNER_REQUIRED", "orgowner": "OWNER_REQUIRED", "nobody": "OWNER_REQUIRED", "system": "OWNER_REQUIRED", "viewer": "OWNER_REQUIRED",
	} {
		for path, body := range map[string]string{exportPath: answered, importPath: `{"data_orgsv1":{}}`} {
			c.Refused(user, "POST", path, body, http.StatusForbidden, reason)
		}
		c.Refused(user, "GET", operations+"x", "", http.StatusForbidden, reason)
		c.Refused(user, "GET", operations+"x/result", "", http.StatusForbidden, reason)
		c.Refused(user, "POST", operations+"x/_cancel", "", http.StatusForbidden, reason)
	}
	c.Refused("", "POST", exportPath, answered, http.StatusUnauthorized, "TOKEN_MISSING")
	c.Refused("writ_pat_x", "POST", exportPath, answered, http.StatusUnauthorized, "TOKEN_INVALID")
	// Of another instance.
	c.IsRefused(c.Call(0, "a.example", "bob", "POST", exportPath, answered), "bob at a", http.StatusUnauthorized, "TOKEN_INVALID")
	// Of a person, and of a service user with JWTs.
	for _, one := range []struct{ sql, reason string }{
		{"UPDATE users SET access_token_type = 2 WHERE username = 'owner'", "BEARER_USER_REQUIRED"},
		{"UPDATE users SET access_token_type = 1, user_type = 1 WHERE username = 'owner'", "SERVICE_USER_REQUIRED"},
	} {
		if _, err := c.DB.Pool.Exec(t.Context(), one.sql); err != nil {
			t.Fatal(err)
		}
		c.Refused("owner", "POST", exportPath, answered, http.StatusForbidden, one.reason)
	}
}

func TestRequestsAreHeldToTheContract(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	gcs := `{"path":"p","bucket":"bucket","serviceaccount_json":"e30="}`
	for _, one := range []struct{ path, body, field string }{
		{exportPath, `{}`, "response_output"},
		{exportPath, `{"response_output":false}`, "response_output"},
		{exportPath, `{"response_output":true,"gcs_output":` + gcs + `}`, "response_output"},
		{exportPath, `{"response_output":true,"timeout":"soon"}`, "timeout"},
		{exportPath, `{"response_output":true,"timeout":"25h"}`, "timeout"},
		{exportPath, `{"response_output":true,"timeout":"0s"}`, "timeout"},
		{exportPath, `{"response_output":true,"org_ids":["nowhere"]}`, "org_ids"},
		{exportPath, `{"response_output":true,"excluded_org_ids":["nowhere"]}`, "excluded_org_ids"},
		{exportPath, `{"response_output":true,"org_ids":[1]}`, "org_ids.0"},
		{exportPath, `{"gcs_output":{"path":"p","bucket":"bucket"}}`, "gcs_output.serviceaccount_json"},
		{exportPath, `{"gcs_output":{"path":"p","bucket":"bucket","serviceaccount_json":"%"}}`, "gcs_output.serviceaccount_json"},
		{exportPath, `{"response_output":true,"withPasswords":1}`, "with_passwords"},
		{exportPath, `{"response_output":true,"responseOutput":true}`, "response_output"},
		{exportPath, `{"response_output":true,"with_Passwords":true}`, "with__passwords"},
		{importPath, `{"data_orgsv1":{"version":1},"dataOrgsv1":{"version":1}}`, "data_orgsv1"},
		{importPath, `{"data_orgsv1":{}}`, "version"},
		{importPath, `{"data_orgsv1":"{}"}`, "version"},
		{importPath, `{"data_orgsv1":"\u0000"}`, "data_orgsv1"},
		{importPath, `{"data_orgsv1":{"version":1,"organizations":{}}}`, "data_orgsv1"},
		{importPath, `{"data_orgsv1":"{\"version\":2}"}`, "version"},
		{importPath, `{"data_orgsv1":{"organizations":[]}}`, "version"},
		{exportPath, `[]`, ""},
		{importPath, `{}`, "data_orgsv1"},
		{importPath, `{"data_orgsv1":{},"data_orgsv1_gcs":` + gcs + `}`, "data_orgsv1"},
		{importPath, `{"data_orgsv1":[]}`, "data_orgsv1"},
		{importPath, `{"data_orgsv1":{},"data_orgsv1":{}}`, "data_orgsv1"},
		{importPath, `{"data_orgsv1":{},"on_conflict":"perhaps"}`, "on_conflict"},
		{importPath, `{"data_orgsv1":{"version":1,"organizations":[{"id":"o","name":""}]}}`, "organizations[0].name"},
		{importPath, `{"data_orgsv1":{"version":1,"users":[{"id":"u","orgId":"o","username":"n","human":{},"passwordHash":"plain"}]}}`, "users[0].passwordHash"},
		{importPath, `{"data_orgsv1":{"version":1,"users":[{"id":"u","orgId":"o","username":"n","human":{"password":{"plain":"correct horse"}}}]}}`, "users[0]"},
		{importPath, `{"data_orgsv1":"{\"version\":1,\"users\":[{\"human\":{}}]}"}`, "users[0].id"},
		{importPath, `{"data_orgsv1":{"version":1,"organizations":[{"id":"o","name":"a\u0000b"}]}}`, "organizations[0].name"},
		{importPath, `{"data_orgsv1":{"version":1,"organizations":[{"id":"o/x","name":"a"}]}}`, "organizations[0].id"},
		{importPath, `{"data_orgsv1":{"version":1,"organizations":[{"id":"o","name":"a","creationDate":"99999-01-01T00:00:00Z"}]}}`, "organizations[0].creationDate"},
		{importPath, `{"data_orgsv1":{"version":1,"memberships":[{"id":"m","orgId":"o","userId":"u","level":"MEMBERSHIP_LEVEL_INSTANCE","objectId":"o","roles":["IAM_OWNER"]}]}}`, "memberships[0].level"},
		{importPath, `{"data_orgsv1":{"version":1,"settings":[{"orgId":"o","subject":"branding","properties":{"primaryColorLight":"red;}"}}]}}`, "settings[0].primaryColorLight"},
		{importPath, `{"data_orgsv1":{"version":1,"settings":[{"orgId":"o","subject":"branding","properties":{"logoLight":{"url":"https://evil.example/x.png"}}}]}}`, "settings[0].properties.logoLight"},
		{importPath, `{"data_orgsv1":{"version":1,"settingImages":[{"orgId":"o","subject":"branding","property":"icon","digest":"x","content":"AAAA"}]}}`, "settingImages[0].content"},
		{importPath, `{"data_orgsv1":{"version":1,"apps":[{"id":"a","orgId":"o","projectId":"p","name":"n","clientId":"c","oidc":{"redirectUris":["javascript:alert(1)"]}}]}}`, ""},
		{importPath, `{"data_orgsv1":{"version":1}`, ""},
		{importPath, ``, ""},
	} {
		got := c.Do("owner", "POST", one.path, one.body)
		if got.Status != http.StatusBadRequest || one.field != "" && !strings.Contains(got.Body, fmt.Sprintf("%q:%q", "field", one.field)) {
			t.Errorf("%s %s: got %d %s, want it to name %s", one.path, one.body, got.Status, got.Body, one.field)
		}
	}
}

// TestRequestsAreTakenInBothSpellings has all members of requests in each; answers have one.
func TestRequestsAreTakenInBothSpellings(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	for _, body := range []string{
		`{"response_output":true,"org_ids":[],"excluded_org_ids":[],"with_passwords":true,"with_otp":true,"with_secrets":true}`,
		`{"responseOutput":true,"orgIds":[],"excludedOrgIds":[],"withPasswords":true,"withOtp":true,"withSecrets":true}`,
	} {
		if got := c.Must("owner", "POST", exportPath, body).Body; !strings.Contains(got, `"passwordHash"`) || strings.Contains(got, `"password_hash"`) {
			t.Errorf("%s: got %s", body, got)
		}
	}
	for _, body := range []string{
		`{"dry_run":true,"on_conflict":"skip","data_orgsv1":` + file + `}`, `{"dryRun":true,"onConflict":"skip","dataOrgsv1":` + file + `}`,
	} {
		if got := c.Must("owner", "POST", importPath, body).Body; !strings.Contains(got, `"dryRun":true`) || !strings.Contains(got, `"orgId"`) {
			t.Errorf("%s: got %s", body, got)
		}
	}
	c.Refused("owner", "POST", importPath, `{"dataOrgsv1S3":{"endpoint":"x","path":"p","bucket":"bucket","accessKeyId":"a"}}`, http.StatusBadRequest, "INVALID_FIELD")
}

// TestAnImportOfWhichNothingIsCarriedTells has a list of which no item can be.
func TestAnImportOfWhichNothingIsCarriedTells(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	for _, data := range []string{
		`"users":[{"id":"v","orgId":"o","username":"ve\u200biled","human":{}}]`,
		`"settings":[{"orgId":"o","subject":"nothing","properties":{}}]`,
		`"memberships":[{"id":"m","orgId":"o","userId":"u","level":"MEMBERSHIP_LEVEL_ORG","objectId":"o","roles":["NO_ROLE"]}]`,
	} {
		if got := loaded(t, c, "refuse", data); got.GetTotalNotCarried() != 1 || len(got.GetNotCarried()) != 1 {
			t.Errorf("%s: got %v", data, got)
		}
	}
}

// TestAFailedImportSaysThatNothingWasImported has one thing in the way of another.
func TestAFailedImportSaysThatNothingWasImported(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	loaded(t, c, "refuse", `"organizations":[{"id":"o","name":"O"}]`)
	id := begin(t, c, importPath, `{"async":true,"data_orgsv1":{"version":1,"organizations":[{"id":"o","name":"O"},{"id":"new","name":"New"}],"users":[{"id":"u","orgId":"new","username":"u","human":{}}]}}`)
	report := until(t, c, id).GetReport()
	var lost uint64
	for _, one := range report.GetOutcomes() {
		if one.GetCreated()+one.GetUpdated() != 0 {
			t.Errorf("nothing was imported, and of %s %d are created", one.GetKind(), one.GetCreated())
		}
		lost += one.GetNotCarried()
	}
	if lost != 2 || report.GetTotalNotCarried() != 2 {
		t.Errorf("%d are not carried, in all %d", lost, report.GetTotalNotCarried())
	}
}

// TestSecretsAreAbsentUnlessAskedFor looks for what the rows have.
func TestSecretsAreAbsentUnlessAskedFor(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	rich(t, c)
	for body, wanted := range map[string][]string{
		answered: {},
		`{"response_output":true,"with_passwords":true}`: {"passwordHash"},
		`{"response_output":true,"with_secrets":true}`:   {"secretHash", "clientSecret"},
		`{"response_output":true,"with_otp":true}`:       {"secret"},
	} {
		got := c.Must("owner", "POST", exportPath, body)
		for _, name := range []string{"passwordHash", "secretHash", "secret", "clientSecret"} {
			want := 0
			for _, one := range wanted {
				if one == name {
					want = 1
				}
			}
			if n := strings.Count(got.Body, `"`+name+`":"`); min(n, 1) != want {
				t.Errorf("%s: %s is there %d times\n%s", body, name, n, got.Body)
			}
		}
	}
	if got := c.Must("owner", "POST", exportPath, answered); !strings.Contains(got.Body, `"OTP_NOT_ASKED_FOR"`) || !strings.Contains(got.Body, `"kind":"personalAccessTokens"`) {
		t.Errorf("the summary does not say what stays: %s", got.Body)
	}
}

// TestAnExportIsOfWhatIsAskedFor has a grant across organizations, which one alone leaves out.
func TestAnExportIsOfWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	a, a2 := c.Org("A"), c.Org("A2")
	for body, want := range map[string][2]bool{
		`{"response_output":true,"org_ids":["` + a + `"]}`:                                               {true, false},
		`{"response_output":true,"excluded_org_ids":["` + a + `"]}`:                                      {false, true},
		`{"response_output":true,"org_ids":["` + a + `","` + a2 + `"],"excluded_org_ids":["` + a + `"]}`: {false, true},
		answered: {true, true},
	} {
		var file struct{ Organizations, Users []struct{ ID, OrgID string } }
		if err := json.Unmarshal([]byte(c.Must("owner", "POST", exportPath, body).Body), &file); err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, org := range file.Organizations {
			got[org.ID] = true
		}
		for _, user := range file.Users {
			if !got[user.OrgID] {
				t.Errorf("%s: a user of %s", body, user.OrgID)
			}
		}
		if got[a] != want[0] || got[a2] != want[1] {
			t.Errorf("%s: got %v", body, got)
		}
	}
}

// file has a password whose hash is of another kind than ours.
var file = strings.ReplaceAll(template, "HASH", func() string {
	hash, err := bcrypt.GenerateFromPassword([]byte("correct horse"), bcrypt.MinCost)
	if err != nil {
		panic(err)
	}
	return string(hash)
}())

const template = `{"version":1,"organizations":[{"id":"moved","name":"Moved"}],"users":[{"id":"u","orgId":"moved","username":"ada","human":{"email":{"address":"ada@moved.example","isVerified":true}},
	"passwordHash":"HASH"}],"userMetadata":[{"userId":"nobody","id":"k","value":"AAE=","orgId":"moved"}],"more":[1]}`

func report(t *testing.T, got servertest.Reply) *transferv1.ImportReport {
	t.Helper()
	report := &transferv1.ImportReport{}
	if err := unmarshal(got.Body, report); err != nil {
		t.Fatalf("%v: %s", err, got.Body)
	}
	return report
}

// TestDataIsTakenAsAnObjectAndAsAText imports the same both ways.
func TestDataIsTakenAsAnObjectAndAsAText(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	text, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{
		`{"dry_run":true,"data_orgsv1":` + file + `,"timeout":"1m"}`,
		`{"timeout":"1m","data_orgsv1":` + string(text) + `,"dry_run":true}`,
		`{"timeout":"1m","data_orgsv1":` + strings.ReplaceAll(string(text), "Moved", `Moved \u00df \ud83d\ude00`) + `,"dry_run":true}`,
		`{"data_orgsv1":` + file + `}`,
	} {
		got := report(t, c.Must("owner", "POST", importPath, body))
		if len(got.GetOutcomes()) != 3 || got.GetOutcomes()[0].GetCreated() != 1 || got.GetOutcomes()[1].GetCreated() != 1 || got.GetTotalNotCarried() != 1 ||
			got.GetNotCarried()[0].GetReason() != "USER_NOT_FOUND" || len(got.GetIgnored()) != 1 {
			t.Errorf("%s: got %v", body, got)
		}
	}
	// What is there already refuses all of it, and says so with the report.
	got := c.Do("owner", "POST", importPath, `{"data_orgsv1":`+strings.ReplaceAll(file, `"u"`, `"other"`)+`}`)
	if got.Status != http.StatusConflict || !strings.Contains(got.Body, `"IMPORT_CONFLICT"`) || !strings.Contains(got.Body, "writ.transfer.v1.ImportReport") || !strings.Contains(got.Body, "NAME_TAKEN") {
		t.Errorf("got %d %s", got.Status, got.Body)
	}
}

// TestAnImportedPasswordSignsIn and is hashed anew by that.
func TestAnImportedPasswordSignsIn(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	c.Must("owner", "POST", importPath, `{"data_orgsv1":`+file+`}`)
	hash := func() string { return c.Value("SELECT password_hash FROM users WHERE id = 'u'") }
	before := hash()
	const sessions = "/resources/v3alpha/sessions"
	c.Refused("owner", "POST", sessions, `{"checks":{"user":{"userId":"u"},"password":{"password":"wrong"}}}`, http.StatusBadRequest, "CHECK_FAILED")
	c.Must("owner", "POST", sessions, `{"checks":{"user":{"userId":"u"},"password":{"password":"correct horse"}}}`)
	if after := hash(); after == before || !strings.HasPrefix(after, "$argon2id$") {
		t.Errorf("the hash stayed %s", after)
	}
	if got := c.Value("SELECT count(*) FROM events WHERE aggregate_id = 'u' AND event_type = 'user.imported'"); got != "1" {
		t.Errorf("%s events say that it was imported", got)
	}
}

// TestEventsOfAnImportSayWhereItCameFrom looks at those of a new user and of one that is there.
func TestEventsOfAnImportSayWhereItCameFrom(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	for _, text := range []string{file, strings.Replace(file, `"ada@moved.example"`, `"ida@moved.example"`, 1)} {
		c.Must("owner", "POST", importPath, `{"on_conflict":"update","data_orgsv1":`+text+`}`)
	}
	if got := c.Value("SELECT count(*) || ' by ' || string_agg(DISTINCT creator || ' at ' || client_address, ', ') FROM events WHERE aggregate_id = 'u'"); got != "2 by "+c.Value("SELECT user_id FROM memberships WHERE 'IAM_OWNER' = ANY(roles) LIMIT 1")+" at 127.0.0.1" {
		t.Errorf("the events of the user are %s", got)
	}
}

// TestSEC219_AnIDIsNeverUsedAgain imports what was deleted.
func TestSEC219_AnIDIsNeverUsedAgain(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	c.Must("owner", "POST", importPath, `{"data_orgsv1":`+file+`}`)
	c.Must("owner", "DELETE", "/resources/v3alpha/users/u", "")
	got := report(t, c.Must("owner", "POST", importPath, `{"on_conflict":"skip","data_orgsv1":`+file+`}`))
	if got.GetNotCarried()[0].GetReason() == "ID_USED" || got.GetNotCarried()[1].GetReason() == "ID_USED" {
		return
	}
	t.Errorf("got %v", got)
}

// TestATimeoutLeavesNothing ends an import by itself, and an export.
func TestATimeoutLeavesNothing(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	c.Refused("owner", "POST", exportPath, `{"response_output":true,"timeout":"1ns"}`, http.StatusRequestTimeout, "TIMEOUT")
	tx, err := c.DB.Pool.Begin(t.Context()) // who keeps the import waiting
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE memberships, users IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	got := make(chan servertest.Reply)
	go func() { got <- c.Do("owner", "POST", importPath, `{"timeout":"300ms","data_orgsv1":`+file+`}`) }()
	reply := <-got
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if reply.Status != http.StatusRequestTimeout && reply.Status != http.StatusServiceUnavailable {
		t.Errorf("got %d %s", reply.Status, reply.Body)
	}
	if n := c.Value("SELECT count(*) FROM organizations WHERE id = 'moved'"); n != "0" {
		t.Error("something is left")
	}
}

// until asks how far an operation is until it is in another state than running.
func until(t *testing.T, c *servertest.Cluster, id string) *transferv1.TransferOperation {
	t.Helper()
	for range 600 {
		operation := &transferv1.TransferOperation{}
		if err := unmarshal(c.Must("owner", "GET", operations+id, "").Body, operation); err != nil {
			t.Fatal(err)
		}
		if operation.GetState() != transferv1.OperationState_OPERATION_STATE_RUNNING {
			return operation
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("it never ended")
	return nil
}

func begin(t *testing.T, c *servertest.Cluster, path, body string) string {
	t.Helper()
	got := c.Do("owner", "POST", path, body)
	operation := &transferv1.TransferOperation{}
	if err := unmarshal(got.Body, operation); err != nil || got.Status != http.StatusAccepted {
		t.Fatalf("%d %s: %v", got.Status, got.Body, err)
	}
	return operation.GetId()
}

// TestOperationsRunByThemselves exports and imports so, and reads the result by range on
// another node.
func TestOperationsRunByThemselves(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 2, nil)
	id := begin(t, c, exportPath, `{"response_output":true,"async":true}`)
	operation := until(t, c, id)
	if operation.GetState() != transferv1.OperationState_OPERATION_STATE_SUCCEEDED || operation.GetSize() == 0 || operation.GetSummary() == nil {
		t.Fatalf("got %v", operation)
	}
	whole := c.Call(1, "a.example", "owner", "GET", operations+id+"/result", "")
	part := c.With(http.Header{"Range": {"bytes=10-19"}}).Call(1, "a.example", "owner", "GET", operations+id+"/result", "")
	if uint64(len(whole.Body)) != operation.GetSize() || part.Status != http.StatusPartialContent || part.Body != whole.Body[10:20] {
		t.Errorf("got %d bytes of %d, and %d %q", len(whole.Body), operation.GetSize(), part.Status, part.Body)
	}
	beyond := c.With(http.Header{"Range": {"bytes=99999999-"}}).Call(1, "a.example", "owner", "GET", operations+id+"/result", "")
	c.IsRefused(beyond, "beyond the end", http.StatusRequestedRangeNotSatisfiable, "OUT_OF_RANGE")
	if sealed := c.Value("SELECT content::text FROM operation_chunks"); strings.Contains(sealed, fmt.Sprintf("%x", "organizations")) {
		t.Error("the result is not sealed")
	}

	id = begin(t, c, importPath, `{"async":true,"data_orgsv1":`+file+`}`)
	if operation = until(t, c, id); operation.GetState() != transferv1.OperationState_OPERATION_STATE_SUCCEEDED || operation.GetReport().GetTotalNotCarried() != 1 {
		t.Errorf("got %v", operation)
	}
	c.Refused("owner", "GET", operations+id+"/result", "", http.StatusBadRequest, "NO_RESULT")
	id = begin(t, c, importPath, `{"async":true,"data_orgsv1":`+file+`}`)
	if operation = until(t, c, id); operation.GetState() != transferv1.OperationState_OPERATION_STATE_FAILED || operation.GetError().GetReason() != "IMPORT_CONFLICT" || len(operation.GetReport().GetNotCarried()) == 0 {
		t.Errorf("got %v", operation)
	}
	c.Refused("owner", "GET", operations+"nothing", "", http.StatusNotFound, "OPERATION_NOT_FOUND")
	c.IsRefused(c.Call(0, "b.example", "bob", "GET", operations+id, ""), "of another instance", http.StatusNotFound, "OPERATION_NOT_FOUND")
}

// TestAnOperationIsCancelled in the middle, on another node.
func TestAnOperationIsCancelled(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 2, nil)
	tx, err := c.DB.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock(hashtextextended('import/' || $1::text, 0))", c.Instance("a")); err != nil {
		t.Fatal(err)
	}
	id := begin(t, c, importPath, `{"async":true,"data_orgsv1":`+file+`}`)
	if got := c.Call(1, "a.example", "owner", "POST", operations+id+"/_cancel", ""); got.Status != http.StatusOK {
		t.Fatalf("got %d %s", got.Status, got.Body)
	}
	operation := until(t, c, id)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if operation.GetState() != transferv1.OperationState_OPERATION_STATE_CANCELED {
		t.Errorf("got %v", operation)
	}
	if n := c.Value("SELECT count(*) FROM organizations WHERE id = 'moved'"); n != "0" {
		t.Error("something is left")
	}
}

// TestREL020_AnOperationEndsWithItsNode has one whose node is gone.
func TestREL020_AnOperationEndsWithItsNode(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	s := service(t, c)
	if _, err := c.DB.Pool.Exec(t.Context(), `INSERT INTO operations (instance_id, id, type, state, creator, lease_end, creation_date, change_date, expiration_date)
		VALUES ($1, 'lost', 2, 1, 'x', now() - interval '1 second', now(), now(), now() + interval '1 day'), ($1, 'old', 2, 2, 'x', now(), now(), now(), now() - interval '1 second')`, c.Instance("a")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Task().Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	if operation := until(t, c, "lost"); operation.GetError().GetReason() != "NODE_GONE" {
		t.Errorf("got %v", operation)
	}
	c.Refused("owner", "GET", operations+"old", "", http.StatusNotFound, "OPERATION_NOT_FOUND")
}

// TestREL108_AnInstanceMovesOneThingAtATime keeps an import waiting: the next is told when to
// come again, and another instance does not notice.
func TestREL108_AnInstanceMovesOneThingAtATime(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	tx, err := c.DB.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock(hashtextextended('import/' || $1::text, 0))", c.Instance("a")); err != nil {
		t.Fatal(err)
	}
	first := begin(t, c, importPath, `{"async":true,"data_orgsv1":`+file+`}`)
	for _, path := range []string{exportPath, importPath} {
		got := c.Do("owner", "POST", path, `{"async":true,"response_output":true}`)
		c.IsRefused(got, path, http.StatusTooManyRequests, "TRANSFERS_RUNNING")
		if got.Header.Get("Retry-After") != "10" || !strings.Contains(got.Body, "another transfer of this instance") {
			t.Errorf("%s: got %v %s", path, got.Header, got.Body)
		}
	}
	for range 2 {
		if got := c.Call(0, "b.example", "bob", "POST", exportPath, answered); got.Status != http.StatusOK {
			t.Errorf("another instance: got %d %s", got.Status, got.Body)
		}
	}
	open := ""
	for asked := 0; open != "1" && asked < 3000; asked++ { // others of the node come and go
		open = c.Value("SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL AND state = 'idle in transaction'")
	}
	if open != "1" {
		t.Errorf("%s transactions are open, want that of the test", open)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, c, first)
	c.Must("owner", "POST", exportPath, answered)
}

// TestREL108_AnImportThatWaitsForAnotherNodeHoldsNoPlace has other nodes import into as many
// instances as a node has places, and imports wait for them, while a further instance exports.
func TestREL108_AnImportThatWaitsForAnotherNodeHoldsNoPlace(t *testing.T) {
	t.Parallel()
	const third = `  - name: c
    domains: [c.example]
    organizations:
      - name: C
        users: [{username: carol, service: {name: Service}, instance_roles: [IAM_OWNER], tokens: [{name: t}]}]
`
	var carol string
	c := servertest.New(t, 1, func(c *server.Config) {
		carol = servertest.Apply(t, *c, whole+third).Secrets["instances.c.users.carol.tokens.t"]
	})
	tx, err := c.DB.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }() // before the nodes end
	for _, instance := range []string{"a", "b"} {
		if _, err := tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock(hashtextextended('import/' || $1::text, 0))", c.Instance(instance)); err != nil {
			t.Fatal(err)
		}
	}
	first := begin(t, c, importPath, `{"async":true,"data_orgsv1":`+file+`}`)
	if got := c.Call(0, "b.example", "bob", "POST", importPath, `{"async":true,"data_orgsv1":`+file+`}`); got.Status != http.StatusAccepted {
		t.Fatalf("got %d %s", got.Status, got.Body)
	}
	for range 50 { // both wait meanwhile
		if got := c.Call(0, "c.example", carol, "POST", exportPath, `{"response_output":true,"timeout":"20s"}`); got.Status != http.StatusOK {
			t.Fatalf("the third instance: got %d %s", got.Status, got.Body)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, c, first)
}

// TestREL108_WhoeverIsSlowHoldsNoPlaceAndNoTransaction has silent uploads, a storage that never
// answers, and a client that does not read, while another instance exports and imports.
func TestREL108_WhoeverIsSlowHoldsNoPlaceAndNoTransaction(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, func(c *server.Config) {
		c.Outgoing.Allow = outgoing.Loopback
		servertest.Apply(t, *c, whole)
	})
	big := strings.Repeat("x", 200)
	if _, err := c.DB.Pool.Exec(t.Context(), `INSERT INTO organizations (instance_id, id, name, name_folded, sequence, creation_date, change_date)
		SELECT $1, 'big' || n, 'big' || n || $2, 'big' || n || $2, 1, now(), now() FROM generate_series(1, 60000) n`, c.Instance("a"), big); err != nil {
		t.Fatal(err)
	}
	silent := func(token, path, body string, length int) net.Conn {
		conn, err := net.Dial("tcp", strings.TrimPrefix(c.Nodes[0], "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: a.example\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n%s", path, token, length, body); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	eventually := func(what string, holds func() bool) {
		t.Helper()
		for asked := 0; !holds(); time.Sleep(10 * time.Millisecond) {
			if asked++; asked > 3000 {
				t.Fatalf("not so: %s", what)
			}
		}
	}
	others := func(while string) {
		t.Helper()
		for _, one := range []struct{ path, body string }{{exportPath, answered}, {importPath, `{"dry_run":true,"data_orgsv1":` + file + `}`}} {
			if got := c.Call(0, "b.example", "bob", "POST", one.path, one.body); got.Status != http.StatusOK {
				t.Errorf("while %s: got %d %s", while, got.Status, got.Body)
			}
		}
		eventually("no transaction is open while "+while, func() bool {
			return c.Value("SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL AND state LIKE 'idle in%'") == "0"
		})
	}
	running := func() bool {
		got := c.Do("owner", "POST", exportPath, `{"response_output":true,"org_ids":["nowhere"]}`)
		return got.Status == http.StatusTooManyRequests
	}
	// What is asked with one byte left is there when the server says so: that it goes on (the
	// request expects that), refuses, or begins to answer.
	said := func(conn net.Conn) string {
		status := make([]byte, len("HTTP/1.1 200"))
		if _, err := io.ReadFull(conn, status); err != nil {
			t.Fatal(err)
		}
		return string(status[len("HTTP/1.1 "):])
	}
	var upload, reader net.Conn
	eventually("an upload begins", func() bool { // what was asked before may just end
		upload = silent(c.Token("owner"), importPath, `{"data_`, 100)
		return said(upload) == "100"
	})
	if !running() {
		t.Error("a silent upload does not count")
	}
	if got := said(silent(c.Token("owner"), importPath, `{"data_`, 100)); got != "429" {
		t.Errorf("a second upload is answered %s", got)
	}
	others("uploads are silent")
	_ = upload.Close()
	eventually("the upload is over", func() bool { return !running() })

	eventually("an answer begins", func() bool {
		reader = silent(c.Token("owner"), exportPath, answered, len(answered))
		got := said(reader)
		if got == "100" { // the rest of its line and the empty one
			_, _ = io.ReadFull(reader, make([]byte, len(" Continue\r\n\r\n")))
			got = said(reader)
		}
		return got == "200"
	})
	if !running() {
		t.Error("the answer was sent: this proves nothing")
	}
	others("a client does not read")
	_ = reader.Close()
	eventually("the answer is over", func() bool { return !running() })

	hung, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hung.Close() }()
	at := fmt.Sprintf(`{"endpoint":%q,"bucket":"bucket","path":"p","access_key_id":"a","secret_access_key":"s","insecure":true}`, hung.Addr())
	for path, body := range map[string]string{importPath: `{"async":true,"data_orgsv1_s3":` + at + `}`, exportPath: `{"async":true,"s3_output":` + at + `}`} {
		id := begin(t, c, path, body)
		others("a storage does not answer " + path)
		if got := c.Do("owner", "GET", operations+id, ""); !strings.Contains(got.Body, "RUNNING") {
			t.Errorf("it is over: %s", got.Body)
		}
		c.Must("owner", "POST", operations+id+"/_cancel", "")
		until(t, c, id)
	}
}

// TestWhatIsImportedIsRemovedLikeAnythingElse deletes an organization that came by import.
func TestWhatIsImportedIsRemovedLikeAnythingElse(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	c.Must("owner", "POST", importPath, `{"data_orgsv1":`+file+`}`)
	c.Must("owner", "DELETE", "/resources/v3alpha/organizations/moved", "")
	if got := c.Value("SELECT count(*) FROM events WHERE aggregate_id = 'u' AND event_type = 'user.removed'"); got != "1" {
		t.Errorf("%s events say that the user is gone", got)
	}
}
