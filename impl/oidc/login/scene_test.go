package login_test

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/writ-id/writ/impl/oidc/login/flow"
)

// brand has a context say something of its looks.
func (w *world) brand(orgID, properties string) {
	w.Helper()
	w.exec(`INSERT INTO settings (instance_id, org_id, subject, properties, sequence, change_date) VALUES ($1, $2, 'branding', $3, 1, now())
		ON CONFLICT (instance_id, org_id, subject) DO UPDATE SET properties = excluded.properties`, w.instance.ID, orgID, properties)
	w.Forget()
}

// TestSEC146_ABrandedPageAllowsItsOwnColoursAndNothingElse opens every page with a brand of
// the instance.
func TestSEC146_ABrandedPageAllowsItsOwnColoursAndNothingElse(t *testing.T) {
	t.Parallel()
	w := start(t, true)
	w.brand("", `{"primaryColorLight":"#402060","logoLight":{"url":"/assets/x.png","width":300,"height":90},"icon":{"url":"/assets/i.png"},"termsLink":"https://x.example/t?a=b&c=\"d"}`)
	seen := 0
	w.pages(func(name string, b *browser) {
		seen++
		_, rest, _ := strings.Cut(b.body, "<style>")
		css, _, _ := strings.Cut(rest, "</style>")
		sum := sha256.Sum256([]byte(css))
		policy := b.got.Get("Content-Security-Policy")
		if !strings.Contains(css, "--accent:#402060;") || !strings.Contains(policy, "style-src 'self' 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"';") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the style is %q, the policy %q", name, css, policy)
		}
		for _, part := range []string{`src="/assets/x.png"`, `width="186" height="56"`, `href="/assets/i.png" type="image/png"`, `href="https://x.example/t?a=b&amp;c=%22d"`, `<footer class="foot">`} {
			if !strings.Contains(b.body, part) {
				t.Errorf("%s lacks %s: %s", name, part, b.body)
			}
		}
	})
	if seen < 20 {
		t.Errorf("%d pages", seen)
	}
}

func TestThePagesOfALoginLookLikeTheOrganizationItIsFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	org := w.instance.DefaultOrg
	w.brand("", `{"primaryColorLight":"#402060","helpLink":"https://instance.example/"}`)
	w.brand(org, `{"primaryColorLight":"#00306a","hideProductName":{"value":true}}`)
	of := func(orgID string) string {
		b := w.browser()
		w.browser2(b, &begun{Asked: flow.Asked{Request: "client_id=c&redirect_uri=https%3A%2F%2Fapp.example%2Fcb", OrgID: orgID}})
		return b.body
	}
	if got := of(""); !strings.Contains(got, "#402060") || !strings.Contains(got, "https://instance.example/") || !strings.Contains(got, "– Writ</title>") {
		t.Errorf("of the instance: %s", got)
	}
	if got := of(org); !strings.Contains(got, "#00306a") || !strings.Contains(got, "https://instance.example/") || strings.Contains(got, "Writ") {
		t.Errorf("of the organization: %s", got)
	}
	w.brand("", `{}`)
	if got := of(""); strings.Contains(got, "<style>") || !strings.Contains(got, "Writ") {
		t.Errorf("of nobody: %s", got)
	}
}

// TestSEC149_StoredLooksThatNoContractCheckedAreStillNothingButLooks is about rows that
// somebody wrote into the database.
func TestSEC149_StoredLooksThatNoContractCheckedAreStillNothingButLooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, payload := range []string{`javascript:alert(1)`, `\"><script>alert(1)</script>`, `data:text/html,<script>alert(1)</script>`} {
		w.brand("", `{"termsLink":"`+payload+`","icon":{"url":"`+payload+`"},"logoLight":{"url":"`+payload+`","width":3,"height":3}}`)
		got := w.browser().open("/login").body
		if strings.Contains(got, "<script>") || strings.Contains(got, `"javascript:`) || strings.Contains(got, `"data:`) {
			t.Errorf("%s: got %s", payload, got)
		}
	}
}
