package contract

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	membershipv3 "github.com/writ-id/writ/gen/proto/writ/membership/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	orgv3 "github.com/writ-id/writ/gen/proto/writ/org/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
)

// never are members that no body of a creation or a change has unless its message
// says so: they are the server's to say.
var never = map[string]any{
	"details": map[string]any{"id": "x", "sequence": "1"}, "sequence": "1", "changeDate": "2030-01-31T00:00:00Z", "creationDate": "2030-01-31T00:00:00Z",
	"resourceOwner": map[string]any{"type": "OWNER_TYPE_SYSTEM"}, "owner": map[string]any{"type": "OWNER_TYPE_SYSTEM"}, "state": 1, "effectiveState": 1,
	"id": "x", "instanceId": "x", "orgId": "x", "creator": "x", "isVerified": true, "isPrimary": true, "isDefault": true, "level": 1, "objectId": "x",
	"passwordHash": "x", "secretHash": "x", "tokenHash": "x", "root": true, "permissions": []any{"iam.*"}, "__proto__": map[string]any{"isAdmin": true},
}

// TestSEC236_WhatTheServerSaysIsNoInput sends, as who may do everything, each
// member that only answers have with a request that is right but for it: 400,
// the member is blamed and nothing changes.
func TestSEC236_WhatTheServerSaysIsNoInput(t *testing.T) {
	w := newWorld(t)
	sent := 0
	for _, op := range sortedOperations() {
		if op.rule().body == "" || reads(op) {
			continue
		}
		t.Run(string(op.method.Name()), func(t *testing.T) {
			v := w.victim.in(t)
			attacks, err := v.attacks(op, true)
			if err != nil {
				t.Skipf("no valid request is known: %v", err)
			}
			req, at := op.question(), location(nil)
			if len(attacks) > 0 {
				req = attacks[0].req
			} else if base, err := v.valid(op); err == nil {
				req = base
			}
			input := op.method.Input()
			if op.rule().body != "*" {
				field := input.Fields().ByName(protoreflect.Name(op.rule().body))
				if field.Message() == nil || field.IsMap() {
					return
				}
				at, input = location{field}, field.Message()
			}
			newest := v.newest()
			for name, value := range outputOnly(op, input) {
				sent++
				body, err := withMember(op, req, at, name, value)
				if err != nil {
					t.Fatal(err)
				}
				got := v.sendChanged(op, req, func(r *http.Request) {
					r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
					r.Header.Set("Content-Type", "application/json")
				})
				if got.refusal == nil || got.http != http.StatusBadRequest || got.reason() != "UNKNOWN_FIELD" || !strings.HasSuffix(got.field(), name) {
					t.Errorf("with %s: got %s at %q, want UNKNOWN_FIELD", name, got, got.field())
				}
			}
			if now := v.newest(); now != newest {
				t.Errorf("something was written: the newest event was %d and is %d", newest, now)
			}
		})
	}
	t.Logf("%d requests", sent)
}

// withMember returns the body of a request with one more member.
func withMember(op *operation, req proto.Message, at location, name string, value any) ([]byte, error) {
	if at == nil {
		parts, err := op.parts(req)
		if err != nil {
			return nil, err
		}
		text := strings.TrimSuffix(strings.TrimSpace(string(parts.content)), "}")
		if text != "{" {
			text += ","
		}
		member, err := marshalMember(name, value)
		return []byte(text + member + "}"), err
	}
	return bodyWith(op, freeFor(req, at), at, name, value)
}

// outputOnly returns the members of answers about what an input message makes or
// changes that the input has not.
func outputOnly(op *operation, input protoreflect.MessageDescriptor) map[string]any {
	all := map[string]any{}
	for name, value := range never {
		all[name] = value
	}
	base := string(input.Name())
	for _, prefix := range []string{"Patch", "Create", "Put", "Set", "Add"} {
		base = strings.TrimPrefix(base, prefix)
	}
	full := input.ParentFile().Package().Append(protoreflect.Name("Get" + base))
	if view, err := protoregistry.GlobalFiles.FindDescriptorByName(full); err == nil {
		fields := view.(protoreflect.MessageDescriptor).Fields()
		for i := range fields.Len() {
			all[fields.Get(i).JSONName()] = sample(fields.Get(i))
		}
	}
	for i := range input.Fields().Len() {
		delete(all, input.Fields().Get(i).JSONName())
		delete(all, string(input.Fields().Get(i).Name()))
	}
	return all
}

