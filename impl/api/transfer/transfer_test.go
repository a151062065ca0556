package transfer_test

import (
	"bytes"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/api/transfer"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/spool"
	"github.com/writ-id/writ/impl/core/store/pgtest"
	files "github.com/writ-id/writ/impl/core/transfer"
	"github.com/writ-id/writ/impl/server"
	"github.com/writ-id/writ/impl/server/servertest"
)

// whole is a seed in which there is something of nearly all that moves.
const whole = `
system:
  features: {multitenancy_resources_api: true, multitenancy_settings: true, user_schema: true}
  users: [{username: system, roles: [SYSTEM_OWNER]}]
instances:
  - name: a
    domains: [a.example]
    organizations:
      - name: A
        default: true
        domains: [org.a.example]
        users:
          - {username: owner, service: {name: Service}, instance_roles: [IAM_OWNER]}
          - username: ada
            human:
              profile: {given_name: Ada, family_name: Lovelace, preferred_language: de, birthdate: "1815-12-10"}
              email: {address: ada@org.a.example, is_verified: true}
              phone: {number: "+41791234567"}
              password: {plain: correct horse battery staple}
            org_roles: [ORG_OWNER]
          - {username: robot, service: {name: Robot, description: It works}, secret: {}}
        projects:
          - name: P
            roles: [{key: admin, display_name: Administrator}, {key: user}]
            apps:
              - name: web
                oidc: {redirect_uris: ["https://app.example/callback"], auth_method_type: AUTH_METHOD_TYPE_BASIC}
              - {name: api, api: {}}
      - name: A2
        users:
          - {username: second, service: {name: Service}, org_roles: [ORG_OWNER]}
  - name: b
    domains: [b.example]
    organizations:
      - name: B
        users: [{username: bob, service: {name: Service}, instance_roles: [IAM_OWNER]}]
`

func service(t *testing.T, c *servertest.Cluster) *transfer.Service { return serviceFor(t, c, 0) }

