package world_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/impl/core/clock"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/dev/postgres"
	"github.com/writ-id/writ/impl/dev/ready"
	"github.com/writ-id/writ/impl/dev/seed"
	"github.com/writ-id/writ/impl/dev/world"
	"github.com/writ-id/writ/impl/server"
	"github.com/writ-id/writ/impl/server/servertest"
)

// host is a node that makes worlds.
type host struct {
	*testing.T
	url      string
	database *postgres.Server
	config   world.Config
	worlds   *world.Worlds
}

func newHost(t *testing.T) *host {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	database, err := postgres.Start(t.Context(), postgres.Config{Dir: t.TempDir(), Logger: logger, Settings: []string{"fsync=off", "max_connections=300"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = database.Stop(context.Background()) })
	if _, err := store.Migrate(t.Context(), database.URL("postgres")); err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), store.Config{URL: database.URL("postgres")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	file, err := seed.Default()
	if err != nil {
		t.Fatal(err)
	}
	c := servertest.Config(db)
	c.Dev, c.External = &server.Dev{Clock: clock.New()}, server.External{Scheme: "http"}
	h := &host{T: t, database: database, config: world.Config{Base: c, Database: database.URL, Seed: file, Dir: t.TempDir()}}
	h.worlds = world.New(h.config)
	t.Cleanup(h.worlds.Close)
	c.Dev.Worlds = h.worlds
	h.url = "http://" + servertest.Start(t, c)
	return h
}

// info is what is told of a world.
type info struct {
	ID string `json:"id"`
	ready.Info
	TTL string `json:"ttl"`
}

func (h *host) call(method, address, body string, header ...string) (int, string) {
	h.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, address, strings.NewReader(body))
	if err != nil {
		h.Fatal(err)
	}
	req.Close = true
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}

func (h *host) make(body string) info {
	h.Helper()
	status, text := h.call("POST", h.url+"/_dev/worlds", body)
	var made info
	if err := json.Unmarshal([]byte(text), &made); err != nil || status != http.StatusCreated {
		h.Fatalf("got %d %s", status, text)
	}
	return made
}

// login returns the tokens of alice in a world.
func (h *host) login(in info) map[string]any {
	h.Helper()
	status, text := h.call("POST", in.Issuer+"/_dev/login", `{"user":"alice","client":"web"}`)
	answer := map[string]any{}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || status != 200 {
		h.Fatalf("got %d %s", status, text)
	}
	return answer
}

const org = `{"name":"The same name"}`

func (h *host) createOrg(in info) (int, string) {
	return h.call("POST", in.Issuer+"/resources/v3alpha/organizations", org, "Authorization", "Bearer "+in.AdminToken)
}

// Who gives up waiting, or a copy that cannot be made, leaves no world without its database.
func TestARestoreThatFailsLeavesTheWorldAsItWas(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	in := h.make(`{}`)
	name, err := h.worlds.Snapshot(t.Context(), in.ID)
	if err != nil {
		t.Fatal(err)
	}
	if status, text := h.createOrg(in); status/100 != 2 {
		t.Fatalf("got %d %s", status, text)
	}
	gone, giveUp := context.WithCancel(t.Context())
	giveUp()
	if err := h.worlds.Restore(gone, in.ID, name); err != nil {
		t.Errorf("what was begun is not finished: %v", err)
	}
	if status, text := h.createOrg(in); status/100 != 2 {
		t.Errorf("it is not what it was at the snapshot: %d %s", status, text)
	}

	pool, err := pgx.Connect(t.Context(), h.database.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close(context.Background())
	var snapshot string
	if err := pool.QueryRow(t.Context(), "SELECT datname FROM pg_database WHERE strpos(datname, $1) > 0 AND NOT datname = $2", in.ID, "writ_world_"+in.ID).Scan(&snapshot); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "DROP DATABASE "+pgx.Identifier{snapshot}.Sanitize()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if status, _ := h.call("POST", h.url+"/_dev/worlds/"+in.ID+"/restore", `{"snapshot":"`+name+`"}`); status != http.StatusInternalServerError {
			t.Errorf("a snapshot that is gone: got %d", status)
		}
		if status, text := h.createOrg(in); status != http.StatusConflict {
			t.Errorf("the world is not as it was: %d %s", status, text)
		}
	}
}

