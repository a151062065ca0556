package executions

import (
	"net/http"
	"strings"
	"testing"

	"github.com/writ-id/writ/conformance/harness"
)

// TestSEC059_SecretsNeverGoToTargets makes and uses every kind of secret while all
// requests, responses and events are told.
func TestSEC059_SecretsNeverGoToTargets(t *testing.T) {
	t.Parallel()
	n := newTenant(t, "secrets")
	at := n.register("all", webhook, waiting, n.receiver.at(ways[0], "x"), patient)
	for _, kind := range []string{"request.all", "response.all", "event.all"} {
		n.put(in(kind), nil, at)
	}
	var kept []string
	remember := func(secret string) string {
		t.Helper()
		kept = append(kept, secret)
		if err := harness.RememberSecret(secret); err != nil {
			t.Error(err)
		}
		return secret
	}
	made := 0
	do := func(method, path string, body any) map[string]any {
		t.Helper()
		got := n.rest(method, path, body)
		if !got.OK {
			t.Fatalf("%s %s: got %d %v", method, path, got.Status, got.Body)
		}
		made++
		for _, name := range []string{"token", "clientSecret", "keyDetails", "sessionToken", "secret", "uri", "signingKey"} {
			if secret := text(got.Body, name); secret != "" {
				remember(secret)
			}
		}
		return got.Body
	}
	first, second := remember("first password of alma"), remember("second password of alma")
	const users = "/resources/v3alpha/users"
	alma := idOf(do(http.MethodPost, users, map[string]any{"username": "alma", "human": map[string]any{
		"profile": map[string]any{"givenName": "Alma", "familyName": "Adams"}, "email": map[string]any{"address": "alma@mail.example", "isVerified": true},
		"password": map[string]any{"plain": first},
	}}))
	do(http.MethodPost, users+"/"+alma+"/password", map[string]any{"plain": second})
	robot := idOf(do(http.MethodPost, users, map[string]any{"username": "robot", "service": map[string]any{"name": "Robot"}}))
	do(http.MethodPost, users+"/"+robot+"/pats", map[string]any{})
	do(http.MethodPost, users+"/"+robot+"/keys", map[string]any{})
	do(http.MethodPost, users+"/"+robot+"/secret", map[string]any{})
	app := idOf(do(http.MethodPost, "/resources/v3alpha/apps", map[string]any{"projectId": n.project, "name": "api", "api": map[string]any{"authMethodType": "AUTH_METHOD_TYPE_BASIC"}}))
	do(http.MethodPost, "/resources/v3alpha/apps/"+app+"/_regenerate_secret", map[string]any{})
	do(http.MethodPost, "/v3alpha/users/"+alma+"/totp", nil)
	session := do(http.MethodPost, "/resources/v3alpha/sessions", map[string]any{"checks": map[string]any{
		"user": map[string]any{"userId": alma}, "password": map[string]any{"password": second},
	}})
	path := "/resources/v3alpha/sessions/" + idOf(session)
	patched := do(http.MethodPatch, path, map[string]any{"sessionToken": text(session, "sessionToken"), "metadata": map[string]any{"a": "Yg=="}})
	do(http.MethodPost, path+"/_prove", map[string]any{"sessionToken": text(patched, "sessionToken")})
	do(http.MethodPost, path+"/_end", map[string]any{"sessionToken": text(patched, "sessionToken")})
	target := do(http.MethodPost, "/resources/v3alpha/targets", map[string]any{"name": "kept", "restWebhook": map[string]any{"url": n.receiver.at(ways[0], "y")}, "timeout": "5s"})
	do(http.MethodPost, "/resources/v3alpha/targets/"+idOf(target)+"/_rotate_signing_key", map[string]any{})
	project := idOf(do(http.MethodPost, "/resources/v3alpha/projects", map[string]any{"name": "last"}))
	n.eventually("the last event", func() bool {
		for _, call := range n.receiver.calls() {
			if call.JSON["event_type"] == "project.added" && call.JSON["aggregateID"] == project {
				return true
			}
		}
		return false
	})
	if len(kept) < 13 {
		t.Errorf("only %d secrets were made", len(kept))
	}
	requests, responses, events := 0, 0, 0
	told := ""
	for _, call := range n.receiver.calls() {
		switch {
		case call.JSON["response"] != nil:
			responses++
		case call.JSON["request"] != nil:
			requests++
		case call.JSON["event_type"] != nil:
			events++
		}
		told += call.Body
		if err := harness.FindSecret("a target", []byte(call.Body)); err != nil {
			t.Errorf("%v: %s", err, call.Body)
		}
	}
	if requests != made || responses != made || events < made-2 {
		t.Errorf("of %d calls %d requests, %d responses and %d events were told", made, requests, responses, events)
	}
	for _, public := range []string{"alma@mail.example", `"username":"robot"`, alma, robot, app} {
		if !strings.Contains(told, public) {
			t.Errorf("%q was not told", public) // or nothing was looked at
		}
	}
}