func sample(field protoreflect.FieldDescriptor) any {
	switch {
	case field.IsList():
		return []any{}
	case field.Message() != nil:
		return map[string]any{}
	case field.Kind() == protoreflect.BoolKind:
		return true
	case field.Kind() == protoreflect.StringKind:
		return "x"
	}
	return 1
}

// person is a user with a token and the roles of one membership.
type person struct{ id, token, membership string }

// holders finds who of the seed holds which roles, by the roles.
func (o *tenant) holders() map[string]person {
	o.t.Helper()
	all := map[string]person{}
	found := o.as(o.token, &membershipv3.SearchMembershipsRequest{Query: &object.ListQuery{Limit: 1000}}).(*membershipv3.SearchMembershipsResponse)
	for _, m := range found.GetResult() {
		if m.GetObjectId() != o.InstanceID && m.GetObjectId() != o.OrgID {
			continue // what furnish gave
		}
		for _, role := range m.GetRoles() {
			if all[role].id == "" {
				all[role] = person{id: m.GetUserId(), membership: m.GetDetails().GetId()}
			}
		}
	}
	return all
}

// named returns the request of an operation from its name and JSON, or nil where
// the contract has no such operation yet.
func named(t *testing.T, method, text string) proto.Message {
	t.Helper()
	for _, op := range operations {
		if string(op.method.Name()) == method {
			req := op.question()
			if err := protojson.Unmarshal([]byte(text), req); err != nil {
				t.Fatalf("%s: %v", method, err)
			}
			return req
		}
	}
	return nil
}

// servant makes a service user with a token in an organization, with roles on it
// if there are any; without the users API it is nil.
func (o *tenant) servant(orgID, name string, roles ...string) *person {
	o.t.Helper()
	ctx := `"ctx":{"orgId":"` + orgID + `"}`
	create := named(o.t, "CreateUser", `{`+ctx+`,"user":{"username":"`+name+`","service":{"name":"`+name+`"}}}`)
	if create == nil {
		return nil
	}
	p := &person{id: idOf(operationOf(create), create, o.as(o.token, create))}
	pat := o.as(o.token, named(o.t, "CreatePersonalAccessToken", `{"userId":"`+p.id+`","pat":{"name":"`+name+`"}}`))
	p.token = pat.ProtoReflect().Get(pat.ProtoReflect().Descriptor().Fields().ByName("token")).String()
	if len(roles) > 0 {
		p.membership = o.give(ctx, p.id, roles...)
	}
	return p
}

// give gives a user roles as who may, and returns the membership.
func (o *tenant) give(ctx, userID string, roles ...string) string {
	o.t.Helper()
	if ctx != "" {
		ctx += ","
	}
	req := named(o.t, "CreateMembership", `{`+ctx+`"membership":{"userId":"`+userID+`","roles":["`+strings.Join(roles, `","`)+`"]}}`)
	return idOf(operationOf(req), req, o.as(o.token, req))
}

