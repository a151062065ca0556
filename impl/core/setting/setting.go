// Package setting is how settings are set and inherited, once (document 1, "Settings").
//
// A subject (languages, branding, the words of a kind of message) has properties: the
// optional fields of a message. Each context, the system, an instance or an organization,
// says some of them; what it says is its word, a row of the table settings. What it does
// not say the nearest context above says that does, and at last the product.
package setting

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/writ-id/writ/gen/db"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/store"
)

// Word is what one context says itself.
type Word[M proto.Message] struct {
	In         policy.Context
	Says       M // only what is present is said
	Sequence   int64
	ChangeDate time.Time
}

// Said are the words of a context and of those above it about some subjects.
type Said []db.Setting

// Read reads what a context, and each above it, says of some subjects, in one statement. An
// empty orgID is the instance itself, an empty instanceID the system.
func Read(ctx context.Context, conn db.DBTX, instanceID, orgID string, subjects ...string) (Said, error) {
	return db.New().Settings(ctx, conn, db.SettingsParams{InstanceID: instanceID, OrgID: orgID, Subjects: subjects})
}

// Words returns the words about a subject, the nearest context first.
func Words[M proto.Message](said Said, subject string) ([]Word[M], error) {
	var words []Word[M]
	for i := range said {
		if said[i].Subject != subject {
			continue
		}
		word, err := wordOf[M](&said[i])
		if err != nil {
			return nil, err
		}
		words = append(words, word)
	}
	return words, nil
}

func wordOf[M proto.Message](row *db.Setting) (Word[M], error) {
	var none M
	says := none.ProtoReflect().New()
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(row.Properties, says.Interface()); err != nil {
		return Word[M]{}, fmt.Errorf("settings %s of %q %q: %w", row.Subject, row.InstanceID, row.OrgID, err)
	}
	in := policy.Context{Level: policyv1.Level_LEVEL_ORG, InstanceID: row.InstanceID, OrgID: row.OrgID}
	switch {
	case row.InstanceID == "":
		in.Level = policyv1.Level_LEVEL_SYSTEM
	case row.OrgID == "":
		in.Level = policyv1.Level_LEVEL_INSTANCE
	}
	return Word[M]{in, says.Interface().(M), row.Sequence, row.ChangeDate}, nil
}

// Inherited returns the context that the word is inherited from, as seen in another one;
// nil when that is its own.
func (w Word[M]) Inherited(in policy.Context) *object.Owner {
	if w.In.InstanceID == in.InstanceID && w.In.OrgID == in.OrgID {
		return nil
	}
	return w.In.Owner()
}

// Details returns when the context's own word last changed.
func Details[M proto.Message](words []Word[M], in policy.Context, now time.Time) *object.SettingDetails {
	if len(words) > 0 && words[0].Inherited(in) == nil {
		return resource.SettingDetails(words[0].Sequence, words[0].ChangeDate, in.Owner())
	}
	return resource.SettingDetails(0, now, in.Owner())
}

// Applies returns what applies: of each property the nearest word, at last the default.
func Applies[M proto.Message](words []Word[M], defaults M) M {
	applies := proto.CloneOf(defaults)
	for i := range slices.Backward(words) {
		words[i].Says.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			applies.ProtoReflect().Set(f, v)
			return true
		})
	}
	return applies
}

// Change is what a request asks a context to say.
type Change[M proto.Message] struct {
	Subject string
	Says    M // what is present; what is empty is taken back
	// Agree, if not nil, refuses words that do not go together: those that would be.
	Agree func(words []Word[M]) error
	// Event is the event of what changed: in changed what is empty is inherited from now on,
	// own is what the context says from now on.
	Event func(changed, own M) event.Payload
	// Beside, if not nil, stores what is not in the word itself.
	Beside func(ctx context.Context, tx pgx.Tx, changed M) error
}

// errNothing ends a transaction that would change nothing, so that not even a row is made.
var errNothing = errors.New("setting: nothing changes")

