package app_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/server/servertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const apps = "/resources/v3alpha/apps"

// create makes an OpenID client whose configuration begins with some members.
func create(c *servertest.Cluster, project, name, config string) servertest.Reply {
	c.Helper()
	return c.Do("owner", "POST", apps, fmt.Sprintf(`{"projectId":%q,"name":%q,"oidc":{%s,"redirectUris":["https://app.example/cb"],"responseTypes":["RESPONSE_TYPE_CODE"],"grantTypes":["GRANT_TYPE_AUTHORIZATION_CODE"],"applicationType":"APPLICATION_TYPE_WEB"}}`, project, name, config))
}

// TestSEC059_ASecretIsShownOnceAndItsPredecessorEndsWithTheOverlap looks at what is stored.
func TestSEC059_ASecretIsShownOnceAndItsPredecessorEndsWithTheOverlap(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	project := c.Create("owner", "/resources/v3alpha/projects", `{"name":"p"}`)
	made := create(c, project, "web", `"authMethodType":"AUTH_METHOD_TYPE_BASIC"`)
	id := servertest.ID(t, made)
	stored := func() string {
		return c.Value("SELECT encode(secret_hash, 'hex') || ' ' || coalesce(encode(old_secret_hash, 'hex'), '-') || ' ' || coalesce((old_secret_until > now())::text, '-') FROM apps WHERE id = $1", id)
	}
	hash := func(reply servertest.Reply) string {
		secret, _ := reply.Any(t)["clientSecret"].(string)
		if len(secret) < 43 {
			t.Fatalf("the secret %q has less than 256 bits", secret)
		}
		return c.Value("SELECT encode(sha256($1::text::bytea), 'hex')", secret)
	}
	first := hash(made)
	if got := stored(); got != first+" - -" {
		t.Errorf("stored %s, want the hash %s alone", got, first)
	}
	second := hash(c.Must("owner", "POST", apps+"/"+id+"/_regenerate_secret", `{"overlap":"3600s"}`))
	if got := stored(); got != second+" "+first+" true" {
		t.Errorf("with an overlap: stored %s", got)
	}
	third := hash(c.Must("owner", "POST", apps+"/"+id+"/_regenerate_secret", `{}`))
	if got := stored(); got != third+" - -" {
		t.Errorf("without an overlap: stored %s, want the hash %s alone", got, third)
	}
	if got := c.Must("owner", "GET", apps+"/"+id, "").Object(t, "app"); got["clientSecret"] != nil {
		t.Errorf("a secret is read: %v", got)
	}
	public := servertest.ID(t, create(c, project, "spa", `"authMethodType":"AUTH_METHOD_TYPE_NONE"`))
	c.Refused("owner", "POST", apps+"/"+public+"/_regenerate_secret", `{}`, 400, "NO_SECRET")
}

// TestSEC050_ASecretIsTakenEitherWayUnlessAMethodIsSaid leaves the method out, and chooses one.
func TestSEC050_ASecretIsTakenEitherWayUnlessAMethodIsSaid(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	project := c.Create("owner", "/resources/v3alpha/projects", `{"name":"p"}`)
	api := c.Must("owner", "POST", apps, fmt.Sprintf(`{"projectId":%q,"name":"api","api":{}}`, project))
	for kind, made := range map[string]servertest.Reply{"oidc": create(c, project, "web", `"developmentMode":false`), "api": api} {
		id := servertest.ID(t, made)
		if secret, _ := made.Any(t)["clientSecret"].(string); secret == "" {
			t.Errorf("%s: without a secret", kind)
		}
		method := func() any {
			return c.Must("owner", "GET", apps+"/"+id, "").Object(t, "app")[kind].(map[string]any)["authMethodType"]
		}
		if got := method(); got != "AUTH_METHOD_TYPE_SECRET" {
			t.Errorf("%s: the method is %v, want SECRET", kind, got)
		}
		// What a node of the release before writes when somebody changes the settings.
		hash := "SELECT encode(secret_hash, 'hex') FROM apps WHERE id = $1"
		before := c.Value(hash, id)
		c.Value("WITH changed AS (UPDATE apps SET secret_hash = NULL, old_secret_hash = NULL, old_secret_until = NULL WHERE id = $1 RETURNING id) SELECT id FROM changed", id)
		if got := c.Value(hash, id); got != before {
			t.Errorf("%s: an older node's change leaves the secret %q, want %q", kind, got, before)
		}
		c.Must("owner", "POST", apps+"/"+id+"/_regenerate_secret", `{}`)
		c.Must("owner", "PATCH", apps+"/"+id, `{"`+kind+`":{"authMethodType":"AUTH_METHOD_TYPE_BASIC"}}`)
		if got := method(); got != "AUTH_METHOD_TYPE_BASIC" {
			t.Errorf("%s: the method is %v, want BASIC", kind, got)
		}
		c.Must("owner", "PATCH", apps+"/"+id, `{"`+kind+`":{"authMethodType":"AUTH_METHOD_TYPE_PRIVATE_KEY_JWT"}}`)
		if got := c.Value("SELECT (secret_hash IS NULL)::text FROM apps WHERE id = $1", id); got != "true" {
			t.Errorf("%s: one that ceased to use a secret has it still", kind)
		}
	}
}

