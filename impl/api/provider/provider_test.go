package provider_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/writ-id/writ/impl/core/courier/smtptest"
	"github.com/writ-id/writ/impl/core/outgoing"
	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/server"
	"github.com/writ-id/writ/impl/server/servertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	smtps    = "/resources/v3alpha/smtp_providers"
	texts    = "/resources/v3alpha/sms_providers"
	messages = "/resources/v3alpha/messages"
	canary   = "canary-5310"
)

// world is some nodes that may call this machine, and the mail servers that they know.
type world struct {
	*servertest.Cluster
	moved atomic.Int64
}

// newWorld starts nodes. origins stand in for those of others.
func newWorld(t *testing.T, nodes int, origins map[string]string, servers ...*smtptest.Server) *world {
	t.Helper()
	w := &world{}
	for _, s := range servers {
		s.Roots = servers[0].Roots
		s.Start(t)
		servers[0].Roots = s.Roots
	}
	w.Cluster = servertest.New(t, nodes, func(c *server.Config) {
		c.Inbox = false
		c.Outgoing = outgoing.Config{Allow: outgoing.Loopback, Origins: origins}
		if len(servers) > 0 {
			c.Outgoing.Roots = servers[0].Roots
		}
		c.Now = func() time.Time {
			return time.Now().Add(time.Duration(w.moved.Load())).UTC().Truncate(time.Microsecond)
		}
	})
	return w
}

// mailing is a mail server that asks for a password.
func mailing() *smtptest.Server {
	return &smtptest.Server{StartTLS: true, Mechanisms: []string{"PLAIN"}, User: "user", Password: canary}
}

// smtpBody is a request that makes a provider of a mail server.
func smtpBody(name string, s *smtptest.Server) string {
	return fmt.Sprintf(`{"name":%q,"senderAddress":"no-reply@sender.example","senderName":"Sender","smtp":{"host":%q,"user":"user","password":%q}}`, name, s.Address, canary)
}

// in is the cluster with calls about a context that the request names.
func (w *world) in(context string) *servertest.Cluster {
	return w.With(http.Header{"Writ-Context": {context}})
}

func (w *world) make(user, path, body string) string {
	w.Helper()
	return w.Create(user, path, body)
}

// human makes a user of an organization.
func (w *world) human(org string) string {
	w.Helper()
	return w.Create("owner", "/resources/v3alpha/users?ctx.orgId="+w.Org(org), `{"username":"u`+fmt.Sprint(time.Now().UnixNano())+`","human":{"profile":{"givenName":"Ada","familyName":"L"}}}`)
}

// asks has a code sent to an address of a user.
func (w *world) asks(user, address string) servertest.Reply {
	w.Helper()
	return w.Do("owner", "POST", "/v3alpha/users/"+user+"/otp_email", fmt.Sprintf(`{"address":%q,"sendCode":{}}`, address))
}

// until waits for something that nodes do unasked.
func (w *world) until(what string, is func() bool) {
	w.Helper()
	for deadline := time.Now().Add(60 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("it never came to that: %s; messages: %s", what, w.Value(
				"SELECT coalesce(string_agg(m.recipient || ' ' || m.state || ' ' || m.dead_reason || ' ' || coalesce((SELECT string_agg(a.error, ',') FROM delivery_attempts a WHERE a.delivery = m.id), ''), '; '), '') FROM messages m"))
		}
	}
}

