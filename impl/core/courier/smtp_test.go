package courier_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/writ-id/writ/impl/core/courier"
	"github.com/writ-id/writ/impl/core/courier/smtptest"
	"github.com/writ-id/writ/impl/core/outgoing"
)

const password = "canary-of-a-password"

// sending is a Courier that may call this machine, and how to send through a server.
func sending(t *testing.T, s *smtptest.Server) (*courier.Courier, *courier.MailServer) {
	t.Helper()
	c := courier.New(outgoing.New(outgoing.Config{Allow: outgoing.Loopback, Roots: s.Roots}), time.Now)
	t.Cleanup(c.Close)
	to := &courier.MailServer{
		Key: t.Name(), Address: s.Address, Sender: mail.Address{Name: "Example", Address: "no-reply@sender.example"},
	}
	if len(s.Mechanisms) > 0 {
		to.Login = courier.Login{User: "user", Password: password}
		s.User, s.Password = "user", password
	}
	if s.Implicit {
		to.Encryption = courier.ImplicitTLS
	}
	return c, to
}

func letter() *courier.Mail {
	return &courier.Mail{ID: "0199", To: "alice@example.com", Subject: "Grüße, your code", Text: "The code is 12345678.\nBye", HTML: "<p>The code is <b>12345678</b>.</p>"}
}

func problem(t *testing.T, err error) *courier.Problem {
	t.Helper()
	p, ok := errors.AsType[*courier.Problem](err)
	if !ok {
		t.Fatalf("got %v, want a problem", err)
	}
	if strings.Contains(err.Error(), password) || strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("the problem says too much: %v", err)
	}
	return p
}

func TestAnEMailHasBothPartsAndSaysThatNobodyWroteIt(t *testing.T) {
	t.Parallel()
	server := (&smtptest.Server{StartTLS: true, Mechanisms: []string{"PLAIN"}}).Start(t)
	c, to := sending(t, server)
	to.ReplyTo = "help@sender.example"
	for range 2 { // the same one, as after a node that died
		if err := c.Mail(t.Context(), to, letter()); err != nil {
			t.Fatal(err)
		}
	}
	got := server.Mails()
	if len(got) != 2 || got[0].From != "no-reply@sender.example" || got[0].To != "alice@example.com" {
		t.Fatalf("got %+v", got)
	}
	for name, want := range map[string]string{
		"From": `"Example" <no-reply@sender.example>`, "To": "<alice@example.com>", "Reply-To": "<help@sender.example>",
		"Message-Id": "<0199@sender.example>", "Auto-Submitted": "auto-generated", "Mime-Version": "1.0", "User-Agent": "", "X-Mailer": "", "Bcc": "",
	} {
		if got := got[0].Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got[0].Header.Get("Message-Id") != got[1].Header.Get("Message-Id") {
		t.Error("another attempt has another Message-ID")
	}
	if subject, err := new(mime.WordDecoder).DecodeHeader(got[0].Header.Get("Subject")); err != nil || subject != "Grüße, your code" {
		t.Errorf("the subject is %q, %v", subject, err)
	}
	if _, err := got[0].Header.Date(); err != nil {
		t.Errorf("the date: %v", err)
	}
	kind, params, err := mime.ParseMediaType(got[0].Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		t.Fatalf("it is a %s, %v", kind, err)
	}
	var parts []string
	for reader := multipart.NewReader(strings.NewReader(got[0].Body), params["boundary"]); ; {
		part, err := reader.NextPart() // decodes quoted-printable
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(part)
		parts = append(parts, fmt.Sprint(part.Header.Get("Content-Type"), " ", strings.ReplaceAll(string(text), "\r\n", "\n"), err))
	}
	want := []string{
		"text/plain; charset=UTF-8 The code is 12345678.\nBye<nil>",
		"text/html; charset=UTF-8 <p>The code is <b>12345678</b>.</p><nil>",
	}
	if fmt.Sprint(parts) != fmt.Sprint(want) {
		t.Errorf("got the parts %q, want %q", parts, want)
	}
}

func TestEachMechanismSignsIn(t *testing.T) {
	t.Parallel()
	all := []string{"LOGIN", "PLAIN", "SCRAM-SHA-1", "SCRAM-SHA-256", "XOAUTH2"}
	for _, test := range []struct {
		name      string
		mechanism courier.Mechanism
		offered   []string
		plain     bool // nothing encrypts
		want      string
	}{
		{"PLAIN", courier.Plain, all, false, "PLAIN"},
		{"LOGIN", courier.LoginAuth, all, false, "LOGIN"},
		{"SCRAM-SHA-1", courier.ScramSHA1, all, false, "SCRAM-SHA-1"},
		{"SCRAM-SHA-256", courier.ScramSHA256, all, false, "SCRAM-SHA-256"},
		{"XOAUTH2", courier.XOAuth2, all, false, "XOAUTH2"},
		{"the best one is chosen", courier.Automatic, all, false, "SCRAM-SHA-256"},
		{"of two the better one is chosen", courier.Automatic, []string{"LOGIN", "PLAIN"}, false, "PLAIN"},
		{"what is not offered is not tried", courier.ScramSHA256, []string{"PLAIN"}, false, ""},
		{"a token is not a password", courier.Automatic, []string{"XOAUTH2"}, false, ""},
		{"without encryption no password is told", courier.Plain, all, true, ""},
		{"nor by LOGIN", courier.LoginAuth, all, true, ""},
		{"nor a token", courier.XOAuth2, all, true, ""},
		{"nor one by choice", courier.Automatic, []string{"LOGIN", "PLAIN"}, true, ""},
		{"but one may be proven", courier.Automatic, all, true, "SCRAM-SHA-256"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := (&smtptest.Server{StartTLS: !test.plain, Mechanisms: test.offered}).Start(t)
			c, to := sending(t, server)
			to.Login.Mechanism = test.mechanism
			if test.plain {
				to.Encryption = courier.NoTLS
			}
			err := c.Mail(t.Context(), to, letter())
			got := server.SignedIn()
			if test.want == "" {
				if problem(t, err).Final || len(got)+len(server.Mails()) > 0 {
					t.Errorf("got %v and %v", err, got)
				}
				return
			}
			if err != nil || len(got) != 1 || got[0] != test.want || len(server.Mails()) != 1 {
				t.Fatalf("got %v and %v, want %s", err, got, test.want)
			}
			to.Key += " wrong"
			to.Login.Password += "x"
			if p := problem(t, c.Mail(t.Context(), to, letter())); p.Code != 535 || p.Final || len(server.Mails()) != 1 {
				t.Errorf("a wrong password: %v", p)
			}
		})
	}
}

