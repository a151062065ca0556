package signing_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/writ-id/writ/impl/core/cache"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/signing"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/store/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const instance = "tenant"

// world is two nodes on one database, with a clock that only the test moves.
type world struct {
	*testing.T
	mu    sync.Mutex
	at    time.Time
	nodes [2]*signing.Set
	db    *store.DB
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, at: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	url := pgtest.New(t)
	master, err := secret.NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	for i := range w.nodes {
		db := pgtest.Connect(t, url, 4)
		env := resource.Env{DB: db, Now: w.now, NewID: func() string { return uuid.Must(uuid.NewV7()).String() }, Memory: &cache.Memory{}}
		w.nodes[i], w.db = signing.NewSet(&signing.Keeper{Env: env, Sealer: master}), db
	}
	if _, err := w.db.Pool.Exec(t.Context(), `INSERT INTO instances (id, name, name_folded, sequence, creation_date, change_date) VALUES ($1, $1, $1, 1, now(), now())`, instance); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

// pass moves the clock and lets a node do what is due.
func (w *world) pass(d time.Duration) {
	w.Helper()
	w.mu.Lock()
	w.at = w.at.Add(d)
	w.mu.Unlock()
	w.tend(signing.Rotation{})
}

func (w *world) tend(r signing.Rotation) {
	w.Helper()
	if err := w.nodes[0].Keeper.Tend(w.Context(), instance, r); err != nil {
		w.Fatal(err)
	}
	for _, node := range w.nodes {
		node.Keeper.Invalidate()
	}
}

// get returns what a node knows, and the IDs of the keys it publishes.
func (w *world) get(node int) (*signing.Published, []string) {
	w.Helper()
	keys, err := w.nodes[node].Get(w.Context(), instance)
	if err != nil {
		w.Fatal(err)
	}
	var set struct {
		Keys []struct {
			ID string `json:"kid"`
		} `json:"keys"`
	}
	if err := json.Unmarshal(keys.Document, &set); err != nil {
		w.Fatal(err)
	}
	var ids []string
	for _, key := range set.Keys {
		ids = append(ids, key.ID)
	}
	return keys, ids
}

func (w *world) sign(node int) (token, keyID string) {
	w.Helper()
	keys, _ := w.get(node)
	token, err := keys.Signer("").Sign(signing.IDToken, []byte(`{"sub":"ada"}`))
	if err != nil {
		w.Fatal(err)
	}
	return token, keys.Signer("").ID
}

// verifies reports whether a node takes a token for its own.
func (w *world) verifies(node int, token, keyID string, algorithm signing.Algorithm) bool {
	w.Helper()
	keys, _ := w.get(node)
	input, signature := w.parts(token)
	return keys.Verify(keyID, algorithm, input, signature)
}

// isHint reports whether a node takes an RS256 token for a hint of its own.
func (w *world) isHint(node int, token, keyID string) bool {
	w.Helper()
	keys, _ := w.get(node)
	input, signature := w.parts(token)
	return keys.VerifyHint(keyID, signing.RS256, input, signature)
}

func (w *world) parts(token string) (input, signature []byte) {
	w.Helper()
	end := strings.LastIndexByte(token, '.')
	signature, err := base64.RawURLEncoding.DecodeString(token[end+1:])
	if err != nil {
		w.Fatal(err)
	}
	return []byte(token[:end]), signature
}

func TestEveryAlgorithmSignsWhatItVerifies(t *testing.T) {
	t.Parallel()
	for _, algorithm := range signing.Algorithms {
		t.Run(string(algorithm), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.tend(signing.Rotation{Algorithm: algorithm})
			token, id := w.sign(0)
			if !w.verifies(1, token, id, algorithm) {
				t.Error("the other node does not verify it")
			}
			header, _ := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[0])
			if want := `{"alg":"` + string(algorithm) + `","kid":"` + id + `","typ":"JWT"}`; string(header) != want {
				t.Errorf("got the header %s, want %s", header, want)
			}
			for _, other := range append([]signing.Algorithm{"none", "HS256", ""}, signing.Algorithms...) {
				if other != algorithm && w.verifies(1, token, id, other) {
					t.Errorf("it verifies as %q", other)
				}
			}
			if w.verifies(1, token, "another", algorithm) {
				t.Error("it verifies by a key that is not there")
			}
			spoilt := token[:len(token)-4] + strings.Map(func(r rune) rune {
				if r == 'A' {
					return 'B'
				}
				return 'A'
			}, token[len(token)-4:])
			if w.verifies(1, spoilt, id, algorithm) {
				t.Error("a spoilt signature verifies")
			}
		})
	}
}

