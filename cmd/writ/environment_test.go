package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFlagsComeFromTheEnvironment(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(file, []byte("postgres://file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name        string
		args        []string
		environment []string
		want, wrong string
	}{
		{"a variable", nil, []string{"WRIT_DATABASE_URL=postgres://env"}, "postgres://env", ""},
		{"a file", nil, []string{"WRIT_DATABASE_URL_FILE=" + file}, "postgres://file", ""},
		{"a flag wins", []string{"--database-url", "postgres://flag"}, []string{"WRIT_DATABASE_URL=postgres://env"}, "postgres://flag", ""},
		{"other prefixes are not ours", nil, []string{"OTHER_DATABASE_URL=x"}, "", ""},
		{"both is too much", nil, []string{"WRIT_DATABASE_URL=a", "WRIT_DATABASE_URL_FILE=" + file}, "", "are both set"},
		{"a misspelt variable", nil, []string{"WRIT_DATABASE_ULR=x"}, "", "did you mean WRIT_DATABASE_URL?"},
		{"an unknown variable", nil, []string{"WRIT_SOMETHING_ELSE=x"}, "", "WRIT_SOMETHING_ELSE is unknown"},
		{"a file that is not there", nil, []string{"WRIT_DATABASE_URL_FILE=/no/such/file"}, "", "no such file"},
		{"a value that does not fit", nil, []string{"WRIT_DRAIN_DELAY=soon"}, "", "WRIT_DRAIN_DELAY"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root := newRoot()
			serve, _, err := root.Find([]string{"serve"})
			if err != nil {
				t.Fatal(err)
			}
			if err := serve.ParseFlags(test.args); err != nil {
				t.Fatal(err)
			}
			err = bindEnvironment(root, serve, test.environment)
			switch {
			case test.wrong == "" && err != nil:
				t.Fatal(err)
			case test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong)):
				t.Fatalf("got %v, want something about %q", err, test.wrong)
			case test.wrong != "":
				return
			}
			if got := serve.Flag("database-url").Value.String(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestEveryCommandExplainsItself(t *testing.T) {
	t.Parallel()
	for _, command := range allCommands(newRoot()) {
		if command.Short == "" {
			t.Errorf("%s says nothing of what it is for", command.CommandPath())
		}
	}
}

func TestWithoutADatabaseThatOfTheRunningDevNodeIsTaken(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, given, told string
		status            int
		want              string
	}{
		{"named", "postgres://named", "postgres:///d?host=/run/x", http.StatusOK, "postgres://named"},
		{"of the node", "", "postgres:///d?host=/run/x\n", http.StatusOK, "postgres:///d?host=/run/x"},
		{"a node of production", "", "postgres:///d?host=/run/x", http.StatusNotFound, ""},
		{"who answers wants the file elsewhere", "", "postgres://elsewhere.example/d", http.StatusOK, ""},
		{"something else", "", "<html>", http.StatusOK, ""},
	} {
		for kind, start := range map[string]func(http.Handler) *httptest.Server{"http": httptest.NewServer, "https": httptest.NewTLSServer} {
			t.Run(test.name+" over "+kind, func(t *testing.T) {
				t.Parallel()
				node := start(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(test.status)
					_, _ = w.Write([]byte(test.told))
				}))
				defer node.Close()
				got, err := (&databaseFlag{given: test.given}).urlOrDev(t.Context(), node.Listener.Addr().String())
				if got != test.want || (err == nil) != (test.want != "") {
					t.Errorf("got %q, %v, want %q", got, err, test.want)
				}
			})
		}
	}
}
