package sdk

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-id/writ/conformance/harness"
	"github.com/writ-id/writ/conformance/interop/browser"
)

// The packages of gen/sdk are held to one list of calls, each in its language: with what it
// gets wrong easily (64 bits, what is missing, what is unknown), and with what happens on
// the way (a server that cannot answer now, an answer that is lost, a token that was
// revoked), which a proxy does. They are packed as they are published and installed in an
// empty folder; the type checker of each language is at its strictest.
var packageSteps = []string{
	"create", "get", "search", "patch", "oneof", "reason", "violation", "missing", "numbers", "times", "durations", "unknown", "omitted", "retry", "no retry",
	"timeout", "cancel", "client credentials", "key file", "system user", "refresh token", "revoked token", "oauth error", "login", "tracing", "webhook", "export and import", "examples",
}

// suite runs a program of a package and compares the steps it says it did.
func suite(t *testing.T, more []string, program command) {
	t.Helper()
	published(t)
	proxy := httptest.NewServer(faults(t))
	t.Cleanup(proxy.Close)
	node, key := ofTheSystem(t)
	own := harness.Own(t)
	program.env = append(program.env, "WRIT_TEST_NODE="+node, "WRIT_TEST_SYSTEM_KEY="+key,
		"WRIT_TEST_OWN="+own.Issuer, "WRIT_TEST_OWN_TOKEN="+own.AdminToken, "WRIT_TEST_OWN_SYSTEM_TOKEN="+own.SystemToken)
	said := environment(t, proxy.URL, program)
	want := slices.Concat(packageSteps, more, []string{"delete"})
	if got := strings.Split(strings.TrimSpace(said), "\n"); !slices.Equal(got, want) {
		t.Errorf("got the steps %q, want %q", got, want)
	}
}

// environment runs a program with what `writ exec` sets, and what a suite needs besides.
func environment(t *testing.T, proxy string, program command) string {
	t.Helper()
	web := server.Clients["web"]
	cmd := exec.CommandContext(t.Context(), program.args[0], program.args[1:]...)
	cmd.Dir = program.dir
	cmd.Env = append(append(os.Environ(), program.env...),
		"OIDC_ISSUER="+server.Issuer, "WRIT_BASE_URL="+server.Issuer, "WRIT_ADMIN_TOKEN="+server.AdminToken, "CLIENT_ID="+web.ClientID, "CLIENT_SECRET="+web.ClientSecret,
		"WRIT_TEST_PROXY="+proxy, "WRIT_TEST_RUN="+strconv.FormatInt(time.Now().UnixNano(), 36), "WRIT_TEST_ORG="+server.OrgID,
		"WRIT_TEST_SERVICE="+server.ServiceUser.ClientID, "WRIT_TEST_SERVICE_SECRET="+server.ServiceUser.ClientSecret, "WRIT_TEST_REFRESH_TOKEN="+refreshToken(t), "WRIT_TEST_DELIVERIES="+deliveries(t))
	var said, failed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &failed
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, ending(said.Bytes()), ending(failed.Bytes()))
	}
	return said.String()
}

// ofTheSystem starts a node that knows a user of the system, and returns where it is and
// the key of that user.
func ofTheSystem(t *testing.T) (node, private string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := errors.Join(
		write(dir, "automation.pem", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})),
		write(dir, "users.yaml", []byte("automation:\n  roles: [SYSTEM_OWNER]\n  keys: [automation.pem]\n")),
	); err != nil {
		t.Fatal(err)
	}
	return server.Node(t, "--system-users", dir+"/users.yaml").Issuer, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}

