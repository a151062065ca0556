package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"
)

// written writes a file and returns its path.
func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ran runs a command of a root of its own, with an environment and nothing else.
func ran(t *testing.T, environment []string, args ...string) (string, error) {
	t.Helper()
	root := newRoot()
	cmd, rest, err := root.Find(args)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetContext(t.Context())
	if err := cmd.ParseFlags(rest); err != nil {
		return "", err
	}
	if err := bind(root, cmd, environment); err != nil {
		return "", err
	}
	err = cmd.RunE(cmd, cmd.Flags().Args())
	return out.String(), err
}

func TestASettingComesFromFlagElseEnvironmentElseFileElseDefault(t *testing.T) {
	t.Parallel()
	held := written(t, "held", "postgres://held/d\n")
	first := written(t, "first.yaml", "addr: :1\nlog-level: warn\ndrain-delay: 1s\nmax-clients: 11\noutgoing-allow: [10.0.0.0/8, 192.168.0.0/16]\ndatabase-url: postgres://first/d\n")
	second := written(t, "second.yaml", "# wins over the first\naddr: :2\nlog-level: error\ndrain-delay: 2s\ndatabase-url-file: "+held+"\n")
	text, err := ran(t, []string{"WRIT_ADDR=:3", "WRIT_DRAIN_DELAY=3s", "WRIT_CONFIG=" + first + "," + second}, "config", "print", "--format", "json", "--addr", ":4")
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Name, Origin string
		Value        any
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	type is struct{ value, origin string }
	got := map[string]is{}
	for _, one := range all {
		value, err := json.Marshal(one.Value)
		if err != nil {
			t.Fatal(err)
		}
		got[one.Name] = is{string(value), one.Origin}
	}
	for name, want := range map[string]is{
		"addr":           {`":4"`, "flag"},
		"drain-delay":    {`"3s"`, "environment WRIT_DRAIN_DELAY"},
		"log-level":      {`"error"`, "file " + second + ":3"},
		"database-url":   {`"postgres://held/d"`, "file " + second + ":5"},
		"max-clients":    {`11`, "file " + first + ":4"},
		"outgoing-allow": {`["10.0.0.0/8","192.168.0.0/16"]`, "file " + first + ":5"},
		"log-format":     {`"auto"`, "default"},
	} {
		if got[name] != want {
			t.Errorf("%s: got %v, want %v", name, got[name], want)
		}
	}
}

func TestAConfigurationFileThatIsWrongIsRefusedByLine(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, text, wrong string }{
		{"a misspelt key", "# ours\nadr: :1\n", `x.yaml:2: the setting "adr" is unknown; did you mean addr?`},
		{"a key of nobody", "colour: red\n", `x.yaml:1: the setting "colour" is unknown`},
		{"twice", "addr: :1\naddr: :2\n", "x.yaml:2: addr is set already, in"},
		{"by value and by file", "database-url: a\ndatabase-url-file: b\n", "x.yaml:2: database-url-file is set already"},
		{"another file", "config: [y.yaml]\n", `the setting "config" is unknown`},
		{"nothing", "addr:\n", "it has no value"},
		{"a mapping", "addr: {port: 1}\n", "a value or a list of values"},
		{"a list where one is wanted", "addr: [a, b]\n", "it is one value"},
		{"a value that does not fit", "drain-delay: soon\n", "x.yaml:1: drain-delay: "},
		{"a list of settings", "- addr\n", "x.yaml:1: it has to be a mapping"},
		{"no YAML", "addr: [\n", "x.yaml"},
		{"a file that is not there", "database-url-file: /no/such\n", "x.yaml:1: open /no/such"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := ran(t, nil, "config", "print", "--config", written(t, "x.yaml", test.text))
			if err == nil || !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("got %v, want something about %q", err, test.wrong)
			}
		})
	}
	if _, err := ran(t, nil, "config", "print", "--config", "/no/such.yaml"); err == nil {
		t.Error("a file that is not there was taken")
	}
	if _, err := ran(t, nil, "config", "print", "--config", written(t, "empty.yaml", "# nothing\n")); err != nil {
		t.Error("a file of comments is refused:", err)
	}
}

