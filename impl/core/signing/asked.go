package signing

import (
	"context"
	"time"

	"github.com/writ-id/writ/gen/db"
)

// Applications may ask for another algorithm than that of the instance. There is a key of each
// algorithm that one of them asks for, made when the first does and published before it signs
// (REL-060); until then the instance's own signs. Keys of all algorithms for every instance
// would spare the wait, and have every verifier of every instance read keys that sign nothing,
// among them kinds that some cannot read.
//
// The life of such a key is all in its times: from signs_from until end it signs, until
// its due date it is published. Nobody moves it from state to state, so nodes agree by their
// clocks, of which publishedFor has the margin.

// end returns when a key that applications ask for ceases to sign.
func end(key *db.SigningKey) time.Time { return key.DueDate.Add(-retiredFor) }

// signsFor reports whether a key signs for applications that ask for its algorithm.
func signsFor(key *db.SigningKey, now time.Time) bool {
	return key.SignsFrom != nil && key.State == retired && !now.Before(*key.SignsFrom) && now.Before(end(key))
}

// asked makes the keys that applications ask for and the instance has not, and the successors
// of those it has. A first one signs at once with the first of the instance, which nobody
// verifies yet, and in the place of one that was revoked.
func (t *tending) asked(ctx context.Context, keys []db.SigningKey, isFirst bool) error {
	asked, err := t.queries.AlgorithmsOfApps(ctx, t.tx, t.instanceID)
	if err != nil {
		return err
	}
	for _, asked := range asked {
		algorithm := Asked(asked)
		if algorithm == "" || ownSigns(keys, algorithm) {
			continue
		}
		begins := t.now.Add(publishedFor)
		if isFirst || algorithm == t.lost {
			begins = t.now
		}
		if latest := latestFor(keys, algorithm); latest != nil {
			if t.now.Before(end(latest).Add(-ahead)) {
				continue
			}
			if begins.Before(end(latest)) {
				begins = end(latest)
			} else if err := t.prolong(ctx, latest, begins); err != nil {
				return err
			}
		}
		if err := t.add(ctx, algorithm, retired, begins.Add(activeFor+retiredFor), &begins); err != nil {
			return err
		}
	}
	return nil
}

// ownSigns reports whether the instance's own keys sign with an algorithm, and go on to.
func ownSigns(keys []db.SigningKey, algorithm Algorithm) bool {
	signs := false
	for i := range keys {
		switch is := keys[i].Algorithm == string(algorithm); keys[i].State {
		case active:
			signs = is
		case next:
			if !is {
				return false
			}
		}
	}
	return signs
}

// latestFor returns the key for applications that signs with an algorithm last, if it is
// published still.
func latestFor(keys []db.SigningKey, algorithm Algorithm) (latest *db.SigningKey) {
	for i := range keys {
		key := &keys[i]
		if key.SignsFrom != nil && key.State == retired && key.Algorithm == string(algorithm) && (latest == nil || key.SignsFrom.After(*latest.SignsFrom)) {
			latest = key
		}
	}
	return latest
}

// prolong has a key sign until its successor does, which comes late when no node ran for a day.
func (t *tending) prolong(ctx context.Context, key *db.SigningKey, until time.Time) error {
	t.changed = true
	return t.queries.MoveSigningKey(ctx, t.tx, db.MoveSigningKeyParams{InstanceID: t.instanceID, ID: key.ID, State: retired, DueDate: until.Add(retiredFor)})
}
