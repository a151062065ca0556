package transfer_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/api/transfer"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store/pgtest"
	files "github.com/writ-id/writ/impl/core/transfer"
	"github.com/writ-id/writ/impl/server/servertest"
)

// perFile is how many users a file of the benchmark has.
const perFile = 20_000

// BenchmarkUsers imports and exports users, whose names come in no order, each time with a
// further instance: the time of one user is ns/user.
func BenchmarkUsers(b *testing.B) {
	db := pgtest.Connect(b, pgtest.New(b), 4)
	roles, err := policy.NewRoles()
	if err != nil {
		b.Fatal(err)
	}
	s, err := transfer.New(transfer.Config{
		Env: resource.Env{DB: db, Now: time.Now, NewID: servertest.NewID}, Sealer: secret.NoKey{}, Roles: roles, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	instance := func() string {
		n++
		id := fmt.Sprintf("i%d", n)
		for _, sql := range []string{
			"INSERT INTO instances (id, name, name_folded, sequence, creation_date, change_date) VALUES ($1, $1, $1, 1, now(), now())",
			"INSERT INTO domains (instance_id, id, domain, domain_folded, is_verified, is_primary, validation_type, validation_token, sequence, creation_date, change_date) VALUES ($1, 'd', $1, $1, true, true, 1, '', 1, now(), now())",
		} {
			if _, err := db.Pool.Exec(b.Context(), sql, id); err != nil {
				b.Fatal(err)
			}
		}
		return id
	}
	var file bytes.Buffer
	file.WriteString(`{"version":1,"organizations":[{"id":"o","name":"Big"}],"users":[`)
	for i := range perFile {
		h := fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, i))) // names that come in no order
		if i > 0 {
			file.WriteByte(',')
		}
		fmt.Fprintf(&file, `{"id":"u%09d","orgId":"o","username":"user-%s","human":{"profile":{"givenName":"%s","familyName":"%s","preferredLanguage":"en"},"email":{"address":"%s@example%d.com","isVerified":true}}}`,
			i, h[:12], h[12:18], h[18:26], h[:14], i%50)
	}
	file.WriteString("]}")
	perUser := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/perFile, "ns/user")
	}
	b.Run("import", func(b *testing.B) {
		for range b.N {
			source := files.NewReader(bytes.NewReader(file.Bytes()), storage.Moved, func(string) {})
			if _, err := s.Import(b.Context(), source, transfer.Plan{InstanceID: instance(), By: "x", ImportID: "i"}, tell); err != nil {
				b.Fatal(err)
			}
		}
		perUser(b)
	})
	b.Run("export", func(b *testing.B) {
		for range b.N {
			if _, err := s.Export(b.Context(), "i1", transfer.Selection{}, io.Discard, tell); err != nil {
				b.Fatal(err)
			}
		}
		perUser(b)
	})
}
