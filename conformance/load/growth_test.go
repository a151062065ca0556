package load

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// What a call may cost on a full database beside an empty one: the goal, and what fails the
// run, for a machine that is not quiet.
const (
	growthGoal  = 1.2
	growthBound = 1.5
)

// TestGrowth measures what the calls cost on a database with many rows in one instance,
// beside an empty one, in turns. Variables, besides those of TestOAuth:
//
//	WRIT_TEST_BENCH_GROWTH  how many users, sessions, grants and revoked tokens there are;
//	                        events are ten times as many
//
// The full database stays in the folder for temporary files: filling it takes longest.
func TestGrowth(t *testing.T) {
	size, err := strconv.Atoi(os.Getenv("WRIT_TEST_BENCH_GROWTH"))
	if err != nil {
		t.Skip("WRIT_TEST_BENCH_GROWTH is not a number of rows")
	}
	b := newOAuthBench(t)
	only := regexp.MustCompile(os.Getenv("WRIT_TEST_BENCH_SCENARIOS"))
	full := filepath.Join(os.TempDir(), fmt.Sprintf("writ-growth-%d", size))
	for _, data := range []string{temporaryData(t), full} {
		b.sides = append(b.sides, grown(t, data, data == full, size))
	}
	var table strings.Builder
	table.WriteString("| call | empty | full | full ÷ empty |\n|---|---|---|---|\n")
	for _, s := range append(scenarios(), resourceScenarios()...) {
		if !only.MatchString(s.name) {
			continue
		}
		samples := map[string][]sample{}
		for _, p := range b.sides {
			if err := p.use(t.Context(), s.algorithm); err != nil {
				t.Fatalf("%s, %s: %v", s.name, p.name, err)
			}
		}
		for range b.repeats {
			for _, p := range b.sides {
				one, err := b.once(s, p, b.length)
				if err != nil {
					t.Fatalf("%s, %s: %v", s.name, p.name, err)
				}
				samples[p.name] = append(samples[p.name], one)
			}
		}
		empty, full := cheapest(samples["empty"]), cheapest(samples["full"])
		grew := full.total() / empty.total()
		fmt.Fprintf(&table, "| %s | %.0f | %.0f | %.2f |\n", s.name, empty.total(), full.total(), grew)
		t.Logf("%s: %.0f, %.0f", s.name, empty.total(), full.total())
		switch {
		case grew > growthBound:
			t.Errorf("%s costs %.2f times as much at %d rows as on an empty database", s.name, grew, size)
		case grew > growthGoal:
			t.Logf("%s misses the goal of %.1f: %.2f", s.name, growthGoal, grew)
		}
	}
	t.Logf("## CPU ms for 1,000 calls with %d users, sessions, grants and revoked tokens and %d events (%s)\n%s", size, 10*size, b.conditions(), table.String())
}

