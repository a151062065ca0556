package message_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/writ-id/writ/impl/api/message"
	"github.com/writ-id/writ/impl/server/servertest"
)

const texts = "/settings/v3alpha/message_texts/"

var allKinds = []string{"verify_email", "verify_phone", "otp_email", "otp_sms", "reset_password", "password_changed", "email_known", "door", "domain_claimed"}

// body is a request of some properties.
func body(properties map[string]string) string {
	text, _ := json.Marshal(properties)
	return string(text)
}

// preview returns a message as it would be sent.
func preview(c *servertest.Cluster, user, at, request string) (subject, text, page string) {
	c.Helper()
	got := c.Must(user, "POST", at, request).Any(c.T)
	show := func(name string) string { text, _ := got[name].(string); return text }
	return show("subject"), show("text"), show("html")
}

// TestSEC185_SubjectsSayWhoWrites: a subject names the instance, so that it reads like what it
// is, and a message asks for nothing in a hurry.
func TestSEC185_SubjectsSayWhoWrites(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	for _, kind := range allKinds {
		for _, language := range []string{"en", "de"} {
			subject, text, _ := preview(c, "owner", texts+kind+"/"+language+"/_preview", `{}`)
			if subject != "" && !strings.Contains(subject, "a.example") {
				t.Errorf("%s in %s: the subject %q does not say who writes", kind, language, subject)
			}
			for _, hurry := range []string{"act now", "at once", "immediately", "urgent", "sofort", "dringend", "!"} {
				if strings.Contains(strings.ToLower(subject+text), hurry) {
					t.Errorf("%s in %s: %q hurries: %q", kind, language, hurry, text)
				}
			}
		}
	}
}

func TestEveryKindHasWordsInEveryLanguage(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	for _, kind := range allKinds {
		subjects := map[string]bool{}
		for _, language := range []string{"de", "en", "de-CH"} {
			subject, text, page := preview(c, "owner", texts+kind+"/"+language+"/_preview", `{}`)
			sms := strings.HasSuffix(kind, "_sms") || kind == "verify_phone"
			if sms != (subject == "") || sms != (page == "") || !strings.Contains(text, "a.example") || strings.Contains(text+page, "{{") {
				t.Errorf("%s in %s: got %q, %q, %q", kind, language, subject, text, page)
			}
			if !sms {
				sameWords(t, kind+" in "+language, text, page)
			}
			subjects[text] = true
		}
		if len(subjects) != 2 {
			t.Errorf("%s: the languages say the same", kind)
		}
		variables := c.Must("owner", "GET", texts+kind+"/en", "").Any(t)["variables"].([]any)
		if len(variables) < 2 {
			t.Errorf("%s has the variables %v", kind, variables)
		}
	}
	c.Refused("owner", "GET", texts+"otp_email/fr", "", 400, "LANGUAGE_NOT_SUPPORTED")
	if got := c.Do("owner", "GET", texts+"nothing/de", ""); got.Status != 400 {
		t.Errorf("got %d %s", got.Status, got.Body)
	}
}

// sameWords compares what the text and the HTML of an e-mail say.
func sameWords(t *testing.T, what, text, page string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		for _, a := range n.Attr {
			if a.Key == "aria-hidden" { // the line beside the subject
				return
			}
			if a.Key == "href" {
				said = append(said, a.Val)
			}
		}
		if n.Type == html.ElementNode && (n.Data == "style" || n.Data == "title") {
			return
		}
		if n.Type == html.TextNode {
			said = append(said, strings.Fields(n.Data)...)
		}
		for child := n.FirstChild; child != nil; child = child.NextSibling {
			walk(child)
		}
	}
	walk(root)
	clean := func(words []string) []string {
		var kept []string
		for _, word := range words {
			if word = strings.TrimRight(word, ":"); word != "" && word != "--" && word != "·" && word != "Writ" && word != "." && !slices.Contains(kept, word) {
				kept = append(kept, word)
			}
		}
		slices.Sort(kept)
		return kept
	}
	if a, b := clean(strings.Fields(text)), clean(said); !slices.Equal(a, b) {
		t.Errorf("%s: the text says %q\nthe HTML %q", what, a, b)
	}
}

