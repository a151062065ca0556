package execution

import (
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"

	// What is served is linked into this test.
	_ "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/app/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/authenticator/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/domain/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/feature/v2"
	_ "github.com/writ-id/writ/gen/proto/writ/grant/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/idp/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/instance/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/language/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/membership/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/org/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/project/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/schema/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/session/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/sms/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/smtp/v3alpha"
)

// methods calls visit with every method that has a policy.
func methods(visit func(protoreflect.MethodDescriptor)) {
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			rpcs := file.Services().Get(i).Methods()
			for j := range rpcs.Len() {
				if proto.GetExtension(rpcs.Get(j).Options(), policyv1.E_Operation).(*policyv1.Operation) != nil {
					visit(rpcs.Get(j))
				}
			}
		}
		return true
	})
}

// fields calls visit with every field that is below a message, with the path to it and
// whether a list or map is on the way.
func fields(m protoreflect.MessageDescriptor, path string, inList bool, seen map[protoreflect.FullName]bool, visit func(field protoreflect.FieldDescriptor, path string, inList bool)) {
	if seen[m.FullName()] {
		return
	}
	seen[m.FullName()] = true
	defer delete(seen, m.FullName())
	for i := range m.Fields().Len() {
		field := m.Fields().Get(i)
		at, list := path+"."+string(field.Name()), inList || field.IsList() || field.IsMap()
		visit(field, at, list)
		if below := field.Message(); below != nil && strings.HasPrefix(string(below.FullName()), "writ.") {
			fields(below, at, list, seen, visit)
		}
	}
}

// suspicious are the names of what is a secret, or sounds like it.
var suspicious = regexp.MustCompile(`password|secret|token|^code$|_code$|hash|plain|signing_key|key_details|otpauth|private|^uri$`)

// open are fields that sound like secrets and are none.
var open = map[string]string{
	"validation_token": "published by whoever proves a domain",
	"postal_code":      "of an address",
	"token_endpoint":   "an address",
}

func TestSEC059_WhatIsASecretSaysSo(t *testing.T) {
	t.Parallel()
	found, used := 0, map[string]bool{}
	// A secret of a message that is sent is in no answer that shows what was sent, and no
	// answer of a target can set it: there is nothing to keep.
	sent := map[protoreflect.FullName]bool{}
	methods(func(method protoreflect.MethodDescriptor) {
		fields(method.Input(), "", false, map[protoreflect.FullName]bool{}, func(field protoreflect.FieldDescriptor, _ string, inList bool) {
			sent[field.ContainingMessage().FullName()] = sent[field.ContainingMessage().FullName()] || !inList
		})
	})
	methods(func(method protoreflect.MethodDescriptor) {
		for _, message := range []protoreflect.MessageDescriptor{method.Input(), method.Output()} {
			fields(message, string(message.Name()), false, map[protoreflect.FullName]bool{}, func(field protoreflect.FieldDescriptor, path string, inList bool) {
				text := field.Kind() == protoreflect.StringKind || field.Kind() == protoreflect.BytesKind
				switch name := string(field.Name()); {
				case isSecret(field):
					found++
					if inList && (message == method.Input() || !sent[field.ContainingMessage().FullName()]) {
						t.Errorf("%s: %s: a secret in a list could not be kept (keep)", method.FullName(), path)
					}
				case text && suspicious.MatchString(name):
					used[name] = true
					if open[name] == "" {
						t.Errorf("%s: %s sounds like a secret and does not say so (writ.policy.v1.secret)", method.FullName(), path)
					}
				}
			})
		}
	})
	for name := range open {
		if !used[name] {
			t.Errorf("there is no field %s", name)
		}
	}
	if found < 20 {
		t.Errorf("only %d secrets were found", found)
	}
}

