package signing

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/core/background"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/secret"
)

// The states of a key.
const (
	next    = db.KeyStateNext
	active  = db.KeyStateActive
	retired = db.KeyStateRetired
	past    = db.KeyStatePast // not in the key set any more
)

// CacheFor is how long verifiers may keep the key set (Cache-Control).
const CacheFor = 5 * time.Minute

// The life of a key.
const (
	// publishedFor is how long a key is in the key set before it signs: longer than
	// verifiers cache, than nodes take to hear of it, and than clocks differ
	// (REL-060).
	publishedFor = CacheFor + 5*time.Minute
	// activeFor is how long a key signs.
	activeFor = 30 * 24 * time.Hour
	// ahead is how long before that its successor is made.
	ahead = 24 * time.Hour
	// retiredFor is how long a key verifies after it signed last: the longest life
	// of a token it signed, and a margin.
	retiredFor = 13 * time.Hour
	// hintsFor is how long an ID token is still good as a hint after that: users sign
	// out long after they signed in, and a hint only says whom a client means.
	hintsFor = 90 * 24 * time.Hour
)

// RotationDue returns when the successor of a key signs that has been active since.
func RotationDue(since time.Time) time.Time { return since.Add(activeFor) }

// Keeper moves keys through their lives. Any node may at any time; the database
// decides.
type Keeper struct {
	resource.Env
	Sealer secret.Sealer
}

// ErrWaiting is what a forced rotation returns that can do nothing: the next key is
// there and cannot sign any sooner.
var ErrWaiting = errors.New("nothing is rotated, the next key waits already")

// Rotation is what to do beyond what is due.
type Rotation struct {
	// Algorithm is that of the next key; "" is that of the active one.
	Algorithm Algorithm
	// Force makes the next key now, and active when it was published long enough.
	Force bool
}

// Tend does what is due for an instance: makes its first key, makes, activates,
// puts away and forgets keys.
func (k *Keeper) Tend(ctx context.Context, instanceID string, rotation Rotation) error {
	changed := false
	err := k.DB.InTx(ctx, func(tx pgx.Tx) error {
		t := &tending{Keeper: k, tx: tx, instanceID: instanceID, now: k.Now(), queries: db.New()}
		if err := t.queries.LockSigningKeys(ctx, tx, instanceID); err != nil {
			return err
		}
		if err := t.tend(ctx, rotation); err != nil {
			return err
		}
		if changed = t.changed; changed {
			return t.queries.NotifyChange(ctx, tx)
		}
		return nil
	})
	if changed {
		k.Invalidate()
	}
	return err
}

// tending is one transaction over the keys of an instance.
type tending struct {
	*Keeper
	tx         pgx.Tx
	instanceID string
	now        time.Time
	queries    *db.Queries
	changed    bool
	lost       Algorithm // of a key that was revoked while it signed for applications
}

func (t *tending) tend(ctx context.Context, rotation Rotation) error {
	keys, err := t.queries.SigningKeys(ctx, t.tx, t.instanceID)
	if err != nil {
		return err
	}
	isFirst := len(keys) == 0
	if err := t.own(ctx, keys, rotation); err != nil {
		return err
	}
	if t.changed {
		if keys, err = t.queries.SigningKeys(ctx, t.tx, t.instanceID); err != nil {
			return err
		}
	}
	return t.asked(ctx, keys, isFirst)
}

// own does what is due for the keys of the instance, and puts away and forgets any.
func (t *tending) own(ctx context.Context, keys []db.SigningKey, rotation Rotation) error {
	var coming, current *db.SigningKey
	for i := range keys {
		switch key := &keys[i]; {
		case key.State == next:
			coming = key
		case key.State == active:
			current = key
		case t.now.Before(key.DueDate):
		case key.State == retired:
			if err := t.putAway(ctx, key.ID); err != nil {
				return err
			}
		default:
			if err := t.delete(ctx, key.ID); err != nil {
				return err
			}
		}
	}
	if current == nil { // nobody verifies anything yet, so the first key signs at once
		return t.first(ctx, coming, rotation.Algorithm)
	}
	if coming == nil && (rotation.Force || t.now.After(current.DueDate.Add(activeFor-ahead))) {
		algorithm := rotation.Algorithm
		if algorithm == "" {
			algorithm = Algorithm(current.Algorithm)
		}
		due := current.DueDate.Add(activeFor)
		if soonest := t.now.Add(publishedFor); rotation.Force || due.Before(soonest) {
			due = soonest
		}
		return t.add(ctx, algorithm, next, due, nil)
	}
	if coming != nil && rotation.Force && t.now.Before(coming.DueDate) {
		return t.hasten(ctx, coming, rotation.Algorithm)
	}
	if coming == nil || t.now.Before(coming.DueDate) {
		return nil
	}
	if err := t.move(ctx, current.ID, retired, t.now.Add(retiredFor), &eventv1.WebKeyDeactivated{KeyId: current.ID}); err != nil {
		return err
	}
	return t.move(ctx, coming.ID, active, t.now, &eventv1.WebKeyActivated{KeyId: coming.ID})
}

// first gives an instance without an active key one.
func (t *tending) first(ctx context.Context, coming *db.SigningKey, algorithm Algorithm) error {
	if coming != nil {
		return t.move(ctx, coming.ID, active, t.now, &eventv1.WebKeyActivated{KeyId: coming.ID})
	}
	if algorithm == "" {
		algorithm = RS256
	}
	return t.add(ctx, algorithm, active, t.now, nil)
}

