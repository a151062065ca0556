package oidc_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
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
