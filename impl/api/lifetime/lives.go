package lifetime

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	"github.com/writ-id/writ/impl/core/cache"
	"github.com/writ-id/writ/impl/core/setting"
	"github.com/writ-id/writ/impl/core/store"
)

// Lives is how long things are good.
type Lives struct {
	Access, ID           time.Duration
	RefreshIdle, Refresh time.Duration // unused, and in all
	SessionIdle, Session time.Duration // likewise

	said says
}

// says is which of the lifetimes of tokens a context says, which applications do not lengthen.
type says struct{ access, id, refreshIdle, refresh bool }

// Defaults are the system's. Access and ID tokens live no longer: keys are published for as
// long as what they signed.
var Defaults = livesOf(defaults)

const day = 24 * time.Hour

// LongestSession is how long a sign-in counts at most, by the rule of the contract.
const LongestSession = 90 * day

var defaults = &eventv1.LifetimesSet{
	AccessTokenLifetime: durationpb.New(12 * time.Hour), IdTokenLifetime: durationpb.New(12 * time.Hour),
	RefreshTokenIdleLifetime: durationpb.New(30 * day), RefreshTokenLifetime: durationpb.New(90 * day),
	SessionIdleLifetime: durationpb.New(day), SessionLifetime: durationpb.New(10 * day),
}

func livesOf(applies *eventv1.LifetimesSet) Lives {
	return Lives{
		Access: applies.GetAccessTokenLifetime().AsDuration(), ID: applies.GetIdTokenLifetime().AsDuration(),
		RefreshIdle: applies.GetRefreshTokenIdleLifetime().AsDuration(), Refresh: applies.GetRefreshTokenLifetime().AsDuration(),
		SessionIdle: applies.GetSessionIdleLifetime().AsDuration(), Session: applies.GetSessionLifetime().AsDuration(),
	}
}

func durationOf(v protoreflect.Value) time.Duration {
	of, _ := v.Message().Interface().(*durationpb.Duration)
	return of.AsDuration()
}

// For returns how long the tokens of an application are good: what it says itself counts, where
// it is no longer than what is said where it is.
func (l Lives) For(app *db.App) Lives {
	for _, one := range []struct {
		life *time.Duration
		said bool
		own  int64
	}{
		{&l.Access, l.said.access, app.AccessTokenLifetimeNanos}, {&l.ID, l.said.id, app.IDTokenLifetimeNanos},
		{&l.RefreshIdle, l.said.refreshIdle, app.RefreshTokenIdleLifetimeNanos}, {&l.Refresh, l.said.refresh, app.RefreshTokenLifetimeNanos},
	} {
		if own := time.Duration(one.own); own != 0 && (!one.said || own < *one.life) {
			*one.life = own
		}
	}
	return l
}

// Reader reads what applies. What it remembers is a second old at most. It is safe for
// concurrent use.
type Reader struct {
	db    *store.DB
	known *cache.Cache[place, Lives]
}

// place is an organization of an instance, or an instance.
type place struct{ instanceID, orgID string }

// NewReader returns a Reader over a database.
func NewReader(db *store.DB) *Reader {
	return &Reader{db, cache.New[place, Lives](func(at place) string { return at.instanceID + "\x00" + at.orgID })}
}

// Drop forgets what is remembered.
func (r *Reader) Drop() { r.known.Drop() }

// Of returns what applies in an organization of an instance; orgID "" is the instance.
func (r *Reader) Of(ctx context.Context, instanceID, orgID string) (Lives, error) {
	return r.known.Get(ctx, place{instanceID, orgID}, func(ctx context.Context) (Lives, error) {
		words, err := read(ctx, r.db.Pool, instanceID, orgID)
		if err != nil {
			return Lives{}, err
		}
		said := setting.Applies(words, &eventv1.LifetimesSet{})
		lives := livesOf(setting.Applies(words, defaults))
		lives.said = says{said.AccessTokenLifetime != nil, said.IdTokenLifetime != nil, said.RefreshTokenIdleLifetime != nil, said.RefreshTokenLifetime != nil}
		return lives, nil
	})
}

// read reads the words that count, the nearest context first.
func read(ctx context.Context, conn db.DBTX, instanceID, orgID string) ([]setting.Word[*eventv1.LifetimesSet], error) {
	said, err := setting.Read(ctx, conn, instanceID, orgID, Subject)
	if err != nil {
		return nil, err
	}
	words, err := setting.Words[*eventv1.LifetimesSet](said, Subject)
	bound(words)
	return words, err
}

// bound takes out of each word what is longer than a context above says: nobody lengthens what
// those say who answer for more.
func bound(words []setting.Word[*eventv1.LifetimesSet]) {
	most := map[protoreflect.Name]time.Duration{}
	for i := range slices.Backward(words) {
		word := words[i].Says.ProtoReflect()
		word.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			life := durationOf(v)
			if above, said := most[f.Name()]; said && life > above {
				word.Clear(f)
			} else {
				most[f.Name()] = life
			}
			return true
		})
	}
}
