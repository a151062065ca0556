package user_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/api/user"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/secret"
)

func TestSEC182_PasswordsAreSetByThoseWhoMay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := "/" + w.users["ada"].ID + "/password"
	hash := func() string {
		var hash string
		if err := w.db.Pool.QueryRow(t.Context(), "SELECT password_hash FROM users WHERE id = $1", w.users["ada"].ID).Scan(&hash); err != nil {
			t.Fatal(err)
		}
		return hash
	}
	w.refused("ada", "POST", path, `{"plain":"a new password"}`, 400, "CURRENT_PASSWORD_MISSING")
	w.refused("ada", "POST", path, `{"plain":"a new password","currentPassword":"wrong"}`, 400, "WRONG_PASSWORD")
	w.refused("ada", "POST", path, `{"hash":"$1$saltsalt$RnnG5UBrMMkGcFFQvVFXK1","currentPassword":"correct horse"}`, 403, "HASH_NOT_PERMITTED")
	w.refused("bob", "POST", path, `{"plain":"a new password"}`, 404, "NOT_FOUND")
	if status, answer := w.as("ada", "POST", path, `{"plain":"a new password","currentPassword":"correct horse"}`); status != 200 {
		t.Fatalf("own password: got %d %v", status, answer)
	}
	if ok, err := secret.VerifyPassword(hash(), "a new password"); !ok || err != nil {
		t.Errorf("the new password: %v, %v", ok, err)
	}
	w.refused("owner", "POST", path, `{"plain":"ADA@org.a.example"}`, 400, "PASSWORD_IS_USERNAME")
	w.refused("owner", "POST", path, `{"plain":"short"}`, 400, "INVALID_FIELD")
	w.refused("owner", "POST", path, `{"plain":"`+strings.Repeat("x", 1001)+`"}`, 400, "INVALID_FIELD")
	w.refused("owner", "POST", path, `{"hash":"$argon2id$v=19$m=4194304,t=1,p=1$MDEyMzQ1Njc4OWFiY2RlZg$WESbwAFrAxbti1iLZGcYAsaqfsGUR0CbZsMH8Kxr8fg"}`, 400, "INVALID_HASH")
	// Four times our own is what a login may cost (SEC-183).
	for _, costly := range []string{"$2a$15$" + strings.Repeat("a", 53), "$argon2id$v=19$m=262144,t=1,p=4$MDEyMzQ1Njc4OWFiY2RlZg$WESbwAFrAxbti1iLZGcYAsaqfsGUR0CbZsMH8Kxr8fg"} {
		w.refused("owner", "POST", path, `{"hash":"`+costly+`"}`, 400, "HASH_TOO_COSTLY")
	}
	w.must("POST", path, `{"hash":"$1$saltsalt$RnnG5UBrMMkGcFFQvVFXK1"}`)
	w.must("POST", path, `{"plain":"yet another one","currentPassword":"Correct horse 1","changeRequired":true}`)
	human := w.must("GET", "/"+w.users["ada"].ID, "")["user"].(map[string]any)["human"].(map[string]any)
	if human["passwordChangeRequired"] != true || human["passwordChanged"] == nil {
		t.Errorf("got %v", human)
	}
}

