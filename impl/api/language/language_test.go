package language_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/server/servertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const languages = "/settings/v3alpha/languages"

// resolved returns the settings of a context in one line: default language and its
// owner, restricted languages and their owner.
func resolved(c *servertest.Cluster, user, query string) string {
	c.Helper()
	settings := c.Must(user, "GET", languages+query, "").Object(c.T, "settings")
	show := func(name string) string {
		one := settings[name].(map[string]any)
		owner := ""
		if from, ok := one["owner"].(map[string]any); ok {
			owner = " of " + strings.ToLower(strings.TrimPrefix(from["type"].(string), "OWNER_TYPE_"))
		}
		if text, ok := one["value"].(string); ok {
			return text + owner
		}
		var keys []string
		for _, language := range one["value"].([]any) {
			keys = append(keys, language.(map[string]any)["key"].(string))
		}
		return strings.Join(keys, ",") + owner
	}
	if got := show("supportedLanguages"); got != "de,en of system" {
		c.Errorf("supported are %s", got)
	}
	return show("defaultLanguage") + "; " + show("restrictedLanguages")
}

func TestWhatAContextDoesNotSayIsInherited(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	const system = "?ctx.system=true"
	org, other := "?ctx.orgId="+c.Org("A"), "?ctx.orgId="+c.Org("A2")
	for _, step := range []struct {
		user, query, body                  string
		system, instance, org, other, away string // resolved after it; "" for as before
	}{
		{"", "", "", "en of system; de,en of system", "en of system; de,en of system", "en of system; de,en of system", "en of system; de,en of system", "en of system; de,en of system"},
		{"system", system, `{"defaultLanguage":{"key":"de"}}`, "de; de,en of system", "de of system; de,en of system", "de of system; de,en of system", "de of system; de,en of system", "de of system; de,en of system"},
		{"owner", "", `{"defaultLanguage":{"key":"en"}}`, "", "en; de,en of system", "en of instance; de,en of system", "en of instance; de,en of system", ""},
		{"owner", org, `{"defaultLanguage":{"key":"de"},"restrictedLanguages":{"languages":[{"key":"de"}]}}`, "", "", "de; de", "", ""},
		{"owner", "", `{"restrictedLanguages":{"languages":[{"key":"en"}]}}`, "", "en; en", "", "en of instance; en of instance", ""},
		{"owner", org, `{"defaultLanguage":{}}`, "", "", "de of system; de", "", ""}, // en of the instance is not among de
		{"owner", org, `{"defaultLanguage":{"key":"en"}}`, "", "", "400", "", ""},
		{"owner", org, `{"defaultLanguage":{"key":"de-CH"}}`, "", "", "de; de", "", ""},
		{"owner", org, `{"restrictedLanguages":{}}`, "", "", "en of instance; en of instance", "", ""},   // nor de among en
		{"owner", org, `{"restrictedLanguages":{"languages":[{"key":"de"}]}}`, "", "", "de; de", "", ""}, // which counts again
		{"owner", org, `{"defaultLanguage":{}}`, "", "", "de of system; de", "", ""},
		{"owner", org, `{"restrictedLanguages":{}}`, "", "", "en of instance; en of instance", "", ""},
		{"owner", org, `{"restrictedLanguages":{"languages":[{"key":"de"}]}}`, "", "", "de of system; de", "", ""}, // restricting alone moves en
		{"owner", org, `{"restrictedLanguages":{},"defaultLanguage":{"key":""}}`, "", "", "en of instance; en of instance", "", ""},
		{"owner", "", `{"restrictedLanguages":{"languages":[]}}`, "", "en; de,en of system", "en of instance; de,en of system", "en of instance; de,en of system", ""},
		{"owner", "", `{"defaultLanguage":{}}`, "", "de of system; de,en of system", "de of system; de,en of system", "de of system; de,en of system", ""},
	} {
		asked := step.body
		if step.user != "" {
			refused := strings.Contains(step.org, "400")
			got := c.Do(step.user, "PATCH", languages+step.query, step.body)
			if refused {
				c.IsRefused(got, asked, 400, "DEFAULT_LANGUAGE_RESTRICTED")
				continue
			}
			if got.Status != 200 {
				t.Fatalf("%s: got %d %s", asked, got.Status, got.Body)
			}
		}
		for _, of := range [][3]string{{"system", system, step.system}, {"owner", "", step.instance}, {"owner", org, step.org}, {"owner", other, step.other}, {"bob", "", step.away}} {
			if got := resolved(c, of[0], of[1]); of[2] != "" && got != of[2] {
				t.Errorf("after %s: %s%s resolves to %s, want %s", asked, of[0], of[1], got, of[2])
			}
		}
	}
}

