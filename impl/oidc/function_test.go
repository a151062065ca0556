package oidc_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// receiver is a target of functions.
type receiver struct {
	*side
	id, url string

	mu     sync.Mutex
	answer func(w http.ResponseWriter, body []byte)
	got    []string
}

// says answers with a text.
func says(status int, text string) func(http.ResponseWriter, []byte) {
	return func(w http.ResponseWriter, _ []byte) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// receive makes a target; more are further members of it.
func (s *side) receive(kind, more string) *receiver {
	s.Helper()
	r := &receiver{side: s, answer: says(http.StatusOK, "")}
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.got = append(r.got, string(body))
		answer := r.answer
		r.mu.Unlock()
		answer(w, body)
	}))
	s.Cleanup(listener.Close)
	r.url = listener.URL
	made := s.must(http.MethodPost, "/resources/v3alpha/targets", `{"name":%q,%q:{"url":%q},"timeout":"20s"%s}`, newID(), kind, r.url, more)
	r.id = made["details"].(map[string]any)["id"].(string)
	return r
}

// set changes what is answered.
func (r *receiver) set(answer func(http.ResponseWriter, []byte)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer, r.got = answer, nil
}

// bodies returns what came since set.
func (r *receiver) bodies() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// function makes the execution of a function.
func (s *side) function(name string, targets ...*receiver) {
	s.Helper()
	var ids []string
	for _, target := range targets {
		ids = append(ids, target.id)
	}
	list, _ := json.Marshal(ids)
	s.must(http.MethodPost, "/resources/v3alpha/executions", `{"condition":{"function":%q},"targets":%s}`, name, list)
}

// road is a way to claims.
type road struct {
	name, function, user, app string
	// ask returns the claims, or the refusal. What it uses up it makes first, so that
	// no function is asked for that.
	ask func() (map[string]any, *answer)
}

// roads are all of them, with what they need made before functions are there. Each may be
// asked again after a failure, with the same code or refresh token.
func (s *side) roads() []*road {
	s.Helper()
	alice := s.signedIn("alice")
	const wide = "openid email offline_access"
	token := alice.tokens("web", wide)
	jwt := alice.tokens("jwtweb", wide)
	body := func(of string) func(*answer) map[string]any {
		return func(got *answer) map[string]any {
			_, body := claims(got.text(of))
			return body
		}
	}
	whole := func(got *answer) map[string]any { return got.Body }
	var list []*road
	add := func(name, function, user, app string, send func() *answer, read func(*answer) map[string]any) {
		list = append(list, &road{name, function, user, app, func() (map[string]any, *answer) {
			got := send()
			if got.Status != http.StatusOK || got.text("error") != "" {
				return nil, got
			}
			return read(got), got
		}})
	}
	code, jwtCode := alice.code("web", "scope", wide), alice.code("jwtweb", "scope", wide)
	add("ID token of a code", "preuserinfo", "alice", "web", func() *answer { return s.redeem("web", code) }, body("id_token"))
	add("ID token of a refresh token", "preuserinfo", "alice", "web", func() *answer { return s.refresh("web", token.text("refresh_token")) }, body("id_token"))
	access := token.text("access_token")
	exchange := func(changes ...string) func() *answer {
		return func() *answer { return s.exchange("web", append([]string{"subject_token", access}, changes...)...) }
	}
	add("ID token beside an exchanged one", "preuserinfo", "alice", "web", exchange(), body("id_token"))
	add("ID token by exchange", "preuserinfo", "alice", "web", exchange("requested_token_type", typeID), body("access_token"))
	add("JWT by exchange", "preaccesstoken", "alice", "web", exchange("requested_token_type", typeJWT), body("access_token"))
	byKey := func(name string) func() *answer {
		return func() *answer {
			return s.form(tokenPath, pairs("grant_type", grantJWT, "scope", "openid", "assertion", s.assertion(name, nil)))
		}
	}
	add("ID token of the JWT profile", "preuserinfo", "robot", "", byKey("robot"), body("id_token"))
	add("JWT of the JWT profile", "preaccesstoken", "jwtrobot", "", byKey("jwtrobot"), body("access_token"))
	add("JWT of client credentials", "preaccesstoken", "jwtrobot", "", func() *answer { return s.service("jwtrobot", "openid") }, body("access_token"))
	add("JWT of a code", "preaccesstoken", "alice", "jwtweb", func() *answer { return s.redeem("jwtweb", jwtCode) }, body("access_token"))
	add("JWT of a refresh token", "preaccesstoken", "alice", "jwtweb", func() *answer { return s.refresh("jwtweb", jwt.text("refresh_token")) }, body("access_token"))
	for kind, place := range map[string]string{"id_token": "implicit, alone", "id_token token": "implicit"} {
		add("ID token, "+place, "preuserinfo", "alice", "implicit", func() *answer {
			got := &answer{Status: http.StatusOK, Body: map[string]any{}}
			for name, value := range alice.authorize("implicit", "response_type", kind) {
				got.Body[name] = value[0]
			}
			got.Text = fmt.Sprint(got.Body)
			return got
		}, body("id_token"))
	}
	add("userinfo", "preuserinfo", "alice", "web", func() *answer { return s.userinfo(access) }, whole)
	add("userinfo by POST", "preuserinfo", "alice", "web", func() *answer { return s.form(userinfoPath, pairs("access_token", access)) }, whole)
	add("userinfo of a JWT", "preuserinfo", "alice", "jwtweb", func() *answer { return s.userinfo(jwt.text("access_token")) }, whole)
	add("introspection", "preuserinfo", "alice", "api", func() *answer { return s.introspect("api", access) }, whole)
	return list
}