// add makes a key; signsFrom is of those that applications ask for.
func (t *tending) add(ctx context.Context, algorithm Algorithm, state int16, due time.Time, signsFrom *time.Time) error {
	private, err := generate(algorithm)
	if err != nil {
		return err
	}
	id := t.NewID()
	public, err := publicJWK(id, algorithm, private.Public())
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	sealed, err := t.Sealer.Seal(der, place(t.instanceID, id))
	if err != nil {
		return fmt.Errorf("a signing key: %w", err)
	}
	if err := t.queries.AddSigningKey(ctx, t.tx, db.AddSigningKeyParams{
		InstanceID: t.instanceID, ID: id, Algorithm: string(algorithm), State: state, PublicKey: public, PrivateKey: sealed, Now: t.now, DueDate: due, SignsFrom: signsFrom,
	}); err != nil {
		return err
	}
	if err := t.record(ctx, id, &eventv1.WebKeyAdded{KeyId: id, Algorithm: string(algorithm)}); err != nil || state != active {
		return err
	}
	return t.record(ctx, id, &eventv1.WebKeyActivated{KeyId: id})
}

func (t *tending) move(ctx context.Context, id string, state int16, due time.Time, payload event.Payload) error {
	if err := t.queries.MoveSigningKey(ctx, t.tx, db.MoveSigningKeyParams{InstanceID: t.instanceID, ID: id, State: state, DueDate: due}); err != nil {
		return err
	}
	return t.record(ctx, id, payload)
}

// hasten lets a key that is published already sign as soon as verifiers know it. One of
// another algorithm than is wanted has signed nothing yet, and is replaced.
func (t *tending) hasten(ctx context.Context, coming *db.SigningKey, wanted Algorithm) error {
	if wanted != "" && wanted != Algorithm(coming.Algorithm) {
		if err := t.remove(ctx, coming.ID); err != nil {
			return err
		}
		return t.add(ctx, wanted, next, t.now.Add(publishedFor), nil)
	}
	soonest := coming.CreationDate.Add(publishedFor)
	if !soonest.Before(coming.DueDate) {
		return fmt.Errorf("%w: %s signs from %s, when verifiers know it", ErrWaiting, coming.ID, coming.DueDate.UTC().Format(time.RFC3339))
	}
	t.changed = true
	return t.queries.MoveSigningKey(ctx, t.tx, db.MoveSigningKeyParams{InstanceID: t.instanceID, ID: coming.ID, State: next, DueDate: soonest})
}

// putAway takes a retired key out of the key set.
func (t *tending) putAway(ctx context.Context, id string) error {
	if err := t.queries.PutAwaySigningKey(ctx, t.tx, db.PutAwaySigningKeyParams{InstanceID: t.instanceID, ID: id, DueDate: t.now.Add(hintsFor)}); err != nil {
		return err
	}
	return t.record(ctx, id, &eventv1.WebKeyRemoved{KeyId: id})
}

// remove deletes a key before its time.
func (t *tending) remove(ctx context.Context, id string) error {
	if err := t.delete(ctx, id); err != nil {
		return err
	}
	return t.record(ctx, id, &eventv1.WebKeyRemoved{KeyId: id})
}

func (t *tending) delete(ctx context.Context, id string) error {
	_, err := t.queries.DeleteSigningKey(ctx, t.tx, db.DeleteSigningKeyParams{InstanceID: t.instanceID, ID: id})
	return err
}

func (t *tending) record(ctx context.Context, id string, payload event.Payload) error {
	t.changed = true
	_, err := event.Append(ctx, t.tx, event.Event{
		InstanceID: t.instanceID, ObjectID: id, Payload: payload, Cause: event.Cause{Creator: "system", At: t.now},
		Owner: &object.Owner{Type: object.OwnerType_OWNER_TYPE_INSTANCE, Id: t.instanceID},
	})
	return err
}

// Revoke forgets a key now: what it signed is not good any more. When it was the
// active one another one signs at once, whether verifiers know it or not.
func (k *Keeper) Revoke(ctx context.Context, instanceID, id string) error {
	err := k.DB.InTx(ctx, func(tx pgx.Tx) error {
		t := &tending{Keeper: k, tx: tx, instanceID: instanceID, now: k.Now(), queries: db.New()}
		if err := t.queries.LockSigningKeys(ctx, tx, instanceID); err != nil {
			return err
		}
		keys, err := t.queries.SigningKeys(ctx, tx, instanceID)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(keys, func(key db.SigningKey) bool { return key.ID == id })
		if at < 0 {
			return fmt.Errorf("the instance has no key %q", id)
		}
		algorithm := Algorithm(keys[at].Algorithm)
		if signsFor(&keys[at], t.now) {
			t.lost = algorithm
		}
		if err := t.remove(ctx, id); err != nil {
			return err
		}
		if err := t.tend(ctx, Rotation{Algorithm: algorithm}); err != nil {
			return err
		}
		return t.queries.NotifyChange(ctx, tx)
	})
	k.Invalidate()
	return err
}

// Task is to tend the keys of all instances. One node does; the others are notified.
func (k *Keeper) Task() background.Task {
	return background.Task{Name: "tending signing keys", Every: time.Minute, Alone: true, Do: func(ctx context.Context) (bool, error) {
		return false, k.TendAll(ctx)
	}}
}

// TendAll does what is due for every instance that has keys; the first one is made
// when it is first asked for.
func (k *Keeper) TendAll(ctx context.Context) error {
	instances, err := db.New().InstancesWithKeys(ctx, k.DB.Pool)
	for _, id := range instances {
		if err = k.Tend(ctx, id, Rotation{}); err != nil {
			return fmt.Errorf("instance %s: %w", id, err)
		}
	}
	return err
}

// place names where a private key is, for its seal.
func place(instanceID, id string) string { return secret.Place("signing_keys", instanceID, id) }
