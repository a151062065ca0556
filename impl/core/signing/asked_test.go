package signing_test

import (
	"testing"
	"time"

	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/core/signing"
)

const (
	rs256 = object.SignatureAlgorithm_SIGNATURE_ALGORITHM_RS256
	es256 = object.SignatureAlgorithm_SIGNATURE_ALGORITHM_ES256
	eddsa = object.SignatureAlgorithm_SIGNATURE_ALGORITHM_EDDSA
)

// ask has one application ask for each of algorithms, and no other.
func (w *world) ask(algorithms ...object.SignatureAlgorithm) {
	w.Helper()
	const rows = `
		WITH org AS (INSERT INTO organizations (instance_id, id, name, name_folded, sequence, creation_date, change_date)
			VALUES ($1, 'o', 'o', 'o', 1, now(), now()) ON CONFLICT DO NOTHING),
		project AS (INSERT INTO projects (instance_id, id, org_id, name, name_folded, project_role_assertion, project_role_check, has_project_check, state, sequence, creation_date, change_date)
			VALUES ($1, 'p', 'o', 'p', 'p', false, false, false, 1, 1, now(), now()) ON CONFLICT DO NOTHING)
		INSERT INTO apps (instance_id, id, org_id, project_id, name, name_folded, type, state, client_id, auth_method_type, redirect_uris, post_logout_redirect_uris, response_types, grant_types, application_type,
			development_mode, access_token_type, access_token_role_assertion, id_token_role_assertion, id_token_userinfo_assertion, clock_skew_nanos, additional_origins, sequence, creation_date, change_date, id_token_signed_response_alg)
		SELECT $1, a::text, 'o', 'p', a::text, a::text, 1, 1, a::text, 1, '{}', '{}', '{}', '{}', 1, false, 1, false, false, false, 0, '{}', 1, now(), now(), a FROM unnest($2::smallint[]) a`
	if _, err := w.db.Pool.Exec(w.Context(), "DELETE FROM apps WHERE instance_id = $1", instance); err != nil {
		w.Fatal(err)
	}
	numbers := []int16{0} // of one that takes what comes
	for _, algorithm := range algorithms {
		numbers = append(numbers, int16(algorithm))
	}
	if _, err := w.db.Pool.Exec(w.Context(), rows, instance, numbers); err != nil {
		w.Fatal(err)
	}
}

// signs returns with which key nodes sign for who asks for an algorithm, after proving that
// both take the same, publish it and verify by it.
func (w *world) signs(asked signing.Algorithm) (algorithm signing.Algorithm, id string) {
	w.Helper()
	keys, _ := w.get(0)
	other, published := w.get(1)
	key := keys.Signer(asked)
	if key.ID != other.Signer(asked).ID {
		w.Errorf("the nodes sign for %q with %s and %s", asked, key.ID, other.Signer(asked).ID)
	}
	token, err := key.Sign(signing.IDToken, []byte(`{}`))
	if err != nil {
		w.Fatal(err)
	}
	if !w.verifies(1, token, key.ID, key.Algorithm) {
		w.Errorf("what is signed for %q by %s does not verify: published are %v", asked, key.ID, published)
	}
	return key.Algorithm, key.ID
}

func (w *world) wantSigned(when string, asked, want signing.Algorithm) (id string) {
	w.Helper()
	algorithm, id := w.signs(asked)
	if algorithm != want {
		w.Errorf("%s %s signs for who asks for %q, want %s", when, algorithm, asked, want)
	}
	return id
}

// TestREL060_AKeyThatAnApplicationAsksForIsPublishedBeforeItSigns has applications ask in an
// instance whose verifiers know its keys.
func TestREL060_AKeyThatAnApplicationAsksForIsPublishedBeforeItSigns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tend(signing.Rotation{})
	w.ask(es256, rs256)
	w.pass(time.Minute)
	if _, ids := w.get(1); len(ids) != 2 {
		t.Errorf("published are %v, want one of each algorithm", ids)
	}
	w.wantSigned("at first", signing.ES256, signing.RS256)
	w.pass(signing.CacheFor)
	w.wantSigned("as soon as caches expire", signing.ES256, signing.RS256)
	w.pass(signing.CacheFor)
	w.wantSigned("after ten minutes", signing.ES256, signing.ES256)
	own := w.wantSigned("after ten minutes", "", signing.RS256)
	if asked := w.wantSigned("after ten minutes", signing.RS256, signing.RS256); asked != own {
		t.Errorf("%s signs for who asks for what the instance has, want its own", asked)
	}
	w.wantSigned("of what nobody asked", signing.EdDSA, signing.RS256)
}