const everything = `{
	"set_user_metadata":[{"key":"seen","value":"eWVz"},{"key":"tier","value":"c2lsdmVy"}],
	"append_claims":[
		{"key":"tier","value":{"level":[1,"x",true,{}],"big":9007199254740991}},{"key":"https://claims.example/<&>","value":"<&>"},{"key":"nothing","value":null},
		{"key":"tier","value":"second"},{"key":"Sub","value":"mallory"},
		{"key":"sub","value":"mallory"},{"key":"exp","value":1},{"key":"email","value":"mallory@mail.example"},{"key":"phone_number","value":"0"},
		{"key":"client_id","value":"other"},{"key":"active","value":false},{"key":"act","value":{"sub":"mallory"}},{"key":"scope","value":"openid more"},
		{"key":"urn:service:iam:org:project:roles","value":{"writer":{}}},{"key":"urn:service:iam:action:preuserinfo:log","value":["forged"]}
	],
	"append_log_claims":["first line"]}`

func TestFunctionsAddClaimsOnEveryRoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	roads := w.a.roads()
	before := map[string]map[string]any{}
	other := w.b.signedIn("alice").tokens("web", "openid").text("access_token")
	for _, name := range []string{"userinfo", "introspection"} { // which use nothing up
		i := slices.IndexFunc(roads, func(one *road) bool { return one.name == name })
		before[name], _ = roads[i].ask()
	}
	target := w.a.receive("restRequestResponse", `,"interruptOnError":true`)
	w.a.function("preuserinfo", target)
	w.a.function("preaccesstoken", target)
	for _, one := range roads {
		target.set(says(http.StatusOK, everything))
		got, refusal := one.ask()
		if got == nil {
			t.Errorf("%s: got %d %s", one.name, refusal.Status, refusal.Text)
			continue
		}
		user := w.a.users[one.user]
		if tier, _ := json.Marshal(got["tier"]); string(tier) != `{"big":9007199254740991,"level":[1,"x",true,{}]}` || got["https://claims.example/<&>"] != "<&>" {
			t.Errorf("%s: got %v", one.name, got)
		}
		if _, there := got["nothing"]; there || got["sub"] != user.ID || got["phone_number"] != nil || got["urn:service:iam:org:project:roles"] != nil && one.app != "jwtweb" || got["act"] != nil {
			t.Errorf("SEC-039, %s: a reserved claim was written: %v", one.name, got)
		}
		for _, forged := range []any{"mallory@mail.example", "openid more", "other", 1.0, false} {
			if slices.Contains(slices.Collect(maps.Values(got)), forged) && forged != false {
				t.Errorf("SEC-039, %s: %v was written over what there was: %v", one.name, forged, got)
			}
		}
		if one.name == "introspection" && got["active"] != true {
			t.Errorf("SEC-039: active is %v", got["active"])
		}
		log, _ := got["urn:service:iam:action:"+one.function+":log"].([]any)
		if len(log) != 13 || log[0] != "first line" || log[1] != `the claim "tier" is there already` || log[2] != `the claim "Sub" is reserved` {
			t.Errorf("%s: the log is %q", one.name, log)
		}
		for name, value := range before[one.name] {
			if fmt.Sprint(got[name]) != fmt.Sprint(value) {
				t.Errorf("%s: %s was %v, is %v", one.name, name, value, got[name])
			}
		}
		// What the target was told.
		told := map[string]any{}
		for _, body := range target.bodies() {
			one, this := one, map[string]any{}
			if err := json.Unmarshal([]byte(body), &this); err != nil {
				t.Fatal(err)
			}
			if this["function"] == one.function {
				told = this
			}
			for _, secret := range []string{password, refusal.text("access_token"), refusal.text("refresh_token"), refusal.text("id_token"), w.a.apps["web"].Secret, user.Secret, user.Token} {
				if secret != "" && strings.Contains(body, secret) {
					t.Errorf("SEC-310, %s: a secret went out: %s", one.name, body)
				}
			}
		}
		member := func(path string) any {
			var at any = told
			for name := range strings.SplitSeq(path, ".") {
				object, _ := at.(map[string]any)
				at = object[name]
			}
			return at
		}
		if member("userinfo.sub") != user.ID || member("user.id") != user.ID || member("user.username") != one.user || member("user.preferred_login_name") != user.LoginName ||
			member("user.creation_date") == nil || member("user.change_date") == nil || member("org.id") != user.OrgID || member("org.name") != "A" ||
			member("org.primary_domain") != "org-a.example" || member("application.client_id") != nilOr(w.a.apps[one.app].ClientID) || member("actor") != nil {
			t.Errorf("%s: the target was told %v", one.name, told)
		}
		if human := one.user == "alice"; human != (member("user.human.email") == "alice@mail.example") || human == (member("user.service.name") == "Robot") {
			t.Errorf("%s: the user is %v", one.name, member("user"))
		}
		if grants, _ := told["user_grants"].([]any); one.user == "alice" && len(grants) != 2 {
			t.Errorf("%s: the grants are %v", one.name, grants)
		}
	}
	// Tokens with claims of others are good where tokens are.
	mixed := w.a.signedIn("alice").tokens("jwtweb", "openid")
	if _, body := claims(mixed.text("access_token")); body["tier"] == nil {
		t.Error("a token without them")
	}
	if !w.a.active("api", mixed.text("access_token")) || w.a.userinfo(mixed.text("access_token")).Status != http.StatusOK {
		t.Error("an access token with claims of others is not good")
	}
	if got := w.a.exchange("web", "subject_token", mixed.text("id_token"), "subject_token_type", typeID); got.Status != http.StatusOK {
		t.Errorf("an ID token with claims of others: got %d %s", got.Status, got.Text)
	}
	// What was set is there, as everybody sets it; a value that was there already is no event.
	id := w.a.users["alice"].ID
	for key, want := range map[string]string{"seen": "yes", "tier": "silver", "b": "b"} {
		if got := w.value("SELECT convert_from(value, 'UTF8') FROM user_metadata WHERE instance_id = $1 AND user_id = $2 AND id = $3", w.a.instance(), id, key); got != want {
			t.Errorf("metadata %s: got %q, want %q", key, got, want)
		}
	}
	if got := w.value("SELECT count(*)::text FROM events WHERE instance_id = $1 AND aggregate_id = $2 AND event_type = 'user.metadata.set' AND payload->>'key' IN ('seen', 'tier')", w.a.instance(), id); got != "3" {
		t.Errorf("%s events", got) // the one of the seed, and two
	}
	last := target.bodies()[0]
	if want := base64.StdEncoding.EncodeToString([]byte("silver")); !strings.Contains(last, `{"key":"tier","value":"`+want+`"}`) {
		t.Errorf("the target was told %s", last)
	}
	// Of the other instance nobody is asked.
	target.set(says(http.StatusOK, everything))
	if got := w.b.userinfo(other); got.Status != http.StatusOK || got.Body["tier"] != nil || len(target.bodies()) > 0 {
		t.Errorf("the other instance: got %s", got.Text)
	}
}

