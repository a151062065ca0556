package project_test

import (
	"testing"

	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/server/servertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const projects = "/resources/v3alpha/projects"

func TestANameIsTakenInItsOrganizationWhateverItsCase(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	id := c.Create("owner", projects, `{"name":"Straße"}`)
	c.Refused("owner", "POST", projects, `{"name":"STRASSE"}`, 409, "PROJECT_NAME_TAKEN") // SEC-298
	other := c.Create("owner", projects+"?ctx.orgId="+c.Org("A2"), `{"name":"Straße"}`)
	third := c.Create("owner", projects, `{"name":"third"}`)
	c.Refused("owner", "PATCH", projects+"/"+third, `{"name":"strasse"}`, 409, "PROJECT_NAME_TAKEN")
	c.Must("owner", "PATCH", projects+"/"+id, `{"name":"STRASSE"}`) // its own, in another spelling
	if got := c.Events(id) + " | " + c.Events(other) + " | " + c.Events(third); got != "project.added project.changed | project.added | project.added" {
		t.Errorf("events %s", got)
	}
}

func TestStatesMoveOnceAndAPatchThatChangesNothingWritesNothing(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	id := c.Create("owner", projects, `{"name":"p","projectRoleCheck":true}`)
	at := projects + "/" + id
	c.Refused("owner", "POST", at+"/_activate", "", 400, "STATE_UNCHANGED")
	c.Must("owner", "POST", at+"/_deactivate", "")
	c.Refused("owner", "POST", at+"/_deactivate", "", 400, "STATE_UNCHANGED")
	c.Must("owner", "POST", at+"/_activate", "")
	before := c.Events(id)
	c.Must("owner", "PATCH", at, `{"name":"p","projectRoleCheck":true}`)
	if got := c.Events(id); got != before || got != "project.added project.deactivated project.reactivated" {
		t.Errorf("events %s, before %s", got, before)
	}
	if got := c.Must("owner", "GET", at, "").Object(t, "project"); got["projectRoleCheck"] != true || got["projectRoleAssertion"] == true {
		t.Errorf("got %v", got)
	}
}

// TestSEC219_AnIDIsNeverGivenTwice, also when what had it is gone.
func TestSEC219_AnIDIsNeverGivenTwice(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	id := c.Create("owner", projects, `{"name":"p","id":"mine"}`)
	c.Refused("owner", "POST", projects, `{"name":"q","id":"mine"}`, 409, "PROJECT_ID_TAKEN")
	c.Must("owner", "DELETE", projects+"/"+id, "")
	c.Refused("owner", "POST", projects, `{"name":"q","id":"mine"}`, 409, "PROJECT_ID_TAKEN")
	c.Refused("owner", "GET", projects+"/"+id, "", 404, "NOT_FOUND")
	c.Refused("owner", "DELETE", projects+"/"+id, "", 404, "NOT_FOUND")
}
