// Package executions holds a server to what executions promise (document 1, "Actions"):
// which targets a call, a function or an event calls, what they are told, and what comes
// of each way in which they can answer or fail.
//
// What a cell of the matrix has to do is computed by a model (model_test.go) from the
// rules of the documents. Receivers are real, and each part of the suite has an instance
// and receivers of its own on the one server of the test binary, so that all run at once.
package executions

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	projectv3 "github.com/writ-id/writ/gen/proto/writ/project/v3alpha"

	"github.com/writ-id/writ/conformance/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// tenant is an instance with an owner, a project and a receiver.
type tenant struct {
	*testing.T
	server                    *harness.Server
	host, id, org, token, own string // own is the user ID of the owner
	project                   string
	receiver                  *receiver
	grpc                      *grpc.ClientConn
	db                        *pgxpool.Pool
}

// newTenant makes an instance.
func newTenant(t *testing.T, name string) *tenant {
	t.Helper()
	n := &tenant{T: t, server: harness.Shared(t), host: name + ".executions.example"}
	url, err := n.server.DatabaseURL()
	if err != nil || url == "" {
		t.Skipf("the database is out of reach: %v", err)
	}
	if n.db, err = pgxpool.New(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.db.Close)
	system := *n
	system.host, system.token = strings.TrimPrefix(n.server.Issuer, "http://"), n.server.SystemToken
	made := system.must(http.MethodPost, "/resources/v3alpha/instances", map[string]any{"name": name, "domain": n.host, "ownerUsername": "owner"})
	n.id, n.org, n.token, n.own = idOf(made), text(made, "organizationId"), text(made, "ownerToken"), text(made, "ownerId")
	for _, secret := range []string{n.token, n.server.AdminToken, n.server.SystemToken} {
		if err := harness.RememberSecret(secret); err != nil {
			t.Fatal(err)
		}
	}
	n.project = idOf(n.must(http.MethodPost, "/resources/v3alpha/projects", map[string]any{"name": "first"}))
	if n.grpc, err = grpc.NewClient(n.server.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority(n.host)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.grpc.Close() })
	n.receiver = newReceiver(t)
	return n
}

// value reads a text of the database.
func (n *tenant) value(sql string, args ...any) (value string) {
	n.Helper()
	if err := n.db.QueryRow(n.Context(), sql, args...).Scan(&value); err != nil {
		n.Fatalf("%s: %v", sql, err)
	}
	return value
}

// name is what the project is called, whatever is called around reading it.
func (n *tenant) name() string {
	n.Helper()
	return n.value("SELECT name FROM projects WHERE instance_id = $1 AND id = $2", n.id, n.project)
}

// RoundTrip implements http.RoundTripper: requests are those to the host of the instance.
func (n *tenant) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := r.Clone(r.Context())
	sent.Host = n.host
	return harness.Guard(http.DefaultTransport).RoundTrip(sent)
}

// outcome is what came of a call.
type outcome struct {
	Status  int // of HTTP, by REST; 0 by others
	OK      bool
	Code    int // of gRPC
	Message string
	Body    map[string]any // by REST
	ID      string         // details.id of the answer
}

// rest calls by REST as the owner. Calls that configure executions leave them out.
func (n *tenant) rest(method, path string, body any, headers ...string) *outcome {
	n.Helper()
	var sent []byte
	var err error
	if body != nil {
		if sent, err = json.Marshal(body); err != nil {
			n.Fatal(err)
		}
	}
	r, err := http.NewRequestWithContext(n.Context(), method, n.server.Issuer+path, bytes.NewReader(sent))
	if err != nil {
		n.Fatal(err)
	}
	// The operation shows what it makes once.
	r = r.WithContext(harness.OfOperation(r.Context(), "/"+method+path))
	r.Header.Set("Authorization", "Bearer "+n.token)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := n.RoundTrip(r)
	if err != nil {
		n.Errorf("%s %s: %v", method, path, err)
		return &outcome{}
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		n.Errorf("%s %s: %v", method, path, err)
	}
	got := &outcome{Status: res.StatusCode, OK: res.StatusCode/100 == 2, Body: map[string]any{}}
	_ = json.Unmarshal(answer, &got.Body) // it is JSON, or an error below
	if code, ok := got.Body["code"].(float64); ok && !got.OK {
		got.Code = int(code)
	}
	got.Message = text(got.Body, "message")
	got.ID = idOf(got.Body)
	return got
}

// skip is what owners send to change executions that run around changing them.
var skip = []string{"writ-skip-executions", "true"}

// must is rest for what has to succeed, with nothing called around it where that is
// possible.
func (n *tenant) must(method, path string, body any) map[string]any {
	n.Helper()
	got := n.rest(method, path, body, skip...)
	if !got.OK {
		n.Fatalf("%s %s: got %d %v", method, path, got.Status, got.Body)
	}
	return got.Body
}

func text(of map[string]any, name string) string { value, _ := of[name].(string); return value }

func idOf(of map[string]any) string {
	details, _ := of["details"].(map[string]any)
	return text(details, "id")
}

