// Package harness gives a black-box suite a running server and the contract
// that the server publishes.
//
// The server is a `writ dev` of this commit, started once for each test binary
// and ended with it. Three variables change that:
//
//	WRIT_TEST_BINARY      the program to start, instead of building one
//	WRIT_TEST_READY_FILE  the ready file of a running server to test, instead of
//	                      starting one; its targets, executions and features are
//	                      changed and deleted
//	WRIT_TEST_LOG         where to write what the servers log, instead of nowhere
//	WRIT_TEST_POOLER      a PgBouncer to start between the servers under test and their
//	                      database: they are then nodes of `writ serve`
//
// The package knows the program, its ready file, its URLs and where its database
// is, nothing inside.
package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server is how to reach a server: the content of its ready file.
type Server struct {
	Issuer        string `json:"issuer"`
	Addr          string `json:"addr"`
	InstanceID    string `json:"instance_id"`
	OrgID         string `json:"org_id"`
	AdminToken    string `json:"admin_token"`     // IAM_OWNER
	ViewerToken   string `json:"viewer_token"`    // IAM_OWNER_VIEWER
	OrgOwnerToken string `json:"org_owner_token"` // ORG_OWNER
	NobodyToken   string `json:"nobody_token"`    // no role
	SystemToken   string `json:"system_token"`    // SYSTEM_OWNER

	ServiceUser struct { // gets tokens by client_credentials
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
	} `json:"service_user"`

	User struct { // somebody who signs in
		LoginName string `json:"login_name"`
		Password  string `json:"password"`
	} `json:"user"`
	Clients map[string]struct { // web: signs people in
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		RedirectURI  string `json:"redirect_uri"`
	} `json:"clients"`

	dataDir string // of a server that this package started
	pooler  string // the URL of its database through a pooler
	process *node
}

// Limits on what a server may take.
const (
	startLimit = 60 * time.Second // the first start makes a database
	stopLimit  = 30 * time.Second
)

// Suite is the tests of a package: a testing.M, or what prepares more for one.
type Suite interface{ Run() int }