func TestSEC313_PrintedSettingsHoldNoSecret(t *testing.T) {
	t.Parallel()
	key := written(t, "key", "")
	if err := errors.Join(os.Remove(key), newMasterKey(key)); err != nil {
		t.Fatal(err)
	}
	master, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, environment := range [][]string{
		{"WRIT_DATABASE_URL=postgres://writ:geheim@db/writ?sslpassword=geheim2", "WRIT_MASTER_KEY=" + string(master)},
		{"WRIT_DATABASE_URL=host=db user=writ password=geheim", "WRIT_POOLER_URL=postgres://writ:geheim@pool/writ"},
	} {
		for _, format := range []string{"yaml", "json"} {
			text, err := ran(t, environment, "config", "print", "--format", format)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(text, "geheim") || strings.Contains(text, string(master[:40])) {
				t.Errorf("%v are shown:\n%s", environment, text)
			}
			if !strings.Contains(text, masked) {
				t.Errorf("nothing is masked:\n%s", text)
			}
		}
	}
	if _, err := ran(t, []string{"WRIT_DATABASE_URL=postgres://writ:geheim@db:nine/writ", "WRIT_MASTER_KEY=" + string(master)}, "config", "validate"); err == nil || strings.Contains(err.Error(), "geheim") {
		t.Error("got", err)
	}
}

func TestWhatIsPrintedIsAConfigurationFileAndWhatTheSchemaDescribes(t *testing.T) {
	t.Parallel()
	text, err := ran(t, []string{"WRIT_OUTGOING_ALLOW=10.0.0.0/8"}, "config", "print", "--max-clients", "9")
	if err != nil {
		t.Fatal(err)
	}
	again, err := ran(t, nil, "config", "print", "--config", written(t, "again.yaml", text))
	if err != nil {
		t.Fatal(err)
	}
	values := func(text string) (all map[string]any) {
		if err := yaml.Unmarshal([]byte(text), &all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	one, two := values(text), values(again)
	for name, value := range one {
		a, _ := json.Marshal(value)
		b, _ := json.Marshal(two[name])
		if !bytes.Equal(a, b) {
			t.Errorf("%s: got %s, want %s", name, b, a)
		}
	}

	document, err := ran(t, nil, "config", "schema")
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(strings.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("settings.json", parsed); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("settings.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(one); err != nil {
		t.Error(err)
	}
	for _, wrong := range []map[string]any{{"adr": ":1"}, {"drain-delay": "soon"}, {"max-clients": "many"}} {
		if schema.Validate(wrong) == nil {
			t.Errorf("the schema takes %v", wrong)
		}
	}
}

func TestREL072_ValidateSaysWhatServeWouldRefuse(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	if err := newMasterKey(key); err != nil {
		t.Fatal(err)
	}
	good := []string{"config", "validate", "--database-url", "postgres://h/d", "--master-key-file", key}
	for _, test := range []struct {
		name  string
		args  []string
		wrong string
	}{
		{"good", nil, ""},
		{"a scheme", []string{"--external-scheme", "ftp"}, "--external-scheme"},
		{"a network", []string{"--outgoing-allow", "10.0.0.0"}, "--outgoing-allow"},
		{"a log", []string{"--log-format", "xml"}, "--log-format"},
		{"a certificate", []string{"--tls-cert-file", "/no/such"}, "--tls-key-file"},
		{"a seed", []string{"--seed", "/no/such"}, "/no/such"},
		{"a pooler", []string{"--pooler-url", "postgres://h:nine/d"}, "--pooler-url"},
		{"a key", []string{"--master-key-file", "/no/such"}, "--master-key-file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := ran(t, nil, append(good, test.args...)...)
			if (test.wrong == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("got %v, want something about %q", err, test.wrong)
			}
		})
	}
}

func TestAMasterKeyIsMadeOnceWhenAskedTo(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	var first []byte
	for range 2 {
		if _, err := ran(t, nil, "keys", "new-master", "--if-missing", path); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil || first != nil && !bytes.Equal(first, text) {
			t.Fatal("it was made again", err)
		}
		first = text
	}
	if _, err := ran(t, nil, "keys", "new-master", "--if-missing", written(t, "other", "no key")); err == nil {
		t.Error("a file that holds something else was taken for a key")
	}
	if _, err := ran(t, nil, "keys", "new-master", path); err == nil {
		t.Error("a key was replaced")
	}
}

func TestReadyAsksWithAndWithoutTLS(t *testing.T) {
	t.Parallel()
	for kind, start := range map[string]func(http.Handler) *httptest.Server{"http": httptest.NewServer, "https": httptest.NewTLSServer} {
		for _, status := range []int{http.StatusOK, http.StatusServiceUnavailable} {
			node := start(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
			_, port, err := net.SplitHostPort(node.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			_, err = ran(t, []string{"WRIT_ADDR=:" + port}, "ready")
			if (err == nil) != (status == http.StatusOK) {
				t.Errorf("%s, %d: got %v", kind, status, err)
			}
			node.Close()
		}
	}
}
