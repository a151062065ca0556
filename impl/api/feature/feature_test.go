package feature_test

import (
	"fmt"
	"testing"

	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/server/servertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	ofSystem   = "/v2/features/system"
	ofInstance = "/v2/features/instance"
)

// TestTheNearestDecisionCounts: an instance decides before the system, and what it does not
// decide, or not any more, is the system's.
func TestTheNearestDecisionCounts(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	flag := func(user, flag string) string {
		t.Helper()
		one, _ := c.Must(user, "GET", ofInstance, "").Object(t, "features")[flag].(map[string]any)
		return fmt.Sprint(one["enabled"], " ", one["source"])
	}
	const on, exchange = "userSchema", "oidcTokenExchange"
	if got := flag("owner", on) + " " + flag("owner", exchange); got != "true SOURCE_SYSTEM false SOURCE_UNSPECIFIED" {
		t.Errorf("at first: %s", got)
	}
	c.Must("owner", "PUT", ofInstance, `{"userSchema":false}`)
	if got := flag("owner", on); got != "false SOURCE_INSTANCE" {
		t.Errorf("decided by the instance: %s", got)
	}
	if got := flag("bob", on); got != "true SOURCE_SYSTEM" {
		t.Errorf("the other instance: %s", got)
	}
	c.Must("system", "PUT", ofSystem, `{"oidcTokenExchange":true}`)
	if got := flag("owner", on) + ", " + flag("owner", exchange); got != "false SOURCE_INSTANCE, true SOURCE_SYSTEM" {
		t.Errorf("what the system decides leaves alone what the instance did: %s", got)
	}
	c.Must("owner", "DELETE", ofInstance, "")
	if got := flag("owner", on); got != "true SOURCE_SYSTEM" {
		t.Errorf("reset: %s", got)
	}
}

func TestWhatIsDecidedAlreadyWritesNothing(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	events := func() string {
		return c.Value("SELECT count(*)::text FROM events WHERE instance_id = $1", c.Instance("a"))
	}
	first := c.Must("owner", "PUT", ofInstance, `{"userSchema":true}`).Object(t, "details")
	before := events()
	for _, call := range []struct{ method, body string }{{"PUT", `{"userSchema":true}`}, {"PUT", `{}`}} {
		if got := c.Must("owner", call.method, ofInstance, call.body).Object(t, "details"); got["sequence"] != first["sequence"] || got["changeDate"] != first["changeDate"] {
			t.Errorf("%s %s: got %v, want %v", call.method, call.body, got, first)
		}
	}
	if after := events(); after != before {
		t.Errorf("%s events have become %s", before, after)
	}
	c.Must("owner", "DELETE", ofInstance, "")
	once := events()
	c.Must("owner", "DELETE", ofInstance, "")
	if after := events(); after != once || once == before {
		t.Errorf("resetting twice: %s, %s and %s events", before, once, after)
	}
	c.Refused("orgowner", "PUT", ofInstance, `{"userSchema":true}`, 403, "PERMISSION_DENIED")
	c.Refused("owner", "PUT", ofSystem, `{"userSchema":true}`, 403, "PERMISSION_DENIED")
}
