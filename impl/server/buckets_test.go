package server_test

import (
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/writ-id/writ/impl/core/objectstore"
	"github.com/writ-id/writ/impl/core/objectstore/buckettest"
	"github.com/writ-id/writ/impl/server"
	"github.com/writ-id/writ/impl/server/servertest"
)

// TestATenantMovesByCloudStorage: an instance exports to a bucket, another imports from it. The
// credentials are in the requests and nowhere else: not in answers, the log or the database.
func TestATenantMovesByCloudStorage(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) *buckettest.Server{"gcs": buckettest.GCS, "s3": buckettest.S3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storage, log := start(t), &kept{}
			c := servertest.New(t, 1, func(c *server.Config) {
				c.Outgoing = storage.Out
				c.Logger = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			})
			at := func(path string) map[string]any { return members(storage.Place(path)) }
			call := func(user, path string, body map[string]any) servertest.Reply {
				text, err := json.Marshal(body)
				if err != nil {
					t.Fatal(err)
				}
				return c.Do(user, http.MethodPost, path, string(text))
			}
			var answers strings.Builder
			const file = "exports/tenant.json"
			got := call("owner", "/admin/v1/export", map[string]any{"excluded_org_ids": []string{c.Org("A2")}, name + "_output": at(file)})
			answers.WriteString(got.Body)
			if left := storage.Left(); got.Status != http.StatusOK || len(left) != 1 || left[0] != file {
				t.Fatalf("got %d %s, and %q is there", got.Status, got.Body, left)
			}

			storage.Cut(1000) // a connection that breaks is nobody's business
			got = call("bob", "/admin/v1/import", map[string]any{"data_orgsv1_" + name: at(file)})
			answers.WriteString(got.Body)
			if names := c.Value("SELECT string_agg(name, ' ' ORDER BY name) FROM organizations WHERE instance_id = $1", c.Instance("b")); got.Status != http.StatusOK || names != "A B" {
				t.Fatalf("got %d %s, and %s are there", got.Status, got.Body, names)
			}

			for field, refused := range map[string]servertest.Reply{
				name + "_output.bucket":         call("owner", "/admin/v1/export", map[string]any{name + "_output": with(at("x"), "bucket", "nowhere")}),
				"data_orgsv1_" + name + ".path": call("bob", "/admin/v1/import", map[string]any{"data_orgsv1_" + name: at("nothing/here")}),
			} {
				answers.WriteString(refused.Body)
				if refused.Status != http.StatusBadRequest || !strings.Contains(refused.Body, `"`+field+`"`) {
					t.Errorf("%s: got %d %s", field, refused.Status, refused.Body)
				}
			}
			if left := storage.Left(); len(left) != 1 {
				t.Errorf("%q is there", left)
			}

			rows := c.Value("SELECT coalesce(string_agg(to_jsonb(e)::text, ' '), '') FROM events e") + c.Value("SELECT coalesce(string_agg(to_jsonb(o)::text, ' '), '') FROM operations o")
			_, all := log.requests(t)
			if all == "" || len(rows) < 1000 {
				t.Error("there is nothing to look into")
			}
			for where, text := range map[string]string{"the answers": answers.String(), "the log": all, "the database": rows} {
				for _, secret := range secrets(storage.Place("")) {
					if strings.Contains(text, secret) {
						t.Errorf("%s hold %s", where, secret)
					}
				}
			}
		})
	}
}

// members are a place as a request has it.
func members(at objectstore.Place) map[string]any {
	if at.Kind == objectstore.GCS {
		return map[string]any{"path": at.Path, "bucket": at.Bucket, "serviceaccount_json": base64.StdEncoding.EncodeToString(at.ServiceAccount)}
	}
	return map[string]any{"path": at.Path, "bucket": at.Bucket, "endpoint": at.Endpoint, "access_key_id": at.AccessKeyID, "secret_access_key": at.SecretAccessKey, "insecure": at.Insecure}
}

func with(members map[string]any, name, value string) map[string]any {
	members[name] = value
	return members
}

// secrets are what of a place nobody else may see.
func secrets(at objectstore.Place) []string {
	if at.Kind == objectstore.S3 {
		return []string{at.AccessKeyID, at.SecretAccessKey}
	}
	var account map[string]string
	_ = json.Unmarshal(at.ServiceAccount, &account)
	return []string{base64.StdEncoding.EncodeToString(at.ServiceAccount)[:60], account["client_email"], account["private_key"][30:90]}
}
