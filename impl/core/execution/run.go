package execution

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	"github.com/writ-id/writ/impl/core/admission"
	"github.com/writ-id/writ/impl/core/cache"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/outgoing"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/webhook"
	"github.com/writ-id/writ/impl/core/wire"
)

// Config holds what an Engine needs; every field is required.
type Config struct {
	DB         *store.DB
	Memory     *cache.Memory
	Operations *policy.Operations
	Sealer     secret.Sealer
	Caller     *webhook.Caller
	Now        func() time.Time
	NewID      func() string
	Logger     *slog.Logger
}

// Engine runs executions. It is safe for concurrent use.
type Engine struct {
	Config
	tables *cache.Cache[string, *Table] // by instance
	gate   *admission.Gate
	later  sync.WaitGroup // calls that nobody waits for
	unsent atomic.Int64   // bytes of their bodies
}

// Calls of targets that run at once, and wait, of which no tenant has all (SEC-221).
const (
	maxCalls   = 256
	maxWaiting = 1000
	// maxUnsent is how much memory the bodies may take of calls that nobody waits for; what
	// is more is not sent.
	maxUnsent = 64 << 20
)

// MaxFunctionAnswer is how long the answer of a target of a function may be.
const MaxFunctionAnswer = 1 << 20

// New returns an Engine over c.
func New(c Config) *Engine {
	e := &Engine{Config: c, tables: cache.New[string, *Table](func(id string) string { return id }), gate: admission.New(maxCalls, maxWaiting)}
	c.Memory.Holds(e.tables.Drop)
	return e
}

// Find implements policy.Executions.
func (e *Engine) Find(ctx context.Context, instanceID, method string) (*policy.Around, error) {
	table, err := e.Of(ctx, instanceID)
	if err != nil {
		return nil, err
	}
	return table.around[method], nil
}

// Skipped implements policy.Executions.
func (e *Engine) Skipped(ctx context.Context, call *policy.Call) error {
	method := call.Operation.Method
	_, err := event.Append(ctx, e.DB.Pool, event.Event{
		InstanceID: call.Context.InstanceID, ObjectID: "request." + method, Payload: &eventv1.ExecutionsSkipped{Method: method},
		Owner: policy.Context{InstanceID: call.Context.InstanceID}.Owner(), Cause: policy.CauseOf(ctx, e.Now()),
	})
	return err
}

// around returns what runs around a method; either may be nil.
func (e *Engine) around(before, after *Run) *policy.Around {
	a := &policy.Around{Limit: before.Limit() + after.Limit()}
	if before != nil {
		a.Request = func(ctx context.Context, call *policy.Call, req proto.Message, check func(proto.Message) error) (proto.Message, error) {
			return before.change(ctx, call, req, false, check, func(req proto.Message) wire.Appender {
				return &actionv3.RequestPayload{
					FullMethod: call.Operation.Method, InstanceId: call.Context.InstanceID, OrgId: call.Org(), UserId: call.Caller.UserID, Request: public(req),
				}
			})
		}
	}
	if after != nil {
		a.Response = func(ctx context.Context, call *policy.Call, req, res proto.Message, check func(proto.Message) error) (proto.Message, error) {
			return after.change(ctx, call, res, true, check, func(res proto.Message) wire.Appender {
				return &actionv3.ResponsePayload{
					FullMethod: call.Operation.Method, InstanceId: call.Context.InstanceID, OrgId: call.Org(), UserId: call.Caller.UserID,
					Request: public(req), Response: public(res),
				}
			})
		}
	}
	return a
}

// change calls the targets of a request condition, or a response condition when the call is
// done, each with the message that those before it left. A request that an answer became has
// the memory of a request; a response has the place of the long answer until the call ends,
// unless another target is asked: a call waits for a place without having one.
func (r *Run) change(
	ctx context.Context, call *policy.Call, message proto.Message, done bool, check func(proto.Message) error, payload func(proto.Message) wire.Appender,
) (proto.Message, error) {
	request := policy.RequestFrom(ctx)
	var kept *webhook.Answer
	call.After(func() { kept.Release() })
	for _, target := range r.Targets {
		m := r.engine.message(request, payload(message))
		kept.Release()
		if target.Async {
			call.After(func() { r.engine.startLater(r, target, m) })
			continue
		}
		if target.Answers {
			m.Keep = policy.MaxRequestBytes + 1
			if done {
				m.Keep = outgoing.MaxAnswer
			}
		}
		answer, err := r.engine.wait(ctx, target, m)
		changed := message
		if err == nil && target.Answers && len(answer.Body) > 0 {
			changed, err = taken(message, answer.Body, done, check)
		}
		if err == nil && done {
			kept = answer
		} else {
			answer.Release()
		}
		if err == nil {
			message = changed
		} else if err = r.failed(ctx, target, err); err != nil {
			return nil, stopped(err, call, done)
		}
	}
	return message, nil
}

