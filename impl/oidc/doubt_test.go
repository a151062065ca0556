package oidc_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/oidc/client"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/ledger"
)

// away has a relation fail for all who read it, or for the rows that a condition holds for;
// what it returns ends that.
func (w *world) away(name, condition string) (back func()) {
	w.Helper()
	w.exec("CREATE OR REPLACE FUNCTION away() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'away' USING ERRCODE = '57P03'; END $$")
	kind := w.value("SELECT CASE relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END FROM pg_class WHERE oid = $1::text::regclass", name)
	w.exec("ALTER " + kind + " " + name + " RENAME TO " + name + "_here")
	w.exec("CREATE VIEW " + name + " AS SELECT * FROM " + name + "_here WHERE CASE WHEN " + condition + " THEN away() ELSE true END")
	return func() {
		w.exec("DROP VIEW " + name)
		w.exec("ALTER " + kind + " " + name + "_here RENAME TO " + name)
	}
}

// TestSEC092_SEC221_StrangersDelayNoRevocation: while the database is away, whoever knows a
// client's ID gets nothing queued by texts that are no codes; and what does wait to be looked at
// delays neither a family that is known to have to end nor what can be looked at.
func TestSEC092_SEC221_StrangersDelayNoRevocation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	code, spa := b.code("web"), b.code("spa")
	byCode := w.a.redeem("web", code)
	w.a.granted("the first use", byCode)
	back := w.away("apps", "client_id = '"+w.a.apps["spa"].ClientID+"'")
	for _, text := range []string{strings.Repeat("x", 60_000), "writ_code_" + strings.Repeat("A", 200), spa} {
		w.soon("503 for "+text[:12], func() bool { // clients are remembered for a second
			return w.a.redeem("spa", text).Status == http.StatusServiceUnavailable
		})
	}
	w.exec(`CREATE FUNCTION refuse_writes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '25006'; END $$`)
	w.exec(`CREATE TRIGGER refuse_writes BEFORE UPDATE ON oauth_grants FOR EACH STATEMENT EXECUTE FUNCTION refuse_writes()`)
	if got := w.a.redeem("web", code); got.Status != http.StatusServiceUnavailable {
		t.Fatalf("the replay: got %d %s, want 503", got.Status, got.Text)
	}
	w.exec(`DROP TRIGGER refuse_writes ON oauth_grants`)
	w.eventually("the family ends while another client cannot be read", func() bool { return !w.a.active("api", byCode.text("access_token")) })
	back()
}

// TestSEC033_SEC057_ADoubtOutlivesItsAssertion: a replay by a client that signs assertions is
// noticed after an outage, although the one it came with counts as used.
func TestSEC033_SEC057_ADoubtOutlivesItsAssertion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	code := b.code("jwt")
	tokens := w.a.redeem("jwt", code)
	w.a.granted("the first use", tokens)
	unsure := b.code("jwt")
	other := w.a.redeem("jwt", unsure)
	w.a.granted("the first use of the other", other)
	w.wait(15 * time.Second)

	// The assertion was counted, then the user could not be read.
	back := w.away("subjects", "true")
	if got := w.a.redeem("jwt", code); got.Status != http.StatusServiceUnavailable {
		t.Fatalf("the replay: got %d %s, want 503", got.Status, got.Text)
	}
	back()
	w.eventually("the family ends", func() bool { return !w.a.active("api", tokens.text("access_token")) })

	// It was counted, and nobody learned that.
	w.exec(`CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'cut' USING ERRCODE = '57P01'; END $$`)
	w.exec(`CREATE TRIGGER cut BEFORE INSERT ON used_assertions FOR EACH STATEMENT EXECUTE FUNCTION cut()`)
	if got := w.a.redeem("jwt", unsure); got.Status != http.StatusServiceUnavailable {
		t.Fatalf("the other replay: got %d %s, want 503", got.Status, got.Text)
	}
	w.eventually("the other family ends, without counting again", func() bool { return !w.a.active("api", other.text("access_token")) })
}

// TestSEC033_SEC092_ClocksOfNodesDiffer: a use that nobody could look at was the second one if
// the first was earlier by more than the clocks of two nodes differ; what was used since does
// not hide that.
func TestSEC033_SEC092_ClocksOfNodesDiffer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	doubts := ledger.New(w.env(), log)
	at := endpoint.Site{Instance: &policy.Instance{ID: w.a.instance()}}
	var tokens []*answer
	var ends []bool
	// used has a code used, its refresh token so often, and a doubt about the first use of one.
	used := func(generation int32, times int, after time.Duration, end bool) {
		t.Helper()
		now := b.tokens("web", offline)
		id := w.value("SELECT id FROM oauth_grants WHERE instance_id = $1 ORDER BY creation_date DESC, id DESC LIMIT 1", w.a.instance())
		at.Now = w.now()
		for i := range times {
			if now = w.a.refresh("web", now.text("refresh_token")); i == 0 {
				at.Now = w.now()
			}
			w.a.granted("a refresh", now)
			w.wait(time.Minute)
		}
		w.wait(time.Minute)
		at.Now = at.Now.Add(after)
		doubts.Doubt(at, ledger.Use{GrantID: id, Generation: generation}, nil, nil)
		tokens, ends = append(tokens, now), append(ends, end)
	}
	for _, test := range []struct {
		after time.Duration
		end   bool
	}{
		{-time.Minute, false}, // the use that nobody looked at was the first
		{-time.Second, false},
		{0, false}, // it was that use, and nobody learned so
		{client.ClockSkew / 2, false},
		{client.ClockSkew + time.Second, true},
		{time.Minute + 30*time.Second, true},
	} {
		used(0, 0, test.after, test.end)
		used(1, 1, test.after, test.end)
		used(1, 3, test.after, test.end)
	}
	used(2, 1, time.Hour, false) // of a token that was never used
	used(0, 0, time.Hour, true)  // and the last one, which says that all were looked at
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { doubts.Run(ctx); close(ended) }()
	last := len(tokens) - 1
	w.eventually("the last family ends", func() bool { return !w.a.active("api", tokens[last].text("access_token")) })
	stop()
	<-ended
	for i, got := range tokens {
		if active := w.a.active("api", got.text("access_token")); active == ends[i] {
			t.Errorf("use %d of %d: active is %t", i, last, active)
		}
	}
}
