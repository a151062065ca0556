// Package idp manages the identity providers that users sign in with (document 1, "Identity
// providers"). They are reusable: what contexts inherit is package resource.
//
// Service implements contracts/proto/writ/idp. All types are rows of one table and go one
// way; what differs is which generated code reads a request and makes an answer (types.go).
// What providers speak is package upstream.
package idp

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	idpv3 "github.com/writ-id/writ/gen/proto/writ/idp/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/secret"
)

// Service implements the identity providers API. It is safe for concurrent use.
type Service struct {
	idpv3.UnsafeServiceIdentityProvidersServer

	resource.Env
	idps   *resource.Reusable[db.Idp, storage.Idps]
	sealer secret.Sealer
}

var _ idpv3.ServiceIdentityProvidersServer = (*Service)(nil)

// New returns a Service over env. sealer seals the secrets of providers.
func New(env resource.Env, sealer secret.Sealer) *Service {
	return &Service{Env: env, sealer: sealer, idps: resource.NewReusable(env, storage.Idps{},
		func(row *db.Idp) *object.StatePolicy { return &row.StatePolicy },
		func(word object.StatePolicy) event.Payload { return &eventv1.IDPStatePolicySet{StatePolicy: word} },
	)}
}

// kind is the type that a method is for.
type kind idpv3.ProviderType

func (of kind) is(row *db.Idp) bool { return row.Type == idpv3.ProviderType(of) }

// secrets are the fields of a request that are sealed; nil: they stay.
type secrets struct{ client, key *string }

// create makes a provider of the context of the call. assign sets what the request says.
func (s *Service) create(ctx context.Context, of kind, given secrets, assign func(*db.Idp)) (*object.Details, error) {
	row := &db.Idp{ID: s.NewID(), InstanceID: policy.CallFrom(ctx).Context.InstanceID, Type: idpv3.ProviderType(of), ClientSecret: []byte{}, PrivateKey: []byte{}}
	assign(row)
	if row.StatePolicy == object.StatePolicy_STATE_POLICY_UNSPECIFIED {
		row.StatePolicy = object.StatePolicy_STATE_POLICY_ACTIVATE
	}
	if len(row.Scopes) == 0 {
		row.Scopes = spoken(row.Type).Scopes()
	}
	if err := s.seal(row, given); err != nil {
		return nil, err
	}
	return s.idps.Create(ctx, row, &eventv1.IDPAdded{})
}

// patch changes a provider; in a context that inherits it, its state policy only. config is
// what the request says of its type, nil when nothing.
func (s *Service) patch(ctx context.Context, of kind, id string, idp *idpv3.PatchIDP, config proto.Message, given secrets, assign func(*db.Idp)) (*object.Details, error) {
	other := cmp.Or(resource.FirstField("idp.idp", idp, "state_policy"), resource.FirstField("idp.config", config))
	var word *object.StatePolicy
	if idp != nil {
		word = idp.StatePolicy
	}
	return s.idps.Patch(ctx, id, &eventv1.IDPChanged{}, resource.Change[db.Idp]{
		Policy: word, Other: other, Apply: func(tx pgx.Tx, row *db.Idp) error {
			was := *row
			assign(row)
			if (row.Issuer != was.Issuer || row.TokenEndpoint != was.TokenEndpoint) && len(row.ClientSecret) > 0 && given.client == nil {
				return errSecretMissing
			}
			if known(row).Realm() != known(&was).Realm() {
				if err := unlinked(ctx, tx, row); err != nil {
					return err
				}
			}
			return s.seal(row, given)
		},
	}, of.is)
}

// seal stores the secrets of a request.
func (s *Service) seal(row *db.Idp, given secrets) error {
	return errors.Join(
		secret.Replace(s.sealer, place(row), &row.ClientSecret, given.client),
		secret.Replace(s.sealer, place(row), &row.PrivateKey, given.key),
	)
}

func place(row *db.Idp) string { return secret.Place("idps", row.InstanceID, row.ID) }

// get reads a provider of a type.
func (s *Service) get(ctx context.Context, of kind, id string) (*db.Idp, *resource.View, error) {
	return s.idps.Get(ctx, id, of.is)
}

// show sets what an answer says of the context that asks.
func show(view *resource.View, details **object.Details, parent **object.Parent, state *object.EffectiveState, idp *idpv3.IDP) {
	*details, *parent, *state, idp.StatePolicy = view.Details, view.Parent, view.State, view.Policy
}

// DeleteIDP deletes a provider of any type, where it is defined.
func (s *Service) DeleteIDP(ctx context.Context, req *idpv3.DeleteIDPRequest) (*idpv3.DeleteIDPResponse, error) {
	details, err := s.idps.Delete(ctx, req.GetId(), &eventv1.IDPRemoved{})
	return &idpv3.DeleteIDPResponse{Details: details}, err
}

// SearchIDPs finds the providers that meet all filters: those of the context, above it and
// below it, as far as the caller may read.
func (s *Service) SearchIDPs(ctx context.Context, req *idpv3.SearchIDPsRequest) (*idpv3.SearchIDPsResponse, error) {
	rows, details, err := storage.SearchIDPs(ctx, s.idps.Table(), req, s.idps.Filters(ctx))
	if err != nil {
		return nil, err
	}
	views, err := s.idps.Views(ctx, rows)
	if err != nil {
		return nil, err
	}
	result := resource.All(rows, storage.NewGetIDP)
	for i, one := range result {
		show(&views[i], &one.Details, &one.Parent, &one.State, one.Idp)
	}
	return &idpv3.SearchIDPsResponse{Details: details, SortingColumn: req.GetSortingColumn(), Result: result}, nil
}

// unlinked refuses to make a provider another one that users are linked to: whoever may
// change it could have theirs say that they are anybody of these (SEC-201, SEC-235).
func unlinked(ctx context.Context, tx pgx.Tx, row *db.Idp) error {
	if err := db.New().TakeIDP(ctx, tx, db.TakeIDPParams{InstanceID: row.InstanceID, ID: row.ID}); err != nil {
		return err
	}
	has, err := db.New().HasLinks(ctx, tx, db.HasLinksParams{IdpInstanceID: row.InstanceID, IdpID: row.ID})
	if err == nil && has {
		err = fault.New(fault.FailedPrecondition, "IDP_LINKED", "users are linked to accounts at this provider, and would be to those of another one; make a new provider instead").On("idp.config")
	}
	return err
}

// errSecretMissing keeps the secret from who does not know it: they could have it sent to
// an address of theirs (SEC-206).
var errSecretMissing = fault.Invalid("CLIENT_SECRET_REQUIRED", "idp.config.clientSecret", "the secret has to be given again when it is to be sent to another address")

// errKeyMissing refuses a provider of Apple without the key that its client signs with.
var errKeyMissing = fault.Invalid("PRIVATE_KEY_REQUIRED", "idp.config.privateKey", "the key is required: a client of Apple signs instead of having a secret")
