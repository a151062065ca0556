package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/writ-id/writ/sql/migrations"
)

// Migration is one step of the schema.
type Migration struct {
	Version int64
	Name    string
	Applied time.Time // zero: pending
}

// Migrate brings the schema up to date and returns the steps it ran. Nodes that
// start together wait for one another (advisory lock); a killed run leaves a
// whole step undone and is simply run again. A step that does not get a lock soon
// gives way to the calls that would wait behind it, and is tried again.
func Migrate(ctx context.Context, url string) ([]Migration, error) {
	return migrator{files: migrations.Files}.migrate(ctx, url)
}

// How a step waits for locks: all calls on the table wait behind it meanwhile (REL-074).
const (
	migrationLockTimeout = time.Second
	migrationAttempts    = 60
	migrationPause       = 2 * time.Second // at most, between them
)

// migrator runs the steps of files.
type migrator struct {
	files   fs.FS
	retried func(attempt int) // hears that a step did not get its lock; may be nil
}

func (m migrator) migrate(ctx context.Context, url string) ([]Migration, error) {
	var ran []Migration
	for attempt := 1; ; attempt++ {
		err := m.withGoose(ctx, url, func(provider *goose.Provider) error {
			results, err := provider.Up(ctx)
			if partial, ok := errors.AsType[*goose.PartialError](err); ok {
				results = partial.Applied
			}
			for _, result := range results {
				ran = append(ran, Migration{Version: result.Source.Version, Name: result.Source.Path, Applied: time.Now()})
			}
			return err
		})
		refused, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || refused.Code != "55P03" || attempt == migrationAttempts { // lock_not_available
			return ran, err
		}
		if m.retried != nil {
			m.retried(attempt)
		}
		select {
		case <-time.After(rand.N(migrationPause)):
		case <-ctx.Done():
			return ran, err
		}
	}
}

// Migrations returns every step with the time it was applied.
func Migrations(ctx context.Context, url string) ([]Migration, error) {
	var all []Migration
	err := migrator{files: migrations.Files}.withGoose(ctx, url, func(provider *goose.Provider) error {
		states, err := provider.Status(ctx)
		for _, state := range states {
			all = append(all, Migration{Version: state.Source.Version, Name: state.Source.Path, Applied: state.AppliedAt})
		}
		return err
	})
	return all, err
}

// CheckSchema fails unless every step is applied: a server never runs on a
// schema it does not know (REL-072). Steps that it does not know are those of a later
// release, whose schema serves this one too (REL-073).
func CheckSchema(ctx context.Context, url string) error {
	steps, err := Migrations(ctx, url)
	if err != nil {
		return err
	}
	for _, step := range steps {
		if step.Applied.IsZero() {
			return fmt.Errorf("the schema lacks %s; run `writ migrate up`", step.Name)
		}
	}
	return nil
}

func (m migrator) withGoose(ctx context.Context, url string, use func(*goose.Provider) error) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("database URL: %w", err)
	}
	config.RuntimeParams["lock_timeout"] = millis(migrationLockTimeout)
	database := stdlib.OpenDB(*config)
	defer database.Close()
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60))
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, database, m.files, goose.WithSessionLocker(locker))
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	return Explain(use(provider))
}