func TestSEC059_AnswersSetNoSecrets(t *testing.T) {
	t.Parallel()
	n := newTenant(t, "set-secrets")
	const own = "the password of the request"
	human := func(name string, password any) map[string]any {
		of := map[string]any{"profile": map[string]any{"givenName": "A", "familyName": "B"}, "email": map[string]any{"address": name + "@mail.example", "isVerified": true}}
		if password != nil {
			of["password"] = password
		}
		return map[string]any{"username": name, "human": of}
	}
	at := n.register("asks", answering, interrupting, n.receiver.at(asks, "x"), patient)
	n.put(map[string]any{"request": map[string]any{"method": "/writ.user.v3alpha.ServiceUsers/CreateUser"}}, nil, at)
	set := func(change func(map[string]any)) {
		n.receiver.mu.Lock()
		defer n.receiver.mu.Unlock()
		n.receiver.change = change
	}
	inHuman := func(name string, value any) func(map[string]any) {
		return func(message map[string]any) {
			user, _ := message["user"].(map[string]any)
			of, _ := user["human"].(map[string]any)
			of[name] = value
		}
	}
	login := func(name, password string) bool {
		return n.rest(http.MethodPost, "/resources/v3alpha/sessions", map[string]any{"checks": map[string]any{
			"user": map[string]any{"userId": n.value("SELECT id FROM users WHERE instance_id = $1 AND username = $2", n.id, name)}, "password": map[string]any{"password": password},
		}}).OK
	}
	for name, test := range map[string]struct {
		password any
		change   func(map[string]any)
		refused  bool
	}{
		"one-more":    {nil, inHuman("password", map[string]any{"plain": "a password of the target"}), true},
		"another":     {map[string]any{"plain": own}, inHuman("password", map[string]any{"plain": "a password of the target"}), true},
		"a-hash":      {map[string]any{"plain": own}, inHuman("password", map[string]any{"hash": "$2a$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW"}), true},
		"kept":        {map[string]any{"plain": own}, inHuman("phone", map[string]any{"number": "+41791234567"}), false},
		"as-it-comes": {map[string]any{"plain": own}, func(map[string]any) {}, false},
	} {
		set(test.change)
		got := n.rest(http.MethodPost, "/resources/v3alpha/users", human(name, test.password))
		if got.OK == test.refused {
			t.Errorf("%s: got %d %v", name, got.Status, got.Body)
			continue
		}
		if !test.refused && !login(name, own) {
			t.Errorf("%s: the password of the request is not that of the user", name)
		}
		if test.refused && n.value("SELECT count(*)::text FROM users WHERE instance_id = $1 AND username = $2", n.id, name) != "0" {
			t.Errorf("%s: there is a user", name)
		}
	}
	// Nor in responses: what is shown once is what was made.
	n.put(map[string]any{"response": map[string]any{"method": "/writ.user.v3alpha.ServiceUsers/CreatePersonalAccessToken"}}, nil, at)
	set(func(message map[string]any) { message["token"] = "a token of the target" })
	path := "/resources/v3alpha/users/" + n.own + "/pats"
	if got := n.rest(http.MethodPost, path, map[string]any{}); got.OK {
		t.Errorf("a token: got %v", got.Body)
	}
	set(func(map[string]any) {})
	got := n.rest(http.MethodPost, path, map[string]any{})
	if token := text(got.Body, "token"); !n.by(token).rest(http.MethodGet, "/resources/v3alpha/projects/"+n.project, nil).OK {
		t.Errorf("the token that was shown is not good: %d", got.Status)
	}
}