func TestSEC310_SecretsOfProvidersAreSealedAndNeverShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, nil)
	made := w.Must("owner", "POST", smtps, `{"name":"Mail","description":"Ours","senderAddress":"a@b.example","smtp":{"host":"mail.b.example:587","user":"u","password":"`+canary+`-1","auth":"AUTH_MECHANISM_XOAUTH2",
		"oauth":{"tokenEndpoint":"https://b.example/token","clientId":"c","clientSecret":"`+canary+`-2","scopes":["s"]}}}`)
	id := servertest.ID(t, made)
	endpoint := w.Must("owner", "POST", smtps, `{"name":"Hook","senderAddress":"a@b.example","http":{"endpoint":"https://b.example/mail"}}`)
	account := w.Must("owner", "POST", texts, `{"name":"Twilio","twilio":{"sid":"AC00000000000000000000000000000000","token":"`+canary+`-3","senderNumber":"+41790000000"}}`)
	if made.Status != 201 || !strings.HasPrefix(endpoint.Any(t)["signingKey"].(string), "whsec_") {
		t.Errorf("got %d and %s", made.Status, endpoint.Body)
	}
	for path, wants := range map[string][]string{
		smtps + "/" + id:                         {`"state":"EFFECTIVE_STATE_INACTIVE"`, `"statePolicy":"STATE_POLICY_DEACTIVATE"`, `"host":"mail.b.example:587"`, `"description":"Ours"`, `"clientId":"c"`},
		smtps + "/" + servertest.ID(t, endpoint): {`"endpoint":"https://b.example/mail"`},
		texts + "/" + servertest.ID(t, account):  {`"sid":"AC0`, `"senderNumber":"+41790000000"`},
	} {
		got := w.Must("owner", "GET", path, "").Body
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("%s is not in %s", want, got)
			}
		}
		for _, secret := range []string{canary, "assword", "lientSecret", `"token"`, "ignin", "parent"} {
			if strings.Contains(got, secret) {
				t.Errorf("%s is in %s", secret, got)
			}
		}
	}
	if got := w.Must("owner", "POST", smtps+"/_search", "[]"); len(got.List(t, "result")) != 2 || strings.Contains(got.Body, canary) {
		t.Errorf("found %s", got.Body)
	}
	for _, column := range []string{"smtp_providers.password", "smtp_providers.client_secret", "smtp_providers.signing_key", "sms_providers.token"} {
		table, column, _ := strings.Cut(column, ".")
		if got := w.Value("SELECT count(*) FILTER (WHERE length(" + column + ") > 40 AND position('canary'::bytea in " + column + ") = 0)::text FROM " + table); got != "1" {
			t.Errorf("%s sealed values in %s.%s", got, table, column)
		}
	}
	// Who changes where they go has to know them (SEC-206).
	for _, body := range []string{`{"smtp":{"host":"evil.example:587"}}`, `{"smtp":{"oauth":{"tokenEndpoint":"https://evil.example/"}}}`} {
		w.Refused("owner", "PATCH", smtps+"/"+id, body, 400, "SECRET_REQUIRED")
	}
	w.Refused("owner", "PATCH", texts+"/"+servertest.ID(t, account), `{"twilio":{"sid":"AC00000000000000000000000000000001"}}`, 400, "SECRET_REQUIRED")
	w.Must("owner", "PATCH", smtps+"/"+id, `{"smtp":{"host":"mail2.b.example:587","password":"`+canary+`-4"}}`)
	sequence := func() string {
		return fmt.Sprint(w.Must("owner", "GET", smtps+"/"+id, "").Object(t, "provider")["details"])
	}
	before := sequence()
	w.Must("owner", "PATCH", smtps+"/"+id, `{"smtp":{"password":"`+canary+`-4"}}`)
	if after := sequence(); after != before {
		t.Errorf("the same secret again is a change: %s, then %s", before, after)
	}
	w.Refused("owner", "PATCH", smtps+"/"+id, `{"http":{"endpoint":"https://b.example/"}}`, 400, "PROVIDER_TYPE_FIXED")
	if got := w.Value("SELECT count(*)::text FROM events WHERE payload::text LIKE '%" + canary + "%' OR payload::text LIKE '%whsec%'"); got != "0" {
		t.Errorf("%s events have a secret", got)
	}
	w.Must("owner", "DELETE", smtps+"/"+id, "")
	if got := w.Events(id); !strings.Contains(got, "smtp.provider.added") || !strings.Contains(got, "smtp.provider.removed") {
		t.Errorf("its events are %s", got)
	}
}

func TestWhatCouldNotWorkIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, nil)
	for body, reason := range map[string]string{
		`{"host":"b.example:22"}`:  "INVALID_HOST",
		`{"host":"b.example:443"}`: "INVALID_HOST",
		`{"host":"b.example:25","tls":"TLS_MODE_NONE","user":"u","auth":"AUTH_MECHANISM_PLAIN"}`:           "UNENCRYPTED_AUTH",
		`{"host":"b.example:25","auth":"AUTH_MECHANISM_XOAUTH2"}`:                                          "USER_REQUIRED",
		`{"host":"b.example:25","user":"u","oauth":{"tokenEndpoint":"https://b.example/","clientId":"c"}}`: "UNUSED_OAUTH",
		`{"host":"b.example"}`:              "INVALID_ARGUMENT",
		`{"host":"b.example:25\r\nRCPT"}`:   "INVALID_ARGUMENT",
		`{"host":"b.example:25","tls":"X"}`: "INVALID_ARGUMENT",
	} {
		got := w.Do("owner", "POST", smtps, `{"name":"x","senderAddress":"a@b.example","smtp":`+body+`}`)
		if got.Status != 400 || reason != "INVALID_ARGUMENT" && !strings.Contains(got.Body, reason) {
			t.Errorf("%s: got %d %s", body, got.Status, got.Body)
		}
	}
	for _, sender := range []string{`a@b.example\r\nBcc: x@y.example`, `A <a@b.example>`, `a@b.example, c@d.example`, `a`, ``, `a..b@c.example`} {
		if got := w.Do("owner", "POST", smtps, `{"name":"x","senderAddress":"`+sender+`","smtp":{"host":"b.example:25"}}`); got.Status != 400 {
			t.Errorf("the sender %s: got %d %s", sender, got.Status, got.Body)
		}
	}
	w.Refused("owner", "POST", texts, `{"name":"x","twilio":{"sid":"AC00000000000000000000000000000000","senderNumber":"+41790000000"}}`, 400, "TOKEN_REQUIRED")
	if got := w.Do("orgowner", "POST", texts+"?ctx.orgId="+w.Org("A"), `{"name":"x","http":{"endpoint":"https://b.example/"}}`); got.Status < 400 {
		t.Errorf("an organization defines an SMS provider: %d", got.Status)
	}
	if got := w.Value("SELECT ((SELECT count(*) FROM smtp_providers) + (SELECT count(*) FROM sms_providers))::text"); got != "0" {
		t.Errorf("%s providers were made", got)
	}
}

func TestAContextUsesOneProviderAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, nil)
	body := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"senderAddress":"a@b.example","http":{"endpoint":"https://b.example/"}}`, name)
	}
	names := map[string]string{}
	add := func(user, name, ctx string) string {
		id := w.make(user, smtps+ctx, body(name))
		names[id] = name
		return id
	}
	system := add("system", "system", "?ctx.system=true")
	first, second := add("owner", "first", ""), add("owner", "second", "")
	own := add("orgowner", "own", "?ctx.orgId="+w.Org("A"))
	// uses is what each context sends through, by what it sees as active.
	uses := func() string {
		var all []string
		for _, context := range []struct{ user, ctx string }{{"owner", ""}, {"orgowner", "?ctx.orgId=" + w.Org("A")}, {"second", "?ctx.orgId=" + w.Org("A2")}} {
			var active []string
			for _, one := range w.Must(context.user, "POST", smtps+"/_search"+context.ctx, `[{"state":{"state":"EFFECTIVE_STATE_ACTIVE"}}]`).List(t, "result") {
				id := one["details"].(map[string]any)["id"].(string)
				// What is defined below is seen from above as it is there.
				if owner := one["details"].(map[string]any)["resourceOwner"].(map[string]any); context.ctx == "" && owner["type"] == "OWNER_TYPE_ORG" {
					continue
				}
				active = append(active, names[id])
			}
			all = append(all, strings.Join(active, "+"))
		}
		return strings.Join(all, " ")
	}
	for i, step := range []struct{ user, context, id, op, want string }{
		{"owner", "instance", first, "_activate", "first first first"},
		{"owner", "instance", second, "_activate", "second second second"},
		{"orgowner", "org/" + w.Org("A"), first, "_activate", "second first second"},
		{"orgowner", "org/" + w.Org("A"), own, "_activate", "second own second"},
		{"orgowner", "org/" + w.Org("A"), own, "_deactivate", "second  second"},
		{"orgowner", "org/" + w.Org("A"), second, "inherit", "second second second"},
		{"owner", "instance", second, "_deactivate", "  "},
		{"system", "system", system, "_activate", "system system system"},
		{"owner", "instance", system, "_deactivate", "  "},
		{"owner", "instance", system, "inherit", "system system system"},
		{"owner", "instance", first, "_activate", "first  first"}, // the organization has put it off for its own
		{"orgowner", "org/" + w.Org("A"), first, "inherit", "first first first"},
	} {
		at := w.in(step.context)
		if step.op == "inherit" {
			at.Must(step.user, "PATCH", smtps+"/"+step.id, `{"statePolicy":"STATE_POLICY_INHERIT"}`)
		} else {
			at.Must(step.user, "POST", smtps+"/"+step.id+"/"+step.op, "")
		}
		if got := uses(); got != step.want {
			t.Errorf("step %d, %s %s in %s: got %q, want %q", i, step.op, names[step.id], step.context, got, step.want)
		}
	}
	// A word for it in a patch is the same, and alone in a context that inherits it.
	w.in("org/"+w.Org("A")).Must("orgowner", "PATCH", smtps+"/"+second, `{"statePolicy":"STATE_POLICY_ACTIVATE"}`)
	if got := uses(); got != "first second first" {
		t.Errorf("got %q", got)
	}
	w.in("org/"+w.Org("A")).Refused("orgowner", "PATCH", smtps+"/"+second, `{"name":"mine","statePolicy":"STATE_POLICY_DEACTIVATE"}`, 400, "INHERITED_READ_ONLY")
	w.in("org/"+w.Org("A")).Refused("orgowner", "POST", smtps+"/"+second+"/_rotate_signing_key", `{}`, 400, "INHERITED_READ_ONLY")
	w.in("org/"+w.Org("A")).Refused("orgowner", "POST", smtps+"/"+second+"/_test", `{"recipient":"a@b.example"}`, 400, "INHERITED_READ_ONLY")
	if got := uses(); got != "first second first" {
		t.Errorf("what was refused changed it: %q", got)
	}
	if got := w.Events(second); strings.Count(got, "smtp.provider.activated") != 2 || !strings.Contains(got, "smtp.provider.deactivated") || !strings.Contains(got, "smtp.provider.inherited") {
		t.Errorf("the events of one that was switched are %s", got)
	}
	// At once on both nodes: one of them is active in the end.
	var all sync.WaitGroup
	for i := range 20 {
		id := []string{first, second}[i%2]
		all.Go(func() { w.Call(i%2, "a.example", "owner", "POST", smtps+"/"+id+"/_activate", "") })
	}
	all.Wait()
	if got := w.Value("SELECT count(*)::text FROM smtp_providers WHERE instance_id <> '' AND org_id IS NULL AND state_policy <> 2"); got != "1" {
		t.Errorf("%s providers are active in the instance", got)
	}
}

func TestATestSaysWhatCameOfIt(t *testing.T) {
	t.Parallel()
	good, shy, gone := mailing(), mailing(), mailing()
	shy.Answer = func(step, _ string) *smtp.SMTPError {
		if step == "RCPT" {
			return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no " + canary}
		}
		return nil
	}
	gone.Certificate = smtptest.OtherName
	w := newWorld(t, 1, nil, good, shy, gone)
	test := func(s *smtptest.Server) map[string]any {
		id := w.make("owner", smtps, smtpBody("x", s))
		got := w.Must("owner", "POST", smtps+"/"+id+"/_test", `{"recipient":"ada@example.com"}`)
		if strings.Contains(got.Body, canary) || strings.Contains(got.Body, "127.0.0.1") {
			t.Errorf("it says too much: %s", got.Body)
		}
		return got.Any(t)
	}
	if got := test(good); got["taken"] != true || got["error"] != "" || len(good.Mails()) != 1 {
		t.Errorf("got %v", got)
	}
	if got := test(shy); got["taken"] != false || got["error"] != "the mail server refuses the recipient (550 5.1.1)" || got["status"] != 550.0 {
		t.Errorf("got %v", got)
	}
	if got := test(gone); got["taken"] != false || !strings.Contains(got["error"].(string), "another name") || got["status"] != 0.0 {
		t.Errorf("got %v", got)
	}
	if got := w.Value("SELECT count(*)::text FROM events WHERE event_type LIKE 'smtp%' AND event_type <> 'smtp.provider.added'"); got != "0" {
		t.Errorf("a test left %s events", got)
	}
}

func TestMessagesGoThroughTheProviderOfTheirOrganization(t *testing.T) {
	t.Parallel()
	a, b := mailing(), mailing()
	w := newWorld(t, 2, nil, a, b)
	user, other := w.human("A"), w.human("A2")
	w.IsRefused(w.asks(user, "a@users.example"), "without a provider", 400, "SMTP_PROVIDER_MISSING")
	w.Refused("owner", "POST", "/v3alpha/users/"+user+"/otp_sms", `{"number":"+41791111111","sendCode":{}}`, 400, "SMS_PROVIDER_MISSING")
	if got := w.Value("SELECT ((SELECT count(*) FROM messages) + (SELECT count(*) FROM authenticators))::text"); got != "0" {
		t.Errorf("what was refused left %s rows", got)
	}
	w.Must("owner", "POST", smtps+"/"+w.make("owner", smtps, smtpBody("a", a))+"/_activate", "")
	own := w.make("orgowner", smtps+"?ctx.orgId="+w.Org("A"), smtpBody("b", b))
	if got := w.asks(user, "a1@users.example"); got.Status != 201 {
		t.Fatalf("got %s", got.Body)
	}
	w.until("it goes through that of the instance", func() bool { return len(a.Mails()) == 1 })
	w.in("org/"+w.Org("A")).Must("orgowner", "POST", smtps+"/"+own+"/_activate", "")
	w.asks(user, "a2@users.example")
	w.asks(other, "b1@users.example")
	w.until("each goes through its own", func() bool { return len(a.Mails()) == 2 && len(b.Mails()) == 1 })
	if a.Mails()[1].To != "b1@users.example" || b.Mails()[0].To != "a2@users.example" {
		t.Errorf("got %s and %s", a.Mails()[1].To, b.Mails()[0].To)
	}
	w.in("org/"+w.Org("A")).Must("orgowner", "POST", smtps+"/"+own+"/_deactivate", "")
	w.IsRefused(w.asks(user, "a3@users.example"), "without one of its own", 400, "SMTP_PROVIDER_MISSING")
	// Both nodes share the queue: each message is sent once, over few connections.
	for i := range 40 {
		w.asks(other, fmt.Sprintf("n%d@users.example", i))
	}
	w.until("all are sent", func() bool { return len(a.Mails()) >= 42 })
	seen := map[string]int{}
	for _, m := range a.Mails() {
		seen[m.To]++
	}
	if len(seen) != 42 || a.Connections() > 32 {
		t.Errorf("%d addresses got mail, over %d connections", len(seen), a.Connections())
	}
	for to, n := range seen {
		if n != 1 {
			t.Errorf("%s got %d", to, n)
		}
	}
	if got := w.Value("SELECT count(*)::text FROM messages WHERE payload <> '{}'"); got != "0" {
		t.Errorf("%s messages that were sent keep their codes", got)
	}
}

func TestWhatIsGivenUpIsSeenAndSentAgain(t *testing.T) {
	t.Parallel()
	var refuse atomic.Bool
	refuse.Store(true)
	s := mailing()
	s.Answer = func(step, _ string) *smtp.SMTPError {
		if step == "RCPT" && refuse.Load() {
			return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: canary}
		}
		return nil
	}
	w := newWorld(t, 1, nil, s)
	provider := w.make("owner", smtps, smtpBody("a", s))
	w.Must("owner", "POST", smtps+"/"+provider+"/_activate", "")
	user := w.human("A")
	w.asks(user, "a@users.example")
	find := func(as, filter string) []map[string]any {
		got := w.Must(as, "POST", messages+"/_search", "["+filter+"]")
		if strings.Contains(got.Body, canary) || strings.Contains(got.Body, "<b>") {
			t.Errorf("it says too much: %s", got.Body)
		}
		return got.List(t, "result")
	}
	const dead = `{"state":{"state":"MESSAGE_STATE_DEAD"}}`
	w.until("it is given up", func() bool { return len(find("owner", dead)) == 1 })
	one := find("owner", dead+`,{"user":{"id":"`+user+`"}}`)[0]
	id := one["details"].(map[string]any)["id"].(string)
	if one["deadReason"] != "MESSAGE_DEAD_REASON_REFUSED" || one["recipient"] != "a@users.example" || one["attempts"] != 1.0 || one["kind"] != "MESSAGE_KIND_EMAIL" {
		t.Errorf("got %v", one)
	}
	got := w.Must("owner", "GET", messages+"/"+id, "")
	attempt := got.Any(t)["attempts"].([]any)[0].(map[string]any)
	if attempt["provider"] != provider || attempt["error"] != "the mail server refuses the recipient (550 5.1.1)" || attempt["status"] != 550.0 {
		t.Errorf("got %v", attempt)
	}
	code := w.Value("SELECT payload ->> 'code' FROM messages")
	if strings.Contains(got.Body, code) || strings.Contains(got.Body, canary) {
		t.Errorf("it says too much: %s", got.Body)
	}
	for as, want := range map[string]int{"orgowner": 1, "second": 0} {
		if n := len(find(as, "")); n != want {
			t.Errorf("%s finds %d", as, n)
		}
	}
	w.Refused("second", "POST", messages+"/"+id+"/_replay", "", 404, "NOT_FOUND")
	w.Refused("nobody", "POST", messages+"/"+id+"/_replay", "", 403, "PERMISSION_DENIED")
	refuse.Store(false)
	w.Must("orgowner", "POST", messages+"/"+id+"/_replay", "")
	w.until("it is sent", func() bool { return len(find("owner", `{"state":{"state":"MESSAGE_STATE_SENT"}}`)) == 1 })
	if mails := s.Mails(); len(mails) != 1 || !strings.Contains(mails[0].Header.Get("Message-Id"), id) || !strings.Contains(mails[0].Body, code) {
		t.Errorf("got %v", mails)
	}
	if n := len(w.Must("owner", "GET", messages+"/"+id, "").Any(t)["attempts"].([]any)); n != 2 {
		t.Errorf("%d attempts are shown", n)
	}
	w.Refused("owner", "POST", messages+"/"+id+"/_replay", "", 400, "MESSAGE_NOT_DEAD")
	// A code that is good no more is not sent.
	refuse.Store(true)
	w.asks(user, "b@users.example")
	w.until("it is given up", func() bool { return len(find("owner", dead)) == 1 })
	id = find("owner", dead)[0]["details"].(map[string]any)["id"].(string)
	w.moved.Store(int64(6 * time.Minute))
	w.Refused("owner", "POST", messages+"/"+id+"/_replay", "", 400, "MESSAGE_EXPIRED")
}

func TestWhatWaitsGoesThroughTheProviderThatIsActiveThen(t *testing.T) {
	t.Parallel()
	down, up := mailing(), mailing()
	down.Answer = func(string, string) *smtp.SMTPError {
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "later"}
	}
	w := newWorld(t, 1, nil, down, up)
	w.Must("owner", "POST", smtps+"/"+w.make("owner", smtps, smtpBody("down", down))+"/_activate", "")
	next := w.make("owner", smtps, smtpBody("up", up))
	w.asks(w.human("A"), "a@users.example")
	w.until("it failed", func() bool { return w.Value("SELECT count(*)::text FROM delivery_attempts WHERE status = 451") != "0" })
	w.Must("owner", "POST", smtps+"/"+next+"/_activate", "")
	w.moved.Store(int64(time.Minute))
	w.until("it is noted as sent", func() bool { return w.Value("SELECT state::text FROM messages") == "2" })
	if len(up.Mails()) != 1 || len(down.Mails()) != 0 {
		t.Errorf("%d and %d have it", len(up.Mails()), len(down.Mails()))
	}
}

func TestTextMessagesGoThroughTwilioOrAnEndpoint(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	theirs := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		asked = append(asked, fmt.Sprint(r.URL.Path, " ", r.Header.Get("Webhook-Signature") != "", " ", string(body)))
		mu.Unlock()
		rw.WriteHeader(201)
		_, _ = rw.Write([]byte(`{"sid":"SM1","status":"queued"}`))
	}))
	t.Cleanup(theirs.Close)
	w := newWorld(t, 1, map[string]string{"https://api.twilio.com": theirs.URL})
	account := w.make("owner", texts, `{"name":"Twilio","twilio":{"sid":"AC00000000000000000000000000000000","token":"`+canary+`","messagingServiceSid":"MG00000000000000000000000000000000"}}`)
	endpoint := w.make("owner", texts, `{"name":"Hook","http":{"endpoint":"`+theirs.URL+`/hook"}}`)
	user := w.human("A")
	for i, id := range []string{account, endpoint} {
		w.Must("owner", "POST", texts+"/"+id+"/_activate", "")
		w.Must("owner", "POST", "/v3alpha/users/"+user+"/otp_sms", `{"number":"+4179111111`+fmt.Sprint(i)+`","sendCode":{}}`)
		w.until("it is asked", func() bool { mu.Lock(); defer mu.Unlock(); return len(asked) == i+1 })
	}
	if !strings.HasPrefix(asked[0], "/2010-04-01/Accounts/AC00000000000000000000000000000000/Messages.json false Body=") || !strings.Contains(asked[0], "MessagingServiceSid=MG0") || !strings.Contains(asked[0], "To=%2B41791111110") {
		t.Errorf("got %s", asked[0])
	}
	if !strings.HasPrefix(asked[1], `/hook true {"recipient":"+41791111111","text":"`) {
		t.Errorf("got %s", asked[1])
	}
}

