package transfer_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/client"
	"github.com/writ-id/writ/impl/client/transfer"
)

// stand is a server that breaks connections and answers what a test says: what the
// network does to a client. What the product answers, commands_test.go has.
type stand struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	asked    []string // method, path and range
	told     strings.Builder
	result   []byte
	cuts     []int // after how many bytes the next downloads break
	states   []string
	away     atomic.Int64 // how many of the next questions lose their connection
	body     []byte
	answer   int
	answered string
	asking   func() // when it is asked how far it is
	canceled chan struct{}
}

func newStand(t *testing.T) *stand {
	s := &stand{t: t, answer: http.StatusAccepted, canceled: make(chan struct{}, 1)}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *stand) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+r.Header.Get("Range")))
	s.mu.Unlock()
	switch r.Method + " " + r.URL.Path {
	case "POST /admin/v1/export", "POST /admin/v1/import":
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		s.body = body
		w.WriteHeader(s.answer)
		if s.answered != "" {
			_, _ = io.WriteString(w, s.answered)
			return
		}
		fmt.Fprintf(w, `{"id":"op 1","state":"OPERATION_STATE_RUNNING"}`)
	case "GET /admin/v1/operations/op 1":
		if s.asking != nil {
			s.asking()
		}
		if s.away.Add(-1) >= 0 {
			panic(http.ErrAbortHandler)
		}
		state := `"state":"OPERATION_STATE_SUCCEEDED"`
		if len(s.states) > 0 {
			state, s.states = s.states[0], s.states[1:]
		}
		fmt.Fprintf(w, `{"id":"op 1",%s,"items":"1","total":"2","size":"%d","newer":1,"summary":{"carried":[{"kind":"users","count":"3"}]},"report":{"outcomes":[{"orgId":"o","kind":"users","created":"7"}]}}`, state, len(s.result))
	case "GET /admin/v1/operations/op 1/result":
		if len(s.cuts) > 0 {
			cut := s.cuts[0]
			s.cuts = s.cuts[1:]
			w = &cutter{w, cut}
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.result))
	case "POST /admin/v1/operations/op 1/_cancel":
		s.canceled <- struct{}{}
		fmt.Fprintf(w, `{"id":"op 1","state":"OPERATION_STATE_CANCELED"}`)
	default:
		http.NotFound(w, r)
	}
}

// cutter breaks the connection of an answer.
type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(p []byte) (int, error) {
	n, _ := c.ResponseWriter.Write(p[:min(len(p), c.left)])
	c.ResponseWriter.(http.Flusher).Flush()
	if c.left -= n; c.left <= 0 {
		panic(http.ErrAbortHandler)
	}
	return n, nil
}

func (s *stand) client() *transfer.Client {
	return &transfer.Client{
		Find: func(context.Context) (*client.Server, error) {
			return &client.Server{URL: s.URL, Token: "t", HTTP: client.NewHTTP(nil)}, nil
		},
		Interval: time.Millisecond,
		Tell:     func(format string, args ...any) { fmt.Fprintf(&s.told, format+"\n", args...) },
	}
}

func TestADownloadGoesOnWhereTheConnectionBroke(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.result = bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	s.cuts = []int{1 << 19, 1, 100}
	s.states = []string{`"state":"OPERATION_STATE_RUNNING"`, `"state":"OPERATION_STATE_RUNNING"`}
	s.away.Store(2)
	var got bytes.Buffer
	summary, err := s.client().Export(t.Context(), transfer.ExportRequest{OrgIDs: []string{"o1"}, WithOTP: true, Timeout: "10m"}, "", &got)
	if err != nil || !bytes.Equal(got.Bytes(), s.result) || summary.GetCarried()[0].GetCount() != 3 {
		t.Fatalf("got %d of %d bytes, %v, %v; told %s", got.Len(), len(s.result), summary, err, &s.told)
	}
	if want := `{"org_ids":["o1"],"with_otp":true,"timeout":"10m","response_output":true,"async":true}`; string(s.body) != want {
		t.Errorf("it asked %s, want %s", s.body, want)
	}
	var ranges []string
	for _, one := range s.asked {
		if rest, ok := strings.CutPrefix(one, "GET /admin/v1/operations/op 1/result"); ok {
			ranges = append(ranges, strings.TrimSpace(rest))
		}
	}
	if want := []string{"", "bytes=524288-", "bytes=524289-", "bytes=524389-"}; fmt.Sprint(ranges) != fmt.Sprint(want) {
		t.Errorf("got the ranges %q, want %q", ranges, want)
	}
}

func TestAnOperationThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.states = []string{`"state":"OPERATION_STATE_FAILED","error":{"reason":"TIMEOUT","message":"it took longer than 10m"}`}
	var got bytes.Buffer
	if _, err := s.client().Export(t.Context(), transfer.ExportRequest{}, "", &got); err == nil || !strings.Contains(err.Error(), "it took longer than 10m (TIMEOUT)") || got.Len() > 0 {
		t.Errorf("got %v and %d bytes", err, got.Len())
	}
	s.answer, s.answered = http.StatusForbidden, `{"code":7,"message":"the token is not a personal access token"}`
	if _, err := s.client().Export(t.Context(), transfer.ExportRequest{}, "", &got); err == nil || !strings.Contains(err.Error(), "403: the token is not a personal access token") {
		t.Errorf("got %v", err)
	}
}

