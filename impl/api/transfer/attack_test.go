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