// Set has the context of the call say what a request asks for, with an event; what is said
// already changes nothing. Nodes forget what they remember of settings.
func Set[M proto.Message](ctx context.Context, env *resource.Env, c Change[M]) (*object.SettingDetails, error) {
	call, now := policy.CallFrom(ctx), env.Now()
	in, q := call.Context, db.New()
	var row db.Setting
	err := env.DB.InTx(ctx, func(tx pgx.Tx) error {
		var err error
		if row, err = q.LockSetting(ctx, tx, db.LockSettingParams{InstanceID: in.InstanceID, OrgID: in.OrgID, Subject: c.Subject, Now: now}); err != nil {
			return err
		}
		own, err := wordOf[M](&row)
		if err != nil {
			return err
		}
		changed, any := say(own.Says, c.Says)
		if !any {
			return errNothing
		}
		if c.Agree != nil {
			said, err := Read(ctx, tx, in.InstanceID, in.OrgID, c.Subject)
			if err != nil {
				return err
			}
			words, err := Words[M](said, c.Subject)
			if err != nil {
				return err
			}
			words[0] = own // the row is there: LockSetting made it
			if err := c.Agree(words); err != nil {
				return err
			}
		}
		if row.Properties, err = protojson.Marshal(own.Says); err != nil {
			return err
		}
		row.ChangeDate = now
		if row.Sequence, err = event.Append(ctx, tx, event.Event{
			InstanceID: in.InstanceID, ObjectID: in.Owner().GetType().String() + "/" + in.Owner().GetId(), Payload: c.Event(changed, own.Says),
			Owner: in.Owner(), Cause: policy.CauseOf(ctx, now),
		}); err != nil {
			return err
		}
		if err := q.UpdateSetting(ctx, tx, db.UpdateSettingParams{
			InstanceID: in.InstanceID, OrgID: in.OrgID, Subject: c.Subject, Properties: row.Properties, Sequence: row.Sequence, ChangeDate: now,
		}); err != nil {
			return err
		}
		if c.Beside != nil {
			if err := c.Beside(ctx, tx, changed); err != nil {
				return err
			}
		}
		return q.NotifyChange(ctx, tx)
	})
	switch {
	case errors.Is(err, errNothing):
		err = nil
	case store.Violates(err, "settings_org_fkey"), store.Violates(err, "settings_of_instance_fkey"): // deleted since the context was looked up
		err = fault.New(fault.NotFound, "CONTEXT_NOT_FOUND", "the context does not exist")
	case err == nil:
		env.Invalidate()
	}
	return resource.SettingDetails(row.Sequence, row.ChangeDate, in.Owner()), err
}

// Would returns the words as they would be if a context said what is asked for.
func Would[M proto.Message](words []Word[M], in policy.Context, asked M) []Word[M] {
	own := Word[M]{In: in, Says: asked.ProtoReflect().New().Interface().(M)}
	if len(words) > 0 && words[0].Inherited(in) == nil {
		own.Says, words = proto.CloneOf(words[0].Says), words[1:]
	}
	say(own.Says, asked)
	return append([]Word[M]{own}, words...)
}

// say has a word say what is present in asked, and returns what changes by that: what is
// empty in it is taken back.
func say[M proto.Message](own, asked M) (changed M, any bool) {
	word, changes := own.ProtoReflect(), own.ProtoReflect().New()
	asked.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case empty(f, v) && !word.Has(f), word.Has(f) && word.Get(f).Equal(v):
			return true
		case empty(f, v):
			word.Clear(f)
		default:
			word.Set(f, v)
		}
		changes.Set(f, v)
		any = true
		return true
	})
	return changes.Interface().(M), any
}

// empty reports whether a property that is present takes the word back.
func empty(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
	if f.Message() == nil {
		return v.Equal(f.Default())
	}
	none := true
	v.Message().Range(func(protoreflect.FieldDescriptor, protoreflect.Value) bool { none = false; return false })
	return none
}
