package policy

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/core/admission"
	"github.com/writ-id/writ/impl/core/fault"
)

// Executions are what tenants have called around operations.
type Executions interface {
	// Find returns what is called around a method in a tenant, nil when that is nothing.
	Find(ctx context.Context, instanceID, method string) (*Around, error)
	// Skipped records that a caller left out what would have been called.
	Skipped(ctx context.Context, call *Call) error
}

// Around is what a tenant has called around an operation.
type Around struct {
	// Limit is how long it may take together.
	Limit time.Duration
	// Request, if not nil, runs before the method and returns the request that takes the
	// place of req: none that check refuses.
	Request func(ctx context.Context, call *Call, req proto.Message, check func(proto.Message) error) (proto.Message, error)
	// Response, if not nil, runs after it and returns the answer, likewise.
	Response func(ctx context.Context, call *Call, req, res proto.Message, check func(proto.Message) error) (proto.Message, error)
}

// SkipHeader is what owners of an instance send, with the value true, to change the
// executions that keep them out, and who runs the system to act in spite of them.
const SkipHeader = "writ-skip-executions"

// around returns what runs around a call, nil when that is nothing: what the instance has
// called that the call is about, whatever host it came to. Calls about the system are
// nobody's to be told of, or to change.
func (c *Chain) around(ctx context.Context, call *Call) (*Around, error) {
	if call.mayBeOfSystem() {
		return nil, nil
	}
	around, err := c.Executions.Find(ctx, call.Context.InstanceID, call.Operation.Method)
	if around == nil || err != nil || !call.request.SkipExecutions || !call.Caller.skips(call) {
		return around, err
	}
	return nil, c.Executions.Skipped(context.WithValue(ctx, callKey{}, call), call)
}

// mayBeOfSystem reports whether a call is about the system, as far as is known before the
// method reads what it is about: a call about an object that contexts inherit is, unless it
// names a context, when the caller may do this to what is the system's (Sees).
func (c *Call) mayBeOfSystem() bool {
	return c.Context.InstanceID == "" || c.Operation.inherits && !c.Context.Named && c.Holds(c.Operation.Permission, Place{})
}

// MaySkip reports whether the caller may leave out what runs around the call.
func (c *Call) MaySkip() bool { return c.Caller.skips(c) }

// skips reports whether the caller may leave out what runs around a call: who owns the
// instance in services that say so, who holds roles of the system everywhere.
func (c *Caller) skips(call *Call) bool {
	return c.root || slices.ContainsFunc(c.grants, func(g grant) bool {
		return g.level == policyv1.Level_LEVEL_SYSTEM ||
			call.Operation.skippable && g.level == policyv1.Level_LEVEL_INSTANCE && g.objectID == call.Context.InstanceID &&
				c.InstanceID == call.Context.InstanceID && slices.Contains(g.roles, "IAM_OWNER")
	})
}

var errOtherContext = fault.New(fault.FailedPrecondition, "EXECUTION_FAILED", "an execution changed what the call is about")

// runAround makes a call with what the tenant has called around it. The request has passed
// the chain; what is made of it passes again, with the caller, whose rights may have ended
// while targets were asked. Who calls and in which context stays the same.
func (c *Chain) runAround(ctx context.Context, call *Call, around *Around, req proto.Message, next grpc.UnaryHandler) (any, error) {
	defer call.request.finish()
	method := call.Operation.Method
	if around.Request != nil {
		changed, err := outside(ctx, call.request.Outside, around.Limit, func(ctx context.Context) (proto.Message, error) {
			return around.Request(ctx, call, req, func(changed proto.Message) error { return c.recheck(ctx, call, changed) })
		})
		if err != nil {
			return nil, err
		}
		limited, cancel := context.WithTimeout(ctx, CallTimeout)
		again, err := c.admit(limited, changed, method)
		cancel()
		if err == nil && (again.Caller.UserID != call.Caller.UserID || again.Context != call.Context || again.mayBeOfSystem()) {
			err = errOtherContext
		}
		if err != nil {
			return nil, err
		}
		call, req = again, changed
	}
	limited, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	res, err := c.call(limited, call, req, next)
	if err != nil || around.Response == nil {
		return res, err
	}
	// A place would be for nothing any more, and waiting for it could refuse what is done.
	return outside(ctx, call.request.away, around.Limit, func(ctx context.Context) (proto.Message, error) {
		return around.Response(ctx, call, req, res.(proto.Message), c.Rules.CheckAnswer)
	})
}

// recheck refuses what a target made of a request when it breaks a rule of the contract or
// is about another context.
func (c *Chain) recheck(ctx context.Context, call *Call, changed proto.Message) error {
	if err := c.Rules.check(changed, c.Limits, 0); err != nil {
		return err
	}
	in, err := c.context(ctx, call.Operation, changed, call.Instance, call.Caller)
	if err == nil && in != call.Context {
		err = errOtherContext
	}
	return err
}

// After has something done when the call is over.
func (c *Call) After(do func()) { c.request.after = append(c.request.after, do) }

func (r *Request) finish() {
	for _, do := range r.after {
		do()
	}
	r.after = nil
}

// Org returns the organization that the call is about, else that of the caller.
func (c *Call) Org() string {
	if c.Context.OrgID != "" {
		return c.Context.OrgID
	}
	return c.Caller.OrgID
}

// place is the place at a gate that a request has.
type place struct {
	gate   *admission.Gate
	tenant string
	held   bool
}

func (p *place) enter(ctx context.Context) (err error) {
	if !p.gate.Try(p.tenant) {
		ctx, cancel := context.WithTimeoutCause(ctx, gateTimeout, errOverloaded)
		defer cancel()
		if err = p.gate.Enter(ctx, p.tenant); errors.Is(err, admission.ErrFull) {
			err = errOverloaded
		}
	}
	p.held = err == nil
	return err
}

func (p *place) leave() {
	if p.held {
		p.gate.Leave(p.tenant)
		p.held = false
	}
}

// Outside runs what waits for somebody else, for limit at most. That is no work of the
// request (Begin), and others take its place among those that run; after it, the request
// waits for one again.
func (r *Request) Outside(ctx context.Context, limit time.Duration, wait func(context.Context) error) error {
	if err := r.away(ctx, limit, wait); err != nil || r.place.gate == nil {
		return err
	}
	return r.place.enter(ctx)
}

// away is Outside without a place after it.
func (r *Request) away(ctx context.Context, limit time.Duration, wait func(context.Context) error) error {
	if r.Connection != nil {
		r.Connection.Extend(limit)
	}
	goOn := standStill(ctx)
	r.place.leave()
	defer goOn()
	return wait(ctx)
}

// outside is Request.Outside, or away, for what has a result.
func outside[T any](
	ctx context.Context, run func(context.Context, time.Duration, func(context.Context) error) error, limit time.Duration, wait func(context.Context) (T, error),
) (result T, err error) {
	err = run(ctx, limit, func(ctx context.Context) error {
		result, err = wait(ctx)
		return err
	})
	return result, err
}
