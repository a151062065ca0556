package resource_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	grantv3 "github.com/writ-id/writ/gen/proto/writ/grant/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	projectv3 "github.com/writ-id/writ/gen/proto/writ/project/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/store/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// world is a database with two instances of an organization each, and tables of two
// resources: projects, and their roles, which go along with them.
type world struct {
	*testing.T
	env      resource.Env
	now      time.Time
	projects *resource.Table[db.Project, storage.Projects]
	roles    *resource.Table[db.ProjectRole, storage.ProjectRoles]
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	var ids atomic.Int64
	w.env = resource.Env{
		DB: pgtest.Open(t, 8), Now: func() time.Time { return w.now },
		NewID: func() string { return "id" + strconv.FormatInt(ids.Add(1), 10) },
	}
	w.projects, w.roles = resource.New(w.env, storage.Projects{}), resource.New(w.env, storage.ProjectRoles{})
	for _, id := range []string{"one", "two"} {
		w.exec("INSERT INTO instances (id, name, name_folded, sequence, creation_date, change_date) VALUES ($1, $1, $1, 1, now(), now())", id)
		w.exec("INSERT INTO organizations (instance_id, id, name, name_folded, state, sequence, creation_date, change_date) VALUES ($1, 'o', $1, $1, 1, 1, now(), now())", id)
	}
	return w
}

func (w *world) exec(sql string, args ...any) {
	w.Helper()
	if _, err := w.env.DB.Pool.Exec(w.Context(), sql, args...); err != nil {
		w.Fatal(err)
	}
}

// in is a call in the organization of an instance.
func (w *world) in(instance string) context.Context {
	return policy.As(w.Context(), policy.Context{Level: policyv1.Level_LEVEL_ORG, InstanceID: instance, OrgID: "o"}, "somebody", nil)
}

// create creates a project.
func (w *world) create(instance, name string) (*object.Details, error) {
	return w.projects.Create(w.in(instance), &db.Project{Name: name, State: object.EffectiveState_EFFECTIVE_STATE_ACTIVE}, &eventv1.ProjectAdded{})
}

func (w *world) must(details *object.Details, err error) *object.Details {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
	return details
}

// events returns the types and payloads of the events of an object, the oldest first.
func (w *world) events(id string) []string {
	w.Helper()
	rows, err := w.env.DB.Pool.Query(w.Context(), "SELECT event_type || ' ' || payload FROM events WHERE instance_id = 'one' AND aggregate_id = $1 ORDER BY sequence", id)
	if err != nil {
		w.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		w.Fatal(err)
	}
	return found
}

// refused says whether an error is a refusal of a kind, for a reason, on a field.
func (w *world) refused(err error, kind fault.Kind, reason, field string) {
	w.Helper()
	refusal, ok := errors.AsType[*fault.Error](err)
	if !ok || refusal.Kind != kind || refusal.Reason != reason {
		w.Fatalf("got %v, want %s", err, reason)
	}
	if field == "" && len(refusal.Fields) > 0 || field != "" && (len(refusal.Fields) != 1 || refusal.Fields[0].Field != field) {
		w.Errorf("%s blames %v, want %q", reason, refusal.Fields, field)
	}
}

func TestCreateStoresARowAndItsEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	details := w.must(w.create("one", "Straße"))
	if details.GetId() != "id1" || details.GetSequence() == 0 || !details.GetChangeDate().AsTime().Equal(w.now) ||
		details.GetResourceOwner().GetType() != object.OwnerType_OWNER_TYPE_ORG || details.GetResourceOwner().GetId() != "o" {
		t.Errorf("the details are %v", details)
	}
	row, err := w.projects.Get(w.in("one"), "id1")
	if err != nil || row.Name != "Straße" || row.NameFolded != "strasse" || row.InstanceID != "one" || row.OrgID != "o" || !row.CreationDate.Equal(w.now) || row.Sequence != int64(details.GetSequence()) {
		t.Errorf("the row is %+v, %v", row, err)
	}
	if got := w.events("id1"); len(got) != 1 || !strings.HasPrefix(got[0], "project.added ") || !strings.Contains(got[0], `"Straße"`) {
		t.Errorf("the events are %q", got)
	}
	var creator, owner string
	if err := w.env.DB.Pool.QueryRow(t.Context(), "SELECT creator, owner_id FROM events WHERE instance_id = 'one' AND aggregate_id = 'id1'").Scan(&creator, &owner); err != nil || creator != "somebody" || owner != "o" {
		t.Errorf("the event is of %q and belongs to %q, %v", creator, owner, err)
	}
	_, err = w.projects.Get(w.in("two"), "id1")
	w.refused(err, fault.NotFound, "NOT_FOUND", "") // of another instance
	_, err = w.projects.Get(w.in("one"), "id1", func(row *db.Project) bool { return row.Name == "other" })
	w.refused(err, fault.NotFound, "NOT_FOUND", "")
}

func TestChangeStoresWhatChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.create("one", "before"))
	change := func(apply func(*db.Project)) (*object.Details, error) {
		return w.projects.Change(w.in("one"), "id1", &eventv1.ProjectChanged{}, func(_ pgx.Tx, row *db.Project) error {
			apply(row)
			return nil
		})
	}
	created := w.now
	w.now = w.now.Add(time.Hour)
	details := w.must(change(func(row *db.Project) { row.HasProjectCheck = true }))
	if !details.GetChangeDate().AsTime().Equal(w.now) {
		t.Errorf("the details are %v", details)
	}
	events := w.events("id1")
	if len(events) != 2 || strings.Contains(events[1], "before") || !strings.Contains(events[1], "asProjectCheck") {
		t.Errorf("the events are %q", events)
	}
	w.now = w.now.Add(time.Hour)
	same := w.must(change(func(row *db.Project) { row.HasProjectCheck = true }))
	if same.GetSequence() != details.GetSequence() || len(w.events("id1")) != 2 {
		t.Errorf("nothing changed, and it was stored: %v", same)
	}
	refusal := errors.New("no")
	if _, err := w.projects.Change(w.in("one"), "id1", &eventv1.ProjectChanged{}, func(_ pgx.Tx, row *db.Project) error { row.Name = "after"; return refusal }); !errors.Is(err, refusal) {
		t.Errorf("got %v", err)
	}
	row, err := w.projects.Get(w.in("one"), "id1")
	if err != nil || row.Name != "before" || !row.HasProjectCheck || !row.CreationDate.Equal(created) || row.Sequence != int64(details.GetSequence()) {
		t.Errorf("the row is %+v, %v", row, err)
	}
	_, err = w.projects.Change(w.in("two"), "id1", &eventv1.ProjectChanged{}, func(pgx.Tx, *db.Project) error { return nil })
	w.refused(err, fault.NotFound, "NOT_FOUND", "")

	state := storage.Projects{}.State
	inactive := object.EffectiveState_EFFECTIVE_STATE_INACTIVE
	w.must(resource.SetState(w.in("one"), w.projects, state, "id1", inactive, &eventv1.ProjectDeactivated{}))
	_, err = resource.SetState(w.in("one"), w.projects, state, "id1", inactive, &eventv1.ProjectDeactivated{})
	w.refused(err, fault.FailedPrecondition, "STATE_UNCHANGED", "")
}

// TestConcurrentChangesComeOneAfterTheOther: each sees what the one before stored.
func TestConcurrentChangesComeOneAfterTheOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.create("one", "n"))
	const changes = 12
	results := make(chan error, changes)
	for range changes {
		go func() {
			_, err := w.projects.Change(w.in("one"), "id1", &eventv1.ProjectChanged{}, func(_ pgx.Tx, row *db.Project) error { row.Name += "n"; return nil })
			results <- err
		}()
	}
	for range changes {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if row, err := w.projects.Get(w.in("one"), "id1"); err != nil || row.Name != strings.Repeat("n", changes+1) || len(w.events("id1")) != changes+1 {
		t.Errorf("the row is %+v, %v", row, err)
	}
}

