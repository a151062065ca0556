package audit_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/server/servertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const events = "/resources/v3alpha/events/_search"

// answer is what a search answers.
type answer struct {
	Details struct {
		AppliedLimit int
		EndOfList    bool
		Position     string
	}
	Result []struct {
		Sequence, Type, AggregateType, AggregateID, Creator, CreationDate string

		ResourceOwner struct{ Type, ID string }
		Payload       map[string]any
	}
}

// types returns what happened, in order.
func (a answer) types() string {
	var all []string
	for _, e := range a.Result {
		all = append(all, e.Type)
	}
	return strings.Join(all, " ")
}

func search(c *servertest.Cluster, user, query, filters string) (a answer) {
	c.Helper()
	got := c.Must(user, "POST", events+query, filters)
	if err := json.Unmarshal([]byte(got.Body), &a); err != nil {
		c.Fatal(err)
	}
	return a
}

func TestASearchFindsByWhatWhomWhenAndWhere(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	start := search(c, "owner", "?query.limit=1", "").Result[0]
	id := c.Create("owner", "/resources/v3alpha/projects", `{"name":"p"}`)
	c.Must("owner", "PATCH", "/resources/v3alpha/projects/"+id, `{"name":"q"}`)
	c.Create("manager", "/resources/v3alpha/projects?ctx.orgId="+c.Org("A2"), `{"name":"r"}`)
	c.Create("owner", "/resources/v3alpha/targets", `{"name":"t","restWebhook":{"url":"https://t.example"},"timeout":"1s"}`)
	settled(c)
	since := `{"sequence":{"atLeast":"` + fmt.Sprint(atoi(t, start.Sequence)+1) + `"}}`
	for _, test := range []struct{ name, filters, want string }{
		{"all", ``, "project.added project.changed project.added target.added"},
		{"a type", `,{"type":{"types":["project.changed"]}}`, "project.changed"},
		{"types", `,{"type":{"types":["project.changed","target.added"]}}`, "project.changed target.added"},
		{"a group", `,{"type":{"types":["project.*"]}}`, "project.added project.changed project.added"},
		{"a group and a type in it", `,{"type":{"types":["project.*"]}},{"type":{"types":["project.changed"]}}`, "project.changed"},
		{"two types at once", `,{"type":{"types":["project.added"]}},{"type":{"types":["project.changed"]}}`, ""},
		{"no type", `,{"type":{"types":["project.addedd"]}}`, ""},
		{"a prefix that is no group", `,{"type":{"types":["proj.*"]}}`, ""},
		{"a kind of objects", `,{"object":{"type":"project"}}`, "project.added project.changed project.added"},
		{"an object", `,{"object":{"type":"project","id":"` + id + `"}}`, "project.added project.changed"},
		{"an object and a type", `,{"object":{"type":"project","id":"` + id + `"}},{"type":{"types":["project.added"]}}`, "project.added"},
		{"another kind of that ID", `,{"object":{"type":"target","id":"` + id + `"}}`, ""},
		{"who", `,{"creator":{"id":"` + c.User("manager") + `"}}`, "project.added"},
		{"where, an organization", `,{"owner":{"id":"` + c.Org("A2") + `"}}`, "project.added"},
		{"where, the instance", `,{"owner":{"id":"` + c.Instance("a") + `"}}`, "target.added"},
		{"from then on", `,{"creationDate":{"timestamp":"` + start.CreationDate + `","method":"TIMESTAMP_Filter_METHOD_GREATER"}}`, "project.added project.changed project.added target.added"},
		{"until then", `,{"creationDate":{"timestamp":"` + start.CreationDate + `","method":"TIMESTAMP_Filter_METHOD_LESS"}}`, ""},
		{"up to the one before", `,{"sequence":{"atMost":"` + start.Sequence + `"}}`, ""},
		{"beyond any number", `,{"sequence":{"atLeast":"18446744073709551615"}}`, ""},
	} {
		found := search(c, "owner", "?query.asc=true", "["+since+test.filters+"]")
		if got := found.types(); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
		backwards := search(c, "owner", "", "["+since+test.filters+"]")
		if slices.Reverse(backwards.Result); backwards.types() != test.want {
			t.Errorf("%s, newest first: got %q backwards, want %q", test.name, backwards.types(), test.want)
		}
		// Followed, the same conditions find the same.
		if got := search(c, "owner", "?after="+start.Sequence, "["+since+test.filters+"]"); got.types() != test.want || !got.Details.EndOfList {
			t.Errorf("%s, followed: got %q, end %t, want %q", test.name, got.types(), got.Details.EndOfList, test.want)
		}
	}
	changed := search(c, "owner", "", `[{"type":{"types":["project.changed"]}}]`).Result[0]
	if changed.AggregateType != "project" || changed.AggregateID != id || changed.Creator != c.User("owner") || changed.Payload["name"] != "q" ||
		changed.ResourceOwner.Type != "OWNER_TYPE_ORG" || changed.ResourceOwner.ID != c.Org("A") {
		t.Errorf("got %+v", changed)
	}
	c.Refused("owner", "POST", events, `[{"type":{"types":["Project.*"]}}]`, 400, "INVALID_FIELD")
	c.Refused("owner", "POST", events, `[{"type":{"types":[]}}]`, 400, "INVALID_FIELD")
}

