package oidc_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	typeExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	typeAccess   = "urn:ietf:params:oauth:token-type:access_token"
	typeRefresh  = "urn:ietf:params:oauth:token-type:refresh_token"
	typeID       = "urn:ietf:params:oauth:token-type:id_token"
	typeJWT      = "urn:ietf:params:oauth:token-type:jwt"
	typeUser     = "urn:service:params:oauth:token-type:user_id"
)

// exchange exchanges an access token, unless the changes say otherwise.
func (s *side) exchange(app string, changes ...string) *answer {
	s.Helper()
	values := pairs("grant_type", typeExchange, "subject_token_type", typeAccess, "scope", "openid")
	for i := 0; i < len(changes); i += 2 {
		values.Set(changes[i], changes[i+1])
		if changes[i+1] == "-" {
			values.Del(changes[i])
		}
	}
	return s.as(app, tokenPath, values)
}

const apiAudience = urn + "org:project:id:service:aud"

func TestSEC100_ExchangeIsOffByDefault(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	subject := func(s *side) string { return s.signedIn("alice").tokens("web", "openid").text("access_token") }
	w.b.refused("by default", w.b.exchange("web", "subject_token", subject(w.b)), "unsupported_grant_type")
	flag := func(value string) {
		if got := w.b.api("owner", http.MethodPut, "/v2/features/instance", `{"oidcTokenExchange":`+value+`}`); got.Status != http.StatusOK {
			t.Fatalf("%d %s", got.Status, got.Text)
		}
	}
	flag("true")
	for node := range 2 {
		w.soon("on", func() bool {
			return w.b.on(node).exchange("web", "subject_token", subject(w.b)).Status == http.StatusOK
		})
	}
	w.b.refused("of a client that may not", w.b.exchange("plain", "subject_token", subject(w.b)), "unauthorized_client")
	w.b.refused("of an API", w.b.exchange("api", "subject_token", subject(w.b)), "unauthorized_client")
	w.a.granted("on the other instance", w.a.exchange("web", "subject_token", subject(w.a)))
	flag("false")
	for node := range 2 {
		w.soon("off", func() bool {
			return w.b.on(node).exchange("web", "subject_token", subject(w.b)).text("error") == "unsupported_grant_type"
		})
	}
	w.a.granted("on the other instance still", w.a.exchange("web", "subject_token", subject(w.a)))
}

// parties makes tokens of all kinds: of alice for web, and of an actor who may act in
// her name.
func (s *side) parties() (subjects, actors map[string]map[string]string) {
	s.Helper()
	alice := s.signedIn("alice")
	opaque, jwt := alice.tokens("web", "openid email offline_access"), alice.tokens("jwtweb", "openid email")
	manager := s.signedIn("manager").tokens("web", "openid")
	// The audience of the project is what makes a token for a client of it.
	forP := "openid " + urn + "org:project:id:" + s.projects["P"] + ":aud"
	helper := s.service("helper", forP).text("access_token")
	jwtHelper := s.form(tokenPath, pairs("grant_type", grantJWT, "scope", forP, "assertion", s.assertion("jwtrobot", nil))).text("access_token")
	subjects = map[string]map[string]string{
		typeAccess:  {"opaque": opaque.text("access_token"), "JWT": jwt.text("access_token")},
		typeRefresh: {"refresh token": opaque.text("refresh_token")},
		typeID:      {"ID token": opaque.text("id_token")},
		typeJWT:     {"JWT": s.assertion("jwt", map[string]any{"sub": s.users["alice"].ID, "jti": nil})},
		typeUser:    {"user ID": s.users["alice"].ID},
		"x":         {"unknown": "x"},
	}
	actors = map[string]map[string]string{
		"":          {"none": ""},
		typeAccess:  {"opaque": helper, "JWT": jwtHelper},
		typeRefresh: {"refresh token": opaque.text("refresh_token")},
		typeID:      {"ID token": manager.text("id_token")},
		typeJWT:     {"JWT": s.assertion("jwt", map[string]any{"sub": s.users["helper"].ID, "jti": nil})},
		typeUser:    {"user ID": s.users["helper"].ID},
		"x":         {"unknown": "x"},
	}
	return subjects, actors
}