func TestDeleteLeavesAnEventOfAllThatGoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.create("one", "p"))
	role := &db.ProjectRole{ProjectID: "id1", Key: "reader"}
	w.must(w.roles.Create(w.in("one"), role, &eventv1.ProjectRoleAdded{}))
	stop := errors.New("stop")
	if _, err := w.projects.Delete(w.in("one"), "id1", &eventv1.ProjectRemoved{}, func(pgx.Tx, *db.Project) error { return stop }); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	_, err := w.projects.Delete(w.in("two"), "id1", &eventv1.ProjectRemoved{}, nil)
	w.refused(err, fault.NotFound, "NOT_FOUND", "")
	if got := w.events("id1"); len(got) != 1 {
		t.Fatalf("what was not deleted has the events %q", got)
	}
	w.now = w.now.Add(time.Hour)
	w.must(w.projects.Delete(w.in("one"), "id1", &eventv1.ProjectRemoved{}, nil))
	_, err = w.projects.Get(w.in("one"), "id1")
	w.refused(err, fault.NotFound, "NOT_FOUND", "")
	_, err = w.roles.Get(w.in("one"), role.ID)
	w.refused(err, fault.NotFound, "NOT_FOUND", "")
	for id, want := range map[string]string{"id1": "project.removed ", role.ID: "role.removed "} {
		if got := w.events(id); len(got) != 2 || !strings.Contains(got[1], want) {
			t.Errorf("the events of %s are %q", id, got)
		}
	}
	err = w.env.DB.InTx(w.in("one"), func(tx pgx.Tx) error {
		return w.projects.Unused(w.in("one"), tx, "id1", event.Aggregate(&eventv1.ProjectRemoved{}))
	})
	w.refused(err, fault.AlreadyExists, "PROJECT_ID_TAKEN", "project.id") // SEC-219
}

// TestConstraintsAreRefusals violates one of each form.
func TestConstraintsAreRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.create("one", "Straße"))
	w.must(w.create("two", "Straße"))
	_, err := w.create("one", "STRASSE")
	w.refused(err, fault.AlreadyExists, "PROJECT_NAME_TAKEN", "project.name")
	if !strings.Contains(err.Error(), `the name "STRASSE" is taken by another project`) {
		t.Errorf("got %v", err)
	}
	w.must(w.create("one", "other"))
	_, err = w.projects.Change(w.in("one"), "id4", &eventv1.ProjectChanged{}, func(_ pgx.Tx, row *db.Project) error { row.Name = "straße"; return nil })
	w.refused(err, fault.AlreadyExists, "PROJECT_NAME_TAKEN", "project.name")
	_, err = w.projects.Create(w.in("one"), &db.Project{ID: "id1", Name: "new"}, &eventv1.ProjectAdded{})
	w.refused(err, fault.AlreadyExists, "PROJECT_ID_TAKEN", "project.id")
	_, err = w.roles.Create(w.in("one"), &db.ProjectRole{ProjectID: "nowhere", Key: "k"}, &eventv1.ProjectRoleAdded{})
	w.refused(err, fault.NotFound, "PROJECT_NOT_FOUND", "role.projectId")
	grants := resource.New(w.env, storage.UserGrants{})
	_, err = grants.Create(w.in("one"), &db.UserGrant{UserID: "nobody", ProjectID: "id1"}, &eventv1.UserGrantAdded{})
	w.refused(err, fault.NotFound, "USER_NOT_FOUND", "userGrant.userId")
	if other := errors.New("other"); w.projects.Refusal(other) != other { //nolint:errorlint // it stays the very same
		t.Error("another error does not stay")
	}
}

func TestSearchPagesSortsAndCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 12 {
		w.now = w.now.Add(time.Minute)
		w.must(w.create("one", []string{"ä", "Ab", "a", "Z"}[i%4]+strconv.Itoa(i)))
	}
	w.must(w.create("two", "a-foreign"))
	search := func(req *projectv3.SearchProjectsRequest) ([]string, *object.ListDetails) {
		t.Helper()
		rows, details, err := storage.SearchProjects(w.in("one"), w.projects, req)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for i := range rows {
			names = append(names, rows[i].Name)
		}
		return names, details
	}
	byName := projectv3.ProjectFieldName_PROJECT_FIELD_NAME_NAME
	names, details := search(&projectv3.SearchProjectsRequest{SortingColumn: byName, Query: &object.ListQuery{Limit: 5, Asc: true}})
	if want := []string{"Ab1", "Ab5", "Ab9", "Z11", "Z3"}; !slices.Equal(names, want) || details.GetTotalResult() != 12 || details.GetEndOfList() || details.GetAppliedLimit() != 5 {
		t.Errorf("got %q, %v", names, details) // by code point
	}
	names, details = search(&projectv3.SearchProjectsRequest{SortingColumn: byName, Query: &object.ListQuery{Limit: 5, Offset: 10, Asc: true}})
	if len(names) != 2 || details.GetTotalResult() != 12 || !details.GetEndOfList() {
		t.Errorf("the last page is %q, %v", names, details)
	}
	names, details = search(&projectv3.SearchProjectsRequest{Query: &object.ListQuery{Limit: 5, Offset: 99}})
	if len(names) != 0 || details.GetTotalResult() != 12 || !details.GetEndOfList() {
		t.Errorf("beyond the end are %q, %v", names, details)
	}
	names, _ = search(&projectv3.SearchProjectsRequest{Query: &object.ListQuery{Limit: 2}})
	if want := []string{"Z11", "a10"}; !slices.Equal(names, want) {
		t.Errorf("the newest are %q", names)
	}
	for method, want := range map[object.TextFilterMethod]int{
		object.TextFilterMethod_TEXT_FILTER_METHOD_STARTS_WITH:             3,
		object.TextFilterMethod_TEXT_FILTER_METHOD_STARTS_WITH_IGNORE_CASE: 6,
		object.TextFilterMethod_TEXT_FILTER_METHOD_EQUALS:                  0,
		object.TextFilterMethod_TEXT_FILTER_METHOD_CONTAINS:                3,
	} {
		names, details = search(&projectv3.SearchProjectsRequest{Filters: []*projectv3.ProjectSearchFilter{
			{Filter: &projectv3.ProjectSearchFilter_Name{Name: &object.NameFilter{Name: "a", Method: method}}},
		}})
		if len(names) != want || details.GetTotalResult() != uint64(want) {
			t.Errorf("%v finds %q, %v", method, names, details)
		}
	}
	names, _ = search(&projectv3.SearchProjectsRequest{Filters: []*projectv3.ProjectSearchFilter{
		{Filter: &projectv3.ProjectSearchFilter_Name{Name: &object.NameFilter{Name: "%", Method: object.TextFilterMethod_TEXT_FILTER_METHOD_CONTAINS}}},
	}})
	if len(names) != 0 {
		t.Errorf("%% is a text, and finds %q", names) // SEC-240
	}
	names, _ = search(&projectv3.SearchProjectsRequest{Filters: []*projectv3.ProjectSearchFilter{
		{Filter: &projectv3.ProjectSearchFilter_InIds{InIds: &object.InIDsFilter{Ids: []string{"id1", "id2", "id13"}}}}, // id13 is of the other instance
		{Filter: &projectv3.ProjectSearchFilter_Name{Name: &object.NameFilter{Name: "Ab1"}}},
	}})
	if want := []string{"Ab1"}; !slices.Equal(names, want) {
		t.Errorf("two filters find %q", names)
	}
	w.must(w.projects.Delete(w.in("one"), "id1", &eventv1.ProjectRemoved{}, nil))
	if _, details = search(&projectv3.SearchProjectsRequest{}); details.GetTotalResult() != 11 || details.GetProcessedSequence() == 0 {
		t.Errorf("without one there are %v", details)
	}
	roles, details, err := storage.SearchRoles(w.in("one"), w.roles, &grantv3.SearchRolesRequest{})
	if err != nil || len(roles) != 0 || details.GetTotalResult() != 0 || !details.GetEndOfList() {
		t.Errorf("of none there are %v, %v, %v", roles, details, err)
	}
}
