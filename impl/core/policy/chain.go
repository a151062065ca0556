// Package policy is the one chain that every call of every transport passes:
//
//	gate → instance → caller → feature → validation → context → permission → executions → handler → executions
//
// What each step asks is stated in the contract (method options, protovalidate)
// and read from the descriptors at start; no handler repeats it. Handlers get
// the result as a Call.
package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/core/admission"
	"github.com/writ-id/writ/impl/core/cache"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/store"
)

// Config holds what the chain needs; every field is required.
type Config struct {
	DB         *store.DB
	Memory     *cache.Memory
	Instances  *Instances
	Features   *Features
	Operations *Operations
	Rules      *Validator // of their requests
	Roles      *Roles
	Now        func() time.Time
	Logger     *slog.Logger
	Limits     SearchLimits
	MaxRunning int // calls that run at once; more wait for a moment, then 503
	// Executions are what tenants have called on requests and responses.
	Executions Executions
	// AccessToken returns whom an access token of the OpenID provider is about, when it
	// is good for the resource API; nil when it is not.
	AccessToken func(ctx context.Context, instance *Instance, host, token string) (*Identity, error)
}

// Chain is safe for concurrent use.
type Chain struct {
	Config
	gate    *admission.Gate // of calls
	public  *admission.Gate // of requests to the OpenID provider
	callers *cache.Cache[tokenKey, *Caller]
}

// Limits of a call; requests of the OpenID provider have the same.
const (
	CallTimeout = 10 * time.Second // its database work ends with it
	gateTimeout = time.Second      // waiting for a place (REL-014, REL-085)
	maxWaiting  = 1000             // of one instance
	publicShare = 4                // most of what the OpenID provider does needs no connection
)

// New returns the chain over c.
func New(c Config) *Chain {
	c.Limits = c.Limits.OrDefault()
	chain := &Chain{
		Config: c,
		// One instance may run as many as there are connections.
		gate:    admission.New(c.MaxRunning*4/3, maxWaiting),
		public:  admission.New(c.MaxRunning*publicShare, maxWaiting),
		callers: cache.New[tokenKey, *Caller](func(k tokenKey) string { return k.instanceID + "\x00" + k.host + string(k.hash[:]) }).By(c.Now),
	}
	c.Memory.Holds(chain.callers.Drop)
	return chain
}

// Call is what the chain found out about a call.
type Call struct {
	Operation *Operation
	Instance  *Instance
	Caller    *Caller
	Context   Context // what the call applies to
	// SearchLimits bound what a search returns.
	SearchLimits SearchLimits
	request      *Request
	roles        *Roles
	scope        *Scope
	// asked is the evidence that the method looked at the scope: Intercept, which gave the
	// call out, refuses the answer of one that had to and did not. Nothing else reads it.
	asked atomic.Bool
}

// AnswerStatus makes the call answer another of the HTTP statuses its contract
// names than the first.
func (c *Call) AnswerStatus(status int) { c.request.status = status }

type callKey struct{}

// CallFrom returns the call a handler runs in. Outside of one it is nobody's, who
// reaches nothing, holds nothing and is nowhere: what runs there by mistake is refused.
func CallFrom(ctx context.Context) *Call {
	if call, ok := ctx.Value(callKey{}).(*Call); ok {
		return call
	}
	return &Call{Operation: &Operation{}, Instance: &Instance{}, Caller: &Caller{}, request: &Request{}, roles: &Roles{}, scope: &Scope{}}
}

// Request is what a transport knows of a call before it is decoded.
type Request struct {
	ID            string
	Host          string
	Authorization []string // the values of the header: one, unless the client errs

	// What the access line of the request says besides, set by whoever finds out and
	// never a text that only the request has: it may be a secret in a wrong place.
	Route    string // the pattern that matched
	Instance string
	Client   string // ID of an application or name of a service user that is there
	User     string // ID of the caller
	Reason   string // why it was refused

	SkipExecutions bool         // the header of that name
	Context        string       // the header of that name
	Traceparent    string       // where it stands in a trace (W3C Trace Context)
	ClientAddress  string       // where it comes from, as the connection and trusted proxies tell
	Statements     atomic.Int32 // of the database, where they are counted
	// Connection, if not nil, gives the request so much more time.
	Connection interface{ Extend(by time.Duration) }

	status int      // set by AnswerStatus
	after  []func() // set by After
	place  place    // among those that run
}

// Status returns the HTTP status of a successful answer.
func (r *Request) Status(op *Operation) int {
	switch {
	case r.status != 0:
		return r.status
	case len(op.Success) > 0:
		return int(op.Success[0])
	}
	return http.StatusOK
}