// allow gives the actors of parties the permission to act in the name of others, by applications
// that their organization trusts.
func (s *side) allow() {
	s.Helper()
	for _, app := range []string{"web", "jwt"} {
		s.must(http.MethodPost, appsPath+s.apps[app].ID+"/_trust", `{"organizationOnly":true}`)
	}
	s.must(http.MethodPost, "/resources/v3alpha/memberships?ctx.orgId="+s.users["jwtrobot"].OrgID, `{"userId":%q,"roles":["ORG_END_USER_IMPERSONATOR"]}`, s.users["jwtrobot"].ID)
	id := s.value("SELECT id FROM memberships WHERE instance_id = $1 AND user_id = $2", s.instance(), s.users["manager"].ID)
	s.must(http.MethodPatch, "/resources/v3alpha/memberships/"+id, `{"roles":["ORG_OWNER","ORG_END_USER_IMPERSONATOR"]}`)
}

// TestSEC105_TheTypeMatrix goes through every cell of the table of document 2. The
// client is one that signs JWTs, so that no cell is refused for its client.
func TestSEC105_TheTypeMatrix(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.a.allow()
	subjects, actors := w.a.parties()
	may := func(kinds ...string) func(string) bool {
		return func(kind string) bool { return slices.Contains(kinds, kind) }
	}
	subjectMay, actorMay, resultMay := may(typeAccess, typeID, typeJWT, typeUser), may("", typeAccess, typeID), may("", typeAccess, typeID, typeJWT)
	cells := 0
	for subjectType, subjectTokens := range subjects {
		for subject, subjectToken := range subjectTokens {
			for actorType, actorTokens := range actors {
				for actor, actorToken := range actorTokens {
					for _, requested := range []string{"", typeAccess, typeRefresh, typeID, typeJWT, typeUser, "x"} {
						cells++
						changes := []string{"subject_token", subjectToken, "subject_token_type", subjectType, "requested_token_type", requested, "actor_token", actorToken, "actor_token_type", actorType}
						for i := 1; i < len(changes); i += 2 {
							if changes[i] == "" {
								changes[i] = "-"
							}
						}
						needsActor := subjectType == typeJWT || subjectType == typeUser
						want := subjectMay(subjectType) && actorMay(actorType) && resultMay(requested) && (!needsActor || actorType != "")
						what := fmt.Sprintf("%s of type %s, actor %s of type %s, for %s", subject, subjectType, actor, actorType, requested)
						if subjectType == typeJWT { // which counts once
							changes[1] = w.a.assertion("jwt", map[string]any{"sub": w.a.users["alice"].ID})
						}
						got := w.a.exchange("jwt", changes...)
						if !want {
							if got.text("error") != "invalid_request" || got.Status != http.StatusBadRequest || got.text("access_token") != "" {
								t.Errorf("%s: got %d %s", what, got.Status, got.Text)
							}
							continue
						}
						token := w.a.granted(what, got)
						_, body := claims(token)
						header, _ := claims(token)
						kind := got.text("issued_token_type")
						switch requested {
						case typeID:
							if kind != typeID || header["typ"] != "JWT" || got.text("token_type") != "N_A" || body["sub"] != w.a.users["alice"].ID {
								t.Errorf("%s: %v %v %s", what, header, body, got.text("token_type"))
							}
						case typeJWT:
							if kind != typeJWT || header["typ"] != "at+jwt" || got.text("token_type") != "Bearer" || body["sub"] != w.a.users["alice"].ID {
								t.Errorf("%s: %v %v", what, header, body)
							}
						default:
							if kind != typeAccess || !strings.HasPrefix(token, "writ_at_") || got.text("token_type") != "Bearer" {
								t.Errorf("%s: %s %.20s", what, kind, token)
							}
						}
					}
				}
			}
		}
	}
	if cells < 7*7*7 {
		t.Errorf("%d cells only", cells)
	}
	good := []string{"subject_token", subjects[typeAccess]["opaque"]}
	for name, test := range map[string]struct {
		changes []string
		code    string
	}{
		"resource":                        {[]string{"resource", "https://api.example"}, "invalid_request"},
		"no subject token":                {[]string{"subject_token", "-"}, "invalid_request"},
		"no subject token type":           {[]string{"subject_token_type", "-"}, "invalid_request"},
		"an actor without a type":         {[]string{"actor_token", actors[typeAccess]["opaque"]}, "invalid_request"},
		"an actor type without an actor":  {[]string{"actor_token_type", typeAccess}, "invalid_request"},
		"no scope":                        {[]string{"scope", "-"}, "invalid_request"},
		"an ID token as access token":     {[]string{"subject_token", subjects[typeID]["ID token"]}, "invalid_request"},
		"an access token as ID token":     {[]string{"subject_token_type", typeID}, "invalid_request"},
		"an ID token without openid":      {[]string{"requested_token_type", typeID, "scope", "email"}, "invalid_scope"},
		"a wrong actor is not left out":   {[]string{"actor_token", "x", "actor_token_type", typeAccess}, "invalid_request"},
		"a user ID of nobody":             {[]string{"subject_token", "nobody", "subject_token_type", typeUser, "actor_token", actors[typeAccess]["opaque"], "actor_token_type", typeAccess}, "invalid_request"},
		"a JWT by another client":         {[]string{"subject_token", w.a.assertion("jwt2", map[string]any{"sub": w.a.users["alice"].ID}), "subject_token_type", typeJWT, "actor_token", actors[typeAccess]["opaque"], "actor_token_type", typeAccess}, "invalid_request"},
		"a JWT by a service user":         {[]string{"subject_token", w.a.assertion("robot", map[string]any{"sub": w.a.users["alice"].ID}), "subject_token_type", typeJWT, "actor_token", actors[typeAccess]["opaque"], "actor_token_type", typeAccess}, "invalid_request"},
		"a JWT that names nobody":         {[]string{"subject_token", w.a.assertion("jwt", map[string]any{"sub": nil}), "subject_token_type", typeJWT, "actor_token", actors[typeAccess]["opaque"], "actor_token_type", typeAccess}, "invalid_request"},
		"a JWT that names nobody we know": {[]string{"subject_token", w.a.assertion("jwt", map[string]any{"sub": "nobody"}), "subject_token_type", typeJWT, "actor_token", actors[typeAccess]["opaque"], "actor_token_type", typeAccess}, "invalid_request"},
	} {
		w.a.refused(name, w.a.exchange("jwt", append(slices.Clone(good), test.changes...)...), test.code)
	}
	w.a.granted("as it is", w.a.exchange("jwt", good...))
	// Access control of the client is that of every grant.
	w.a.refused("without authentication", w.a.form(tokenPath, pairs("grant_type", typeExchange, "client_id", w.a.apps["web"].ClientID, "subject_token", good[1], "subject_token_type", typeAccess, "scope", "openid")), "invalid_client")
}

func TestSEC101_DeadTokensAreNotExchanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.a.allow()
	subjects, _ := w.a.parties()
	alice := w.a.signedIn("alice")
	for _, form := range []string{"opaque", "JWT"} {
		w.a.granted(form, w.a.exchange("web", "subject_token", subjects[typeAccess][form]))
	}
	revoked := alice.tokens("web", "openid").text("access_token")
	w.a.as("web", revokePath, pairs("token", revoked))
	w.a.refused("a revoked subject", w.a.on(1).exchange("web", "subject_token", revoked), "invalid_request")
	foreign := w.b.signedIn("alice").tokens("web", "openid")
	w.a.refused("a foreign subject", w.a.exchange("web", "subject_token", foreign.text("access_token")), "invalid_request")
	w.a.refused("a foreign ID token", w.a.exchange("web", "subject_token", foreign.text("id_token"), "subject_token_type", typeID), "invalid_request")
	w.a.refused("a foreign actor", w.a.exchange("web", "subject_token", subjects[typeAccess]["opaque"], "actor_token", w.b.service("helper", "openid").text("access_token"), "actor_token_type", typeAccess), "invalid_request")
	theirs := alice.tokens("qweb", "openid") // of a client of another project
	w.a.refused("a subject for another project", w.a.exchange("web", "subject_token", theirs.text("access_token")), "invalid_request")
	w.a.refused("an ID token for another project", w.a.exchange("web", "subject_token", theirs.text("id_token"), "subject_token_type", typeID), "invalid_request")
	w.a.refused("a service user's own token", w.a.exchange("web", "subject_token", w.a.service("helper", "openid").text("access_token")), "invalid_request")

	gone := w.a.service("helper", "openid").text("access_token")
	w.a.granted("an actor", w.a.exchange("web", "subject_token", subjects[typeAccess]["opaque"], "actor_token", gone, "actor_token_type", typeAccess))
	w.a.must(http.MethodPost, "/resources/v3alpha/users/"+w.a.users["helper"].ID+"/_deactivate", "{}")
	w.a.refused("an actor who is gone", w.a.exchange("web", "subject_token", subjects[typeAccess]["opaque"], "actor_token", gone, "actor_token_type", typeAccess), "invalid_request")
	w.a.must(http.MethodPost, "/resources/v3alpha/users/"+w.a.users["alice"].ID+"/_deactivate", "{}")
	for kind, tokens := range subjects {
		for form, token := range tokens {
			w.a.refused("a subject who is gone: "+form, w.a.exchange("jwt", "subject_token", token, "subject_token_type", kind), "invalid_request")
		}
	}
	w.a.must(http.MethodPost, "/resources/v3alpha/users/"+w.a.users["alice"].ID+"/_activate", "{}")
	w.wait(12 * time.Hour)
	for _, kind := range []string{typeAccess, typeID} {
		for form, token := range subjects[kind] {
			w.a.refused("an expired subject: "+form, w.a.exchange("web", "subject_token", token, "subject_token_type", kind), "invalid_request")
		}
	}
}

func TestSEC102_TheNewTokenIsForNoMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.a.signedIn("alice")
	p, q := w.a.projects["P"], w.a.projects["Q"]
	web, second := w.a.apps["web"].ClientID, w.a.apps["second"].ClientID
	reader, forQ := urn+"org:project:role:reader", urn+"org:project:id:"+q+":aud"
	low := alice.tokens("web", "openid email "+reader).text("access_token")
	wide := alice.tokens("web", "openid email profile "+forQ+" "+apiAudience).text("access_token")
	for _, test := range []struct {
		name, app, token string
		changes          []string
		code             string
		scope            string
		audience         []string
	}{
		{"as it is", "web", low, nil, "", "openid", []string{web, p}},
		{"for another client of the project", "second", low, nil, "", "openid", []string{p}},
		{"fewer scopes", "web", low, []string{"scope", "email"}, "", "email", []string{web, p}},
		{"all scopes", "web", low, []string{"scope", "openid email " + reader}, "", "openid email " + reader, []string{web, p}},
		{"one scope more", "web", low, []string{"scope", "openid profile"}, "invalid_scope", "", nil},
		{"another role", "web", low, []string{"scope", "openid " + urn + "org:project:role:writer"}, "invalid_scope", "", nil},
		{"all roles", "web", low, []string{"scope", "openid " + urn + "org:projects:roles"}, "invalid_scope", "", nil},
		{"the resource API", "web", low, []string{"scope", "openid " + apiAudience}, "invalid_scope", "", nil},
		{"another project", "web", low, []string{"scope", "openid " + forQ}, "invalid_scope", "", nil},
		{"offline_access", "web", low, []string{"scope", "openid offline_access"}, "invalid_scope", "", nil},
		{"an unknown scope", "web", low, []string{"scope", "openid made:up"}, "", "openid", []string{web, p}},
		{"a malformed scope", "web", low, []string{"scope", "openid \""}, "invalid_scope", "", nil},
		{"one of the audience", "web", low, []string{"audience", p}, "", "openid", []string{p}},
		{"another audience", "web", low, []string{"audience", q}, "invalid_request", "", nil},
		{"an unknown audience", "web", low, []string{"audience", "x"}, "invalid_request", "", nil},
		{"the resource API as audience", "web", low, []string{"audience", apiAudience[:len(apiAudience)-4]}, "invalid_request", "", nil},
		{"the other client as audience", "second", low, []string{"audience", web}, "", "openid", []string{web}},
		{"the client that it was not for", "second", low, []string{"audience", second}, "invalid_request", "", nil},
		{"without audience it is not for the resource API", "web", wide, nil, "", "openid", []string{web, p, q}},
		{"the resource API by name", "web", wide, []string{"audience", apiAudience[:len(apiAudience)-4]}, "", "openid", []string{apiAudience[:len(apiAudience)-4]}},
	} {
		got := w.a.exchange(test.app, append([]string{"subject_token", test.token}, test.changes...)...)
		if test.code != "" {
			w.a.refused(test.name, got, test.code)
			continue
		}
		w.a.granted(test.name, got)
		jwt := w.a.granted(test.name, w.a.exchange(test.app, append([]string{"subject_token", test.token, "requested_token_type", typeJWT}, test.changes...)...))
		_, body := claims(jwt)
		audience := strings.Fields(strings.Trim(fmt.Sprint(body["aud"]), "[]"))
		if got.text("scope") != test.scope || body["scope"] != test.scope || !slices.Equal(audience, test.audience) {
			t.Errorf("%s: scope %q, JWT %v %v, want %q %v", test.name, got.text("scope"), body["scope"], audience, test.scope, test.audience)
		}
	}
	// Several audiences are several parameters.
	twice := pairs("grant_type", typeExchange, "subject_token", wide, "subject_token_type", typeAccess, "scope", "openid", "audience", p, "audience", q)
	if audience := fmt.Sprint(w.a.introspect("qapi", w.a.granted("two audiences", w.a.as("web", tokenPath, twice))).Body["aud"]); audience != fmt.Sprint([]string{p, q}) {
		t.Errorf("two audiences: %s", audience)
	}
	// The new token lives no longer than the old one, and ends with it.
	token := alice.tokens("web", offline)
	w.wait(11*time.Hour + 50*time.Minute)
	fresh := w.a.exchange("web", "subject_token", token.text("access_token"))
	exchanged := w.a.granted("an old one", fresh)
	if seconds := fresh.Body["expires_in"].(float64); seconds > 600 || seconds < 590 {
		t.Errorf("it lives for %v s", seconds)
	}
	w.a.as("web", revokePath, pairs("token", token.text("refresh_token")))
	if w.a.active("api", exchanged) {
		t.Error("the new token outlives its grant")
	}
	byID := w.a.granted("an ID token", w.a.exchange("web", "subject_token", alice.tokens("web", "openid").text("id_token"), "subject_token_type", typeID))
	w.a.must(http.MethodDelete, "/resources/v3alpha/sessions/"+alice.sessionID(), "")
	if w.a.active("api", byID) {
		t.Error("the new token outlives its session")
	}
}