func TestSEC255_ANewKeyAndTheOldOneSignForAWhile(t *testing.T) {
	t.Parallel()
	var signatures atomic.Int64
	theirs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		signatures.Store(int64(len(strings.Fields(r.Header.Get("Webhook-Signature")))))
	}))
	t.Cleanup(theirs.Close)
	w := newWorld(t, 1, nil)
	id := w.make("owner", smtps, `{"name":"Hook","senderAddress":"a@b.example","http":{"endpoint":"`+theirs.URL+`/hook"}}`)
	signs := func() int64 {
		if got := w.Must("owner", "POST", smtps+"/"+id+"/_test", `{"recipient":"a@b.example"}`).Any(t); got["taken"] != true {
			t.Errorf("got %v", got)
		}
		return signatures.Load()
	}
	if n := signs(); n != 1 {
		t.Errorf("%d keys sign", n)
	}
	if got := w.Must("owner", "POST", smtps+"/"+id+"/_rotate_signing_key", `{"overlap":"3600s"}`); !strings.HasPrefix(got.Any(t)["signingKey"].(string), "whsec_") {
		t.Errorf("got %s", got.Body)
	}
	if n := signs(); n != 2 {
		t.Errorf("%d keys sign after a rotation", n)
	}
	w.moved.Store(int64(2 * time.Hour))
	if n := signs(); n != 1 {
		t.Errorf("%d keys sign when the time of the old one is over", n)
	}
}