// TestSEC235_NobodyGivesMoreThanTheyHold lets holders of each role try to get or
// give more, for themselves and for others.
func TestSEC235_NobodyGivesMoreThanTheyHold(t *testing.T) {
	w := newWorld(t)
	v := w.victim
	holders := v.holders()
	orgOwner, viewer, admin := holders["ORG_OWNER"], holders["IAM_OWNER_VIEWER"], holders["IAM_OWNER"]
	home, foreign := `"ctx":{"orgId":"`+v.OrgID+`"},`, `"ctx":{"orgId":"`+v.orgID+`"},`
	give := func(ctx, user, more string, roles ...string) proto.Message {
		return named(t, "CreateMembership", `{`+ctx+`"membership":{"userId":"`+user+`","roles":["`+strings.Join(roles, `","`)+`"]`+more+`}}`)
	}
	patch := func(ctx, id, role string) proto.Message {
		return named(t, "PatchMembership", `{`+ctx+`"id":"`+id+`","membership":{"roles":["`+role+`"]}}`)
	}
	type try struct {
		name, token string
		req         proto.Message
	}
	tries := []try{
		{"ORG_OWNER gives IAM_OWNER", v.OrgOwnerToken, give("", viewer.id, "", "IAM_OWNER")},
		{"ORG_OWNER takes IAM_OWNER", v.OrgOwnerToken, give("", orgOwner.id, "", "IAM_OWNER")},
		{"ORG_OWNER gives IAM_OWNER in the organization", v.OrgOwnerToken, give(home, viewer.id, "", "IAM_OWNER")},
		{"ORG_OWNER gives IAM_OWNER beside a role that it may", v.OrgOwnerToken, give(home, viewer.id, "", "ORG_OWNER", "IAM_OWNER")},
		{"ORG_OWNER gives SYSTEM_OWNER", v.OrgOwnerToken, give(`"ctx":{"system":true},`, viewer.id, "", "SYSTEM_OWNER")},
		{"ORG_OWNER gives ORG_OWNER elsewhere", v.OrgOwnerToken, give(foreign, viewer.id, "", "ORG_OWNER")},
		{"ORG_OWNER takes ORG_OWNER elsewhere", v.OrgOwnerToken, give(foreign, orgOwner.id, "", "ORG_OWNER")},
		{"ORG_OWNER makes its role one of the instance", v.OrgOwnerToken, patch("", orgOwner.membership, "IAM_OWNER")},
		{"ORG_OWNER changes IAM_OWNER", v.OrgOwnerToken, patch("", admin.membership, "IAM_OWNER_VIEWER")},
		{"ORG_OWNER deletes IAM_OWNER", v.OrgOwnerToken, named(t, "DeleteMembership", `{"id":"`+admin.membership+`"}`)},
		{"IAM_OWNER_VIEWER takes IAM_OWNER", v.ViewerToken, give("", viewer.id, "", "IAM_OWNER")},
		{"IAM_OWNER_VIEWER changes its role", v.ViewerToken, patch("", viewer.membership, "IAM_OWNER")},
		{"IAM_OWNER_VIEWER gives ORG_OWNER", v.ViewerToken, give(home, viewer.id, "", "ORG_OWNER")},
		{"IAM_OWNER gives a role of the organization on a project that is not there", v.token, give(home, viewer.id, `,"projectId":"unknown"`, "ORG_OWNER")},
		{"IAM_OWNER gives a role of the instance on a grant that is not there", v.token, give("", viewer.id, `,"projectGrantId":"unknown"`, "IAM_ORG_MANAGER")},
		{"nobody takes ORG_OWNER", v.NobodyToken, give(home, viewer.id, "", "ORG_OWNER")},
		{"IAM_OWNER gives SYSTEM_OWNER", v.token, give(`"ctx":{"system":true},`, admin.id, "", "SYSTEM_OWNER")},
		{"IAM_OWNER gives SYSTEM_OWNER in the instance", v.token, give("", admin.id, "", "SYSTEM_OWNER")},
		{"IAM_OWNER makes its role one of the system", v.token, patch("", admin.membership, "SYSTEM_OWNER")},
		{"IAM_OWNER gives IAM_OWNER of another instance", v.token, give(`"ctx":{"instanceId":"`+w.other.instanceID+`"},`, admin.id, "", "IAM_OWNER")},
		{"IAM_OWNER of another instance gives a user of this one IAM_OWNER there", w.other.token, give("", viewer.id, "", "IAM_OWNER")},
		{"IAM_OWNER of another instance gives IAM_OWNER here", w.other.token, give(`"ctx":{"instanceId":"`+v.instanceID+`"},`, admin.id, "", "IAM_OWNER")},
	}
	for _, role := range []string{"ORG_USER_MANAGER", "ORG_OWNER_VIEWER", "ORG_SETTINGS_MANAGER", "ORG_USER_PERMISSION_EDITOR", "ORG_PROJECT_CREATOR"} {
		if p := v.servant(v.OrgID, strings.ToLower(role), role); p != nil {
			tries = append(tries,
				try{role + " takes ORG_OWNER", p.token, give(home, p.id, "", "ORG_OWNER")},
				try{role + " makes itself ORG_OWNER", p.token, patch("", p.membership, "ORG_OWNER")},
				try{role + " changes ORG_OWNER", p.token, patch("", orgOwner.membership, role)},
			)
		}
	}
	for _, role := range []string{"IAM_ORG_MANAGER", "IAM_USER_MANAGER", "IAM_LOGIN_CLIENT"} {
		if p := v.servant(v.OrgID, strings.ToLower(role)); p != nil {
			p.membership = v.give("", p.id, role)
			tries = append(tries,
				try{role + " takes IAM_OWNER", p.token, give("", p.id, "", "IAM_OWNER")},
				try{role + " makes itself IAM_OWNER", p.token, patch("", p.membership, "IAM_OWNER")},
				try{role + " takes ORG_OWNER, which holds more", p.token, give(home, p.id, "", "ORG_OWNER")},
			)
		}
	}
	if p := v.servant(v.OrgID, "project-owner"); p != nil {
		if create := named(t, "CreateProject", `{`+home+`"project":{"name":"escalation"}}`); create != nil {
			project := idOf(operationOf(create), create, v.as(v.token, create))
			another := named(t, "CreateProject", `{`+home+`"project":{"name":"escalation 2"}}`)
			other := idOf(operationOf(another), another, v.as(v.token, another))
			own := v.transports[1].call(t, t.Context(), v.token, give("", p.id, `,"projectId":"`+project+`"`, "PROJECT_OWNER"))
			id := "unknown"
			if own.refusal != nil {
				t.Errorf("IAM_OWNER gives PROJECT_OWNER on a project: %s", own)
			} else {
				id = idOf(operationOf(give("", p.id, "", "x")), nil, own.message)
			}
			tries = append(tries,
				try{"PROJECT_OWNER takes ORG_OWNER", p.token, give(home, p.id, "", "ORG_OWNER")},
				try{"PROJECT_OWNER gives ORG_OWNER on its project", p.token, give("", viewer.id, `,"projectId":"`+project+`"`, "ORG_OWNER")},
				try{"PROJECT_OWNER takes IAM_OWNER", p.token, give("", p.id, "", "IAM_OWNER")},
				try{"PROJECT_OWNER takes another project", p.token, give("", p.id, `,"projectId":"`+other+`"`, "PROJECT_OWNER")},
				try{"PROJECT_OWNER makes its role one of the organization", p.token, patch("", id, "ORG_OWNER")},
			)
		}
	}
	// Who manages the users of an organization does not get into those who hold more.
	humans := map[string]string{"a service user": admin.id}
	if create := named(t, "CreateUser", `{`+home+`"user":{"username":"boss","human":{"profile":{"givenName":"The","familyName":"Boss"},"email":{"address":"boss@example.com"}}}}`); create != nil {
		boss := idOf(operationOf(create), create, v.as(v.token, create))
		v.give("", boss, "IAM_OWNER")
		humans["a human"] = boss
	}
	for kind, id := range humans {
		for _, op := range credentialsOf() {
			base, err := v.valid(op)
			if err != nil {
				t.Errorf("%s: %v", op.method.Name(), err)
				continue
			}
			requests := variants(base, op)
			if op.rule().verb == http.MethodPatch {
				requests = requests[:1] // the example has an address
			}
			for _, req := range requests {
				setAddress(op, req, []string{id})
				tries = append(tries, try{"ORG_OWNER gets into IAM_OWNER, " + kind + ", by " + string(op.method.Name()), v.OrgOwnerToken, req})
			}
		}
	}
	for _, test := range tries {
		t.Run(test.name, func(t *testing.T) {
			at := v.transports
			if test.token == w.other.token {
				at = w.other.transports
			}
			for i, over := range at[:4] {
				newest := v.in(t).newest()
				got := over.call(t, v.in(t).wrong(), test.token, test.req)
				if got.refusal == nil || got.code() != codes.PermissionDenied && got.code() != codes.NotFound &&
					!slices.Contains([]string{"UNKNOWN_ROLE", "CONTEXT_NOT_APPLICABLE", "USER_NOT_HUMAN", "NOT_A_HUMAN", "NOT_A_SERVICE"}, got.reason()) {
					t.Errorf("%s: %s: got %s, want a refusal", over.name(), shown(test.req), got)
				}
				if now := v.in(t).newest(); now != newest {
					t.Errorf("%s: something was written", over.name())
				}
				if i == 0 && got.refusal == nil {
					return // once is enough
				}
			}
		})
	}
}