// What comes of an exchange, and of an exchange of that, ends with the grant that it
// began with; also when both happen at once on two nodes.
func TestSEC092_FamiliesOfExchangesEndTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.a.signedIn("alice")
	again := func(node int, token string) *answer {
		return w.a.on(node).exchange("web", "subject_token", token, "scope", offline)
	}
	first := alice.tokens("web", offline)
	second := again(0, first.text("access_token"))
	third := again(1, second.text("access_token"))
	for name, got := range map[string]*answer{"the second": second, "the third": third} {
		if !w.a.active("api", w.a.granted(name, got)) || got.text("refresh_token") == "" {
			t.Fatalf("%s: %s", name, got.Text)
		}
	}
	other := alice.tokens("web", offline)
	w.a.as("web", revokePath, pairs("token", first.text("refresh_token")))
	for name, got := range map[string]*answer{"the second": second, "the third": third} {
		if w.a.active("api", got.text("access_token")) {
			t.Errorf("%s is still active", name)
		}
		w.a.refused(name, w.a.refresh("web", got.text("refresh_token")), "invalid_grant")
	}
	if !w.a.active("api", other.text("access_token")) {
		t.Error("another login ended too")
	}
	w.a.refused("one that was revoked", again(0, first.text("access_token")), "invalid_request")

	const n = 400
	var exchanged atomic.Int64
	b := w.a.batch("alice")
	rounds(t, n, func(i int) {
		first := w.a.redeem("web", b.code("web", offline))
		var second *answer
		var both sync.WaitGroup
		both.Go(func() { second = again(i%2, first.text("access_token")) })
		both.Go(func() { w.a.on((i+1)%2).as("web", revokePath, pairs("token", first.text("refresh_token"))) })
		both.Wait()
		if second.Status != http.StatusOK {
			return
		}
		exchanged.Add(1)
		if w.a.active("api", second.text("access_token")) {
			t.Errorf("round %d: the exchanged token outlived its grant", i)
		}
		w.a.refused("a refresh", w.a.refresh("web", second.text("refresh_token")), "invalid_grant")
	})
	t.Logf("%d of %d exchanges came first", exchanged.Load(), n)
}

