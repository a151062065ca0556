package message_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-id/writ/contracts"
	"github.com/writ-id/writ/impl/api/message"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/dev/seed"
	"github.com/writ-id/writ/impl/server/servertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// recorder is a Sender that remembers what it was asked to send.
type recorder struct {
	mu   sync.Mutex
	fail error
	sent map[string]int // by recipient
	text string         // the last one
	html string
}

func (r *recorder) Send(_ context.Context, m *message.Outgoing) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent[m.Recipient]++
	r.text, r.html = m.Subject+"\n"+m.Text, m.HTML
	return "", r.fail
}

type queue struct {
	*testing.T
	env  resource.Env
	user seed.AppliedUser
	now  time.Time
}

func newQueue(t *testing.T) *queue {
	t.Helper()
	q := &queue{T: t, now: time.Now().UTC().Truncate(time.Microsecond)}
	q.env = resource.Env{DB: pgtest.Open(t, 8), Now: func() time.Time { return q.now }, NewID: servertest.NewID, Inbox: true}
	config := servertest.Config(q.env.DB)
	config.Now = q.env.Now
	applied := servertest.Apply(t, config, string(contracts.DefaultSeed))
	q.user = applied.Users[1]
	return q
}

func (q *queue) add(recipient, language string) {
	q.Helper()
	q.addNamed(recipient, language, "Alice\r\nBcc: x")
}

func (q *queue) addNamed(recipient, language, name string) {
	q.Helper()
	q.addWith(recipient, language, message.Data{Code: "12345678", Minutes: 5, Domain: "a.example", Name: name})
}

func (q *queue) addWith(recipient, language string, data message.Data) {
	q.Helper()
	if err := message.Queue(q.Context(), q.env.DB.Pool, &q.env, &message.Message{
		InstanceID: q.user.InstanceID, OrgID: q.user.OrgID, UserID: q.user.ID, Kind: message.Email, Template: "otp_email",
		Recipient: recipient, Proven: true, Language: language, Data: data,
	}); err != nil {
		q.Fatal(err)
	}
}

func (q *queue) worker(sender message.Sender, keep bool) *message.Worker {
	return &message.Worker{DB: q.env.DB, Now: q.env.Now, Logger: slog.New(slog.DiscardHandler), Sender: sender, Keep: keep}
}

func (q *queue) stored() (state int, payload string) {
	q.Helper()
	if err := q.env.DB.Pool.QueryRow(q.Context(), "SELECT state, payload::text FROM messages LIMIT 1").Scan(&state, &payload); err != nil {
		q.Fatal(err)
	}
	return state, payload
}