func TestWordsAreInheritedPropertyByProperty(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 2, nil)
	org := "?ctx.orgId=" + c.Org("A")
	at := texts + "otp_email/en"
	for _, step := range []struct{ query, body, instance, org string }{
		{"", `{}`, "{{.Code}} is your code for {{.Domain}} of system|Your code of system", "{{.Code}} is your code for {{.Domain}} of system|Your code of system"},
		{"", `{"subject":"Code {{.Code}}"}`, "Code {{.Code}}|Your code of system", "Code {{.Code}} of instance|Your code of system"},
		{org, `{"title":"Hi"}`, "", "Code {{.Code}} of instance|Hi"},
		{org, `{"subject":"Org {{.Code}}","title":""}`, "", "Org {{.Code}}|Your code of system"},
		{"", `{"subject":""}`, "{{.Code}} is your code for {{.Domain}} of system|Your code of system", "Org {{.Code}}|Your code of system"},
		{org, `{"subject":""}`, "", "{{.Code}} is your code for {{.Domain}} of system|Your code of system"},
	} {
		c.Must("owner", "PATCH", at+step.query, step.body)
		for _, of := range [][2]string{{"", step.instance}, {org, step.org}} {
			settings := c.Call(1, "a.example", "owner", "GET", at+of[0], "").Object(t, "settings")
			show := func(name string) string {
				one := settings[name].(map[string]any)
				text, _ := one["value"].(string)
				if owner, ok := one["owner"].(map[string]any); ok {
					text += " of " + strings.ToLower(strings.TrimPrefix(owner["type"].(string), "OWNER_TYPE_"))
				}
				return text
			}
			if got := show("subject") + "|" + show("title"); of[1] != "" && got != of[1] {
				t.Errorf("after %s%s: %q has %s, want %s", step.body, step.query, of[0], got, of[1])
			}
		}
	}
	before := c.Value("SELECT count(*)::text FROM events")
	c.Must("owner", "PATCH", at, `{"subject":"","footer":""}`)
	if after := c.Value("SELECT count(*)::text FROM events"); before != after {
		t.Errorf("nothing is %s events after %s", after, before)
	}
	// German is another thing, and so is another kind.
	c.Must("owner", "PATCH", at, `{"title":"Only English"}`)
	for _, other := range []string{texts + "otp_email/de", texts + "verify_email/en"} {
		if got := c.Must("owner", "GET", other, "").Body; strings.Contains(got, "Only English") {
			t.Errorf("%s has it too", other)
		}
	}
}