// A password is compared with the hash of somebody else where there is nobody, so that
// names that nobody has take as long as names that somebody has, whatever system their
// hashes are from.
func TestSEC170_ANameThatNobodyHasTakesAsLongAsOneOfOurs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const foreign, password = "$1$saltsalt$RnnG5UBrMMkGcFFQvVFXK1", "Correct horse 1"
	instance, now := w.users["ada"].InstanceID, time.Now()
	decoy := func(name string) string {
		hash, err := db.New().PasswordDecoy(t.Context(), w.db.Pool, db.PasswordDecoyParams{InstanceID: instance, Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return hash
	}
	exec := func(sql string, args ...any) {
		if _, err := w.db.Pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec("UPDATE users SET password_hash = NULL WHERE instance_id = $1", instance)
	if got := decoy("nobody"); got != "" {
		t.Errorf("where nobody has a password: got %v", got)
	}
	exec("UPDATE users SET password_hash = $2 WHERE id = $1", w.users["ada"].ID, foreign)
	for i := range 20 {
		if got := decoy(fmt.Sprint("nobody", i)); got != foreign {
			t.Errorf("got %v", got)
		}
	}
	service := user.New(user.Config{Env: resource.Env{DB: w.db, Now: func() time.Time { return now }}})
	for name, check := range map[string][2]string{"of nobody": {"", "nobody"}, "of somebody without one": {w.users["owner"].ID, "owner"}} {
		if right, err := service.CheckPassword(t.Context(), user.Attempt{InstanceID: instance, UserID: check[0], Name: check[1]}, password); right != nil || err != nil {
			t.Errorf("the password %s is that of somebody else: %v, %v", name, right, err)
		}
	}
	// Some have another hash: some names take as long as that, always the same.
	for i := range 40 {
		exec("INSERT INTO users (SELECT (jsonb_populate_record(u, jsonb_build_object('id', $2::text, 'username', $2::text, 'username_folded', $2::text, 'password_hash', $3::text))).* FROM users u WHERE id = $1)",
			w.users["ada"].ID, fmt.Sprint("copy", i), fmt.Sprint("other", i%2))
	}
	seen := map[string]int{}
	for i := range 100 {
		name := fmt.Sprint("nobody", i)
		first := decoy(name)
		if again := decoy(name); again != first {
			t.Errorf("%s: %v and %v", name, first, again)
		}
		seen[first]++
	}
	if seen["other0"] == 0 || seen["other1"] == 0 {
		t.Errorf("names take as long as %v", seen)
	}
}

// Beyond the last try nobody learns whether a password was right: neither who compares it
// before the tries are used up nor who does afterwards.
func TestSEC176_ARightPasswordIsJudgedWhenItIsUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const hash, password = "$1$saltsalt$RnnG5UBrMMkGcFFQvVFXK1", "Correct horse 1"
	now := time.Now()
	service := user.New(user.Config{Env: resource.Env{DB: w.db, Now: func() time.Time { return now }}})
	by := user.Attempt{InstanceID: w.users["ada"].InstanceID, UserID: w.users["ada"].ID, Hash: hash}
	early, err := service.CheckPassword(t.Context(), by, password)
	if err != nil || early == nil {
		t.Fatalf("the right one: %v", err)
	}
	told := make(chan error, 30)
	for range cap(told) {
		go func() {
			_, err := service.CheckPassword(t.Context(), by, "wrong")
			told <- err
		}()
	}
	wrong := 0
	for range cap(told) {
		if err := <-told; err == nil {
			wrong++
		} else if !errors.Is(err, user.ErrTooMany) {
			t.Fatal(err)
		}
	}
	if wrong != 10 {
		t.Errorf("%d of 30 parallel guesses learnt that they are wrong, want 10", wrong)
	}
	late, err := service.CheckPassword(t.Context(), by, password)
	if err != nil || late == nil {
		t.Fatalf("the right one: %v", err)
	}
	for name, right := range map[string]*user.Right{"compared before": early, "compared after": late} {
		if err := right.Accept(t.Context(), w.db.Pool); !errors.Is(err, user.ErrTooMany) {
			t.Errorf("%s: %v", name, err)
		}
	}
	now = now.Add(11 * time.Minute)
	if err := late.Accept(t.Context(), w.db.Pool); err != nil {
		t.Errorf("when the period is over: %v", err)
	}
	by.Browser = "known"
	if right, err := service.CheckPassword(t.Context(), by, password); err != nil || right.Accept(t.Context(), w.db.Pool) != nil {
		t.Errorf("a browser that has signed the user in before: %v", err)
	}
}

func TestSEC235_NobodyGetsTheMeansToActAsSomebodyWhoHoldsMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owner := "/" + w.users["owner"].ID
	for _, call := range [][2]string{{"/pats", `{}`}, {"/keys", `{}`}, {"/secret", `{}`}} {
		w.refused("orgowner", "POST", owner+call[0], call[1], 403, "USER_HOLDS_MORE")
		w.must("POST", owner+call[0], call[1])
	}
	admin := id(w.must("POST", "", `{"username":"boss","human":{"email":{"address":"boss@x.example"}}}`))
	if _, err := w.db.Pool.Exec(t.Context(), `INSERT INTO memberships (instance_id, id, user_id, level, object_id, roles, sequence, creation_date, change_date)
		VALUES ($1, 'm', $2, 2, $1, '{IAM_OWNER}', 1, now(), now())`, w.users["owner"].InstanceID, admin); err != nil {
		t.Fatal(err)
	}
	w.refused("orgowner", "POST", "/"+admin+"/password", `{"plain":"a new password"}`, 403, "USER_HOLDS_MORE")
	w.refused("orgowner", "PATCH", "/"+admin, `{"human":{"email":{"address":"mine@x.example"}}}`, 403, "USER_HOLDS_MORE")
	made := id(w.must("POST", "", `{"username":"svc","service":{"name":"s"}}`))
	if status, answer := w.as("orgowner", "POST", "/"+made+"/pats", `{}`); status != 201 {
		t.Errorf("a user who holds nothing: got %d %v", status, answer)
	}
}