// credentialsOf returns the operations that give a user something to sign in with,
// or another address to get it at.
func credentialsOf() (all []*operation) {
	for _, op := range sortedOperations() {
		of, whole := op.rule().collections()
		if len(of) != 1 || of[0] != "users" {
			continue
		}
		part := whole[strings.LastIndexByte(whole, '/')+1:]
		if op.rule().verb == http.MethodPatch || op.rule().verb == http.MethodPost && slices.Contains([]string{"pats", "keys", "secret", "password", "totp", "otp_sms", "otp_email"}, part) {
			all = append(all, op)
		}
	}
	return all
}

// TestSEC237_AChangeOfRightsHoldsForTheNextRequest takes roles away on one node:
// this one refuses the next request, another one within the second that
// ARCHITECTURE.md allows.
func TestSEC237_AChangeOfRightsHoldsForTheNextRequest(t *testing.T) {
	w := newWorld(t)
	v := w.victim
	second := suiteOf(t, v.Node(t))
	owner := v.holders()["ORG_OWNER"]
	request := &orgv3.GetOrganizationRequest{Id: v.OrgID}
	may := func(s *suite) bool {
		return s.transports[1].call(t, t.Context(), v.OrgOwnerToken, request).refusal == nil
	}
	within := func(want bool, what string) {
		t.Helper()
		changed := time.Now()
		if may(v.suite) != want {
			t.Errorf("%s: the node that changed it does not know", what)
		}
		for may(second) != want {
			if late := time.Since(changed); late > 1100*time.Millisecond {
				t.Fatalf("%s: the other node has not noticed after %s", what, late)
			}
			time.Sleep(2 * time.Millisecond)
		}
		t.Log(what, time.Since(changed))
	}
	within(true, "at first")
	v.as(v.token, &membershipv3.PatchMembershipRequest{Id: owner.membership, Membership: &membershipv3.PatchMembership{Roles: []string{"ORG_PROJECT_CREATOR"}}})
	within(false, "a lesser role")
	v.as(v.token, &membershipv3.PatchMembershipRequest{Id: owner.membership, Membership: &membershipv3.PatchMembership{Roles: []string{"ORG_OWNER_VIEWER"}}})
	within(true, "a role that may")
	v.as(v.token, &membershipv3.DeleteMembershipRequest{Id: owner.membership})
	within(false, "no role")
	v.give(`"ctx":{"orgId":"`+v.OrgID+`"}`, owner.id, "ORG_OWNER")
	within(true, "a new role")
	for _, pair := range [][2]string{{"DeactivateUser", "ActivateUser"}, {"LockUser", "UnlockUser"}} {
		if off := named(t, pair[0], `{"id":"`+owner.id+`"}`); off != nil {
			v.as(v.token, off)
			within(false, pair[0])
			v.as(v.token, named(t, pair[1], `{"id":"`+owner.id+`"}`))
			within(true, pair[1])
		}
	}
}

