package seed

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"

	"github.com/writ-id/writ/gen/db"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/api/app"
	"github.com/writ-id/writ/impl/api/user"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
)

// Config holds what Apply needs. Known and Reissue are for `writ dev`, which
// keeps the secrets it was shown.
type Config struct {
	resource.Env
	Roles *policy.Roles
	// Services returns the services over an Env: that of the transaction.
	Services func(resource.Env) (Services, error)
	// DryRun finds out what would change and changes nothing.
	DryRun bool
	// Known holds secrets from an earlier run, by path (Applied.Secrets).
	Known map[string]string
	// Reissue replaces secrets that exist but are neither in the file nor known.
	Reissue bool
	// Keep, if not nil, is given the secrets that were generated, by path, before what they
	// are for exists: an error of it ends the whole.
	Keep func(generated map[string]string) error
}

// Services are what a file is applied by.
type Services struct {
	// Call calls a method of the contract by "/package.Service/Method" and checks
	// the request by its rules.
	Call  func(ctx context.Context, method string, req proto.Message) (proto.Message, error)
	Users *user.Service
	Apps  *app.Service
}

// Applied says what a seed file came to.
type Applied struct {
	Users    []AppliedUser
	Projects []AppliedProject
	// Secrets holds, by path, the secrets that were left out of the file: the
	// known ones and those generated now.
	Secrets map[string]string
	// Generated are the paths of those generated now, sorted; they are shown once.
	Generated []string
	// Changes are the events of what changed, in order.
	Changes []Change
}

// Change is something that an application of a file changed.
type Change struct {
	Event, Aggregate, ID string
	Payload              string // JSON
}

// AppliedUser is a user of the file with its IDs and secrets. A secret that
// exists but is not known is empty.
type AppliedUser struct {
	InstanceID, OrgID, ID, Username, LoginName string
	Email, Password                            string // of a human
	Human                                      bool
	Roles                                      []string
	Token                                      string // the first one
	Secret, Key                                string // of a service user: client secret, key file
}

// AppliedProject is a project of the file with its apps.
type AppliedProject struct {
	ID, Name string
	Apps     []AppliedApp
}

// AppliedApp is an app of the file with its secrets.
type AppliedApp struct {
	ID, Name, ClientID, Secret, Key      string
	RedirectURIs, PostLogoutRedirectURIs []string
}

// errDryRun ends the transaction of a dry run.
var errDryRun = errors.New("dry run")

// Apply makes exist what the file says, in one transaction and by the operations
// of the contract. Nodes that apply at the same time wait for one another.
func Apply(ctx context.Context, c Config, file *File) (*Applied, error) {
	var r *run
	err := c.DB.InTx(ctx, func(tx pgx.Tx) error {
		services, err := c.Services(c.In(tx))
		if err != nil {
			return err
		}
		r = newRun(c, services, tx)
		if err := r.apply(ctx, file); err != nil {
			return err
		}
		switch {
		case c.DryRun:
			return errDryRun
		case c.Keep != nil && len(r.applied.Generated) > 0:
			generated := map[string]string{}
			for _, path := range r.applied.Generated {
				generated[path] = r.applied.Secrets[path]
			}
			return c.Keep(generated)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errDryRun) {
		return nil, fmt.Errorf("apply the seed: %w", err)
	}
	c.Invalidate()
	slices.Sort(r.applied.Generated)
	return r.applied, nil
}

// run is one attempt to apply a file.
type run struct {
	Config
	Services
	tx      pgx.Tx
	queries *db.Queries
	applied *Applied
}

func newRun(c Config, services Services, tx pgx.Tx) *run {
	return &run{Config: c, Services: services, tx: tx, queries: db.New(), applied: &Applied{Secrets: map[string]string{}}}
}

func (r *run) apply(ctx context.Context, file *File) error {
	if err := r.queries.LockSeed(ctx, r.tx); err != nil {
		return err
	}
	system := r.in(ctx, policy.Context{Level: policyv1.Level_LEVEL_SYSTEM})
	if err := r.features(system, "System", file.System.Features); err != nil {
		return err
	}
	for _, user := range file.System.Users {
		if err := r.systemUser(system, user); err != nil {
			return fmt.Errorf("system user %q: %w", user.Username, err)
		}
	}
	for _, instance := range file.Instances {
		if err := r.instance(ctx, instance); err != nil {
			return fmt.Errorf("instance %q: %w", instance.Name, err)
		}
	}
	events, err := r.queries.EventsOfTransaction(ctx, r.tx)
	if err != nil {
		return err
	}
	for _, event := range events {
		r.applied.Changes = append(r.applied.Changes, Change{event.EventType, event.AggregateType, event.AggregateID, string(event.Payload)})
	}
	return nil
}

// in returns a context in which operations apply to a place of the hierarchy.
func (r *run) in(ctx context.Context, at policy.Context) context.Context {
	return policy.As(ctx, at, "system", r.Roles)
}

// features sets flags of the level that the context is on.
func (r *run) features(ctx context.Context, level string, flags map[string]bool) error {
	if len(flags) == 0 {
		return nil
	}
	_, err := r.call(ctx, kind{service: "writ.feature.v2.ServiceFeatures"}, "Set"+level+"Features", Body{"features": flags})
	return err
}

// checkID refuses an ID in the file that is not that of the object that is there.
func checkID(asked, is string) error {
	if asked != "" && asked != is {
		return fmt.Errorf("it exists with the ID %q, not %q", is, asked)
	}
	return nil
}

// unknown decides what to use for a secret that the file leaves out: the known
// one; "" to keep what exists; else a new one.
func (r *run) unknown(path string, exists bool, generate func() string) string {
	if known := r.Known[path]; known != "" {
		r.applied.Secrets[path] = known
		return known
	}
	if exists && !r.Reissue {
		return ""
	}
	value := generate()
	r.keep(path, value)
	return value
}

// keep remembers a secret that was made now.
func (r *run) keep(path, value string) {
	r.applied.Secrets[path] = value
	r.applied.Generated = append(r.applied.Generated, path)
}