func TestWordsThatNoMessageCanBeMadeOfAreRefusedByFieldAndVariable(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	for _, test := range []struct{ kind, property, words, reason, names string }{
		{"otp_email", "subject", "Hello {{.Password}}", "MESSAGE_TEXT_VARIABLE_UNKNOWN", "{{.Password}}"},
		{"otp_email", "subject", "{{.Link}}", "MESSAGE_TEXT_VARIABLE_UNKNOWN", "{{.Link}}"}, // not of this kind
		{"otp_email", "title", "{{.Code", "MESSAGE_TEXT_BROKEN", ""},
		{"otp_email", "title", "{{Code}}", "MESSAGE_TEXT_BROKEN", "Code"},
		{"otp_email", "title", "{{.Code | printf}}", "MESSAGE_TEXT_BROKEN", ""},
		{"otp_email", "title", "{{.Code.Length}}", "MESSAGE_TEXT_BROKEN", ""},
		{"otp_email", "greeting", "{{with .Name}}x{{end}}", "MESSAGE_TEXT_BROKEN", ""},
		{"otp_email", "greeting", "{{range .Name}}x{{end}}", "MESSAGE_TEXT_BROKEN", ""},
		{"otp_email", "footer", `{{define "words"}}x{{end}}`, "MESSAGE_TEXT_BROKEN", ""},
		{"otp_email", "footer", `{{template "words"}}`, "MESSAGE_TEXT_BROKEN", ""},
		{"otp_email", "footer", `{{html .Code}}`, "MESSAGE_TEXT_BROKEN", ""},
		{"otp_email", "footer", `{{"text"}}`, "MESSAGE_TEXT_BROKEN", ""},
		{"otp_email", "footer", `{{$}}`, "MESSAGE_TEXT_BROKEN", ""},
		{"otp_email", "footer", `{{.}}`, "MESSAGE_TEXT_BROKEN", ""},
		{"otp_email", "footer", `{{$x := .Code}}`, "MESSAGE_TEXT_BROKEN", ""},
		{"otp_email", "text", "no code", "MESSAGE_TEXT_INCOMPLETE", "{{.Code}}"},
		{"door", "text", "no link", "MESSAGE_TEXT_INCOMPLETE", "{{.Link}}"},
		{"otp_sms", "subject", "Code", "MESSAGE_TEXT_NOT_IN_SMS", "nothing but a text"},
		{"otp_sms", "text", "{{.Code}}" + strings.Repeat("x", 600), "MESSAGE_TEXT_TOO_LONG", ""},
		{"otp_email", "subject", "a\nBcc: x@y.example", "", ""},
		{"otp_email", "subject", "a\rb", "", ""},
		{"otp_email", "preheader", "a\x00", "", ""},
		{"otp_email", "text", "{{.Code}}\x1b[31m", "", ""},
		{"otp_email", "text", "{{.Code}}" + strings.Repeat("x", 5000), "", ""},
	} {
		for _, at := range []string{"PATCH " + texts + test.kind + "/en", "POST " + texts + test.kind + "/en/_preview"} {
			method, path, _ := strings.Cut(at, " ")
			got := c.Do("owner", method, path, body(map[string]string{test.property: test.words}))
			if got.Status != 400 || !strings.Contains(got.Body, test.reason) || !strings.Contains(got.Body, test.names) || !strings.Contains(got.Body, `"field":"`+test.property+`"`) && !strings.Contains(test.words, "\x00") {
				t.Errorf("%s %q: got %d %s", at, test.words, got.Status, got.Body)
			}
		}
	}
	if n := c.Value("SELECT count(*)::text FROM settings WHERE subject LIKE 'message_texts/%'"); n != "0" {
		t.Errorf("what was refused left %s rows", n)
	}
}

// payloads are texts that would be something else where they are not escaped.
var payloads = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `</style><script>alert(1)</script>`, `'-alert(1)-'`, `<a href="javascript:alert(1)">x</a>`,
	`&lt;b&gt;`, `<!--`, `]]>`, `</title><svg onload=alert(1)>`, "{ {.Code} }",
}

// TestSEC149_WordsAndNamesInMailsAreNothingButText renders every payload in every property,
// and as the name of the recipient.
func TestSEC149_WordsAndNamesInMailsAreNothingButText(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	plain := func(page string) string { // its elements and attributes
		root, err := html.Parse(strings.NewReader(page))
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		var walk func(*html.Node)
		walk = func(n *html.Node) {
			if n.Type == html.ElementNode {
				fmt.Fprint(&b, n.Data)
				for _, a := range n.Attr {
					if a.Key != "aria-label" { // the subject
						fmt.Fprint(&b, " ", a.Key, "=", a.Val)
					}
				}
			}
			if n.Type == html.CommentNode {
				fmt.Fprint(&b, "comment")
			}
			for child := n.FirstChild; child != nil; child = child.NextSibling {
				walk(child)
			}
		}
		walk(root)
		return b.String()
	}
	words := func(text string) string {
		return body(map[string]string{"subject": text, "preheader": text, "title": text, "greeting": text, "text": "{{.Code}}\n\n" + text + "\n\n{{.Link}}", "buttonText": text, "footer": text})
	}
	_, _, want := preview(c, "owner", texts+"reset_password/en/_preview", words("harmless"))
	for _, payload := range payloads {
		_, text, page := preview(c, "owner", texts+"reset_password/en/_preview", words(payload))
		if got := plain(page); got != plain(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", payload, got, plain(want))
		}
		if !strings.Contains(text, payload) {
			t.Errorf("%s: the text is %q", payload, text)
		}
	}
	q := newQueue(t)
	for _, name := range payloads {
		sender := &recorder{sent: map[string]int{}}
		q.addNamed("a@a.example", "en", name)
		if _, err := q.worker(sender, false).Deliver(t.Context()); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(sender.html, "alert") || strings.Contains(sender.text, "alert") || !strings.Contains(sender.html, ">Hello") {
			t.Errorf("%s: got %s", name, sender.html)
		}
	}
}