func TestTheSenderIsAtAVerifiedDomainWhereThatMatters(t *testing.T) {
	t.Parallel()
	s := mailing()
	w := newWorld(t, 1, nil, s)
	const at = "/resources/v3alpha/instances/"
	w.Must("owner", "POST", smtps+"/"+w.make("owner", smtps, smtpBody("before", s))+"/_activate", "")
	w.Must("system", "PATCH", at+w.Instance("a"), `{"smtpSenderAddressMatchesInstanceDomain":true}`)
	body := func(sender string) string {
		return strings.Replace(smtpBody("x", s), "no-reply@sender.example", sender, 1)
	}
	w.Refused("owner", "POST", smtps, smtpBody("after", s), 400, "SENDER_DOMAIN_UNVERIFIED")
	w.Refused("owner", "POST", smtps, body("x@sub.a.example"), 400, "SENDER_DOMAIN_UNVERIFIED")
	w.Refused("owner", "POST", smtps, body("x@org.a.example"), 400, "SENDER_DOMAIN_UNVERIFIED") // of an organization
	w.make("orgowner", smtps+"?ctx.orgId="+w.Org("A"), body("x@org.a.example"))
	good := w.make("owner", smtps, body("x@A.example"))
	w.Refused("owner", "PATCH", smtps+"/"+good, `{"senderAddress":"x@sender.example"}`, 400, "SENDER_DOMAIN_UNVERIFIED")
	// What was active before sends no more.
	w.asks(w.human("A"), "a@users.example")
	w.until("it failed", func() bool {
		return w.Value("SELECT count(*)::text FROM delivery_attempts WHERE error = 'the sender is not at a verified domain'") == "1"
	})
	w.Must("owner", "POST", smtps+"/"+good+"/_activate", "")
	w.moved.Store(int64(time.Minute))
	w.until("it is sent", func() bool { return len(s.Mails()) == 1 && s.Mails()[0].From == "x@A.example" })
}

func TestASeedMakesProvidersAndActivatesOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, nil)
	const text = `
instances:
  - name: a
    domains: [a.example]
    smtp_providers:
      - {name: one, sender_address: a@b.example, smtp: {host: "b.example:587", user: u, password: "` + canary + `"}}
      - {name: two, active: true, sender_address: a@b.example, http: {endpoint: "https://b.example/"}}
    sms_providers:
      - {name: three, active: true, twilio: {sid: AC00000000000000000000000000000000, token: "` + canary + `", sender_number: "+41790000000"}}
`
	state := func() string {
		return w.Value("SELECT string_agg(name || ' ' || state_policy || ' ' || sequence, ', ' ORDER BY name) FROM (SELECT name, state_policy, sequence FROM smtp_providers UNION SELECT name, state_policy, sequence FROM sms_providers) p")
	}
	key := servertest.Apply(t, w.Env, text).Secrets["instances.a.smtp_providers.two.signing_key"]
	first := state()
	servertest.Apply(t, w.Env, text)
	if again := state(); again != first || !strings.HasPrefix(key, "whsec_") || !strings.HasPrefix(first, "one 2 ") || !strings.Contains(first, "three 1 ") || !strings.Contains(first, "two 1 ") {
		t.Errorf("after a seed: %s, after it again: %s; the key is %s", first, again, key)
	}
}

