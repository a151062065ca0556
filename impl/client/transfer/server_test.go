package transfer_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/client"
	"github.com/writ-id/writ/impl/client/transfer"
	"github.com/writ-id/writ/impl/core/store/pgtest"
	core "github.com/writ-id/writ/impl/core/transfer"
	"github.com/writ-id/writ/impl/server/servertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// front is the product at an address of its own, as an instance, over connections that break.
type front struct {
	*httptest.Server
	c    *servertest.Cluster
	user string
	cuts atomic.Int64 // how many of the next downloads break
	told strings.Builder
}

func newFront(c *servertest.Cluster, host, user string) *front {
	f := &front{c: c, user: user}
	back, err := url.Parse(c.Nodes[0])
	if err != nil {
		c.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(back)
		r.Out.Host = host
	}}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/result") && f.cuts.Add(-1) >= 0 {
			w = &cutter{w, 1000}
		}
		proxy.ServeHTTP(w, r)
	}))
	c.Cleanup(f.Close)
	return f
}

func (f *front) client() *transfer.Client {
	return &transfer.Client{
		Find: func(context.Context) (*client.Server, error) {
			return &client.Server{URL: f.URL, Token: f.c.Token(f.user), HTTP: client.NewHTTP(nil)}, nil
		},
		Interval: 10 * time.Millisecond,
		Tell:     func(format string, args ...any) { fmt.Fprintf(&f.told, format+"\n", args...) },
	}
}

func (f *front) export(request transfer.ExportRequest) string {
	f.c.Helper()
	var file bytes.Buffer
	if _, err := f.client().Export(f.c.Context(), request, "", &file); err != nil {
		f.c.Fatalf("%v; told %s", err, &f.told)
	}
	return items(f.c.T, core.NewReader(&file, storage.Moved, func(string) {}))
}

// TestATenantMovesToAnotherInstance: by packed and encrypted files, over a connection that breaks.
func TestATenantMovesToAnotherInstance(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	for i := range 50 {
		phone := ""
		if i%2 == 0 {
			phone = fmt.Sprintf(`,"phone":{"number":"+4179%07d"}`, i)
		}
		c.Create("owner", "/resources/v3alpha/users", fmt.Sprintf(`{"username":"user%d","human":{"email":{"address":"user%d@x.example"}%s}}`, i, i, phone))
	}
	from, to := newFront(c, "a.example", "owner"), newFront(c, "b.example", "bob")
	from.cuts.Store(3)
	all := transfer.ExportRequest{WithPasswords: true, WithOTP: true, WithSecrets: true, ExcludedOrgIDs: []string{c.Org("A2")}}

	pair := keys(t)["recipient"]
	path := filepath.Join(t.TempDir(), "tenant.json.zst.age")
	out, err := transfer.Create(path, pair[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Discard()
	summary, err := from.client().Export(t.Context(), all, "", out)
	if err != nil {
		t.Fatalf("%v; told %s", err, &from.told)
	}
	if err := out.Commit(); err != nil {
		t.Fatal(err)
	}
	if broken := strings.Count(from.told.String(), "going on at byte"); broken != 3 || len(summary.GetCarried()) == 0 {
		t.Errorf("it broke %d times and carried %v", broken, summary)
	}

	text, err := unwrap(t, path, pair[1])
	if err != nil {
		t.Fatal(err)
	}
	want := items(t, core.NewReader(strings.NewReader(text), storage.Moved, func(string) { t.Error("a list is unknown") }))
	before := to.export(transfer.ExportRequest{})
	upload := func() transfer.Upload { return transfer.Upload{File: strings.NewReader(text)} }
	if report, err := to.client().Import(t.Context(), transfer.ImportRequest{DryRun: true}, upload()); err != nil || !report.GetDryRun() || len(report.GetOutcomes()) == 0 {
		t.Fatalf("a rehearsal: got %v, %v", report, err)
	}
	if after := to.export(transfer.ExportRequest{}); after != before {
		t.Errorf("a rehearsal changes something: %s", after)
	}
	report, err := to.client().Import(t.Context(), transfer.ImportRequest{Timeout: "10m"}, upload())
	if err != nil {
		t.Fatalf("got %v, %v", report, err)
	}
	all.OrgIDs, all.ExcludedOrgIDs = []string{c.Value("SELECT id FROM organizations WHERE name = 'A' AND instance_id = $1", c.Instance("b"))}, nil
	if got := to.export(all); got != want {
		t.Errorf("got %s, want %s", got, want)
	}

	report, err = to.client().Import(t.Context(), transfer.ImportRequest{OnConflict: "refuse"}, upload())
	if err == nil || len(report.GetNotCarried()) == 0 {
		t.Errorf("again: got %v, %v", report, err)
	}
	if report, err = to.client().Import(t.Context(), transfer.ImportRequest{OnConflict: "skip"}, upload()); err != nil || report.GetOutcomes()[0].GetSkipped() == 0 {
		t.Errorf("skipping: got %v, %v", report, err)
	}
}

func TestTheServersRefusalsComeThrough(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	for user, want := range map[string]string{"orgowner": "403", "nobody": "403", "no token": "401"} {
		f := newFront(c, "a.example", user)
		if _, err := f.client().Export(t.Context(), transfer.ExportRequest{}, "", io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s exports: got %v", user, err)
		}
		// Longer than what a connection holds: the refusal has to come before the file.
		if _, err := f.client().Import(t.Context(), transfer.ImportRequest{}, transfer.Upload{File: packed(t, 32<<20)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s imports: got %v", user, err)
		}
	}
	owner := newFront(c, "a.example", "owner")
	if _, err := owner.client().Export(t.Context(), transfer.ExportRequest{OrgIDs: []string{"nowhere"}}, "", io.Discard); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("an organization that is not there: got %v", err)
	}
	if _, err := owner.client().Import(t.Context(), transfer.ImportRequest{}, transfer.Upload{File: strings.NewReader(`{"version":7}`)}); err == nil || !strings.Contains(err.Error(), "version") {
		t.Errorf("another version: got %v", err)
	}
}
