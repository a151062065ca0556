package oidc

import (
	"os"
	"sync"
	"testing"

	"github.com/writ-id/writ/conformance/harness"
)

// The provider under test is a `writ dev --tls` of this commit, unless a variable
// names a running one:
//
//	WRIT_OIDC_CONFIG      its configuration; any provider
//	WRIT_TEST_READY_FILE  the ready file of a `writ dev`
//	WRIT_TEST_BINARY      the program to start, instead of building one
//
// WRIT_OIDC_RESULTS names the file that the results go to, as Markdown.
func TestMain(m *testing.M) { harness.Main(m) }

var config = sync.OnceValues(func() (*Config, error) {
	for _, name := range []string{"WRIT_OIDC_CONFIG", "WRIT_TEST_READY_FILE"} {
		if path := os.Getenv(name); path != "" {
			return Load(path)
		}
	}
	d, err := harness.StartDev("--tls")
	if err != nil {
		return nil, err
	}
	return Load(d.ReadyFile)
})

// provider returns a copy of the configuration of the provider under test.
func provider(t *testing.T) *Config {
	t.Helper()
	c, err := config()
	if err != nil {
		t.Fatalf("start a provider: %v", err)
	}
	own := *c
	own.FromEnvironment()
	own.Clients = map[string]*Client{}
	for role, client := range c.Clients {
		copied := *client
		own.Clients[role] = &copied
	}
	if c.Service != nil {
		copied := *c.Service
		own.Service = &copied
	}
	return &own
}