func TestWhatIsAskedBeforeThereAreKeysSignsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ask(es256, eddsa)
	w.wantSigned("at once", signing.ES256, signing.ES256)
	w.wantSigned("at once", signing.EdDSA, signing.EdDSA)
	w.wantSigned("at once", "", signing.RS256)
	w.pass(time.Hour) // which makes nothing more
	if _, ids := w.get(0); len(ids) != 3 {
		t.Errorf("published are %v, want one of each algorithm", ids)
	}
}

// TestREL060_KeysThatApplicationsAskForFollowOneAnother passes half a year in hours, and a month
// in which no node runs.
func TestREL060_KeysThatApplicationsAskForFollowOneAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ask(es256)
	known, tokens := map[string]time.Time{}, map[string]string{}
	signed := 0
	look := func() {
		t.Helper()
		_, published := w.get(0)
		for _, id := range published {
			if _, ok := known[id]; !ok {
				known[id] = w.now()
			}
		}
		id := w.wantSigned("on "+w.now().Format(time.DateOnly), signing.ES256, signing.ES256)
		if _, ok := tokens[id]; ok {
			return
		}
		if signed++; signed > 1 && w.now().Sub(known[id]) < 2*signing.CacheFor {
			t.Errorf("%s signs %s after it was published", id, w.now().Sub(known[id]))
		}
		tokens[id] = id
	}
	for range 180 * 4 {
		look()
		w.pass(6 * time.Hour)
	}
	if signed < 6 {
		t.Errorf("in half a year %d keys signed, want one a month", signed)
	}
	if _, ids := w.get(0); len(ids) > 4 {
		t.Errorf("published are %v: keys do not leave", ids)
	}
	w.mu.Lock()
	w.at = w.at.Add(29*24*time.Hour + 23*time.Hour)
	w.mu.Unlock()
	w.pass(0)
	w.pass(2 * signing.CacheFor)
	w.wantSigned("after a month without nodes", signing.ES256, signing.ES256)
}

// TestWhatNobodyAsksForAnyMoreEnds takes the wish back.
func TestWhatNobodyAsksForAnyMoreEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ask(es256)
	w.wantSigned("at once", signing.ES256, signing.ES256)
	w.ask()
	w.pass(31 * 24 * time.Hour)
	w.wantSigned("after a month", signing.ES256, signing.RS256)
	for range 2 { // the instance's own key has a successor meanwhile, which signs, and then is alone
		w.pass(24 * time.Hour)
	}
	keys, ids := w.get(0)
	for _, id := range ids {
		if keys.Signer("").ID != id {
			t.Errorf("%v are published, want the instance's own alone", ids)
		}
	}
}

// TestARotationToAnotherAlgorithmLeavesApplicationsTheirs goes from what an application asks for
// to another algorithm and back.
func TestARotationToAnotherAlgorithmLeavesApplicationsTheirs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ask(es256)
	w.tend(signing.Rotation{Algorithm: signing.ES256})
	for _, own := range []signing.Algorithm{signing.RS256, signing.ES256, signing.EdDSA} {
		w.tend(signing.Rotation{Force: true, Algorithm: own})
		for range 11 {
			w.wantSigned("while the instance goes over to "+string(own), signing.ES256, signing.ES256)
			w.pass(time.Minute)
		}
		w.wantSigned("for all others", "", own)
	}
}

func TestARevokedKeyOfApplicationsIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ask(es256)
	id := w.wantSigned("at first", signing.ES256, signing.ES256)
	own := w.wantSigned("at first", "", signing.RS256)
	if err := w.nodes[0].Keeper.Revoke(t.Context(), instance, id); err != nil {
		t.Fatal(err)
	}
	w.tend(signing.Rotation{})
	if now := w.wantSigned("after the revocation", signing.ES256, signing.ES256); now == id {
		t.Error("the revoked key signs")
	}
	if now := w.wantSigned("after the revocation", "", signing.RS256); now != own {
		t.Error("the instance's own key went with it")
	}
}
