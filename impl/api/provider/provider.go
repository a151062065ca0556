// Package provider manages who carries messages on to users: SMTP providers for e-mails and
// SMS providers for text messages (document 1, "Services"). Both are reusable resources
// (package resource), of which a context uses one at a time.
//
// What both have is here, once; smtp.go and sms.go say what differs: the contract's types,
// the secrets, and how a message is handed over (package courier).
package provider

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/writ-id/writ/gen/db"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/core/courier"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/webhook"
)

// Config is what both services need beside their Env.
type Config struct {
	resource.Env
	Sealer  secret.Sealer
	Courier *courier.Courier
	Caller  *webhook.Caller
}

// providers are those of one kind. R is their row.
type providers[R any, M resource.Model[R]] struct {
	Config
	table  *resource.Reusable[R, M]
	name   string // of the table
	common func(*R) common
	// secrets are the sealed columns of a row, with what a request says of each.
	secrets func(*R) []*sealed
	check   func(ctx context.Context, conn db.DBTX, row *R) error
}

// common is what rows of both kinds have.
type common struct {
	InstanceID, ID, Type, Endpoint string
	Policy                         *object.StatePolicy
	Key, OldKey                    *[]byte
	OldKeyUntil                    **time.Time
}

// sealed is a column with a secret.
type sealed struct {
	column, field string // field is that of a request
	value         *[]byte
	// where is what decides who gets the secret.
	where string
}

// given are the secrets of a request, by column; nil: it stays.
type given map[string]*string

const typeHTTP = "http"

var errWrongType = fault.Invalid("PROVIDER_TYPE_FIXED", "provider", "a provider stays of the type that it was made with")

// create makes a provider of the context of the call, inactive. The key is that of calls to
// an endpoint, "" for other types.
func (p *providers[R, M]) create(ctx context.Context, row *R, secrets given, payload event.Payload) (*object.Details, string, error) {
	of := p.common(row)
	*of.Policy = object.StatePolicy_STATE_POLICY_DEACTIVATE
	key := ""
	if of.Type == typeHTTP {
		var err error
		if key, err = p.newKey(row); err != nil {
			return nil, "", err
		}
	}
	if err := p.seal(row, secrets); err != nil {
		return nil, "", err
	}
	if err := p.check(ctx, p.DB.Conn(), row); err != nil {
		return nil, "", err
	}
	details, err := p.table.Create(ctx, row, payload)
	return details, key, err
}

// patch changes a provider where it is defined, and switches it in the context that the call
// is about. message is what the request says, assign stores it.
func (p *providers[R, M]) patch(ctx context.Context, id string, message proto.Message, word *object.StatePolicy, secrets given, payload event.Payload, assign func(*R)) (details *object.Details, err error) {
	err = p.DB.InTx(ctx, func(tx pgx.Tx) error {
		table := p.table.In(tx)
		other := resource.FirstField("provider", message, "state_policy")
		if other != "" || word == nil {
			details, err = table.Patch(ctx, id, payload, resource.Change[R]{Other: other, Apply: func(tx pgx.Tx, row *R) error {
				before := p.common(row).Type
				places := map[string]string{}
				for _, one := range p.secrets(row) {
					places[one.column] = one.where
				}
				if assign(row); p.common(row).Type != before {
					return errWrongType
				}
				for _, one := range p.secrets(row) {
					if len(*one.value) > 0 && one.where != places[one.column] && secrets[one.column] == nil {
						return fault.Invalid("SECRET_REQUIRED", one.field, "the %s has to be given again when it is to be sent elsewhere", one.column)
					}
				}
				if err := p.seal(row, secrets); err != nil {
					return err
				}
				return p.check(ctx, tx, row)
			}})
			if err != nil || word == nil {
				return err
			}
		}
		details, err = p.turn(ctx, tx, id, *word)
		return err
	})
	return details, err
}

// switchTo has the context that the call is about use a provider, or not.
func (p *providers[R, M]) switchTo(ctx context.Context, id string, word object.StatePolicy) (details *object.Details, err error) {
	err = p.DB.InTx(ctx, func(tx pgx.Tx) error {
		details, err = p.turn(ctx, tx, id, word)
		return err
	})
	return details, err
}

func (p *providers[R, M]) turn(ctx context.Context, tx pgx.Tx, id string, word object.StatePolicy) (*object.Details, error) {
	if word == object.StatePolicy_STATE_POLICY_ACTIVATE {
		row, _, err := p.table.In(tx).Get(ctx, id)
		if err != nil {
			return nil, err
		}
		if err := p.check(ctx, tx, row); err != nil {
			return nil, err
		}
	}
	return p.table.In(tx).Switch(ctx, id, word)
}

