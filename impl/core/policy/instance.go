package policy

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/writ-id/writ/gen/db"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/core/cache"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/store"
)

// Instance is a tenant.
type Instance struct {
	ID         string
	Name       string
	DefaultOrg string // "" when it has none
	Blocked    bool
	Moved      bool // to another database; nothing is served of it here
	// Host is the registered domain that was asked for; the primary one when a host
	// that is not registered leads to the only instance.
	Host string
	// AllowRegistration says whether people may register themselves at the login.
	AllowRegistration bool
}

// Instances finds tenants. It is safe for concurrent use.
type Instances struct {
	db        *store.DB
	now       func() time.Time
	logger    *slog.Logger
	known     cache.Cache[string, *Instance] // by domain
	strangers strangers
}

// NewInstances returns the tenants of a database.
func NewInstances(db *store.DB, memory *cache.Memory, now func() time.Time, logger *slog.Logger) *Instances {
	i := &Instances{db: db, now: now, logger: logger}
	memory.Holds(i.known.Drop)
	return i
}

// last returns the ID of the tenant of a host as far as it was asked for before.
func (i *Instances) last(host string) string {
	if instance, _ := i.known.Last(CanonicalHost(host)); instance != nil {
		return instance.ID
	}
	return ""
}

// Find returns the tenant of a Host header: by exact registered domain, or
// the only one there is, so that localhost and container names just work.
func (i *Instances) Find(ctx context.Context, host string) (*Instance, error) {
	domain := CanonicalHost(host)
	return found(i.known.Get(ctx, domain, i.loading(domain)))
}

// Serves reports whether a host is one of a tenant: registered, not answered because there
// is only one. During an outage of the database it is what was known last, or true.
func (i *Instances) Serves(ctx context.Context, host string) bool {
	domain := CanonicalHost(host)
	instance, err := i.known.GetOrLast(ctx, domain, func(known *Instance) bool { return known != nil }, i.loading(domain))
	return err != nil || instance != nil && instance.Host == domain
}

func (i *Instances) loading(domain string) func(context.Context) (*Instance, error) {
	return func(ctx context.Context) (*Instance, error) { return i.load(ctx, domain) }
}

// found tells the absence of a tenant, which is remembered too.
func found(instance *Instance, err error) (*Instance, error) {
	if err == nil && instance == nil {
		return nil, fault.New(fault.NotFound, "INSTANCE_NOT_FOUND", "no instance answers to this host")
	}
	if err == nil && instance.Moved {
		return nil, errMoved
	}
	return instance, err
}

// Public returns the tenant of a Host header for what anybody may read of
// it, such as its keys. During an outage of the database it is the last one that
// was known (REL-061). A blocked instance serves nothing.
func (i *Instances) Public(ctx context.Context, host string) (*Instance, error) {
	domain := CanonicalHost(host)
	instance, err := found(i.known.GetOrLast(ctx, domain, func(known *Instance) bool { return known != nil }, i.loading(domain)))
	if err == nil && instance.Blocked {
		err = errBlocked
	}
	return instance, err
}

var errBlocked = fault.New(fault.Blocked, "INSTANCE_BLOCKED", "the instance is blocked; its operator can say why")

// errMoved asks to come back: until then the proxy leads to the other database.
var errMoved = fault.New(fault.Unavailable, "INSTANCE_MOVED", "the instance is served elsewhere now; try again")

func (i *Instances) load(ctx context.Context, domain string) (*Instance, error) {
	q := db.New()
	row, err := q.InstanceByDomain(ctx, i.db.Pool, domain)
	if err == nil {
		found := instanceOf(db.InstanceByIDRow(row))
		found.Host = domain
		return found, nil
	}
	if !store.NoRow(err) {
		return nil, err
	}
	some, err := q.FirstInstances(ctx, i.db.Pool)
	if err != nil {
		return nil, err
	}
	if len(some) == 1 {
		found := instanceOf(db.InstanceByIDRow(some[0]))
		found.Host, err = q.PrimaryHost(ctx, i.db.Pool, found.ID)
		return found, err
	}
	expected, err := q.PrimaryDomains(ctx, i.db.Pool)
	if err != nil {
		return nil, err
	}
	if others, now := i.strangers.note(i.now()); now {
		i.logger.LogAttrs(ctx, slog.LevelWarn, "unknown host", slog.String("host", domain), slog.Any("expected", expected), slog.Int("others_since_last", others))
	}
	return nil, nil
}

// strangers keep those who ask for hosts that nobody has from filling the log: there is
// one line a minute, with the number of those without one.
type strangers struct {
	mu     sync.Mutex
	next   time.Time
	others int
}

const strangersEvery = time.Minute