// refreshToken signs somebody in.
func refreshToken(t *testing.T) string {
	t.Helper()
	web := server.Clients["web"]
	const verifier = "a-code-verifier-of-somebody-that-is-long-enough-for-it"
	challenge := sha256.Sum256([]byte(verifier))
	query := url.Values{
		"client_id": {web.ClientID}, "redirect_uri": {web.RedirectURI}, "response_type": {"code"}, "scope": {"openid offline_access"}, "state": {"some-state"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}
	agent := browser.New(http.DefaultTransport, server.User.LoginName, server.User.Password)
	back, page, err := agent.Visit(t.Context(), server.Issuer+"/oauth/v2/authorize?"+query.Encode(), web.RedirectURI)
	if err != nil {
		t.Fatalf("the login ended at %v: %v\n%.500s", back, err, page)
	}
	form := url.Values{"grant_type": {"authorization_code"}, "code": {back.Query().Get("code")}, "redirect_uri": {web.RedirectURI}, "code_verifier": {verifier}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.Issuer+"/oauth/v2/token", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.SetBasicAuth(web.ClientID, web.ClientSecret)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var tokens struct {
		RefreshToken string `json:"refresh_token"`
	}
	if err := json.NewDecoder(response.Body).Decode(&tokens); err != nil || tokens.RefreshToken == "" {
		t.Fatalf("there is no refresh token: HTTP %d, %v", response.StatusCode, err)
	}
	return tokens.RefreshToken
}

// faults is a proxy that does to requests what their X-Fault says.
func faults(t *testing.T) http.Handler {
	to, err := url.Parse(server.Issuer)
	if err != nil {
		t.Fatal(err)
	}
	var seen sync.Map // how often a key came
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: func(r *http.Response) error {
			r.Header.Set("X-Seen-Traceparent", r.Request.Header.Get("traceparent"))
			change := map[string]func(map[string]any){"future": future, "omit": omit}[r.Request.Header.Get("X-Fault")]
			if change == nil || r.StatusCode != http.StatusOK {
				return nil
			}
			var body map[string]any
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				return err
			}
			change(body)
			text, err := json.Marshal(body)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
			r.Header.Set("Content-Length", strconv.Itoa(len(text)))
			return err
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before, _ := seen.LoadOrStore(r.Header.Get("X-Fault-Key"), new(int)) // a key is of one call at a time
		count := before.(*int)
		r.Header.Del("Accept-Encoding")
		switch fault := r.Header.Get("X-Fault"); {
		case fault == "hang":
			_, _ = io.Copy(io.Discard, r.Body) // then the end of the connection is noticed
			<-r.Context().Done()
		case fault == "unavailable" && *count < 2:
			*count++
			w.Header().Set("Retry-After", "0")
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprint(w, `{"code":14,"message":"not now","details":[]}`)
		case fault == "unauthenticated" && *count < 1:
			*count++
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprint(w, `{"code":16,"message":"revoked","details":[]}`)
		case fault == "lost":
			forward.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		default:
			forward.ServeHTTP(w, r)
		}
	})
}

// future makes an answer one of a newer server.
func future(body map[string]any) {
	body["fromTomorrow"] = map[string]any{"is": nil}
	if _, ok := body["sortingColumn"]; ok {
		body["sortingColumn"] = "TARGET_FIELD_NAME_OF_TOMORROW"
	}
	if target, ok := body["target"].(map[string]any); ok {
		target["details"].(map[string]any)["sequence"] = "18446744073709551615"
	}
}

// omit leaves out what the contract says is there.
func omit(body map[string]any) {
	delete(body, "details")
	delete(body, "sortingColumn")
	for _, each := range body["result"].([]any) {
		delete(each.(map[string]any), "target")
	}
}

// packaged copies a package of gen/sdk, and returns its content, which is an input of
// what is made of it.
func packaged(t *testing.T, language string) (content []byte, copyTo func(dir string) error) {
	t.Helper()
	files := map[string][]byte{}
	root := os.DirFS(filepath.Join("../../gen/sdk", language))
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files[path], err = fs.ReadFile(root, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content = append(fmt.Appendf(content, "%s %d\n", name, len(files[name])), files[name]...)
	}
	return content, func(dir string) error {
		var failed error
		for name, text := range files {
			failed = errors.Join(failed, write(dir, name, text))
		}
		return failed
	}
}

