package transfer_test

import (
	"slices"
	"testing"

	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	"github.com/writ-id/writ/impl/server/servertest"
)

// reasons are those of a report for a kind and an ID.
func reasons(of *transferv1.ImportReport, kind, id string) (found []string) {
	for _, one := range of.GetNotCarried() {
		if one.GetKind() == kind && one.GetId() == id {
			found = append(found, one.GetReason())
		}
	}
	return found
}

func loaded(t *testing.T, c *servertest.Cluster, how, data string) *transferv1.ImportReport {
	t.Helper()
	return report(t, c.Must("owner", "POST", importPath, `{"on_conflict":"`+how+`","data_orgsv1":{"version":1,`+data+`}}`))
}

// TestSEC278_ACostlyHashStaysAndItsUserIsCarried has bombs, and a name that is none: neither
// keeps out the others, nor is any work done for them.
func TestSEC278_ACostlyHashStaysAndItsUserIsCarried(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	const bomb = "$argon2id$v=19$m=262144,t=1,p=4$MDEyMzQ1Njc4OWFiY2RlZg$WESbwAFrAxbti1iLZGcYAsaqfsGUR0CbZsMH8Kxr8fg"
	got := loaded(t, c, "refuse", `"organizations":[{"id":"o","name":"O"}],"users":[
		{"id":"bomb","orgId":"o","username":"bomb","human":{},"passwordHash":"`+bomb+`","passwordChanged":"2020-01-01T00:00:00Z"},
		{"id":"veiled","orgId":"o","username":"ve\u200biled","human":{}},
		{"id":"plain","orgId":"o","username":"plain","human":{}}]`)
	if r := reasons(got, "users", "bomb"); !slices.Equal(r, []string{"HASH_TOO_COSTLY"}) {
		t.Errorf("the bomb: %v in %v", r, got)
	}
	if r := reasons(got, "users", "veiled"); !slices.Equal(r, []string{"INVALID_USERNAME"}) || got.GetTotalNotCarried() != 1 {
		t.Errorf("the veiled one: %v, %d are not carried", r, got.GetTotalNotCarried())
	}
	for _, one := range got.GetNotCarried() {
		if one.GetMessage() == "" {
			t.Errorf("%v says nothing", one)
		}
	}
	if n := c.Value("SELECT string_agg(id, ',' ORDER BY id) FROM users WHERE id IN ('bomb', 'plain', 'veiled') AND password_hash IS NULL"); n != "bomb,plain" {
		t.Errorf("there are %s", n)
	}
}

