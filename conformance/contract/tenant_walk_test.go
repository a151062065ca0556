package contract

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
)

// intruder is a caller who has nothing to do with the victim.
type intruder struct {
	name         string
	token        string
	at           []transport
	sameInstance bool
	unknown      bool // its token is good for nothing there
}

func (w *world) intruders() []intruder {
	v, o := w.victim, w.other
	return []intruder{
		{"the owner of another organization", v.OrgOwnerToken, v.transports, true, false},
		{"a user without roles", v.NobodyToken, v.transports, true, false},
		{"the owner of another instance", o.token, o.transports, false, false},
		{"the owner of another instance on the victim's host", o.token, v.transports, false, true},
		{"the victim's owner on another instance's host", v.token, o.transports, false, true},
	}
}

// attack is a request that names objects of the victim, beside the same request
// with IDs of the same form that nothing has.
type attack struct {
	what         string
	req, control proto.Message
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// invented returns an ID that nothing has, of the form of another.
func invented(id string) string {
	if uuid.MatchString(id) {
		return id[:len(id)-8] + "0badcafe"
	}
	if rest, isDomain := strings.CutPrefix(id, "tenant."); isDomain {
		return "absent." + rest
	}
	if name, isDomain := strings.CutSuffix(id, ".example"); isDomain {
		return name + "s.example"
	}
	return id[:len(id)-1] + "~"
}

// ofAllOrgs reports whether an operation is about what is of an instance only and inherited
// by all of its organizations, so that they see and switch it (document 1, "Reusable
// resources").
func ofAllOrgs(op *operation) bool { return op.method.Parent().Name() == "ServiceSMSProviders" }

// attacks returns requests of an operation that name what belongs to the victim:
// in the path, in the body, as the context.
func (o *tenant) attacks(op *operation, sameInstance bool) (all []attack, err error) {
	if sameInstance && ofAllOrgs(op) {
		return nil, nil
	}
	base, err := searchAll(o.suite, op)
	if err != nil {
		return nil, err
	}
	contexts := []*object.RequestContext{nil}
	if applies(op, policyv1.Level_LEVEL_ORG) {
		contexts = append(contexts, orgByID(o.orgID), orgByDomain(o.orgDomain))
	}
	if !sameInstance && (applies(op, policyv1.Level_LEVEL_INSTANCE) || applies(op, policyv1.Level_LEVEL_ORG)) {
		contexts = append(contexts, instanceByID(o.instanceID), instanceByDomain(o.host))
	}
	requests := []proto.Message{base}
	if !reads(op) {
		requests = variants(base, op)
	}
	for _, request := range requests {
		names := false // whether the body names anything
		bodies := [2]proto.Message{proto.Clone(request), proto.Clone(request)}
		for _, ref := range op.references() {
			if of := o.objects[ref.collection]; has(request, ref.at) && len(of) > 0 {
				names = true
				setReference(bodies[0], ref.at, o.named(ref))
				setReference(bodies[1], ref.at, invented(o.named(ref)))
			}
		}
		addresses := o.addresses(op)
		for _, address := range some(addresses) {
			for _, ctx := range contexts {
				if ctx == nil && !names && len(address) == 0 {
					continue // it names nothing of the victim
				}
				a := attack{"", proto.Clone(bodies[0]), proto.Clone(bodies[1])}
				setAddress(op, a.req, address)
				setContext(op, a.req, ctx)
				false_ := slices.Clone(address)
				for i := range false_ {
					false_[i] = invented(false_[i])
				}
				setAddress(op, a.control, false_)
				setContext(op, a.control, inventedContext(ctx))
				text, err := protojson.Marshal(a.req)
				if err != nil {
					return nil, err
				}
				a.what = string(text)
				all = append(all, a)
				if !sameInstance { // in the instance, a token is a proof, whoever has it
					with := attack{a.what + " with its token", proto.Clone(a.req), proto.Clone(a.control)}
					o.setToken(op, with.req)
					all = append(all, with)
				}
			}
		}
	}
	return all, nil
}

func inventedContext(ctx *object.RequestContext) *object.RequestContext {
	ctx = proto.CloneOf(ctx)
	if ctx != nil {
		m := ctx.ProtoReflect()
		field := m.WhichOneof(m.Descriptor().Oneofs().ByName("owner"))
		m.Set(field, protoreflect.ValueOfString(invented(m.Get(field).String())))
	}
	return ctx
}

// known returns every ID of the tenant, and what invented makes of it.
func (o *tenant) known() *strings.Replacer {
	ids := map[string]bool{o.orgID: true, o.orgDomain: true, o.instanceID: true, o.host: true, absent: true}
	for _, of := range o.objects {
		for _, object := range of {
			ids[object.id] = true
		}
	}
	var pairs []string
	for _, id := range slices.SortedFunc(maps.Keys(ids), func(a, b string) int { return len(b) - len(a) }) {
		pairs = append(pairs, id, "…", invented(id), "…")
	}
	return strings.NewReplacer(pairs...)
}

// said is a refusal without the IDs in it.
func said(got outcome, known *strings.Replacer) string {
	if got.refusal == nil {
		return "an answer"
	}
	return known.Replace(fmt.Sprintf("%s %s at %q: %s", got.code(), got.reason(), got.field(), got.refusal.GetMessage()))
}

// foundNothing reports whether a search found nothing.
func foundNothing(got outcome) bool {
	if got.refusal != nil {
		return false
	}
	details, ok := got.message.(interface{ GetDetails() *object.ListDetails })
	return ok && details.GetDetails().GetTotalResult() == 0 && details.GetDetails().GetEndOfList()
}

// TestSEC216_SEC217_SEC218_SEC232_NobodyReachesAnotherTenant lets who belongs to
// another organization or another instance, or has no role, call every operation
// of the contract with the IDs of a victim: 403 or 404, as for IDs that nothing
// has, on each transport, and nothing changes. At the end the victim's owner
// makes the same calls: they would have succeeded.
func TestSEC216_SEC217_SEC218_SEC232_NobodyReachesAnotherTenant(t *testing.T) {
	w := newWorld(t)
	for path, err := range w.victim.failed {
		t.Errorf("%s makes nothing, so nothing of it is tried: %v", path, err)
	}
	for path, err := range w.other.failed {
		if w.victim.failed[path] == nil {
			t.Errorf("%s makes nothing with the names of another instance: %v", path, err)
		}
	}
	before := [2]map[string]string{w.victim.snapshot(), w.other.snapshot()}
	calls, walked := 0, 0
	for _, op := range sortedOperations() {
		t.Run(string(op.method.Name()), func(t *testing.T) {
			victim, other := w.victim.in(t), w.other.in(t)
			newest := [2]uint64{victim.newest(), other.newest()}
			calls += (&world{victim, other}).walk(op)
			if named, err := victim.attacks(op, false); err == nil && len(named) > 0 {
				walked++
			}
			if now := [2]uint64{victim.newest(), other.newest()}; now != newest {
				t.Errorf("refused calls wrote events: the newest were %v and are %v", newest, now)
			}
		})
	}
	for i, tenant := range []*tenant{w.victim, w.other} {
		if diff := cmp.Diff(before[i], tenant.snapshot()); diff != "" {
			t.Errorf("what refused callers did changed %s:\n%s", tenant.host, diff)
		}
	}
	t.Logf("%d operations, %d of which name objects or contexts; %d calls by %d callers; %d readings of the victim",
		len(operations), walked, calls, len(w.intruders()), len(before[0]))
	t.Run("control", func(t *testing.T) { (&world{w.victim.in(t), w.other.in(t)}).control() })
}

// walk makes the attacks of every intruder on one operation.
func (w *world) walk(op *operation) (calls int) {
	t, known := w.victim.t, w.victim.known()
	for _, who := range w.intruders() {
		if who.unknown {
			calls += w.walkUnknown(op, who)
			continue
		}
		attacks, err := w.victim.attacks(op, who.sameInstance)
		if err != nil {
			t.Skipf("no valid request is known: %v", err)
		}
		for i, attack := range attacks {
			if !who.sameInstance && w.isTheirs(op, attack.req) {
				continue
			}
			for _, over := range []transport{who.at[4], who.at[1], who.at[2+i%2]} { // the generated client knows no context that never applies
				calls += 2
				ctx := w.victim.wrong()
				got, control := over.call(t, ctx, who.token, attack.req), over.call(t, ctx, who.token, attack.control)
				refused := got.refusal != nil && (got.code() == codes.PermissionDenied || got.code() == codes.NotFound)
				switch {
				case foundNothing(got), refused:
				case got.refusal == nil:
					t.Errorf("%s over %s: %s succeeded: %s", who.name, over.name(), attack.what, got)
				case said(got, known) != said(control, known): // what is refused in the caller's own place for another reason tells nothing
					t.Errorf("%s over %s: %s: got %s, want 403 or 404", who.name, over.name(), attack.what, said(got, known))
				}
				switch {
				case said(got, known) == said(control, known):
				default:
					t.Errorf("%s over %s can tell that it exists: %s: got %s, and %s for what does not exist",
						who.name, over.name(), attack.what, said(got, known), said(control, known))
				}
			}
		}
	}
	return calls
}

// isTheirs reports whether the other instance has an object at the same address,
// as it does when IDs are not made by the server. That what happens to it leaves
// the victim alone is seen by the events.
func (w *world) isTheirs(op *operation, req proto.Message) bool {
	var address []string
	for _, field := range op.rule().variables {
		address = append(address, req.ProtoReflect().Get(field).String())
	}
	of, _ := op.rule().collections()
	return len(of) > 0 && slices.ContainsFunc(w.other.objects[of[len(of)-1]], func(o thing) bool {
		return slices.Equal(append(slices.Clone(o.within), o.id), address)
	})
}

// walkUnknown expects 401 for a token on a host that does not know it.
func (w *world) walkUnknown(op *operation, who intruder) (calls int) {
	t := w.victim.t
	req, err := w.victim.valid(op)
	if err != nil {
		return 0
	}
	if addresses := w.victim.addresses(op); len(addresses) > 0 {
		setAddress(op, req, addresses[0])
	}
	for _, over := range who.at[:4] {
		calls++
		if got := over.call(t, t.Context(), who.token, req); got.refusal == nil || got.code() != codes.Unauthenticated {
			t.Errorf("%s over %s: got %s, want 401", who.name, over.name(), got)
		}
	}
	return calls
}

// control lets the victim's owner do what others were refused, but for creations,
// which newWorld did: deletions last, of what is inside first. What an operation's state forbids is no
// refusal of the caller. The other instance does not notice (SEC-216).
func (w *world) control() {
	t, v := w.victim.t, w.victim
	before := w.other.snapshot()
	for range 3 {
		v.furnish() // so that there is another one when an operation ends the first
	}
	ops := sortedOperations()
	rank := func(op *operation) int {
		switch {
		case reads(op):
			return 0
		case op.rule().verb != "DELETE", strings.Contains(op.rule().pattern, "/sessions/"): // which locking their user ends
			return 1
		case strings.Contains(op.rule().pattern, "/organizations/"): // everything is in one
			return 200
		}
		references := 0
		of, _ := op.rule().collections()
		for _, other := range ops {
			if _, whole := other.rule().collections(); creates(other) && len(of) > 0 && whole == of[len(of)-1] {
				references = len(other.references())
			}
		}
		return 100 - 10*references - strings.Count(op.rule().pattern, "/") // what names others and what is inside first
	}
	slices.SortStableFunc(ops, func(a, b *operation) int { return rank(a) - rank(b) })
	for _, op := range ops {
		attacks, err := v.attacks(op, true)
		if err != nil || len(attacks) == 0 || ofSystem(op) || creates(op) {
			continue
		}
		reached, last := v.reaches(op, attacks)
		if !reached { // what an operation before this one deleted has to be there again
			v.furnish()
			if attacks, err = v.attacks(op, true); err == nil {
				slices.Reverse(attacks)
				reached, last = v.reaches(op, attacks)
			}
		}
		if !reached {
			t.Errorf("%s: the victim's owner is refused too, so the walk proves nothing: %s", op.method.Name(), last)
		}
	}
	if diff := cmp.Diff(before, w.other.snapshot()); diff != "" {
		t.Errorf("the other instance changed:\n%s", diff)
	}
}

// some returns the first addresses and the last one.
func some(addresses [][]string) [][]string {
	if len(addresses) <= 5 {
		return addresses
	}
	return append(slices.Clone(addresses[:4]), addresses[len(addresses)-1])
}

// reaches makes the requests as the tenant's owner until one is not refused for
// want of rights or of the object; the others are left for the next operations.
func (o *tenant) reaches(op *operation, attacks []attack) (reached bool, last outcome) {
	for _, attack := range attacks {
		o.setToken(op, attack.req)
		last = o.transports[1].call(o.t, o.wrong(), o.token, attack.req)
		if last.refusal == nil || !slices.Contains([]codes.Code{codes.PermissionDenied, codes.NotFound, codes.Unauthenticated}, last.code()) {
			return true, last
		}
	}
	return false, last
}