func TestASubjectIsOneLine(t *testing.T) {
	t.Parallel()
	q, sender := newQueue(t), &recorder{sent: map[string]int{}}
	if err := message.Queue(t.Context(), q.env.DB.Pool, &q.env, &message.Message{
		InstanceID: q.user.InstanceID, OrgID: q.user.OrgID, UserID: q.user.ID, Kind: message.Email, Template: "otp_email", Recipient: "a@a.example", Language: "en",
		Data: message.Data{Code: "1\r\nBcc: x@y.example\u2028\u0085", Minutes: 5, Domain: "a.example\r\nX: y"},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := q.worker(sender, false).Deliver(t.Context()); err != nil {
		t.Fatal(err)
	}
	if subject, _, _ := strings.Cut(sender.text, "\nYour code"); strings.ContainsAny(subject, "\r\n\u2028\u0085") {
		t.Errorf("the subject is %q", subject)
	}
}

// TestAMailIsSentInTheWordsAndLooksOfItsContext: one statement reads all of them.
func TestAMailIsSentInTheWordsAndLooksOfItsContext(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	org := "?ctx.orgId=" + c.Org("A")
	c.Must("owner", "PATCH", "/settings/v3alpha/branding"+org, `{"primaryColorLight":"#402060","helpLink":"https://help.a.example/?a=b&c=d","hideProductName":{"value":true}}`)
	c.Must("owner", "PATCH", texts+"otp_email/en"+org, body(map[string]string{"text": "Dear {{.Name}},\nuse\n\n{{.Code}}\n\nA < B & C", "footer": "Yours, A"}))
	subject, text, page := preview(c, "owner", texts+"otp_email/en/_preview"+org, `{"title":"Only here"}`)
	if subject != "12345678 is your code for a.example" || text != "Only here\n\nHello Ada Lovelace,\n\nDear Ada Lovelace,\nuse\n\n    12345678\n\nA < B & C\n\n-- \nYours, A\nHelp: https://help.a.example/?a=b&c=d\n" {
		t.Errorf("got %q, %q", subject, text)
	}
	for _, part := range []string{"#402060", `href="https://help.a.example/?a=b&amp;c=d"`, "A &lt; B &amp; C", "Dear Ada Lovelace,<br>use", "Only here"} {
		if !strings.Contains(page, part) {
			t.Errorf("%s is not in %s", part, page)
		}
	}
	if strings.Contains(page, ">Writ<") || regexp.MustCompile(`(?i)https?://(?:[^h]|h[^e])`).MatchString(page) {
		t.Errorf("the product is named, or something else linked: %s", page)
	}
	if _, _, page := preview(c, "owner", texts+"otp_email/en/_preview", `{}`); strings.Contains(page, "#402060") || strings.Contains(page, "Only here") {
		t.Error("the instance has it too")
	}
	if got := c.Do("nobody", http.MethodPost, texts+"otp_email/en/_preview", `{}`); got.Status != 403 {
		t.Errorf("nobody previews: %d", got.Status)
	}
}