func TestSEC310_OnlyWhoProvesItsNameGetsThePassword(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		server *smtptest.Server
		as     courier.Encryption
		want   string
	}{
		{"STARTTLS is not offered, or was taken out", &smtptest.Server{}, courier.StartTLS, "does not offer STARTTLS"},
		{"another name, by STARTTLS", &smtptest.Server{StartTLS: true, Certificate: smtptest.OtherName}, courier.StartTLS, "another name"},
		{"another name, at once", &smtptest.Server{Implicit: true, Certificate: smtptest.OtherName}, courier.ImplicitTLS, "another name"},
		{"expired, by STARTTLS", &smtptest.Server{StartTLS: true, Certificate: smtptest.Expired}, courier.StartTLS, "expired"},
		{"expired, at once", &smtptest.Server{Implicit: true, Certificate: smtptest.Expired}, courier.ImplicitTLS, "expired"},
		{"nobody vouches for it, by STARTTLS", &smtptest.Server{StartTLS: true, Certificate: smtptest.Unknown}, courier.StartTLS, "nobody we trust"},
		{"nobody vouches for it, at once", &smtptest.Server{Implicit: true, Certificate: smtptest.Unknown}, courier.ImplicitTLS, "nobody we trust"},
		{"no TLS where there should be", &smtptest.Server{StartTLS: true}, courier.ImplicitTLS, "does not speak TLS"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := test.server
			server.Mechanisms = []string{"PLAIN", "LOGIN"}
			server.Start(t)
			c, to := sending(t, server)
			to.Encryption = test.as
			p := problem(t, c.Mail(t.Context(), to, letter()))
			if !strings.Contains(p.Error(), test.want) || p.Final {
				t.Errorf("got %v", p)
			}
			if len(server.SignedIn())+len(server.Mails()) != 0 {
				t.Error("it got a password")
			}
		})
	}
	t.Run("the control", func(t *testing.T) {
		t.Parallel()
		for _, server := range []*smtptest.Server{{StartTLS: true, Mechanisms: []string{"PLAIN"}}, {Implicit: true, Mechanisms: []string{"PLAIN"}}} {
			c, to := sending(t, server.Start(t))
			if err := c.Mail(t.Context(), to, letter()); err != nil {
				t.Error(err)
			}
		}
	})
}