func TestPagesMeetAndEndTells(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	for i := range 5 {
		c.Create("owner", "/resources/v3alpha/projects", fmt.Sprintf(`{"name":"p%d"}`, i))
	}
	for _, filters := range []string{`[{"object":{"type":"project"}}]`, `[{"type":{"types":["project.added"]}},{"owner":{"id":"` + c.Org("A") + `"}}]`} {
		whole := search(c, "owner", "?query.asc=true", filters)
		if len(whole.Result) != 5 || !whole.Details.EndOfList || whole.Details.AppliedLimit != 100 {
			t.Fatalf("got %+v", whole)
		}
		var paged []string
		for offset := 0; offset < 5; offset += 2 {
			page := search(c, "owner", fmt.Sprintf("?query.asc=true&query.limit=2&query.offset=%d", offset), filters)
			if page.Details.EndOfList != (offset == 4) {
				t.Errorf("page from %d: the end is %t", offset, page.Details.EndOfList)
			}
			for _, e := range page.Result {
				paged = append(paged, e.Sequence)
			}
		}
		// Backwards by sequence, as the contract says, while more happens.
		var back []string
		bound := ""
		for {
			page := search(c, "owner", "?query.limit=2", strings.TrimSuffix(filters, "]")+bound+"]")
			for _, e := range page.Result {
				back = append(back, e.Sequence)
			}
			if page.Details.EndOfList {
				break
			}
			bound = `,{"sequence":{"atMost":"` + fmt.Sprint(atoi(t, back[len(back)-1])-1) + `"}}`
			c.Create("owner", "/resources/v3alpha/targets", `{"name":"`+servertest.NewID()+`","restWebhook":{"url":"https://t.example"},"timeout":"1s"}`)
		}
		slices.Reverse(back)
		for i, e := range whole.Result {
			if paged[i] != e.Sequence || back[i] != e.Sequence {
				t.Errorf("event %d: %s by offset, %s by sequence, want %s", i, paged[i], back[i], e.Sequence)
			}
		}
		if beyond := search(c, "owner", "?query.offset=18446744073709551615", filters); len(beyond.Result) != 0 || !beyond.Details.EndOfList {
			t.Errorf("beyond the end: got %+v", beyond)
		}
	}
}

// TestSEC233_EventsAreReadWhereTheCallerMay: all of an instance, or those of what belongs
// to an organization, never those of another one.
func TestSEC233_EventsAreReadWhereTheCallerMay(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	c.Create("owner", "/resources/v3alpha/projects", `{"name":"in A"}`)
	c.Create("owner", "/resources/v3alpha/projects?ctx.orgId="+c.Org("A2"), `{"name":"in A2"}`)
	settled(c)
	owners := func(user, query string) map[string]bool {
		found := map[string]bool{}
		for _, e := range search(c, user, query, "").Result {
			found[e.ResourceOwner.ID] = true
		}
		return found
	}
	for _, query := range []string{"?query.limit=1000", "?query.limit=1000&after=0"} {
		if got := owners("owner", query); len(got) != 3 || !got[c.Org("A")] || !got[c.Org("A2")] || !got[c.Instance("a")] {
			t.Errorf("%s: the owner of the instance reads of %v", query, got)
		}
		if got := owners("second", query); len(got) != 1 || !got[c.Org("A2")] {
			t.Errorf("%s: the owner of A2 reads of %v", query, got)
		}
		if got := owners("owner", query+"&ctx.orgId="+c.Org("A2")); len(got) != 1 || !got[c.Org("A2")] {
			t.Errorf("%s: in A2 the owner of the instance reads of %v", query, got)
		}
		if got := owners("bob", query); got[c.Org("A")] || got[c.Org("A2")] || got[c.Instance("a")] || !got[c.Instance("b")] {
			t.Errorf("%s: the owner of b reads of %v", query, got)
		}
		c.Refused("nobody", "POST", events+query, "", 403, "PERMISSION_DENIED")
		c.Refused("manager", "POST", events+query, "", 403, "PERMISSION_DENIED")
		c.Refused("system", "POST", events+query, "", 403, "PERMISSION_DENIED")
		c.Refused("second", "POST", events+query+"&ctx.orgId="+c.Org("A"), "", 403, "PERMISSION_DENIED")
	}
	if got := search(c, "second", "", `[{"owner":{"id":"`+c.Org("A")+`"}}]`); len(got.Result) != 0 {
		t.Errorf("the owner of A2 finds %s of A", got.types())
	}
}

