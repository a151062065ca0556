package seed_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/transfer"
	"github.com/writ-id/writ/impl/dev/seed"
	"github.com/writ-id/writ/impl/server"
)

// tenant is what a seed file can say of organizations.
const tenant = `instances:
- name: a
  domains: [a.example]
  organizations:
  - name: Acme
    id: acme
    domains: [acme.example, acme.test]
    languages: {default_language: {key: de}}
    branding: {primary_color_light: "#402060", hide_product_name: {value: true}, terms_link: "https://acme.example/$${terms}"}
    lifetimes: {access_token_lifetime: 900s, session_idle_lifetime: 3600s}
    applications: {roles_need_trust: {value: true}}
    message_texts: {otp_email: {de: {subject: "Code {{.Code}}", text: "Zwei\n\n{{.Code}}"}}}
    users:
    - username: ada
      id: u-ada
      human:
        profile: {given_name: Ada, family_name: "true", preferred_language: de, birthdate: "1990-05-17"}
        email: {address: ada@acme.example, is_verified: true}
        phone: {number: "+41441234567"}
        address: {street_address: "Way 1\nBack door", country: CH}
        password: {plain: "Correct horse 1", change_required: true}
      metadata: {"true": "1", team: "$${TEAM} #1", empty: " "}
      org_roles: [ORG_OWNER]
    - username: robot
      service: {name: Robot, description: "Does: it", access_token_type: ACCESS_TOKEN_TYPE_JWT}
      secret: {}
    projects:
    - name: Shop
      id: p-shop
      project_role_assertion: true
      roles: [{key: editor, display_name: Editor, group: staff}, {key: reader}]
      apps:
      - {name: Web, oidc: {redirect_uris: ["https://shop.example.com/cb"], grant_types: [GRANT_TYPE_AUTHORIZATION_CODE, GRANT_TYPE_REFRESH_TOKEN], clock_skew: 1s}, trusted: true}
      - {name: Mobile, oidc: {redirect_uris: ["https://shop.example.com/mobile"]}, trusted_in_organization: true}
      - {name: API, api: {auth_method_type: AUTH_METHOD_TYPE_BASIC}}
      members: [{user: ada, roles: [PROJECT_OWNER]}]
    user_grants: [{user: ada, project: Shop, role_keys: [editor]}]
  - name: Beta
    id: beta
    users:
    - {username: bob, human: {profile: {given_name: Bob, family_name: B}, email: {address: bob@beta.example}, password: {plain: "Correct horse 2"}}}
    projects:
    - name: Tools
      roles: [{key: user}]
      grants: [{organization: Acme, role_keys: [user]}]
`

// grants are a project of the organization before, and of the one behind.
const grants = `instances:
- name: a
  domains: [a.example]
  organizations:
  - name: Acme
    projects: [{name: Shop, grants: [{organization: Beta, role_keys: [editor]}]}]
    user_grants: [{user: ada, organization: Beta, project: Tools, role_keys: [user]}]
  - name: Beta
    user_grants: [{user: bob, organization: Acme, project: Shop, role_keys: [editor]}]
`

// rows is what the tables of an instance have, as an export reads them.
func rows(t *testing.T, f fixture, asked transfer.Asked) transfer.Source {
	t.Helper()
	var instance string
	if err := f.db.Pool.QueryRow(t.Context(), "SELECT id FROM instances WHERE name = 'a'").Scan(&instance); err != nil {
		t.Fatal(err)
	}
	list := &items{}
	for _, kind := range storage.Moved {
		found, err := f.db.Pool.Query(t.Context(), kind.Export, instance)
		if err != nil {
			t.Fatal(err)
		}
		read, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (transfer.Item, error) {
			return kind.Scan(row, asked, transfer.Arrival{InstanceID: instance, Sealer: f.server.Sealer})
		})
		if err != nil {
			t.Fatalf("%s: %v", kind.Name, err)
		}
		for _, item := range read {
			list.kinds, list.items = append(list.kinds, kind), append(list.items, item)
		}
	}
	return list
}