func TestPackageForTypeScript(t *testing.T) {
	t.Parallel()
	content, copyTo := packaged(t, "typescript")
	tools, npm := node(t), needs(t, "npm", "install Node.js 20 or newer with npm")
	program := read(t, "packages/suite.ts", "packages/tsconfig.json", "node/package-lock.json")
	dir := made(t, artifact{"package-typescript", append(program, content), func(dir string) error {
		path := []string{"PATH=" + tools + "/node_modules/.bin:" + os.Getenv("PATH")}
		quiet := []string{"--offline", "--no-audit", "--no-fund", "--loglevel=error"}
		err := errors.Join(copyTo(dir+"/package"), os.Symlink(tools+"/node_modules", dir+"/package/node_modules"), os.Mkdir(dir+"/app", 0o755),
			run(command{dir: dir + "/package", env: path, args: append([]string{npm, "pack", "--pack-destination", dir}, quiet...)}))
		packed, _ := filepath.Glob(dir + "/*.tgz")
		if len(packed) != 1 {
			return errors.Join(err, fmt.Errorf("npm packed %q", packed))
		}
		quickstart, failed := snippet(dir+"/package/README.md", "ts")
		return errors.Join(err, failed, write(dir, "app/package.json", []byte(`{"name":"app","private":true,"type":"module"}`)),
			run(command{dir: dir + "/app", args: append([]string{npm, "install", packed[0]}, quiet...)}),
			os.Symlink(tools+"/node_modules/@types", dir+"/app/node_modules/@types"),
			write(dir, "app/suite.ts", program[0]), write(dir, "app/tsconfig.json", program[1]), write(dir, "app/quickstart.ts", quickstart),
			os.Rename(dir+"/package/examples/examples.ts", dir+"/app/examples.ts"),
			run(command{dir: dir + "/app", args: []string{tools + "/node_modules/.bin/tsc", "-p", "."}}))
	}})
	suite(t, nil, command{dir: dir + "/app", args: []string{"node", "out/suite.js"}})
	quickstart(t, command{dir: dir + "/app", args: []string{"node", "out/quickstart.js"}})
}