func TestKeysBelongToOneApplicationAndGoWithIt(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	project := c.Create("owner", "/resources/v3alpha/projects", `{"name":"p"}`)
	one := servertest.ID(t, create(c, project, "one", `"authMethodType":"AUTH_METHOD_TYPE_PRIVATE_KEY_JWT"`))
	other := servertest.ID(t, create(c, project, "other", `"authMethodType":"AUTH_METHOD_TYPE_PRIVATE_KEY_JWT"`))
	deleted, along := c.Create("owner", apps+"/"+one+"/keys", `{}`), c.Create("owner", apps+"/"+one+"/keys", `{}`)
	c.Refused("owner", "DELETE", apps+"/"+other+"/keys/"+deleted, "", 404, "NOT_FOUND")
	c.Must("owner", "DELETE", apps+"/"+one+"/keys/"+deleted, "")
	c.Must("owner", "DELETE", apps+"/"+one, "")
	for _, key := range []string{deleted, along} {
		if got := c.Events(key); got != "project.application.key.added project.application.key.removed" {
			t.Errorf("events of a key: %s", got)
		}
	}
	if got := c.Value("SELECT payload::text FROM events WHERE aggregate_id = $1 AND event_type = 'project.application.removed'", one); got == "{}" {
		t.Error("the event of the removal does not say which client is gone")
	}
}

// TestSEC235_OnlyWhoMayTrustChangesWhatIsTrusted: an owner of the organization loses the say
// over an application that acts with more rights than theirs.
func TestSEC235_OnlyWhoMayTrustChangesWhatIsTrusted(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	project := c.Create("orgowner", "/resources/v3alpha/projects", `{"name":"p"}`)
	id := servertest.ID(t, create(c, project, "web", `"authMethodType":"AUTH_METHOD_TYPE_BASIC"`))
	at := apps + "/" + id
	c.Must("orgowner", "PATCH", at, `{"oidc":{"developmentMode":true}}`) // the control
	c.Refused("orgowner", "POST", at+"/_trust", "", 403, "PERMISSION_DENIED")
	c.Must("owner", "POST", at+"/_trust", "")
	for _, call := range []struct{ method, path, body string }{
		{"PATCH", at, `{"oidc":{"developmentMode":false}}`}, {"POST", at + "/_regenerate_secret", `{}`}, {"POST", at + "/keys", `{}`},
	} {
		if got := c.Do("orgowner", call.method, call.path, call.body); got.Status != 403 {
			t.Errorf("%s %s: got %d %s, want 403", call.method, call.path, got.Status, got.Body)
		}
	}
	c.Must("owner", "POST", at+"/_distrust", "")
	c.Must("orgowner", "PATCH", at, `{"oidc":{"developmentMode":false}}`)
}

// TestSEC236_TrustIsNoMoreThanWasAskedFor: what asks for trust within the organization is never
// taken as trust in the instance, wherever it stands and whatever was before.
func TestSEC236_TrustIsNoMoreThanWasAskedFor(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	project := c.Create("orgowner", "/resources/v3alpha/projects", `{"name":"p"}`)
	at := apps + "/" + servertest.ID(t, create(c, project, "web", `"authMethodType":"AUTH_METHOD_TYPE_BASIC"`))
	is := func(trusted, inOrganization bool) {
		t.Helper()
		app := c.Must("owner", "GET", at, "")
		want := fmt.Sprintf(`"trusted":%t,"trustedInOrganization":%t`, trusted, inOrganization)
		if text := strings.ReplaceAll(app.Body, " ", ""); !strings.Contains(text, want) {
			t.Errorf("the app is %s, want %s", text, want)
		}
	}
	c.Refused("owner", "POST", at+"/_trust", `{"organization":true}`, 400, "UNKNOWN_FIELD")
	c.Refused("owner", "POST", at+"/_trust?organizationOnly=true", "", 400, "UNKNOWN_PARAMETER")
	c.Refused("owner", "POST", at+"/_distrust", `{"organizationOnly":true}`, 400, "UNEXPECTED_BODY")
	is(false, false)
	c.Must("owner", "POST", at+"/_trust", `{"organizationOnly":true}`)
	is(false, true)
	c.Must("owner", "POST", at+"/_trust", "")
	is(true, true)
	// Less takes what was given before away by its own name, not in passing.
	c.Refused("owner", "POST", at+"/_trust", `{"organizationOnly":true}`, 400, "APP_TRUSTED")
	is(true, true)
	c.Must("owner", "POST", at+"/_distrust", "{}")
	is(false, false)
	c.Must("owner", "POST", at+"/_trust", "{}")
	is(true, false)
}
