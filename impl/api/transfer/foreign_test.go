package transfer_test

import (
	"os"
	"testing"

	"github.com/writ-id/writ/impl/api/transfer"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/transfer/foreign"
)

// TestWhatOtherSystemsExportedIsImported has the files of package foreign, of which the realm
// is one that Keycloak made.
func TestWhatOtherSystemsExportedIsImported(t *testing.T) {
	t.Parallel()
	to := cluster(t)
	s := serviceFor(t, to, 1000) // Heidi's is of 1300000 rounds
	for _, of := range []struct {
		format, file  string
		options       foreign.Options
		users, others int // and apps, roles and accounts of identity providers
	}{
		{"keycloak", "keycloak-realm.json", foreign.Options{}, 10, 4 + 5 + 2},
		{"auth0", "auth0-users.ndjson", foreign.Options{OrgName: "Auth0"}, 3, 0}, // its providers are not there
		{"firebase", "firebase-users.json", foreign.Options{OrgName: "Firebase"}, 2, 0},
		{"zitadel", "zitadel.json", foreign.Options{}, 5, 3 + 2 + 2}, // last: it proves a domain of their usernames
	} {
		file, err := os.Open("../../core/transfer/foreign/testdata/" + of.file)
		if err != nil {
			t.Fatal(err)
		}
		source, err := foreign.Open(of.format, file, of.options)
		if err != nil {
			t.Fatal(err)
		}
		report, err := s.Import(t.Context(), source, transfer.Plan{InstanceID: to.Instance("b"), By: "tester", ImportID: of.format}, tell)
		_ = file.Close()
		if err != nil {
			t.Errorf("%s: %v, %v", of.format, err, report.GetNotCarried())
			continue
		}
		users, others := 0, 0
		for _, one := range report.GetOutcomes() {
			switch one.GetKind() {
			case "users":
				users += int(one.GetCreated())
			case "apps", "projectRoles", "idpLinks":
				others += int(one.GetCreated())
			}
		}
		if users != of.users || others != of.others {
			t.Errorf("%s: %d users and %d others; want %d, %d: %v", of.format, users, others, of.users, of.others, report)
		}
		for _, lost := range report.GetNotCarried() {
			if lost.GetReason() != "IDP_NOT_FOUND" {
				t.Errorf("%s: %v", of.format, lost)
			}
		}
	}
	// What is stored is what log-in reads.
	for name, password := range map[string]string{"ada": "Correct horse 1", "heidi": "Correct horse 8"} {
		hash := to.Value("SELECT password_hash FROM users WHERE org_id = 'ca102f63-b3fc-4525-9056-83de027a9870' AND username = '" + name + "'")
		if good, err := secret.VerifyPassword(hash, password); err != nil || !good {
			t.Errorf("%s: got %v, %v", name, good, err)
		}
	}
}