type requestKey struct{}

// WithRequest returns a context that carries r to the chain.
func WithRequest(ctx context.Context, r *Request) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

// StatementsOf returns what counts the database statements of the request of a context; nil
// when there is none.
func StatementsOf(ctx context.Context) *atomic.Int32 {
	if r, ok := ctx.Value(requestKey{}).(*Request); ok {
		return &r.Statements
	}
	return nil
}

// OriginOf returns where the request of a context came from: nowhere when there is none.
func OriginOf(ctx context.Context) event.Origin {
	if r, ok := ctx.Value(requestKey{}).(*Request); ok {
		return event.Origin{ClientAddress: r.ClientAddress, Traceparent: r.Traceparent}
	}
	return event.Origin{}
}

// CauseOf returns why what the call of a context does at a time happens.
func CauseOf(ctx context.Context, at time.Time) event.Cause {
	return event.Cause{Creator: CallFrom(ctx).Caller.UserID, At: at, Origin: OriginOf(ctx)}
}

// LogID is the ID of the request as every line of the log calls it, whichever wrote it.
func (r *Request) LogID() slog.Attr { return slog.String("request_id", r.ID) }

// LogID is that of the request of a context.
func LogID(ctx context.Context) slog.Attr { return RequestFrom(ctx).LogID() }

// RequestFrom returns the request of a context; a native gRPC call carries it
// as metadata.
func RequestFrom(ctx context.Context) *Request {
	if r, ok := ctx.Value(requestKey{}).(*Request); ok {
		return r
	}
	md, _ := metadata.FromIncomingContext(ctx)
	first := func(name string) string {
		if values := md.Get(name); len(values) == 1 {
			return values[0]
		}
		return "" // a repeated header is no header
	}
	return &Request{
		ID: first("x-request-id"), Host: first(":authority"), Authorization: md.Get("authorization"),
		SkipExecutions: first(SkipHeader) == "true", Context: first(ContextHeader), Traceparent: first("traceparent"),
	}
}

// Intercept runs the chain around a method; it is a grpc.UnaryServerInterceptor.
// It is the one place where an unexpected error is logged and hidden.
func (c *Chain) Intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (res any, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
		}
		if err != nil {
			refusal := Refusal(ctx, c.Logger, info.FullMethod, err)
			RequestFrom(ctx).Reason = refusal.Reason
			res, err = nil, refusal
		}
	}()
	request, known := ctx.Value(requestKey{}).(*Request)
	if !known { // a native gRPC call
		request = RequestFrom(ctx)
		ctx = WithRequest(ctx, request)
	}
	limited, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	leave, err := c.enter(limited, c.gate, request)
	if err != nil {
		return nil, err
	}
	defer leave()
	call, err := c.admit(limited, req.(proto.Message), info.FullMethod)
	if err != nil {
		return nil, err
	}
	around, err := c.around(limited, call)
	switch {
	case err != nil:
		return nil, err
	case around != nil:
		return c.runAround(ctx, call, around, req.(proto.Message), next)
	}
	return c.call(limited, call, req, next)
}

// call calls the method.
func (c *Chain) call(ctx context.Context, call *Call, req any, next grpc.UnaryHandler) (any, error) {
	res, err := next(context.WithValue(ctx, callKey{}, call), req)
	if err == nil && call.Operation.reach == policyv1.Reach_REACH_OBJECT && !call.asked.Load() {
		err = errNotAsked
	}
	return res, err
}

var errNotAsked = errors.New("an operation of REACH_OBJECT answered without asking Call.Reaches, Call.Require or Call.Scope; CONTRIBUTING.md says how")

// As returns a context in which the product itself acts in the name of a user, in
// a context of its own choice and with every permission: what applies a seed or
// furnishes a new instance goes through the same methods that serve calls.
func As(ctx context.Context, in Context, userID string, roles *Roles) context.Context {
	return context.WithValue(ctx, callKey{}, &Call{
		Operation: &Operation{}, Instance: &Instance{ID: in.InstanceID}, Context: in, roles: roles,
		Caller: &Caller{UserID: userID, root: true}, scope: &Scope{All: true}, request: &Request{},
	})
}