func nilOr(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func TestFunctionsToldWhoActs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.a.allow()
	subject := w.a.signedIn("alice").tokens("web", "openid").text("access_token")
	actor := w.a.signedIn("manager").tokens("web", "openid").text("access_token")
	target := w.a.receive("restWebhook", "")
	w.a.function("preuserinfo", target)
	w.a.granted("exchange", w.a.exchange("web", "subject_token", subject, "actor_token", actor, "actor_token_type", typeAccess))
	bodies := target.bodies()
	if len(bodies) != 1 || !strings.Contains(bodies[0], `"actor":{"user_id":"`+w.a.users["manager"].ID+`"}`) {
		t.Errorf("got %q", bodies)
	}
}

func TestAFailingFunctionUsesNothingUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	roads := w.a.roads()
	target := w.a.receive("restRequestResponse", `,"interruptOnError":true`)
	after := w.a.receive("restRequestResponse", "")
	w.a.function("preuserinfo", target, after)
	w.a.function("preaccesstoken", target, after)
	failures := []struct {
		name   string
		answer func(http.ResponseWriter, []byte)
	}{
		{"500", says(http.StatusInternalServerError, "private")},
		{"404", says(http.StatusNotFound, "")},
		{"a refusal of its own", says(http.StatusOK, `{"forwardedStatusCode":403,"forwardedErrorMessage":"private"}`)},
		{"no JSON", says(http.StatusOK, "private")},
		{"an unknown member", says(http.StatusOK, `{"append_claims":[],"private":1}`)},
		{"a member twice", says(http.StatusOK, `{"append_claims":[{"key":"a","value":1}],"append_claims":[]}`)},
		{"a claim without a name", says(http.StatusOK, `{"append_claims":[{"key":"","value":1}]}`)},
		{"a claim without a value", says(http.StatusOK, `{"append_claims":[{"key":"a"}]}`)},
		{"metadata that is too long", says(http.StatusOK, `{"set_user_metadata":[{"key":"k","value":"`+base64.StdEncoding.EncodeToString(make([]byte, 51201))+`"}]}`)},
		{"metadata beside a wrong claim", says(http.StatusOK, `{"set_user_metadata":[{"key":"wrong","value":"eWVz"}],"append_claims":[{}]}`)},
		{"claims that are too long", says(http.StatusOK, `{"append_claims":[{"key":"a","value":"`+strings.Repeat("x", 9000)+`"}]}`)},
		{"too many claims", says(http.StatusOK, `{"append_claims":[`+strings.Repeat(`{"key":"a","value":1},`, 100)+`{"key":"b","value":1}]}`)},
		{"a line that is too long", says(http.StatusOK, `{"append_log_claims":["`+strings.Repeat("x", 1001)+`"]}`)},
		{"an array", says(http.StatusOK, `[]`)},
		{"a connection that breaks", func(http.ResponseWriter, []byte) { panic(http.ErrAbortHandler) }},
	}
	ask := func(one *road, failure int) {
		target.set(failures[failure].answer)
		after.set(says(http.StatusOK, `{"append_claims":[{"key":"after","value":true}],"set_user_metadata":[{"key":"after","value":"eWVz"}]}`))
		name := one.name + ", " + failures[failure].name
		got, refusal := one.ask()
		if got != nil || refusal.text("error") != "server_error" || refusal.text("access_token")+refusal.text("id_token") != "" {
			t.Errorf("%s: got %d %s", name, refusal.Status, refusal.Text)
		}
		if strings.Contains(refusal.Text, "private") || strings.Contains(refusal.Text, target.url) || strings.Contains(refusal.Text, target.id) {
			t.Errorf("%s: the refusal tells of the target: %s", name, refusal.Text)
		}
		if len(after.bodies()) > 0 {
			t.Errorf("%s: the next target was asked", name)
		}
	}
	for i, one := range roads {
		ask(one, 0)
		ask(one, i%len(failures))
	}
	for failure := range failures {
		ask(roads[len(roads)-1], failure)
	}
	if got := w.value("SELECT count(*)::text FROM user_metadata WHERE instance_id = $1 AND id IN ('wrong', 'after')", w.a.instance()); got != "0" {
		t.Errorf("%s entries were set by functions that failed", got)
	}
	for _, one := range roads { // the same code, the same refresh token
		target.set(says(http.StatusOK, ""))
		if got, refusal := one.ask(); got == nil || got["after"] != true {
			t.Errorf("%s: again: got %d %s", one.name, refusal.Status, refusal.Text)
		}
	}
	// Without interrupt_on_error the next target is asked, and what the first said counts
	// for nothing.
	w.a.must(http.MethodPatch, "/resources/v3alpha/targets/"+target.id, `{"interruptOnError":false}`)
	last := roads[len(roads)-1]
	for _, failure := range failures {
		target.set(failure.answer)
		if got, refusal := last.ask(); got == nil || got["after"] != true || strings.Contains(refusal.Text, "private") {
			t.Errorf("%s, not interrupting: got %d %s", failure.name, refusal.Status, refusal.Text)
		}
	}
	if got := w.value("SELECT count(*)::text FROM user_metadata WHERE instance_id = $1 AND id = 'wrong'", w.a.instance()); got != "0" {
		t.Error("half of an answer was taken")
	}
}

func TestFunctionsOfWebhooksAndThoseNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.a.signedIn("alice").tokens("web", "openid").text("access_token")
	webhook, async := w.a.receive("restWebhook", `,"interruptOnError":true`), w.a.receive("restRequestResponse", `,"isAsync":true`)
	w.a.function("preuserinfo", webhook, async)
	webhook.set(says(http.StatusNoContent, ""))
	async.set(says(http.StatusOK, everything))
	if got := w.a.userinfo(token); got.Status != http.StatusOK || got.Body["tier"] != nil {
		t.Errorf("got %d %s", got.Status, got.Text)
	}
	w.eventually("the other one", func() bool { return len(async.bodies()) == 1 })
	webhook.set(says(http.StatusOK, everything))
	if got := w.a.userinfo(token); got.Status != http.StatusOK || got.Body["tier"] != nil {
		t.Errorf("the body of a webhook counts: %s", got.Text)
	}
	webhook.set(says(http.StatusBadGateway, ""))
	if got := w.a.userinfo(token); got.text("error") != "server_error" {
		t.Errorf("got %d %s", got.Status, got.Text)
	}
}

// TestSEC118_WhatEndsWhileAFunctionIsAskedIsGoodNowhere ends what an answer is about
// between the call of a target and its answer.
func TestSEC118_WhatEndsWhileAFunctionIsAskedIsGoodNowhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	target := w.a.receive("restRequestResponse", "")
	deactivate := func(name string) func() {
		return func() { w.a.must(http.MethodPost, "/resources/v3alpha/users/"+w.a.users[name].ID+"/_deactivate", "") }
	}
	activate := func(name string) {
		w.a.must(http.MethodPost, "/resources/v3alpha/users/"+w.a.users[name].ID+"/_activate", "")
	}
	target.set(says(http.StatusOK, `{"append_claims":[{"key":"tier","value":"gold"}]}`))
	w.a.function("preuserinfo", target)
	w.a.function("preaccesstoken", target)
	for _, test := range []struct {
		name string
		// prepare returns what ends something, and the road.
		prepare func(alice *agent) (end func(), ask func() *answer)
		want    string
	}{
		{"userinfo, the user is deactivated", func(alice *agent) (func(), func() *answer) {
			token := alice.tokens("web", "openid").text("access_token")
			return deactivate("alice"), func() *answer { return w.a.userinfo(token) }
		}, "invalid_token"},
		{"userinfo, the token is revoked", func(alice *agent) (func(), func() *answer) {
			token := alice.tokens("web", "openid").text("access_token")
			return func() { w.a.as("web", revokePath, pairs("token", token)) }, func() *answer { return w.a.userinfo(token) }
		}, "invalid_token"},
		{"userinfo, the token expires", func(alice *agent) (func(), func() *answer) {
			token := alice.tokens("web", "openid").text("access_token")
			return func() { w.clock.Add(13 * 3600 * 1e6) }, func() *answer { return w.a.userinfo(token) }
		}, "invalid_token"},
		{"introspection, the token is revoked", func(alice *agent) (func(), func() *answer) {
			token := alice.tokens("web", "openid").text("access_token")
			return func() { w.a.as("web", revokePath, pairs("token", token)) }, func() *answer { return w.a.introspect("api", token) }
		}, "inactive"},
		{"introspection, the personal token is deleted", func(alice *agent) (func(), func() *answer) {
			made := w.a.must(http.MethodPost, "/resources/v3alpha/users/"+w.a.users["robot"].ID+"/pats", `{}`)
			path := "/resources/v3alpha/users/" + w.a.users["robot"].ID + "/pats/" + made["details"].(map[string]any)["id"].(string)
			return func() { w.a.must(http.MethodDelete, path, "") }, func() *answer { return w.a.userinfo(made["token"].(string)) }
		}, "invalid_token"},
		{"a code, the user is deactivated", func(alice *agent) (func(), func() *answer) {
			code := alice.code("web")
			return deactivate("alice"), func() *answer { return w.a.redeem("web", code) }
		}, "invalid_grant"},
		{"a code, the session ends", func(alice *agent) (func(), func() *answer) {
			code, session := alice.code("web"), alice.sessionID()
			return func() { w.a.must(http.MethodDelete, "/resources/v3alpha/sessions/"+session, "") }, func() *answer { return w.a.redeem("web", code) }
		}, "invalid_grant"},
		{"a refresh token, its family is revoked", func(alice *agent) (func(), func() *answer) {
			token := alice.tokens("web", "openid offline_access").text("refresh_token")
			return func() { w.a.as("web", revokePath, pairs("token", token)) }, func() *answer { return w.a.refresh("web", token) }
		}, "invalid_grant"},
		{"an exchange, its subject is revoked", func(alice *agent) (func(), func() *answer) {
			token := alice.tokens("web", "openid").text("access_token")
			return func() { w.a.as("web", revokePath, pairs("token", token)) }, func() *answer {
				return w.a.exchange("web", "subject_token", token, "requested_token_type", typeJWT)
			}
		}, "invalid_grant"},
		{"client credentials, the service user is deactivated", func(*agent) (func(), func() *answer) {
			return deactivate("jwtrobot"), func() *answer { return w.a.service("jwtrobot", "openid") }
		}, "invalid_grant"},
		{"implicit, the session ends", func(alice *agent) (func(), func() *answer) {
			session := alice.sessionID()
			return func() { w.a.must(http.MethodDelete, "/resources/v3alpha/sessions/"+session, "") }, func() *answer {
				got := alice.authorize("implicit")
				return &answer{Status: http.StatusFound, Text: got.Encode(), Body: map[string]any{"error": got.Get("error"), "id_token": got.Get("id_token")}}
			}
		}, "login_required"},
	} {
		for _, ends := range []bool{false, true} { // the control has to succeed
			end, ask := test.prepare(w.a.signedIn("alice"))
			var once sync.Once
			asked := false
			target.set(func(answer http.ResponseWriter, _ []byte) {
				once.Do(func() {
					if asked = true; ends {
						end()
					}
				})
				_, _ = io.WriteString(answer, `{"append_claims":[{"key":"tier","value":"gold"}]}`)
			})
			got := ask()
			target.set(says(http.StatusOK, ""))
			for _, name := range []string{"alice", "jwtrobot"} {
				if ends && w.value("SELECT state::text FROM users WHERE instance_id = $1 AND id = $2", w.a.instance(), w.a.users[name].ID) != "1" {
					activate(name)
				}
			}
			refused := got.text("error") == test.want || test.want == "inactive" && got.Text == `{"active":false}`
			if !asked || refused != ends || ends && (strings.Contains(got.Text, "gold") || got.text("access_token")+got.text("id_token") != "") {
				t.Errorf("%s, ends %v, asked %v: got %d %s", test.name, ends, asked, got.Status, got.Text)
			}
		}
	}
}