// TestREL035_WhoFollowsMissesNothing lets a transaction take its number first and commit
// last: a search shows the later event at once, who follows sees both, in the order of
// their commits, and never one twice.
func TestREL035_WhoFollowsMissesNothing(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	at := settled(c)
	slow, err := c.DB.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = slow.Rollback(t.Context()) }()
	early := event.Event{
		InstanceID: c.Instance("a"), ObjectID: "early", Payload: &eventv1.TargetRemoved{}, Cause: event.Cause{Creator: "test", At: time.Now().UTC()},
		Owner: &object.Owner{Type: object.OwnerType_OWNER_TYPE_INSTANCE, Id: c.Instance("a")},
	}
	if _, err := event.Append(t.Context(), slow, early); err != nil {
		t.Fatal(err)
	}
	c.Create("owner", "/resources/v3alpha/projects", `{"name":"late"}`)
	if got := search(c, "owner", "?query.limit=1", ""); got.types() != "project.added" || got.Details.Position != at {
		t.Errorf("a search finds %s, and to follow from there is %s; want project.added and %s", got.types(), got.Details.Position, at)
	}
	if got := search(c, "owner", "?after="+at, ""); len(got.Result) != 0 || !got.Details.EndOfList || got.Details.Position != at {
		t.Errorf("while an older transaction runs: got %+v", got)
	}
	if err := slow.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	followed := ""
	c.WithinASecond("both events are followed", func() bool { // transactions of other databases hold back too
		got := search(c, "owner", "?query.limit=1&after="+at, "")
		followed, at = strings.TrimSpace(followed+" "+got.types()), got.Details.Position
		return len(strings.Fields(followed)) >= 2
	})
	if got := search(c, "owner", "?after="+at, ""); followed != "target.removed project.added" || len(got.Result) != 0 {
		t.Errorf("followed %q and then %q", followed, got.types())
	}
}

// TestREL108_WhoFollowsDoesNotWaitForOthers lets transactions of another instance, and one that
// tells nothing, stay open.
func TestREL108_WhoFollowsDoesNotWaitForOthers(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	at := settled(c)
	for _, instance := range []string{c.Instance("b"), ""} {
		open, err := c.DB.Pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = open.Rollback(t.Context()) }()
		if _, err := open.Exec(t.Context(), "CREATE TEMPORARY TABLE staged ON COMMIT DROP AS SELECT pg_current_xact_id()"); err != nil {
			t.Fatal(err)
		}
		if instance == "" {
			continue
		}
		if _, err := event.Append(t.Context(), open, event.Event{
			InstanceID: instance, ObjectID: "theirs", Payload: &eventv1.TargetRemoved{}, Cause: event.Cause{Creator: "test", At: time.Now().UTC()},
			Owner: &object.Owner{Type: object.OwnerType_OWNER_TYPE_INSTANCE, Id: instance},
		}); err != nil {
			t.Fatal(err)
		}
	}
	c.Create("owner", "/resources/v3alpha/projects", `{"name":"ours"}`)
	if got := search(c, "owner", "?after="+at, ""); got.types() != "project.added" || !got.Details.EndOfList {
		t.Errorf("while transactions of others are open: got %+v", got)
	}
	if got := search(c, "owner", "?query.limit=1", ""); got.Details.Position != got.Result[0].Sequence {
		t.Errorf("to follow from there is %s, want %s", got.Details.Position, got.Result[0].Sequence)
	}
}

// settled waits until all that happened can be followed, and returns where that ends.
func settled(c *servertest.Cluster) (position string) {
	c.WithinASecond("what happened is settled", func() bool {
		newest := search(c, "owner", "?query.limit=1", "")
		position = newest.Details.Position
		return position == newest.Result[0].Sequence
	})
	return position
}

func TestWhoFollowsGoesOnWhenTheirPlaceWasSwept(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	for i := range 4 {
		c.Create("owner", "/resources/v3alpha/projects", fmt.Sprintf(`{"name":"p%d"}`, i))
	}
	settled(c)
	all := search(c, "owner", "?query.asc=true", `[{"object":{"type":"project"}}]`).Result
	if _, err := c.DB.Pool.Exec(t.Context(), "DELETE FROM events WHERE sequence <= $1 AND event_type LIKE 'project%'", atoi(t, all[1].Sequence)); err != nil {
		t.Fatal(err)
	}
	got := search(c, "owner", "?after="+all[1].Sequence, `[{"object":{"type":"project"}}]`)
	if len(got.Result) != 2 || got.Result[0].Sequence != all[2].Sequence {
		t.Errorf("after a swept one: got %+v, want the two that are left", got)
	}
	if got := search(c, "owner", "?after="+all[3].Sequence+"000000", ""); len(got.Result) != 0 || !got.Details.EndOfList {
		t.Errorf("after one that is not there yet: got %+v", got)
	}
}

func atoi(t *testing.T, text string) (n int64) {
	t.Helper()
	if _, err := fmt.Sscan(text, &n); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return n
}