// TestREL060_AKeyIsPublishedBeforeItSignsAndVerifiesUntilItsTokensAreGone follows
// one rotation.
func TestREL060_AKeyIsPublishedBeforeItSignsAndVerifiesUntilItsTokensAreGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tend(signing.Rotation{})
	old, first := w.sign(0)
	w.pass(28 * 24 * time.Hour)
	if _, ids := w.get(1); len(ids) != 1 {
		t.Fatalf("after four weeks there are %v, want the first key alone", ids)
	}
	w.pass(30 * time.Hour) // less than a day is left
	_, ids := w.get(1)
	if len(ids) != 2 || ids[0] != first {
		t.Fatalf("a day before the end there are %v, want the first key and its successor", ids)
	}
	if _, signs := w.sign(0); signs != first {
		t.Error("the successor signs already")
	}
	w.pass(24 * time.Hour)
	for node := range w.nodes {
		if _, signs := w.sign(node); signs != ids[1] {
			t.Errorf("node %d signs by %s, want the successor", node, signs)
		}
		if !w.verifies(node, old, first, signing.RS256) {
			t.Errorf("node %d does not verify what the first key signed", node)
		}
	}
	w.pass(14 * time.Hour)
	if _, ids := w.get(0); len(ids) != 1 || ids[0] == first {
		t.Errorf("the first key should have left the set, there are %v", ids)
	}
	if w.verifies(0, old, first, signing.RS256) {
		t.Error("what the past key signed verifies")
	}
	if !w.isHint(1, old, first) {
		t.Error("an ID token of the past key is no hint")
	}
	var private int
	if err := w.db.Pool.QueryRow(t.Context(), "SELECT length(private_key) FROM signing_keys WHERE id = $1", first).Scan(&private); err != nil || private != 0 {
		t.Errorf("the past key has %d bytes of a private part: %v", private, err)
	}
	for range 13 { // successors come and go
		w.pass(7 * 24 * time.Hour)
	}
	if w.isHint(0, old, first) {
		t.Error("an ID token is a hint after three months")
	}
}

func TestAForcedRotationPublishesFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tend(signing.Rotation{})
	_, first := w.sign(0)
	w.tend(signing.Rotation{Force: true, Algorithm: signing.ES256})
	if _, signs := w.sign(0); signs != first {
		t.Error("the new key signs before verifiers can know it")
	}
	keeper := w.nodes[0].Keeper
	if err := keeper.Tend(t.Context(), instance, signing.Rotation{Force: true}); !errors.Is(err, signing.ErrWaiting) {
		t.Errorf("a second rotation, which does nothing: got %v, want it to say so", err)
	}
	w.pass(signing.CacheFor)
	if _, signs := w.sign(0); signs != first {
		t.Error("the new key signs as soon as caches expire, without a margin")
	}
	w.pass(signing.CacheFor)
	token, signs := w.sign(1)
	if signs == first || !w.verifies(0, token, signs, signing.ES256) {
		t.Errorf("after ten minutes %s signs, want the new key", signs)
	}
}

func TestARevokedKeyIsGoneAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tend(signing.Rotation{})
	token, first := w.sign(0)
	if err := w.nodes[0].Keeper.Revoke(t.Context(), instance, first); err != nil {
		t.Fatal(err)
	}
	if _, signs := w.sign(0); signs == first {
		t.Error("the revoked key signs")
	}
	if w.verifies(0, token, first, signing.RS256) {
		t.Error("what it signed verifies")
	}
	if err := w.nodes[0].Keeper.Revoke(t.Context(), instance, first); err == nil {
		t.Error("it is revoked twice")
	}
	for asked := 0; w.verifies(1, token, first, signing.RS256); time.Sleep(10 * time.Millisecond) {
		if asked++; asked > 300 {
			t.Fatal("the other node did not see it (REL-063)")
		}
	}
}

// TestREL062_NodesThatStartTogetherAgreeOnTheFirstKey asks both for it at once.
func TestREL062_NodesThatStartTogetherAgreeOnTheFirstKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var signers sync.Map
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			keys, err := w.nodes[i%2].Get(t.Context(), instance)
			if err != nil {
				t.Error(err)
				return
			}
			signers.Store(keys.Signer("").ID, true)
		})
	}
	all.Wait()
	n := 0
	signers.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d keys sign, want one", n)
	}
}

// TestREL061_AnOutageLeavesTheKeys closes the database under a node.
func TestREL061_AnOutageLeavesTheKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tend(signing.Rotation{})
	_, id := w.sign(1)
	w.nodes[1].Keeper.DB.Close()
	w.nodes[1].Keeper.Invalidate()
	if _, signs := w.sign(1); signs != id {
		t.Errorf("got %s, want the key that was known", signs)
	}
}

func TestSEC310_PrivateKeysAreSealed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tend(signing.Rotation{})
	var private []byte
	if err := w.db.Pool.QueryRow(t.Context(), "SELECT private_key FROM signing_keys").Scan(&private); err != nil {
		t.Fatal(err)
	}
	if len(private) < 1000 || strings.Contains(string(private), "\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01") { // rsaEncryption
		t.Error("the private key is readable in the database")
	}
}

func BenchmarkSign(b *testing.B) {
	for _, algorithm := range signing.Algorithms {
		b.Run(string(algorithm), func(b *testing.B) {
			key, err := signing.NewTestKey(algorithm)
			if err != nil {
				b.Fatal(err)
			}
			claims := []byte(`{"iss":"https://login.example.com","sub":"019ad2c4-5f0e-7b31-9c55-2f6d1f0a7e42","aud":["a"],"exp":1893456000,"iat":1893452400}`)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := key.Sign(signing.IDToken, claims); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