func TestSEC033_ACodeCountsOnceWhileFunctionsAreAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.a.signedIn("alice")
	token := alice.tokens("web", "openid offline_access").text("refresh_token")
	code := alice.code("web", "scope", "openid offline_access")
	target := w.a.receive("restRequestResponse", "")
	w.a.function("preuserinfo", target)
	for name, send := range map[string]func() *answer{
		"a code":          func() *answer { return w.a.redeem("web", code) },
		"a refresh token": func() *answer { return w.a.refresh("web", token) },
	} {
		const n = 4 // of one that is alone see TestAFailingFunctionUsesNothingUp
		var together sync.WaitGroup
		together.Add(n)
		target.set(func(http.ResponseWriter, []byte) { together.Done(); together.Wait() }) // all are asked before one is answered
		var mu sync.Mutex
		var won []*answer
		var all sync.WaitGroup
		for range n {
			all.Go(func() {
				if got := send(); got.Status == http.StatusOK {
					mu.Lock()
					won = append(won, got)
					mu.Unlock()
				}
			})
		}
		all.Wait()
		target.set(says(http.StatusOK, ""))
		if len(won) > 1 {
			t.Errorf("%s: %d were answered", name, len(won))
		}
		for _, one := range won { // a replay ends the family
			if w.a.active("api", one.text("access_token")) {
				t.Errorf("%s: the family lives after a replay", name)
			}
		}
	}
}