func TestTwoWorldsKnowNothingOfOneAnother(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	var worlds [2]info
	var both sync.WaitGroup
	for i, body := range []string{`{}`, `{"clock":{"advance":"8784h"}}`} { // a year
		both.Go(func() { worlds[i] = h.make(body) })
	}
	both.Wait()
	a, b := worlds[0], worlds[1]
	now := func(in info) time.Time {
		_, text := h.call("GET", in.Issuer+"/_dev/clock", "")
		var state clock.State
		_ = json.Unmarshal([]byte(text), &state)
		return state.Now
	}
	if apart := now(b).Sub(now(a)); apart < 8783*time.Hour || apart > 8785*time.Hour {
		t.Errorf("their clocks are %s apart", apart)
	}
	keys := func(in info) string { _, text := h.call("GET", in.Issuer+"/oauth/v2/keys", ""); return text }
	if keys(a) == keys(b) {
		t.Error("their keys are the same")
	}
	if a.AdminToken == b.AdminToken || a.User.Password == b.User.Password || a.Clients["web"].ClientSecret == b.Clients["web"].ClientSecret {
		t.Error("their credentials are the same")
	}
	// The same names, in both.
	for _, in := range worlds {
		if status, text := h.createOrg(in); status/100 != 2 {
			t.Errorf("got %d %s", status, text)
		}
		if status, _ := h.createOrg(in); status != http.StatusConflict {
			t.Errorf("the name is not taken: %d", status)
		}
	}
	// A token of the one is nothing in the other, whichever it is.
	tokens := [2]map[string]any{h.login(a), h.login(b)}
	for i, in := range worlds {
		for j := range worlds {
			status, _ := h.call("GET", in.Issuer+"/oidc/v1/userinfo", "", "Authorization", "Bearer "+tokens[j]["access_token"].(string))
			if good := status == 200; good != (i == j) {
				t.Errorf("a token of world %d in world %d: %d", j, i, status)
			}
			status, _ = h.call("GET", in.Issuer+"/resources/v3alpha/executions/methods", "", "Authorization", "Bearer "+worlds[j].AdminToken)
			if good := status == 200; good != (i == j) {
				t.Errorf("the administrator of world %d in world %d: %d", j, i, status)
			}
		}
	}
	// Faults and messages are of one of them.
	h.call("POST", a.Issuer+"/_dev/faults", `{"route":"/livez","status":500}`)
	if status, _ := h.call("GET", b.Issuer+"/livez", ""); status != 200 {
		t.Errorf("the fault of the other is met: %d", status)
	}
	if status, _ := h.call("GET", a.Issuer+"/livez", ""); status != 500 {
		t.Errorf("its own fault is not met: %d", status)
	}
	if status, text := h.call("POST", a.Issuer+"/_dev/worlds", ""); status != 404 || !strings.Contains(text, "NO_WORLDS") {
		t.Errorf("a world makes worlds: %d %s", status, text)
	}
}

func TestAWorldIsWhatItWasAtASnapshot(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	in := h.make("")
	at := h.url + "/_dev/worlds/" + in.ID
	if status, text := h.call("POST", at+"/snapshot", ""); status != http.StatusCreated || !strings.Contains(text, `"1"`) {
		t.Fatalf("got %d %s", status, text)
	}
	for range 2 { // as often as one likes
		if status, text := h.createOrg(in); status/100 != 2 {
			t.Errorf("got %d %s", status, text)
		}
		h.call("POST", in.Issuer+"/_dev/clock", `{"advance":"8784h"}`)
		if status, text := h.call("POST", at+"/restore", `{"snapshot":"1"}`); status != 200 {
			t.Fatalf("got %d %s", status, text)
		}
		_, text := h.call("GET", in.Issuer+"/_dev/clock", "")
		if !strings.Contains(text, `"offset":"0s"`) {
			t.Errorf("the clock shows %s", text)
		}
	}
	if status, text := h.call("POST", at+"/restore", `{"snapshot":"2"}`); status != 404 {
		t.Errorf("got %d %s", status, text)
	}
}