// TestSEC219_IDsAreNeverUsedAgain deletes what was made with an ID of the caller's
// choice, and makes it again, in another organization where that can be.
func TestSEC219_IDsAreNeverUsedAgain(t *testing.T) {
	w := newWorld(t)
	tried := 0
	for _, op := range sortedOperations() {
		at := chosenID(op)
		if at == nil {
			continue
		}
		t.Run(string(op.method.Name()), func(t *testing.T) {
			v := w.victim.in(t)
			token := v.token
			if ofSystem(op) {
				token = v.SystemToken
			}
			base, err := v.valid(op)
			if err != nil {
				t.Fatal(err)
			}
			_, whole := op.rule().collections()
			const id = "chosen-by-the-caller"
			make := func(orgID, name string) outcome {
				req := proto.Clone(base)
				for _, field := range []protoreflect.Name{"name", "username", "domain"} {
					if to := at[0].Message().Fields().ByName(field); to != nil {
						holder(req, at, true).Set(to, protoreflect.ValueOfString(name+".example"))
					}
				}
				for _, field := range []protoreflect.Name{"schema_id", "data"} { // of a schema that is not there
					if to := at[0].Message().Fields().ByName(field); to != nil {
						holder(req, at, true).Clear(to)
					}
				}
				if addresses := v.addresses(op); len(op.rule().variables) > 0 && len(addresses) > 0 {
					setAddress(op, req, addresses[0])
				}
				setReference(req, at, id)
				if !ofSystem(op) {
					setContext(op, req, orgByID(orgID))
				}
				return v.transports[1].call(t, t.Context(), token, req)
			}
			if got := make(v.orgID, "first"); got.refusal != nil {
				t.Fatalf("the first: %s", got)
			}
			for _, other := range sortedOperations() {
				if of, _ := other.rule().collections(); other.rule().verb == http.MethodDelete && len(of) > 0 && of[len(of)-1] == whole && strings.HasSuffix(other.rule().pattern, "}") {
					req := other.question()
					address := append([]string(nil), v.addresses(op)[0]...)
					setAddress(other, req, append(address, id))
					v.as(token, req)
				}
			}
			for _, orgID := range []string{v.orgID, v.OrgID} {
				tried++
				if got := make(orgID, "second"); got.refusal == nil || got.code() != codes.AlreadyExists {
					t.Errorf("the ID of what was deleted: got %s, want ALREADY_EXISTS", got)
				}
			}
		})
	}
	t.Logf("%d reuses tried", tried)
}

