package doctor_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/doctor"
	"github.com/writ-id/writ/impl/server"
	"github.com/writ-id/writ/impl/server/servertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const seed = `
instances:
  - name: a
    domains: [localhost, 127.0.0.1]
    organizations:
      - name: A
        default: true
        users: [{username: u, human: {profile: {given_name: U, family_name: U}, email: {address: u@a.example, is_verified: true}}}]
`

// patient is a node with a database, and what a doctor has to know of it.
type patient struct {
	doctor.Config
	db *store.DB
}

func newPatient(t *testing.T) *patient {
	t.Helper()
	url := pgtest.New(t)
	p := &patient{db: pgtest.Connect(t, url, 4)}
	config := servertest.Config(p.db)
	config.External = server.External{Scheme: "http"}
	servertest.Apply(t, config, seed)
	address := servertest.Start(t, config)
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address) // whatever port the issuer names
	}}
	t.Cleanup(transport.CloseIdleConnections)
	p.Config = doctor.Config{
		DatabaseURL: url, Nodes: 1, Sealer: config.Sealer, MaxClients: 1000, Scheme: "http", Transport: transport, Now: config.Now,
	}
	res, err := (&http.Client{Transport: transport}).Get("http://localhost/oauth/v2/keys") // makes the first key
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return p
}

func (p *patient) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := p.db.Pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsWrongIsFoundAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		spoil func(t *testing.T, p *patient)
		check string
		level doctor.Level
		says  string
	}{
		{"nothing", func(*testing.T, *patient) {}, "", doctor.OK, ""},
		{"another master key", func(t *testing.T, p *patient) {
			other, err := secret.NewMasterKey()
			if err != nil {
				t.Fatal(err)
			}
			p.Sealer = other
		}, "master key", doctor.Fail, "is not the one that seals this database"},
		{"no master key", func(_ *testing.T, p *patient) { p.Sealer = nil }, "master key", doctor.Warn, "none is given"},
		{"an exchange of the master key", func(t *testing.T, p *patient) {
			two, err := p.Sealer.(*secret.MasterKey).Add()
			if err != nil {
				t.Fatal(err)
			}
			p.Sealer = two
		}, "master key", doctor.Warn, "holds 2 keys"},
		{"a rotation that nobody made", func(t *testing.T, p *patient) {
			p.exec(t, "UPDATE signing_keys SET due_date = now() - interval '40 days'")
		}, "signing keys", doctor.Warn, "should have been replaced 240h0m0s ago"},
		{"deliveries that wait", func(t *testing.T, p *patient) { p.delivery(t, 1, time.Hour) }, "deliveries", doctor.Fail, "1 are due, the oldest for 1h0m"},
		{"deliveries that are slow", func(t *testing.T, p *patient) { p.delivery(t, 1, 2*time.Minute) }, "deliveries", doctor.Warn, "1 are due, the oldest for 2m"},
		{"a dead letter", func(t *testing.T, p *patient) { p.delivery(t, 4, -time.Hour) }, "deliveries", doctor.Warn, "1 were given up"},
		{"a message that waits", func(t *testing.T, p *patient) { // that is due in an hour, so that the node does not send it
			p.exec(t, `INSERT INTO messages (instance_id, id, org_id, user_id, kind, template, recipient, language, payload, state, attempts, next_attempt, creation_date)
				SELECT instance_id, 'm', org_id, id, 2, 't', 'r', 'en', '{}', 1, 0, now() + interval '1 hour', now() FROM users`)
			p.Now = func() time.Time { return time.Now().Add(3 * time.Hour) }
			p.Skip = []string{"issuers", "database", "keys"}
		}, "messages", doctor.Fail, "1 are due, the oldest for 2h0m"},
		{"a proxy that changes the name", func(_ *testing.T, p *patient) { p.Port = "8443" }, "http://localhost:8443", doctor.Fail, `calls itself "http://localhost"`},
		{"a name that nobody knows", func(t *testing.T, p *patient) {
			p.exec(t, "UPDATE domains SET domain = 'nowhere.invalid', domain_folded = 'nowhere.invalid' WHERE domain = '127.0.0.1' AND org_id IS NULL")
		}, "http://nowhere.invalid", doctor.Fail, "no address"},
		{"no instance", func(t *testing.T, p *patient) { p.exec(t, "DELETE FROM domains") }, "issuers", doctor.Fail, "no instance with a domain"},
		{"a clock an hour off", func(_ *testing.T, p *patient) {
			p.Skip = []string{"queues", "keys", "issuers"}
			p.Now = func() time.Time { return time.Now().Add(time.Hour) }
		}, "clock", doctor.Fail, "differs by"},
		{"a schema of an older release", func(t *testing.T, p *patient) {
			p.exec(t, "DELETE FROM goose_db_version WHERE version_id = (SELECT max(version_id) FROM goose_db_version)")
		}, "schema", doctor.Fail, "1 steps are pending"},
		{"more nodes than connections", func(_ *testing.T, p *patient) { p.Nodes = 1000 }, "max_connections", doctor.Fail, "1000 nodes may take"},
		{"no extension", func(t *testing.T, p *patient) { p.exec(t, "DROP EXTENSION pg_trgm CASCADE") }, "extensions", doctor.Fail, "pg_trgm is missing"},
		{"a pooler that is not there", func(_ *testing.T, p *patient) { p.Pooler = "postgres://127.0.0.1:1/none" }, "pooler", doctor.Fail, "nothing listens there"},
		{"no database", func(_ *testing.T, p *patient) { p.DatabaseURL = "postgres://127.0.0.1:1/none" }, "connection", doctor.Fail, "nothing listens there"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newPatient(t)
			test.spoil(t, p)
			found := doctor.Run(t.Context(), p.Config)
			for _, one := range found {
				switch {
				case one.Check == test.check && one.Level == test.level && strings.Contains(one.Message, test.says):
					test.check = ""
				case one.Level != doctor.OK && one.Check != "durability" && one.Check != "role" && one.Group != "machine" && one.Check != test.check &&
					(test.name != "a proxy that changes the name" || one.Group != "issuers"): // fsync is off in tests
					t.Errorf("%s %s: %s", one.Level, one.Check, one.Message)
				}
			}
			if test.check != "" {
				t.Errorf("%s is not among %v", test.check, found)
			}
		})
	}
}

// delivery adds one in a state that is due since a while.
func (p *patient) delivery(t *testing.T, state int, since time.Duration) {
	t.Helper()
	p.exec(t, `INSERT INTO deliveries (instance_id, id, target, execution, delivered_type, delivered_sequence, object_type, object_id, position, state, dead_reason, attempts, all_attempts,
			queued_date, next_attempt, body, sequence, creation_date, change_date)
		SELECT id, 'd', 't', 'e', 'user.added', 1, 'user', 'u', 1, $1, 0, 1, 1, now(), CASE WHEN $2 > 0 THEN now() - make_interval(secs => $2) END, '{}', 1, now(), now() FROM instances`,
		state, since.Seconds())
}

func TestFsyncThatIsOffIsAFailure(t *testing.T) {
	t.Parallel()
	p := newPatient(t) // pgtest does not sync
	found := doctor.Run(t.Context(), p.Config)
	if !slices.ContainsFunc(found, func(f doctor.Finding) bool { return f.Check == "durability" && f.Level == doctor.Fail }) || !doctor.Failed(found) {
		t.Errorf("got %v", found)
	}
	p.Dev = true
	if found := doctor.Run(t.Context(), p.Config); doctor.Failed(found) {
		t.Errorf("a writ dev is not meant to last, got %v", found)
	}
}

func TestACertificateIsHeldAgainstNamesChainAndTime(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	for _, test := range []struct {
		name  string
		names []string
		days  int
		known bool
		level doctor.Level
		says  string
	}{
		{"good", []string{"localhost", "127.0.0.1"}, 90, true, doctor.OK, "is for all domains"},
		{"nobody's", []string{"localhost", "127.0.0.1"}, 90, false, doctor.Warn, "no authority"},
		{"of others", []string{"a.example"}, 90, true, doctor.Fail, "is for none of the domains"},
		{"of some", []string{"localhost"}, 90, true, doctor.Warn, "is not for 1 of 2 domains, such as 127.0.0.1"},
		{"ended", []string{"localhost", "127.0.0.1"}, -1, true, doctor.Fail, "the certificate ended on"},
		{"nearly ended", []string{"localhost", "127.0.0.1"}, 3, true, doctor.Warn, "the certificate ends on"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := p.Config
			var leaf *x509.Certificate
			c.TLSCertFile, leaf = certificate(t, test.names, test.days)
			c.Roots = x509.NewCertPool()
			if test.known {
				c.Roots.AddCert(leaf)
			}
			found := doctor.Run(t.Context(), c)
			if !slices.ContainsFunc(found, func(f doctor.Finding) bool {
				return f.Check == "certificate" && f.Level == test.level && strings.Contains(f.Message, test.says)
			}) {
				t.Errorf("got %v", found)
			}
		})
	}
}

func certificate(t *testing.T, names []string, days int) (string, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().AddDate(0, 0, -10), NotAfter: time.Now().AddDate(0, 0, days),
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tls.crt")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, leaf
}