// rotate gives a provider another key, where it is defined.
func (p *providers[R, M]) rotate(ctx context.Context, id string, overlap *durationpb.Duration, payload event.Payload) (details *object.Details, key string, err error) {
	both := defaultOverlap
	if overlap != nil {
		both = overlap.AsDuration()
	}
	details, err = p.table.Patch(ctx, id, payload, resource.Change[R]{Other: "rotation", Apply: func(_ pgx.Tx, row *R) error {
		of := p.common(row)
		if of.Type != typeHTTP {
			return fault.New(fault.FailedPrecondition, "NO_SIGNING_KEY", "only calls to an HTTP endpoint are signed")
		}
		*of.OldKey, *of.OldKeyUntil = secret.Retire(*of.Key, p.Now(), both)
		key, err = p.newKey(row)
		return err
	}})
	return details, key, err
}

// defaultOverlap is how long the old key signs too when nobody says.
const defaultOverlap = 24 * time.Hour

func (p *providers[R, M]) newKey(row *R) (string, error) {
	of := p.common(row)
	made, text := webhook.NewKey()
	sealed, err := p.Sealer.Seal(made, p.place(row))
	*of.Key = sealed
	return text, p.sealing(err)
}

// sealing refuses what nobody could seal.
func (p *providers[R, M]) sealing(err error) error {
	if errors.Is(err, secret.ErrNoKey) {
		return fault.New(fault.FailedPrecondition, "NO_MASTER_KEY", "the server has no master key to seal secrets with")
	}
	return err
}

// seal stores the secrets of a request.
func (p *providers[R, M]) seal(row *R, secrets given) error {
	for _, one := range p.secrets(row) {
		if err := secret.Replace(p.Sealer, p.place(row), one.value, secrets[one.column]); err != nil {
			return p.sealing(err)
		}
	}
	return nil
}

// secret returns a secret of a row. One that does not open is a problem of the provider.
func (p *providers[R, M]) secret(row *R, column string) (string, error) {
	for _, one := range p.secrets(row) {
		if one.column == column {
			plain, err := secret.OpenStored(p.Sealer, p.place(row), *one.value)
			if err != nil {
				return "", &courier.Problem{What: "the provider's secrets cannot be opened"}
			}
			return string(plain), nil
		}
	}
	return "", nil
}

func (p *providers[R, M]) place(row *R) string {
	of := p.common(row)
	return secret.Place(p.name, of.InstanceID, of.ID)
}

// callTimeout is how long an endpoint may take.
const callTimeout = 15 * time.Second

// call hands a message over to the endpoint of a provider.
func (p *providers[R, M]) call(ctx context.Context, row *R, id string, body []byte) error {
	of := p.common(row)
	target := &webhook.Target{InstanceID: of.InstanceID, ID: p.name + "/" + of.ID, URL: of.Endpoint, Timeout: callTimeout}
	for _, one := range []struct {
		sealed []byte
		until  *time.Time
	}{{*of.Key, nil}, {*of.OldKey, *of.OldKeyUntil}} {
		if key, err := p.Sealer.Open(one.sealed, p.place(row)); err == nil {
			target.Keys = append(target.Keys, webhook.Key{Secret: key, Until: one.until})
		}
	}
	return courier.Call(ctx, p.Caller, target, id, body)
}

// tested is what came of a test.
type tested struct {
	taken  bool
	err    string
	status uint32
	took   *durationpb.Duration
}

// testLimit is how long a test may take.
const testLimit = 20 * time.Second

// test sends a message, outside of the call's turn, and says what came of it.
func (p *providers[R, M]) test(ctx context.Context, id string, send func(context.Context, *R) error) (tested, error) {
	row, view, err := p.table.Get(ctx, id)
	if err != nil {
		return tested{}, err
	}
	if view.Parent != nil { // it is somebody else who pays
		return tested{}, fault.New(fault.FailedPrecondition, "INHERITED_READ_ONLY", "the provider is inherited: it can be tested where it is defined only")
	}
	begin := time.Now()
	var problem error
	if err := policy.RequestFrom(ctx).Outside(ctx, testLimit, func(ctx context.Context) error {
		limited, cancel := context.WithTimeout(ctx, testLimit)
		defer cancel()
		problem = send(limited, row)
		return nil
	}); err != nil {
		return tested{}, err
	}
	t := tested{taken: problem == nil, took: durationpb.New(time.Since(begin))}
	if problem != nil {
		t.err, t.status = problem.Error(), uint32(max(0, Said(problem).Code))
	}
	return t, nil
}

// present is nil for nothing.
func present(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// Said returns what a problem comes to for who waits: how the other side answered.
func Said(err error) *courier.Problem {
	if problem, ok := errors.AsType[*courier.Problem](err); ok {
		return problem
	}
	return &courier.Problem{What: "the message could not be handed over"}
}
