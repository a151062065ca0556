package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
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
// whole step undone and is simply run again.
func Migrate(ctx context.Context, url string) ([]Migration, error) {
	var ran []Migration
	err := withGoose(ctx, url, func(provider *goose.Provider) error {
		results, err := provider.Up(ctx)
		for _, result := range results {
			ran = append(ran, Migration{Version: result.Source.Version, Name: result.Source.Path, Applied: time.Now()})
		}
		return err
	})
	return ran, err
}

// Migrations returns every step with the time it was applied.
func Migrations(ctx context.Context, url string) ([]Migration, error) {
	var all []Migration
	err := withGoose(ctx, url, func(provider *goose.Provider) error {
		states, err := provider.Status(ctx)
		for _, state := range states {
			all = append(all, Migration{Version: state.Source.Version, Name: state.Source.Path, Applied: state.AppliedAt})
		}
		return err
	})
	return all, err
}

// CheckSchema fails unless every step is applied: a server never runs on a
// schema it does not know (REL-072).
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

func withGoose(ctx context.Context, url string, use func(*goose.Provider) error) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("database URL: %w", err)
	}
	// A migration waits for locks a little and then fails, rather than making
	// every query of the table wait behind it.
	config.RuntimeParams["lock_timeout"] = millis(lockTimeout)
	database := stdlib.OpenDB(*config)
	defer database.Close()
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60))
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, database, migrations.Files, goose.WithSessionLocker(locker))
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	return Explain(use(provider))
}