// scripted is a server that says lines, one for each that it hears, whatever that is.
func scripted(t *testing.T, lines ...string) (address string, heard func() string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var all strings.Builder
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				reader := bufio.NewReader(conn)
				for i, line := range lines {
					if i > 0 {
						got, err := reader.ReadString('\n')
						if err != nil {
							return
						}
						mu.Lock()
						all.WriteString(got)
						mu.Unlock()
					}
					if _, err := io.WriteString(conn, line); err != nil {
						return
					}
				}
				if len(lines) == 0 {
					return
				}
				rest, _ := io.ReadAll(reader)
				mu.Lock()
				all.Write(rest)
				mu.Unlock()
			}()
		}
	}()
	return listener.Addr().String(), func() string {
		mu.Lock()
		defer mu.Unlock()
		return all.String()
	}
}

func TestSEC254_WhateverAServerSaysItGetsNothingInTheClearAndCostsLittle(t *testing.T) {
	t.Parallel()
	offer := "250-mail\r\n250-STARTTLS\r\n250 AUTH PLAIN LOGIN\r\n"
	endless := strings.Repeat("x", 4<<20)
	for _, test := range []struct {
		name  string
		lines []string
	}{
		{"it refuses STARTTLS that it offers", []string{"220 hello\r\n", offer, "454 4.7.0 not now\r\n"}},
		{"it says more before TLS begins", []string{"220 hello\r\n", offer, "220 go on\r\n250-mail\r\n250 AUTH PLAIN\r\n235 you are in\r\n"}},
		{"it has no greeting for us", []string{"554 5.7.1 go away\r\n"}},
		{"it speaks something else", []string{"HTTP/1.1 200 OK\r\n\r\n"}},
		{"its line has no end", []string{"220 " + endless}},
		{"its lines have no end", []string{"220 hello\r\n", strings.Repeat("250-"+strings.Repeat("y", 60)+"\r\n", 64<<10)}},
		{"it repeats what it hears", []string{"220 hello\r\n", "500 EHLO " + password + "\r\n", "500 HELO " + password + "\r\n"}},
		{"it says nothing that has a code", []string{"\r\n\r\n\r\n"}},
		{"it hangs up", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			address, heard := scripted(t, test.lines...)
			server := &smtptest.Server{Mechanisms: []string{"PLAIN"}}
			c, to := sending(t, server)
			to.Address = address
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // some wait for us
			defer cancel()
			if p := problem(t, c.Mail(ctx, to, letter())); p.Final || len(p.Error()) > 200 {
				t.Errorf("got %v", p)
			}
			if text := heard(); strings.Contains(text, "AUTH") || strings.Contains(text, "MAIL") {
				t.Errorf("it was told %q", text)
			}
		})
	}
}

func TestAServerThatDoesNotAnswerIsLeft(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		lines []string
		as    courier.Encryption
	}{
		{"from the beginning", []string{""}, courier.StartTLS},
		{"after the greeting", []string{"220 hello\r\n", ""}, courier.NoTLS},
		{"after the e-mail began", []string{"220 hello\r\n", "250 mail\r\n", "250 ok\r\n", "250 ok\r\n", ""}, courier.NoTLS},
		{"before TLS", []string{""}, courier.ImplicitTLS},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			address, _ := scripted(t, test.lines...)
			c, to := sending(t, &smtptest.Server{})
			to.Address, to.Encryption = address, test.as
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if p := problem(t, c.Mail(ctx, to, letter())); p.Final || !strings.Contains(p.Error(), "too long") && !strings.Contains(p.Error(), "broke") {
				t.Errorf("got %v", p)
			}
			if ctx.Err() == nil {
				t.Error("it was left before the time was over")
			}
		})
	}
}

