package authenticator_test

import (
	"testing"

	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/server"
	"github.com/writ-id/writ/impl/server/servertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// newUser returns the path of a new person.
func newUser(t *testing.T) (c *servertest.Cluster, id, at string) {
	t.Helper()
	sealer, err := secret.NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	c = servertest.New(t, 1, func(config *server.Config) { config.Sealer = sealer })
	id = c.Create("owner", "/resources/v3alpha/users", `{"username":"ada","human":{"email":{"address":"ada@x.example"},"password":{"plain":"correct horse"}}}`)
	return c, id, "/v3alpha/users/" + id
}

// TestACodeProvesAnAddressOnce, and a wrong one is counted.
func TestACodeProvesAnAddressOnce(t *testing.T) {
	t.Parallel()
	c, id, at := newUser(t)
	made := c.Must("owner", "POST", at+"/otp_email", `{"address":"ada@x.example","returnCode":{}}`).Any(t)
	factor, _ := made["otpEmailId"].(string)
	code, _ := made["verificationCode"].(string)
	if len(code) != 8 || factor == "" {
		t.Fatalf("got %v", made)
	}
	verify := at + "/otp_email/" + factor + "/verify"
	if wrong := "00000000"; wrong != code {
		c.Refused("owner", "POST", verify, `{"code":"`+wrong+`"}`, 400, "CODE_INVALID")
	}
	if got := c.Value("SELECT attempts::text FROM one_time_codes"); got != "1" {
		t.Errorf("a wrong code counts %s times", got)
	}
	c.Must("owner", "POST", verify, `{"code":"`+code+`"}`)
	if got := c.Do("owner", "POST", verify, `{"code":"`+code+`"}`); got.Status != 400 {
		t.Errorf("a code was used twice: %d %s", got.Status, got.Body)
	}
	c.Must("owner", "DELETE", at+"/otp_email/"+factor, "")
	if got := c.Value("SELECT string_agg(event_type, ' ' ORDER BY sequence) FROM events WHERE aggregate_id = $1 AND event_type LIKE '%otp.email%'", id); got !=
		"user.human.otp.email.added user.human.otp.email.verified user.human.otp.email.removed" {
		t.Errorf("events %s", got)
	}
}

// TestSEC178_TheSecretOfTOTPIsSealedAndReplacedUntilItIsVerified looks at what is stored.
func TestSEC178_TheSecretOfTOTPIsSealedAndReplacedUntilItIsVerified(t *testing.T) {
	t.Parallel()
	c, _, at := newUser(t)
	add := func() string {
		made, _ := c.Must("owner", "POST", at+"/totp", `{}`).Any(t)["secret"].(string)
		if len(made) < 32 {
			t.Fatalf("the secret %q has less than 160 bits", made)
		}
		return made
	}
	first, second := add(), add()
	if first == second {
		t.Error("the same secret is given again")
	}
	if got := c.Value("SELECT count(*)::text || ' ' || bool_or(is_verified)::text FROM authenticators"); got != "1 false" {
		t.Errorf("%s authenticators, want the second one alone, not verified", got)
	}
	for _, one := range []string{first, second} {
		if got := c.Value("SELECT (position($1::text::bytea IN secret))::text FROM authenticators", one); got != "0" {
			t.Error("a secret is stored as it is")
		}
	}
}