// Main runs the tests of a package, then what has to hold of every server they
// started, and ends these. It is the body of TestMain.
func Main(m Suite, after ...func(*Server) error) {
	code := m.Run()
	made.Lock()
	servers := made.servers
	made.Unlock()
	var err error
	for _, server := range servers {
		for _, check := range after {
			err = errors.Join(err, check(server))
		}
	}
	if err := errors.Join(err, stopAll()); err != nil {
		fmt.Fprintln(os.Stderr, "harness:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// Shared returns the one server of the test binary.
func Shared(t testing.TB) *Server {
	t.Helper()
	server, err := shared()
	if err != nil {
		t.Fatalf("start a server: %v", err)
	}
	return server
}

var shared = sync.OnceValues(func() (*Server, error) {
	if path := os.Getenv("WRIT_TEST_READY_FILE"); path != "" {
		return readReadyFile(path)
	}
	program, err := binary()
	if err != nil {
		return nil, err
	}
	return start(program)
})

// Own returns a server for one test, that nothing else sees or changes.
func Own(t testing.TB) *Server {
	t.Helper()
	return OwnOf(t, Program(t))
}

// OwnOf is Own of another program, such as that of an earlier release.
func OwnOf(t testing.TB, program string) *Server {
	t.Helper()
	server, err := start(program)
	if err != nil {
		t.Fatalf("start a server: %v", err)
	}
	return server
}

func readReadyFile(path string) (*Server, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	server := &Server{}
	return server, json.Unmarshal(text, server)
}

// Dev is a `writ dev` on a folder of its own.
type Dev struct {
	Program, ReadyFile, DataDir string
	node                        *node
}

// cheapPasswords are for suites that sign in again and again, whose subject hashes are not.
var cheapPasswords = []string{"--password-cost", "minimal"}

// StartDev starts a `writ dev` of the program under test and waits for its ready file. Its
// passwords cost nothing: hashes are the subject of no suite that signs in. It ends with the
// suite (Main).
func StartDev(args ...string) (*Dev, error) {
	program, err := binary()
	if err != nil {
		return nil, err
	}
	return dev(program, append(slices.Clone(cheapPasswords), args...)...)
}

// dev starts `writ dev` of a program on a folder of its own.
func dev(program string, args ...string) (*Dev, error) {
	dir, err := scratch()
	if err != nil {
		return nil, err
	}
	d := &Dev{Program: program, ReadyFile: filepath.Join(dir, "ready.json"), DataDir: filepath.Join(dir, "data")}
	if err := os.Chmod(dir, 0o711); err != nil { // PostgreSQL runs as another user when this one is root
		return nil, err
	}
	if d.node, err = run(program, append([]string{
		"dev", "--addr", "127.0.0.1:0", "--data-dir", d.DataDir, "--ready-file", d.ReadyFile, "--log-format", "json",
	}, args...)...); err != nil {
		return nil, err
	}
	return d, d.node.await(func() error { _, err := os.Stat(d.ReadyFile); return err })
}

// start starts `writ dev`, and what the suites look at it with.
func start(program string) (*Server, error) {
	d, err := dev(program, statistics()...)
	if err != nil {
		return nil, err
	}
	server, err := readReadyFile(d.ReadyFile)
	if err != nil {
		return nil, err
	}
	server.dataDir, server.process = d.DataDir, d.node
	if err := server.observe(); err != nil {
		return nil, err
	}
	if pooler := os.Getenv("WRIT_TEST_POOLER"); pooler != "" {
		if err := server.pool(pooler); err != nil {
			return nil, err
		}
		port, err := freePort() // a part of the issuer
		if err != nil {
			return nil, err
		}
		if server, err = server.node(program, "--reference", "public", "--outgoing-allow", "127.0.0.0/8,::1/128", "--external-scheme", "http", "--addr", "127.0.0.1:"+port, "--external-port", port); err != nil {
			return nil, err
		}
	}
	made.Lock()
	defer made.Unlock()
	made.servers = append(made.servers, server)
	return server, nil
}

// DatabaseURL returns the database of s for a role of the suite, which is a superuser; "" when
// the harness did not start s.
func (s *Server) DatabaseURL() (string, error) { return s.databaseURL(suiteRole) }

// EmptyDatabase makes a database without a schema beside that of s, and returns its URL.
func (s *Server) EmptyDatabase(t testing.TB) string {
	t.Helper()
	base, err := s.DatabaseURL()
	if err != nil || base == "" {
		t.Fatalf("the database is out of reach: %v", err)
	}
	conn, err := pgx.Connect(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	name := fmt.Sprintf("empty_%d", time.Now().UnixNano())
	if _, err := conn.Exec(t.Context(), "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		t.Fatal(err)
	}
	return strings.Replace(base, "/postgres?", "/"+name+"?", 1)
}

func (s *Server) databaseURL(role string) (string, error) {
	if s.dataDir == "" {
		return "", nil
	}
	// The socket may be a link, because the paths of sockets are short.
	socket, err := filepath.EvalSymlinks(filepath.Join(s.dataDir, "sock"))
	if err != nil {
		return "", fmt.Errorf("find the socket of the database: %w", err)
	}
	database := url.URL{Scheme: "postgres", User: url.User(role), Path: "/postgres", RawQuery: url.Values{"host": {socket}}.Encode()}
	return database.String(), nil
}

// Node starts a further node on the database of s, or skips the test when the
// database is out of reach.
func (s *Server) Node(t testing.TB, args ...string) *Server {
	t.Helper()
	return s.NodeOf(t, Program(t), append([]string{"--reference", "public"}, args...)...) // one of before does not know it
}

// NodeOf is Node of another program, such as that of an earlier release.
func (s *Server) NodeOf(t testing.TB, program string, args ...string) *Server {
	t.Helper()
	database, err := s.DatabaseURL()
	if database == "" && err == nil {
		t.Skip("the database of a server that the harness did not start is out of reach")
	}
	if err != nil {
		t.Fatal(err)
	}
	node, err := s.node(program, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.process.stop(); err != nil {
			t.Error(err)
		}
	})
	return node
}

// node starts a node of `writ serve`, which ends with the tests.
func (s *Server) node(program string, args ...string) (*Server, error) {
	database, err := s.databaseURL(serverRole)
	if err != nil {
		return nil, err
	}
	process, err := run(program, append([]string{
		"serve", "--addr", "127.0.0.1:0", "--database-url", database, "--pooler-url", s.pooler,
		"--master-key-file", s.MasterKeyFile(), "--drain-delay", "0s", "--log-format", "json",
	}, args...)...)
	if err != nil {
		return nil, err
	}
	node := *s
	node.process = process
	err = process.await(func() error {
		node.Addr, err = process.logged("ready", "addr")
		return err
	})
	node.Issuer = "http://" + node.Addr
	return &node, err
}

// freePort returns a port on which nothing listened a moment ago.
func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, err
}

// MasterKeyFile returns where the master key of s is.
func (s *Server) MasterKeyFile() string { return filepath.Join(s.dataDir, "master-key.json") }

// Program returns the program to test, for its commands.
func Program(t testing.TB) string {
	t.Helper()
	program, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// Stop drains the node, as an operator does, and waits until it has ended.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if err := s.process.stop(); err != nil {
		t.Error(err)
	}
}

// Kill ends the node as a crash does. What it logged until then counts.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	if err := s.process.kill(); err != nil {
		t.Error(err)
	}
}

// Pause stops the node, without a word, until Resume lets it go on. Its database runs.
func (s *Server) Pause(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// Resume lets a node go on.
func (s *Server) Resume(t testing.TB) { s.signal(t, syscall.SIGCONT) }

func (s *Server) signal(t testing.TB, what syscall.Signal) {
	t.Helper()
	if err := s.process.cmd.Process.Signal(what); err != nil {
		t.Fatal(err)
	}
}

// binary returns the program to test.
var binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("WRIT_TEST_BINARY"); path != "" {
		return filepath.Abs(path)
	}
	dir, err := scratch()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "writ")
	build := exec.Command("go", "build", "-o", path, "github.com/writ-id/writ/cmd/writ")
	var output bytes.Buffer
	build.Stdout, build.Stderr = &output, &output
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, output.Bytes())
	}
	return path, nil
})

// What this process made and has to take away.
var made struct {
	sync.Mutex
	folders []string
	nodes   []*node
	servers []*Server
}

// scratch returns a new temporary folder.
func scratch() (string, error) {
	dir, err := os.MkdirTemp("", "writ-conformance-")
	made.Lock()
	defer made.Unlock()
	made.folders = append(made.folders, dir)
	return dir, err
}

func stopAll() error {
	made.Lock()
	nodes, folders := made.nodes, made.folders
	made.Unlock()
	var err error
	for _, n := range slices.Backward(nodes) { // what came later stands on what was there
		err = errors.Join(err, n.stop())
	}
	for _, folder := range folders {
		err = errors.Join(err, os.RemoveAll(folder))
	}
	return err
}