func TestPackageForPython(t *testing.T) {
	t.Parallel()
	content, copyTo := packaged(t, "python")
	program := read(t, "packages/suite.py", "packages/requirements.txt")
	python3 := needs(t, "python3", "apt-get install python3-venv")
	if exec.Command(python3, "-c", "import sys; sys.exit(sys.version_info < (3, 11))").Run() != nil {
		t.Skip("the package needs Python 3.11 or newer")
	}
	tools := made(t, artifact{"package-python-tools", [][]byte{program[1], []byte(python3)}, func(dir string) error {
		return errors.Join(run(command{dir: dir, args: []string{python3, "-m", "venv", "."}}), write(dir, "requirements.txt", program[1]),
			run(command{dir: dir, args: []string{"bin/pip", "install", "-q", "--disable-pip-version-check", "-r", "requirements.txt"}}))
	}})
	dir := made(t, artifact{"package-python", append(program, content), func(dir string) error {
		pip := []string{tools + "/bin/pip", "--disable-pip-version-check", "-q"}
		err := errors.Join(copyTo(dir+"/package"),
			run(command{dir: dir, args: append(pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", dir, dir+"/package")}))
		wheels, _ := filepath.Glob(dir + "/*.whl")
		if len(wheels) != 1 {
			return errors.Join(err, fmt.Errorf("pip made the wheels %q", wheels))
		}
		quickstart, failed := snippet(dir+"/package/README.md", "python")
		return errors.Join(err, failed, run(command{dir: dir, args: append(pip, "install", "--no-deps", "--target", dir+"/site", wheels[0])}),
			write(dir, "app/suite.py", program[0]), write(dir, "app/quickstart.py", quickstart), os.Rename(dir+"/package/examples/examples.py", dir+"/app/examples.py"),
			// What is published is checked, and so is what uses it.
			run(command{dir: dir + "/app", env: []string{"MYPYPATH=" + dir + "/site"}, args: []string{tools + "/bin/mypy", "--strict", dir + "/site/writ", "."}}))
	}})
	site := []string{"PYTHONPATH=" + dir + "/site"}
	suite(t, nil, command{dir: dir + "/app", env: site, args: []string{tools + "/bin/python", "suite.py"}})
	quickstart(t, command{dir: dir + "/app", env: site, args: []string{tools + "/bin/python", "quickstart.py"}})
}

func TestPackageForGo(t *testing.T) {
	t.Parallel()
	content, copyTo := packaged(t, "go")
	program := read(t, "packages/go/main.go", "packages/go/go.mod")
	dir := made(t, artifact{"package-go", append(program, content), func(dir string) error {
		quickstart, err := snippet("../../gen/sdk/go/README.md", "go")
		err = errors.Join(err, copyTo(dir+"/package"), write(dir, "app/main.go", program[0]), write(dir, "app/go.mod", program[1]), write(dir, "app/quickstart/main.go", quickstart))
		app := func(args ...string) error { return run(command{dir: dir + "/app", args: args}) }
		return errors.Join(err,
			run(command{dir: dir + "/package", args: []string{"go", "mod", "tidy", "-diff"}}), // go.mod is made, not tidied
			run(command{dir: dir + "/package", args: []string{"go", "vet", "./..."}}),
			app("go", "mod", "edit", "-require=github.com/writ-id/writ/gen/sdk/go/v3@v3.0.0", "-replace=github.com/writ-id/writ/gen/sdk/go/v3="+dir+"/package"),
			app("go", "mod", "tidy"), app("go", "vet", "./..."), app("go", "build", "-o", "bin/", ".", "./quickstart"))
	}})
	suite(t, []string{"grpc"}, command{dir: dir + "/app", args: []string{"bin/suite"}})
	quickstart(t, command{dir: dir + "/app", args: []string{"bin/quickstart"}})
}

// TestREL109_TheReadmesInstallWhatTheySay runs the first lines of each README in an empty
// folder, beside a checkout, and imports what they installed.
func TestREL109_TheReadmesInstallWhatTheySay(t *testing.T) {
	t.Parallel()
	venv := `python3 -m venv .venv && PATH="$PWD/.venv/bin:$PATH" && export PIP_DISABLE_PIP_VERSION_CHECK=1` + "\n"
	for _, test := range []struct{ language, before, after string }{
		{"go", "go mod init app && cp ../quickstart.go main.go\n", "go build -o app . && test -x app"},
		{"python", venv, `python -c 'import writ; writ.Client("http://127.0.0.1:1", "t")'`},
		{"typescript", "npm init -y > /dev/null\n", `node --input-type=module -e 'import { WritClient } from "@writ-id/sdk"; new WritClient({ baseUrl: "http://127.0.0.1:1" })'`},
	} {
		t.Run(test.language, func(t *testing.T) {
			t.Parallel()
			content, copyTo := packaged(t, test.language)
			made(t, artifact{"readme-" + test.language, [][]byte{content, []byte(test.before + test.after)}, func(dir string) error {
				err := errors.Join(copyTo(dir+"/writ/gen/sdk/"+test.language), os.Mkdir(dir+"/app", 0o755))
				readme := dir + "/writ/gen/sdk/" + test.language + "/README.md"
				lines, failed := snippet(readme, "sh")
				if test.language == "go" {
					quickstart, none := snippet(readme, "go")
					failed = errors.Join(failed, none, write(dir, "quickstart.go", quickstart))
				}
				return errors.Join(err, failed, run(command{dir: dir + "/app", env: []string{"WRIT=" + dir + "/writ"},
					args: []string{"bash", "-euc", test.before + string(lines) + test.after}}))
			}})
		})
	}
}

// quickstart runs what a README begins with.
func quickstart(t *testing.T, program command) {
	t.Helper()
	if said := environment(t, "", program); !strings.Contains(said, "alice") {
		t.Errorf("the quick start of the README said %q, which names nobody", said)
	}
}

// snippet returns the first block of a language in a Markdown file.
func snippet(name, language string) ([]byte, error) {
	text, err := os.ReadFile(name)
	_, after, begun := strings.Cut(string(text), "```"+language+"\n")
	block, _, ended := strings.Cut(after, "```")
	if err == nil && (!begun || !ended) {
		err = fmt.Errorf("%s has no block in %s", name, language)
	}
	return []byte(block), err
}