func (s *strangers) note(now time.Time) (others int, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.next) {
		s.others++
		return 0, false
	}
	others, s.others, s.next = s.others, 0, now.Add(strangersEvery)
	return others, true
}

func instanceOf(row db.InstanceByIDRow) *Instance {
	return &Instance{ID: row.ID, Name: row.Name, DefaultOrg: row.DefaultOrg, Blocked: row.Blocked, Moved: row.Moved, AllowRegistration: row.AllowRegistration}
}

// CanonicalHost returns a Host header as domains are stored: without port and
// trailing dot, in lower case.
func CanonicalHost(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// contextual is a request that may select its context.
type contextual interface{ GetCtx() *object.RequestContext }

// context returns the context of a call: what the request selects, else the
// lowest level the operation applies to by default, on the instance of the
// host. A caller of one tenant cannot name another's (SEC-218).
func (c *Chain) context(ctx context.Context, op *Operation, req any, instance *Instance, caller *Caller) (Context, error) {
	if op.inherits {
		return c.named(ctx, RequestFrom(ctx).Context, instance)
	}
	in := Context{Level: policyv1.Level_LEVEL_INSTANCE, InstanceID: instance.ID}
	if len(op.levels) > 0 {
		in.Level = op.levels[0]
	}
	if in.Level == policyv1.Level_LEVEL_SYSTEM {
		in.InstanceID = ""
	}
	selecting, ok := req.(contextual)
	if !ok || selecting.GetCtx() == nil {
		return within(in, instance)
	}
	in, err := c.selected(ctx, selecting.GetCtx(), instance, caller)
	if err != nil {
		return Context{}, err
	}
	if ofOrgs(op) && in.Level == policyv1.Level_LEVEL_INSTANCE {
		in.Level = policyv1.Level_LEVEL_ORG
		chosen, err := db.New().InstanceByID(ctx, c.DB.Pool, in.InstanceID)
		if err != nil {
			return Context{}, err
		}
		return within(in, instanceOf(chosen))
	}
	if len(op.levels) > 0 && !slices.Contains(op.levels, in.Level) {
		return Context{}, fault.Invalid("CONTEXT_NOT_APPLICABLE", "ctx", "the operation does not apply to this kind of context")
	}
	return in, nil
}

var errContextNotFound = fault.New(fault.NotFound, "CONTEXT_NOT_FOUND", "the context does not exist")

// ofOrgs reports whether an operation applies to organizations only.
func ofOrgs(op *Operation) bool {
	return len(op.levels) == 1 && op.levels[0] == policyv1.Level_LEVEL_ORG
}

// within puts what belongs to an organization into the default one of the
// instance when the call does not name another.
func within(in Context, instance *Instance) (Context, error) {
	if in.Level != policyv1.Level_LEVEL_ORG {
		return in, nil
	}
	in.OrgID = instance.DefaultOrg
	if in.OrgID == "" {
		return in, fault.Invalid("CONTEXT_REQUIRED", "ctx", "the instance has no default organization: name one")
	}
	return in, nil
}

func (c *Chain) selected(ctx context.Context, request *object.RequestContext, instance *Instance, caller *Caller) (Context, error) {
	q := db.New()
	var found string
	var err error
	level := policyv1.Level_LEVEL_INSTANCE
	switch owner := request.GetOwner().(type) {
	case *object.RequestContext_System:
		return Context{Level: policyv1.Level_LEVEL_SYSTEM}, nil
	case *object.RequestContext_InstanceId:
		var row db.InstanceByIDRow
		row, err = q.InstanceByID(ctx, c.DB.Pool, owner.InstanceId)
		found = row.ID
	case *object.RequestContext_InstanceDomain:
		var row db.InstanceByDomainRow
		row, err = q.InstanceByDomain(ctx, c.DB.Pool, CanonicalHost(owner.InstanceDomain))
		found = row.ID
	case *object.RequestContext_OrgId:
		level = policyv1.Level_LEVEL_ORG
		found, err = q.OrgByID(ctx, c.DB.Pool, db.OrgByIDParams{InstanceID: instance.ID, ID: owner.OrgId})
	case *object.RequestContext_OrgDomain:
		level = policyv1.Level_LEVEL_ORG
		found, err = q.OrgByDomain(ctx, c.DB.Pool, db.OrgByDomainParams{InstanceID: instance.ID, Domain: CanonicalHost(owner.OrgDomain)})
	}
	if store.NoRow(err) {
		return Context{}, errContextNotFound
	}
	if err != nil {
		return Context{}, err
	}
	if level == policyv1.Level_LEVEL_ORG {
		return Context{Level: level, InstanceID: instance.ID, OrgID: found}, nil
	}
	if found != instance.ID && caller.InstanceID != "" {
		return Context{}, errContextNotFound // the same answer as for one that does not exist
	}
	return Context{Level: level, InstanceID: found}, nil
}