func TestWhatAMailServerAnswersIsFinalOrNot(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		step   string
		answer smtp.SMTPError
		want   string
		final  bool
	}{
		{"MAIL", smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}}, "the mail server refuses the sender (451 4.3.0)", false},
		{"MAIL", smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 7, 1}}, "the mail server refuses the sender (550 5.7.1)", false},
		{"RCPT", smtp.SMTPError{Code: 450, EnhancedCode: smtp.EnhancedCode{4, 2, 1}}, "the mail server refuses the recipient (450 4.2.1)", false},
		{"RCPT", smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}}, "the mail server refuses the recipient (550 5.1.1)", true},
		{"RCPT", smtp.SMTPError{Code: 530, EnhancedCode: smtp.EnhancedCode{5, 7, 0}}, "the mail server refuses the recipient (530 5.7.0)", false},
		{"RCPT", smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 7, 1}}, "the mail server refuses the recipient (550 5.7.1)", false},
		{"DATA", smtp.SMTPError{Code: 452, EnhancedCode: smtp.EnhancedCode{4, 2, 2}}, "the mail server refuses the e-mail (452 4.2.2)", false},
		{"DATA", smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 6, 0}}, "the mail server refuses the e-mail (554 5.6.0)", true},
		{"RCPT", smtp.SMTPError{Code: 421, EnhancedCode: smtp.EnhancedCode{4, 3, 2}}, "the connection to the mail server broke (421 4.3.2)", false},
	} {
		t.Run(fmt.Sprint(test.step, " ", test.answer.Code, test.answer.EnhancedCode), func(t *testing.T) {
			t.Parallel()
			answer := test.answer
			answer.Message = "because of " + password
			server := (&smtptest.Server{StartTLS: true, Answer: func(step, _ string) *smtp.SMTPError {
				if step == test.step {
					return &answer
				}
				return nil
			}}).Start(t)
			c, to := sending(t, server)
			if p := problem(t, c.Mail(t.Context(), to, letter())); p.Error() != test.want || p.Final != test.final {
				t.Errorf("got %v, final %v", p, p.Final)
			}
			if n := len(server.Mails()); n != 0 {
				t.Errorf("it took %d", n)
			}
		})
	}
}

func TestConnectionsAreKeptForOneServerAndOneConfiguration(t *testing.T) {
	t.Parallel()
	server := (&smtptest.Server{StartTLS: true, Mechanisms: []string{"PLAIN"}}).Start(t)
	c, to := sending(t, server)
	for range 10 {
		if err := c.Mail(t.Context(), to, letter()); err != nil {
			t.Fatal(err)
		}
	}
	if n := server.Connections(); n != 1 {
		t.Errorf("ten e-mails took %d connections", n)
	}
	changed := *to
	changed.Key += "/2"
	if err := c.Mail(t.Context(), &changed, letter()); err != nil || server.Connections() != 2 {
		t.Errorf("another configuration uses the connections of the first: %v", err)
	}
	for range 50 {
		if err := c.Mail(t.Context(), to, letter()); err != nil {
			t.Fatal(err)
		}
	}
	if n := server.Connections(); n != 3 {
		t.Errorf("60 e-mails took %d connections, want one for each 50", n-1)
	}
	if n := len(server.Mails()); n != 61 {
		t.Errorf("of 61 e-mails %d came", n)
	}
}

