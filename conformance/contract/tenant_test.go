package contract

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	featurev2 "github.com/writ-id/writ/gen/proto/writ/feature/v2"
	instancev3 "github.com/writ-id/writ/gen/proto/writ/instance/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	orgv3 "github.com/writ-id/writ/gen/proto/writ/org/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"

	"github.com/writ-id/writ/conformance/harness"
)

// tenant is an organization with objects of every kind that the contract can
// make, found from the descriptors: what answers 201, or is put at an address,
// makes one.
type tenant struct {
	*suite
	token                              string // of who may do anything in its instance
	instanceID, host, orgID, orgDomain string
	objects                            map[string][]thing // by collection
	failed                             map[string]error   // why an operation made nothing
}

// thing is an object that an operation made.
type thing struct {
	id     string
	within []string // the IDs that its address has before its own
	token  string   // that its creation answered, as proof for other operations
}

// world is two instances; the first has an organization that callers of the other
// places try to reach.
type world struct {
	victim, other *tenant
}

// newWorld returns a world on a server of its own, with the same objects, of the
// same names, in both instances (SEC-216).
func newWorld(t *testing.T) *world {
	t.Helper()
	s := suiteOf(t, harness.Own(t))
	everything := &featurev2.SetFeatures{}
	for i, fields := 0, everything.ProtoReflect().Descriptor().Fields(); i < fields.Len(); i++ {
		everything.ProtoReflect().Set(fields.Get(i), protoreflect.ValueOfBool(true))
	}
	s.as(s.SystemToken, &featurev2.SetSystemFeaturesRequest{Features: everything})
	s.as(s.AdminToken, &featurev2.SetInstanceFeaturesRequest{Features: everything})

	const name = "tenant"
	org := s.as(s.AdminToken, &orgv3.CreateOrganizationRequest{Organization: &orgv3.Organization{Name: name}}).(*orgv3.CreateOrganizationResponse)
	victim := &tenant{suite: s, token: s.AdminToken, instanceID: s.InstanceID, host: "localhost", orgID: org.GetDetails().GetId()}

	const host = "other.example"
	instance := s.as(s.SystemToken, named(t, "CreateInstance",
		`{"instance":{"name":"`+name+`","domain":"`+host+`","organizationName":"`+name+`","ownerUsername":"owner"}}`)).(*instancev3.CreateInstanceResponse)
	there := *s
	there.transports = transportsTo(t, s.Server, host)
	other := &tenant{suite: &there, token: instance.GetOwnerToken(), instanceID: instance.GetDetails().GetId(), host: host, orgID: instance.GetOrganizationId()}

	for _, tenant := range []*tenant{victim, other} {
		tenant.objects = map[string][]thing{"organizations": {{id: tenant.orgID}}, "instances": {{id: tenant.instanceID}}}
		found := tenant.as(tenant.token, &orgv3.GetOrganizationRequest{Id: tenant.orgID}).(*orgv3.GetOrganizationResponse)
		partner := tenant.as(tenant.token, &orgv3.CreateOrganizationRequest{Organization: &orgv3.Organization{Name: "partner"}}).(*orgv3.CreateOrganizationResponse)
		tenant.objects["organizations"] = append(tenant.objects["organizations"], thing{id: partner.GetDetails().GetId()})
		tenant.orgDomain = found.GetOrganization().GetPrimaryDomain()
		tenant.furnish()
	}
	return &world{victim, other}
}

// as makes a call that has to succeed.
func (s *suite) as(token string, req proto.Message) proto.Message {
	s.t.Helper()
	got := s.transports[0].call(s.t, s.t.Context(), token, req)
	if got.refusal != nil {
		s.t.Fatalf("%s: %s", req.ProtoReflect().Descriptor().Name(), got)
	}
	return got.message
}

// in returns the view of a sub-test.
func (o *tenant) in(t *testing.T) *tenant {
	sub := *o
	sub.suite = o.suite.in(t)
	return &sub
}

var version = regexp.MustCompile(`^(/resources|/settings)?/v\w+/`)

