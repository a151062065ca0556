package oidc_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/execution"
	"github.com/writ-id/writ/impl/core/secret"
)

// A node that has only the new key knows all that was issued before the exchange.
func TestSEC311_AnExchangedMasterKeyOpensEverything(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.a.signedIn("alice").tokens("web", offline)
	jwt := w.a.signedIn("alice").tokens("jwtweb", "openid").text("access_token")
	w.a.must("POST", "/v3alpha/users/"+w.a.users["alice"].ID+"/totp", "")
	w.a.must("POST", "/resources/v3alpha/idps/gitlab", `{"idp":{"name":"x"},"config":{"clientId":"x","clientSecret":"x"}}`)
	w.a.must("POST", "/resources/v3alpha/smtp_providers", `{"name":"x","senderAddress":"a@b.example","smtp":{"host":"b.example:587","user":"u","password":"x"}}`)
	w.a.must("POST", "/resources/v3alpha/sms_providers", `{"name":"x","http":{"endpoint":"https://b.example/"}}`)
	target := w.a.receive("restWebhook", `,"interruptOnError":true`) // without its key it fails
	w.a.function("preuserinfo", target)
	w.a.must("POST", "/resources/v3alpha/targets/"+target.id+"/_rotate_signing_key", "{}")
	export := w.a.must("POST", "/admin/v1/export", `{"response_output":true,"async":true}`)
	for state := ""; state != "OPERATION_STATE_SUCCEEDED"; time.Sleep(10 * time.Millisecond) {
		if state, _ = w.a.must("GET", "/admin/v1/operations/"+export["id"].(string), "")["state"].(string); state == "OPERATION_STATE_FAILED" {
			t.Fatal("the export failed")
		}
	}

	master := w.sealer.(*secret.MasterKey)
	for _, step := range []func(*secret.MasterKey) (*secret.MasterKey, error){(*secret.MasterKey).Add, (*secret.MasterKey).Switch} {
		var err error
		if master, err = step(master); err != nil {
			t.Fatal(err)
		}
	}
	for _, one := range storage.Sealed {
		n, err := one.Reseal(t.Context(), w.db, master)
		if err != nil || n == 0 {
			t.Errorf("%s: %d were sealed anew: %v", one.What, n, err)
		}
	}
	only, err := master.Drop()
	if err != nil {
		t.Fatal(err)
	}
	var old []byte
	if err := w.db.Pool.QueryRow(t.Context(), "SELECT old_signing_key FROM targets WHERE id = $1", target.id).Scan(&old); err != nil {
		t.Fatal(err)
	}
	if _, err := only.Open(old, execution.KeyPlace(w.a.instance(), target.id)); err != nil {
		t.Errorf("the key of a target that was rotated: %v", err)
	}
	w.start(only)
	fresh := w.a.on(2)
	for name, text := range map[string]string{"opaque": alice.text("access_token"), "JWT": jwt} {
		if !fresh.active("api", text) {
			t.Errorf("an access token (%s) of before is not active", name)
		}
	}
	if got := fresh.userinfo(jwt); got.Status != 200 || len(target.bodies()) == 0 {
		t.Errorf("a target is called with no key of before: %d %s", got.Status, got.Text)
	}
	w.a.must("DELETE", "/resources/v3alpha/executions/function.preuserinfo", "") // the other nodes have the old key only
	next := fresh.refresh("web", alice.text("refresh_token"))
	if !w.a.active("api", w.a.granted("a refresh", next)) {
		t.Error("the other nodes do not know what it issues")
	}
	again, _ := claims(next.text("id_token"))
	if before, _ := claims(alice.text("id_token")); again["kid"] != before["kid"] {
		t.Errorf("it signs by %v, not by %v", again["kid"], before["kid"])
	}
}

// Whoever adds a column with bytes says here whether the master key seals it.
func TestSEC311_EveryColumnOfSecretsIsSealedAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	known := []string{ // hashes, and what is no secret
		"apps.old_secret_hash", "apps.secret_hash", "one_time_codes.hash", "one_time_codes.salt", "personal_access_tokens.token_hash",
		"sessions.token_hash", "master_keys.proof", "setting_images.content", "used_assertions.hash", "user_codes.hash", "user_codes.salt", "user_metadata.value", "users.old_secret_hash", "users.secret_hash",
	}
	rows, err := w.db.Pool.Query(t.Context(), `SELECT table_name || '.' || column_name FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
		WHERE table_schema = 'public' AND data_type = 'bytea' AND table_type = 'BASE TABLE'`)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range storage.Sealed {
		for _, column := range one.Columns {
			known = append(known, one.Table+"."+column)
		}
	}
	slices.Sort(found)
	slices.Sort(known)
	if !slices.Equal(found, known) {
		t.Errorf("got  %v\nwant %v", found, known)
	}
}