// serviceFor is service for password hashes that cost so much.
func serviceFor(t *testing.T, c *servertest.Cluster, maxHashCost float64) *transfer.Service {
	t.Helper()
	roles, err := policy.NewRoles()
	if err != nil {
		t.Fatal(err)
	}
	space, err := spool.Open(t.TempDir(), spool.Default)
	if err != nil {
		t.Fatal(err)
	}
	s, err := transfer.New(transfer.Config{
		Env: resource.Env{DB: c.DB, Now: c.Env.Now, NewID: servertest.NewID}, Sealer: c.Env.Sealer, Roles: roles, Logger: slog.New(slog.DiscardHandler),
		MaxHashCost: maxHashCost, Space: space,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMain(m *testing.M) { pgtest.Main(m) }

func tell(uint64, uint64) {}

var all = files.Asked{Passwords: true, OTP: true, Secrets: true}

func export(t *testing.T, s *transfer.Service, instanceID string, of transfer.Selection) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := s.Export(t.Context(), instanceID, of, &b, tell); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func load(t *testing.T, s *transfer.Service, text string, plan transfer.Plan) (*transferv1.ImportReport, error) {
	t.Helper()
	plan.By, plan.ImportID = "tester", "i1"
	return s.Import(t.Context(), files.NewReader(strings.NewReader(text), storage.Moved, func(string) {}), plan, tell)
}

// TestREL108_AnImportHoldsNothingBack has events of the instance that imports, and of another, while an
// import has stored what it has, and while a dry run has: whoever follows them sees them at once.
func TestREL108_AnImportHoldsNothingBack(t *testing.T) {
	t.Parallel()
	from, to := cluster(t), cluster(t)
	exported := export(t, service(t, from), from.Instance("a"), transfer.Selection{Asked: all})
	s, looks := service(t, to), 0
	for _, dry := range []bool{true, false} {
		for _, instance := range []string{to.Instance("b"), to.Instance("a")} {
			settled := func() string {
				to.Value("SELECT pg_current_xact_id()::text")
				below := to.Value("SELECT events_settled($1)::text", instance)
				return to.Value("SELECT count(*)::text FROM events WHERE instance_id = $1 AND xid < $2::text::xid8", instance, below)
			}
			progress := func(items, total uint64) {
				if total == 0 {
					return
				}
				looks++
				before := settled()
				to.Value("SELECT append_event($1, 'project', 'p', 'project.removed', '{}', 'test', 1::smallint, $1, now(), '', '')::text", instance)
				if after := settled(); after == before {
					t.Errorf("dry run %v: of instance %s what happens is held back by an import into b", dry, instance)
				}
			}
			_, err := s.Import(t.Context(), files.NewReader(strings.NewReader(exported), storage.Moved, func(string) {}),
				transfer.Plan{InstanceID: to.Instance("b"), By: "tester", ImportID: "i", DryRun: dry, OnConflict: transfer.Skip}, progress)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if looks < 20 {
		t.Errorf("it was looked %d times: this proves nothing", looks)
	}
	if got := to.Value("SELECT count(*)::text FROM users u WHERE instance_id = $1 AND NOT EXISTS (SELECT FROM events e WHERE e.instance_id = $1 AND e.aggregate_id = u.id AND e.sequence = u.sequence)", to.Instance("b")); got != "0" {
		t.Errorf("%s users have no event", got)
	}
}

// items is an export without the summary of it.
func items(text string) string {
	before, _, _ := strings.Cut(text, "\"summary\"")
	return before
}

func TestWhatIsImportedIsExportedAgain(t *testing.T) {
	t.Parallel()
	from, to := cluster(t), cluster(t)
	a, b := service(t, from), service(t, to)
	rich(t, from)
	exported := export(t, a, from.Instance("a"), transfer.Selection{Asked: all})
	into := to.Instance("b")
	report, err := load(t, b, exported, transfer.Plan{InstanceID: into, DryRun: true})
	if err != nil || report.GetTotalNotCarried() != 0 {
		t.Fatalf("dry run: %v, %v", err, report)
	}
	before := export(t, b, into, transfer.Selection{Asked: all})
	if report, err = load(t, b, exported, transfer.Plan{InstanceID: into}); err != nil || report.GetTotalNotCarried() != 0 {
		t.Fatalf("%v, %v", err, report)
	}
	again := export(t, b, into, transfer.Selection{Asked: all, ExcludedOrgIDs: []string{to.Value("SELECT id FROM organizations WHERE name = 'B'")}})
	if items(again) != items(exported) {
		t.Errorf("exported\n%s\nimported and exported\n%s", exported, again)
	}
	if before == again {
		t.Error("nothing was imported")
	}
	const lifetimes = "SELECT properties->>'sessionLifetime' FROM settings WHERE instance_id = $1 AND subject = 'lifetimes'"
	if got := to.Value(lifetimes, into); got != "43200s" {
		t.Errorf("sign-ins last %s", got)
	}
	// Once more is refused whole, skipped, and changes nothing.
	_, err = load(t, b, exported, transfer.Plan{InstanceID: into})
	if refusal, ok := errors.AsType[*fault.Error](err); !ok || refusal.Reason != "IMPORT_CONFLICT" {
		t.Errorf("once more: %v", err)
	}
	events := to.Value("SELECT count(*) FROM events")
	for _, how := range []transfer.OnConflict{transfer.Skip, transfer.Update} {
		report, err := load(t, b, exported, transfer.Plan{InstanceID: into, OnConflict: how})
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range report.GetOutcomes() {
			if one.GetCreated() != 0 || one.GetNotCarried() != 0 || one.GetUpdated() != 0 && !sealed[one.GetKind()] {
				t.Errorf("%v: %v", how, one)
			}
		}
	}
	_ = events
}

// TestSEC095_NoImportBringsALifetimeOutOfBounds: an item is held to the rules of the contract.
func TestSEC095_NoImportBringsALifetimeOutOfBounds(t *testing.T) {
	t.Parallel()
	from, to := cluster(t), cluster(t)
	rich(t, from)
	exported := export(t, service(t, from), from.Instance("a"), transfer.Selection{Asked: all})
	s := service(t, to)
	for _, life := range []string{`"sessionLifetime":"299s"`, `"sessionLifetime":"7776001s"`, `"accessTokenLifetime":"59s"`, `"idTokenLifetime":"43201s"`} {
		field, _, _ := strings.Cut(life, ":")
		text := regexp.MustCompile(field+`:\s*"[0-9.]+s"`).ReplaceAllString(exported, life)
		if text == exported {
			t.Fatalf("the file has no %s", field)
		}
		report, err := load(t, s, text, transfer.Plan{InstanceID: to.Instance("b"), DryRun: true})
		if err == nil && report.GetTotalNotCarried() == 0 {
			t.Errorf("%s is carried", life)
		}
	}
}

// sealed are kinds with secrets, which are another text each time they are sealed.
var sealed = map[string]bool{"authenticators": true, "idps": true, "smtpProviders": true, "smsProviders": true}

func cluster(t *testing.T) *servertest.Cluster {
	return servertest.New(t, 1, func(c *server.Config) { servertest.Apply(t, *c, whole) })
}

// rich adds what a seed cannot say.
func rich(t *testing.T, c *servertest.Cluster) {
	t.Helper()
	ada := c.User("ada")
	c.Must("owner", "POST", "/v3alpha/users/"+ada+"/totp", "{}")
	c.Must("owner", "PUT", "/resources/v3alpha/users/"+ada+"/metadata/colour", `{"value":"YmxhdQ=="}`)
	c.Must("owner", "PATCH", "/settings/v3alpha/lifetimes?ctx.orgId="+c.Org("A"), `{"accessTokenLifetime":"900s","idTokenLifetime":"60s","refreshTokenIdleLifetime":"86400s","refreshTokenLifetime":"604800.5s","sessionIdleLifetime":"1800s","sessionLifetime":"43200s"}`)
	c.Must("owner", "PATCH", "/settings/v3alpha/applications?ctx.orgId="+c.Org("A"), `{"rolesNeedTrust":{"value":true}}`)
	c.Must("owner", "POST", "/resources/v3alpha/idps/oidc?ctx.orgId="+c.Org("A"), `{"idp":{"name":"Other"},"config":{"issuer":"https://issuer.example","clientId":"c","clientSecret":"hidden"}}`)
}

func unmarshal(text string, into proto.Message) error {
	return protojson.Unmarshal([]byte(text), into)
}