// grown starts a server on a database, which it fills if it is to be full and is not yet.
func grown(t *testing.T, data string, isFull bool, size int) *provider {
	ctx := t.Context()
	readyFile := filepath.Join(t.TempDir(), "ready.json")
	server := spawn(t, os.Getenv("WRIT_TEST_BINARY"), "dev", "--addr", "127.0.0.1:0", "--data-dir", data, "--ready-file", readyFile,
		"--log-level", "error", "--password-cost", "minimal")
	wait(t, func() bool { _, err := os.Stat(readyFile); return err == nil })
	database, postgres := databaseOf(t, data)
	name := "empty"
	if isFull {
		name = "full"
	}
	p, err := newProvider(name, processes{server.Process.Pid, postgres}, readyFile)
	if err == nil {
		err = p.setUpWrit(ctx)
	}
	if err == nil && isFull {
		err = p.fill(ctx, t, database, size)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if !isFull {
		p.settle = analyze(t, database)
	}
	p.use = rotation(p, data)
	return p
}

// fillings are the rows of a full instance: @instance, @org, @app and @size. Triggers count
// them as they count any.
var fillings = []struct{ table, sql string }{
	{"users", `INSERT INTO users (instance_id, id, org_id, user_type, username, username_folded, given_name, family_name, display_name, display_name_folded,
			email, email_folded, phone, sequence, creation_date, change_date)
		SELECT @instance, 'fill-' || lpad(to_hex(n), 12, '0'), @org, CASE WHEN n % 10 = 0 THEN 2 ELSE 1 END,
			'user-' || md5(n::text), 'user-' || md5(n::text), 'Given', 'Family', 'Name ' || md5((n * 3)::text), 'name ' || md5((n * 3)::text),
			md5((n * 5)::text) || '@mail.example', md5((n * 5)::text) || '@mail.example', '+4179' || lpad(n::text, 9, '0'),
			1, now() - n * interval '1 second', now() - n * interval '1 second'
		FROM generate_series(1, @size::bigint) n`},
	{"sessions", `INSERT INTO sessions (instance_id, id, org_id, user_id, creator, token_hash, expiration_date, fingerprint_id, ip, description, metadata,
			user_verified_at, password_verified_at, sequence, creation_date, change_date)
		SELECT @instance, 'fill-' || lpad(to_hex(n), 12, '0'), @org, 'fill-' || lpad(to_hex(n), 12, '0'), 'fill-' || lpad(to_hex(n), 12, '0'),
			sha256(n::text::bytea), now() + interval '10 years', '', '192.0.2.1', 'A browser', '{}',
			now(), now(), 1, now() - n * interval '1 second', now() - n * interval '1 second'
		FROM generate_series(1, @size::bigint) n`},
	{"oauth_grants", `INSERT INTO oauth_grants (instance_id, id, org_id, user_id, app_id, session_id, scopes, audience, auth_time, amr, claims, revoked, generation,
			idle_date, expiration_date, creation_date)
		SELECT @instance, 'fill-' || lpad(to_hex(n), 12, '0'), @org, 'fill-' || lpad(to_hex(n), 12, '0'), @app, 'fill-' || lpad(to_hex(n), 12, '0'),
			'{openid,profile,email,offline_access}', ARRAY[@app], now(), '{pwd}', '{}', false, 1,
			now() + interval '10 years', now() + interval '10 years', now() - n * interval '1 second'
		FROM generate_series(1, @size::bigint) n`},
	{"revoked_tokens", `INSERT INTO revoked_tokens (instance_id, id, expiration_date)
		SELECT @instance, 'fill-' || lpad(to_hex(n), 12, '0'), now() + interval '10 years' + n * interval '1 second'
		FROM generate_series(1, @size::bigint) n`},
	{"events", `INSERT INTO events (instance_id, aggregate_type, aggregate_id, event_type, payload, creator, owner_type, owner_id, created_at)
		SELECT @instance, 'session', 'fill-' || lpad(to_hex(n / 10), 12, '0'),
			(ARRAY['session.added', 'session.user.checked', 'session.password.checked', 'oidc_session.added', 'oidc_session.access_token.added'])[1 + n % 5],
			'{}', 'fill-' || lpad(to_hex(n / 10), 12, '0'), 1, @org, now() - (10 * @size::bigint - n) * interval '1 second'
		FROM generate_series(1, 10 * @size::bigint) n`},
}

// fill fills an instance, each table if it was not in an earlier run.
func (p *provider) fill(ctx context.Context, t *testing.T, database string, size int) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, one := range fillings {
		var rows int
		if err := conn.QueryRow(ctx, "SELECT count(*) FROM (SELECT FROM "+one.table+" WHERE instance_id = $1 LIMIT $2) AS found", p.ready.InstanceID, size).Scan(&rows); err != nil {
			return err
		}
		if rows >= size {
			continue
		}
		begin := time.Now()
		named := pgx.NamedArgs{"instance": p.ready.InstanceID, "org": p.ready.OrgID, "app": p.apps["RS256"].ClientID, "size": size}
		if _, err := conn.Exec(ctx, one.sql, named); err != nil {
			return fmt.Errorf("fill %s: %w", one.table, err)
		}
		if _, err := conn.Exec(ctx, "VACUUM ANALYZE "+one.table); err != nil {
			return err
		}
		t.Logf("filled %s: %s", one.table, time.Since(begin).Round(time.Second))
	}
	_, err = conn.Exec(ctx, "CHECKPOINT")
	return err
}

// resourceScenarios are calls of the API that concern what there are many of.
func resourceScenarios() []scenario {
	const users = "/resources/v3alpha/users"
	search := func(name, query, filters string) scenario {
		return scenario{name: name, of: func(_ context.Context, p *provider, _ time.Duration) ([]call, error) {
			request := p.rest(users+"/_search"+query, filters)
			return same(func(c *conn) error {
				_, err := c.expect(request, http.StatusOK)
				return err
			}), nil
		}}
	}
	return []scenario{
		search("search users by name", "", "["+text("username", "text", "load-0", "STARTS_WITH")+"]"),
		search("search users by e-mail", "", "["+text("email", "text", "nobody@mail.example", "EQUALS")+"]"),
		search("search users, the newest ten", "?sortingColumn=USER_FIELD_NAME_CREATION_DATE&query.limit=10", "[]"),
		{name: "create a user", of: func(_ context.Context, p *provider, _ time.Duration) ([]call, error) {
			return same(func(c *conn) error {
				name := "load-" + rand.Text()
				body, err := json.Marshal(map[string]any{"username": name, "human": map[string]any{
					"profile": map[string]any{"givenName": "Load", "familyName": "Default"}, "email": map[string]any{"address": name + "@load.example", "isVerified": true},
				}})
				if err == nil {
					_, err = c.expect(p.rest(users, string(body)), http.StatusCreated)
				}
				return err
			}), nil
		}},
	}
}

// rest returns the bytes of a POST of JSON to the API of Writ.
func (p *provider) rest(path, body string) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, p.addr, p.ready.AdminToken, len(body), body)
}
