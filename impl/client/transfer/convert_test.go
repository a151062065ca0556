package transfer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/client/transfer"
	core "github.com/writ-id/writ/impl/core/transfer"
	"github.com/writ-id/writ/impl/core/transfer/foreign"
)

// items returns the items of a source in one text.
func items(t *testing.T, source core.Source) string {
	t.Helper()
	var text []byte
	for {
		kind, item, err := source.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return string(text)
		}
		if err != nil {
			t.Fatal(err)
		}
		text = append(item.AppendJSON(append(text, kind.Name+" "...)), '\n')
	}
}

func TestWhatOthersExportedIsSentAsOurFile(t *testing.T) {
	t.Parallel()
	for format, name := range map[string]string{"keycloak": "keycloak-realm.json", "auth0": "auth0-users.ndjson", "firebase": "firebase-users.json", "zitadel": "zitadel.json"} {
		path := filepath.Join("../../core/transfer/foreign/testdata", name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		losses := 0
		source, err := foreign.Open(format, bytes.NewReader(text), foreign.Options{OrgName: "Acme", Lost: func(string, string, string) { losses++ }, Ignored: func(string, int) {}})
		if err != nil {
			t.Fatal(err)
		}
		want := items(t, source)

		s := newStand(t)
		report, err := s.client().Import(t.Context(), transfer.ImportRequest{}, transfer.Upload{File: bytes.NewReader(text), From: transfer.From{Format: format, OrgName: "Acme"}})
		if err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		var sent struct {
			File json.RawMessage `json:"data_orgsv1"`
		}
		if err := json.Unmarshal(s.body, &sent); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		if got := items(t, core.NewReader(bytes.NewReader(sent.File), storage.Moved, func(string) { t.Error("it has a list that nobody knows") })); got != want || want == "" {
			t.Errorf("%s: got %s, want %s", format, got, want)
		}
		if len(report.GetNotCarried()) != losses || losses == 0 || report.GetTotalNotCarried() != uint64(losses) {
			t.Errorf("%s: the report has %d of %d things that were not carried over", format, len(report.GetNotCarried()), losses)
		}
	}
}

func TestAFileOfAnotherSystemThatIsNoneSaysSo(t *testing.T) {
	t.Parallel()
	for format, content := range map[string]string{"keycloak": `[1,2]`, "auth0": `not json`, "firebase": `{"users":[{"localId":7}]}`, "csv": ""} {
		s := newStand(t)
		_, err := s.client().Import(t.Context(), transfer.ImportRequest{}, transfer.Upload{File: strings.NewReader(content), From: transfer.From{Format: format, OrgName: "Acme"}})
		if err == nil || s.body != nil {
			t.Errorf("%s: got %v and sent %s", format, err, s.body)
		}
	}
}

func TestTheHashParametersOfFirebaseAreReadAsItsConsoleShowsThem(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hash")
	user := `{"users":[{"localId":"u1","email":"a@example.com","passwordHash":"aGFzaGhhc2hoYXNoaGFzaA==","salt":"c2FsdHNhbHQ="}]}`
	for text, want := range map[string]bool{
		"hash_config {\n  algorithm: SCRYPT,\n  base64_signer_key: jxspr8Ki0RYycVU8zykbdA==,\n  base64_salt_separator: Bw==,\n  rounds: 8,\n  mem_cost: 14,\n}\n": true,
		`{"base64_signer_key": "jxspr8Ki0RYycVU8zykbdA==", "base64_salt_separator": "Bw==", "rounds": 8, "mem_cost": 14}`:                                         true,
		"rounds: 8": false,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := newStand(t)
		_, err := s.client().Import(t.Context(), transfer.ImportRequest{}, transfer.Upload{File: strings.NewReader(user), From: transfer.From{Format: "firebase", OrgName: "Acme", FirebaseHash: path}})
		if got := err == nil && bytes.Contains(s.body, []byte("fbscrypt")); got != want {
			t.Errorf("%s: got %v and sent %s", text, err, s.body)
		}
	}
}
