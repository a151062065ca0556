package browser

import (
	"context"
	"errors"
	"time"

	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/token"
	"github.com/writ-id/writ/impl/oidc/login/flow"
)

// DoorEvery is how long after a door a user gets no other one. doorLifetime is longer, so that
// a user who needs one has one that opens.
const (
	DoorEvery    = 3 * time.Hour
	doorLifetime = 24 * time.Hour
)

// ErrDoorClosed refuses a door that is none, or too old.
var ErrDoorClosed = errors.New("browser: the door does not open")

// DoorOf returns a link that makes the browser known to a user in which it is opened.
func (b *Browser) DoorOf(ctx context.Context, userID string, generation int32) (string, error) {
	return b.door(ctx, &tokenv1.Door{User: &tokenv1.KnownUser{UserId: userID, Generation: generation}})
}

// DoorOfAddress returns a link that makes the browser known to an address.
func (b *Browser) DoorOfAddress(ctx context.Context, address string) (string, error) {
	return b.door(ctx, &tokenv1.Door{Address: resource.Fold(address)})
}

// door returns the link of a door. It leads to a domain of the instance, whatever the
// request calls it (SEC-171).
func (b *Browser) door(ctx context.Context, door *tokenv1.Door) (string, error) {
	door.ExpiresAt = b.Now().Add(doorLifetime).Unix()
	sealed, err := b.Box.Seal(ctx, b.Instance.ID, token.Door, door)
	if err != nil {
		return "", err
	}
	host := b.Host
	at, err := b.queries.InstanceByDomain(ctx, b.DB.Pool, policy.CanonicalHost(host))
	if err != nil && !store.NoRow(err) {
		return "", err
	}
	if err != nil || at.ID != b.Instance.ID {
		if host, err = b.queries.PrimaryHost(ctx, b.DB.Pool, b.Instance.ID); err != nil {
			return "", err
		}
	}
	return b.Origin(host) + flow.PathDoor + "?door=" + sealed, nil
}

// Open reads a door.
func (b *Browser) Open(ctx context.Context, sealed string) (*tokenv1.Door, error) {
	door := &tokenv1.Door{}
	err := b.Box.Open(ctx, b.Instance.ID, token.Door, sealed, door)
	if errors.Is(err, token.ErrInvalid) || err == nil && b.Now().Unix() >= door.GetExpiresAt() {
		return nil, ErrDoorClosed
	}
	return door, err
}

// Enter makes the browser known to the user or the address that a door is for.
func (b *Browser) Enter(ctx context.Context, door *tokenv1.Door) error {
	if user := door.GetUser(); user != nil {
		return b.Remember(ctx, user.GetUserId(), user.GetGeneration())
	}
	return b.rememberAddress(ctx, door.GetAddress())
}