// collections returns, for each variable of a path, the collection that it picks
// from: users and users/{}/keys of /resources/v3alpha/users/{user_id}/keys/{id}.
// The whole path is the collection that a creation adds to.
func (r rule) collections() (of []string, whole string) {
	whole = version.ReplaceAllString(r.stated.Replace(func(protoreflect.FieldDescriptor) string { return "{}" }), "")
	for i := range whole {
		if strings.HasPrefix(whole[i:], "/{}") {
			of = append(of, whole[:i])
		}
	}
	return of, whole
}

// collectionNamed returns the collection that a field of such a name refers to:
// user_id, project_grant_id, granted_org_id.
func collectionNamed(field string) string {
	name, known := strings.TrimSuffix(strings.TrimSuffix(field, "_ids"), "_id"), collections()
	for ; name != ""; _, name, _ = strings.Cut(name, "_") { // granted_org is an org
		if known[name] != "" {
			return known[name]
		}
	}
	return ""
}

// collections are the collections by the names of what is in them.
var collections = sync.OnceValue(func() map[string]string {
	known := map[string]string{"org": "organizations", "organization": "organizations", "schema": "user_schemas", "idp": "idps/gitlab", "targets": "targets", "includes": "executions"}
	for _, op := range operations {
		if _, whole := op.rule().collections(); creates(op) {
			singular := strings.TrimSuffix(whole[strings.LastIndexByte(whole, '/')+1:], "s")
			if known[singular] == "" || len(whole) < len(known[singular]) {
				known[singular] = whole
			}
		}
	}
	return known
})

// reference is a field of a request that names an object.
type reference struct {
	at         location
	collection string // "" when it is not known
}

// references returns what the body or the query of an operation names. Filters
// compare, they do not name.
func (o *operation) references() (all []reference) {
	for _, at := range locations(o.method.Input(), nil) {
		name := string(at.field().Name())
		isID := strings.HasSuffix(name, "_id") || strings.HasSuffix(name, "_ids") || at.field().IsList() && collectionNamed(name) != "" && len(at) > 1
		isID = isID && !slices.ContainsFunc(at, func(f protoreflect.FieldDescriptor) bool {
			return f.Name() == "config" || f.Name() == "external_user_id"
		}) // of another provider
		if isID && at.field().Kind() == protoreflect.StringKind && at[0].Name() != "ctx" && at[0].Name() != "filters" && o.rule().place(at[0]) != "path" {
			all = append(all, reference{at, collectionNamed(name)})
		}
	}
	return all
}

func ofSystem(op *operation) bool {
	return len(op.policy().GetLevels()) > 0 && op.policy().GetLevels()[0] == policyv1.Level_LEVEL_SYSTEM
}

// creates reports whether an operation makes an object.
func creates(op *operation) bool {
	r := op.rule()
	return !ofSystem(op) && (slices.Contains(op.policy().GetSuccess(), 201) || r.verb == "PUT" && strings.HasSuffix(r.pattern, "}"))
}

// contextField returns the field that selects a context, or nil.
func contextField(op *operation) protoreflect.FieldDescriptor {
	field := op.method.Input().Fields().ByName("ctx")
	if field == nil || field.Message().FullName() != (&object.RequestContext{}).ProtoReflect().Descriptor().FullName() {
		return nil
	}
	return field
}

// applies reports whether an operation takes contexts of a level.
func applies(op *operation, level policyv1.Level) bool {
	levels := op.policy().GetLevels()
	return contextField(op) != nil && (slices.Contains(levels, level) || len(levels) == 0 && level == policyv1.Level_LEVEL_INSTANCE)
}

func orgByID(id string) *object.RequestContext {
	return &object.RequestContext{Owner: &object.RequestContext_OrgId{OrgId: id}}
}

func orgByDomain(domain string) *object.RequestContext {
	return &object.RequestContext{Owner: &object.RequestContext_OrgDomain{OrgDomain: domain}}
}

func setContext(op *operation, req proto.Message, ctx *object.RequestContext) {
	if field := contextField(op); ctx == nil && field != nil {
		req.ProtoReflect().Clear(field)
	} else if field != nil {
		req.ProtoReflect().Set(field, protoreflect.ValueOfMessage(ctx.ProtoReflect()))
	}
}

