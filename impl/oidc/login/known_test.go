package login_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/oidc/login/flow"
)

var doorLink = regexp.MustCompile(`https?://[a-z0-9.:]+(/login/door\?door=\S+)`)

// doors returns the paths of the links in messages, the newest first.
func (w *world) doors() (paths []string) {
	w.Helper()
	for _, text := range strings.Split(w.value("SELECT coalesce(string_agg(payload->>'text', E'\\x1e' ORDER BY creation_date DESC, id DESC), '') FROM messages WHERE template = 'door'"), "\x1e") {
		if found := doorLink.FindStringSubmatch(text); found != nil {
			paths = append(paths, found[1])
		}
	}
	return paths
}

// TestSEC177_StrangersKeepNobodyOut: however many wrong passwords strangers enter, a browser
// in which the user has signed in goes on, and another one does by a link in a message to
// the user, which by itself signs nobody in.
func TestSEC177_StrangersKeepNobodyOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.begin.Store(&begun{Asked: flow.Asked{Request: "x=y"}, Proof: flow.Proof{Fresh: true}})
	const right = "correct horse"
	mine := w.browser().signIn("alice", right).want(200, "/done")
	w.done()
	for range 12 {
		w.browser().signIn("alice", "wrong").want(400, "/login/password", "We could not sign you in with this login name and password.")
	}
	mine.signIn("alice", right).want(200, "/done")
	for range 12 {
		w.browser().signIn("alice", "wrong").want(400, "/login/password")
	}
	other := w.browser()
	other.signIn("alice", right).want(400, "/login/password")
	doors := w.doors()
	if len(doors) != 1 {
		t.Fatalf("%d messages with a link, want 1", len(doors))
	}
	w.browser().open(doors[0]).want(200, "/login/door", "Let this browser in?")
	other.signIn("alice", right).want(400, "/login/password") // that somebody looks at the link does nothing
	other.open(doors[0]).want(200, "/login/door").send().want(200, "/login")
	w.done()
	other.signIn("alice", right).want(200, "/done")
	if s := w.done(); s == nil || s.LoginName != "alice@a.example" {
		t.Errorf("got %+v", s)
	}
	// It is hers alone, and its own tries end too.
	other.signIn("bob", "wrong").want(400, "/login/password")
	for range 10 {
		other.signIn("alice", "wrong").want(400, "/login/password")
	}
	other.signIn("alice", right).want(400, "/login/password")
	mine.signIn("alice", right).want(200, "/done")
	w.wait(11 * time.Minute)
	other.signIn("alice", right).want(200, "/done")
	// What was known before a new password is known no more, nor is the link good.
	w.exec("UPDATE users SET generation = generation + 1 WHERE username = 'alice'")
	w.exec(`INSERT INTO browser_tries (instance_id, user_id, browser, attempts, period_end) SELECT instance_id, id, '', 10, $1 FROM users WHERE username = 'alice'
		ON CONFLICT ON CONSTRAINT browser_tries_pkey DO UPDATE SET attempts = 10, period_end = excluded.period_end`, w.now().Add(time.Hour))
	mine.signIn("alice", right).want(400, "/login/password")
	other.open(doors[0]).want(200, "/login/door").send()
	other.signIn("alice", right).want(400, "/login/password")
	w.wait(25 * time.Hour)
	other.open(doors[0]).want(400, "/login/door", "not good any more")
}