func TestLanguagesAreSupportedTagsInCanonicalForm(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	c.Must("owner", "PATCH", languages, `{"defaultLanguage":{"key":"DE"},"restrictedLanguages":{"languages":[{"key":"EN"},{"key":"De"},{"key":"en"}]}}`)
	if got := resolved(c, "owner", ""); got != "de; de,en" {
		t.Errorf("got %s", got)
	}
	for key, want := range map[string]string{
		"fr": "LANGUAGE_NOT_SUPPORTED", "fr-CH": "LANGUAGE_NOT_SUPPORTED", "tlh": "LANGUAGE_NOT_SUPPORTED", "und": "LANGUAGE_NOT_SUPPORTED",
		"xx": "INVALID_LANGUAGE", "en-abcdefghi": "", "e": "", "en_US": "", "en\t": "", "de-": "", "<b>": "", "dé": "",
	} {
		for _, body := range []string{`{"defaultLanguage":{"key":%q}}`, `{"restrictedLanguages":{"languages":[{"key":"en"},{"key":%q}]}}`} {
			got := c.Do("owner", "PATCH", languages, fmt.Sprintf(body, key))
			if got.Status != 400 || !strings.Contains(got.Body, want) || !strings.Contains(got.Body, `"field":"`) {
				t.Errorf("%q: got %d %s, want 400 %s", key, got.Status, got.Body, want)
			}
		}
	}
	for _, body := range []string{`{"restrictedLanguages":{"languages":[{}]}}`, `{"restrictedLanguages":[]}`, `{"defaultLanguage":"de"}`, `{"supportedLanguages":{}}`, `{"defaultLanguage":null}`} {
		if got := c.Do("owner", "PATCH", languages, body); got.Status != 400 {
			t.Errorf("%s: got %d %s", body, got.Status, got.Body)
		}
	}
	c.Refused("owner", "PATCH", languages, `{"restrictedLanguages":{"languages":[{"key":"en"}]}}`, 400, "DEFAULT_LANGUAGE_RESTRICTED")
	if got := resolved(c, "owner", ""); got != "de; de,en" {
		t.Errorf("a refused change is there: %s", got)
	}
}

func TestASettingThatChangesNothingIsNoEvent(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	details := func(got servertest.Reply) map[string]any { return got.Object(t, "details") }
	if first := details(c.Must("owner", "GET", languages, "")); fmt.Sprint(first["sequence"]) != "0" || first["changeDate"] != nil {
		t.Errorf("before the first word: %v", first)
	}
	if empty := details(c.Must("owner", "PATCH", languages, `{}`)); fmt.Sprint(empty["sequence"]) != "0" {
		t.Errorf("nothing: %v", empty)
	}
	set := details(c.Must("owner", "PATCH", languages, `{"defaultLanguage":{"key":"de"}}`))
	again := details(c.Must("owner", "PATCH", languages, `{"defaultLanguage":{"key":"DE"}}`))
	read := details(c.Must("owner", "GET", languages, ""))
	if fmt.Sprint(set) != fmt.Sprint(again) || fmt.Sprint(set) != fmt.Sprint(read) {
		t.Errorf("got %v, then %v, read %v", set, again, read)
	}
	if owner := fmt.Sprint(set["resourceOwner"]); !strings.Contains(owner, c.Instance("a")) {
		t.Errorf("the owner is %s", owner)
	}
	if got := c.Value("SELECT count(*)::text FROM events WHERE event_type LIKE 'settings.%' OR event_type LIKE '%language%'"); got != "1" {
		t.Errorf("%s events", got)
	}
}