func TestSEC239_TokensAreShownOnceAndEndWhenTheyShould(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := "/" + id(w.must("POST", "", `{"username":"svc","service":{"name":"s"}}`))
	w.refused("owner", "POST", "/"+w.users["ada"].ID+"/pats", `{}`, 400, "NOT_A_SERVICE")
	w.refused("owner", "POST", path+"/pats", `{"expirationDate":"2020-01-01T00:00:00Z"}`, 400, "EXPIRATION_DATE_PAST")
	expires := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	made := w.must("POST", path+"/pats", `{"name":"n","expirationDate":"`+expires+`"}`)
	token := made["token"].(string)
	if !strings.HasPrefix(token, "writ_pat_") || len(token) != len("writ_pat_")+43 {
		t.Errorf("got %q", token)
	}
	w.refused("owner", "POST", path+"/pats", `{"name":"n"}`, 409, "PAT_NAME_TAKEN")
	good := func(want int) {
		t.Helper()
		if status, _ := w.as(token, "GET", path, ""); status != want {
			t.Errorf("got %d, want %d", status, want)
		}
	}
	good(200)
	if text := fmt.Sprint(w.must("POST", path+"/pats/_search", `[]`)); strings.Contains(text, token) || !strings.Contains(text, "name:n") {
		t.Errorf("got %s", text)
	}
	w.must("POST", path+"/_deactivate", "")
	good(401)
	w.must("POST", path+"/_activate", "")
	good(200)
	w.ahead.Store(int64(2 * time.Hour))
	good(401)
	w.ahead.Store(0)
	good(200)
	w.refused("owner", "DELETE", "/"+w.users["orgowner"].ID+"/pats/"+id(made), "", 404, "NOT_FOUND")
	w.must("DELETE", path+"/pats/"+id(made), "")
	good(401)
	for _, value := range []string{token, base64.StdEncoding.EncodeToString(func() []byte { h := sha256.Sum256([]byte(token)); return h[:] }())} {
		var leaked int
		if err := w.db.Pool.QueryRow(t.Context(), "SELECT count(*) FROM events WHERE strpos(payload::text, $1) > 0", value).Scan(&leaked); err != nil || leaked > 0 {
			t.Errorf("%d events tell the token, %v", leaked, err)
		}
	}
}

