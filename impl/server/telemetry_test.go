package server_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	projectv3 "github.com/writ-id/writ/gen/proto/writ/project/v3alpha"
	"github.com/writ-id/writ/impl/core/outgoing"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/core/telemetry"
	"github.com/writ-id/writ/impl/server"
	"github.com/writ-id/writ/impl/server/servertest"
)

// scrape asks for metrics as Prometheus does.
func scrape(t *testing.T, measured *telemetry.Telemetry) string {
	t.Helper()
	answer := httptest.NewRecorder()
	measured.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	if answer.Code != http.StatusOK {
		t.Fatalf("%d %s", answer.Code, answer.Body)
	}
	return answer.Body.String()
}

// A row of each family that the dashboard and the alerts of deploy/ draw.
func TestREL106_MetricsSayWhatANodeDoes(t *testing.T) {
	t.Parallel()
	measured, err := telemetry.New(t.Context(), telemetry.Config{Prometheus: true, Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	c := servertest.New(t, 1, func(c *server.Config) { c.Telemetry = measured })
	id := c.Create("owner", "/resources/v3alpha/projects", `{"name":"P"}`)
	c.Must("owner", http.MethodGet, "/resources/v3alpha/projects/"+id, "")
	c.Must("owner", http.MethodGet, "/resources/v3alpha/projects/"+id, "")
	c.Do("nobody", http.MethodGet, "/resources/v3alpha/projects/"+canary, "")
	made := c.Must("owner", http.MethodPost, "/resources/v3alpha/users/"+c.User("nobody")+"/secret", "{}").Any(t)
	token(t, c.Nodes[0], "nobody", made["clientSecret"].(string))
	for _, form := range []string{"grant_type=client_credentials&client_id=" + canary + "&client_secret=x", "grant_type=" + canary} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.Nodes[0]+"/oauth/v2/token", strings.NewReader(form))
		if err != nil {
			t.Fatal(err)
		}
		req.Host, req.Header = "a.example", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
	user := c.Create("owner", "/resources/v3alpha/users", `{"username":"eve","human":{"profile":{"givenName":"E","familyName":"V"},"email":{"address":"eve@example.com","isVerified":true},"password":{"plain":"Correct-horse-9-battery"}}}`)
	for _, password := range []string{"wrong", "Correct-horse-9-battery"} {
		c.Do("owner", http.MethodPost, "/resources/v3alpha/sessions", `{"checks":{"user":{"userId":"`+user+`"},"password":{"password":"`+password+`"}}}`)
	}
	conn, err := grpc.NewClient(strings.TrimPrefix(c.Nodes[0], "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("a.example"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := projectv3.NewServiceProjectsClient(conn).GetProject(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+c.Token("owner")), &projectv3.GetProjectRequest{Id: id}); err != nil {
		t.Fatal(err)
	}
	text := scrape(t, measured)
	for _, want := range []string{
		`http_server_request_duration_seconds_count{http_request_method="GET",http_response_status_code="200",http_route="/resources/v3alpha/projects/{id}"} 2`,
		`http_server_request_duration_seconds_count{http_request_method="POST",http_response_status_code="201",http_route="/resources/v3alpha/projects"} 1`,
		`http_server_active_requests 0`,
		`rpc_server_call_duration_seconds_count{rpc_method="/writ.project.v3alpha.ServiceProjects/GetProject",rpc_response_status_code="OK"} 1`,
		`writ_tokens_total{grant_type="client_credentials",outcome="success"} 1`,
		`writ_tokens_total{grant_type="client_credentials",outcome="invalid_client"} 1`,
		`writ_tokens_total{outcome="unsupported_grant_type"} 1`,
		`writ_logins_total{method="password",outcome="success"} 1`,
		`writ_logins_total{method="password",outcome="failure"} 1`,
		`writ_queue_depth{queue="deliveries",state="due"} 0`,
		`writ_queue_depth{queue="messages",state="due"} `,
		`writ_queue_age_seconds{queue="messages"} `,
		`db_client_connection_count{pool="calls",state="used"} `,
		`db_client_connection_max{pool="searches"} `,
		`db_client_connection_wait_time_seconds_total{pool="calls"} `,
		`db_client_connection_timeouts_total{pool="calls"} 0`,
		`writ_fairness_rejections_total{place="calls"} 0`,
		`writ_fairness_rejections_total{place="hashes"} `,
		`writ_signing_key_age_seconds `,
		`writ_signing_key_next_seconds `,
		`go_goroutines `,
		`process_resident_memory_bytes `,
		`target_info{`,
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("there is no %s", want)
		}
	}
	// A read by an ID: the caller and what they may do are remembered, the row is read.
	statements := regexp.MustCompile(`writ_request_statements_sum\{http_route="/resources/v3alpha/projects/\{id\}"\} (\d+)`).FindStringSubmatch(text)
	if statements == nil || statements[1] == "0" {
		t.Errorf("statements of requests: %v", statements)
	}
	for _, secret := range []string{canary, id, user, c.User("nobody"), "127.0.0.1", "horse"} {
		if strings.Contains(text, secret) { // a label is none of these, or there would be no end of them
			t.Errorf("%q is in the metrics", secret)
		}
	}
}

// spanOf returns the span of a kind and name.
func spanOf(t *testing.T, spans tracetest.SpanStubs, name string) tracetest.SpanStub {
	t.Helper()
	at := slices.IndexFunc(spans, func(s tracetest.SpanStub) bool { return s.Name == name })
	if at < 0 {
		names := []string{}
		for _, s := range spans {
			names = append(names, s.Name)
		}
		t.Fatalf("there is no span %q among %q", name, names)
	}
	return spans[at]
}

func TestATraceGoesOnThroughStatementsTargetsAndDeliveries(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	got := make(chan http.Header, 10)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got <- r.Header.Clone()
	}))
	t.Cleanup(target.Close)
	c := servertest.New(t, 1, func(c *server.Config) {
		c.Telemetry = telemetry.Traced(recorder)
		c.Outgoing = outgoing.Config{Allow: outgoing.Loopback}
		c.Proxies = behind(t, false)
	})
	id := c.Create("owner", "/resources/v3alpha/targets", `{"name":"t","restWebhook":{"url":"`+target.URL+`/`+canary+`"},"timeout":"10s"}`)
	for _, condition := range []string{`{"request":{"method":"/writ.project.v3alpha.ServiceProjects/CreateProject"}}`, `{"event":{"event":"project.added"}}`} {
		c.Must("owner", http.MethodPost, "/resources/v3alpha/executions", `{"condition":`+condition+`,"targets":["`+id+`"]}`)
	}
	const traceID, caller = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	c.With(http.Header{"Traceparent": {"00-" + traceID + "-" + caller + "-01"}}).Create("owner", "/resources/v3alpha/projects", `{"name":"P"}`)
	for _, what := range []string{"the request", "the event"} {
		if sent := (<-got).Get("Traceparent"); !strings.HasPrefix(sent, "00-"+traceID+"-") || strings.Contains(sent, caller) {
			t.Errorf("the target of %s is told %q", what, sent)
		}
	}
	spans := tracetest.SpanStubsFromReadOnlySpans(recorder.Ended())
	serving := spanOf(t, spans, "POST /resources/v3alpha/projects")
	if serving.Parent.SpanID().String() != caller || serving.SpanContext.TraceID().String() != traceID {
		t.Errorf("the request is below %s in %s", serving.Parent.SpanID(), serving.SpanContext.TraceID())
	}
	below := func(parent tracetest.SpanStub, holds func(tracetest.SpanStub) bool) bool {
		return slices.ContainsFunc(spans, func(s tracetest.SpanStub) bool {
			return s.Parent.SpanID() == parent.SpanContext.SpanID() && holds(s)
		})
	}
	if !below(serving, func(s tracetest.SpanStub) bool { return strings.Contains(s.Name, "INSERT") }) {
		t.Error("the request has no span of a statement")
	}
	if !below(serving, func(s tracetest.SpanStub) bool { return s.Name == "POST" }) {
		t.Error("the request has no span of a call")
	}
	for _, s := range spans { // SEC-325
		for _, a := range append(s.Attributes, attribute.String("name", s.Name)) {
			if text := a.Value.String(); strings.Contains(text, canary) || strings.Contains(text, c.Token("owner")) || strings.Contains(text, `"P"`) {
				t.Errorf("%s: %s is %q", s.Name, a.Key, text)
			}
		}
	}
}