// setAddress sets the variables of the path.
func setAddress(op *operation, req proto.Message, ids []string) {
	for i, field := range op.rule().variables {
		req.ProtoReflect().Set(field, protoreflect.ValueOfString(ids[i]))
	}
}

// setReference sets a field that names an object, or its only element.
func setReference(req proto.Message, at location, id string) {
	in, value := holder(req, at, true), protoreflect.ValueOfString(id)
	if at.field().IsList() {
		in.Clear(at.field())
		in.Mutable(at.field()).List().Append(value)
	} else {
		in.Set(at.field(), value)
	}
}

// has reports whether a request has something at a location.
func has(req proto.Message, at location) bool {
	in := holder(req, at, false)
	return in != nil && in.Has(at.field())
}

// variants returns requests to make objects with: the example, one with each
// other member of a oneof, and one with each reference that can be left out.
func variants(base proto.Message, op *operation) []proto.Message {
	all := []proto.Message{base}
	for _, at := range locations(op.method.Input(), nil) {
		field := at.field()
		isReference := slices.ContainsFunc(op.references(), func(r reference) bool { return slices.Equal(r.at, at) })
		if at[0].Name() == "ctx" || len(at) < 2 || has(base, at) || !isReference && (field.ContainingOneof() == nil || field.ContainingOneof().IsSynthetic()) {
			continue
		}
		req := proto.Clone(base)
		if in := holder(req, at, true); isReference {
			setReference(req, at, "unknown")
		} else {
			in.Set(field, candidates(field)[0]) // a oneof has no lists
		}
		if complete(req) == nil && has(req, at) {
			all = append(all, req)
		}
	}
	return all
}

// absent is the ID of nothing, where nothing was made.
const absent = "00000000-0000-4000-8000-000000000000"

// addresses returns the addresses of an operation that objects of the tenant
// have: of what it is about or, when none was made, of what that would be in.
func (o *tenant) addresses(op *operation) [][]string {
	of, _ := op.rule().collections()
	if len(of) == 0 {
		return [][]string{nil}
	}
	for known := len(of); known > 0; known-- {
		var all [][]string
		for _, object := range o.objects[of[known-1]] {
			address := append(slices.Clone(object.within), object.id)
			for len(address) < len(of) {
				address = append(address, absent)
			}
			all = append(all, address)
		}
		if len(all) > 0 {
			return all
		}
	}
	return nil
}

// furnish makes what can be made, again and again until nothing new succeeds.
func (o *tenant) furnish() {
	o.t.Helper()
	pending := map[string][]proto.Message{}
	o.failed = map[string]error{}
	for _, op := range sortedOperations() {
		if !creates(op) || op.method.Name() == "CreateOrganization" {
			continue
		}
		if base, err := o.valid(op); err != nil {
			o.failed[op.path()] = err
		} else {
			pending[op.path()] = variants(base, op)
		}
	}
	for progress := true; progress; {
		progress = false
		for _, op := range sortedOperations() {
			var left []proto.Message
			for _, req := range pending[op.path()] {
				err := o.make(op, req, false)
				if err != nil { // the first objects may be gone, or may not fit together
					err = o.make(op, req, true)
				}
				if err == nil {
					progress = true
				} else {
					left = append(left, req)
					o.failed[op.path()] = err
				}
			}
			pending[op.path()] = left
		}
	}
	for path := range o.failed {
		if _, whole := operations[path].rule().collections(); len(o.objects[strings.TrimSuffix(whole, "/{}")]) > 0 {
			delete(o.failed, path) // one variant is enough
		}
	}
}

// better are bodies, by the message, that the server takes where it refuses the
// published example for what no rule of the contract says.
var better = map[protoreflect.Name]string{
	"CreateUserSchemaRequest": `{"userSchema":{"type":"tenant","schema":{"type":"object"}}}`,
	"PatchUserSchemaRequest":  `{"userSchema":{"schema":{"type":"object"}}}`,
	"CreateMachineKeyRequest": `{"key":{}}`,
	"CreateAppKeyRequest":     `{"key":{}}`,
	"PatchSessionRequest":     `{"session":{"metadata":{"key":"dmFsdWU="}}}`,
	"CreateSessionRequest":    `{"session":{"checks":{"user":{"userId":"unknown"}}}}`,
}

