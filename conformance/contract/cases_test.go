package contract

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	goflag "flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/writ-id/writ/conformance/harness"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
)

// answered are the operations that were answered with what they are for, by path.
var answered sync.Map

// note notes an answer.
func note(op *operation, got outcome) outcome {
	if got.refusal == nil {
		answered.Store(op.path(), true)
		rememberSecrets(op, got.message.ProtoReflect())
	}
	return got
}

// rememberedOf counts the secrets of an operation that are looked for; each is looked for
// in every later answer, so a few of them have to do.
var rememberedOf sync.Map // of *atomic.Int32, by path

const fewSecrets = 3

// rememberSecrets has what the contract calls a secret (writ.policy.v1.secret) looked for
// in the answers of all other operations.
func rememberSecrets(op *operation, message protoreflect.Message) {
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case proto.GetExtension(field.Options(), policyv1.E_Secret).(bool):
			n, _ := rememberedOf.LoadOrStore(op.path(), &atomic.Int32{})
			if text := value.String(); field.Kind() == protoreflect.StringKind && len(text) > 16 && n.(*atomic.Int32).Add(1) <= fewSecrets {
				if err := harness.RememberSecret(text, op.path()); err != nil {
					panic(err)
				}
			}
		case field.Message() != nil && !field.IsList() && !field.IsMap():
			rememberSecrets(op, value.Message())
		}
		return true
	})
}

// noted is a transport that notes what is answered.
type noted struct{ transport }

// call implements transport.
func (n noted) call(t testing.TB, ctx context.Context, token string, req proto.Message) outcome {
	t.Helper()
	got := n.transport.call(t, ctx, token, req)
	if path, ok := got.namesFields(req.ProtoReflect().Descriptor(), operationOf(req).rule().body); !ok {
		t.Errorf("%T: a refusal blames %q, which is no field of it: %s", req, path, got)
	}
	return note(operationOf(req), got)
}

// elsewhereTested are operations that a suite which knows only addresses cannot bring to
// do what they are for, and where they are tested.
var elsewhereTested = map[string]string{
	"/writ.domain.v3alpha.ServiceDomains/Validate":        "asks the DNS or a web server of the domain: impl/api/domain",
	"/writ.message.v3alpha.ServiceMessages/GetMessage":    "is about a message that was sent to a user: impl/api/provider",
	"/writ.message.v3alpha.ServiceMessages/ReplayMessage": "is about a message that nobody took: impl/api/provider",
}

// checkCases returns the operations that the suite has no case for: that were refused
// each time, or never called. TestMain asks at the end, when all tests ran.
var checkCases = func() func(*harness.Server) error {
	var once sync.Once
	return func(*harness.Server) (err error) {
		once.Do(func() { err = withoutCase() })
		return err
	}
}()

func withoutCase() error {
	if goflag.Lookup("test.run").Value.String() != "" || goflag.Lookup("test.skip").Value.String() != "" {
		return nil
	}
	var without []string
	for path := range operations {
		_, ok := answered.Load(path)
		if _, elsewhere := elsewhereTested[path]; !ok && !elsewhere {
			without = append(without, path)
		}
	}
	if slices.Sort(without); len(without) > 0 {
		return fmt.Errorf("%d operations have no case in which they do what they are for (cases_test.go):\n%s", len(without), strings.Join(without, "\n"))
	}
	return nil
}

// step is a call in the life of one of everything: an operation, its request with names for
// what earlier steps answered, and a name for the ID in its own answer. The system may do
// it instead of the administrator.
type step struct{ operation, request, name string }