// chosenID returns the field in which the caller of a creation chooses the ID of
// what it makes, or nil.
func chosenID(op *operation) location {
	if !slices.Contains(op.policy().GetSuccess(), 201) {
		return nil
	}
	for _, at := range locations(op.method.Input(), nil) {
		if len(at) == 2 && at.field().Name() == "id" && op.rule().place(at[0]) == "body" && !at.field().IsList() && !at[0].IsList() && at[0].Name() != "ctx" {
			return at
		}
	}
	return nil
}

// marshalMember writes a member as JSON.
func marshalMember(name string, value any) (string, error) {
	text, err := json.Marshal(map[string]any{name: value})
	return string(text[1 : len(text)-1]), err
}

// TestSEC218_OnlyTheSystemsOwnActInTheSystem asks every operation that takes the context of
// the system as callers of a tenant. Whose roles are in organizations would else be asked
// for these only, and see the tenants of others.
func TestSEC218_OnlyTheSystemsOwnActInTheSystem(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.everyFeature()
	system := &object.RequestContext{Owner: &object.RequestContext_System{System: true}}
	asked := 0
	for _, op := range sortedOperations() {
		if !applies(op, policyv1.Level_LEVEL_SYSTEM) {
			continue
		}
		req, err := searchAll(s, op)
		if err != nil {
			t.Fatalf("%s: %v", op.path(), err)
		}
		setContext(op, req, system)
		for _, who := range []struct{ name, token string }{
			{"the owner of the instance", s.AdminToken}, {"the owner of an organization", s.OrgOwnerToken}, {"nobody", s.NobodyToken},
		} {
			for _, over := range s.transports {
				asked++
				if got := over.call(t, t.Context(), who.token, req); got.code() != codes.PermissionDenied {
					t.Errorf("%s over %s, as %s: got %s, want 403", op.path(), over.name(), who.name, got)
				}
			}
		}
	}
	if asked == 0 {
		t.Error("no operation takes the context of the system")
	}
}
