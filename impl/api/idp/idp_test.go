package idp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/server/servertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	idps   = "/resources/v3alpha/idps"
	gitlab = idps + "/gitlab"
)

// body is a request that makes a provider of a name.
func body(name string) string {
	return fmt.Sprintf(`{"idp":{"name":%q},"config":{"clientId":"id","clientSecret":"a secret of theirs"}}`, name)
}

func id(t *testing.T, got servertest.Reply) string {
	t.Helper()
	return got.Object(t, "details")["id"].(string)
}

func TestAProviderIsReadAsItWasMade(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	made := c.Must("owner", "POST", gitlab, `{"idp":{"name":"GitLab","options":{"isLinkingAllowed":true,"autoLinking":"AUTO_LINKING_OPTION_EMAIL"}},"config":{"clientId":"id","clientSecret":"hidden"}}`)
	if made.Status != 201 {
		t.Errorf("got %d", made.Status)
	}
	got := c.Must("owner", "GET", gitlab+"/"+id(t, made), "")
	for _, want := range []string{
		`"type":"PROVIDER_TYPE_GITLAB"`, `"state":"EFFECTIVE_STATE_ACTIVE"`, `"statePolicy":"STATE_POLICY_ACTIVATE"`, `"clientId":"id"`,
		`"scopes":["openid","profile","email"]`, `"isLinkingAllowed":true`, `"isCreationAllowed":false`, `"autoLinking":"AUTO_LINKING_OPTION_EMAIL"`,
	} {
		if !strings.Contains(got.Body, want) {
			t.Errorf("%s is not in %s", want, got.Body)
		}
	}
	for _, secret := range []string{"hidden", "clientSecret", "parent"} {
		if strings.Contains(got.Body, secret) {
			t.Errorf("%s is in %s", secret, got.Body)
		}
	}
	c.Must("owner", "PATCH", gitlab+"/"+id(t, made), `{"idp":{"options":{"isLinkingAllowed":false}}}`)
	if got := c.Must("owner", "GET", gitlab+"/"+id(t, made), ""); !strings.Contains(got.Body, `"isLinkingAllowed":false`) || !strings.Contains(got.Body, "OPTION_EMAIL") {
		t.Errorf("after a patch of one option: %s", got.Body)
	}
	c.Refused("owner", "GET", idps+"/github/"+id(t, made), "", 404, "NOT_FOUND")
}

func TestWhatIsInheritedIsSwitchedAndNothingElse(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	made := id(t, c.Must("owner", "POST", gitlab, body("GitLab")))
	at := gitlab + "/" + made
	seen := func(user string) string {
		got := c.Must(user, "GET", at, "").Object(t, "idp")
		parent := ""
		if above, ok := got["parent"].(map[string]any); ok {
			parent = fmt.Sprint(" below ", above["parent"].(map[string]any)["type"], " ", above["state"])
		}
		return strings.NewReplacer("EFFECTIVE_STATE_", "", "STATE_POLICY_", "", "OWNER_TYPE_", "").Replace(
			fmt.Sprint(got["state"], " by ", got["idp"].(map[string]any)["idp"].(map[string]any)["statePolicy"], parent))
	}
	patch := func(user, policy string) {
		c.Must(user, "PATCH", at, fmt.Sprintf(`{"idp":{"statePolicy":"STATE_POLICY_%s"}}`, policy))
	}
	for _, step := range []struct{ user, policy, owner, org string }{
		{"", "", "ACTIVE by ACTIVATE", "ACTIVE by INHERIT below INSTANCE ACTIVE"},
		{"orgowner", "DEACTIVATE", "ACTIVE by ACTIVATE", "INACTIVE by DEACTIVATE below INSTANCE ACTIVE"},
		{"orgowner", "INHERIT", "ACTIVE by ACTIVATE", "ACTIVE by INHERIT below INSTANCE ACTIVE"},
		{"owner", "DEACTIVATE", "INACTIVE by DEACTIVATE", "INACTIVE by INHERIT below INSTANCE INACTIVE"},
		{"orgowner", "ACTIVATE", "INACTIVE by DEACTIVATE", "INACTIVE by ACTIVATE below INSTANCE INACTIVE"}, // what the instance deactivated stays so
	} {
		if step.user != "" {
			patch(step.user, step.policy)
		}
		if owner, org := seen("owner"), seen("orgowner"); owner != step.owner || org != step.org {
			t.Errorf("after %s %s: the instance sees %s, want %s; the organization %s, want %s", step.user, step.policy, owner, step.owner, org, step.org)
		}
	}
	before := c.Must("owner", "GET", at, "").Body
	for field, body := range map[string]string{
		"idp.name": `{"idp":{"name":"Ours","statePolicy":"STATE_POLICY_DEACTIVATE"}}`, "idp.options": `{"idp":{"options":{"isAutoUpdate":true}}}`,
		"config.clientId": `{"config":{"clientId":"ours"}}`, "config.clientSecret": `{"config":{"clientSecret":"ours"}}`,
	} {
		got := c.Do("orgowner", "PATCH", at, body)
		c.IsRefused(got, body, 400, "INHERITED_READ_ONLY")
		if !strings.Contains(got.Body, `"field":"`+field+`"`) {
			t.Errorf("%s: %s", body, got.Body)
		}
	}
	c.Refused("orgowner", "DELETE", idps+"/"+made, "", 403, "INHERITED_READ_ONLY")
	if after := c.Must("owner", "GET", at, "").Body; after != before {
		t.Errorf("what was refused changed it: %s", after)
	}
	if got := seen("orgowner"); !strings.HasPrefix(got, "INACTIVE by ACTIVATE") {
		t.Errorf("what was refused switched it: %s", got)
	}
}