// TestSEC235_WhoCarriesMessagesReadsNoCodesOfSuperiors: an organization's owner names who sends
// its mail, and so could read what would let them in as one of its users who holds more.
func TestSEC235_WhoCarriesMessagesReadsNoCodesOfSuperiors(t *testing.T) {
	t.Parallel()
	a, b := mailing(), mailing()
	w := newWorld(t, 1, nil, a, b)
	w.Must("owner", "POST", smtps+"/"+w.make("owner", smtps, smtpBody("a", a))+"/_activate", "")
	own := w.make("orgowner", smtps+"?ctx.orgId="+w.Org("A"), smtpBody("b", b))
	w.in("org/"+w.Org("A")).Must("orgowner", "POST", smtps+"/"+own+"/_activate", "")
	superior, equal := w.human("A"), w.human("A")
	w.Must("owner", "POST", "/resources/v3alpha/memberships", fmt.Sprintf(`{"userId":%q,"roles":["IAM_OWNER"]}`, superior))
	w.Must("owner", "POST", "/resources/v3alpha/memberships?ctx.orgId="+w.Org("A"), fmt.Sprintf(`{"userId":%q,"roles":["ORG_OWNER"]}`, equal))
	w.asks(equal, "equal@users.example")
	w.asks(superior, "superior@users.example")
	w.until("both are sent", func() bool { return len(a.Mails())+len(b.Mails()) == 2 })
	if len(a.Mails()) != 1 || a.Mails()[0].To != "superior@users.example" {
		t.Errorf("the instance sent %v, the organization %v", a.Mails(), b.Mails())
	}
}
