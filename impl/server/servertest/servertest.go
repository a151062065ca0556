// Package servertest gives a test a whole server, of one node or several, over a
// PostgreSQL of its own and with a seed, to be called over HTTP as its users.
package servertest

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/dev/seed"
	"github.com/writ-id/writ/impl/server"
)

// Seed holds the system, an instance a with two organizations and an instance b.
// Every user has a token t.
const Seed = `
system:
  features: {multitenancy_resources_api: true, multitenancy_settings: true, user_schema: true}
  users: [{username: system, roles: [SYSTEM_OWNER], tokens: [{name: t}]}, {username: viewer, roles: [SYSTEM_OWNER_VIEWER], tokens: [{name: t}]}]
instances:
  - name: a
    domains: [a.example]
    organizations:
      - name: A
        default: true
        domains: [org.a.example]
        users:
          - {username: owner, service: {name: Service}, instance_roles: [IAM_OWNER], tokens: [{name: t}]}
          - {username: manager, service: {name: Service}, instance_roles: [IAM_ORG_MANAGER], tokens: [{name: t}]}
          - {username: orgowner, service: {name: Service}, org_roles: [ORG_OWNER], tokens: [{name: t}]}
          - {username: nobody, service: {name: Service}, tokens: [{name: t}]}
      - name: A2
        users:
          - {username: second, service: {name: Service}, org_roles: [ORG_OWNER], tokens: [{name: t}]}
          - {username: guest, service: {name: Service}, tokens: [{name: t}]}
  - name: b
    domains: [b.example]
    organizations:
      - name: B
        users: [{username: bob, service: {name: Service}, instance_roles: [IAM_OWNER], tokens: [{name: t}]}]
`

// Cluster is some nodes on one database.
type Cluster struct {
	*testing.T
	DB     *store.DB
	Env    server.Config // what the nodes are made of
	Nodes  []string      // base URLs
	tokens map[string]string
	header http.Header
}

// With returns the cluster with calls that have more headers.
func (c *Cluster) With(header http.Header) *Cluster {
	with := *c
	with.header = header
	return &with
}

// New starts nodes with the seed; configure, if not nil, changes their
// configuration.
func New(t *testing.T, nodes int, configure func(*server.Config)) *Cluster {
	t.Helper()
	c := &Cluster{T: t, tokens: map[string]string{}}
	url := pgtest.New(t)
	c.DB = pgtest.Connect(t, url, connections)
	c.Env = Config(c.DB)
	if configure != nil {
		configure(&c.Env)
	}
	for path, secret := range Apply(t, c.Env, Seed).Secrets { // instances.a.users.owner.tokens.t
		if parts := strings.Split(path, "."); len(parts) > 3 && parts[len(parts)-2] == "tokens" {
			c.tokens[parts[len(parts)-3]] = secret
		}
	}
	for range nodes {
		config := c.Env
		config.DB = pgtest.ConnectTo(t, store.Config{URL: url, MaxConns: connections, Statements: config.Telemetry.Statements(policy.StatementsOf)})
		c.Nodes = append(c.Nodes, "http://"+Start(t, config))
	}
	return c
}

// connections of each node.
const connections = 8

// Config is what a node is made of that has nothing peculiar.
func Config(db *store.DB) server.Config {
	return server.Config{
		DB:     db,
		Now:    func() time.Time { return time.Now().UTC().Truncate(time.Microsecond) },
		NewID:  NewID,
		Logger: slog.New(slog.DiscardHandler),
		Sealer: masterKey(),
		Inbox:  true,
	}
}

// masterKey is that of all nodes of a process.
var masterKey = sync.OnceValue(func() secret.Sealer {
	key, err := secret.NewMasterKey()
	if err != nil {
		panic(err) // there is no randomness
	}
	return key
})