// TestSEC177_APasswordPageSaysWhatHelpsOnce: one wrong password is one short sentence, the limit
// is told of near it, and beyond it the page says what helps instead of judging what was not
// compared; all of it to a browser of its own tries, whoever has the name, if anybody.
func TestSEC177_APasswordPageSaysWhatHelpsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.begin.Store(&begun{Asked: flow.Asked{Request: "x=y"}, Proof: flow.Proof{Fresh: true}})
	const no, limit, spent = "We could not sign you in", "After ten wrong passwords", "There were too many wrong passwords"
	said := func(b *browser) (what []string) {
		for _, text := range []string{no, limit, spent} {
			for range strings.Count(b.body, text) {
				what = append(what, text)
			}
		}
		return what
	}
	for _, name := range []string{"alice", "nobody"} {
		b := w.browser()
		for i := range 12 {
			want := []string{no}
			if i >= 9 {
				want = []string{spent}
			} else if i >= 6 {
				want = []string{no, limit}
			}
			b.signIn(name, "wrong").want(400, "/login/password", "Forgot your password?")
			if got := said(b); !slices.Equal(got, want) {
				t.Errorf("%s, wrong password %d: the page says %q, want %q", name, i+1, got, want)
			}
			if strings.Contains(b.body, `id="notice"`) {
				t.Errorf("%s, wrong password %d: there is a notice beside the error", name, i+1)
			}
		}
		b.signIn(name, "correct horse").want(400, "/login/password", spent, "Wait ten minutes")
		if got := said(w.browser().signIn(name, "correct horse").want(400, "/login/password")); !slices.Equal(got, []string{no}) {
			t.Errorf("%s: another browser is told %q of tries that are not its own", name, got)
		}
		if got := said(b.signIn("olga@mail.example", "wrong").want(400, "/login/password")); !slices.Equal(got, []string{no}) {
			t.Errorf("%s: the page says %q of another name", name, got)
		}
		w.wait(11 * time.Minute)
		if got := said(b.signIn(name, "wrong").want(400, "/login/password")); !slices.Equal(got, []string{no}) {
			t.Errorf("%s: after ten minutes the page says %q", name, got)
		}
	}
	b := w.browser()
	for range 8 {
		b.signIn("alice", "wrong").want(400, "/login/password")
	}
	b.signIn("ALICE", "correct horse").want(200, "/done")
	if got := said(b.signIn("alice", "wrong").want(400, "/login/password")); !slices.Equal(got, []string{no}) {
		t.Errorf("after a right one the page says %q", got)
	}
}

// TestSEC177_StrangersTakeNobodysCodes: those whom strangers ask for neither void the code
// that a known browser asked for nor use up the messages it may have.
func TestSEC177_StrangersTakeNobodysCodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.begin.Store(&begun{Asked: flow.Asked{Request: "x=y"}, Proof: flow.Proof{Fresh: true}})
	mine := w.browser().signIn("alice", "correct horse").want(200, "/done")
	w.done()
	for range 12 {
		w.wait(time.Second)
		w.browser().forgot("alice").want(200, "/login/reset")
	}
	w.wait(time.Second)
	mine.forgot("alice").want(200, "/login/reset")
	code := w.mail().Code
	w.wait(time.Second)
	w.browser().forgot("alice").want(200, "/login/reset")
	mine.reset(code).want(200, "/login/password", "Your new password is set.")
	mine.send("password", newPassword).want(200, "/done")
}

// TestSEC177_StrangersVoidNobodysCodes: in a browser that nobody knows, too, a code for a new
// password is good until it ends, whatever others ask for and try meanwhile.
func TestSEC177_StrangersVoidNobodysCodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 12 { // nor do registrations with the address use up the messages
		w.browser().register("alice@mail.example").want(200, "/login/verify")
	}
	w.wait(time.Second)
	mine := w.browser().forgot("alice").want(200, "/login/reset")
	code := w.mail().Code
	w.wait(time.Second)
	for range 12 {
		b := w.browser().forgot("alice").want(200, "/login/reset")
		for range 2 {
			b.reset("00000000").want(400, "/login/reset")
		}
		b.reset(code).want(400, "/login/reset") // it is not that browser's
	}
	if got := w.value("SELECT string_agg(template || ' ' || n, ', ' ORDER BY template) FROM (SELECT template, count(*) n FROM messages GROUP BY 1) x"); got != "email_known 10, reset_password 10" {
		t.Errorf("got %s", got)
	}
	mine.reset(code).want(200, "/login/password", "Your new password is set.")
	if got := w.value("SELECT count(*)::text FROM user_codes"); got != "0" {
		t.Errorf("%s codes are left", got)
	}
}
