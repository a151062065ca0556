package lifetime

import (
	"context"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	"github.com/writ-id/writ/impl/core/cache"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/setting"
	"github.com/writ-id/writ/impl/core/store"
)

// Lives is how long things are good.
type Lives struct {
	Access, ID           time.Duration
	RefreshIdle, Refresh time.Duration // unused, and in all
	SessionIdle          time.Duration
}

// Defaults are the system's. Access and ID tokens live no longer: keys are published for as
// long as what they signed.
var Defaults = Lives{
	Access: 12 * time.Hour, ID: 12 * time.Hour,
	RefreshIdle: 30 * 24 * time.Hour, Refresh: 90 * 24 * time.Hour,
	SessionIdle: 24 * time.Hour,
}

var defaults = &eventv1.LifetimesSet{
	AccessTokenLifetime: durationpb.New(Defaults.Access), IdTokenLifetime: durationpb.New(Defaults.ID),
	RefreshTokenIdleLifetime: durationpb.New(Defaults.RefreshIdle), RefreshTokenLifetime: durationpb.New(Defaults.Refresh),
	SessionIdleLifetime: durationpb.New(Defaults.SessionIdle),
}

// shortest are the least that can be set: what is shorter ends before it is used.
var shortest = map[protoreflect.Name]time.Duration{
	"access_token_lifetime": time.Minute, "id_token_lifetime": time.Minute,
	"refresh_token_idle_lifetime": time.Hour, "refresh_token_lifetime": time.Hour,
	"session_idle_lifetime": 5 * time.Minute,
}

// least refuses a lifetime that is too short. None at all is inherited.
func least(at string, name protoreflect.Name, life time.Duration) error {
	if life != 0 && life < shortest[name] {
		return fault.Invalid("LIFETIME_TOO_SHORT", at, "must be at least %v, or 0s for what is inherited", shortest[name])
	}
	return nil
}

func durationOf(v protoreflect.Value) time.Duration {
	of, _ := v.Message().Interface().(*durationpb.Duration)
	return of.AsDuration()
}

// Own refuses what an application cannot say of its tokens.
func Own(app *db.App) error {
	for _, one := range []struct {
		field string
		name  protoreflect.Name
		nanos int64
	}{
		{"accessTokenLifetime", "access_token_lifetime", app.AccessTokenLifetimeNanos},
		{"idTokenLifetime", "id_token_lifetime", app.IDTokenLifetimeNanos},
		{"refreshTokenIdleLifetime", "refresh_token_idle_lifetime", app.RefreshTokenIdleLifetimeNanos},
		{"refreshTokenLifetime", "refresh_token_lifetime", app.RefreshTokenLifetimeNanos},
	} {
		if err := least("app.oidc."+one.field, one.name, time.Duration(one.nanos)); err != nil {
			return err
		}
	}
	return nil
}

// For returns how long the tokens of an application are good: what it says itself counts.
func (l Lives) For(app *db.App) Lives {
	for _, one := range []struct {
		life *time.Duration
		own  int64
	}{
		{&l.Access, app.AccessTokenLifetimeNanos}, {&l.ID, app.IDTokenLifetimeNanos},
		{&l.RefreshIdle, app.RefreshTokenIdleLifetimeNanos}, {&l.Refresh, app.RefreshTokenLifetimeNanos},
	} {
		if one.own != 0 {
			*one.life = time.Duration(one.own)
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
		applies := setting.Applies(words, defaults)
		return Lives{
			Access: applies.GetAccessTokenLifetime().AsDuration(), ID: applies.GetIdTokenLifetime().AsDuration(),
			RefreshIdle: applies.GetRefreshTokenIdleLifetime().AsDuration(), Refresh: applies.GetRefreshTokenLifetime().AsDuration(),
			SessionIdle: applies.GetSessionIdleLifetime().AsDuration(),
		}, nil
	})
}

func read(ctx context.Context, conn db.DBTX, instanceID, orgID string) ([]setting.Word[*eventv1.LifetimesSet], error) {
	said, err := setting.Read(ctx, conn, instanceID, orgID, Subject)
	if err != nil {
		return nil, err
	}
	return setting.Words[*eventv1.LifetimesSet](said, Subject)
}