// NewID returns another ID each time.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// Apply applies the text of a seed file.
func Apply(t testing.TB, config server.Config, text string) *seed.Applied {
	t.Helper()
	file, err := seed.Parse("seed", []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	applied, err := server.ApplySeed(t.Context(), config, file, seed.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return applied
}

// Start starts a node that ends with the test, and returns its address.
func Start(t testing.TB, config server.Config) string {
	t.Helper()
	address, _ := StartNode(t, config)
	return address
}

// StartNode is Start, and returns what ends the node before the test does.
func StartNode(t testing.TB, config server.Config) (address string, end func()) {
	t.Helper()
	node, err := server.New(config)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- node.Serve(ctx, listener) }()
	end = sync.OnceFunc(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(end)
	return listener.Addr().String(), end
}

// Token returns the token of a user of the seed; any other text is a token.
func (c *Cluster) Token(user string) string {
	if known := c.tokens[user]; known != "" {
		return known
	}
	return user
}

// Reply is an answer.
type Reply struct {
	Status int
	Header http.Header
	Body   string
}

// Call makes a REST call to a node under a host, as a user of the seed.
func (c *Cluster) Call(node int, host, user, method, path, body string) Reply {
	c.Helper()
	req, err := http.NewRequest(method, c.Nodes[node]+path, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	req.Host = host
	maps.Copy(req.Header, c.header)
	if user != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token(user))
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.Fatal(err)
	}
	return Reply{Status: res.StatusCode, Header: res.Header, Body: string(text)}
}

// Do calls the first node under a.example, or under b.example as bob.
func (c *Cluster) Do(user, method, path, body string) Reply {
	c.Helper()
	host := "a.example"
	if user == "bob" {
		host = "b.example"
	}
	return c.Call(0, host, user, method, path, body)
}

// Must is Do for what has to succeed.
func (c *Cluster) Must(user, method, path, body string) Reply {
	c.Helper()
	got := c.Do(user, method, path, body)
	if got.Status/100 != 2 {
		c.Fatalf("%s: %s %s %s: got %d %s", user, method, path, body, got.Status, got.Body)
	}
	return got
}

// Create is Must for what makes an object, whose ID it returns.
func (c *Cluster) Create(user, path, body string) string {
	c.Helper()
	return ID(c.T, c.Must(user, http.MethodPost, path, body))
}

// Refused checks that a call is refused with a status for a reason.
func (c *Cluster) Refused(user, method, path, body string, status int, reason string) {
	c.Helper()
	c.IsRefused(c.Do(user, method, path, body), user+": "+method+" "+path+" "+body, status, reason)
}

// IsRefused checks that an answer refuses with a status for a reason.
func (c *Cluster) IsRefused(got Reply, what string, status int, reason string) {
	c.Helper()
	if got.Status != status || !strings.Contains(got.Body, `"`+reason+`"`) {
		c.Errorf("%s: got %d %s, want %d %s", what, got.Status, got.Body, status, reason)
	}
}

// ID returns the ID in the details of an answer.
func ID(t *testing.T, got Reply) string {
	t.Helper()
	var answer struct{ Details struct{ ID string } }
	if err := json.Unmarshal([]byte(got.Body), &answer); err != nil || answer.Details.ID == "" {
		t.Fatalf("no ID: %d %s", got.Status, got.Body)
	}
	return answer.Details.ID
}

// List returns the objects of a list in the body.
func (r Reply) List(t *testing.T, name string) []map[string]any {
	t.Helper()
	list, _ := r.Any(t)[name].([]any)
	made := make([]map[string]any, len(list))
	for i, one := range list {
		made[i], _ = one.(map[string]any)
	}
	return made
}

// Object returns a member of an answer.
func (r Reply) Object(t *testing.T, name string) map[string]any {
	t.Helper()
	answer := map[string]any{}
	if err := json.Unmarshal([]byte(r.Body), &answer); err != nil {
		t.Fatalf("%d %s: %v", r.Status, r.Body, err)
	}
	object, ok := answer[name].(map[string]any)
	if !ok {
		t.Fatalf("there is no %s: %d %s", name, r.Status, r.Body)
	}
	return object
}

// Value reads one text of the database.
func (c *Cluster) Value(sql string, args ...any) string {
	c.Helper()
	var text string
	if err := c.DB.Pool.QueryRow(c.Context(), sql, args...).Scan(&text); err != nil {
		c.Fatalf("%s: %v", sql, err)
	}
	return text
}

// Org returns the ID of an organization by its name.
func (c *Cluster) Org(name string) string {
	c.Helper()
	return c.Value("SELECT id FROM organizations WHERE name = $1", name)
}

// User returns the ID of a user by its name.
func (c *Cluster) User(name string) string {
	c.Helper()
	return c.Value("SELECT id FROM users WHERE username = $1", name)
}

// Instance returns the ID of an instance by its name.
func (c *Cluster) Instance(name string) string {
	c.Helper()
	return c.Value("SELECT id FROM instances WHERE name = $1", name)
}

// Events returns the types of the events of an object, in order.
func (c *Cluster) Events(id string) string {
	c.Helper()
	return c.Value("SELECT coalesce(string_agg(event_type, ' ' ORDER BY sequence), '') FROM events WHERE aggregate_id = $1", id)
}

// WithinASecond waits until a condition holds, at most for the time in which every
// node has to see a change (REL-063). It is counted in times of asking, a hundred to a
// second: on a slow machine everything takes longer, this too.
func (c *Cluster) WithinASecond(what string, holds func() bool) {
	c.Helper()
	for asked := 0; !holds(); time.Sleep(10 * time.Millisecond) {
		if asked++; asked > 120 {
			c.Fatalf("%s: not within a second", what)
		}
	}
}

// Any returns the answer.
func (r Reply) Any(t *testing.T) map[string]any {
	t.Helper()
	answer := map[string]any{}
	if err := json.Unmarshal([]byte(r.Body), &answer); err != nil {
		t.Fatalf("%d %s: %v", r.Status, r.Body, err)
	}
	return answer
}