func TestAnAnswerKeepsTheSecretsOfWhatItReplaces(t *testing.T) {
	t.Parallel()
	sent := &userv3.CreateUserRequest{User: &userv3.User{
		Username: "eve",
		Type:     &userv3.User_Human{Human: &userv3.Human{Password: &userv3.Password{Value: &userv3.Password_Plain{Plain: "opens everything"}, ChangeRequired: true}}},
	}}
	text := string(public(sent))
	if strings.Contains(text, "opens") {
		t.Fatalf("the secret is in %s", text)
	}
	got, err := replaced(sent, []byte(strings.Replace(text, "eve", "adam", 1)))
	if err != nil {
		t.Fatal(err)
	}
	user := got.(*userv3.CreateUserRequest).GetUser()
	if user.GetUsername() != "adam" || user.GetHuman().GetPassword().GetPlain() != "opens everything" {
		t.Errorf("got %v", user)
	}
	for _, answer := range []string{
		`{"user":{"human":{"password":{"plain":"mine is better"}}}}`,
		`{"user":{"human":{"password":{"hash":"$2a$mine"}}}}`,
	} {
		if _, err := replaced(sent, []byte(answer)); err == nil {
			t.Errorf("%s is accepted", answer)
		}
	}
	if got, err := replaced(sent, []byte(`{"user":{"username":"no password"}}`)); err != nil || got.(*userv3.CreateUserRequest).GetUser().GetHuman() != nil {
		t.Errorf("got %v, %v: what the answer leaves out with the secret in it is gone", got, err)
	}
}

// somewhere are fields that sound like the address, the account or the owner of a secret.
var somewhere = regexp.MustCompile(`^(host|tls|issuer|token_endpoint|tenant|sid|user|id|user_id|client_id)$`)

// TestSEC206_WhoIsNotToldASecretDoesNotSendItElsewhere changes, in the request of each method
// that takes secrets, one field at a time.
func TestSEC206_WhoIsNotToldASecretDoesNotSendItElsewhere(t *testing.T) {
	t.Parallel()
	held, free := 0, 0
	methods(func(method protoreflect.MethodDescriptor) {
		if !hasSecrets(method.Input()) {
			return
		}
		sent := filled(method.Input())
		if sent.ProtoReflect().IsValid() && !keep(sent.ProtoReflect(), proto.Clone(sent).ProtoReflect()) {
			kept := proto.Clone(sent)
			strip(kept.ProtoReflect())
			if !keep(sent.ProtoReflect(), kept.ProtoReflect()) {
				return // the sample has another member of a oneof
			}
		}
		fields(method.Input(), "", false, map[protoreflect.FullName]bool{}, func(field protoreflect.FieldDescriptor, path string, inList bool) {
			if inList || field.IsList() || isSecret(field) || strings.Contains(path, ".ctx.") || field.Message() != nil && !steers(field) {
				return
			}
			answer := proto.Clone(sent)
			strip(answer.ProtoReflect())
			at := answer.ProtoReflect()
			for name := range strings.SplitSeq(strings.TrimPrefix(path, "."), ".") {
				one := at.Descriptor().Fields().ByName(protoreflect.Name(name))
				if one != field {
					if !at.Has(one) {
						return // another member of a oneof
					}
					at = at.Mutable(one).Message()
				}
			}
			if !at.Has(field) {
				return
			}
			at.Clear(field)
			_, err := replaced(sent, public(answer))
			if steers(field) && err == nil {
				t.Errorf("%s: without %s, which steers a secret, an answer is taken", method.FullName(), path)
			}
			if !steers(field) && err != nil {
				t.Errorf("%s: without %s: %v", method.FullName(), path, err)
			}
			if !steers(field) && somewhere.MatchString(string(field.Name())) && path != ".user.id" { // that of a new one
				t.Errorf("%s: %s sounds as if it said where a secret goes, and does not (writ.policy.v1.steers)", method.FullName(), path)
			}
			if steers(field) {
				held++
			} else {
				free++
			}
		})
	})
	if held < 30 || free < 30 {
		t.Errorf("%d fields were held fast, and %d were not", held, free)
	}
}
