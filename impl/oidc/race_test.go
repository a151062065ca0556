package oidc_test

import (
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// raceDetector is set where each round costs ten times as much.
var raceDetector bool

// rounds runs a race many times, several at once.
func rounds(t *testing.T, n int, round func(i int)) {
	t.Helper()
	if testing.Short() || raceDetector {
		n /= 20
	}
	const lanes = 4
	var next atomic.Int64
	var group sync.WaitGroup
	for range lanes {
		group.Go(func() {
			for i := next.Add(1); i <= int64(n) && !t.Failed(); i = next.Add(1) {
				round(int(i))
			}
		})
	}
	group.Wait()
}

// batch makes many values by a cookie that many goroutines may use: a browser is for
// one.
type batch struct {
	*side
	cookie string
}

func (s *side) batch(name string) *batch {
	s.Helper()
	return &batch{s, "__Host-writ_sessions=" + s.signedIn(name).cookie("__Host-writ_sessions")}
}

// code returns a code for an app.
func (b *batch) code(app, scope string) string {
	b.Helper()
	got := b.call(http.MethodGet, authorizePath+"?"+b.request(app, "scope", scope).Encode(), "", header("Cookie", b.cookie))
	to, err := url.Parse(got.Header.Get("Location"))
	if err != nil || to.Query().Get("code") == "" {
		b.Errorf("no code: %d %v %s", got.Status, got.Header, got.Text)
		return ""
	}
	return to.Query().Get("code")
}

// one checks that of a race exactly one was given tokens, and that the others were
// refused for a reason.
func (s *side) one(what string, won []*answer, lost map[string]int, n int, code string) *answer {
	s.Helper()
	if len(won) != 1 || lost[code] != n-1 {
		s.Errorf("%s: %d of %d won, refused: %v", what, len(won), n, lost)
		return &answer{}
	}
	return won[0]
}

// TestSEC033_REL020_OneOfManyRedeems: of many who redeem a code at the same time at
// two nodes one gets tokens; and because the others have used it a second time,
// these end.
func TestSEC033_REL020_OneOfManyRedeems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.batch("alice")
	const contenders = 6
	rounds(t, 1000, func(i int) {
		app := []string{"web", "spa"}[i%2]
		code := b.code(app, offline)
		won, lost := w.race(contenders, func(node int) *answer { return w.a.on(node).redeem(app, code) })
		tokens := w.a.one(fmt.Sprint("round ", i), won, lost, contenders, "invalid_grant")
		for node := range 2 {
			if w.a.on(node).active("api", tokens.text("access_token")) {
				t.Errorf("round %d: the access token is active on node %d although the code was used again", i, node)
			}
		}
		if i%10 == 0 {
			w.a.refused("the refresh token", w.a.refresh(app, tokens.text("refresh_token")), "invalid_grant")
		}
	})
	if alive := w.a.grants(); alive != "0" {
		t.Errorf("%s grants are alive, want none", alive)
	}
	if twice := w.value("SELECT count(*)::text FROM (SELECT aggregate_id FROM events WHERE event_type = 'oidc_session.added' GROUP BY instance_id, aggregate_id HAVING count(*) > 1) t"); twice != "0" {
		t.Errorf("%s codes were redeemed twice", twice)
	}
}

// TestSEC091_REL021_OneOfManyRefreshes: of many uses of a refresh token one wins. The
// others have used it for the second time, so the family ends: nobody is left with a
// token that works, and nobody with half of a family.
func TestSEC091_REL021_OneOfManyRefreshes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.batch("alice")
	const contenders = 6
	rounds(t, 1000, func(i int) {
		app := []string{"web", "spa"}[i%2]
		first := w.a.redeem(app, b.code(app, offline))
		token := first.text("refresh_token")
		won, lost := w.race(contenders, func(node int) *answer { return w.a.on(node).refresh(app, token) })
		next := w.a.one(fmt.Sprint("round ", i), won, lost, contenders, "invalid_grant")
		for node := range 2 {
			at := w.a.on(node)
			if at.active("api", first.text("access_token")) || at.active("api", next.text("access_token")) {
				t.Errorf("round %d: an access token of the family is active on node %d", i, node)
			}
			w.a.refused("the successor", at.refresh(app, next.text("refresh_token")), "invalid_grant")
		}
	})
	if alive := w.a.grants(); alive != "0" {
		t.Errorf("%s families are alive, want none", alive)
	}
	if twice := w.value("SELECT count(*)::text FROM (SELECT aggregate_id FROM events WHERE event_type = 'oidc_session.refresh_token.renewed' GROUP BY instance_id, aggregate_id HAVING count(*) > 1) t"); twice != "0" {
		t.Errorf("%s refresh tokens were used twice", twice)
	}
}

// TestSEC057_REL020_OneOfManyAssertions: of many uses of an assertion one wins.
func TestSEC057_REL020_OneOfManyAssertions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const contenders = 6
	rounds(t, 1000, func(i int) {
		if i%2 == 0 {
			form := pairs("grant_type", grantJWT, "scope", "openid", "assertion", w.a.assertion("robot", nil))
			won, lost := w.race(contenders, func(node int) *answer { return w.a.on(node).form(tokenPath, form) })
			w.a.one(fmt.Sprint("round ", i), won, lost, contenders, "invalid_grant")
			return
		}
		form := pairs("token", "x", "client_assertion_type", assertionType, "client_assertion", w.a.assertion("jwt", nil))
		won, lost := w.race(contenders, func(node int) *answer { return w.a.on(node).form(introspectPath, form) })
		w.a.one(fmt.Sprint("round ", i), won, lost, contenders, "invalid_client")
	})
}

// TestREL021_RevocationAndRefresh: whichever comes first, after a revocation that was
// answered nothing of the family works.
func TestREL021_RevocationAndRefresh(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.batch("alice")
	rounds(t, 200, func(i int) {
		first := w.a.redeem("web", b.code("web", offline))
		token := first.text("refresh_token")
		var next, revoked *answer
		var group sync.WaitGroup
		group.Go(func() { next = w.a.refresh("web", token) })
		group.Go(func() { revoked = w.a.on(1).as("web", revokePath, pairs("token", token)) })
		group.Wait()
		if revoked.Status != http.StatusOK {
			t.Errorf("round %d: revoke: %d %s", i, revoked.Status, revoked.Text)
		}
		for node := range 2 {
			at := w.a.on(node)
			if at.active("api", first.text("access_token")) || next.Status == http.StatusOK && at.active("api", next.text("access_token")) {
				t.Errorf("round %d: a token is active after the revocation", i)
			}
		}
		if next.Status == http.StatusOK {
			w.a.refused("the successor", w.a.refresh("web", next.text("refresh_token")), "invalid_grant")
		}
	})
}
