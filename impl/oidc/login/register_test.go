package login_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/throttle"
	"github.com/writ-id/writ/impl/oidc/login/flow"
)

func (b *browser) register(email string, more ...string) *browser {
	b.Helper()
	if b.path != "/login/register" {
		b.begin.Store(&begun{Asked: flow.Asked{Request: "x=y", Create: true}})
		b.open("/begin").want(200, "/login/register")
	}
	return b.send(append([]string{"givenName", "Carol", "familyName", "Jones", "email", email, "newPassword", "battery staple", "newPasswordAgain", "battery staple"}, more...)...)
}

// SEC-185: one registration is no licence to have messages sent for ever.
func TestCodesThatAreSentAgainCountForTheAddressOfWhoAsks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Tries = throttle.New(throttle.Limit{Times: 3, Per: time.Hour}, w.now)
	b := w.browser().register("carol@new.example").want(200, "/login/verify")
	for range 2 {
		b.send("send", "yes").want(200, "/login/verify")
	}
	b.send("send", "yes").want(http.StatusTooManyRequests, "/login/verify")
}

func TestRegister(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser().register("carol@new.example").want(200, "/login/verify", "carol@new.example")
	w.begin.Store(&begun{Asked: flow.Asked{Request: "x=y"}})
	w.browser().signIn("carol", "battery staple").want(400, "/login/password") // not before the address is verified
	m := w.mail()
	if m.Template != "verify_email" || m.Recipient != "carol@new.example" || len(m.Code) != 8 || !strings.Contains(m.Text, "Hello,") || strings.Contains(m.Text+m.Subject, "Carol") {
		t.Fatalf("got %+v", m)
	}
	b.send("code", "00000000").want(400, "/login/verify", "The code is not right")
	b.send("code", m.Code).want(200, "/done")
	s := w.done()
	if s == nil || s.LoginName != "carol@a.example" || s.DisplayName != "Carol Jones" || strings.Join(s.AMR, " ") != "pwd" {
		t.Fatalf("got %+v", s)
	}
	if got := w.value("SELECT is_email_verified::text || state::text || preferred_language FROM users WHERE id = $1", s.UserID); got != "true1en" {
		t.Errorf("got %s", got)
	}
	w.browser().signIn("carol@new.example", "battery staple").want(200, "/done")
}

// TestRegistrationsThatAreBrokenOff goes away in the middle, as who clicks twice does,
// and looks all the while: no user may be there who could sign in without having
// verified an address, and none without the session and the code to do it.
func TestRegistrationsThatAreBrokenOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser()
	w.begin.Store(&begun{Asked: flow.Asked{Request: "x=y", Create: true}})
	b.open("/begin").want(200, "/login/register")
	values := b.forms["form"].values
	for name, value := range map[string]string{"givenName": "Carol", "familyName": "Jones", "newPassword": "battery staple", "newPasswordAgain": "battery staple"} {
		values.Set(name, value)
	}
	const registered = "u.email LIKE 'carol%@new.example'"
	ended := make(chan struct{})
	var looking, going sync.WaitGroup
	looking.Go(func() {
		for {
			if n := w.value("SELECT count(*)::text FROM users u WHERE " + registered + " AND u.state <> 2"); n != "0" {
				t.Errorf("%s users are active who verified no address", n)
				return
			}
			select {
			case <-ended:
				return
			default:
			}
		}
	})
	// What one takes that nobody breaks off says when to break off the others: from
	// nearly at once to nearly too late, on any machine.
	values.Set("email", "carol@new.example")
	begun := time.Now()
	if res, err := b.client.PostForm(w.url+"/login/register", values); err == nil {
		_ = res.Body.Close()
	}
	whole := time.Since(begun)
	for i := range 20 {
		values.Set("email", fmt.Sprintf("carol%d@new.example", i))
		body := values.Encode()
		going.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), whole*time.Duration(i+1)/10)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/login/register", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if res, err := b.client.Do(req); err == nil {
				_ = res.Body.Close()
			}
		})
	}
	going.Wait()
	close(ended)
	looking.Wait()
	if n := w.value(`SELECT count(*)::text FROM users u WHERE ` + registered + ` AND NOT (
		EXISTS (SELECT FROM sessions s WHERE s.user_id = u.id AND s.password_verified_at >= u.password_changed) AND EXISTS (SELECT FROM user_codes c WHERE c.user_id = u.id))`); n != "0" {
		t.Errorf("%s users are half made", n)
	}
	if made := w.value("SELECT count(*)::text FROM users u WHERE " + registered); made == "0" {
		t.Error("no registration got to its end")
	}
}