// valid returns a request that keeps the rules, names nothing that exists and
// leaves the choice of an ID to the server.
func (s *suite) valid(op *operation) (proto.Message, error) {
	text := better[op.method.Input().Name()]
	if text == "" {
		req, err := example(s.t, s.Server, op)
		if at := chosenID(op); err == nil && at != nil && has(req, at) {
			holder(req, at, false).Clear(at.field())
		}
		return req, err
	}
	req := op.question()
	if err := protojson.Unmarshal([]byte(text), req); err != nil {
		return nil, err
	}
	return req, complete(req)
}

// named returns the ID of what a reference names: something is granted to another
// organization than the one it is in.
func (o *tenant) named(ref reference) string {
	of := o.objects[ref.collection]
	if strings.HasPrefix(string(ref.at.field().Name()), "granted_") {
		return of[len(of)-1].id
	}
	return of[0].id
}

// make makes an object in the first place where it succeeds, that names the first
// or the newest objects.
func (o *tenant) make(op *operation, base proto.Message, newest bool) error {
	req := proto.Clone(base)
	for _, ref := range op.references() {
		if !has(req, ref.at) {
			continue
		}
		of := o.objects[ref.collection]
		if len(of) == 0 {
			without := proto.Clone(req)
			holder(without, ref.at, false).Clear(ref.at.field())
			if broken, err := violations(without); err == nil && len(broken) == 0 {
				req = without
				continue
			}
			return fmt.Errorf("nothing is known that %s can name", ref.at)
		}
		if newest {
			setReference(req, ref.at, of[len(of)-1].id)
		} else {
			setReference(req, ref.at, o.named(ref))
		}
	}
	if applies(op, policyv1.Level_LEVEL_ORG) {
		setContext(op, req, orgByID(o.orgID))
	}
	of, whole := op.rule().collections()
	put := strings.HasSuffix(whole, "/{}")
	if put { // the caller chooses the last one
		of, whole = of[:len(of)-1], strings.TrimSuffix(whole, "/{}")
	}
	places := []thing{{}}
	if len(of) > 0 {
		places = o.objects[of[len(of)-1]]
	}
	err := errors.New("there is nothing that it can be in")
	for _, place := range places {
		var address []string
		if len(of) > 0 {
			address = append(slices.Clone(place.within), place.id)
		}
		chosen := ""
		if put {
			chosen = fmt.Sprintf("chosen-%d", len(o.objects[whole]))
			setAddress(op, req, append(slices.Clone(address), chosen))
		} else {
			setAddress(op, req, address)
		}
		got := o.create(op, req)
		if got.refusal != nil {
			err = errors.New(got.String())
			continue
		}
		object := thing{id: chosen, within: address, token: tokenOf(got.message)}
		if !put {
			object.id = idOf(op, req, got.message)
		}
		if object.id == "" {
			return fmt.Errorf("the answer has no ID: %s", got)
		}
		o.objects[whole] = append(o.objects[whole], object)
		return nil
	}
	return err
}

// create calls an operation, with another name when the name is taken.
func (o *tenant) create(op *operation, req proto.Message) outcome {
	for number := 1; ; number++ {
		got := o.transports[len(o.transports)-1].call(o.t, harness.WrongOnPurpose(o.t.Context()), o.token, req)
		if got.refusal == nil || got.code() != codes.AlreadyExists || number > 20 {
			return got
		}
		renamed := false
		for _, at := range locations(op.method.Input(), nil) {
			if at.String() != got.field() || at.field().Kind() != protoreflect.StringKind || at.field().IsList() {
				continue
			}
			in := holder(req, at, true)
			in.Set(at.field(), protoreflect.ValueOfString(fmt.Sprintf("n%d%s", number, in.Get(at.field()))))
			renamed = true
		}
		if !renamed {
			return got
		}
	}
}

// tokenOf returns the token that an answer holds, or "".
func tokenOf(answer proto.Message) string {
	fields := answer.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if field := fields.Get(i); isToken(field) {
			return answer.ProtoReflect().Get(field).String()
		}
	}
	return ""
}

