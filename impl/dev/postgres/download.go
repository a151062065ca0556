package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// versions are what can be downloaded; 17 is what a new folder gets.
var versions = map[int]embeddedpostgres.PostgresVersion{
	0:  embeddedpostgres.V17,
	14: embeddedpostgres.V14,
	15: embeddedpostgres.V15,
	16: embeddedpostgres.V16,
	17: embeddedpostgres.V17,
	18: embeddedpostgres.V18,
}

// cacheFolder holds downloaded programs, one folder per version. For root it is
// outside the home folder, where the server's user could not reach it.
func cacheFolder() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/cache/writ/postgres", nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder for PostgreSQL: %w", err)
	}
	return filepath.Join(dir, "writ", "postgres"), nil
}

// download fetches PostgreSQL from a Maven repository ("" is Maven Central)
// into the cache.
func download(ctx context.Context, c Config, repository, cache string, major int) (installation, error) {
	version, ok := versions[major]
	if !ok {
		return installation{}, fmt.Errorf("PostgreSQL %d is not offered for download", major)
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return installation{}, err
	}
	c.progress("downloading PostgreSQL %s, once, into %s", version, cache)

	// The library takes no context, so a fetch that is given up ends behind our
	// back and cleans up after itself then.
	fetched := make(chan error, 1)
	target := filepath.Join(cache, string(version))
	go func() { fetched <- fetch(repository, version, cache, target) }()
	select {
	case <-ctx.Done():
		return installation{}, context.Cause(ctx)
	case err := <-fetched:
		if err != nil {
			return installation{}, err
		}
	}
	install := installation{bin: filepath.Join(target, "bin")}
	var err error
	install.major, err = versionOf(ctx, install.bin)
	return install, err
}

// fetch has the library unpack PostgreSQL in a scratch folder, and then moves
// it to target, so that target is complete whenever it exists.
//
// The library can only do so on the way to starting a server. It starts none
// here: the folder it is told to keep data in lies below a file, and with that
// it fails right after unpacking. An empty embedded_postgres_log… stays behind
// in the temporary folder.
func fetch(repository string, version embeddedpostgres.PostgresVersion, cache, target string) (err error) {
	scratch, err := os.MkdirTemp(cache, "download-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	file := filepath.Join(scratch, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	unpacked := filepath.Join(scratch, "postgres")
	config := embeddedpostgres.DefaultConfig().
		Version(version).
		Port(0). // it insists on a free port; 0 always is
		CachePath(filepath.Join(scratch, "archive")).
		RuntimePath(filepath.Join(scratch, "runtime")).
		BinariesPath(unpacked).
		DataPath(filepath.Join(file, "data")).
		Logger(io.Discard)
	if repository != "" {
		config = config.BinaryRepositoryURL(repository)
	}
	server := embeddedpostgres.NewDatabase(config)
	err = server.Start()
	if err == nil {
		return errors.Join(errors.New("the downloader started a server"), server.Stop())
	}
	if !holdsServer(filepath.Join(unpacked, "bin")) {
		return err
	}
	if err := os.Rename(unpacked, target); err != nil && !holdsServer(filepath.Join(target, "bin")) {
		return err // and not because another process was quicker
	}
	return nil
}
