package store_test

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/store/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestWhyThereIsNoConnectionIsToldOnceInOneLine(t *testing.T) {
	t.Parallel()
	there := pgtest.Empty(t)
	socket := t.TempDir()
	for _, test := range []struct{ name, url, want string }{
		{"nothing listens", "postgres://u@127.0.0.1:1/none", `the database "none" at 127.0.0.1:1 cannot be reached: nothing listens there`},
		{"no socket", "postgres:///none?host=" + socket, `the database "none" at the socket ` + socket + `/.s.PGSQL.5432 cannot be reached: nothing listens there`},
		{"no database", named(t, there, "", "absent"), "cannot be reached: there is no database of this name"},
		{"no user", named(t, there, "stranger", ""), `cannot be reached: it refuses the user "stranger" or the password`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			db, opened := store.Open(t.Context(), store.Config{URL: test.url, MaxConns: 1})
			if opened == nil {
				db.Close()
			}
			for road, err := range map[string]error{"opening": opened, "migrating": store.CheckSchema(t.Context(), test.url)} {
				if err == nil || !strings.Contains(err.Error(), test.want) || strings.ContainsAny(err.Error(), "\n\t") {
					t.Errorf("%s: got %v, want one line with %q", road, err, test.want)
				} else if kind := store.Fault(err); kind == nil || kind.Kind != fault.Unavailable {
					t.Errorf("%s: it is not an outage any more: %v", road, kind)
				}
			}
		})
	}
}

// named returns the URL with another user or database.
func named(t *testing.T, address, user, database string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		u.User = url.User(user)
	}
	if database != "" {
		u.Path = filepath.Join("/", database)
	}
	return u.String()
}