func TestSEC103_ImpersonationNeedsThePermission(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	subject := func(name string) string { return w.a.signedIn(name).tokens("web", "openid").text("access_token") }
	actor := func(name string) string { return w.a.service(name, "openid").text("access_token") }
	for _, test := range []struct {
		actor, subject string
		may            bool
	}{
		{"robot", "alice", false}, {"helper", "alice", true}, {"helper", "bob", true}, {"boss", "alice", true}, {"owner", "alice", true},
		{"helper", "olga", false}, {"boss", "olga", false}, {"visitor", "olga", true}, {"visitor", "alice", false}, {"owner", "olga", true}, // of another organization
		{"helper", "manager", false}, {"boss", "manager", true}, {"owner", "manager", true}, // an administrator of the organization
		{"helper", "chief", false}, {"boss", "chief", false}, {"visitor", "chief", false}, {"owner", "chief", true}, // one of the instance
	} {
		what := test.actor + " in the name of " + test.subject
		token := actor(test.actor)
		for kind, subject := range map[string]string{typeAccess: subject(test.subject), typeID: w.a.signedIn(test.subject).tokens("web", "openid").text("id_token"), typeUser: w.a.users[test.subject].ID} {
			changes := []string{"subject_token", subject, "subject_token_type", kind, "actor_token", token, "actor_token_type", typeAccess}
			got := w.a.exchange("web", changes...)
			switch {
			case !test.may:
				w.a.refused(what, got, "invalid_request")
			default:
				_, body := claims(w.a.exchange("web", append(changes, "requested_token_type", typeJWT)...).text("access_token"))
				act, _ := body["act"].(map[string]any)
				if w.a.granted(what, got); body["sub"] != w.a.users[test.subject].ID || act["sub"] != w.a.users[test.actor].ID || act["iss"] != w.a.issuer {
					t.Errorf("%s: %v", what, body)
				}
				if own := fmt.Sprint([]string{w.a.apps["web"].ClientID, w.a.projects["P"]}); kind == typeUser && fmt.Sprint(body["aud"]) != own { // neither has one
					t.Errorf("%s: it is for %v, want the client's own", what, body["aud"])
				}
			}
		}
	}
	// Without an actor that is good nothing falls back to the subject alone.
	for name, changes := range map[string][]string{
		"user ID, no actor":         {"subject_token", w.a.users["alice"].ID, "subject_token_type", typeUser},
		"user ID, an empty actor":   {"subject_token", w.a.users["alice"].ID, "subject_token_type", typeUser, "actor_token", "", "actor_token_type", typeAccess},
		"user ID, a wrong actor":    {"subject_token", w.a.users["alice"].ID, "subject_token_type", typeUser, "actor_token", "x", "actor_token_type", typeAccess},
		"user ID as its own actor":  {"subject_token", w.a.users["alice"].ID, "subject_token_type", typeUser, "actor_token", w.a.users["alice"].ID, "actor_token_type", typeUser},
		"JWT, no actor":             {"subject_token", w.a.assertion("jwt", map[string]any{"sub": w.a.users["alice"].ID}), "subject_token_type", typeJWT},
		"access token, wrong actor": {"subject_token", subject("alice"), "actor_token", "x", "actor_token_type", typeAccess},
		"access token, empty actor": {"subject_token", subject("alice"), "actor_token", "", "actor_token_type", typeAccess},
	} {
		w.a.refused(name, w.a.exchange("jwt", changes...), "invalid_request")
	}
	// The permission may be taken away at any time.
	id := w.value("SELECT id FROM memberships WHERE instance_id = $1 AND user_id = $2", w.a.instance(), w.a.users["helper"].ID)
	w.a.must(http.MethodDelete, "/resources/v3alpha/memberships/"+id, "")
	w.a.refused("a permission that is gone", w.a.exchange("web", "subject_token", subject("alice"), "actor_token", actor("helper"), "actor_token_type", typeAccess), "invalid_request")
}