func TestOneUsersMetadataIsNotAnothers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, owner := "/"+w.users["ada"].ID, "/"+w.users["owner"].ID
	w.must("PUT", ada+"/metadata/k", `{"value":"YQ=="}`)
	first := w.must("PUT", owner+"/metadata/k", `{"value":"Yg=="}`)
	w.must("PUT", ada+"/metadata/k", `{"value":"Yw=="}`)
	if again := w.must("PUT", owner+"/metadata/k", `{"value":"Yg=="}`); fmt.Sprint(again) != fmt.Sprint(first) {
		t.Errorf("setting what is there: got %v, want %v", again, first)
	}
	w.must("DELETE", ada+"/metadata/k", "")
	if text := fmt.Sprint(w.must("POST", owner+"/metadata/_search", `[{"key":{"text":"k"}}]`)); !strings.Contains(text, "value:Yg==") {
		t.Errorf("got %s", text)
	}
	w.refused("bob", "PUT", ada+"/metadata/k", `{"value":"YQ=="}`, 404, "NOT_FOUND")
	w.must("DELETE", owner, "")
	var events int
	if err := w.db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM events WHERE aggregate_id = $1 AND event_type IN ('user.metadata.removed', 'user.removed', 'user.pat.removed')`,
		w.users["owner"].ID).Scan(&events); err != nil || events != 3 {
		t.Errorf("got %d events of the deletion, %v; want 3", events, err)
	}
}

func TestKeysAreGeneratedOnceOrUploadedAsPublicKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := "/" + id(w.must("POST", "", `{"username":"svc","service":{"name":"s"}}`)) + "/keys"
	for _, kind := range []string{"RSA_2048", "EC_P256"} {
		made := w.must("POST", path, `{"type":"MACHINE_KEY_TYPE_`+kind+`"}`)
		text, err := base64.StdEncoding.DecodeString(made["keyDetails"].(string))
		if err != nil {
			t.Fatal(err)
		}
		var file map[string]string
		if err := json.Unmarshal(text, &file); err != nil || file["type"] != "serviceaccount" || file["keyId"] != made["keyId"] || !strings.Contains(file["key"], "PRIVATE KEY") {
			t.Errorf("got %v, %v", file, err)
		}
		private, _ := json.Marshal(file["key"])
		w.refused("owner", "POST", path, `{"publicKey":`+string(private)+`}`, 400, "INVALID_KEY")
	}
	listed := w.must("POST", path+"/_search", `[]`)["result"].([]any)
	public, _ := json.Marshal(listed[0].(map[string]any)["publicKey"])
	if made := w.must("POST", path, `{"publicKey":`+string(public)+`}`); made["keyDetails"] != "" {
		t.Errorf("got %v", made)
	}
	for _, bad := range []string{`"x"`, `"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"`, `"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"`, string(public[:len(public)-1]) + `x"`} {
		w.refused("owner", "POST", path, `{"publicKey":`+bad+`}`, 400, "INVALID_KEY")
	}
}

func TestSEC059_AClientSecretIsRotatedWithOverlap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := id(w.must("POST", "", `{"username":"svc","service":{"name":"s"}}`))
	stored := func() (current, old []byte, until *time.Time) {
		if err := w.db.Pool.QueryRow(t.Context(), "SELECT secret_hash, old_secret_hash, old_secret_until FROM users WHERE id = $1", user).Scan(&current, &old, &until); err != nil {
			t.Fatal(err)
		}
		return current, old, until
	}
	first := w.must("POST", "/"+user+"/secret", `{}`)
	if first["clientId"] != "svc" || len(first["clientSecret"].(string)) != 43 {
		t.Errorf("got %v", first)
	}
	before, _, _ := stored()
	want := sha256.Sum256([]byte(first["clientSecret"].(string)))
	if string(before) != string(want[:]) {
		t.Error("the stored hash is not that of the secret")
	}
	w.must("POST", "/"+user+"/secret", `{"overlap":"3600s"}`)
	if _, old, until := stored(); string(old) != string(before) || until == nil || time.Until(*until) < 50*time.Minute {
		t.Errorf("got %x until %v", old, until)
	}
	w.must("POST", "/"+user+"/secret", `{}`)
	if _, old, until := stored(); old != nil || until != nil {
		t.Errorf("without overlap: got %x until %v", old, until)
	}
	w.must("DELETE", "/"+user+"/secret", "")
	w.refused("owner", "DELETE", "/"+user+"/secret", "", 400, "NO_SECRET")
}