// TestWhatBelongsToSomethingIsInItsOrganization puts each kind of thing into another one
// than what it is of, as new and as an update of what is there.
func TestWhatBelongsToSomethingIsInItsOrganization(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	const parents = `"organizations":[{"id":"o","name":"O"},{"id":"p","name":"P"}],
		"users":[{"id":"u","orgId":"o","username":"u","human":{}},{"id":"v","orgId":"p","username":"v","human":{}}],
		"idps":[{"id":"i","orgId":"p","type":"PROVIDER_TYPE_OIDC","name":"I"}],
		"projects":[{"id":"po","orgId":"o","name":"PO"},{"id":"pp","orgId":"p","name":"PP"}],
		"projectGrants":[{"id":"g","orgId":"o","projectId":"po","grantedOrgId":"p"}]`
	loaded(t, c, "refuse", parents)
	const right = `"userMetadata":[{"userId":"u","id":"k","value":"YQ==","orgId":"o"}],
		"authenticators":[{"id":"f","orgId":"o","userId":"u","type":"SECOND_FACTOR_TYPE_OTP_EMAIL","address":"a@b.example"}],
		"projectRoles":[{"id":"r","orgId":"o","projectId":"po","key":"k"}],
		"apps":[{"id":"a","orgId":"o","projectId":"po","name":"A","clientId":"c","api":{}}],
		"userGrants":[{"id":"ug","orgId":"o","userId":"u","projectId":"po"}],
		"memberships":[{"id":"m","orgId":"o","projectId":"po","userId":"u","level":"MEMBERSHIP_LEVEL_PROJECT","objectId":"po","roles":["PROJECT_OWNER"]}]`
	if got := loaded(t, c, "refuse", right); got.GetTotalNotCarried() != 0 {
		t.Fatalf("what is right: %v", got)
	}
	for _, one := range []struct{ kind, id, item string }{
		{"userMetadata", "u/x", `{"userId":"u","id":"x","value":"YQ==","orgId":"p"}`},
		{"authenticators", "x", `{"id":"x","orgId":"p","userId":"u","type":"SECOND_FACTOR_TYPE_OTP_EMAIL","address":"a@b.example"}`},
		{"authenticators", "f", `{"id":"f","orgId":"o","userId":"v","type":"SECOND_FACTOR_TYPE_OTP_EMAIL","address":"a@b.example"}`},
		{"idpLinks", "x", `{"id":"x","orgId":"p","userId":"u","idpId":"i","externalUserId":"e"}`},
		{"idpLinks", "x", `{"id":"x","orgId":"o","userId":"u","idpId":"i","externalUserId":"e"}`},
		{"projectRoles", "x", `{"id":"x","orgId":"p","projectId":"po","key":"x"}`},
		{"projectRoles", "r", `{"id":"r","orgId":"o","projectId":"pp","key":"x"}`},
		{"apps", "x", `{"id":"x","orgId":"p","projectId":"po","name":"X","clientId":"x","api":{}}`},
		{"apps", "a", `{"id":"a","orgId":"o","projectId":"pp","name":"A","clientId":"c","api":{}}`},
		{"projectGrants", "x", `{"id":"x","orgId":"p","projectId":"po","grantedOrgId":"o"}`},
		{"projectGrants", "x", `{"id":"x","orgId":"p","projectId":"pp","grantedOrgId":"p"}`},
		{"userGrants", "x", `{"id":"x","orgId":"p","userId":"v","projectId":"po"}`},
		{"userGrants", "x", `{"id":"x","orgId":"o","userId":"v","projectId":"po","projectGrantId":"g"}`},
		{"userGrants", "ug", `{"id":"ug","orgId":"o","userId":"u","projectId":"pp"}`},
		{"memberships", "x", `{"id":"x","orgId":"p","projectId":"po","userId":"v","level":"MEMBERSHIP_LEVEL_PROJECT","objectId":"po","roles":["PROJECT_OWNER"]}`},
		{"memberships", "x", `{"id":"x","orgId":"p","projectId":"po","projectGrantId":"g","userId":"v","level":"MEMBERSHIP_LEVEL_PROJECT_GRANT","objectId":"g","roles":["PROJECT_GRANT_OWNER"]}`},
		{"memberships", "m", `{"id":"m","orgId":"o","projectId":"pp","userId":"u","level":"MEMBERSHIP_LEVEL_PROJECT","objectId":"pp","roles":["PROJECT_OWNER"]}`},
	} {
		before := c.Value("SELECT count(*) FROM events")
		got := loaded(t, c, "update", `"`+one.kind+`":[`+one.item+`]`)
		if r := reasons(got, one.kind, one.id); !slices.Equal(r, []string{"ORGANIZATION_DIFFERS"}) {
			t.Errorf("%s %s: %v", one.kind, one.item, got)
		}
		if after := c.Value("SELECT count(*) FROM events"); after != before {
			t.Errorf("%s %s: something was stored", one.kind, one.item)
		}
	}
}

// TestSEC298_AnUpdateTakesNoNameOfAnother has what a new user is refused and what refers to
// nothing, as an update.
func TestSEC298_AnUpdateTakesNoNameOfAnother(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	if _, err := c.DB.Pool.Exec(t.Context(), "UPDATE domains SET is_verified = true WHERE domain = 'org.a.example'"); err != nil {
		t.Fatal(err)
	}
	const org = `"organizations":[{"id":"o","name":"O"}],`
	loaded(t, c, "refuse", org+`"users":[{"id":"u","orgId":"o","username":"u","human":{}}]`)
	got := loaded(t, c, "update", `"users":[{"id":"u","orgId":"o","username":"owner@org.a.example","human":{}}]`)
	if r := reasons(got, "users", "u"); !slices.Equal(r, []string{"USERNAME_OF_ANOTHER"}) {
		t.Errorf("got %v", got)
	}
	got = loaded(t, c, "update", `"users":[{"id":"u","orgId":"o","username":"u","human":{},"schemaId":"nowhere"}]`)
	if r := reasons(got, "users", "u"); !slices.Equal(r, []string{"SCHEMA_NOT_FOUND"}) {
		t.Errorf("got %v", got)
	}
}