func TestSEC104_ImpersonationIsSeenAndShort(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.a.signedIn("alice")
	const scope = "openid email offline_access " + apiAudience
	subject := alice.tokens("web", scope).text("access_token")
	audience := apiAudience[:len(apiAudience)-4]
	helper := w.a.service("helper", "openid").text("access_token")
	got := w.a.exchange("web", "subject_token", subject, "scope", scope, "audience", audience, "actor_token", helper, "actor_token_type", typeAccess)
	token := w.a.granted("acting", got)
	if got.text("refresh_token") != "" || got.Body["expires_in"].(float64) > 3600 || strings.Contains(got.text("scope"), "offline") {
		t.Errorf("it can be renewed: %s", got.Text)
	}
	// The ID token names the actor too.
	_, body := claims(got.text("id_token"))
	if act, _ := body["act"].(map[string]any); act["sub"] != w.a.users["helper"].ID || body["sub"] != w.a.users["alice"].ID {
		t.Errorf("the ID token is %v", body)
	}
	// Reading is what it is for; credentials are out of reach, whoever the subject is.
	self := "/resources/v3alpha/users/" + w.a.users["alice"].ID
	if got := w.a.api(token, http.MethodGet, self, ""); got.Status != http.StatusOK {
		t.Fatalf("reading: %d %s", got.Status, got.Text)
	}
	v3 := "/v3alpha/users/" + w.a.users["alice"].ID
	events := w.value("SELECT count(*)::text FROM events WHERE instance_id = $1 AND aggregate_id = $2", w.a.instance(), w.a.users["alice"].ID)
	for path, body := range map[string]string{
		self + "/pats":    `{"name":"p"}`,
		self + "/keys":    `{}`,
		self + "/secret":  `{}`,
		v3 + "/totp":      ``,
		v3 + "/otp_sms":   `{"number":"+41791234567"}`,
		v3 + "/otp_email": `{"address":"x@mail.example"}`,
	} {
		got := w.a.api(token, http.MethodPost, path, body)
		if got.Status/100 != 4 || got.Status == http.StatusNotFound || strings.HasPrefix(path, v3) && got.Status != http.StatusForbidden {
			t.Errorf("%s: got %d %s", path, got.Status, got.Text)
		}
	}
	if after := w.value("SELECT count(*)::text FROM events WHERE instance_id = $1 AND aggregate_id = $2", w.a.instance(), w.a.users["alice"].ID); after != events {
		t.Errorf("%s events of the user, want %s", after, events)
	}
	// The same call with her own token works.
	if got := w.a.api(subject, http.MethodPost, v3+"/totp", ""); got.Status/100 != 2 {
		t.Errorf("alice herself: %d %s", got.Status, got.Text)
	}
	// With the roles of an administrator too.
	boss := w.a.service("boss", "openid").text("access_token")
	manager := w.a.signedIn("manager").tokens("web", scope).text("access_token")
	acting := w.a.granted("acting as manager", w.a.exchange("web", "subject_token", manager, "scope", scope, "audience", audience, "actor_token", boss, "actor_token_type", typeAccess))
	for path, body := range map[string]string{
		"/resources/v3alpha/users/" + w.a.users["bob"].ID + "/password": `{"plain":"another horse, correct"}`,
		"/resources/v3alpha/users/" + w.a.users["robot"].ID + "/pats":   `{}`,
		"/resources/v3alpha/users/" + w.a.users["robot"].ID + "/keys":   `{"publicKey":"` + strings.ReplaceAll(publicPEM(keys()[2]), "\n", `\n`) + `"}`,
		"/resources/v3alpha/users/" + w.a.users["robot"].ID + "/secret": `{}`,
	} {
		if got := w.a.api(acting, http.MethodPost, path, body); got.Status != http.StatusForbidden || !strings.Contains(got.Text, "IMPERSONATED") {
			t.Errorf("%s: got %d %s", path, got.Status, got.Text)
		}
		if got := w.a.api(manager, http.MethodPost, path, body); got.Status/100 != 2 {
			t.Errorf("%s, the manager: got %d %s", path, got.Status, got.Text)
		}
	}
	// A chain names all who acted.
	first := w.a.exchange("web", "subject_token", alice.tokens("web", "openid").text("access_token"), "actor_token", helper, "actor_token_type", typeAccess)
	next := w.a.exchange("web", "subject_token", w.a.granted("first", first), "actor_token", boss, "actor_token_type", typeAccess, "requested_token_type", typeJWT)
	_, body = claims(w.a.granted("next", next))
	act, _ := body["act"].(map[string]any)
	before, _ := act["act"].(map[string]any)
	if act["sub"] != w.a.users["boss"].ID || before["sub"] != w.a.users["helper"].ID || body["sub"] != w.a.users["alice"].ID {
		t.Errorf("the chain is %v", body["act"])
	}
	shown := w.a.introspect("api", next.text("access_token"))
	if got, _ := shown.Body["act"].(map[string]any); got["sub"] != w.a.users["boss"].ID {
		t.Errorf("introspection: %s", shown.Text)
	}
	// Without the actor the chain stays, so nobody gets rid of it.
	again := w.a.exchange("web", "subject_token", first.text("access_token"), "requested_token_type", typeJWT, "scope", "openid")
	_, body = claims(w.a.granted("again", again))
	if act, _ := body["act"].(map[string]any); act["sub"] != w.a.users["helper"].ID {
		t.Errorf("the actor is lost: %v", body)
	}
	byID := w.a.exchange("web", "subject_token", first.text("id_token"), "subject_token_type", typeID, "requested_token_type", typeJWT)
	_, body = claims(w.a.granted("by the ID token", byID))
	if act, _ := body["act"].(map[string]any); act["sub"] != w.a.users["helper"].ID {
		t.Errorf("the actor is lost by an ID token: %v", body)
	}
	// The audit names both.
	if n := w.value("SELECT count(*)::text FROM events WHERE instance_id = $1 AND event_type = 'user.impersonated' AND aggregate_id = $2 AND creator = $3", w.a.instance(), w.a.users["alice"].ID, w.a.users["helper"].ID); n == "0" {
		t.Error("no event of it")
	}
	// It ends with the actor's hour.
	w.wait(time.Hour)
	if w.a.active("api", first.text("access_token")) || w.a.api(token, http.MethodGet, self, "").Status == http.StatusOK {
		t.Error("it is good after an hour")
	}
}

