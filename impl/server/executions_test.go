package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/core/outgoing"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/webhook"
	"github.com/writ-id/writ/impl/server"
	"github.com/writ-id/writ/impl/server/servertest"
)

// world is a cluster whose tenants have receivers.
type world struct {
	*servertest.Cluster
}

func newWorld(t *testing.T, nodes int) *world {
	t.Helper()
	key, err := secret.NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	return &world{servertest.New(t, nodes, func(c *server.Config) {
		c.Sealer = key
		c.Outgoing.Allow = outgoing.Loopback
	})}
}

// receiver is a target that answers what a test has it answer.
type receiver struct {
	id, key, url string

	mu     sync.Mutex
	got    []call
	answer func(call) (int, string)
}

// call is one that a receiver got.
type call struct {
	header http.Header
	body   string
	member map[string]any
}

// receiver registers a target; kind has its type and execution type.
func (w *world) receiver(name, kind string, answer func(call) (int, string)) *receiver {
	w.Helper()
	r := &receiver{answer: answer}
	s := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		body, _ := io.ReadAll(in.Body)
		c := call{header: in.Header, body: string(body)}
		_ = json.Unmarshal(body, &c.member)
		r.mu.Lock()
		r.got = append(r.got, c)
		r.mu.Unlock()
		status, text := r.answer(c)
		out.WriteHeader(status)
		_, _ = io.WriteString(out, text)
	}))
	w.Cleanup(s.Close)
	r.url = s.URL
	got := w.Must("owner", http.MethodPost, "/resources/v3alpha/targets", fmt.Sprintf(`{"name":%q,"timeout":"5s",%s}`, name, fmt.Sprintf(kind, s.URL)))
	var made struct {
		SigningKey string
	}
	if err := json.Unmarshal([]byte(got.Body), &made); err != nil {
		w.Fatal(err)
	}
	r.id, r.key = servertest.ID(w.T, got), made.SigningKey
	return r
}

func (r *receiver) calls() []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]call{}, r.got...)
}

const (
	interrupting = `"restRequestResponse":{"url":"%s"},"interruptOnError":true`
	answering    = `"restRequestResponse":{"url":"%s"}`
	hook         = `"restWebhook":{"url":"%s"}`
	strictHook   = `"restWebhook":{"url":"%s"},"interruptOnError":true`
	asyncHook    = `"restWebhook":{"url":"%s"},"isAsync":true`
)

// on puts an execution.
func (w *world) on(condition string, targets ...*receiver) {
	w.Helper()
	ids := []string{}
	for _, target := range targets {
		ids = append(ids, target.id)
	}
	list, _ := json.Marshal(ids)
	w.Must("owner", http.MethodPost, "/resources/v3alpha/executions", fmt.Sprintf(`{"condition":%s,"targets":%s}`, condition, list))
}

func ok(body string) func(call) (int, string) { return func(call) (int, string) { return 200, body } }

const createProject = `"method":"/writ.project.v3alpha.ServiceProjects/CreateProject"`

func TestARequestGoesThroughTheTargetOfItsMostSpecificExecution(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	renames := w.receiver("renames", interrupting, func(c call) (int, string) {
		request := c.member["request"].(map[string]any)
		project := request["project"].(map[string]any)
		project["name"] = "called " + project["name"].(string)
		text, _ := json.Marshal(request)
		return 200, string(text)
	})
	others, service := w.receiver("others", strictHook, ok("")), w.receiver("service", strictHook, ok(""))
	w.on(`{"request":{"all":true}}`, others)
	w.on(`{"request":{"service":"writ.project.v3alpha.ServiceProjects"}}`, service)
	w.on(`{"request":{`+createProject+`}}`, renames)

	id := w.Create("owner", projects, `{"name":"one"}`)
	if got := w.Must("orgowner", http.MethodGet, projects+"/"+id, ""); !strings.Contains(got.Body, `"called one"`) {
		t.Errorf("got %s, want the name that the target gave", got.Body)
	}
	calls := renames.calls()
	if len(calls) != 1 {
		t.Fatalf("the target was called %d times, want once", len(calls))
	}
	for member, want := range map[string]string{"fullMethod": "/writ.project.v3alpha.ServiceProjects/CreateProject", "instanceID": "", "userID": "", "orgID": ""} {
		if got, _ := calls[0].member[member].(string); got == "" || want != "" && got != want {
			t.Errorf("%s is %q", member, got)
		}
	}
	verify(t, renames, calls[0])
	// Putting the two other executions was a call of another service, reading one of this.
	if len(others.calls()) != 2 || len(service.calls()) != 1 {
		t.Errorf("the targets of the others were called %d and %d times, want twice and once", len(others.calls()), len(service.calls()))
	}
}

