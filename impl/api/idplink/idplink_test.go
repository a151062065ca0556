package idplink_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/server/servertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const idps = "/resources/v3alpha/idps"

func id(t *testing.T, got servertest.Reply) string {
	t.Helper()
	return got.Object(t, "details")["id"].(string)
}

// TestALinkIsAddedFoundAndRemoved, with its events; removing it ends what it proved.
func TestALinkIsAddedFoundAndRemoved(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	idp := id(t, c.Must("owner", "POST", idps+"/gitlab", `{"idp":{"name":"GitLab"},"config":{"clientId":"id"}}`))
	user := c.Create("owner", "/resources/v3alpha/users", `{"username":"ada","human":{"password":{"plain":"correct horse"}}}`)
	other := c.Create("owner", "/resources/v3alpha/users", `{"username":"bob","human":{}}`)
	at := "/v3alpha/users/" + user + "/idps"
	body := fmt.Sprintf(`{"idpId":%q,"externalUserId":"248","externalUsername":"ada"}`, idp)
	made := c.Must("owner", "POST", at, body)
	if made.Status != 201 {
		t.Errorf("got %d", made.Status)
	}
	c.Refused("owner", "POST", at, body, 409, "IDP_LINK_EXISTS")
	c.Refused("owner", "POST", "/v3alpha/users/"+other+"/idps", body, 409, "IDP_LINK_EXISTS") // SEC-201
	c.Refused("owner", "POST", at, `{"idpId":"nothing","externalUserId":"1"}`, 404, "IDP_NOT_FOUND")
	c.Refused("owner", "POST", at, `{"idpId":"`+idp+`","externalUserId":""}`, 400, "INVALID_FIELD")
	for filter, want := range map[string]bool{
		`[]`: true, `[{"idpId":{"id":"` + idp + `"}}]`: true, `[{"externalUserId":{"id":"248"}}]`: true, `[{"externalUserId":{"id":"249"}}]`: false,
	} {
		if got := c.Must("owner", "POST", at+"/_search", filter); strings.Contains(got.Body, `"externalUserId":"248"`) != want {
			t.Errorf("%s: %s", filter, got.Body)
		}
	}
	if got := c.Must("owner", "POST", "/v3alpha/users/"+other+"/idps/_search", `[]`); strings.Contains(got.Body, "248") {
		t.Errorf("of another user: %s", got.Body)
	}
	c.Must("owner", "POST", "/resources/v3alpha/sessions", `{"checks":{"user":{"userId":"`+user+`"},"password":{"password":"correct horse"}}}`)
	link := id(t, made)
	c.Refused("owner", "DELETE", "/v3alpha/users/"+other+"/idps/"+link, "", 404, "NOT_FOUND")
	c.Must("owner", "DELETE", at+"/"+link, "")
	if got := c.Value("SELECT count(*)::text FROM sessions"); got != "0" {
		t.Errorf("%s sessions are left", got)
	}
	if got := c.Value("SELECT string_agg(event_type, ' ' ORDER BY sequence) FROM events WHERE aggregate_id = $1 AND event_type LIKE '%externalidp%'", user); got != "user.human.externalidp.added user.human.externalidp.removed" {
		t.Errorf("events %s", got)
	}
	c.Must("owner", "POST", at, body)
	c.Must("owner", "DELETE", idps+"/"+idp, "")
	if got := c.Value("SELECT (SELECT count(*) FROM idp_links)::text || ' ' || event_type FROM events WHERE event_type LIKE '%externalidp%' ORDER BY sequence DESC LIMIT 1"); got != "0 user.human.externalidp.cascade.removed" {
		t.Errorf("after its provider is deleted: %s", got)
	}
}

// TestSEC202_NobodyLinksWhatTheyDoNotManage covers who may, and which providers.
func TestSEC202_NobodyLinksWhatTheyDoNotManage(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	org := func(name string) string { return c.Value("SELECT id FROM organizations WHERE name = $1", name) }
	theirs := id(t, c.Must("owner", "POST", idps+"/gitlab?ctx.orgId="+org("A2"), `{"idp":{"name":"Theirs"},"config":{"clientId":"id"}}`))
	ours := id(t, c.Must("owner", "POST", idps+"/gitlab", `{"idp":{"name":"Ours"},"config":{"clientId":"id"}}`))
	user := c.Create("owner", "/resources/v3alpha/users", `{"username":"ada","human":{}}`) // of A
	at := "/v3alpha/users/" + user + "/idps"
	body := func(idp, who string) string {
		return fmt.Sprintf(`{"idpId":%q,"externalUserId":%q}`, idp, who)
	}
	c.Refused("owner", "POST", at, body(theirs, "1"), 404, "IDP_NOT_FOUND")
	c.Refused("nobody", "POST", at, body(ours, "1"), 403, "PERMISSION_DENIED")
	c.Refused("second", "POST", at, body(ours, "1"), 404, "NOT_FOUND")
	c.Must("orgowner", "POST", at, body(ours, "1"))
	robot := c.Value("SELECT id FROM users WHERE username = 'owner'")
	c.Refused("orgowner", "POST", "/v3alpha/users/"+robot+"/idps", body(ours, "2"), 403, "USER_HOLDS_MORE")
	c.Refused("owner", "POST", "/v3alpha/users/"+robot+"/idps", body(ours, "2"), 400, "USER_NOT_HUMAN")
}
