package login_test

import (
	"strings"
	"testing"

	"github.com/writ-id/writ/impl/oidc/login/flow"
)

// provider gives an organization, or with "" the instance, an SMTP provider that is active.
func (w *world) provider(org string) {
	w.exec(`INSERT INTO smtp_providers (instance_id, id, org_id, provider_type, name, name_folded, description, state_policy, sender_address, sender_name, reply_to_address,
			host, tls, auth, username, password, token_endpoint, client_id, client_secret, scopes, endpoint, signing_key, sequence, creation_date, change_date)
		VALUES ($1, 'p' || $2, (SELECT id FROM organizations WHERE instance_id = $1 AND name = $2), 'smtp', 'x', 'x', '', 1, 'a@b.example', '', '',
			'localhost:25', 0, 0, '', '', '', '', '', '{}', '', '', 1, now(), now())`, w.instance.ID, org)
}

// TestSEC170_WithoutAProviderThePagesSayTheSameOfEverybody asks for a new password and to be
// registered, as somebody who is known here and as somebody who is not.
func TestSEC170_WithoutAProviderThePagesSayTheSameOfEverybody(t *testing.T) {
	t.Parallel()
	w := startWith(t, false, false, nil)
	const missing = "No e-mail can be sent from here"
	flow := func() (*browser, string) {
		b := w.browser().open("/begin")
		return b, "?flow=" + b.forms["form"].values.Get("flow")
	}
	plain := func(b *browser, path string) string {
		b.want(503, path, missing)
		return strings.ReplaceAll(b.body, "request-1", "")
	}
	var first string
	for _, name := range []string{"alice", "nobody at all"} {
		b, at := flow()
		got := plain(b.open("/login/forgot"+at), "/login/forgot")
		if first == "" {
			first = got
		}
		if got != first {
			t.Errorf("%s is told something else: %s", name, got)
		}
	}
	b, at := flow()
	plain(b.open("/login/register"+at), "/login/register")

	// Who had the form before the provider was taken away is told the same.
	w.provider("")
	var forms []*browser
	for range 2 {
		b, at := flow()
		forms = append(forms, b.open("/login/forgot"+at).want(200, "/login/forgot"))
	}
	b, at = flow()
	b.open("/login/register"+at).want(200, "/login/register")
	w.exec("DELETE FROM smtp_providers")
	if a, b := plain(forms[0].send("loginName", "alice"), "/login/forgot"), plain(forms[1].send("loginName", "nobody at all"), "/login/forgot"); a != b {
		t.Errorf("alice is told %s, nobody %s", a, b)
	}
	if n := w.value("SELECT count(*)::text FROM messages"); n != "0" {
		t.Errorf("%s messages are queued", n)
	}
}

func TestSEC170_WhetherTheProviderIsOfTheUsersOrganizationIsNotTold(t *testing.T) {
	t.Parallel()
	w := startWith(t, false, false, nil)
	w.provider("O")
	for _, name := range []string{"olga@o.example", "alice", "nobody at all"} {
		w.browser().forgot(name).want(200, "/login/reset", "is known here")
	}
	if got := w.value("SELECT string_agg(recipient, ' ') FROM messages"); got != "olga@mail.example" {
		t.Errorf("messages are queued for %s", got)
	}
	// Where an organization is named, that one counts, for everybody.
	w.begin.Store(&begun{Asked: flow.Asked{Request: "client_id=c", AppName: "Inventory", OrgID: w.users["alice"].OrgID}})
	b := w.browser().open("/begin")
	b.open("/login/forgot?flow="+b.forms["form"].values.Get("flow")).want(503, "/login/forgot")
}
