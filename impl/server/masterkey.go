package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
)

// ErrForeignKey is why a node with another master key than the database's does not serve: it
// could read no secret of the other nodes, nor they what it seals.
var ErrForeignKey = errors.New("the master key is not the one that seals this database: give the key file of the other nodes (--master-key-file), or that of the time of the backup")

// proofPlace is what the proofs of master keys are bound to.
var proofPlace = secret.Place("master_keys")

// CheckMasterKey returns ErrForeignKey if a database is sealed by a key that a sealer does
// not hold. One that seals nothing is not asked.
func CheckMasterKey(ctx context.Context, at *store.DB, sealer secret.Sealer) error {
	key, ok := sealer.(*secret.MasterKey)
	if !ok {
		return nil
	}
	return checkMasterKey(ctx, at.Conn(), key)
}

func checkMasterKey(ctx context.Context, conn db.DBTX, key *secret.MasterKey) error {
	claimed, err := db.New().MasterKeys(ctx, conn)
	if err != nil {
		return err
	}
	for _, one := range claimed {
		if _, err := key.Open(one.Proof, proofPlace); err != nil {
			return ErrForeignKey
		}
	}
	if len(claimed) > 0 {
		return nil
	}
	for _, one := range storage.Sealed { // fresh, or of the release before, in which nothing was claimed
		if _, err := one.Open(ctx, conn, key); err != nil {
			return fmt.Errorf("%w (it does not open %s: %w)", ErrForeignKey, one.What, err)
		}
	}
	return nil
}

// ClaimMasterKey checks a master key, and says that it seals what is in the database, from
// before it seals anything. Of keys that are new to a fresh database the first one gets it.
func ClaimMasterKey(ctx context.Context, at *store.DB, sealer secret.Sealer) error {
	key, ok := sealer.(*secret.MasterKey)
	if !ok {
		return nil
	}
	proof, err := key.Seal([]byte("writ"), proofPlace)
	if err != nil {
		return err
	}
	return at.InTx(ctx, func(tx pgx.Tx) error {
		if err := db.New().LockMasterKeys(ctx, tx); err != nil {
			return err
		}
		if err := checkMasterKey(ctx, tx, key); err != nil {
			return err
		}
		return db.New().ClaimMasterKey(ctx, tx, db.ClaimMasterKeyParams{ID: key.ID(), Proof: proof})
	})
}

// ReleaseMasterKeys says that only the key that seals now has sealed what is in a database.
func ReleaseMasterKeys(ctx context.Context, at *store.DB, key *secret.MasterKey) error {
	if err := ClaimMasterKey(ctx, at, key); err != nil {
		return err
	}
	return db.New().ReleaseMasterKeys(ctx, at.Conn(), key.ID())
}

// holdsKeys returns ErrForeignKey if a key claimed the database that the node does not hold,
// as when the key is exchanged and this node was left out. It is what probes ask.
func (s *Server) holdsKeys(ctx context.Context) error {
	claimed, err := db.New().MasterKeys(ctx, s.DB.Pool)
	if err != nil {
		return err
	}
	key, ok := s.Sealer.(*secret.MasterKey)
	for _, one := range claimed {
		if ok && !key.Holds(one.ID) {
			return ErrForeignKey
		}
	}
	return nil
}