func TestSEC206_TheSecretIsSealedAndNeverSentElsewhere(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	made := id(t, c.Must("owner", "POST", idps+"/oidc", `{"idp":{"name":"x"},"config":{"issuer":"https://a.example","clientId":"id","clientSecret":"canary-5171"}}`))
	if got := c.Value("SELECT count(*)::text FROM idps WHERE position('canary'::bytea in client_secret) > 0 OR length(client_secret) = 0"); got != "0" {
		t.Errorf("%s secrets are not sealed", got)
	}
	c.Refused("owner", "PATCH", idps+"/oidc/"+made, `{"config":{"issuer":"https://b.example"}}`, 400, "CLIENT_SECRET_REQUIRED")
	c.Must("owner", "PATCH", idps+"/oidc/"+made, `{"config":{"issuer":"https://b.example","clientSecret":"canary-5172"}}`)
	c.Must("owner", "PATCH", idps+"/oidc/"+made, `{"config":{"clientSecret":""}}`)
	c.Must("owner", "PATCH", idps+"/oidc/"+made, `{"config":{"issuer":"https://a.example"}}`)
	sequence := func() any { return c.Must("owner", "GET", idps+"/oidc/"+made, "").Object(t, "idp")["details"] }
	c.Must("owner", "PATCH", idps+"/oidc/"+made, `{"config":{"clientSecret":"canary-5173"}}`)
	before := fmt.Sprint(sequence())
	c.Must("owner", "PATCH", idps+"/oidc/"+made, `{"config":{"clientSecret":"canary-5173"}}`)
	if after := fmt.Sprint(sequence()); after != before {
		t.Errorf("the same secret again is a change: %s, then %s", before, after)
	}
	if got := c.Value("SELECT count(*)::text FROM events WHERE payload::text LIKE '%canary%'"); got != "0" {
		t.Errorf("%s events have a secret", got)
	}
}

// TestSEC235_AProviderThatUsersAreLinkedToBecomesNoOther: whoever may change one could have an
// address of theirs say who its users are.
func TestSEC235_AProviderThatUsersAreLinkedToBecomesNoOther(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	org := "?ctx.orgId=" + c.Org("A")
	human := c.Create("owner", "/resources/v3alpha/users"+org, `{"username":"ada","human":{"email":{"address":"ada@x.example"}}}`)
	made := id(t, c.Must("orgowner", "POST", idps+"/oidc"+org, `{"idp":{"name":"x"},"config":{"issuer":"https://a.example","clientId":"id"}}`))
	at := idps + "/oidc/" + made
	c.Must("orgowner", "PATCH", at, `{"config":{"issuer":"https://b.example"}}`)
	link := c.Create("owner", "/v3alpha/users/"+human+"/idps", fmt.Sprintf(`{"idpId":%q,"externalUserId":"1","externalUsername":"ada"}`, made))
	c.Refused("orgowner", "PATCH", at, `{"config":{"issuer":"https://c.example"}}`, 400, "IDP_LINKED")
	c.Must("orgowner", "PATCH", at, `{"idp":{"name":"y"},"config":{"clientId":"other","issuer":"https://b.example"}}`)
	c.Must("owner", "DELETE", "/v3alpha/users/"+human+"/idps/"+link, "")
	c.Must("orgowner", "PATCH", at, `{"config":{"issuer":"https://c.example"}}`)
}

// TestAProviderHasADescription in what is read, searched, changed and told.
func TestAProviderHasADescription(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	made := id(t, c.Must("owner", "POST", idps+"/github", `{"idp":{"name":"x","description":"for those of the old forge"},"config":{"clientId":"id"}}`))
	c.Refused("owner", "PATCH", idps+"/github/"+made, `{"idp":{"description":"`+strings.Repeat("ü", 501)+`"}}`, 400, "INVALID_FIELD")
	for _, got := range []string{c.Must("owner", "GET", idps+"/github/"+made, "").Body, c.Must("owner", "POST", idps+"/_search", `[]`).Body, c.Value("SELECT payload::text FROM events WHERE aggregate_id = $1", made)} {
		if !strings.Contains(got, "for those of the old forge") {
			t.Errorf("got %s", got)
		}
	}
	c.Must("owner", "PATCH", idps+"/github/"+made, `{"idp":{"description":"for nobody"}}`)
	if got := c.Value("SELECT payload->>'description' FROM events WHERE aggregate_id = $1 AND event_type = 'idp.changed'", made); got != "for nobody" {
		t.Errorf("told is %q", got)
	}
}