// taken returns the message that an answer puts in the place of another one. An answer that
// cannot take it, as it is longer than a request may be for example, is a failure of the target.
func taken(message proto.Message, answer []byte, done bool, check func(proto.Message) error) (proto.Message, error) {
	if len(answer) > policy.MaxRequestBytes && !done {
		return nil, policy.TooLarge()
	}
	changed, err := replaced(message, answer)
	if err == nil {
		err = check(changed)
	}
	return changed, err
}

// stopped is the refusal of a call that a target interrupts: it says whether the call was
// done, so that nobody does it again, and how to get by to who may.
func stopped(err error, call *policy.Call, done bool) error {
	refusal, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return err
	}
	told := *refusal
	if done {
		told.Reason += "_AFTER_CALL"
		if told.Kind != fault.Refused { // whose words are the target's
			told.Message += " (the call was done, only its answer is withheld)"
		}
	}
	if call.MaySkip() {
		told.Message += " (the header " + policy.SkipHeader + ": true leaves executions out)"
	}
	return &told
}

// Function calls the targets of a function condition. accept takes the answer of each
// target whose answers count; its error is a failure of the target. An error of Function
// is that of a target that interrupts.
func (e *Engine) Function(ctx context.Context, run *Run, payload wire.Appender, accept func(answer []byte) error) error {
	request := policy.RequestFrom(ctx)
	return request.Outside(ctx, run.Limit(), func(ctx context.Context) error {
		m := e.message(request, payload)
		for _, target := range run.Targets {
			if target.Async {
				e.startLater(run, target, m)
				continue
			}
			one := *m // others may be sending it
			if target.Answers {
				one.Keep = MaxFunctionAnswer + 1
			}
			answer, err := e.wait(ctx, target, &one)
			if err == nil && target.Answers && len(answer.Body) > 0 {
				err = accept(answer.Body)
			}
			answer.Release() // what is kept of it is 8 KiB of claims
			if err = run.failed(ctx, target, err); err != nil {
				return err
			}
		}
		return nil
	})
}

// message returns what is sent of a payload.
func (e *Engine) message(request *policy.Request, payload wire.Appender) *webhook.Message {
	return &webhook.Message{ID: e.NewID(), RequestID: request.ID, Traceparent: webhook.Traceparent(request.Traceparent), Body: payload.AppendJSON(nil)}
}

// failed tells of a failure, and returns it if the target interrupts.
func (r *Run) failed(ctx context.Context, target *webhook.Target, err error) error {
	if err == nil {
		return nil
	}
	r.engine.Logger.WarnContext(ctx, "a target failed", "instance", target.InstanceID, "execution", r.ID, "target", target.ID,
		policy.LogID(ctx), "interrupts", target.Interrupt, "err", err)
	if !target.Interrupt {
		return nil
	}
	if forwarded, ok := errors.AsType[*webhook.Forwarded](err); ok && forwarded.Status >= 400 && forwarded.Status <= 499 {
		return fault.Forwarded(forwarded.Status, forwarded.Message)
	}
	return fault.New(fault.FailedPrecondition, "EXECUTION_FAILED", "the target %q (%s) of the execution %q failed", target.Name, target.ID, r.ID)
}

var errBusy = errors.New("too many targets are being called")

// wait calls a target, when there is a place for it, and waits for a success. It gives the
// place back before a long answer waits for another one.
func (e *Engine) wait(ctx context.Context, target *webhook.Target, m *webhook.Message) (*webhook.Answer, error) {
	limit, cancel := context.WithTimeoutCause(ctx, target.Timeout, errBusy)
	err := e.gate.Enter(limit, target.InstanceID)
	cancel()
	if err != nil {
		return nil, err
	}
	leave := sync.OnceFunc(func() { e.gate.Leave(target.InstanceID) })
	defer leave()
	one := *m // others may be sending it
	one.Yield = leave
	answer, err := e.Caller.Call(ctx, target, &one)
	if err == nil {
		err = answer.Failure()
	}
	return answer, err
}

// startLater calls a target that nobody waits for.
func (e *Engine) startLater(run *Run, target *webhook.Target, m *webhook.Message) {
	ctx, size := context.Background(), int64(len(m.Body))
	if e.unsent.Add(size) > maxUnsent {
		e.unsent.Add(-size)
		_ = run.failed(ctx, target, errBusy)
		return
	}
	e.later.Go(func() {
		defer e.unsent.Add(-size)
		if _, err := e.wait(ctx, target, m); err != nil {
			_ = run.failed(ctx, target, err) // it is told; nobody is there to interrupt
		}
	})
}

// Drain waits for the calls that nobody waits for, until ctx ends.
func (e *Engine) Drain(ctx context.Context) {
	done := make(chan struct{})
	go func() { e.later.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

var _ policy.Executions = (*Engine)(nil)