// Strangers cannot put their requests into traces of others, or have them recorded.
func TestWhoIsNotTrustedBeginsATraceOfTheirOwn(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	c := servertest.New(t, 1, func(c *server.Config) { c.Telemetry = telemetry.Traced(recorder) })
	const traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	c.With(http.Header{"Traceparent": {"00-" + traceID + "-00f067aa0ba902b7-01"}}).Create("owner", "/resources/v3alpha/projects", `{"name":"P"}`)
	serving := spanOf(t, tracetest.SpanStubsFromReadOnlySpans(recorder.Ended()), "POST /resources/v3alpha/projects")
	if serving.SpanContext.TraceID().String() == traceID || len(serving.Links) != 1 || serving.Links[0].SpanContext.TraceID().String() != traceID {
		t.Errorf("in %s with %v", serving.SpanContext.TraceID(), serving.Links)
	}
}

func TestATraceparentIsOneOrNone(t *testing.T) {
	t.Parallel()
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, text := range []string{
		"", "x", good + "-00", strings.ToUpper(good), strings.Replace(good, "00-", "ff-", 1), strings.Replace(good, "4bf92f3577b34da6a3ce929d0e0e4736", strings.Repeat("0", 32), 1),
		"00-" + strings.Repeat("z", 32) + "-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0\n",
	} {
		if got := telemetry.Valid(text); got != "" {
			t.Errorf("%q is %q", text, got)
		}
	}
	if telemetry.Valid(good) != good {
		t.Error("one that is good")
	}
	// Without telemetry nothing is done, and nothing fails.
	var off *telemetry.Telemetry
	ctx, served, at := off.Serve(t.Context(), good, true)
	served.End(ctx, "GET", "/", 200, "", 0)
	off.Login(ctx, "password", true)
	off.Watch(func(context.Context) (telemetry.Readings, error) { panic("nobody asks") })
	if at != good || ctx != t.Context() || off.Handler() != nil || off.Statements(policy.StatementsOf) != nil || off.Stop(ctx) != nil {
		t.Error("nothing is something")
	}
}

// When the database is away, it is most wanted what the node itself knows.
func TestREL106_MetricsAreToldWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	measured, err := telemetry.New(t.Context(), telemetry.Config{Prometheus: true})
	if err != nil {
		t.Fatal(err)
	}
	db := pgtest.Open(t, 4)
	config := servertest.Config(db)
	config.Telemetry = measured
	if _, err := server.New(config); err != nil {
		t.Fatal(err)
	}
	if text := scrape(t, measured); !strings.Contains(text, "writ_queue_depth") {
		t.Error("with the database there are no queues")
	}
	db.Close()
	text := scrape(t, measured)
	if !strings.Contains(text, "db_client_connection_max") || strings.Contains(text, "writ_queue_depth") {
		t.Errorf("without the database: %s", text)
	}
}