func TestWorldsGo(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	gone := func(in info) {
		t.Helper()
		for {
			if status, _ := h.call("GET", h.url+"/_dev/worlds/"+in.ID, ""); status == 404 {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		if status, _ := h.call("GET", in.Issuer+"/livez", ""); status != 0 {
			t.Errorf("it still answers: %d", status)
		}
	}
	idle := h.make(`{"ttl":"1ms"}`)
	for {
		if status, text := h.call("GET", h.url+"/_dev/worlds/"+idle.ID, ""); status == 404 {
			break
		} else if status == 200 && !strings.Contains(text, `"ttl":"1ms"`) {
			t.Errorf("it does not say when it goes: %s", text)
		}
		time.Sleep(5 * time.Millisecond)
	}
	// Whoever still calls it is told where it went, until the server ends.
	for {
		if status, text := h.call("GET", idle.Issuer+"/.well-known/openid-configuration", ""); status == http.StatusGone {
			if !strings.Contains(text, "the world "+idle.ID+" ended, because nobody called it for 1ms") {
				t.Errorf("it says %q", text)
			}
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	deleted := h.make("")
	if status, text := h.call("DELETE", h.url+"/_dev/worlds/"+deleted.ID, ""); status != http.StatusNoContent {
		t.Errorf("got %d %s", status, text)
	}
	gone(deleted)

	// With the connection that holds it.
	ctx, letGo := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "POST", h.url+"/_dev/worlds", strings.NewReader(`{"hold":true}`))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var held info
	if err := json.NewDecoder(res.Body).Decode(&held); err != nil {
		t.Fatal(err)
	}
	if held.TTL != "24h0m0s" {
		t.Errorf("a world that is held goes after %q", held.TTL)
	}
	if status, _ := h.call("GET", held.Issuer+"/livez", ""); status != 200 {
		t.Errorf("while it is held: %d", status)
	}
	letGo()
	gone(held)

	// Nothing is left of them in the database, and what a killed process left goes with the next start.
	h.worlds.Close()
	if status, _ := h.call("GET", idle.Issuer+"/livez", ""); status != 0 {
		t.Errorf("it still answers: %d", status)
	}
	if left := h.databases(); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	admin, err := pgx.Connect(t.Context(), h.database.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.Background())
	if _, err := admin.Exec(t.Context(), "CREATE DATABASE writ_world_of_somebody"); err != nil {
		t.Fatal(err)
	}
	world.New(h.config).Close()
	if left := h.databases(); len(left) > 0 {
		t.Errorf("left of a killed one are %v", left)
	}
}

func (h *host) databases() []string {
	h.Helper()
	rows, err := h.config.Base.DB.Pool.Query(context.Background(), "SELECT datname FROM pg_database WHERE datname LIKE 'writ\\_world%'")
	if err != nil {
		h.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		h.Fatal(err)
	}
	return names
}

func TestWhatAWorldCannotBeIsSaid(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for _, test := range []struct{ body, want string }{
		{`{"ttl":"forever"}`, `"field":"ttl"`},
		{`{"clock":{"advance":"soon"}}`, `"field":"clock"`},
		{`{"seed":"instances: 7"}`, "SEED_REFUSED"},
		{`{"name":"x"}`, "UNKNOWN_FIELD"},
		{`{"hold":"yes"}`, "INVALID_FIELD"},
	} {
		if status, text := h.call("POST", h.url+"/_dev/worlds", test.body); status != http.StatusBadRequest || !strings.Contains(text, test.want) {
			t.Errorf("%s: got %d %s, want %s", test.body, status, text, test.want)
		}
	}
	in := h.make(`{"seed":` + quoted("{system: {features: {multitenancy_resources_api: true}}, instances: [{name: mine, domains: [localhost, 127.0.0.1], organizations: [{name: Mine, default: true, users: [{username: boss, service: {name: Boss}, instance_roles: [IAM_OWNER], tokens: [{name: t}]}]}]}]}") + `}`)
	if status, text := h.call("POST", in.Issuer+"/resources/v3alpha/organizations/_search", "[]", "Authorization", "Bearer "+in.AdminToken); status != 200 || !strings.Contains(text, `"Mine"`) {
		t.Errorf("with a seed of its own: %d %s", status, text)
	}
	if status, text := h.call("GET", h.url+"/_dev/worlds/"+url.PathEscape("none"), ""); status != 404 {
		t.Errorf("got %d %s", status, text)
	}
}

func quoted(text string) string {
	out, _ := json.Marshal(text)
	return string(out)
}
