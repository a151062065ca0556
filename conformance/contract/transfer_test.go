package contract

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/writ-id/writ/conformance/harness"
)

// mover calls the operations that export and import. They are no methods of a proto, so
// the published document alone says what they take and answer.
type mover struct {
	*harness.Server
	t      *testing.T
	client *http.Client
}

// answer is a status and what came with it.
type answer struct {
	StatusCode int
	Header     http.Header
}

// call sends a request, which the document has to allow unless ctx says otherwise, and
// returns the answer, which it has to allow.
func (m mover) call(ctx context.Context, token, method, path, body, bytes string) (answer, string) {
	m.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, m.Issuer+"/admin/v1/"+path, strings.NewReader(body))
	if err != nil {
		m.t.Fatal(err)
	}
	if body == "" {
		r.Body, r.ContentLength = nil, 0
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if bytes != "" {
		r.Header.Set("Range", bytes)
	}
	response, err := m.client.Do(r)
	if err != nil {
		m.t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	if err := response.Body.Close(); err != nil {
		m.t.Error(err)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header}, string(text)
}

// must is a call of the owner that is answered with status.
func (m mover) must(status int, method, path, body string) string {
	m.t.Helper()
	response, text := m.call(m.t.Context(), m.AdminToken, method, path, body, "")
	if response.StatusCode != status {
		m.t.Fatalf("%s %s %s: got %d %s, want %d", method, path, body, response.StatusCode, text, status)
	}
	return text
}

// refused is a call that is refused with the status and, if it is told, the reason.
func (m mover) refused(ctx context.Context, token, method, path, body string, status int, reason string) {
	m.t.Helper()
	response, text := m.call(ctx, token, method, path, body, "")
	if response.StatusCode != status || !strings.Contains(text, `"reason":"`+reason) {
		m.t.Errorf("%s %s %s: got %d %s, want %d %s", method, path, body, response.StatusCode, text, status, reason)
	}
}

type movement struct{ ID, State, Size string }

// ended asks how far an operation is until it ended.
func (m mover) ended(operation string) movement {
	m.t.Helper()
	var now movement
	for range 600 {
		if err := json.Unmarshal([]byte(operation), &now); err != nil {
			m.t.Fatal(err)
		}
		if now.State != "OPERATION_STATE_RUNNING" {
			return now
		}
		time.Sleep(50 * time.Millisecond)
		operation = m.must(http.StatusOK, "GET", "operations/"+now.ID, "")
	}
	m.t.Fatalf("it never ended: %s", operation)
	return now
}

// TestExportsAndImportsAreAsPublished has each operation and each kind of answer, also of
// those that the document does not allow to be asked for.
func TestExportsAndImportsAreAsPublished(t *testing.T) {
	server := harness.Own(t)
	m := mover{server, t, &http.Client{Transport: server.Document(t).Transport(http.DefaultTransport)}}
	ctx, wrong := t.Context(), harness.WrongOnPurpose(t.Context())
	const file = `{"version":1,"organizations":[{"id":"moved","name":"Moved"}],"users":[{"id":"u","orgId":"moved","username":"ada",
		"human":{"email":{"address":"ada@moved.example","isVerified":true}}}],"userMetadata":[{"userId":"nobody","id":"k","value":"AAE=","orgId":"moved"}],"more":[1]}`

	// Imports: what would be, what was, what is there already.
	for range 2 {
		if got := m.must(http.StatusOK, "POST", "import", `{"dry_run":true,"timeout":"1m","data_orgsv1":`+file+`}`); !strings.Contains(got, `"dryRun":true`) {
			t.Errorf("a dry run answers %s", got)
		}
	}
	m.must(http.StatusOK, "POST", "import", `{"data_orgsv1":`+file+`}`)
	m.refused(ctx, m.AdminToken, "POST", "import", `{"data_orgsv1":`+file+`}`, http.StatusConflict, "IMPORT_CONFLICT")
	m.must(http.StatusOK, "POST", "import", `{"on_conflict":"update","data_orgsv1":`+file+`}`)

	// Exports: all that there can be in a file, and the file again.
	all := m.must(http.StatusOK, "POST", "export", `{"response_output":true,"with_passwords":true,"with_otp":true,"with_secrets":true,"timeout":"1m"}`)
	if !strings.Contains(all, `"moved"`) {
		t.Errorf("the import is not in the export: %s", all)
	}
	m.must(http.StatusOK, "POST", "import", `{"on_conflict":"skip","data_orgsv1":`+all+`}`)
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	m.must(http.StatusOK, "POST", "import", `{"on_conflict":"skip","data_orgsv1":`+string(text)+`}`)

	// Operations: the answer, how far it is, its result and parts of it.
	export := m.ended(m.must(http.StatusAccepted, "POST", "export", `{"response_output":true,"async":true}`))
	result := "operations/" + export.ID + "/result"
	whole := m.must(http.StatusOK, "GET", result, "")
	response, part := m.call(ctx, m.AdminToken, "GET", result, "", "bytes=10-29")
	if response.StatusCode != http.StatusPartialContent || part != whole[10:30] || response.Header.Get("Content-Range") != "bytes 10-29/"+export.Size {
		t.Errorf("got %d %q %v of %q", response.StatusCode, part, response.Header, whole)
	}
	for _, bytes := range []string{"bytes=999999999-", "bytes=9-1", "bytes=x"} {
		if response, text := m.call(ctx, m.AdminToken, "GET", result, "", bytes); response.StatusCode != http.StatusRequestedRangeNotSatisfiable || !strings.Contains(text, "OUT_OF_RANGE") {
			t.Errorf("%s: got %d %s", bytes, response.StatusCode, text)
		}
	}
	m.call(ctx, m.AdminToken, "GET", result, "", "bytes=0-1,5-6") // whatever it is, the document states it
	again := m.must(http.StatusOK, "POST", "operations/"+export.ID+"/_cancel", "")
	if got := m.ended(again); got.State != "OPERATION_STATE_SUCCEEDED" {
		t.Errorf("what had ended is %s", got.State)
	}
	failed := m.ended(m.must(http.StatusAccepted, "POST", "import", `{"async":true,"data_orgsv1":`+file+`}`))
	if failed.State != "OPERATION_STATE_FAILED" {
		t.Errorf("the import came to %s", failed.State)
	}
	m.refused(ctx, m.AdminToken, "GET", "operations/"+failed.ID+"/result", "", http.StatusBadRequest, "NO_RESULT")
	for _, path := range []string{"GET operations/nothing", "GET operations/nothing/result", "POST operations/nothing/_cancel"} {
		method, path, _ := strings.Cut(path, " ")
		m.refused(ctx, m.AdminToken, method, path, "", http.StatusNotFound, "OPERATION_NOT_FOUND")
	}

	// Who may not, what the document allows and the server cannot do, and what it does not allow.
	bodies := map[string]string{"POST export": `{"response_output":true}`, "POST import": `{"data_orgsv1":{}}`, "GET operations/x": "", "GET operations/x/result": "", "POST operations/x/_cancel": ""}
	for operation, body := range bodies {
		method, path, _ := strings.Cut(operation, " ")
		m.refused(ctx, "", method, path, body, http.StatusUnauthorized, "TOKEN_MISSING")
		m.refused(ctx, m.NobodyToken, method, path, body, http.StatusForbidden, "OWNER_REQUIRED")
		m.refused(ctx, m.OrgOwnerToken, method, path, body, http.StatusForbidden, "OWNER_REQUIRED")
		m.refused(wrong, m.AdminToken, "PUT", path, body, http.StatusMethodNotAllowed, "")
	}
	m.refused(ctx, m.AdminToken, "POST", "export", `{"response_output":true,"org_ids":["nowhere"]}`, http.StatusBadRequest, "")
	m.refused(ctx, m.AdminToken, "POST", "export", `{"response_output":true,"timeout":"1ns"}`, http.StatusRequestTimeout, "TIMEOUT")
	m.refused(ctx, m.AdminToken, "POST", "import", `{"data_orgsv1":[]}`, http.StatusBadRequest, "")
	m.refused(wrong, m.AdminToken, "POST", "export", `{"response_output":1}`, http.StatusBadRequest, "INVALID_FIELD")
	m.refused(wrong, m.AdminToken, "POST", "export", `{"what":1}`, http.StatusBadRequest, "UNKNOWN_FIELD")
	m.refused(wrong, m.AdminToken, "POST", "export", "", http.StatusBadRequest, "")
	m.refused(wrong, m.AdminToken, "POST", "import", `{"on_conflict":"perhaps","data_orgsv1":{}}`, http.StatusBadRequest, "INVALID_FIELD")
}