// TestSEC221_ASlowFunctionHoldsNothing asks a target that does not answer, by more requests
// than there are connections and places for requests.
func TestSEC221_ASlowFunctionHoldsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.a.signedIn("alice")
	token, code := alice.tokens("web", "openid").text("access_token"), alice.code("web")
	target := w.a.receive("restRequestResponse", "")
	w.a.function("preuserinfo", target)
	const n = 60 // a node of the world has 8 connections and 32 places
	var arrived, all sync.WaitGroup
	arrived.Add(n)
	goOn := make(chan struct{})
	target.set(func(http.ResponseWriter, []byte) { arrived.Done(); <-goOn })
	for i := range n {
		all.Go(func() {
			var got *answer
			if i == 0 {
				got = w.a.redeem("web", code)
			} else {
				got = w.a.userinfo(token)
			}
			if got.Status != http.StatusOK {
				t.Errorf("got %d %s", got.Status, got.Text)
			}
		})
	}
	arrived.Wait()
	if got := w.value("SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND state <> 'idle' AND pid <> pg_backend_pid()"); got != "0" {
		t.Errorf("%s connections are at work", got)
	}
	if got := w.a.service("robot", "openid"); got.Status != http.StatusOK { // no function is asked for it
		t.Errorf("another request: got %d %s", got.Status, got.Text)
	}
	w.a.must(http.MethodGet, "/resources/v3alpha/users/"+w.a.users["alice"].ID, "")
	close(goOn)
	all.Wait()
}