// create creates a project, by a transport, and returns its ID.
func (n *tenant) create(transport, name string) string {
	n.Helper()
	req := &projectv3.CreateProjectRequest{Project: &projectv3.Project{Name: name}}
	var res *projectv3.CreateProjectResponse
	var err error
	switch transport {
	case "REST":
		return idOf(n.must(http.MethodPost, "/resources/v3alpha/projects", map[string]any{"name": name}))
	case "gRPC":
		res, err = projectv3.NewServiceProjectsClient(n.grpc).CreateProject(metadata.AppendToOutgoingContext(n.Context(), "authorization", "Bearer "+n.token), req)
	default:
		client := connect.NewClient[projectv3.CreateProjectRequest, projectv3.CreateProjectResponse](
			&http.Client{Transport: n}, n.server.Issuer+projectv3.ServiceProjects_CreateProject_FullMethodName, connect.WithGRPCWeb())
		call := connect.NewRequest(req)
		call.Header().Set("Authorization", "Bearer "+n.token)
		var answer *connect.Response[projectv3.CreateProjectResponse]
		if answer, err = client.CallUnary(n.Context(), call); err == nil {
			res = answer.Msg
		}
	}
	if err != nil {
		n.Fatalf("%s: %v", transport, err)
	}
	return res.GetDetails().GetId()
}

const patchProject = "/writ.project.v3alpha.ServiceProjects/PatchProject"

// rename renames the project, by a transport.
func (n *tenant) rename(transport, name string) *outcome {
	n.Helper()
	req := &projectv3.PatchProjectRequest{Id: n.project, Project: &projectv3.PatchProject{Name: &name}}
	switch transport {
	case "REST":
		return n.rest(http.MethodPatch, "/resources/v3alpha/projects/"+n.project, map[string]any{"name": name})
	case "gRPC":
		ctx := metadata.AppendToOutgoingContext(n.Context(), "authorization", "Bearer "+n.token)
		res, err := projectv3.NewServiceProjectsClient(n.grpc).PatchProject(ctx, req)
		if err != nil {
			return &outcome{Code: int(status.Code(err)), Message: status.Convert(err).Message()}
		}
		return &outcome{OK: true, ID: res.GetDetails().GetId()}
	}
	client := connect.NewClient[projectv3.PatchProjectRequest, projectv3.PatchProjectResponse](&http.Client{Transport: n}, n.server.Issuer+patchProject, connect.WithGRPCWeb())
	call := connect.NewRequest(req)
	call.Header().Set("Authorization", "Bearer "+n.token)
	res, err := client.CallUnary(n.Context(), call)
	if err != nil {
		refused := &connect.Error{}
		if connected, ok := err.(*connect.Error); ok { //nolint:errorlint // it is never wrapped
			refused = connected
		}
		return &outcome{Code: int(connect.CodeOf(err)), Message: refused.Message()}
	}
	return &outcome{OK: true, ID: res.Msg.GetDetails().GetId()}
}

var transports = []string{"REST", "gRPC", "gRPC-web"}

// target is one that was registered.
type target struct{ id, name, key string }

// register registers a target: kind is its type, exec its execution type, address where it
// is.
func (n *tenant) register(name, kind, exec, address, timeout string) *target {
	n.Helper()
	body := map[string]any{"name": name, kind: map[string]any{"url": address}, "timeout": timeout}
	if exec != "" {
		body[exec] = true
	}
	made := n.must(http.MethodPost, "/resources/v3alpha/targets", body)
	t := &target{idOf(made), name, text(made, "signingKey")}
	n.receiver.trust(t)
	if err := harness.RememberSecret(t.key); err != nil {
		n.Fatal(err)
	}
	return t
}

// put makes or replaces the execution of a condition.
func (n *tenant) put(condition map[string]any, includes []string, targets ...*target) string {
	n.Helper()
	ids := []string{}
	for _, one := range targets {
		ids = append(ids, one.id)
	}
	if includes == nil {
		includes = []string{}
	}
	return idOf(n.must(http.MethodPost, "/resources/v3alpha/executions", map[string]any{"condition": condition, "targets": ids, "includes": includes}))
}

// remove deletes an execution.
func (n *tenant) remove(id string) {
	n.Helper()
	n.must(http.MethodDelete, "/resources/v3alpha/executions/"+id, nil)
}

// in is the condition of a kind, such as request.method.
func in(kind string) map[string]any {
	of, what, _ := strings.Cut(kind, ".")
	switch what {
	case "method":
		return map[string]any{of: map[string]any{"method": patchProject}}
	case "service":
		return map[string]any{of: map[string]any{"service": "writ.project.v3alpha.ServiceProjects"}}
	case "all":
		return map[string]any{of: map[string]any{"all": true}}
	case "event":
		return map[string]any{of: map[string]any{"event": "project.added"}}
	case "group":
		return map[string]any{of: map[string]any{"group": "project"}}
	}
	return map[string]any{"function": what}
}

// by returns the tenant with another token.
func (n *tenant) by(token string) *tenant {
	other := *n
	other.token = token
	return &other
}

// as returns the tenant as a new service user sees it, with a role in its organization.
func (n *tenant) as(name, role string) *tenant {
	n.Helper()
	id := idOf(n.must(http.MethodPost, "/resources/v3alpha/users", map[string]any{"username": name, "service": map[string]any{"name": name}}))
	n.must(http.MethodPost, "/resources/v3alpha/memberships?ctx.orgId="+n.org, map[string]any{"userId": id, "roles": []string{role}})
	token := text(n.must(http.MethodPost, "/resources/v3alpha/users/"+id+"/pats", map[string]any{}), "token")
	if err := harness.RememberSecret(token); err != nil {
		n.Fatal(err)
	}
	return n.by(token)
}

// eventually waits for what has to happen by itself.
func (n *tenant) eventually(what string, holds func() bool) {
	n.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			n.Fatalf("%s: it never does", what)
		}
	}
}