// life is what the generic walks do not come to.
var life = []step{
	{"SetInstanceFeatures", `{"features":{"multitenancyResourcesApi":true,"multitenancySettings":true,"userSchema":true}}`, ""},
	{"SetBranding", `{"settings":{"primaryColorLight":"#402060","termsLink":"https://x.example/terms","hideProductName":{"value":true}}}`, ""},
	{"ResolveBranding", `{}`, ""},
	{"SetLifetimes", `{"settings":{"accessTokenLifetime":"900s","idTokenLifetime":"900s","refreshTokenIdleLifetime":"86400s","refreshTokenLifetime":"604800s","sessionIdleLifetime":"28800s","sessionLifetime":"43200s"}}`, ""},
	{"ResolveLifetimes", `{}`, ""},
	{"SetApplicationSettings", `{"settings":{"rolesNeedTrust":{"value":false}}}`, ""},
	{"ResolveApplicationSettings", `{}`, ""},
	{"SetMessageText", `{"kind":"otp_email","language":"de","settings":{"subject":"{{.Code}}"}}`, ""},
	{"ResolveMessageText", `{"kind":"otp_email","language":"de"}`, ""},
	{"PreviewMessageText", `{"kind":"otp_email","language":"de"}`, ""},
	{"CreateOrganization", `{"organization":{"name":"O"}}`, "org"},
	{"SetAsInstanceDefault", `{"id":"$org"}`, ""},
	{"CreateOrganization", `{"organization":{"name":"Other"}}`, "other"},
	{"DeactivateOrganization", `{"id":"$other"}`, ""},
	{"ActivateOrganization", `{"id":"$other"}`, ""},
	{"CreateDomain", `{"ctx":{"orgId":"$org"},"domain":{"domain":"claimed.example","validationType":"VALIDATION_TYPE_DNS"}}`, ""},
	{"CreateUserSchema", `{"userSchema":{"type":"s","schema":{"type":"object"}}}`, "schema"},
	{"PatchUserSchema", `{"id":"$schema","userSchema":{"type":"t"}}`, ""},
	{"DeactivateUserSchema", `{"id":"$schema"}`, ""},
	{"ActivateUserSchema", `{"id":"$schema"}`, ""},
	{"DeleteUserSchema", `{"id":"$schema"}`, ""},
	{"CreateUser", `{"user":{"username":"ada","human":{"email":{"address":"ada@x.example"},"password":{"plain":"correct horse"}}}}`, "ada"},
	{"SetPassword", `{"id":"$ada","newPassword":{"plain":"battery staple"}}`, ""},
	{"SetUserMetadata", `{"userId":"$ada","key":"k","metadata":{"value":"dg=="}}`, ""},
	{"AddOTPEmail", `{"userId":"$ada","email":{"address":"ada@x.example","returnCode":{}}}`, "mail"},
	{"VerifyOTPEmail", `{"userId":"$ada","otpEmailId":"$mail","code":"$code"}`, ""},
	{"AddOTPSMS", `{"userId":"$ada","phone":{"number":"+41791234567","returnCode":{}}}`, "sms"},
	{"VerifyOTPSMS", `{"userId":"$ada","otpSmsId":"$sms","code":"$code"}`, ""},
	{"AddTOTP", `{"userId":"$ada"}`, "totp"},
	{"VerifyTOTP", `{"userId":"$ada","totpId":"$totp","code":"$code"}`, ""},
	{"CreateSession", `{"session":{"checks":{"user":{"userId":"$ada"}}}}`, "session"},
	{"PatchSession", `{"id":"$session","session":{"checks":{"password":{"password":"battery staple"}}}}`, ""},
	{"CreateUser", `{"user":{"username":"robot","service":{"name":"Robot"}}}`, "robot"},
	{"CreateMachineKey", `{"userId":"$robot","key":{}}`, ""},
	{"SetClientSecret", `{"id":"$robot"}`, ""},
	{"DeleteClientSecret", `{"id":"$robot"}`, ""},
	{"CreateProject", `{"project":{"name":"P"}}`, "project"},
	{"DeactivateProject", `{"id":"$project"}`, ""},
	{"ActivateProject", `{"id":"$project"}`, ""},
	{"CreateRole", `{"role":{"projectId":"$project","key":"r","displayName":"R"}}`, ""},
	{"CreateProjectGrant", `{"projectGrant":{"projectId":"$project","grantedOrgId":"$other","roleKeys":["r"]}}`, "grant"},
	{"DeactivateProjectGrant", `{"id":"$grant"}`, ""},
	{"ActivateProjectGrant", `{"id":"$grant"}`, ""},
	{"CreateUserGrant", `{"userGrant":{"userId":"$ada","projectId":"$project","roleKeys":["r"]}}`, "given"},
	{"DeactivateUserGrant", `{"id":"$given"}`, ""},
	{"ActivateUserGrant", `{"id":"$given"}`, ""},
	{"CreateApp", `{"app":{"projectId":"$project","name":"A","oidc":{"authMethodType":"AUTH_METHOD_TYPE_PRIVATE_KEY_JWT","applicationType":"APPLICATION_TYPE_WEB","responseTypes":["RESPONSE_TYPE_CODE"],"grantTypes":["GRANT_TYPE_AUTHORIZATION_CODE"],"redirectUris":["https://app.example/cb"]}}}`, "app"},
	{"CreateAppKey", `{"appId":"$app","key":{}}`, ""},
	{"DeactivateApp", `{"id":"$app"}`, ""},
	{"ActivateApp", `{"id":"$app"}`, ""},
	{"ListUserConsents", `{"userId":"$ada"}`, ""},
	{"RevokeUserConsent", `{"userId":"$ada","appId":"$app"}`, ""},
	{"TrustApp", `{"id":"$app"}`, ""},
	{"DistrustApp", `{"id":"$app"}`, ""},
	{"CreateTarget", `{"target":{"name":"T","timeout":"1s","restWebhook":{"url":"https://hooks.example/"}}}`, "target"},
	{"RotateSigningKey", `{"id":"$target","rotation":{"overlap":"60s"}}`, ""},
	{"TestTarget", `{"id":"$target","condition":{"event":{"all":true}}}`, ""}, // which cannot be reached, and that is the answer
	{"CreateGitLabIDP", `{"idp":{"idp":{"name":"GitLab"},"config":{"clientId":"c"}}}`, "idpGitLab"},
	{"PatchGitLabIDP", `{"id":"$idpGitLab","idp":{"idp":{"statePolicy":"STATE_POLICY_DEACTIVATE"}}}`, ""},
	{"GetGitLabIDP", `{"id":"$idpGitLab"}`, ""},
	{"CreateGitLabSelfHostedIDP", `{"idp":{"idp":{"name":"GitLabSelfHosted"},"config":{"issuer":"https://gitlab.example","clientId":"c"}}}`, "idpGitLabSelfHosted"},
	{"PatchGitLabSelfHostedIDP", `{"id":"$idpGitLabSelfHosted","idp":{"idp":{"statePolicy":"STATE_POLICY_DEACTIVATE"}}}`, ""},
	{"GetGitLabSelfHostedIDP", `{"id":"$idpGitLabSelfHosted"}`, ""},
	{"CreateOIDCIDP", `{"idp":{"idp":{"name":"OIDC"},"config":{"issuer":"https://login.example","clientId":"c"}}}`, "idpOIDC"},
	{"PatchOIDCIDP", `{"id":"$idpOIDC","idp":{"idp":{"statePolicy":"STATE_POLICY_DEACTIVATE"}}}`, ""},
	{"GetOIDCIDP", `{"id":"$idpOIDC"}`, ""},
	{"CreateOAuthIDP", `{"idp":{"idp":{"name":"OAuth"},"config":{"authorizationEndpoint":"https://o.example/a","tokenEndpoint":"https://o.example/t","userEndpoint":"https://o.example/u","idAttribute":"id","clientId":"c"}}}`, "idpOAuth"},
	{"PatchOAuthIDP", `{"id":"$idpOAuth","idp":{"idp":{"statePolicy":"STATE_POLICY_DEACTIVATE"}}}`, ""},
	{"GetOAuthIDP", `{"id":"$idpOAuth"}`, ""},
	{"CreateGitHubIDP", `{"idp":{"idp":{"name":"GitHub"},"config":{"clientId":"c"}}}`, "idpGitHub"},
	{"PatchGitHubIDP", `{"id":"$idpGitHub","idp":{"idp":{"statePolicy":"STATE_POLICY_DEACTIVATE"}}}`, ""},
	{"GetGitHubIDP", `{"id":"$idpGitHub"}`, ""},
	{"CreateGitHubESIDP", `{"idp":{"idp":{"name":"GitHubES"},"config":{"authorizationEndpoint":"https://o.example/a","tokenEndpoint":"https://o.example/t","userEndpoint":"https://o.example/u","clientId":"c"}}}`, "idpGitHubES"},
	{"PatchGitHubESIDP", `{"id":"$idpGitHubES","idp":{"idp":{"statePolicy":"STATE_POLICY_DEACTIVATE"}}}`, ""},
	{"GetGitHubESIDP", `{"id":"$idpGitHubES"}`, ""},
	{"CreateGoogleIDP", `{"idp":{"idp":{"name":"Google"},"config":{"clientId":"c"}}}`, "idpGoogle"},
	{"PatchGoogleIDP", `{"id":"$idpGoogle","idp":{"idp":{"statePolicy":"STATE_POLICY_DEACTIVATE"}}}`, ""},
	{"GetGoogleIDP", `{"id":"$idpGoogle"}`, ""},
	{"CreateAzureADIDP", `{"idp":{"idp":{"name":"AzureAD"},"config":{"clientId":"c","tenant":"common"}}}`, "idpAzureAD"},
	{"PatchAzureADIDP", `{"id":"$idpAzureAD","idp":{"idp":{"statePolicy":"STATE_POLICY_DEACTIVATE"}}}`, ""},
	{"GetAzureADIDP", `{"id":"$idpAzureAD"}`, ""},
	{"CreateAppleIDP", `{"idp":{"idp":{"name":"Apple"},"config":{"clientId":"c","teamId":"0123456789","keyId":"0123456789","privateKey":"k"}}}`, "idpApple"},
	{"PatchAppleIDP", `{"id":"$idpApple","idp":{"idp":{"statePolicy":"STATE_POLICY_DEACTIVATE"}}}`, ""},
	{"GetAppleIDP", `{"id":"$idpApple"}`, ""},
	{"SearchIDPs", `{"ctx":{"orgId":"$org"},"filters":[{"state":{"state":"EFFECTIVE_STATE_INACTIVE"}}]}`, ""},
	{"AddIDPLink", `{"userId":"$ada","link":{"idpId":"$idpGitLab","externalUserId":"1","externalUsername":"ada"}}`, "link"},
	{"SearchIDPLinks", `{"userId":"$ada","filters":[{"externalUserId":{"id":"1"}}]}`, ""},
	{"RemoveIDPLink", `{"userId":"$ada","id":"$link"}`, ""},
	{"DeleteIDP", `{"id":"$idpApple"}`, ""},
	{"CreateSMTPProvider", `{"provider":{"name":"Mail","senderAddress":"a@b.example","smtp":{"host":"mail.b.example:587","user":"u","password":"p"}}}`, "smtp"},
	{"PatchSMTPProvider", `{"id":"$smtp","provider":{"description":"d","smtp":{"tls":"TLS_MODE_IMPLICIT"}}}`, ""},
	{"GetSMTPProvider", `{"id":"$smtp"}`, ""},
	{"ActivateSMTPProvider", `{"id":"$smtp"}`, ""},
	{"SearchSMTPProviders", `{"ctx":{"orgId":"$org"},"filters":[{"state":{"state":"EFFECTIVE_STATE_ACTIVE"}},{"name":{"name":"Mail"}}]}`, ""},
	{"DeactivateSMTPProvider", `{"id":"$smtp"}`, ""},
	{"DeleteSMTPProvider", `{"id":"$smtp"}`, ""},
	{"CreateSMTPProvider", `{"provider":{"name":"Hook","senderAddress":"a@b.example","http":{"endpoint":"https://b.invalid/"}}}`, "hook"},
	{"TestSMTPProvider", `{"id":"$hook","test":{"recipient":"a@b.example"}}`, ""},
	{"RotateSMTPProviderSigningKey", `{"id":"$hook","rotation":{}}`, ""},
	{"CreateSMSProvider", `{"provider":{"name":"Twilio","twilio":{"sid":"AC00000000000000000000000000000000","token":"t","senderNumber":"+41791234567"}}}`, "sms"},
	{"PatchSMSProvider", `{"id":"$sms","provider":{"twilio":{"messagingServiceSid":"MG00000000000000000000000000000000"}}}`, ""},
	{"GetSMSProvider", `{"id":"$sms"}`, ""},
	{"ActivateSMSProvider", `{"id":"$sms"}`, ""},
	{"SearchSMSProviders", `{"filters":[{"state":{"state":"EFFECTIVE_STATE_ACTIVE"}}]}`, ""},
	{"DeactivateSMSProvider", `{"id":"$sms"}`, ""},
	{"DeleteSMSProvider", `{"id":"$sms"}`, ""},
	{"CreateSMSProvider", `{"provider":{"name":"Hook","http":{"endpoint":"https://b.invalid/"}}}`, "smsHook"},
	{"TestSMSProvider", `{"id":"$smsHook","test":{"recipient":"+41791234567"}}`, ""},
	{"RotateSMSProviderSigningKey", `{"id":"$smsHook","rotation":{}}`, ""},
	{"SearchMessages", `{"filters":[{"state":{"state":"MESSAGE_STATE_SENT"}}]}`, ""},
	{"GetInstance", `{"id":"$instance"}`, ""},
	{"SearchInstances", `{}`, ""},
	{"PatchInstance", `{"id":"$instance","instance":{"allowRegistration":true}}`, ""},
	{"Limit", `{"id":"$instance","limits":{"auditLogRetention":"3600s"}}`, ""},
	{"system CreateDomain", `{"ctx":{"instanceId":"$instance"},"domain":{"domain":"second.example"}}`, "domain"}, // who needs no proof
	{"system SetAsPrimary", `{"id":"$domain"}`, ""},
	{"SearchEvents", `{"filters":[{"type":{"types":["user.human.*"]}},{"object":{"type":"user","id":"$ada"}}]}`, ""},
	{"BulkLimit", `{"limits":[{"instanceId":"$instance","limits":{"auditLogRetention":"7200s"}}]}`, ""},
}

