package appsetting_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/server/servertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestSEC235_NoOrganizationLoosensWhatItsInstanceSays: it may leave roles to trusted applications
// where the instance does not, and not the other way.
func TestSEC235_NoOrganizationLoosensWhatItsInstanceSays(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	const instance = "/settings/v3alpha/applications"
	org := instance + "?ctx.orgId=" + c.Org("A")
	applies := func(want string) {
		t.Helper()
		got := strings.ReplaceAll(c.Must("owner", "GET", org, "").Body, " ", "")
		if !strings.Contains(got, `"rolesNeedTrust":{"value":`+want) {
			t.Errorf("got %s, want %s", got, want)
		}
		// AppConsent reads it by itself.
		row, err := db.New().AppConsent(t.Context(), c.DB.Pool, db.AppConsentParams{InstanceID: c.Instance("a"), OrgID: c.Org("A")})
		if err != nil || fmt.Sprint(row.RolesNeedTrust) != want {
			t.Errorf("AppConsent: got %t %v, want %s", row.RolesNeedTrust, err, want)
		}
	}
	// Said first, it counts until the instance says otherwise.
	c.Must("owner", "PATCH", org, `{"rolesNeedTrust":{"value":false}}`)
	applies("false")
	c.Must("owner", "PATCH", instance, `{"rolesNeedTrust":{"value":true}}`)
	applies("true")
	c.Must("owner", "PATCH", org, `{"rolesNeedTrust":{}}`)
	c.Refused("owner", "PATCH", org, `{"rolesNeedTrust":{"value":false}}`, 400, "SETTING_LOOSENED")
	applies("true")
	c.Must("owner", "PATCH", instance, `{"rolesNeedTrust":{"value":false}}`)
	applies("false")
	c.Must("owner", "PATCH", org, `{"rolesNeedTrust":{"value":true}}`)
	applies("true")
}
