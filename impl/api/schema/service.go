// Package schema manages what data the users of an instance carry: JSON Schemas
// (2020-12) in revisions, with a keyword that says who may read and write a
// property (document 1, "Services").
package schema

import (
	"context"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	schemav3 "github.com/writ-id/writ/gen/proto/writ/schema/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/resource"
)

// Service implements the user schemas API. It is safe for concurrent use.
type Service struct {
	schemav3.UnsafeServiceUserSchemasServer

	resource.Env
	queries *db.Queries
	schemas *resource.Table[db.UserSchema, storage.UserSchemas]
}

var _ schemav3.ServiceUserSchemasServer = (*Service)(nil)

// New returns a Service over env.
func New(env resource.Env) *Service {
	return &Service{Env: env, queries: db.New(), schemas: resource.New(env, storage.UserSchemas{})}
}

// CreateUserSchema creates a schema in its first revision.
func (s *Service) CreateUserSchema(ctx context.Context, req *schemav3.CreateUserSchemaRequest) (*schemav3.CreateUserSchemaResponse, error) {
	row := &db.UserSchema{Revision: 1, State: object.EffectiveState_EFFECTIVE_STATE_ACTIVE, PossibleAuthenticators: []schemav3.AuthenticatorType{}}
	storage.AssignUserSchema(row, req.GetUserSchema())
	if err := check(req.GetUserSchema().GetSchema()); err != nil {
		return nil, err
	}
	var details *object.Details
	err := s.DB.InTx(ctx, func(tx pgx.Tx) (err error) {
		if details, err = s.schemas.CreateIn(ctx, tx, row, &eventv1.UserSchemaAdded{}); err != nil {
			return err
		}
		return s.keepRevision(ctx, tx, row)
	})
	return &schemav3.CreateUserSchemaResponse{Details: details}, err
}

func (s *Service) keepRevision(ctx context.Context, tx pgx.Tx, row *db.UserSchema) error {
	return s.queries.AddSchemaRevision(ctx, tx, db.AddSchemaRevisionParams{
		InstanceID: row.InstanceID, SchemaID: row.ID, Revision: row.Revision, Schema: row.Schema,
	})
}

// check refuses what is no schema of an object.
func check(schema *structpb.Struct) error {
	text, err := protojson.Marshal(schema)
	if err != nil {
		return err
	}
	if _, err := Compile(text); err != nil {
		return fault.Invalid("INVALID_SCHEMA", "userSchema.schema", "%s", err)
	}
	return nil
}

// PatchUserSchema changes the fields that are present. Another JSON Schema is a
// new revision.
func (s *Service) PatchUserSchema(ctx context.Context, req *schemav3.PatchUserSchemaRequest) (*schemav3.PatchUserSchemaResponse, error) {
	patch := req.GetUserSchema()
	if patch.GetSchema() != nil {
		if err := check(patch.GetSchema()); err != nil {
			return nil, err
		}
	}
	details, err := s.schemas.Change(ctx, req.GetId(), &eventv1.UserSchemaChanged{}, func(tx pgx.Tx, row *db.UserSchema) error {
		if row.State != object.EffectiveState_EFFECTIVE_STATE_ACTIVE {
			return fault.New(fault.FailedPrecondition, "USER_SCHEMA_INACTIVE", "an inactive schema cannot change")
		}
		before := row.Schema
		storage.AssignPatchUserSchema(row, patch)
		if resource.SameJSON(before, row.Schema) {
			return nil
		}
		row.Revision++
		return s.keepRevision(ctx, tx, row)
	})
	return &schemav3.PatchUserSchemaResponse{Details: details}, err
}

// DeleteUserSchema deletes a schema that no user has.
func (s *Service) DeleteUserSchema(ctx context.Context, req *schemav3.DeleteUserSchemaRequest) (*schemav3.DeleteUserSchemaResponse, error) {
	details, err := s.schemas.Delete(ctx, req.GetId(), &eventv1.UserSchemaRemoved{}, nil)
	return &schemav3.DeleteUserSchemaResponse{Details: details}, err
}

// GetUserSchema reads one schema.
func (s *Service) GetUserSchema(ctx context.Context, req *schemav3.GetUserSchemaRequest) (*schemav3.GetUserSchemaResponse, error) {
	row, err := s.schemas.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return &schemav3.GetUserSchemaResponse{UserSchema: storage.NewGetUserSchema(row)}, nil
}

// SearchUserSchemas finds the schemas that meet all filters.
func (s *Service) SearchUserSchemas(ctx context.Context, req *schemav3.SearchUserSchemasRequest) (*schemav3.SearchUserSchemasResponse, error) {
	rows, details, err := storage.SearchUserSchemas(ctx, s.schemas, req)
	return &schemav3.SearchUserSchemasResponse{
		Details: details, SortingColumn: req.GetSortingColumn(), Result: resource.All(rows, storage.NewGetUserSchema),
	}, err
}

// ActivateUserSchema makes a schema active.
func (s *Service) ActivateUserSchema(ctx context.Context, req *schemav3.ActivateUserSchemaRequest) (*schemav3.ActivateUserSchemaResponse, error) {
	details, err := resource.SetState(ctx, s.schemas, storage.UserSchemas{}.State, req.GetId(), object.EffectiveState_EFFECTIVE_STATE_ACTIVE, &eventv1.UserSchemaActivated{})
	return &schemav3.ActivateUserSchemaResponse{Details: details}, err
}

// DeactivateUserSchema makes a schema inactive: the data of its users stays as
// it is.
func (s *Service) DeactivateUserSchema(ctx context.Context, req *schemav3.DeactivateUserSchemaRequest) (*schemav3.DeactivateUserSchemaResponse, error) {
	details, err := resource.SetState(ctx, s.schemas, storage.UserSchemas{}.State, req.GetId(), object.EffectiveState_EFFECTIVE_STATE_INACTIVE, &eventv1.UserSchemaDeactivated{})
	return &schemav3.DeactivateUserSchemaResponse{Details: details}, err
}