// TestEveryOperationDoesWhatItIsFor makes one of everything and takes it through its life.
func TestEveryOperationDoesWhatItIsFor(t *testing.T) {
	t.Parallel()
	s := suiteOf(t, harness.Own(t))
	known := map[string]string{"instance": s.InstanceID}
	byName := map[string]*operation{}
	for _, op := range operations {
		byName[string(op.method.Name())] = op
	}
	for _, one := range life {
		name, bySystem := strings.CutPrefix(one.operation, "system ")
		op := byName[name]
		if op == nil {
			t.Fatalf("there is no %s", one.operation)
		}
		text := regexp.MustCompile(`\$\w+`).ReplaceAllStringFunc(one.request, func(name string) string {
			if known[name[1:]] == "" {
				t.Errorf("%s: nothing is called %s", one.operation, name)
			}
			return known[name[1:]]
		})
		req := op.question()
		if err := protojson.Unmarshal([]byte(text), req); err != nil {
			t.Fatalf("%s: %v", one.operation, err)
		}
		token := s.AdminToken
		if bySystem || ofSystem(op) {
			token = s.SystemToken
		}
		got := s.transports[0].call(t, t.Context(), token, req)
		if got.refusal != nil {
			t.Fatalf("%s %s: %s", one.operation, text, got)
		}
		known["code"] = ""
		remember(t, one.name, got.message, known)
	}
}

// remember keeps the ID of an answer by a name, and the code that the next step needs.
func remember(t *testing.T, name string, answer proto.Message, known map[string]string) {
	t.Helper()
	text, err := protojson.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Details                      any // of several objects it is a list
		OtpEmailID, OtpSmsID, TotpID string
		VerificationCode, Secret     string
	}
	if err := json.Unmarshal(text, &said); err != nil {
		t.Fatal(err)
	}
	details, _ := said.Details.(map[string]any)
	own, _ := details["id"].(string)
	for _, id := range []string{own, said.OtpEmailID, said.OtpSmsID, said.TotpID} {
		if name != "" && id != "" {
			known[name] = id
		}
	}
	if known["code"] = said.VerificationCode; said.Secret != "" {
		known["code"] = totp(t, said.Secret, time.Now())
	}
}

// totp is the code of RFC 6238 with the parameters that all authenticator apps have.
func totp(t *testing.T, secret string, at time.Time) string {
	t.Helper()
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha1.New, key)
	_ = binary.Write(mac, binary.BigEndian, at.Unix()/30)
	sum := mac.Sum(nil)
	offset := sum[len(sum)-1] & 0xf
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[offset:])&0x7fffffff%1_000_000)
}
