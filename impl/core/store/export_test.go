package store

import (
	"context"
	"io/fs"
)

// MigrateFiles is Migrate with other steps; retried hears that one did not get its lock.
func MigrateFiles(ctx context.Context, url string, files fs.FS, retried func(attempt int)) ([]Migration, error) {
	return migrator{files, retried}.migrate(ctx, url)
}

// ByKey are the settings of the connections for statements by key.
var ByKey = byKey
