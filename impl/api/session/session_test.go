package session_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"encoding/base32"

	"github.com/writ-id/writ/impl/core/clock"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/dev/seed"
	"github.com/writ-id/writ/impl/server"
	"github.com/writ-id/writ/impl/server/servertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const people = `
instances:
  - name: a
    domains: [localhost]
    features: {multitenancy_resources_api: true}
    organizations:
      - name: A
        domains: [a.example]
        users:
          - {username: owner, service: {name: Service}, instance_roles: [IAM_OWNER], tokens: [{name: t}]}
          - {username: nobody, service: {name: Service}, tokens: [{name: t}]}
          - {username: alice, human: {email: {address: alice@a.example, is_verified: true}, password: {plain: correct horse}}, tokens: [{name: t}]}
          - {username: bob, human: {email: {address: bob@a.example, is_verified: true}, password: {plain: correct horse}}}
`

// world is two nodes on one database with a clock that only the test moves.
type world struct {
	*testing.T
	db     *store.DB
	nodes  []string
	users  map[string]seed.AppliedUser
	tokens map[string]string
	clock  atomic.Int64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, users: map[string]seed.AppliedUser{}, tokens: map[string]string{}}
	w.clock.Store(time.Now().UnixMicro())
	url := pgtest.New(t)
	w.db = pgtest.Connect(t, url, 8)
	config := servertest.Config(w.db)
	config.Now = w.now
	for _, user := range servertest.Apply(t, config, people).Users {
		name, _, _ := strings.Cut(user.LoginName, "@")
		w.users[name], w.tokens[name] = user, user.Token
	}
	sealer, err := secret.NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	config.Sealer, config.Dev = sealer, &server.Dev{Clock: clock.New()}
	for range 2 {
		config.DB = pgtest.Connect(t, url, 8)
		w.nodes = append(w.nodes, "http://"+servertest.Start(t, config))
	}
	return w
}

func (w *world) now() time.Time { return time.UnixMicro(w.clock.Load()).UTC() }

func (w *world) wait(d time.Duration) { w.clock.Add(d.Microseconds()) }

// call makes a call to a node as a user and returns the status, the reason of a
// refusal, and the answer.
func (w *world) call(node int, as, method, path, body string) (status int, reason string, answer map[string]any) {
	req, err := http.NewRequest(method, w.nodes[node]+path, strings.NewReader(body))
	if err != nil {
		w.Error(err)
		return 0, "", nil
	}
	req.Host = "localhost"
	req.Header.Set("Authorization", "Bearer "+w.tokens[as])
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.Error(err)
		return 0, "", nil
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		w.Error(err)
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		w.Errorf("%s: %v", text, err)
	}
	if details, ok := answer["details"].([]any); ok && res.StatusCode >= 400 {
		reason, _ = details[0].(map[string]any)["reason"].(string)
	}
	return res.StatusCode, reason, answer
}

// want makes a call as the owner that has to end in a certain way: "" is success.
func (w *world) want(reason, method, path, body string, args ...any) map[string]any {
	w.Helper()
	return w.wantAs("owner", reason, method, path, body, args...)
}

func (w *world) wantAs(as, reason, method, path, body string, args ...any) map[string]any {
	w.Helper()
	if len(args) > 0 {
		body = fmt.Sprintf(body, args...)
	}
	status, got, answer := w.call(0, as, method, path, body)
	if got != reason || reason == "" && status >= 300 {
		w.Fatalf("%s %s %s as %s: got %d %q, want %q: %v", method, path, body, as, status, got, reason, answer)
	}
	return answer
}

func (w *world) user(name string) string { return "/v3alpha/users/" + w.users[name].ID }

// addTOTP gives a user a verified authenticator app and returns its secret. The
// step of its code is used up.
func (w *world) addTOTP(name string) (id string, key []byte) {
	w.Helper()
	added := w.want("", "POST", w.user(name)+"/totp", "")
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(added["secret"].(string))
	if err != nil {
		w.Fatal(err)
	}
	id = added["totpId"].(string)
	w.want("", "POST", w.user(name)+"/totp/"+id+"/verify", `{"code":%q}`, secret.TOTP(key, w.now()))
	return id, key
}

const sessions = "/resources/v3alpha/sessions"

func id(answer map[string]any) string { return answer["details"].(map[string]any)["id"].(string) }

// count makes n calls at once, over both nodes, and counts the reasons.
func (w *world) count(n int, call func(node, i int) (int, string, map[string]any)) map[string]int {
	var mu sync.Mutex
	var wg sync.WaitGroup
	counts := map[string]int{}
	for i := range n {
		wg.Go(func() {
			_, reason, _ := call(i%2, i)
			mu.Lock()
			defer mu.Unlock()
			counts[reason]++
		})
	}
	wg.Wait()
	return counts
}

func TestSEC170_WhyACheckFailedIsNotTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.db.Pool.Exec(t.Context(), "UPDATE users SET state = 2 WHERE id = $1", w.users["bob"].ID); err != nil {
		t.Fatal(err)
	}
	answers := map[string]string{}
	for _, test := range []struct{ name, user, password string }{
		{"a wrong password", `"loginName":"alice@a.example"`, "wrong"},
		{"an unknown name", `"loginName":"carol@a.example"`, "correct horse"},
		{"an unknown domain", `"loginName":"alice@b.example"`, "correct horse"},
		{"no domain", `"loginName":"alice"`, "correct horse"},
		{"an unknown ID", `"userId":"nope"`, "correct horse"},
		{"an inactive user", `"loginName":"bob@a.example"`, "correct horse"},
		{"a machine", `"userId":"` + w.users["owner"].ID + `"`, "correct horse"},
	} {
		_, reason, answer := w.call(0, "owner", "POST", sessions, fmt.Sprintf(`{"checks":{"user":{%s},"password":{"password":%q}}}`, test.user, test.password))
		if reason != "CHECK_FAILED" {
			t.Errorf("%s: got %q", test.name, reason)
		}
		text, _ := json.Marshal(answer)
		answers[string(text)] = test.name
	}
	if len(answers) != 1 {
		t.Errorf("the answers differ: %v", answers)
	}
	w.want("", "POST", sessions, `{"checks":{"user":{"loginName":"ALICE@A.example"},"password":{"password":"correct horse"}}}`)
}

func TestREL027_FailedPasswordsAreAllCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	failures := func() (n int) {
		if err := w.db.Pool.QueryRow(t.Context(), "SELECT coalesce(sum(attempts), 0) FROM browser_tries WHERE user_id = $1 AND browser = ''", w.users["alice"].ID).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	const guess = `{"checks":{"user":{"loginName":"alice@a.example"},"password":{"password":%q}}}`
	counts := w.count(8, func(node, i int) (int, string, map[string]any) {
		return w.call(node, "owner", "POST", sessions, fmt.Sprintf(guess, fmt.Sprint("wrong", i)))
	})
	// On a busy machine the chain turns some away before their password is looked
	// at; those that were looked at are counted, each of them.
	looked := counts["CHECK_FAILED"]
	if n := failures(); n != looked || looked < 4 || looked+counts["OVERLOADED"] != 8 {
		t.Errorf("8 guesses at once: counted %d, answered %v", n, counts)
	}
	w.want("", "POST", sessions, guess, "correct horse")
	if n := failures(); n != 0 {
		t.Errorf("after the right one: counted %d", n)
	}
}

func TestSEC176_TriesOfPasswordsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const guess = `{"checks":{"user":{"loginName":"alice@a.example"},"password":{"password":%q}}}`
	for looked := 0; looked < 30; { // over both nodes, as many as get a place
		counts := w.count(10, func(node, i int) (int, string, map[string]any) {
			return w.call(node, "owner", "POST", sessions, fmt.Sprintf(guess, fmt.Sprint("wrong", i)))
		})
		looked += counts["CHECK_FAILED"]
	}
	var n int
	if err := w.db.Pool.QueryRow(t.Context(), "SELECT coalesce(sum(attempts), 0) FROM browser_tries WHERE user_id = $1 AND browser = ''", w.users["alice"].ID).Scan(&n); err != nil || n != 10 {
		t.Errorf("%d were compared, want 10 (%v)", n, err)
	}
	w.want("CHECK_FAILED", "POST", sessions, guess, "correct horse")
	// The other road to the same password counts on the same user (SEC-174).
	w.wantAs("alice", "WRONG_PASSWORD", "POST", "/resources"+w.user("alice")+"/password", `{"plain":"battery staple","currentPassword":"correct horse"}`)
	w.want("", "POST", sessions, strings.Replace(guess, "alice", "bob", 1), "correct horse")
	w.wait(10 * time.Minute) // it ends by itself (SEC-177)
	w.want("", "POST", sessions, guess, "correct horse")
}

func TestSEC178_ATimeStepCountsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, key := w.addTOTP("alice")
	check := fmt.Sprintf(`{"checks":{"user":{"userId":%q},"totp":{"code":"%%s"}}}`, w.users["alice"].ID)
	w.want("CHECK_FAILED", "POST", sessions, check, secret.TOTP(key, w.now())) // it verified the registration
	for range 3 {
		w.wait(time.Minute)
		code := secret.TOTP(key, w.now())
		counts := w.count(8, func(node, _ int) (int, string, map[string]any) {
			return w.call(node, "owner", "POST", sessions, fmt.Sprintf(check, code))
		})
		if counts[""] != 1 || counts["CHECK_FAILED"] != 7 {
			t.Fatalf("8 uses of one code: %v", counts)
		}
		w.wait(11 * time.Minute)
	}
	w.want("", "POST", sessions, check, secret.TOTP(key, w.now().Add(-30*time.Second)))
	w.want("CHECK_FAILED", "POST", sessions, check, secret.TOTP(key, w.now().Add(-60*time.Second)))
	w.want("CHECK_FAILED", "POST", sessions, check, secret.TOTP(key, w.now().Add(-30*time.Second)))
}

func TestSEC175_TriesOfSecondFactorsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, key := w.addTOTP("alice")
	w.wait(time.Minute)
	check := fmt.Sprintf(`{"checks":{"user":{"userId":%q},"totp":{"code":"%%s"}}}`, w.users["alice"].ID)
	w.count(50, func(node, i int) (int, string, map[string]any) {
		return w.call(node, "owner", "POST", sessions, fmt.Sprintf(check, "000000"))
	})
	var n int
	if err := w.db.Pool.QueryRow(t.Context(), "SELECT failed_otp_attempts FROM users WHERE id = $1", w.users["alice"].ID).Scan(&n); err != nil || n != 10 {
		t.Errorf("50 wrong codes at once: %d were looked at, want 10 (%v)", n, err)
	}
	w.want("CHECK_FAILED", "POST", sessions, check, secret.TOTP(key, w.now()))
	w.wait(10 * time.Minute)
	w.want("", "POST", sessions, check, secret.TOTP(key, w.now()))
}

func TestSEC172_CodesOfChallenges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.want("", "POST", w.user("alice")+"/otp_sms", `{"number":"+41791234567","isVerified":true}`)
	begin := func() (path, code string) {
		made := w.want("", "POST", sessions, `{"checks":{"user":{"userId":%q}},"challenges":{"otpSms":{"returnCode":true}}}`, w.users["alice"].ID)
		return sessions + "/" + id(made), made["challenges"].(map[string]any)["otpSms"].(string)
	}
	const check = `{"checks":{"otpSms":{"code":%q}}}`
	path, code := begin()
	other, otherCode := begin()
	w.want("CHECK_FAILED", "PATCH", path, check, otherCode)
	w.want("", "PATCH", path, check, code)
	w.want("CHECK_FAILED", "PATCH", path, check, code) // single use
	w.wait(5 * time.Minute)
	w.want("CHECK_FAILED", "PATCH", other, check, otherCode) // too old

	w.wait(10 * time.Minute)
	path, code = begin()
	counts := w.count(8, func(node, _ int) (int, string, map[string]any) {
		return w.call(node, "owner", "PATCH", path, fmt.Sprintf(check, "wrong"))
	})
	var tries int
	if err := w.db.Pool.QueryRow(t.Context(), "SELECT attempts FROM one_time_codes WHERE subject_id = $1", path[len(sessions)+1:]).Scan(&tries); err != nil || tries != 5 {
		t.Errorf("8 wrong codes at once: %d were looked at, want 5 (%v, %v)", tries, counts, err)
	}
	w.want("CHECK_FAILED", "PATCH", path, check, code)

	w.wait(10 * time.Minute)
	path, code = begin()
	again := w.want("", "PATCH", path, `{"challenges":{"otpSms":{"returnCode":true}}}`)["challenges"].(map[string]any)["otpSms"].(string)
	w.want("CHECK_FAILED", "PATCH", path, check, code) // void by the newer one
	w.want("", "PATCH", path, check, again)
}

func TestATokenIsGoodUntilTheNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.want("", "POST", sessions, `{"checks":{"user":{"loginName":"alice@a.example"}},"lifetime":"60s","metadata":{"a":"YQ==","b":"Yg=="}}`)
	path, token := sessions+"/"+id(made), made["sessionToken"].(string)
	w.wantAs("nobody", "NOT_FOUND", "PATCH", path, `{"sessionToken":"writ_ses_x"}`)
	w.wantAs("nobody", "NOT_FOUND", "PATCH", path, `{}`)
	w.wantAs("alice", "PERMISSION_DENIED", "PATCH", path, `{}`)
	w.want("USER_KNOWN", "PATCH", path, `{"checks":{"user":{"loginName":"bob@a.example"}}}`)
	counts := w.count(8, func(node, _ int) (int, string, map[string]any) {
		return w.call(node, "owner", "PATCH", path, fmt.Sprintf(`{"sessionToken":%q,"metadata":{"a":""}}`, token))
	})
	if counts[""] != 1 || counts["SESSION_TOKEN_INVALID"] != 7 {
		t.Errorf("8 uses of one token: %v", counts)
	}
	w.wantAs("nobody", "NOT_FOUND", "POST", path+"/_prove", `{"sessionToken":%q}`, token)
	token = w.want("", "PATCH", path, `{"checks":{"password":{"password":"correct horse"}}}`)["sessionToken"].(string)
	proven := w.wantAs("nobody", "", "POST", path+"/_prove", `{"sessionToken":%q}`, token)["session"].(map[string]any)
	if metadata := fmt.Sprint(proven["metadata"]); metadata != "map[b:Yg==]" {
		t.Errorf("metadata is %s", metadata)
	}
	if proven["factors"].(map[string]any)["password"] == nil {
		t.Error("the password is not proven")
	}
	w.wantAs("alice", "", "GET", path, "") // one's own
	w.wantAs("nobody", "NOT_FOUND", "GET", path, "")
	if found := w.wantAs("nobody", "", "POST", sessions+"/_search", "[]")["result"].([]any); len(found) != 0 {
		t.Errorf("nobody finds %d sessions", len(found))
	}
	if found := w.wantAs("alice", "", "POST", sessions+"/_search", "[]")["result"].([]any); len(found) != 1 {
		t.Errorf("alice finds %d sessions of hers", len(found))
	}
	w.wait(time.Minute)
	expired := w.want("", "GET", path, "")["session"].(map[string]any)
	if factors := expired["factors"].(map[string]any); expired["state"] != "SESSION_STATE_EXPIRED" || factors["password"] != nil || factors["user"] == nil {
		t.Errorf("an expired session is %v", expired)
	}
	w.want("SESSION_EXPIRED", "PATCH", path, `{"sessionToken":%q,"lifetime":"60s"}`, token)
	w.wantAs("nobody", "", "POST", path+"/_end", `{"sessionToken":%q}`, token)
	w.want("NOT_FOUND", "GET", path, "")
}

func TestChecksNeedTheUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.want("USER_MISSING", "POST", sessions, `{"checks":{"password":{"password":"x"}}}`)
	w.want("USER_MISSING", "POST", sessions, `{"challenges":{"otpSms":{}}}`)
	w.want("AUTHENTICATOR_MISSING", "POST", sessions, `{"checks":{"user":{"loginName":"alice@a.example"}},"challenges":{"otpSms":{}}}`)
	w.wantAs("alice", "PERMISSION_DENIED", "POST", sessions, `{}`)
}

func TestSEC180_NobodyVouchesForThemselves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, how := range []string{`"isVerified":true`, `"returnCode":{}`} {
		w.wantAs("alice", "PERMISSION_DENIED", "POST", w.user("alice")+"/otp_sms", `{"number":"+41791234567",%s}`, how)
		w.wantAs("alice", "PERMISSION_DENIED", "POST", w.user("alice")+"/otp_email", `{"address":"alice@b.example",%s}`, how)
	}
	if n := messages(w); n != 0 {
		t.Fatalf("%d messages were sent", n)
	}
	w.wantAs("alice", "", "POST", w.user("alice")+"/otp_sms", `{"number":"+41791234567"}`)
	if n := messages(w); n != 1 {
		t.Errorf("%d messages were queued, want 1", n)
	}
}

func messages(w *world) (n int) {
	if err := w.db.Pool.QueryRow(w.Context(), "SELECT count(*) FROM messages").Scan(&n); err != nil {
		w.Fatal(err)
	}
	return n
}

func TestSEC181_AnAuthenticatorIsFoundOnlyUnderItsUserAndType(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	totp, _ := w.addTOTP("alice")
	sms := w.want("", "POST", w.user("alice")+"/otp_sms", `{"number":"+41791234567","returnCode":{}}`)
	at, code := sms["otpSmsId"].(string), sms["verificationCode"].(string)
	w.want("NOT_FOUND", "DELETE", w.user("bob")+"/totp/"+totp, "")
	w.want("NOT_FOUND", "DELETE", w.user("alice")+"/otp_sms/"+totp, "")
	w.wantAs("nobody", "NOT_FOUND", "DELETE", w.user("alice")+"/totp/"+totp, "")
	w.want("NOT_FOUND", "POST", w.user("bob")+"/otp_sms/"+at+"/verify", `{"code":%q}`, code)
	w.want("NOT_FOUND", "POST", w.user("alice")+"/otp_email/"+at+"/verify", `{"code":%q}`, code)
	w.want("USER_NOT_HUMAN", "POST", w.user("owner")+"/totp", "")
	w.want("AUTHENTICATOR_EXISTS", "POST", w.user("alice")+"/totp", "")
	w.want("", "POST", w.user("alice")+"/otp_sms/"+at+"/verify", `{"code":%q}`, code)
	w.want("ALREADY_VERIFIED", "POST", w.user("alice")+"/otp_sms/"+at+"/verify", `{"code":%q}`, code)
	w.wantAs("alice", "", "DELETE", w.user("alice")+"/totp/"+totp, "")
}

// TestSEC325_NoSecretIsStoredInClear looks for what was shown once in all that the
// database holds of it.
func TestSEC325_NoSecretIsStoredInClear(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, key := w.addTOTP("alice")
	code := w.want("", "POST", w.user("alice")+"/otp_sms", `{"number":"+41791234567","returnCode":{}}`)["verificationCode"].(string)
	token := w.want("", "POST", sessions, `{"checks":{"user":{"loginName":"alice@a.example"}}}`)["sessionToken"].(string)
	for _, table := range []string{"events", "authenticators", "sessions", "one_time_codes", "users", "messages"} {
		var text string
		if err := w.db.Pool.QueryRow(t.Context(), "SELECT coalesce(string_agg(t::text, E'\\n'), '') FROM "+table+" t").Scan(&text); err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"TOTP secret": fmt.Sprintf("%x", key), "secret's text": secret.TOTPText(key), "code": `"` + code + `"`, "token": token} {
			if strings.Contains(text, value) {
				t.Errorf("%s holds the %s", table, name)
			}
		}
	}
}

func TestSEC178_OfTwoUsesOfATimeStepOneWinsAThousandTimes(t *testing.T) {
	t.Parallel()
	rounds := 1000
	if testing.Short() {
		rounds = 50
	}
	w := newWorld(t)
	_, key := w.addTOTP("alice")
	for round := range rounds {
		w.wait(time.Minute)
		body := fmt.Sprintf(`{"checks":{"user":{"userId":%q},"totp":{"code":%q}}}`, w.users["alice"].ID, secret.TOTP(key, w.now()))
		counts := w.count(2, func(node, _ int) (int, string, map[string]any) { return w.call(node, "owner", "POST", sessions, body) })
		if counts[""] != 1 || counts["CHECK_FAILED"] != 1 {
			t.Fatalf("round %d: two uses of one code, one a node: %v", round, counts)
		}
	}
}

// The password of a system from which users came, whose hash costs little: the race
// is for the counter.
const cheapHash = "$2a$04$5bD5.wFw7MZvBYbkyXzCFuhc8oQ6Iw.cXO0K5vSNvGCqUEbDhqzE."

func TestREL027_NoTryBeyondTheTenthIsLookedAtAHundredTimes(t *testing.T) {
	t.Parallel()
	rounds := 100 // of ten tries that count and two that come too late
	if testing.Short() {
		rounds = 5
	}
	w := newWorld(t)
	if _, err := w.db.Pool.Exec(t.Context(), "UPDATE users SET password_hash = $1 WHERE id = $2", cheapHash, w.users["alice"].ID); err != nil {
		t.Fatal(err)
	}
	const guess = `{"checks":{"user":{"loginName":"alice@a.example"},"password":{"password":%q}}}`
	for round := range rounds {
		counts := w.count(12, func(node, i int) (int, string, map[string]any) {
			return w.call(node, "owner", "POST", sessions, fmt.Sprintf(guess, fmt.Sprint("wrong", i)))
		})
		var n int
		if err := w.db.Pool.QueryRow(t.Context(), "SELECT coalesce(sum(attempts), 0) FROM browser_tries WHERE user_id = $1 AND browser = ''", w.users["alice"].ID).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if looked := counts["CHECK_FAILED"]; n != min(looked, 10) || counts[""] != 0 {
			t.Fatalf("round %d: counted %d of %v", round, n, counts)
		}
		w.wait(11 * time.Minute)
	}
}

// TestSEC176_RightPasswordsDoNotUseUpTheTries: however many are given at the same time.
func TestSEC176_RightPasswordsDoNotUseUpTheTries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	counts := w.count(40, func(node, _ int) (int, string, map[string]any) {
		for { // as many as may wait for the hash are no matter of this test
			status, reason, answer := w.call(node, "owner", "POST", sessions, `{"checks":{"user":{"loginName":"bob@a.example"},"password":{"password":"correct horse"}}}`)
			if status != http.StatusServiceUnavailable {
				return status, reason, answer
			}
		}
	})
	if counts[""] != 40 {
		t.Errorf("40 right passwords: %v", counts)
	}
}

// TestREL027_ASessionOfAUserWhoIsDeletedIsRemoved: no key of the table refers to users or
// instances, which every log-in would lock; those who are deleted take their sessions along,
// with events, also one that is begun at the same time.
func TestREL027_ASessionOfAUserWhoIsDeletedIsRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const in = `{"checks":{"user":{"loginName":"alice@a.example"},"password":{"password":"correct horse"}}}`
	w.want("", "POST", sessions, in)
	begun := make(chan map[string]int)
	go func() {
		begun <- w.count(8, func(node, _ int) (int, string, map[string]any) { return w.call(node, "owner", "POST", sessions, in) })
	}()
	w.want("", "DELETE", "/resources"+w.user("alice"), "")
	for reason := range <-begun {
		if reason != "" && reason != "CHECK_FAILED" && reason != "OVERLOADED" {
			t.Errorf("a session that was begun meanwhile: %s", reason)
		}
	}
	value := func(sql string, args ...any) (n int) {
		if err := w.db.Pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := value("SELECT count(*) FROM sessions WHERE user_id = $1", w.users["alice"].ID); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
	added, ended := value("SELECT count(*) FROM events WHERE event_type = 'session.user.checked' AND owner_id = $1", w.users["alice"].OrgID), value("SELECT count(*) FROM events WHERE event_type = 'session.terminated'")
	if added == 0 || ended != added {
		t.Errorf("%d sessions were begun, %d have an event that says that they ended", added, ended)
	}
	// Of an instance, too, and those of nobody.
	w.want("", "POST", sessions, `{}`)
	w.want("", "POST", sessions, strings.Replace(in, "alice", "bob", 1))
	if _, err := w.db.Pool.Exec(t.Context(), "DELETE FROM instances WHERE id = $1", w.users["bob"].InstanceID); err != nil {
		t.Fatal(err)
	}
	if n := value("SELECT count(*) FROM sessions"); n != 0 {
		t.Errorf("%d sessions are left of an instance", n)
	}
}
