package seed_test

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-id/writ/contracts"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/core/webhook"
	"github.com/writ-id/writ/impl/dev/seed"
	"github.com/writ-id/writ/impl/server"
	"github.com/writ-id/writ/impl/server/servertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func noEnvironment(string) (string, bool) { return "", false }

func TestParseNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, text, want string }{
		{"not YAML", "a: [", "seed.yaml"},
		{"an unknown key", "instance: []", "seed.yaml:1: instance: there is no such field"},
		{"a missing name", "instances: [{domains: [a]}]", "instances[0]: missing property 'name'"},
		{"a domain in upper case", "instances: [{name: a, domains: [A]}]", "instances[0].domains[0]"},
		{"a token that is too weak", "system: {users: [{username: a, roles: [SYSTEM_OWNER], tokens: [{name: t, token: writ_pat_short}]}]}", "tokens[0].token"},
		{"a time that is none", "system: {users: [{username: a, roles: [SYSTEM_OWNER], tokens: [{name: t, expires: tomorrow}]}]}", "tokens[0].expires"},
		{"neither human nor machine", "instances: [{name: a, organizations: [{name: o, users: [{username: u}]}]}]", "instances[0].organizations[0].users[0]"},
		{"nothing", "", "seed.yaml:1: the file"},
		{"a field inside a user", "instances:\n  - name: a\n    organizations:\n      - name: o\n        users:\n          - username: u\n            human:\n              email: {addr: u@x.example}", "seed.yaml:8: instances[0].organizations[0].users[0].human.email.addr: there is no such field"},
		{"a field of another type", "instances:\n  - name: a\n    organizations:\n      - name: o\n        users:\n          - username: u\n            human:\n              password:\n                plain: a password\n                change_required: sure", "seed.yaml:10: instances[0].organizations[0].users[0].human.password.change_required: got string, want boolean"},
		{"no such value", "instances:\n- name: a\n  organizations:\n  - name: o\n    projects:\n    - name: p\n      apps:\n      - name: first\n        oidc: &o {redirect_uris: [x]}\n      - name: second\n        oidc:\n          <<: *o\n          auth_method_type: BASIC", "seed.yaml:13: instances[0].organizations[0].projects[0].apps[1].oidc.auth_method_type: value must be one of"},
		{"a field of a role that the seed knows", "instances: [{name: a, organizations: [{name: o, projects: [{name: p, roles: [{key: k, project_id: x}]}]}]}]", "roles[0].project_id: there is no such field"},
		{"a variable that is not set", "instances:\n  - name: ${NAME}", "seed.yaml:2: the variable NAME is not set"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := seed.Parse("seed.yaml", []byte(test.text), noEnvironment)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want something about %q", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("the message has more than one line: %q", err)
			}
		})
	}
}

func TestVariablesStandForValuesOnly(t *testing.T) {
	t.Parallel()
	environment := map[string]string{"NAME": "a: [b]", "EMPTY": ""}
	file, err := seed.Parse("seed.yaml", []byte("instances:\n- name: x-${NAME}-${EMPTY}-${OTHER:-d}-$${NAME}\n"), func(name string) (string, bool) {
		value, ok := environment[name]
		return value, ok
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := file.Instances[0].Name, "x-a: [b]--d-${NAME}"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(contracts.DefaultSeed)
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("${A}"))
	f.Fuzz(func(_ *testing.T, text []byte) {
		_, _ = seed.Parse("fuzz", text, noEnvironment) // must not panic
	})
}

func TestNamesInEitherSpellingAreTheSame(t *testing.T) {
	t.Parallel()
	for _, fields := range []string{"{auth_method_type: AUTH_METHOD_TYPE_NONE, redirect_uris: [x]}", "{authMethodType: AUTH_METHOD_TYPE_NONE, redirectUris: [x]}"} {
		text := "instances: [{name: a, organizations: [{name: o, projects: [{name: p, apps: [{name: n, oidc: " + fields + "}]}]}]}]"
		if _, err := seed.Parse("seed.yaml", []byte(text), noEnvironment); err != nil {
			t.Errorf("%s: %v", fields, err)
		}
	}
}

func TestAPasswordThatHasToBeChangedHasToBe(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	apply := func(password string) int {
		t.Helper()
		text := "instances: [{name: a, organizations: [{name: o, users: [{username: u, human: {profile: {given_name: U, family_name: V}, email: {address: u@x.example}, password: " + password + "}}]}]}]"
		file, err := seed.Parse("seed.yaml", []byte(text), noEnvironment)
		if err != nil {
			t.Fatal(err)
		}
		applied, err := server.ApplySeed(t.Context(), f.server, file, f.c)
		if err != nil {
			t.Fatal(err)
		}
		return len(applied.Changes)
	}
	required := func() (is bool) {
		t.Helper()
		if err := f.db.Pool.QueryRow(t.Context(), "SELECT password_change_required FROM users WHERE username = 'u'").Scan(&is); err != nil {
			t.Fatal(err)
		}
		return is
	}
	for _, step := range []struct {
		password string
		want     bool
	}{
		{"{plain: the first one, change_required: true}", true},
		{"{plain: the second one}", false},
		{"{plain: the second one, changeRequired: true}", true},
	} {
		if apply(step.password); required() != step.want {
			t.Errorf("%s: has to be changed: %v", step.password, !step.want)
		}
		if n := apply(step.password); n != 0 {
			t.Errorf("%s: a second time made %d changes", step.password, n)
		}
	}
}

type fixture struct {
	db     *store.DB
	server server.Config
	c      seed.Config
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	db := pgtest.Open(t, 4)
	config := servertest.Config(db)
	config.Now = func() time.Time { return time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC) }
	return fixture{db: db, server: config}
}

