package clock_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/core/clock"
)

func yes() *bool { b := true; return &b }
func no() *bool  { b := false; return &b }

// near reports whether two times are about the same: far less apart than a test moves
// a clock, far more than a machine stands still.
func near(a, b time.Time) bool { return a.Sub(b).Abs() < 10*time.Minute }

func TestAClockIsFrozenSetAndAdvanced(t *testing.T) {
	t.Parallel()
	c := clock.New()
	if !near(c.Now(), time.Now()) {
		t.Fatalf("a new clock shows %s", c.Now())
	}
	apply := func(change clock.Change) {
		t.Helper()
		if err := c.Apply(change); err != nil {
			t.Fatal(err)
		}
	}
	apply(clock.Change{Advance: "1h"})
	if !near(c.Now(), time.Now().Add(time.Hour)) {
		t.Errorf("after an hour it shows %s", c.Now())
	}
	at := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	apply(clock.Change{Set: &at, Frozen: yes()})
	time.Sleep(2 * time.Millisecond)
	if !c.Now().Equal(at) {
		t.Errorf("frozen it shows %s, want %s", c.Now(), at)
	}
	apply(clock.Change{Advance: "90s"})
	if want := at.Add(90 * time.Second); !c.Now().Equal(want) {
		t.Errorf("frozen and advanced it shows %s, want %s", c.Now(), want)
	}
	apply(clock.Change{Frozen: no()})
	time.Sleep(2 * time.Millisecond)
	if now := c.Now(); !near(now, at.Add(90*time.Second)) || now.Equal(at.Add(90*time.Second)) {
		t.Errorf("it should run on from where it was, it shows %s", now)
	}
	apply(clock.Change{Reset: true})
	if !near(c.Now(), time.Now()) {
		t.Errorf("reset it shows %s", c.Now())
	}
}

func TestWhoWaitsHearsOfAChange(t *testing.T) {
	t.Parallel()
	c := clock.New()
	changed := c.Changed()
	select {
	case <-changed:
		t.Fatal("nothing has changed yet")
	default:
	}
	if err := c.Apply(clock.Change{Advance: "1s"}); err != nil {
		t.Fatal(err)
	}
	<-changed // told before Apply returned, or never
}

func TestWhatIsWrongLeavesTheClockAlone(t *testing.T) {
	t.Parallel()
	c := clock.New()
	for _, test := range []struct {
		method, body string
		want         int
	}{
		{http.MethodGet, "", 200},
		{http.MethodPost, `{"advance":"1h"}`, 200},
		{http.MethodPost, `{"advance":"an hour"}`, 400},
		{http.MethodPost, `{"set":"tomorrow"}`, 400},
		{http.MethodPost, `{"set":"9999-01-01T00:00:00Z"}`, 400},
		{http.MethodPost, `{"freeze":true}`, 400},
		{http.MethodPost, ``, 400},
		{http.MethodDelete, "", 405},
	} {
		before := c.Now()
		recorder := httptest.NewRecorder()
		c.ServeHTTP(recorder, httptest.NewRequest(test.method, "/_dev/clock", strings.NewReader(test.body)))
		if recorder.Code != test.want {
			t.Errorf("%s %s: got %d, want %d: %s", test.method, test.body, recorder.Code, test.want, recorder.Body)
		}
		if moved := !near(c.Now(), before); test.want != 200 && moved {
			t.Errorf("%s %s was refused and moved the clock", test.method, test.body)
		}
	}
}
