package harness

import (
	"fmt"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// What PgBouncer is told: connections are shared by transactions, and what no statement may
// run without is set on each that it makes. Few, so that they are shared.
const poolerSettings = `
[databases]
* = host=%s port=5432 user=writ connect_query='SET statement_timeout = 15000; SET lock_timeout = 5000; SET idle_in_transaction_session_timeout = 10000'
[pgbouncer]
listen_addr =
unix_socket_dir = %s
auth_type = any
pool_mode = transaction
default_pool_size = 8
max_client_conn = 500
`

// pool starts a PgBouncer before the database of s.
func (s *Server) pool(program string) error {
	socket, err := filepath.EvalSymlinks(filepath.Join(s.dataDir, "sock"))
	if err != nil {
		return err
	}
	dir, err := scratch()
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, fmt.Appendf(nil, poolerSettings, socket, dir), 0o600); err != nil {
		return err
	}
	var args []string
	if os.Getuid() == 0 { // as which it does not run; the database does not either
		owner, err := ownerOf(socket)
		if err != nil {
			return err
		}
		args = append(args, "-u", owner.Username)
		uid, err := strconv.Atoi(owner.Uid)
		if err != nil {
			return err
		}
		for _, path := range []string{dir, file} {
			if err := os.Chown(path, uid, -1); err != nil {
				return err
			}
		}
	}
	process, err := run(program, append(args, file)...)
	if err != nil {
		return err
	}
	process.bare = true
	s.pooler = (&url.URL{Scheme: "postgres", User: url.User("writ"), Path: "/postgres", RawQuery: url.Values{"host": {dir}, "port": {"6432"}, "sslmode": {"disable"}}.Encode()}).String()
	config, err := pgconn.ParseConfig(s.pooler)
	if err != nil {
		return err
	}
	return process.await(func() error {
		_, err := os.Stat(filepath.Join(config.Host, ".s.PGSQL.6432"))
		return err
	})
}

func ownerOf(path string) (*user.User, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return user.LookupId(strconv.Itoa(int(info.Sys().(*syscall.Stat_t).Uid)))
}