func (f fixture) events(t *testing.T) (n int) {
	t.Helper()
	if err := f.db.Pool.QueryRow(t.Context(), "SELECT count(*) FROM events").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestApplyingAgainChangesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	file, err := seed.Default()
	if err != nil {
		t.Fatal(err)
	}
	first, err := server.ApplySeed(t.Context(), f.server, file, f.c)
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Changes) == 0 || len(first.Generated) != 14 {
		t.Errorf("the first run: got changed %v and %d secrets, want true and 14", (len(first.Changes) > 0), len(first.Generated))
	}
	before := f.events(t)
	second, err := server.ApplySeed(t.Context(), f.server, file, f.c)
	if err != nil {
		t.Fatal(err)
	}
	if (len(second.Changes) > 0) || len(second.Generated) != 0 || f.events(t) != before {
		t.Errorf("the second run: got changed %v, %d secrets, %d more events; want none", (len(second.Changes) > 0), len(second.Generated), f.events(t)-before)
	}
	f.c.Known, f.c.Reissue = first.Secrets, true
	third, err := server.ApplySeed(t.Context(), f.server, file, f.c)
	if err != nil {
		t.Fatal(err)
	}
	if (len(third.Changes) > 0) || !maps.Equal(third.Secrets, first.Secrets) {
		t.Errorf("a run that knows the secrets: got changed %v, want it to keep them", (len(third.Changes) > 0))
	}
}

func TestTheKeyOfATargetIsToldWhenItIsMade(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	file, err := seed.Parse("seed.yaml", []byte("instances: [{name: a, targets: [{name: hook, timeout: 1s, rest_webhook: {url: 'https://a.example'}}]}]"), noEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	const path = "instances.a.targets.hook.signing_key"
	unsealed := f.server
	unsealed.Sealer = secret.NoKey{}
	without, err := server.ApplySeed(t.Context(), unsealed, file, seed.Config{DryRun: true})
	if err != nil || without.Secrets[path] != "" {
		t.Errorf("without a master key there is the key %q, %v", without.Secrets[path], err)
	}
	first, err := server.ApplySeed(t.Context(), f.server, file, f.c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := webhook.ParseKey(first.Secrets[path]); err != nil || !slices.Contains(first.Generated, path) {
		t.Errorf("got %q, %v", first.Secrets[path], err)
	}
	f.c.Known = first.Secrets
	second, err := server.ApplySeed(t.Context(), f.server, file, f.c)
	if err != nil || second.Secrets[path] != first.Secrets[path] || len(second.Generated) > 0 {
		t.Errorf("again: got %q, %v", second.Secrets[path], err)
	}
}

func TestALostSecretIsReplacedOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	file, err := seed.Default()
	if err != nil {
		t.Fatal(err)
	}
	first, err := server.ApplySeed(t.Context(), f.server, file, f.c)
	if err != nil {
		t.Fatal(err)
	}
	const lost = "instances.default.users.admin.tokens.default"
	known := maps.Clone(first.Secrets)
	delete(known, lost)
	f.c.Known, f.c.Reissue = known, true
	again, err := server.ApplySeed(t.Context(), f.server, file, f.c)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(again.Generated, []string{lost}) || again.Secrets[lost] == first.Secrets[lost] {
		t.Errorf("got %v generated, want only the lost one, anew", again.Generated)
	}
	var hashes int
	old := secret.HashToken(first.Secrets[lost])
	if err := f.db.Pool.QueryRow(t.Context(), "SELECT count(*) FROM personal_access_tokens WHERE token_hash = $1", old[:]).Scan(&hashes); err != nil || hashes != 0 {
		t.Errorf("the lost token is still good (%d rows, %v)", hashes, err)
	}
}

func TestSettingsOfAFileAreSetOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const text = `instances: [{name: a, domains: [a.example], languages: {default_language: {key: de}}, branding: {primary_color_light: "#402060"},
		message_texts: {otp_email: {de: {subject: "Code {{.Code}}"}}}, organizations: [{name: o, branding: {hide_product_name: {value: true}}, message_texts: {otp_sms: {en: {text: "{{.Code}}"}}}}]}]`
	for run, want := range []string{
		"settings.branding.set settings.branding.set settings.languages.set settings.message_text.set settings.message_text.set", "",
	} {
		file, err := seed.Parse("seed.yaml", []byte(text), noEnvironment)
		if err != nil {
			t.Fatal(err)
		}
		applied, err := server.ApplySeed(t.Context(), f.server, file, f.c)
		if err != nil {
			t.Fatal(err)
		}
		var changed []string
		for _, one := range applied.Changes {
			if one.Aggregate == "settings" {
				changed = append(changed, one.Event)
			}
		}
		slices.Sort(changed)
		if got := strings.Join(changed, " "); got != want {
			t.Errorf("run %d: got %s, want %s", run, got, want)
		}
	}
}

func TestApplyRefusesAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, text, want string }{
		{"a role of another level", "instances: [{name: a, organizations: [{name: o, users: [{username: u, service: {name: Service}, instance_roles: [ORG_OWNER]}]}]}]", `"ORG_OWNER" is not a role of this level`},
		{"colours that nobody can read", `instances: [{name: a, domains: [x.example], branding: {font_color_light: "#eeeeee"}}]`, "contrast of 1."},
		{"words that name what is not there", `instances: [{name: a, domains: [x.example], message_texts: {otp_sms: {de: {text: "{{.Nothing}}"}}}}]`, "{{.Nothing}}"},
		{"a domain of another instance", "instances: [{name: a, domains: [x.example]}, {name: b, domains: [x.example]}]", "belongs to another instance"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			file, err := seed.Parse("seed.yaml", []byte(test.text), noEnvironment)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := server.ApplySeed(t.Context(), f.server, file, f.c); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want something about %q", err, test.want)
			}
			if n := f.events(t); n != 0 {
				t.Errorf("the refused file left %d events", n)
			}
		})
	}
}

// TestREL062_NodesThatStartTogetherSeedOnce applies one seed five times at once.
func TestREL062_NodesThatStartTogetherSeedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	file, err := seed.Default()
	if err != nil {
		t.Fatal(err)
	}
	var nodes sync.WaitGroup
	var mu sync.Mutex
	changed := 0
	for range 5 {
		nodes.Go(func() {
			applied, err := server.ApplySeed(t.Context(), f.server, file, f.c)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if len(applied.Changes) > 0 {
				changed++
			}
		})
	}
	nodes.Wait()
	if changed != 1 {
		t.Errorf("%d nodes changed something, want exactly one", changed)
	}
}

// TestSEC053_TheDatabaseHoldsNoSecretInClear looks for the generated secrets in
// every text of every table the seed writes.
func TestSEC053_TheDatabaseHoldsNoSecretInClear(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	file, err := seed.Default()
	if err != nil {
		t.Fatal(err)
	}
	applied, err := server.ApplySeed(t.Context(), f.server, file, f.c)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"events", "users", "personal_access_tokens", "memberships"} {
		var content string
		if err := f.db.Pool.QueryRow(t.Context(), "SELECT coalesce(string_agg(t::text, E'\\n'), '') FROM "+table+" t").Scan(&content); err != nil || content == "" {
			t.Fatalf("%s: %v, %d bytes", table, err, len(content))
		}
		for path, value := range applied.Secrets {
			if strings.Contains(content, value) || strings.Contains(content, strings.TrimPrefix(value, policy.TokenPrefix)) {
				t.Errorf("%s holds the secret %s", table, path)
			}
		}
	}
}