func TestAConnectionThatEndedMeanwhileCostsNothing(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	busy := false
	server := (&smtptest.Server{StartTLS: true, Answer: func(step, _ string) *smtp.SMTPError {
		mu.Lock()
		defer mu.Unlock()
		if step == "MAIL" && busy {
			busy = false
			return &smtp.SMTPError{Code: 421, EnhancedCode: smtp.EnhancedCode{4, 4, 2}, Message: "too long idle"}
		}
		return nil
	}}).Start(t)
	c, to := sending(t, server)
	if err := c.Mail(t.Context(), to, letter()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	busy = true
	mu.Unlock()
	if err := c.Mail(t.Context(), to, letter()); err != nil || server.Connections() != 2 || len(server.Mails()) != 2 {
		t.Errorf("got %v by %d connections", err, server.Connections())
	}
}

// injections are texts that would be headers, commands or recipients of their own.
var injections = []string{
	"x\r\nBcc: evil@example.com", "x\nBcc: evil@example.com", "x\rBcc: evil@example.com", "x\r\n\r\n<script>", "x\r\n.\r\nMAIL FROM:<evil@example.com>",
	"x\u0085Bcc: evil@example.com", "x\u2028Bcc: evil@example.com", "x\x00\r\nBcc: evil@example.com", "=?UTF-8?Q?x=0D=0ABcc:_evil@example.com?=",
	"x\r\n Bcc: evil@example.com", "x\t\r\nBcc: evil@example.com", `x" <evil@example.com>, "y`, "x%0d%0aBcc: evil@example.com",
}

func TestSEC149_NothingInAMessageBecomesAHeader(t *testing.T) {
	t.Parallel()
	server := (&smtptest.Server{StartTLS: true}).Start(t)
	c, to := sending(t, server)
	for _, text := range injections {
		named := *to
		named.Sender.Name = text
		m := letter()
		m.Subject, m.Text, m.HTML, m.ID = text, text, text, text
		if err := c.Mail(t.Context(), &named, m); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	got := server.Mails()
	if len(got) != len(injections) {
		t.Fatalf("%d e-mails came, want %d", len(got), len(injections))
	}
	for i, one := range got {
		if one.To != "alice@example.com" || one.From != to.Sender.Address {
			t.Errorf("%q: went from %s to %s", injections[i], one.From, one.To)
		}
		for name, values := range one.Header {
			if name == "Bcc" || name == "Cc" || len(values) != 1 || strings.ContainsAny(values[0], "\r\n") {
				t.Errorf("%q: has %s: %q", injections[i], name, values)
			}
		}
		if from, err := one.Header.AddressList("From"); err != nil || len(from) != 1 || from[0].Address != to.Sender.Address {
			t.Errorf("%q: is from %v, %v", injections[i], from, err)
		}
	}
	for _, text := range append(injections, "Evil <evil@example.com>", "a@example.com, evil@example.com", "a@example.com>\r\nRCPT TO:<evil@example.com", "", "nobody") {
		m := letter()
		m.To = text
		if p := problem(t, c.Mail(t.Context(), to, m)); !p.Final {
			t.Errorf("%q is a recipient: %v", text, p)
		}
		if m.To = "a@example.com" + text; text != "" && text != "nobody" {
			if p := problem(t, c.Mail(t.Context(), to, m)); !p.Final {
				t.Errorf("%q is a recipient: %v", m.To, p)
			}
		}
		named := *to
		if named.ReplyTo = text; text != "" && problem(t, c.Mail(t.Context(), &named, letter())) == nil {
			t.Errorf("%q is an address for replies", text)
		}
	}
	if n := len(server.Mails()); n != len(injections) {
		t.Errorf("%d e-mails came, want %d", n, len(injections))
	}
}

func TestSEC252_AMailServerIsAPublicOne(t *testing.T) {
	t.Parallel()
	server := (&smtptest.Server{StartTLS: true, Mechanisms: []string{"PLAIN"}}).Start(t)
	_, to := sending(t, server)
	c := courier.New(outgoing.New(outgoing.Config{Roots: server.Roots}), time.Now)
	if err := c.Mail(t.Context(), to, letter()); !errors.Is(err, outgoing.ErrForbidden) || server.Connections() != 0 {
		t.Errorf("got %v by %d connections", err, server.Connections())
	}
}

func TestATokenIsFetchedOnceAndAgainWhenItIsRefused(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked, good := 0, "token-1"
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, secret, _ := r.BasicAuth()
		mu.Lock()
		defer mu.Unlock()
		asked++
		if user != "app%3A1" || secret != "s%26cret" || r.FormValue("grant_type") != "client_credentials" || r.FormValue("scope") != "mail send" {
			t.Errorf("asked by %s:%s with %v", user, secret, r.Form)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":"%s","token_type":"Bearer","expires_in":3600}`, good)
	}))
	t.Cleanup(endpoint.Close)
	server := (&smtptest.Server{StartTLS: true, Mechanisms: []string{"XOAUTH2"}}).Start(t)
	c, to := sending(t, server)
	server.Password = "token-1"
	to.Login = courier.Login{
		Mechanism: courier.XOAuth2, User: "user",
		Token: &courier.TokenSource{Endpoint: endpoint.URL, ClientID: "app:1", Password: "s&cret", Scopes: []string{"mail", "send"}},
	}
	for range 60 { // two connections
		if err := c.Mail(t.Context(), to, letter()); err != nil {
			t.Fatal(err)
		}
	}
	if asked != 1 {
		t.Errorf("a token was asked for %d times", asked)
	}
	other := *to
	other.Key += "/2"
	server.Password, good = "token-2", "token-1"
	if p := problem(t, c.Mail(t.Context(), &other, letter())); p.Code != 535 {
		t.Errorf("got %v", p)
	}
	mu.Lock()
	good = "token-2"
	mu.Unlock()
	if err := c.Mail(t.Context(), &other, letter()); err != nil || asked != 3 {
		t.Errorf("after %d tokens got %v", asked, err)
	}
}
