package user

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/writ-id/writ/gen/db"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/api/schema"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/store"
)

// Users may carry data that a user schema describes. It is checked with the newest
// revision whenever data or schema change; until then users stay on the revision
// they are on. Who may write and read a property says the schema itself.

// maxData is how many bytes the data of a user may have as JSON.
const maxData = 64 << 10

// setData changes schema and data of a user as far as they are present.
func (s *Service) setData(ctx context.Context, tx pgx.Tx, user *db.UserRow, schemaID *string, data *structpb.Struct) error {
	if schemaID == nil && data == nil {
		return nil
	}
	old := *user
	before := dataOf(old.Data)
	if schemaID != nil {
		user.SchemaID = schemaID
	}
	if user.SchemaID == nil || *user.SchemaID == "" {
		if len(data.GetFields()) > 0 {
			return fault.Invalid("DATA_WITHOUT_SCHEMA", "user.data", "data needs a user schema")
		}
		user.SchemaID, user.SchemaRevision, user.Data = nil, 0, nil
		return nil
	}
	next := before
	if data != nil {
		if proto.Size(data) > 8*maxData { // a digit takes a byte there and eight here
			return tooLong()
		}
		next = data.AsMap()
	}
	if old.SchemaID != nil && *old.SchemaID == *user.SchemaID && same(next, before) {
		return nil
	}
	// Naming a schema tells whether it exists, so it is for those who may read schemas.
	named := old.SchemaID == nil || *old.SchemaID != *user.SchemaID
	if named && !policy.CallFrom(ctx).Holds("userschema.read", policy.Place{InstanceID: user.InstanceID}) {
		return noSchema(*user.SchemaID)
	}
	kept, err := s.queries.HoldSchema(ctx, tx, db.HoldSchemaParams{InstanceID: user.InstanceID, ID: *user.SchemaID})
	switch {
	case store.NoRow(err):
		return noSchema(*user.SchemaID)
	case err != nil:
		return err
	case kept.State != object.EffectiveState_EFFECTIVE_STATE_ACTIVE:
		return fault.New(fault.FailedPrecondition, "USER_SCHEMA_INACTIVE", "users of an inactive schema keep their data").On("user.schemaId")
	}
	compiled, err := schema.Compile(kept.Schema)
	if err != nil { // it was made when there were fewer rules
		return fault.New(fault.FailedPrecondition, "USER_SCHEMA_UNUSABLE", "the user schema has to be mended first: %s", err).On("user.schemaId")
	}
	if data != nil {
		next, err = compiled.Apply(ctx, next, before, access(policy.CallFrom(ctx), "user.write", user))
	} else {
		err = compiled.Check(ctx, next)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fault.Invalid("INVALID_DATA", "user.data", "%s", err)
	}
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if len(text) > maxData { // with what stays of before
		return tooLong()
	}
	user.Data, user.SchemaRevision = text, kept.Revision
	return nil
}

func tooLong() *fault.Error {
	return fault.Invalid("INVALID_DATA", "user.data", "the data may have at most %d bytes", maxData)
}

func noSchema(id string) *fault.Error {
	return fault.New(fault.NotFound, "USER_SCHEMA_NOT_FOUND", "there is no user schema %q", id).On("user.schemaId")
}

// dataOf returns stored data; nothing is an empty object.
func dataOf(text json.RawMessage) map[string]any {
	object := map[string]any{}
	_ = json.Unmarshal(text, &object) // of the database
	return object
}

func same(a, b map[string]any) bool {
	left, _ := json.Marshal(a)
	right, _ := json.Marshal(b)
	return string(left) == string(right)
}

// access returns as whom the caller meets the data of a user.
func access(call *policy.Call, permission string, user *db.UserRow) schema.Access {
	if call.Holds(permission, placeOf(user)) {
		return schema.Admin
	}
	return schema.Self
}

// show returns users as the caller may read them.
func (s *Service) show(ctx context.Context, users []db.UserRow) ([]*userv3.GetUser, error) {
	shown := resource.All(users, storage.NewGetUser)
	wanted := db.SchemaRevisionsParams{InstanceID: policy.CallFrom(ctx).Context.InstanceID}
	type revision struct {
		id string
		n  int32
	}
	documents := map[revision]map[string]any{}
	for i := range users {
		if users[i].SchemaID == nil {
			continue
		}
		of := revision{*users[i].SchemaID, users[i].SchemaRevision}
		if _, asked := documents[of]; !asked {
			documents[of] = nil
			wanted.Add(db.SchemaRevisionsEntry{SchemaID: of.id, Revision: of.n})
		}
	}
	if len(documents) == 0 {
		return shown, nil
	}
	found, err := s.queries.SchemaRevisions(ctx, s.DB.SearchConn(), wanted)
	if err != nil {
		return nil, err
	}
	for i := range found {
		documents[revision{found[i].SchemaID, found[i].Revision}] = dataOf(found[i].Schema)
	}
	for i := range users {
		if users[i].SchemaID == nil {
			continue
		}
		// The schema is gone when the user changed meanwhile: then nothing is known.
		document, data := documents[revision{*users[i].SchemaID, users[i].SchemaRevision}], map[string]any{}
		if document != nil {
			data = dataOf(users[i].Data)
			schema.Readable(document, data, access(policy.CallFrom(ctx), "user.read", &users[i]))
		}
		if shown[i].Data, err = structpb.NewStruct(data); err != nil {
			return nil, err
		}
	}
	return shown, nil
}