func TestWhoGivesUpCancelsTheOperation(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.states = make([]string, 1000)
	for i := range s.states {
		s.states[i] = `"state":"OPERATION_STATE_RUNNING"`
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.asking = cancel
	if _, err := s.client().Export(ctx, transfer.ExportRequest{}, "", io.Discard); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if len(s.canceled) != 1 {
		t.Errorf("it is not cancelled: %q", s.asked)
	}
}

func TestAnImportSendsTheFileAndReturnsTheReport(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	report, err := s.client().Import(t.Context(), transfer.ImportRequest{DryRun: true, OnConflict: "skip", Timeout: "10m"}, transfer.Upload{File: strings.NewReader("{\"users\":[{\"id\":\"}\\\"{\"}]}\n")})
	if err != nil || report.GetOutcomes()[0].GetCreated() != 7 {
		t.Fatalf("got %v, %v", report, err)
	}
	if want := "{\"timeout\":\"10m\",\"dry_run\":true,\"on_conflict\":\"skip\",\"async\":true,\"data_orgsv1\":{\"users\":[{\"id\":\"}\\\"{\"}]}\n}"; string(s.body) != want {
		t.Errorf("got %s, want %s", s.body, want)
	}
}

func TestARefusedImportReturnsWhatStandsInTheWay(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.answer = http.StatusConflict
	s.answered = `{"code":6,"message":"there is something already","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"CONFLICT"},
		{"@type":"type.googleapis.com/writ.transfer.v1.ImportReport","notCarried":[{"kind":"users","id":"u1","reason":"EXISTS"}],"totalNotCarried":"1"}]}`
	report, err := s.client().Import(t.Context(), transfer.ImportRequest{}, transfer.Upload{File: strings.NewReader("{}")})
	if err == nil || !strings.Contains(err.Error(), "there is something already") || report.GetNotCarried()[0].GetId() != "u1" {
		t.Fatalf("got %v, %v", report, err)
	}
	var text strings.Builder
	transfer.PrintReport(&text, report, false)
	if !strings.Contains(text.String(), "EXISTS") || strings.Contains(text.String(), "CREATED") {
		t.Errorf("the report does not say it: %s", &text)
	}
}

// TestAFileBringsNoMembersOfTheRequest: it becomes one member of it, and what would end that
// early is refused before it is sent.
func TestAFileBringsNoMembersOfTheRequest(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		`{"users":[]},"on_conflict":"update","x":{}`: "behind the end",
		`{} {}`:                         "behind the end",
		`{}]`:                           "behind the end",
		`"text"`:                        "object of JSON",
		`[1]`:                           "object of JSON",
		`null`:                          "object of JSON",
		`PK` + strings.Repeat("x", 100): "object of JSON",
		``:                              "in the middle",
		`{"users":[{"id":"u1"}`:         "in the middle",
		`{"users":"}`:                   "in the middle",
		`{"users":[` + strings.Repeat(`{"id":"x"},`, 1<<18): "in the middle",
	} {
		s := newStand(t)
		_, err := s.client().Import(t.Context(), transfer.ImportRequest{}, transfer.Upload{File: strings.NewReader(content)})
		if err == nil || !strings.Contains(err.Error(), want) || s.body != nil {
			t.Errorf("%.40s: got %v and the body %.100s, want %q", content, err, s.body, want)
		}
	}
}

// TestAnImportIsSentInFlatMemory counts what is alive while 64 MiB are unpacked and sent.
func TestAnImportIsSentInFlatMemory(t *testing.T) {
	const most = 16 << 20
	var sent, largest uint64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		buffer := make([]byte, 1<<20)
		for {
			n, err := io.ReadFull(r.Body, buffer)
			if sent>>24 != (sent+uint64(n))>>24 {
				runtime.GC()
				var stats runtime.MemStats
				runtime.ReadMemStats(&stats)
				largest = max(largest, stats.HeapAlloc)
			}
			sent += uint64(n)
			if err != nil {
				break
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{})
	}))
	defer server.Close()
	file := packed(t, 64<<20)
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	c := (&stand{Server: server, t: t}).client()
	if _, err := c.Import(t.Context(), transfer.ImportRequest{}, transfer.Upload{File: file}); err != nil {
		t.Fatal(err)
	}
	if sent < 64<<20 || largest > before.HeapAlloc+most {
		t.Errorf("of %d MiB sent, %d MiB were alive, %d before", sent>>20, largest>>20, before.HeapAlloc>>20)
	}
}

// packed returns a packed file of so many bytes.
func packed(t *testing.T, size int) io.Reader {
	t.Helper()
	var file bytes.Buffer
	into := gzip.NewWriter(&file)
	_, _ = io.WriteString(into, `{"users":[`)
	item := []byte(strings.Repeat(`{"id":"somebody"},`, 1<<10))
	for written := 0; written < size; written += len(item) {
		_, _ = into.Write(item)
	}
	_, _ = io.WriteString(into, `{}]}`)
	if err := into.Close(); err != nil {
		t.Fatal(err)
	}
	return &file
}