func TestSEC238_SettingsStayWithinTheTenantAndOnesOrganization(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	const body = `{"defaultLanguage":{"key":"de"}}`
	a, a2, b := c.Org("A"), c.Org("A2"), c.Instance("b")
	for _, test := range []struct {
		user, query string
		read, write int
	}{
		{"nobody", "", 200, 200}, // any caller of the tenant (document 1)
		{"nobody", "?ctx.orgId=" + a, 200, 200},
		{"nobody", "?ctx.orgId=" + a2, 403, 403},
		{"nobody", "?ctx.system=true", 403, 403},
		{"nobody", "?ctx.instanceId=" + b, 403, 403},
		{"nobody", "?ctx.instanceDomain=b.example", 403, 403},
		{"guest", "?ctx.orgId=" + a, 403, 403},
		{"orgowner", "?ctx.orgId=" + a2, 403, 403},
		{"owner", "?ctx.orgId=" + a2, 200, 200}, // holds org.write there
		{"owner", "?ctx.orgId=nope", 404, 404},
		{"owner", "?ctx.system=true", 403, 403},
		{"system", "?ctx.instanceId=" + b, 200, 200},
		{"system", "?ctx.system=true", 200, 200},
		{"wrong", "", 401, 401},
	} {
		if got := c.Do(test.user, "GET", languages+test.query, ""); got.Status != test.read {
			t.Errorf("%s reads %q: got %d %s, want %d", test.user, test.query, got.Status, got.Body, test.read)
		}
		if got := c.Do(test.user, "PATCH", languages+test.query, body); got.Status != test.write {
			t.Errorf("%s writes %q: got %d %s, want %d", test.user, test.query, got.Status, got.Body, test.write)
		}
	}
	for _, caller := range []string{"nobody", "owner"} { // what is out of reach answers like what does not exist
		other, none := c.Do(caller, "GET", languages+"?ctx.instanceId="+b, ""), c.Do(caller, "GET", languages+"?ctx.instanceId=nope", "")
		if other.Status != none.Status || other.Body != none.Body {
			t.Errorf("%s: another tenant is %d %s, one that does not exist %d %s", caller, other.Status, other.Body, none.Status, none.Body)
		}
	}
	c.Must("owner", "PUT", "/v2/features/instance", `{"multitenancySettings":false}`)
	c.Refused("owner", "GET", languages, "", 400, "FEATURE_DISABLED")
	c.Refused("owner", "PATCH", languages, body, 400, "FEATURE_DISABLED")
}

// TestREL024_TwoSettersNeverAgreeOnNonsense lets two nodes each set what the other
// one's word forbids.
func TestREL024_TwoSettersNeverAgreeOnNonsense(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 2, nil)
	set := func(node int, body string) servertest.Reply {
		return c.Call(node, "a.example", "owner", "PATCH", languages, body)
	}
	for round := range 15 {
		set(0, `{"defaultLanguage":{},"restrictedLanguages":{}}`)
		var both sync.WaitGroup
		var got [2]servertest.Reply
		both.Go(func() { got[0] = set(0, `{"defaultLanguage":{"key":"de"}}`) })
		both.Go(func() { got[1] = set(1, `{"restrictedLanguages":{"languages":[{"key":"en"}]}}`) })
		both.Wait()
		if got[0].Status+got[1].Status != 200+400 {
			t.Fatalf("round %d: got %v, want that one is refused", round, got)
		}
		if now := resolved(c, "owner", ""); now != "de; de,en of system" && now != "en of system; en" {
			t.Fatalf("round %d: %s", round, now)
		}
	}
	// Different fields both survive.
	set(0, `{"defaultLanguage":{},"restrictedLanguages":{}}`)
	var both sync.WaitGroup
	both.Go(func() { set(0, `{"defaultLanguage":{"key":"de"}}`) })
	both.Go(func() { set(1, `{"restrictedLanguages":{"languages":[{"key":"en"},{"key":"de"}]}}`) })
	both.Wait()
	if now := resolved(c, "owner", ""); now != "de; de,en" {
		t.Errorf("one of two is lost: %s", now)
	}
}
