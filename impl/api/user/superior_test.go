package user_test

import "testing"

// TestSEC298_NoUsernameReadsLikeSomebodysAddress: with an @ it ends in a verified domain of
// the organization, when a user is created and when they are renamed.
func TestSEC298_NoUsernameReadsLikeSomebodysAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"ada@a.example", "x@org.b.example", "x@sub.org.a.example", "x@", "x@org.a.example@else.example"} {
		for _, who := range []string{"owner", "orgowner"} {
			w.refused(who, "POST", "", `{"username":"`+name+`","human":{}}`, 400, "INVALID_USERNAME")
			w.refused(who, "PATCH", "/"+w.users["ada"].ID, `{"username":"`+name+`"}`, 400, "INVALID_USERNAME")
		}
	}
	w.must("POST", "", `{"username":"x@org.a.example","human":{}}`)
	w.must("PATCH", "/"+w.users["ada"].ID, `{"username":"ada@ORG.a.example"}`)
}

// TestSEC174_WhoseWordForAnAddressCounts: what an organization's administrator vouches for
// counts there; for the whole instance who has a say in it, or over the domain.
func TestSEC174_WhoseWordForAnAddressCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	proven := func(name string) (proven bool) {
		t.Helper()
		if err := w.db.Pool.QueryRow(t.Context(), "SELECT is_email_verified AND is_email_proven FROM users WHERE username = $1", name).Scan(&proven); err != nil {
			t.Fatal(err)
		}
		return proven
	}
	for _, test := range []struct {
		who, name, address string
		want               bool
	}{
		{"owner", "one", "one@mail.example", true},
		{"orgowner", "two", "two@mail.example", false},
		{"orgowner", "three", "three@org.a.example", true},
		{"bob", "four", "ada@a.example", false},
	} {
		status, got := w.as(test.who, "POST", "?ctx.orgId="+w.users[test.who].OrgID, `{"username":"`+test.name+`","human":{"email":{"address":"`+test.address+`","isVerified":true}}}`)
		if status != 201 || proven(test.name) != test.want {
			t.Errorf("%s vouches for %s: %d %v, proven %t, want %t", test.who, test.address, status, got, proven(test.name), test.want)
		}
	}
	var two string
	if err := w.db.Pool.QueryRow(t.Context(), "SELECT id FROM users WHERE username = 'two'").Scan(&two); err != nil {
		t.Fatal(err)
	}
	if status, got := w.as("orgowner", "PATCH", "/"+two, `{"human":{"email":{"address":"other@mail.example","isVerified":true}}}`); status != 200 || proven("two") {
		t.Errorf("a patch: %d %v, proven %t", status, got, proven("two"))
	}
	w.must("PATCH", "/"+two, `{"human":{"email":{"address":"third@mail.example","isVerified":true}}}`)
	if !proven("two") {
		t.Error("the word of the instance's owner does not count")
	}
	if status, got := w.as("orgowner", "PATCH", "/"+two, `{"human":{"email":{"isVerified":true},"profile":{"nickName":"T"}}}`); status != 200 || !proven("two") {
		t.Errorf("saying so again takes it back: %d %v", status, got)
	}
}

// TestSEC235_NobodyActsOnASuperior: who could not give the roles that a user holds changes
// nothing of the user, nor of what is theirs: name, state, password, factors, keys, tokens,
// metadata, sessions.
func TestSEC235_NobodyActsOnASuperior(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owner := "/" + w.users["owner"].ID
	pat := w.must("POST", owner+"/pats", `{}`)
	key := w.must("POST", owner+"/keys", `{}`)
	w.must("POST", owner+"/secret", `{}`)
	w.must("PUT", owner+"/metadata/k", `{"value":"dg=="}`)
	id := func(made map[string]any) string { return made["details"].(map[string]any)["id"].(string) }
	var before, after string
	snapshot := func(into *string) {
		t.Helper()
		if err := w.db.Pool.QueryRow(t.Context(), `SELECT (SELECT to_jsonb(u)::text FROM users u WHERE id = $1) || (SELECT count(*) FROM events)
			|| (SELECT count(*) FROM personal_access_tokens) || (SELECT count(*) FROM machine_keys) || (SELECT count(*) FROM user_metadata)`, w.users["owner"].ID).Scan(into); err != nil {
			t.Fatal(err)
		}
	}
	snapshot(&before)
	for _, call := range [][3]string{
		{"PATCH", owner, `{"username":"humbled"}`}, {"PATCH", owner, `{"service":{"name":"Humbled"}}`}, {"DELETE", owner, ""},
		{"POST", owner + "/_lock", ""}, {"POST", owner + "/_deactivate", ""},
		{"PUT", owner + "/metadata/k", `{"value":"eA=="}`}, {"DELETE", owner + "/metadata/k", ""},
		{"POST", owner + "/pats", `{}`}, {"DELETE", owner + "/pats/" + id(pat), ""},
		{"POST", owner + "/keys", `{}`}, {"DELETE", owner + "/keys/" + id(key), ""},
		{"POST", owner + "/secret", `{}`}, {"DELETE", owner + "/secret", ""},
	} {
		if status, got := w.as("orgowner", call[0], call[1], call[2]); status != 403 {
			t.Errorf("%s %s %s: %d %v, want 403", call[0], call[1], call[2], status, got)
		}
	}
	snapshot(&after)
	if before != after {
		t.Errorf("something has changed:\n%s\n%s", before, after)
	}
	w.as("orgowner", "PATCH", "/"+w.users["ada"].ID, `{"human":{"profile":{"nickName":"A"}}}`)
}
