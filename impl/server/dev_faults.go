package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/writ-id/writ/gen/devapi"
	"github.com/writ-id/writ/impl/core/fault"
)

// faults are what is to go wrong. The zero value has none.
type faults struct {
	mu  sync.Mutex
	due []*dueFault
	// pause waits in tests; nil: by the clock of the machine.
	pause func(context.Context, time.Duration)
}

// dueFault is a fault that concerns some more requests.
type dueFault struct {
	devapi.Fault
	delay time.Duration
	route *http.ServeMux // which has nothing but the pattern
}

// maxDelay is how long a fault may hold a request.
const maxDelay = 60 * time.Second

// maxFaults is how many may be due.
const maxFaults = 1000

func newFault(asked *devapi.FaultRequest) (f *dueFault, err error) {
	f = &dueFault{route: http.NewServeMux(), Fault: devapi.Fault{
		Route: asked.Route, Left: 1, Status: asked.Status, RetryAfter: asked.RetryAfter, Delay: asked.Delay, Drop: asked.Drop, ExpiredKey: asked.ExpiredKey,
	}}
	if asked.Count != nil {
		f.Left = *asked.Count
	}
	pattern := asked.Route
	if asked.Method != nil {
		method := string(*asked.Method)
		f.Method, pattern = &method, method+" "+pattern
	}
	if asked.Delay != nil {
		if f.delay, err = time.ParseDuration(*asked.Delay); err != nil || f.delay < 0 || f.delay > maxDelay {
			return nil, fault.Invalid("INVALID_FIELD", "delay", "%q is not a duration from 0 to %s, such as 500ms", *asked.Delay, maxDelay)
		}
	}
	set := func(flag *bool) bool { return flag != nil && *flag }
	if asked.Status == nil && asked.Delay == nil && !set(asked.Drop) && !set(asked.ExpiredKey) {
		return nil, fault.Invalid("INVALID_FIELD", "", "say what goes wrong: status, delay, drop or expired_key")
	}
	if asked.Status != nil && set(asked.Drop) {
		return nil, fault.Invalid("INVALID_FIELD", "drop", "a connection that is dropped has no status")
	}
	if strings.HasPrefix(asked.Route, "/_dev") {
		return nil, fault.Invalid("INVALID_FIELD", "route", "nothing goes wrong below /_dev")
	}
	defer func() {
		if wrong := recover(); wrong != nil { // of http.ServeMux
			err = fault.Invalid("INVALID_FIELD", "route", "%v", wrong)
		}
	}()
	f.route.Handle(pattern, http.NotFoundHandler())
	return f, nil
}

// take returns the fault that a request meets, which concerns one less then; nil if it
// meets none.
func (f *faults) take(r *http.Request) *dueFault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.due) == 0 || strings.HasPrefix(r.URL.Path, "/_dev") {
		return nil
	}
	for i, one := range f.due {
		if _, pattern := one.route.Handler(r); pattern == "" {
			continue
		}
		met := *one
		if one.Left--; one.Left == 0 {
			f.due = slices.Delete(f.due, i, i+1)
		}
		return &met
	}
	return nil
}

// hit has requests go wrong that meet a fault. Those that meet an expired key go to foreign,
// which signs with one.
func (f *faults) hit(next, foreign http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		met := f.take(r)
		if met == nil {
			next.ServeHTTP(w, r)
			return
		}
		if met.delay > 0 {
			f.wait(r.Context(), met.delay)
		}
		switch {
		case met.Drop != nil && *met.Drop:
			panic(http.ErrAbortHandler)
		case met.Status != nil:
			if met.RetryAfter != nil {
				w.Header().Set("Retry-After", strconv.Itoa(*met.RetryAfter))
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header()["Cache-Control"] = noStore
			w.WriteHeader(*met.Status)
			fmt.Fprintf(w, `{"code":14,"message":"a fault of /_dev/faults","error":"temporarily_unavailable","details":[]}`)
		case met.ExpiredKey != nil && *met.ExpiredKey:
			foreign.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (f *faults) wait(ctx context.Context, delay time.Duration) {
	if f.pause != nil {
		f.pause(ctx, delay)
		return
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ListFaults lists what is due.
func (c *console) ListFaults(w http.ResponseWriter, r *http.Request) {
	f := &c.Dev.faults
	f.mu.Lock()
	all := make([]devapi.Fault, len(f.due))
	for i, one := range f.due {
		all[i] = one.Fault
	}
	f.mu.Unlock()
	c.answer(w, r, http.StatusOK, all, nil)
}

// AddFault adds one.
func (c *console) AddFault(w http.ResponseWriter, r *http.Request) {
	asked, err := devRequest[devapi.FaultRequest](r, "FaultRequest")
	var made *dueFault
	if err == nil {
		made, err = newFault(asked)
	}
	if err == nil {
		f := &c.Dev.faults
		f.mu.Lock()
		if len(f.due) < maxFaults {
			f.due = append(f.due, made)
		} else {
			err = fault.New(fault.FailedPrecondition, "TOO_MANY_FAULTS", "%d faults are due already; DELETE /_dev/faults forgets them", maxFaults)
		}
		f.mu.Unlock()
	}
	if err != nil {
		c.refuse(w, r, err)
		return
	}
	c.answer(w, r, http.StatusCreated, made.Fault, nil)
}

// ClearFaults forgets all.
func (c *console) ClearFaults(w http.ResponseWriter, r *http.Request) {
	c.Dev.faults.mu.Lock()
	c.Dev.faults.due = nil
	c.Dev.faults.mu.Unlock()
	c.answer(w, r, http.StatusNoContent, nil, nil)
}