// admit takes the steps before the handler, in order.
func (c *Chain) admit(ctx context.Context, req proto.Message, method string) (*Call, error) {
	op := c.Operations.Find(method)
	if op == nil {
		return nil, fault.New(fault.MethodNotAllowed, "METHOD_UNKNOWN", "there is no method %s", method)
	}
	request := RequestFrom(ctx)
	instance, err := c.Instances.Find(ctx, request.Host)
	if err != nil {
		return nil, err
	}
	request.Instance = instance.ID
	if instance.Blocked && !op.ofSystem() {
		return nil, errBlocked
	}
	caller, err := c.caller(ctx, request.Authorization, instance)
	if err != nil {
		return nil, err
	}
	request.User = caller.UserID
	if op.Feature != policyv1.Feature_FEATURE_UNSPECIFIED {
		if err := c.Features.Enabled(ctx, op.Feature, instance); err != nil {
			return nil, err
		}
	}
	if err := c.Rules.check(req, c.Limits, maxExplained); err != nil {
		return nil, err
	}
	in, err := c.context(ctx, op, req, instance, caller)
	if errors.Is(err, errContextNotFound) && !caller.may(c.Roles, cmp.Or(op.Permission, "org.read"), Place{InstanceID: instance.ID}) {
		err = op.Denied() // what does not exist answers as what the caller has no say in
	}
	if err != nil {
		return nil, err
	}
	call := &Call{Operation: op, Instance: instance, Caller: caller, Context: in, SearchLimits: c.Limits, request: request, roles: c.Roles}
	return call, c.permit(call)
}

// denied is the refusal of callers without the permission at a place; who has it, but not by
// this application, learns that.
func (c *Caller) denied(roles *Roles, op *Operation, at Place) error {
	trusted := slices.ContainsFunc(c.withheld, func(g grant) bool {
		return roles.grants(g.roles, op.Permission) && (op.reach == policyv1.Reach_REACH_OBJECT || g.covers(at))
	})
	if !trusted && (!op.self || c.isHome()) {
		return op.Denied()
	}
	return fault.New(fault.PermissionDenied, "APP_NOT_TRUSTED",
		"the application that the token was issued to is not trusted outside of its organization; whoever holds iam.app.trust can change that")
}

var errActing = fault.New(fault.PermissionDenied, "IMPERSONATED", "nothing can be changed in the name of somebody else")

// permit refuses callers that hold the permission nowhere it would count. Where
// it has to be held at the object, the method asks (Call.Reaches, Call.Scope).
func (c *Chain) permit(call *Call) error {
	op, at := call.Operation, call.Context.place()
	// Who acts in the name of somebody else looks at what they see, and leaves nothing
	// behind that outlives the loan: no credential, right or user (SEC-104).
	if call.Caller.acting && !strings.HasSuffix(op.Permission, ".read") {
		return errActing
	}
	if op.reach != policyv1.Reach_REACH_OBJECT {
		call.scope = &Scope{All: true}
		if op.Permission == "" || call.Caller.may(c.Roles, op.Permission, at) { // without one it needs no trust either
			return nil
		}
	} else {
		call.scope = call.Caller.scope(c.Roles, op, call.Context.InstanceID)
		within := at.OrgID == "" || call.scope.has(at) || len(call.scope.Projects)+len(call.scope.ProjectGrants) > 0 ||
			call.scope.UserID != "" && call.Caller.OrgID == at.OrgID
		if within && !call.scope.empty() {
			return nil
		}
	}
	return call.Caller.denied(c.Roles, op, at)
}

// EnterPublic waits for a place among the requests to the OpenID provider; leave
// gives it back.
func (c *Chain) EnterPublic(ctx context.Context) (leave func(), err error) {
	return c.enter(ctx, c.public, RequestFrom(ctx))
}

var errOverloaded = fault.New(fault.Unavailable, "OVERLOADED", "too many calls at once; try again")

// enter waits for a place at a gate, which instances share (SEC-221). What a host
// means is known when it was asked for before; the others wait together.
func (c *Chain) enter(ctx context.Context, gate *admission.Gate, request *Request) (leave func(), err error) {
	if ctx.Err() != nil { // who went away already needs no place
		return nil, context.Cause(ctx)
	}
	request.place = place{gate: gate, tenant: c.Instances.last(request.Host)}
	return request.place.leave, request.place.enter(ctx)
}

// Refusal returns what a client may see of err, and logs what it may not.
func Refusal(ctx context.Context, logger *slog.Logger, method string, err error) *fault.Error {
	if refusal, ok := errors.AsType[*fault.Error](err); ok {
		return refusal
	}
	refusal := store.Fault(err)
	if refusal == nil {
		refusal = fault.New(fault.Internal, "INTERNAL", "internal error")
	}
	if refusal.Kind != fault.Canceled && !store.IsFrozen(err) {
		logger.ErrorContext(ctx, "call failed", "method", method, LogID(ctx), "err", store.Explain(err))
	}
	return refusal
}

// Refused is how many calls, and how many requests to the OpenID provider, there was no
// place for.
func (c *Chain) Refused() (calls, requests int64) { return c.gate.Refused(), c.public.Refused() }
