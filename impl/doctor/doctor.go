// Package doctor looks at what a node stands on, as `writ doctor` shows it: the machine,
// the database and its settings, keys, queues, and whether each issuer is reachable as
// itself. It changes nothing.
package doctor

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
)

// Level is how a check came out.
type Level string

// The levels. A node works with a warning, and does not, or loses something, with a failure.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
)

// Finding is what one check found.
type Finding struct {
	Group   string `json:"group"`
	Check   string `json:"check"`
	Level   Level  `json:"level"`
	Message string `json:"message"`
	Do      string `json:"do,omitempty"` // what to do about it
}

// Groups are the names of the groups of checks, in their order.
var Groups = []string{"machine", "database", "keys", "queues", "issuers"}

// Config is what a node would be started with.
type Config struct {
	DatabaseURL string
	Pooler      string // "" for none
	Connections int    // of a node, for calls; 0 is its default
	Nodes       int    // on this database
	Sealer      secret.Sealer
	MaxClients  int
	// TransferDir is the folder for what moves, "" that for temporary files; TransferSpace how
	// many bytes that may be, 0 what is usual there.
	TransferDir   string
	TransferSpace int64
	TLSCertFile   string // "" when TLS ends elsewhere
	Scheme        string // of the issuers
	Port          string // of the issuers; "" for the one of the scheme
	// Transport calls the issuers; it trusts what clients would.
	Transport http.RoundTripper
	Roots     *x509.CertPool // to judge the certificate by; nil: those of this machine
	Skip      []string       // groups
	Dev       bool           // it is a writ dev, whose role owns its PostgreSQL
	Now       func() time.Time
}

// Run runs all checks, group by group.
func Run(ctx context.Context, c Config) []Finding {
	d := &doctor{Config: c}
	if d.wants("machine") {
		d.machine()
	}
	db := d.open(ctx)
	if db != nil {
		defer db.Close()
	}
	for _, group := range []struct {
		name string
		run  func(context.Context, *store.DB)
	}{{"database", d.database}, {"keys", d.keys}, {"queues", d.queues}, {"issuers", d.issuers}} {
		if db == nil || !d.wants(group.name) {
			continue
		}
		d.group = group.name
		group.run(ctx, db)
	}
	return d.found
}

// Failed reports whether anything failed.
func Failed(found []Finding) bool {
	return slices.ContainsFunc(found, func(f Finding) bool { return f.Level == Fail })
}

// doctor is one run.
type doctor struct {
	Config
	group string
	found []Finding
}

func (d *doctor) wants(group string) bool {
	d.group = group
	return !slices.Contains(d.Skip, group)
}

func (d *doctor) ok(check, message string, args ...any) {
	d.found = append(d.found, Finding{d.group, check, OK, fmt.Sprintf(message, args...), ""})
}

func (d *doctor) warn(check, do, message string, args ...any) {
	d.found = append(d.found, Finding{d.group, check, Warn, fmt.Sprintf(message, args...), do})
}

func (d *doctor) fail(check, do, message string, args ...any) {
	d.found = append(d.found, Finding{d.group, check, Fail, fmt.Sprintf(message, args...), do})
}

// failed notes that a check could not be made.
func (d *doctor) failed(check string, err error) bool {
	if err != nil {
		d.fail(check, "", "%v", err)
	}
	return err != nil
}