// verify checks a signature as a receiver does.
func verify(t *testing.T, r *receiver, c call) {
	t.Helper()
	key, err := webhook.ParseKey(r.key)
	if err != nil {
		t.Fatalf("%v: %q", err, r.key)
	}
	var at int64
	_, _ = fmt.Sscan(c.header.Get("webhook-timestamp"), &at)
	if want := webhook.Sign(key, c.header.Get("webhook-id"), time.Unix(at, 0), []byte(c.body)); c.header.Get("webhook-signature") != want {
		t.Errorf("the signature is %q, want %q", c.header.Get("webhook-signature"), want)
	}
}

func TestWhatATargetMakesOfARequestPassesTheRulesAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	bad := w.receiver("bad", interrupting, nil)
	w.on(`{"request":{`+createProject+`}}`, bad)
	for _, answer := range []string{
		`{}`, `{"project":{"name":""}}`, `{"project":{"name":"x","unknown":1}}`, `{"project":{"name":"x"},"unknown":1}`,
		`{"project":{"name":"` + strings.Repeat("x", 3000) + `"}}`, `{"project":{"name":"x"}` + strings.Repeat(" ", 1<<20) + `}`, `no JSON`, `[]`, `{"project":{"name":"a\u0000b"}}`,
	} {
		bad.answer = ok(answer)
		w.Refused("owner", http.MethodPost, projects, `{"name":"p"}`, 400, "EXECUTION_FAILED")
	}
	lenient := w.receiver("lenient", answering, ok(`{"project":{"name":""}}`))
	w.on(`{"request":{`+createProject+`}}`, lenient)
	id := w.Create("owner", projects, `{"name":"stays"}`)
	if got := w.Must("owner", http.MethodGet, projects+"/"+id, ""); !strings.Contains(got.Body, `"stays"`) {
		t.Errorf("got %s, want the request as it was: the target does not interrupt", got.Body)
	}
	// Not to another organization than the one that was asked for.
	other := w.Org("A2")
	bad.answer = ok(`{"project":{"name":"moved"},"ctx":{"orgId":"` + other + `"}}`)
	w.on(`{"request":{`+createProject+`}}`, bad)
	w.Refused("owner", http.MethodPost, projects, `{"name":"p"}`, 400, "EXECUTION_FAILED")
}

func TestATargetRefusesWithAStatusOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	r := w.receiver("r", interrupting, ok(`{"forwardedStatusCode":451,"forwardedErrorMessage":"not in this country"}`))
	w.on(`{"request":{`+createProject+`}}`, r)
	w.Refused("owner", http.MethodPost, projects, `{"name":"p"}`, 451, "EXECUTION_REFUSED")
	r.answer = ok(`{"forwardedStatusCode":302,"forwardedErrorMessage":"away"}`)
	w.Refused("owner", http.MethodPost, projects, `{"name":"p"}`, 400, "EXECUTION_FAILED")
	r.answer = func(call) (int, string) { return 500, "" }
	got := w.Do("owner", http.MethodPost, projects, `{"name":"p"}`)
	w.IsRefused(got, "a failing target", 400, "EXECUTION_FAILED")
	if !strings.Contains(got.Body, r.id) || !strings.Contains(got.Body, "FAILED_PRECONDITION") && !strings.Contains(got.Body, `"code":9`) {
		t.Errorf("the refusal does not name the target: %s", got.Body)
	}
}

func TestSecretsNeverLeaveAndAreNotSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	r := w.receiver("r", interrupting, func(c call) (int, string) {
		message, ok := c.member["response"]
		if !ok {
			message = c.member["request"]
		}
		text, _ := json.Marshal(message)
		return 200, string(text)
	})
	w.on(`{"request":{"all":true}}`, r)
	w.on(`{"response":{"all":true}}`, r)
	got := w.Must("owner", http.MethodPost, "/resources/v3alpha/targets", `{"name":"other","timeout":"5s","restWebhook":{"url":"https://a.example"}}`)
	var made struct{ SigningKey string }
	_ = json.Unmarshal([]byte(got.Body), &made)
	if made.SigningKey == "" {
		t.Fatalf("the caller does not get the key: %s", got.Body)
	}
	user := w.Create("owner", "/resources/v3alpha/users", `{"username":"eve","human":{"profile":{"givenName":"E","familyName":"V"},"email":{"address":"eve@example.com","isVerified":true},"password":{"plain":"Correct-horse-9-battery"}}}`)
	session := w.Must("owner", http.MethodPost, "/resources/v3alpha/sessions", `{"checks":{"user":{"userId":"`+user+`"},"password":{"password":"Correct-horse-9-battery"}}}`)
	var token struct{ SessionToken string }
	_ = json.Unmarshal([]byte(session.Body), &token)
	if token.SessionToken == "" {
		t.Fatalf("no session token: %s", session.Body)
	}
	for _, call := range r.calls() {
		for _, secret := range []string{made.SigningKey, "Correct-horse-9-battery", token.SessionToken} {
			if strings.Contains(call.body, secret) {
				t.Errorf("a secret is in %s", call.body)
			}
		}
	}
	r.answer = ok(`{"checks":{"user":{"userId":"` + user + `"},"password":{"password":"Correct-horse-9-battery"}}}`)
	w.Refused("owner", http.MethodPost, "/resources/v3alpha/sessions", `{"checks":{"user":{"userId":"`+user+`"}}}`, 400, "EXECUTION_FAILED")
}

func TestAnOwnerIsNeverLockedOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	r := w.receiver("r", strictHook, func(call) (int, string) { return 500, "" })
	w.on(`{"request":{"all":true}}`, r)
	w.Refused("owner", http.MethodDelete, "/resources/v3alpha/executions/request", "", 400, "EXECUTION_FAILED")
	skip := func(user, method, path string) servertest.Reply {
		return w.With(http.Header{"Writ-Skip-Executions": {"true"}}).Do(user, method, path, "")
	}
	w.IsRefused(skip("owner", http.MethodGet, projects+"/x"), "not of the actions", 400, "EXECUTION_FAILED")
	w.IsRefused(skip("manager", http.MethodGet, "/resources/v3alpha/executions/methods"), "not an owner", 403, "PERMISSION_DENIED")
	if got := skip("owner", http.MethodDelete, "/resources/v3alpha/executions/request"); got.Status != 200 {
		t.Fatalf("got %d %s", got.Status, got.Body)
	}
	if got := w.Value("SELECT payload ->> 'method' FROM events WHERE event_type = 'execution.skipped'"); got != "/writ.action.v3alpha.ServiceActions/DeleteExecution" {
		t.Errorf("the audit trail says %q", got)
	}
	w.Must("owner", http.MethodPost, projects, `{"name":"free"}`)
}

func TestAResponseGoesThroughItsTarget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	id := w.Create("owner", projects, `{"name":"p"}`)
	r := w.receiver("r", interrupting, func(c call) (int, string) {
		text, _ := json.Marshal(c.member["response"])
		return 200, strings.Replace(string(text), `"name":"p"`, `"name":"seen"`, 1)
	})
	w.on(`{"response":{"service":"writ.project.v3alpha.ServiceProjects"}}`, r)
	if got := w.Must("owner", http.MethodGet, projects+"/"+id, ""); !strings.Contains(got.Body, `"seen"`) {
		t.Errorf("got %s", got.Body)
	}
	r.answer = ok(`{}`) // without what the contract asks of an answer
	w.Refused("owner", http.MethodGet, projects+"/"+id, "", 400, "EXECUTION_FAILED_AFTER_CALL")
}

func TestNobodyWaitsForAnAsyncTarget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	free, called := make(chan struct{}), make(chan struct{}, 1)
	r := w.receiver("r", asyncHook, func(call) (int, string) {
		called <- struct{}{}
		<-free
		return 500, ""
	})
	w.on(`{"request":{`+createProject+`}}`, r)
	w.Create("owner", projects, `{"name":"p"}`) // while the target holds its answer back
	<-called
	close(free)
}

func TestREL070_ANodeThatEndsWaitsForAsyncTargets(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	const n = 20
	begun, free := make(chan struct{}, n), make(chan struct{})
	r := w.receiver("r", asyncHook, func(call) (int, string) {
		begun <- struct{}{}
		<-free
		return 200, ""
	})
	w.on(`{"request":{`+createProject+`}}`, r)
	address, end := servertest.StartNode(t, w.Env)
	w.Nodes = append(w.Nodes, "http://"+address)
	for i := range n {
		if got := w.Call(1, "a.example", "owner", http.MethodPost, projects, fmt.Sprintf(`{"name":"p%d"}`, i)); got.Status != 201 {
			t.Fatalf("got %d %s", got.Status, got.Body)
		}
	}
	ended := make(chan struct{})
	go func() { end(); close(ended) }()
	for range n { // also those that had not begun when the node was told to end
		<-begun
	}
	select {
	case <-ended:
		t.Error("the node ended while its calls were under way")
	default:
	}
	close(free)
	<-ended
}