type items struct {
	kinds []*transfer.Kind
	items []transfer.Item
	at    int
}

func (l *items) Next(context.Context) (*transfer.Kind, transfer.Item, error) {
	if l.at == len(l.items) {
		return nil, nil, io.EOF
	}
	l.at++
	return l.kinds[l.at-1], l.items[l.at-1], nil
}

func (f fixture) apply(t *testing.T, text string) *seed.Applied {
	t.Helper()
	file, err := seed.Parse("seed.yaml", []byte(text), noEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	applied, err := server.ApplySeed(t.Context(), f.server, file, f.c)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return applied
}

// written is what the database has as a seed file, and what that file does not have.
func written(t *testing.T, f fixture) (text string, lost []string) {
	t.Helper()
	var b bytes.Buffer
	err := seed.Write(t.Context(), &b, rows(t, f, transfer.Asked{Passwords: true, Secrets: true}), seed.As{
		Instance: "a", Domains: []string{"a.example"}, Lost: func(kind, id, reason string) { lost = append(lost, fmt.Sprintf("%s %s: %s", kind, id, reason)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lost)
	return b.String(), lost
}

// TestAnExportAsASeedFileMakesTheSameAgain goes from a database by a seed file to an empty
// one, and from there to a seed file.
func TestAnExportAsASeedFileMakesTheSameAgain(t *testing.T) {
	t.Parallel()
	first := newFixture(t)
	first.apply(t, tenant)
	first.apply(t, grants) // of what is there
	text, lost := written(t, first)
	if again := first.apply(t, text); len(again.Changes) > 0 || len(again.Generated) > 0 {
		t.Errorf("where it comes from it changes %v and makes %v\n%s", again.Changes, again.Generated, text)
	}
	second := newFixture(t)
	second.apply(t, text)
	same, _ := written(t, second)
	if diff := cmp.Diff(text, same); diff != "" {
		t.Errorf("it comes out otherwise (-first +second):\n%s", diff)
	}
	for _, want := range []string{"id: u-ada", "family_name: \"true\"", "$${TEAM} #1", "https://acme.example/$${terms}", "change_required: true", "hash: $argon2id$", "trusted: true", "trusted_in_organization: true", "accessTokenLifetime: 900s", "sessionIdleLifetime: 3600s", "rolesNeedTrust:", "org_roles:", "PROJECT_OWNER", "- acme.example", "Zwei"} {
		if !strings.Contains(text, want) {
			t.Errorf("it has no %q:\n%s", want, text)
		}
	}
	for _, want := range []string{"client ID are new", "client secret is a new one", "default one"} {
		if !slices.ContainsFunc(lost, func(line string) bool { return strings.Contains(line, want) }) {
			t.Errorf("there is no report of %q in %q", want, lost)
		}
	}
}

// TestWhatASeedFileCannotSayIsReported changes what a seed file has no words for.
func TestWhatASeedFileCannotSayIsReported(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(t, tenant)
	for _, change := range []string{
		"UPDATE users SET state = 2 WHERE username = 'bob'", "UPDATE users SET password_hash = NULL WHERE username = 'ada'",
		"UPDATE projects SET state = 2 WHERE name = 'Tools'", "UPDATE organizations SET state = 2 WHERE name = 'Beta'",
		"UPDATE user_metadata SET value = '\\xff' WHERE id = 'team'", "UPDATE user_grants SET state = 2",
	} {
		if tag, err := f.db.Pool.Exec(t.Context(), change); err != nil || tag.RowsAffected() == 0 {
			t.Fatalf("%s: %v, %v", change, tag, err)
		}
	}
	_, lost := written(t, f)
	all := strings.Join(lost, "\n")
	for _, want := range []string{"inactive or locked", "users u-ada: there is no password", "organizations beta: it is inactive", "userMetadata u-ada/team: a seed file has texts only", "userGrants", "projects "} {
		if !strings.Contains(all, want) {
			t.Errorf("there is no report of %q in\n%s", want, all)
		}
	}
}
