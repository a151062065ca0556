package contract

import (
	"fmt"
	"strings"
	"testing"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
)

// listener keeps what a test would fail with.
type listener struct {
	testing.TB
	errors []string
}

func (l *listener) Helper() {}
func (l *listener) Errorf(format string, args ...any) {
	l.errors = append(l.errors, fmt.Sprintf(format, args...))
}

// TestSEC059_TheSuiteSeesASecretInAnyAnswer is the control of what every other
// test relies on: a secret fails the test that is answered with it, on each
// transport, in answers and refusals.
func TestSEC059_TheSuiteSeesASecretInAnyAnswer(t *testing.T) {
	s := newSuite(t)
	for _, test := range []struct {
		name, value string
		remember    bool
		allowed     []string
		found       bool
	}{
		{name: "nothing", value: "a name like another"},
		{name: "a secret", value: "s3cret<\"of\">ä test", remember: true, found: true},
		{name: "a secret that is allowed here", value: "s3cret-of-b", remember: true, allowed: []string{actionv3.ServiceActions_GetTarget_FullMethodName}},
		{name: "a secret that is allowed elsewhere", value: "s3cret-of-c", remember: true, allowed: []string{create}, found: true},
		{name: "argon2", value: "$argon2id$v=19$m=65536,t=3,p=4$c2FsdA$aGFzaA", found: true},
		{name: "bcrypt", value: "$2a$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW", found: true},
		{name: "PBKDF2", value: "$pbkdf2-sha256$29000$c2FsdA$aGFzaA", found: true},
		{name: "a private key", value: "-----BEGIN EC PRIVATE KEY-----", found: true},
		{name: "a public key", value: "-----BEGIN PUBLIC KEY-----"},
		{name: "dollars", value: "$1$ and $response.body#/id"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := s.in(t)
			target := webhook("secret")
			target.GetRestWebhook().Url = "https://a.example/"
			quiet := &listener{TB: t}
			target.Name = test.value
			got := s.transports[1].call(quiet, t.Context(), s.AdminToken, &actionv3.CreateTargetRequest{Target: target})
			if got.refusal != nil || len(quiet.errors) > 0 {
				t.Fatalf("got %s, %v", got, quiet.errors)
			}
			id := got.message.(*actionv3.CreateTargetResponse).GetDetails().GetId()
			if test.remember {
				s.rememberSecret(test.value, test.allowed...)
			}
			for _, over := range s.transports {
				heard := &listener{TB: t}
				over.call(heard, t.Context(), s.AdminToken, &actionv3.GetTargetRequest{Id: id})
				if found := strings.Contains(strings.Join(heard.errors, "\n"), "SEC-059"); found != test.found || len(heard.errors) > 0 && !found {
					t.Errorf("%s: found %t, want %t: %v", over.name(), found, test.found, heard.errors)
				}
			}
			must[*actionv3.DeleteTargetResponse](s, &actionv3.DeleteTargetRequest{Id: id}) // other tests list them
		})
	}
}