func TestSEC104_WhoActsStaysOneWhoActs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.a.signedIn("alice")
	tokens := alice.tokens("web", "openid offline_access")
	own, refresh := tokens.text("access_token"), tokens.text("refresh_token")
	helper := w.a.service("helper", "openid").text("access_token")
	acting := w.a.granted("acting", w.a.exchange("web", "subject_token", own, "actor_token", helper, "actor_token_type", typeAccess))
	// An identity that is borrowed cannot be exchanged for one that is not.
	got := w.a.exchange("web", "subject_token", w.a.users["alice"].ID, "subject_token_type", typeUser, "actor_token", acting, "actor_token_type", typeAccess, "requested_token_type", typeJWT)
	_, body := claims(w.a.granted("acting, exchanged again", got))
	act, _ := body["act"].(map[string]any)
	before, _ := act["act"].(map[string]any)
	if before["sub"] != w.a.users["helper"].ID || got.Body["expires_in"].(float64) > 3600 {
		t.Errorf("the token is %v", got.Text)
	}
	// Nor does one's own become one that nothing ends.
	self := w.a.exchange("web", "subject_token", w.a.users["alice"].ID, "subject_token_type", typeUser, "actor_token", own, "actor_token_type", typeAccess, "scope", "openid offline_access")
	again := w.a.granted("of oneself", self)
	if self.text("refresh_token") != "" {
		t.Errorf("it can be renewed: %s", self.Text)
	}
	w.a.as("web", revokePath, pairs("token", refresh))
	if got := w.a.as("web", introspectPath, pairs("token", again)); got.Body["active"] != false {
		t.Errorf("after the grant was revoked: %s", got.Text)
	}
	// A personal access token beside it does not make a revoked token good.
	dead := w.a.signedIn("alice").tokens("web", "openid").text("access_token")
	w.a.as("web", revokePath, pairs("token", dead))
	w.a.refused("a revoked token beside a good one", w.a.exchange("web", "subject_token", dead, "actor_token", w.a.users["owner"].Token, "actor_token_type", typeAccess), "invalid_request")
}