func TestWorkersOfManyNodesShareTheQueue(t *testing.T) {
	t.Parallel()
	q, sender := newQueue(t), &recorder{sent: map[string]int{}}
	for i := range 40 {
		q.add(fmt.Sprint(i, "@a.example"), "")
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			worker := q.worker(sender, false)
			for n := 1; n > 0; {
				var err error
				if n, err = worker.Deliver(t.Context()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if len(sender.sent) != 40 {
		t.Errorf("%d messages were sent, want 40", len(sender.sent))
	}
	for recipient, n := range sender.sent {
		if n != 1 {
			t.Errorf("%s was sent %d times", recipient, n)
		}
	}
	if state, payload := q.stored(); state != 2 || strings.Contains(payload, "12345678") {
		t.Errorf("a sent message is %d, %s", state, payload)
	}
}

func TestAMessageThatCannotBeSentIsTriedAgainAndThenGivenUp(t *testing.T) {
	t.Parallel()
	q, sender := newQueue(t), &recorder{sent: map[string]int{}, fail: errors.New("no")}
	q.addWith("a@a.example", "de-CH", message.Data{Code: "12345678", Minutes: 5, Domain: "a.example", Link: "https://a.example/"})
	worker := q.worker(sender, false)
	for range 100 {
		if _, err := worker.Deliver(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, err := worker.Deliver(t.Context()); err != nil || n != 0 {
			t.Fatalf("it is tried again at once: %d, %v", n, err)
		}
		q.now = q.now.Add(4 * time.Hour)
	}
	if n := sender.sent["a@a.example"]; n != 12 {
		t.Errorf("it was tried %d times, want 12", n)
	}
	if !strings.HasPrefix(sender.text, "12345678 ist Ihr Code für a.example\nIhr Code\n\nGuten Tag") {
		t.Errorf("got the text %q", sender.text)
	}
	if !strings.Contains(sender.html, `<html lang="de">`) || !strings.Contains(sender.html, "12345678") {
		t.Errorf("got the HTML %q", sender.html)
	}
	if state, payload := q.stored(); state != 3 || !strings.Contains(payload, "12345678") {
		t.Errorf("a message given up, that can be sent again, is %d, %s", state, payload)
	}
}

func TestNoCodeIsSentThatIsGoodNoMore(t *testing.T) {
	t.Parallel()
	q, sender := newQueue(t), &recorder{sent: map[string]int{}, fail: errors.New("no")}
	q.add("a@a.example", "")
	worker := q.worker(sender, false)
	for range 60 {
		if _, err := worker.Deliver(t.Context()); err != nil {
			t.Fatal(err)
		}
		q.now = q.now.Add(10 * time.Second)
	}
	// At once, and about 30 s, 90 s and 210 s later; the next would be after the five minutes.
	if n := sender.sent["a@a.example"]; n != 4 {
		t.Errorf("in five minutes it was tried %d times", n)
	}
	if state, payload := q.stored(); state != 3 || payload != "{}" {
		t.Errorf("a message with a code that is good no more is %d, %s", state, payload)
	}
	q.add("b@a.example", "")
	q.now = q.now.Add(5 * time.Minute) // no node ran
	if n, err := worker.Deliver(t.Context()); err != nil || n != 1 || sender.sent["b@a.example"] != 0 {
		t.Errorf("of %d the code was sent %d times, %v", n, sender.sent["b@a.example"], err)
	}
}

func TestAnotherWorkerTakesOverWhatOneDiedWith(t *testing.T) {
	t.Parallel()
	q, sender := newQueue(t), &recorder{sent: map[string]int{}}
	q.add("a@a.example", "")
	if _, err := q.env.DB.Pool.Exec(t.Context(), "UPDATE messages SET attempts = 1, next_attempt = $1", q.now.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	worker := q.worker(sender, false)
	if n, err := worker.Deliver(t.Context()); err != nil || n != 0 {
		t.Fatalf("it is taken while another one has it: %d, %v", n, err)
	}
	q.now = q.now.Add(time.Minute)
	if n, err := worker.Deliver(t.Context()); err != nil || n != 1 {
		t.Fatalf("it is not taken over: %d, %v", n, err)
	}
}

func TestSEC185_OneAddressGetsSoManyMessagesAnHour(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	for range 60 {
		q.add("a@a.example", "")
	}
	var n int
	if err := q.env.DB.Pool.QueryRow(t.Context(), "SELECT count(*) FROM messages").Scan(&n); err != nil || n != 50 {
		t.Errorf("%d of 60 are queued, want 50 (%v)", n, err)
	}
}

// TestSEC185_NobodyUsesUpTheMessagesOfAnother: who names an address that is not theirs, as a
// factor to be or however, keeps nothing from who has proven it, and says nothing of themselves.
func TestSEC185_NobodyUsesUpTheMessagesOfAnother(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	send := func(user string, proven bool) {
		t.Helper()
		if err := message.Queue(t.Context(), q.env.DB.Pool, &q.env, &message.Message{
			InstanceID: q.user.InstanceID, OrgID: q.user.OrgID, UserID: user, Kind: message.Email, Template: "otp_email", Recipient: "a@a.example", Proven: proven,
			Data: message.Data{Code: "12345678", Domain: "a.example", Name: "Zyq"},
		}); err != nil {
			t.Fatal(err)
		}
	}
	q.add("b@a.example", "") // as many of another address
	var stranger string
	if err := q.env.DB.Pool.QueryRow(t.Context(), "SELECT id FROM users WHERE instance_id = $1 AND id <> $2 LIMIT 1", q.user.InstanceID, q.user.ID).Scan(&stranger); err != nil {
		t.Fatal(err)
	}
	for range 60 {
		send(stranger, false)
	}
	send(q.user.ID, true)
	var of, named int
	if err := q.env.DB.Pool.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE user_id = $1), count(*) FILTER (WHERE user_id <> $1 AND payload::text LIKE '%Zyq%')
		FROM messages WHERE recipient = 'a@a.example'`, q.user.ID).Scan(&of, &named); err != nil || of != 1 || named != 0 {
		t.Errorf("the owner got %d messages, %d of others say their name (%v)", of, named, err)
	}
}

// Who registers with somebody else's address says what that one reads first.
func TestSEC185_ANameInAMessageIsAFewWordsOfLetters(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"Ada Lovelace": "Ada Lovelace", "José María O’Neill-Müller": "José María O’Neill-Müller", "王 小明": "王 小明", "Dr. Grace Hopper": "Grace Hopper",
		"Win at https://evil.example/x": "Win at", "evil.example": "", "www.evil.example Ada": "Ada", "Ada\r\nBcc: x@y.example": "Ada",
		"call 0900 12345": "call", "one two three four five six": "one two three four", strings.Repeat("x", 41): "", "<b>Ada</b>": "", "": "",
	} {
		q, sender := newQueue(t), &recorder{sent: map[string]int{}}
		q.addNamed("a@a.example", "en", name)
		if _, err := q.worker(sender, false).Deliver(t.Context()); err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(sender.text, ",\n")
		if first != strings.TrimSuffix("12345678 is your code for a.example\nYour code\n\nHello "+want, " ") {
			t.Errorf("%q: got %q", name, first)
		}
	}
}

func TestTheLanguageOfAMessageIsOneThatTheSettingsOffer(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	for _, step := range []struct {
		orgID, first, allowed string // the settings of the instance or an organization
		prefers, want         string
	}{
		{"", "de", "", "", "de"},
		{"", "de", "", "fr", "de"},
		{"", "de", "", "en-GB", "en"},
		{"", "de", "de", "en", "de"},
		{q.user.OrgID, "en", "en", "de", "en"},
		{q.user.OrgID, "", "", "en", "de"},
	} {
		sender := &recorder{sent: map[string]int{}}
		if _, err := q.env.DB.Pool.Exec(t.Context(), `INSERT INTO settings (instance_id, org_id, subject, properties, sequence, change_date)
			VALUES ($1, $2, 'languages', jsonb_strip_nulls(jsonb_build_object('defaultLanguage', CASE WHEN $3 <> '' THEN jsonb_build_object('key', $3::text) END,
				'restrictedLanguages', CASE WHEN $4 <> '' THEN jsonb_build_object('languages', jsonb_build_array(jsonb_build_object('key', $4::text))) END)), 1, now())
			ON CONFLICT (instance_id, org_id, subject) DO UPDATE SET properties = excluded.properties`,
			q.user.InstanceID, step.orgID, step.first, step.allowed); err != nil {
			t.Fatal(err)
		}
		q.add("a@a.example", step.prefers)
		if _, err := q.worker(sender, false).Deliver(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := map[bool]string{true: "de", false: "en"}[strings.Contains(sender.text, "Guten Tag")]; got != step.want {
			t.Errorf("%+v: got %s", step, got)
		}
	}
}

func TestTheDevPageShowsCodes(t *testing.T) {
	t.Parallel()
	q, sender := newQueue(t), &recorder{sent: map[string]int{}}
	q.add("a@a.example", "fr")
	q.now = q.now.Add(time.Second)
	q.add("b@a.example", "")
	if _, err := q.worker(sender, true).Deliver(t.Context()); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{"": "b@a.example a@a.example", "?recipient=a%40a.example": "a@a.example", "?user_id=nope": ""} {
		answer := httptest.NewRecorder()
		message.Handler(q.env.DB).ServeHTTP(answer, httptest.NewRequest("GET", "/_dev/messages"+query, nil))
		var list []struct{ Recipient, Code, State, Language string }
		if err := json.Unmarshal(answer.Body.Bytes(), &list); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range list {
			got = append(got, m.Recipient)
			if m.Code != "12345678" || m.State != "SENT" || m.Language != "en" {
				t.Errorf("got %+v", m)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %v, want %s", query, got, want)
		}
	}
}