func TestSEC221_WhoWaitsForTargetsHoldsNoPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	const waiting = 40 // more than a node runs at once
	free := make(chan struct{})
	var arrived sync.WaitGroup
	arrived.Add(waiting)
	r := w.receiver("r", strictHook, func(call) (int, string) {
		arrived.Done()
		<-free
		return 200, ""
	})
	w.on(`{"request":{`+createProject+`}}`, r)
	var done sync.WaitGroup
	for i := range waiting {
		done.Go(func() {
			if got := w.Do("owner", http.MethodPost, projects, fmt.Sprintf(`{"name":"p%d"}`, i)); got.Status != 201 {
				t.Errorf("got %d %s", got.Status, got.Body)
			}
		})
	}
	arrived.Wait()
	w.Must("owner", http.MethodPost, "/resources/v3alpha/targets/_search", `[]`)
	close(free)
	done.Wait()
}

func TestRightsThatEndWhileATargetIsAskedAreGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	free, called := make(chan struct{}), make(chan struct{}, 1)
	r := w.receiver("r", strictHook, func(call) (int, string) {
		called <- struct{}{}
		<-free
		return 200, ""
	})
	w.on(`{"request":{`+createProject+`}}`, r)
	answered := make(chan servertest.Reply)
	go func() { answered <- w.Call(1, "a.example", "orgowner", http.MethodPost, projects, `{"name":"p"}`) }()
	<-called
	w.Must("owner", http.MethodPost, "/resources/v3alpha/users/"+w.User("orgowner")+"/_deactivate", "")
	time.Sleep(1100 * time.Millisecond) // what is remembered is a second old at most (REL-063)
	close(free)
	if got := <-answered; got.Status != 401 {
		t.Errorf("got %d %s, want 401: the user was deactivated", got.Status, got.Body)
	}
}

// TestSEC206_ATargetDoesNotSendASecretElsewhere has a target answer the request for a provider
// with another issuer: the secret, which it was not told, would go there.
func TestSEC206_ATargetDoesNotSendASecretElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	var mu sync.Mutex
	change := ""
	r := w.receiver("redirecting", interrupting, func(c call) (int, string) {
		mu.Lock()
		defer mu.Unlock()
		request, _ := json.Marshal(c.member["request"])
		old, changed, _ := strings.Cut(change, " -> ")
		return http.StatusOK, strings.Replace(string(request), old, changed, 1)
	})
	w.on(`{"request":{"service":"writ.idp.v3alpha.ServiceIdentityProviders"}}`, r)
	w.on(`{"request":{"service":"writ.smtp.v3alpha.ServiceSMTPProviders"}}`, r)
	const providers = "/resources/v3alpha/idps/oidc"
	create := `{"idp":{"name":"n"},"config":{"issuer":"https://ours.example","clientId":"c","clientSecret":"kept"}}`
	set := func(to string) {
		mu.Lock()
		defer mu.Unlock()
		change = to
	}
	set(`"name":"n" -> "name":"renamed"`)
	made := w.Create("owner", providers, create)
	if got := w.Do("owner", http.MethodGet, providers+"/"+made, ""); !strings.Contains(got.Body, "renamed") {
		t.Errorf("what steers nothing is not changed: %s", got.Body)
	}
	set(`ours.example -> theirs.example`)
	w.Refused("owner", http.MethodPost, providers, create, http.StatusBadRequest, "EXECUTION_FAILED")
	set(`"config":{ -> "config":{"issuer":"https://theirs.example",`)
	w.Refused("owner", http.MethodPatch, providers+"/"+made, `{"config":{"clientSecret":"kept"}}`, http.StatusBadRequest, "EXECUTION_FAILED")
	set(`mail.ours -> mail.theirs`)
	w.Refused("owner", http.MethodPost, "/resources/v3alpha/smtp_providers",
		`{"name":"m","senderAddress":"a@ours.example","smtp":{"host":"mail.ours.example:465","user":"u","password":"kept"}}`, http.StatusBadRequest, "EXECUTION_FAILED")
	if got := w.Value("SELECT count(*)::text FROM idps WHERE issuer LIKE '%theirs%'"); got != "0" {
		t.Errorf("%s providers are theirs", got)
	}
	// Nor does it say who may set a password anew that it was not told, or for which user it is. What
	// the user is called it may say: that gives nobody the password.
	w.on(`{"request":{"method":"/writ.user.v3alpha.ServiceUsers/CreateUser"}}`, r)
	const users = "/resources/v3alpha/users"
	user := func(name, password string) string {
		return `{"username":"` + name + `","human":{"profile":{"givenName":"G"},"email":{"address":"ours@a.example"}` + password + `}}`
	}
	const kept = `,"password":{"plain":"battery staple"}`
	for _, change := range []string{`ours@a.example -> theirs@a.example`, `"username" -> "id":"theirs","username"`} {
		set(change)
		w.Refused("owner", http.MethodPost, users, user("one", kept), http.StatusBadRequest, "EXECUTION_FAILED")
	}
	set(`"username":"one -> "username":"two`)
	w.Create("owner", users, user("one", kept))
	set(`ours@a.example -> theirs@a.example`)
	w.Create("owner", users, user("three", "")) // there is nothing to be given away
	if got := w.Value("SELECT string_agg(username || ' ' || email, ', ' ORDER BY username) FROM users WHERE username IN ('one', 'two', 'three')"); got != "three theirs@a.example, two ours@a.example" {
		t.Errorf("got %s", got)
	}
}