// TestRegistrationsThatFail has each step fail, as a crash would: nothing is left.
func TestRegistrationsThatFail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'as if the node died'; END $$`)
	count := func() string {
		return w.value("SELECT (SELECT count(*) FROM users) || ' users, ' || (SELECT count(*) FROM sessions) || ' sessions, ' || (SELECT count(*) FROM events) || ' events'")
	}
	before := count()
	for _, step := range []string{"INSERT ON sessions", "UPDATE OF state ON users", "INSERT ON user_codes", "INSERT ON messages"} {
		w.exec("CREATE TRIGGER fail BEFORE " + step + " FOR EACH ROW EXECUTE FUNCTION fail()")
		w.browser().register("carol@new.example").want(500, "/login/register", "server_error")
		if got := count(); got != before {
			t.Errorf("%s: %s, before it %s", step, got, before)
		}
		_, table, _ := strings.Cut(step, " ON ")
		w.exec("DROP TRIGGER fail ON " + table)
	}
	w.browser().register("carol@new.example").want(200, "/login/verify").send("code", w.mail().Code).want(200, "/done")
}

// TestRegisteringTwice sends the form again, at once and later, in one browser: there is one
// user, it is the newest, and only its code is good.
func TestRegisteringTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser()
	b.begin.Store(&begun{Asked: flow.Asked{Request: "x=y", Create: true}})
	b.open("/begin").want(200, "/login/register")
	var together sync.WaitGroup
	for range 3 {
		same := *b
		together.Go(func() { same.register("carol@new.example") })
	}
	together.Wait()
	one := func(want string) (id string) {
		t.Helper()
		const registered = "FROM users WHERE email ILIKE 'carol@new.example'"
		if got := w.value("SELECT string_agg(username || ' ' || state || ' ' || family_name, ', ') " + registered); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		id = w.value("SELECT id " + registered + " LIMIT 1")
		if got := w.value("SELECT (SELECT count(*) FROM sessions) || ' ' || (SELECT count(*) FROM user_codes)"); got != "1 1" && strings.Contains(want, " 2 ") {
			t.Errorf("got %s sessions and codes", got)
		}
		return id
	}
	id := one("carol 2 Jones")
	if got := w.value("SELECT count(*)::text FROM messages WHERE recipient = 'carol@new.example'"); got != "3" {
		t.Errorf("%s messages count, want 3: the limit of an address is not that of a user (SEC-185)", got)
	}
	if got := w.value("SELECT count(*)::text FROM events WHERE event_type = 'user.removed'"); got != "2" {
		t.Errorf("%s events tell of the users who went", got)
	}
	w.wait(time.Second)
	b.register("carol@new.example").want(200, "/login/verify")
	first := w.mail().Code
	if again := one("carol 2 Jones"); again == id {
		t.Error("it is still the old one")
	}
	// Somebody goes back for another address: what they had goes, and frees its name.
	w.wait(time.Second)
	b.open("/login/register?flow="+b.forms["form"].values.Get("flow")).want(200, "/login/register")
	b.register("carola@new.example", "loginName", "carol").want(200, "/login/verify")
	if got := w.value("SELECT string_agg(username || ' ' || email, ', ') FROM users WHERE email LIKE '%@new.example'"); got != "carol carola@new.example" {
		t.Errorf("got %s", got)
	}
	b.send("code", first).want(400, "/login/verify", "The code is not right")
	b.send("code", w.mail().Code).want(200, "/done")
}

// TestSEC177_StrangersKeepNobodyFromRegistering: what strangers do with an address voids no
// code that was sent for its owner, uses up no try of theirs, and, when it uses up the
// messages of the address, leaves a link in each that lets the owner's browser ask.
func TestSEC177_StrangersKeepNobodyFromRegistering(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine := w.browser().register("carol@new.example").want(200, "/login/verify")
	code := w.mail().Code
	w.wait(time.Second)
	for i := range 12 {
		b := w.browser().register("CAROL@new.example", "familyName", "Evil", "loginName", "evil").want(200, "/login/verify")
		if i == 11 {
			b.send("send", "yes").want(200, "/login/verify")
		}
		for range 5 {
			b.send("code", code).want(400, "/login/verify", "The code is not right") // is for another password
		}
	}
	mine.send("code", code).want(200, "/done")
	if s := w.done(); s == nil || s.LoginName != "carol@a.example" || s.DisplayName != "Carol Jones" {
		t.Fatalf("got %+v", s)
	}
	if got := w.value("SELECT string_agg(username || ' ' || state, ', ') FROM users WHERE email ILIKE 'carol@new.example'"); got != "carol 1" {
		t.Errorf("there are %s", got)
	}

	// Who comes after them gets no message, and gets in by the link in any of those.
	for range 12 {
		w.browser().register("dave@new.example", "givenName", "Evil").want(200, "/login/verify")
	}
	mails := "SELECT count(*)::text FROM messages WHERE recipient ILIKE 'dave@new.example'"
	if got := w.value(mails); got != "10" {
		t.Errorf("the address got %s messages", got)
	}
	w.wait(time.Second)
	mine = w.browser().register("dave@new.example").want(200, "/login/verify", "open the link in the newest message")
	link := doorLink.FindStringSubmatch(w.value("SELECT payload->>'text' FROM messages WHERE recipient = 'dave@new.example' LIMIT 1"))
	if link == nil {
		t.Fatal("no message has a link")
	}
	w.browser().open(link[1]).want(200, "/login/door", "Let this browser in?") // that somebody looks at it does nothing
	other := w.browser().register("dave@new.example").want(200, "/login/verify")
	mine.open(link[1]).want(200, "/login/door").send().want(200, "/login")
	mine.register("Dave@new.example", "givenName", "Dave").want(200, "/login/verify")
	if got := w.value(mails); got != "11" {
		t.Fatalf("the address got %s messages, want one more", got)
	}
	code = w.mail().Code
	other.send("code", code).want(400, "/login/verify")
	mine.send("code", code).want(200, "/done")
	if s := w.done(); s == nil || s.DisplayName != "Dave Jones" {
		t.Errorf("got %+v", s)
	}
	// The link lets nobody ask for another address, nor without end.
	w.wait(time.Second)
	for range 12 {
		w.browser().register("erin@new.example").want(200, "/login/verify")
	}
	mine.register("erin@new.example").want(200, "/login/verify")
	if got := w.value("SELECT count(*)::text FROM messages WHERE recipient = 'erin@new.example'"); got != "10" {
		t.Errorf("another address got %s messages", got)
	}
	w.wait(25 * time.Hour)
	mine.open(link[1]).want(400, "/login/door", "not good any more")
}

// TestSEC177_OfThoseWhoRegisterOneHasTheAddress has two prove it at once.
func TestSEC177_OfThoseWhoRegisterOneHasTheAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var browsers []*browser
	var codes []string
	for range 4 {
		w.wait(time.Second)
		browsers = append(browsers, w.browser().register("carol@new.example").want(200, "/login/verify"))
		codes = append(codes, w.mail().Code)
	}
	var together sync.WaitGroup
	for i, b := range browsers {
		together.Go(func() { b.send("code", codes[i]) })
	}
	together.Wait()
	in := 0
	for _, b := range browsers {
		if b.path == "/done" {
			in++
		}
	}
	if got := w.value("SELECT count(*)::text || ' ' || bool_and(is_email_verified AND state = 1)::text FROM users WHERE email = 'carol@new.example'"); got != "1 true" || in != 1 {
		t.Errorf("%d got in, the users are %s", in, got)
	}
}

// TestSEC185_NoWordsOfAStrangerAreMailed: what a message says to an address that nobody has
// proven is ours, whatever the stranger who typed it calls themself.
func TestSEC185_NoWordsOfAStrangerAreMailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser().register("carol@new.example", "givenName", "Zyqbuy", "familyName", "Zyqpills", "loginName", "zyqnow").want(200, "/login/verify")
	b.send("send", "yes").want(200, "/login/verify")
	w.browser().register("alice@mail.example", "givenName", "Zyqbuy", "familyName", "Zyqpills", "loginName", "zyqnow").want(200, "/login/verify")
	if got := w.value("SELECT count(*)::text || ' ' || count(*) FILTER (WHERE payload::text ILIKE '%zyq%') FROM messages"); got != "3 0" {
		t.Errorf("messages, and those with the stranger's words: %s", got)
	}
}

// TestOnlyRegistrationsAreReplaced registers with the unverified address of users who
// came about in other ways, or were active since: they stay as they are.
func TestOnlyRegistrationsAreReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := policy.As(t.Context(), policy.Context{Level: policyv1.Level_LEVEL_ORG, InstanceID: w.instance.ID, OrgID: w.instance.DefaultOrg}, "", w.Roles)
	add := func(name string) string {
		t.Helper()
		made, err := w.Users.CreateUser(ctx, &userv3.CreateUserRequest{User: &userv3.User{Username: name, Type: &userv3.User_Human{Human: &userv3.Human{
			Email: &userv3.Email{Address: "carol@new.example"}, Password: &userv3.Password{Value: &userv3.Password_Plain{Plain: "battery staple"}},
		}}}})
		if err != nil {
			t.Fatal(err)
		}
		return made.GetDetails().GetId()
	}
	activate := func(id string) {
		t.Helper()
		if _, err := w.Users.ActivateUser(ctx, &userv3.ActivateUserRequest{Id: id}); err != nil {
			t.Fatal(err)
		}
	}
	deactivate := func(id string) {
		t.Helper()
		if _, err := w.Users.DeactivateUser(ctx, &userv3.DeactivateUserRequest{Id: id}); err != nil {
			t.Fatal(err)
		}
	}
	add("invited")
	deactivate(add("dismissed"))
	b := w.browser().register("carol@new.example", "loginName", "expelled").want(200, "/login/verify")
	code := w.mail().Code
	expelled := w.value("SELECT id FROM users WHERE username = 'expelled'")
	activate(expelled)
	deactivate(expelled)
	b.send("code", code).want(400, "/login/verify", "The code is not right") // which would undo it
	if b.send("send", "yes").want(200, "/login/verify"); w.mails() != "1" {
		t.Error("who was active is sent a code to become so again")
	}
	w.browser().register("carol@new.example", "loginName", "newest").want(200, "/login/verify")
	w.browser().register("carol@new.example", "loginName", "newest").want(200, "/login/verify")
	const want = "dismissed 2, expelled 2, invited 1, newest 2, newest2 2"
	if got := w.value("SELECT string_agg(username || ' ' || state, ', ' ORDER BY username) FROM users WHERE email = 'carol@new.example'"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestAbandonedRegistrationsAreSwept lets a week go by: who registered and never came
// back goes, and nobody else.
func TestAbandonedRegistrationsAreSwept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := policy.As(t.Context(), policy.Context{Level: policyv1.Level_LEVEL_ORG, InstanceID: w.instance.ID, OrgID: w.instance.DefaultOrg}, "", w.Roles)
	w.browser().register("verified@new.example").want(200, "/login/verify").send("code", w.mail().Code).want(200, "/done")
	for _, name := range []string{"gone", "lost", "expelled", "back"} {
		w.browser().register(name+"@new.example").want(200, "/login/verify")
	}
	id := func(name string) string { return w.value("SELECT id FROM users WHERE username = $1", name) }
	if _, err := w.Users.ActivateUser(ctx, &userv3.ActivateUserRequest{Id: id("expelled")}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"expelled", "bob"} {
		if _, err := w.Users.DeactivateUser(ctx, &userv3.DeactivateUserRequest{Id: id(name)}); err != nil {
			t.Fatal(err)
		}
	}
	w.exec("UPDATE users SET is_email_verified = false WHERE username IN ('bob', 'changing')")
	left := func(batch int32, want int64) string {
		t.Helper()
		n, err := w.Sweep(t.Context(), w.now(), batch)
		if n != want || err != nil {
			t.Errorf("got %d, %v, want %d", n, err, want)
		}
		return w.value("SELECT string_agg(username, ' ' ORDER BY username) FROM users WHERE NOT is_email_verified AND user_type = 1")
	}
	const all = "back bob changing expelled gone lost"
	w.wait(7*24*time.Hour + 9*time.Minute)
	if got := left(10, 0); got != all {
		t.Errorf("before the week is over %s are left", got)
	}
	w.browser().register("back@new.example").want(200, "/login/verify") // anew
	w.wait(2 * time.Minute)
	removed := w.value("SELECT count(*)::text FROM events WHERE event_type = 'user.removed'")
	if got := left(1, 1); len(strings.Fields(got)) != 5 {
		t.Errorf("of a batch of one %s are left", got)
	}
	if got := left(10, 1); got != "back bob changing expelled" {
		t.Errorf("after a week %s are left", got)
	}
	if got := left(10, 0); got != "back bob changing expelled" {
		t.Errorf("after another time %s are left", got)
	}
	if got := w.value("SELECT (count(*) - $1)::text || ' ' || bool_and(owner_id = $2)::text FROM events WHERE event_type = 'user.removed'", removed, w.instance.DefaultOrg); got != "2 true" {
		t.Errorf("the events are %s", got)
	}
	if got := w.value("SELECT (SELECT count(*) FROM sessions) || ' ' || (SELECT count(*) FROM messages)"); got != "2 4" { // whom an administrator deactivated has none left
		t.Errorf("%s sessions and messages are left", got)
	}
	w.begin.Store(&begun{Asked: flow.Asked{Request: "x=y"}})
	w.browser().signIn("verified@new.example", "battery staple").want(200, "/done")
}

// TestSEC170_WhatARegistrationRefusesTellsNothing compares what is refused for
// addresses and names that are known with what is refused for others.
func TestSEC170_WhatARegistrationRefusesTellsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, test := range []struct {
		name   string
		fields []string
		status int
	}{
		{"a name that cannot be", []string{"loginName", "a\u200bb"}, 400},
		{"a password that is the name", []string{"loginName", "Battery Staple"}, 400},
		{"a password that is the login name", []string{"loginName", "batty", "newPassword", "BATTY@a.example", "newPasswordAgain", "BATTY@a.example"}, 400},
		{"a password that is a name with a number", []string{"loginName", "alice", "newPassword", "alice2@a.example", "newPasswordAgain", "alice2@a.example"}, 200},
		{"and nobody has that name", []string{"loginName", "carol", "newPassword", "carol2@a.example", "newPasswordAgain", "carol2@a.example"}, 200},
	} {
		for _, email := range []string{"alice@mail.example", "carol@mail.example"} {
			if b := w.browser().register(email, test.fields...); b.status != test.status {
				t.Errorf("%s, %s: got %d %s", test.name, email, b.status, b.path)
			}
		}
	}
	if got := w.value("SELECT string_agg(username, ' ' ORDER BY username) FROM users WHERE email = 'carol@mail.example'"); got != "alice3 carol" {
		t.Errorf("the user is called %s", got)
	}
	w.browser().register("dora@new.example", "loginName", "alice", "newPassword", "alice2@a.example", "newPasswordAgain", "alice2@a.example")
	if got := w.value("SELECT username FROM users WHERE email = 'dora@new.example'"); got != "alice4" {
		t.Errorf("with the password alice2 the user is called %s", got)
	}
}

func TestRegistrationsThatAreNotGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser()
	for text, fields := range map[string][]string{
		"Enter your given name.":               {"givenName", " "},
		"Enter your family name.":              {"familyName", "a\x00b"},
		"Enter an email address":               {"email", "carol"},
		"at least 8 characters":                {"newPassword", "short"},
		"The two passwords are not the same.":  {"newPasswordAgain", "battery"},
		"Choose another login name":            {"loginName", "a\u200bb"},
		"Choose a password that is not your n": {"loginName", "battery staple"},
	} {
		b.register("carol@new.example", fields...).want(400, "/login/register", text, `value="Jones"`[:7])
		if strings.Contains(b.body, "battery staple\" autocomplete=\"new") {
			t.Error("the page repeats the password")
		}
	}
	if n := w.value("SELECT count(*)::text FROM users WHERE email LIKE '%new.example'"); n != "0" || w.mails() != "0" {
		t.Errorf("%s users and %s messages", n, w.mails())
	}
}

// TestSEC170_RegistrationDoesNotTellWhoIsKnown registers with an address that is
// known and one that is not, and compares all that a browser gets to see.
func TestSEC170_RegistrationDoesNotTellWhoIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	answers := map[string]string{}
	for _, email := range []string{"alice@mail.example", "carol@mail.example"} {
		b := w.browser()
		var seen strings.Builder
		note := func() {
			header := b.got.Clone()
			header.Del("Date")
			var told strings.Builder
			if err := header.Write(&told); err != nil {
				t.Fatal(err)
			}
			seen.WriteString(sealedTries.ReplaceAllStringFunc(told.String(), func(cookie string) string { return strings.Repeat("T", len(cookie)) }))
			seen.WriteString(strings.ReplaceAll(sealedFlow.ReplaceAllStringFunc(b.body, func(sealed string) string { return strings.Repeat("F", len(sealed)) }), email, "ADDRESS"))
		}
		b.register(email).want(200, "/login/verify")
		note()
		b.send("code", "00000000").want(400, "/login/verify")
		note()
		b.send("send", "yes").want(200, "/login/verify", "A code is on its way.")
		note()
		sealed := b.forms["form"].values.Get("flow")
		for _, path := range []string{"", "/password", "/totp", "/sms", "/change-password", "/accounts", "/verify", "/forgot", "/reset", "/register"} {
			b.open("/login" + path + "?flow=" + sealed)
			seen.WriteString(b.path)
			note()
		}
		b.post("/login/accounts", url.Values{"flow": {sealed}, "session": {"x"}})
		note()
		w.begin.Store(&begun{Asked: flow.Asked{Request: "x=y"}})
		b.signIn(email, "battery staple").want(400, "/login/password")
		note()
		b.signIn("bob", "correct horse").want(200, "/done") // the cookies then
		at, _ := url.Parse(w.url)
		for _, cookie := range b.client.Jar.Cookies(at) {
			seen.WriteString(cookie.Name + strings.Repeat("C", len(cookie.Value)))
		}
		b.open("/begin")
		note()
		answers[seen.String()] = email
	}
	if len(answers) != 1 {
		t.Errorf("the answers differ")
		for answer := range answers {
			t.Log(answer)
		}
	}
	if got := w.value("SELECT string_agg(template || ' ' || recipient, ', ' ORDER BY id) FROM messages"); got != "email_known alice@mail.example, verify_email carol@mail.example, verify_email carol@mail.example" {
		t.Errorf("the messages are %s", got)
	}
}

// TestSEC170_AnInactiveOrganizationTellsNothing registers where nobody can sign in.
func TestSEC170_AnInactiveOrganizationTellsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec("UPDATE organizations SET state = 2 WHERE id = $1", w.instance.DefaultOrg)
	for _, email := range []string{"alice@mail.example", "carol@mail.example"} {
		w.browser().register(email).want(200, "/login/verify").send("code", "00000000").want(400, "/login/verify")
	}
	if n := w.value("SELECT count(*)::text FROM users WHERE email = 'carol@mail.example'"); n != "0" {
		t.Error("a user was made")
	}
}

func TestATakenLoginNameIsNotTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, want := range []string{"alice2@a.example", "alice3@a.example"} {
		w.browser().register(want[:6]+"@new.example", "loginName", "alice").want(200, "/login/verify").send("code", w.mail().Code).want(200, "/done")
		if s := w.done(); s.LoginName != want {
			t.Errorf("got %s, want %s", s.LoginName, want)
		}
		w.wait(time.Second)
	}
}

func TestSEC145_RegistrationIsOffWhereItIsOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser().register("carol@new.example")
	sealed := b.forms["form"].values.Get("flow")
	open := w.browser()
	open.begin.Store(&begun{Asked: flow.Asked{Request: "x=y", Create: true}})
	open.open("/begin").want(200, "/login/register")
	w.instance.AllowRegistration = false
	open.register("dave@new.example").want(200, "/login")
	b.open("/login/register?flow="+sealed).want(200, "/login")
	if strings.Contains(b.open("/begin").want(200, "/login").body, "Create an account") {
		t.Error("the page offers it")
	}
	if n := w.value("SELECT count(*)::text FROM users WHERE email = 'dave@new.example'"); n != "0" {
		t.Error("a user was made")
	}
}

func TestSEC185_AnAddressGetsSoManyMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 8 {
		w.browser().register("carol@new.example").want(200, "/login/verify")
	}
	var together sync.WaitGroup
	for range 6 {
		b := w.browser()
		b.begin.Store(&begun{Asked: flow.Asked{Request: "x=y", Create: true}})
		b.open("/begin").want(200, "/login/register")
		together.Go(func() {
			if b.register("CAROL@new.example"); b.status != 200 && b.status != 503 {
				t.Errorf("got %d %s", b.status, b.path)
			}
		})
	}
	together.Wait()
	b := w.browser().register("dave@new.example")
	for range 12 {
		w.wait(time.Second)
		b.send("send", "yes").want(200, "/login/verify", "A code is on its way.")
	}
	w.begin.Store(&begun{Asked: flow.Asked{Request: "x=y"}})
	for range 12 {
		w.wait(time.Second)
		w.browser().forgot("alice").want(200, "/login/reset")
	}
	if got := w.value("SELECT string_agg(recipient || ' ' || n, ', ' ORDER BY recipient) FROM (SELECT lower(recipient) AS recipient, count(*) n FROM messages GROUP BY 1) x"); got != "alice@mail.example 10, carol@new.example 10, dave@new.example 10" {
		t.Errorf("got %s", got)
	}
}

func (b *browser) forgot(name string) *browser {
	b.Helper()
	b.open("/begin")
	sealed := b.forms["form"].values.Get("flow")
	return b.open("/login/forgot?flow="+sealed).want(200, "/login/forgot").send("loginName", name)
}

const newPassword = "battery staple"

func (b *browser) reset(code string) *browser {
	b.Helper()
	return b.send("code", code, "newPassword", newPassword, "newPasswordAgain", newPassword)
}

func TestSEC173_AResetDoesNotSignIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser().signIn("alice", "correct horse").want(200, "/done")
	w.done()
	w.addFactors("alice", "totp")
	w.exec(`INSERT INTO oauth_grants SELECT (jsonb_populate_record(NULL::oauth_grants, jsonb_build_object(
		'instance_id', a.instance_id, 'id', 'g', 'org_id', $2::text, 'user_id', $1::text, 'app_id', a.id, 'scopes', '[]'::jsonb, 'audience', '[]'::jsonb,
		'auth_time', now(), 'amr', '[]'::jsonb, 'claims', '[]'::jsonb, 'revoked', false, 'user_generation', 0, 'generation', 1, 'idle_date', now(), 'expiration_date', now(), 'creation_date', now()))).*
		FROM apps a`, w.users["alice"].ID, w.instance.DefaultOrg)
	w.wait(time.Second)
	b.forgot("alice").want(200, "/login/reset", "If alice is known here")
	if m := w.mail(); m.Template != "reset_password" || m.Recipient != "alice@mail.example" || !strings.Contains(m.Text, "localhost") {
		t.Fatalf("got %+v", m)
	}
	code := w.mail().Code
	w.wait(time.Second)
	b.reset(code).want(200, "/login/password", "Your new password is set.")
	if w.done() != nil {
		t.Error("it signed in")
	}
	if n := w.value("SELECT count(*)::text FROM sessions"); n != "0" {
		t.Errorf("%s sessions are left", n)
	}
	if m := w.mail(); m.Template != "password_changed" {
		t.Errorf("got %+v", m)
	}
	if got := w.value("SELECT count(*)::text FROM oauth_grants g JOIN users u ON u.instance_id = g.instance_id AND u.id = g.user_id AND u.generation = g.user_generation"); got != "0" {
		t.Errorf("%s grants are of the user's generation", got)
	}
	b.send("password", "correct horse").want(400, "/login/password")
	b.send("password", newPassword).want(200, "/login/totp")
}

func TestSEC172_CodesOfAReset(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code := func() string { w.wait(time.Second); return w.mail().Code }
	b := w.browser().forgot("alice")
	first := code()
	b.forgot("alice@mail.example").reset(first).want(400, "/login/reset", "The code is not right") // void by a newer one
	b.forgot("bob").reset(code()).want(200, "/login/password")
	b.forgot("alice")
	second := code()
	w.browser().forgot("bob").reset(second).want(400, "/login/reset") // of another user
	for range 5 {
		b.reset("00000000").want(400, "/login/reset")
	}
	b.reset(second).want(400, "/login/reset") // tried too often
	b.forgot("alice")
	third := code()
	w.wait(10 * time.Minute)
	b.reset(third).want(400, "/login/reset") // too old
	b.forgot("alice")
	fourth := code()
	again := w.browser().forgot("bob")
	w.wait(time.Second)
	b.reset(fourth).want(200, "/login/password")
	b.forgot("nobody at all").reset(fourth).want(400, "/login/reset")
	again.reset(fourth).want(400, "/login/reset")
	// A code for an address is none for a password.
	w.browser().register("carol@new.example")
	verify := w.mail()
	b.forgot("carol@new.example").reset(verify.Code).want(400, "/login/reset")
}

// TestSEC170_ForgottenPasswordsDoNotTellWhoIsKnown compares the answers.
func TestSEC170_ForgottenPasswordsDoNotTellWhoIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	answers := map[string]string{}
	for _, name := range []string{"alice@a.example", "nobod@a.example", "robot@a.example", "alice@x.example"} {
		b := w.browser().forgot(name).want(200, "/login/reset")
		page := sealedFlow.ReplaceAllStringFunc(b.body, func(sealed string) string { return strings.Repeat("F", len(sealed)) })
		b.reset("00000000").want(400, "/login/reset")
		page += sealedFlow.ReplaceAllStringFunc(b.body, func(sealed string) string { return strings.Repeat("F", len(sealed)) })
		answers[strings.ReplaceAll(page, name, "NAME")] = name
	}
	if len(answers) != 1 {
		t.Errorf("there are %d answers", len(answers))
	}
	if w.mails() != "1" {
		t.Errorf("%s messages", w.mails())
	}
}

func TestSEC171_NoHeaderOfARequestGetsIntoAMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := func(header ...string) string {
		b := w.browser()
		for i := 0; i < len(header); i += 2 {
			b.header[header[i]] = []string{header[i+1]}
		}
		b.forgot("alice").want(200, "/login/reset")
		w.wait(time.Minute)
		m := w.mail()
		return sealedDoor.ReplaceAllString(strings.ReplaceAll(m.Subject+"\n"+m.Text, m.Code, "CODE"), "DOOR")
	}
	want := text()
	if strings.Contains(want, "evil") || !strings.Contains(want, "CODE") {
		t.Fatal(want)
	}
	for _, name := range []string{"X-Forwarded-Host", "Forwarded", "X-Host", "X-Original-Host", "X-Forwarded-Server", "X-Http-Host-Override", "X-Forwarded-Prefix", "X-Rewrite-Url"} {
		value := "evil.example"
		if name == "Forwarded" {
			value = "host=evil.example;proto=http"
		}
		if got := text(name, value); got != want {
			t.Errorf("with %s: %s\n%s", name, value, got)
		}
	}
	// An unknown host is answered where there is one instance only; a link leads elsewhere.
	b := w.browser()
	b.client.Transport = named("evil.example")
	b.forgot("alice").want(200, "/login/reset")
	w.wait(time.Minute)
	if m := w.mail(); strings.Contains(m.Text, "evil") || !strings.Contains(m.Text, "/login/door") {
		t.Errorf("of an unknown host: %s", m.Text)
	}
}

var sealedDoor = regexp.MustCompile(`writ_door_[A-Za-z0-9_-]+`)

// named calls the host of every request by another name.
type named string

func (name named) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Host = string(name)
	return http.DefaultTransport.RoundTrip(r)
}

// TestSEC174_NoRegistrationTakesAName: by whatever name somebody can sign in, a stranger who
// registers gets another one, in whichever organization: it still means whom it meant.
func TestSEC174_NoRegistrationTakesAName(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare         string // of the user other@o.example
		means           string // whom
		username, inOrg string // of the stranger
		want            string
	}{
		"a username of another organization, in the default one": {"", "other", "other", "A", "other2@a.example"},
		"in any":                {"", "other", "other", "", "other2@a.example"},
		"however it is written": {"", "other", "OTHER", "A", "OTHER2@a.example"},
		"a username of the default organization, in another one": {"UPDATE users SET username = 'kim', username_folded = 'kim' WHERE username = 'alice'", "kim", "kim", "O", "kim2@o.example"},
		"a username of two":                         {"UPDATE users SET username = 'other2', username_folded = 'other2' WHERE username = 'olga'", "other", "other", "A", "other3@a.example"},
		"of somebody who cannot sign in now":        {"UPDATE users SET state = 4 WHERE username = 'other'", "", "other", "A", "other2@a.example"},
		"an address that the login name would be":   {"UPDATE users SET email = 'kim@A.example', email_folded = 'kim@a.example' WHERE username = 'other'", "kim@a.example", "kim", "A", "kim2@a.example"},
		"a username that the login name would be":   {"UPDATE users SET username = 'kim@a.example', username_folded = 'kim@a.example' WHERE username = 'other'", "kim@a.example", "kim", "A", "kim2@a.example"},
		"an address that nobody verified (control)": {"UPDATE users SET email = 'kim@a.example', email_folded = 'kim@a.example', is_email_verified = false WHERE username = 'other'", "", "kim", "A", "kim@a.example"},
		"a name of nobody (control)":                {"", "other", "carol", "A", "carol@a.example"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if test.prepare != "" {
				w.exec(test.prepare)
			}
			signIn := func() string {
				w.begin.Store(&begun{Asked: flow.Asked{Request: "x=y"}})
				w.browser().signIn(test.means, "correct horse")
				if s := w.done(); s != nil {
					return s.UserID
				}
				return ""
			}
			var before string
			if test.means != "" {
				if before = signIn(); before == "" {
					t.Fatal("nobody signs in by the name before")
				}
			}
			flow := &begun{Asked: flow.Asked{Request: "x=y", Create: true}}
			if test.inOrg != "" {
				flow.OrgID = w.value("SELECT id FROM organizations WHERE name = $1", test.inOrg)
			}
			w.begin.Store(flow)
			w.browser().open("/begin").want(200, "/login/register").register("stranger@new.example", "loginName", test.username).
				want(200, "/login/verify").send("code", w.mail().Code).want(200, "/done")
			if s := w.done(); s == nil || s.LoginName != test.want {
				t.Errorf("the stranger is %+v, want %s", s, test.want)
			}
			if test.means != "" {
				if after := signIn(); after != before {
					t.Errorf("%s means %q now, not %q", test.means, after, before)
				}
			}
		})
	}
}