func isToken(field protoreflect.FieldDescriptor) bool {
	return field.Kind() == protoreflect.StringKind && !field.IsList() && (field.Name() == "token" || strings.HasSuffix(string(field.Name()), "_token"))
}

// setToken sets the tokens that a request asks for to that of the object it is
// about, if there is one.
func (o *tenant) setToken(op *operation, req proto.Message) {
	of, _ := op.rule().collections()
	for _, at := range locations(op.method.Input(), nil) {
		if len(of) == 0 || !isToken(at.field()) {
			continue
		}
		last := op.rule().variables[len(of)-1]
		for _, object := range o.objects[of[len(of)-1]] {
			if object.token != "" && object.id == req.ProtoReflect().Get(last).String() {
				setReference(req, at, object.token)
			}
		}
	}
}

// idOf returns the ID of an object that was made: that of its details, or what
// the addresses of its collection call it.
func idOf(op *operation, req, answer proto.Message) string {
	if details, ok := answer.(interface{ GetDetails() *object.Details }); ok && details.GetDetails().GetId() != "" {
		return details.GetDetails().GetId()
	}
	_, whole := op.rule().collections()
	for _, other := range operations {
		of, _ := other.rule().collections()
		i := slices.Index(of, whole)
		if i < 0 {
			continue
		}
		name := other.rule().variables[i].Name()
		for _, m := range []proto.Message{answer, req} {
			for _, at := range locations(m.ProtoReflect().Descriptor(), nil) {
				if at.field().Name() == name && at.field().Kind() == protoreflect.StringKind && !at.field().IsList() && has(m, at) {
					return holder(m, at, false).Get(at.field()).String()
				}
			}
		}
	}
	return ""
}

// reading is a request that reads something of a tenant.
type reading struct {
	op  *operation
	req proto.Message
}

// readings returns all ways to read the tenant as who may read everything.
func (o *tenant) readings() (all []reading) {
	for _, op := range sortedOperations() {
		if !reads(op) || ofSystem(op) {
			continue
		}
		base, err := searchAll(o.suite, op)
		if err != nil {
			continue
		}
		if !applies(op, policyv1.Level_LEVEL_INSTANCE) && applies(op, policyv1.Level_LEVEL_ORG) {
			setContext(op, base, orgByID(o.orgID))
		}
		for _, address := range o.addresses(op) {
			req := proto.Clone(base)
			setAddress(op, req, address)
			all = append(all, reading{op, req})
		}
	}
	return all
}

// searchAll returns the request of a search that finds everything, or the example
// of another operation.
func searchAll(s *suite, op *operation) (proto.Message, error) {
	req, err := s.valid(op)
	if err != nil {
		return nil, err
	}
	m := req.ProtoReflect()
	if filters := m.Descriptor().Fields().ByName("filters"); filters != nil {
		m.Clear(filters)
	}
	if query := m.Descriptor().Fields().ByName("query"); query != nil && query.Message() != nil && query.Message().FullName() == "writ.object.v3alpha.ListQuery" {
		m.Set(query, protoreflect.ValueOfMessage((&object.ListQuery{Limit: 1000}).ProtoReflect()))
	}
	return req, nil
}

// snapshot returns what the tenant looks like to who may read everything.
func (o *tenant) snapshot() map[string]string {
	o.t.Helper()
	all := map[string]string{}
	for _, r := range o.readings() {
		got := o.transports[1].call(o.t, o.t.Context(), o.token, r.req)
		text := got.String()
		if got.refusal == nil {
			text = protojson.MarshalOptions{}.Format(got.message)
		}
		question := protojson.MarshalOptions{}.Format(r.req)
		all[string(r.op.method.Name())+strings.ReplaceAll(question, " ", "")] = strings.ReplaceAll(text, " ", "") // protojson puts blanks at random
	}
	return all
}

// newest returns the newest event of the tenant's instance.
func (o *tenant) newest() uint64 {
	o.t.Helper()
	found := o.as(o.token, &orgv3.SearchOrganizationsRequest{Query: &object.ListQuery{Limit: 1}}).(*orgv3.SearchOrganizationsResponse)
	return found.GetDetails().GetProcessedSequence()
}