// TestREL020_AnExecutionCallsSoManyTargetsAtMost adds includes and targets until they are
// too many, from above and from below.
func TestREL020_AnExecutionCallsSoManyTargetsAtMost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	id := w.receiver("one", hook, ok("")).id
	times := func(n int, text string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(`"`+text+`",`, n), ",") + "]"
	}
	put := func(event string, targets int, includes string) string {
		return fmt.Sprintf(`{"condition":{"event":{"event":%q}},"targets":%s,"includes":%s}`, event, times(targets, id), includes)
	}
	w.Must("owner", http.MethodPost, "/resources/v3alpha/executions", put("user.removed", 50, "[]"))
	w.Must("owner", http.MethodPost, "/resources/v3alpha/executions", put("user.locked", 0, times(2, "event.user.removed")))
	w.Must("owner", http.MethodPost, "/resources/v3alpha/executions", put("user.unlocked", 100, `["event.user.locked"]`)) // 200
	w.Refused("owner", http.MethodPost, "/resources/v3alpha/executions", put("user.deactivated", 1, `["event.user.unlocked"]`), http.StatusBadRequest, "TOO_MANY_TARGETS")
	w.Refused("owner", http.MethodPost, "/resources/v3alpha/executions", put("user.removed", 51, "[]"), http.StatusBadRequest, "TOO_MANY_TARGETS")
	w.Refused("owner", http.MethodPost, "/resources/v3alpha/executions", put("user.locked", 1, times(2, "event.user.removed")), http.StatusBadRequest, "TOO_MANY_TARGETS")
	w.Must("owner", http.MethodPost, "/resources/v3alpha/executions", put("user.removed", 49, "[]"))
	w.Must("owner", http.MethodPost, "/resources/v3alpha/executions", put("user.locked", 1, times(2, "event.user.removed")))
}

// TestREL020_WhoIsStoppedLearnsWhetherTheCallWasDone, and how to get by.
func TestREL020_WhoIsStoppedLearnsWhetherTheCallWasDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	broken := w.receiver("broken", strictHook, func(call) (int, string) { return http.StatusInternalServerError, "" })
	w.on(`{"response":{`+createProject+`}}`, broken)
	got := w.Do("owner", http.MethodPost, "/resources/v3alpha/projects", `{"name":"done"}`)
	if !strings.Contains(got.Body, `"reason":"EXECUTION_FAILED_AFTER_CALL"`) || !strings.Contains(got.Body, "the call was done") || strings.Contains(got.Body, policy.SkipHeader) {
		t.Errorf("got %d %s", got.Status, got.Body)
	}
	if n := w.Value("SELECT count(*)::text FROM projects WHERE name = 'done'"); n != "1" {
		t.Errorf("%s projects were made", n)
	}
	w.on(`{"request":{"all":true}}`, broken)
	got = w.Do("owner", http.MethodGet, "/resources/v3alpha/targets/"+broken.id, "")
	if !strings.Contains(got.Body, `"reason":"EXECUTION_FAILED"`) || !strings.Contains(got.Body, policy.SkipHeader) {
		t.Errorf("an owner: got %d %s", got.Status, got.Body)
	}
}
