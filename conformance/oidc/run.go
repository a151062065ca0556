package oidc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// Verdict is what a module came to.
type Verdict string

// The verdicts, worst first. A skip covers warnings, never a failure.
const (
	Fail   Verdict = "FAIL"
	Skip   Verdict = "SKIP"
	Warn   Verdict = "WARN"
	Review Verdict = "REVIEW"
	Pass   Verdict = "PASS"
)

// Finding is one thing that a module saw.
type Finding struct {
	Verdict  Verdict // "" for what is only worth knowing
	Text     string
	exchange int // the number of exchanges when it was seen
}

// Result is what a module came to in a plan.
type Result struct {
	Plan, Module, Variant string
	Verdict               Verdict
	Findings              []Finding
	Took                  time.Duration

	exchanges []*exchange
}

// variant is what a plan fixes for its modules.
type variant struct {
	responseType string
	formPost     bool
}

func (v variant) String() string {
	if v.formPost {
		return v.responseType + ", form_post"
	}
	return v.responseType
}

// codeFlow says whether the token endpoint is used.
func (v variant) codeFlow() bool { return v.responseType == "code" }

// givesAccessToken says whether the flow ends with an access token.
func (v variant) givesAccessToken() bool { return v.responseType != "id_token" }

// run is one module under way: its client, its browser, what it has seen. Its
// methods end the module with a panic that only execute recovers, so that a
// module reads as a list of steps.
type run struct {
	variant
	ctx     context.Context
	suite   *Suite
	client  *Client
	browser *browser
	meta    *metadata
	keys    *keySet
	log     *transcript

	findings []Finding
}

type ended struct{}

func (r *run) add(v Verdict, format string, args ...any) {
	r.findings = append(r.findings, Finding{v, fmt.Sprintf(format, args...), r.log.count()})
}

// fail records a broken requirement; the module goes on.
func (r *run) fail(format string, args ...any) { r.add(Fail, format, args...) }

// warn records a recommendation that is not followed.
func (r *run) warn(format string, args ...any) { r.add(Warn, format, args...) }

// review records that a person has to look at something.
func (r *run) review(format string, args ...any) { r.add(Review, format, args...) }

// info records what is only worth knowing.
func (r *run) info(format string, args ...any) { r.add("", format, args...) }

// stop records a broken requirement without which the module makes no sense.
func (r *run) stop(format string, args ...any) {
	r.fail(format, args...)
	panic(ended{})
}

// skip ends the module because it does not apply.
func (r *run) skip(format string, args ...any) {
	r.add(Skip, format, args...)
	panic(ended{})
}

// done ends the module with what it has found.
func (r *run) done() { panic(ended{}) }

// failed says whether something broke so far.
func (r *run) failed() bool { return r.verdict() == Fail }

func (r *run) verdict() Verdict {
	for _, v := range []Verdict{Fail, Skip, Warn, Review} {
		for _, finding := range r.findings {
			if finding.Verdict == v {
				return v
			}
		}
	}
	return Pass
}

// wait lets others run while this module waits.
func (r *run) wait(d time.Duration) {
	r.suite.slots.Release(1)
	defer func() { _ = r.suite.slots.Acquire(context.Background(), 1) }()
	select {
	case <-time.After(d):
	case <-r.ctx.Done():
		r.stop("the module was cancelled: %v", r.ctx.Err())
	}
}

// execute runs f and never panics: an aborted module counts as failed.
func (r *run) execute(f func(*run)) {
	defer func() {
		switch cause := recover().(type) {
		case nil, ended:
		default:
			r.fail("the module panicked: %v\n%s", cause, debug.Stack())
		}
	}()
	f(r)
	if err := r.ctx.Err(); errors.Is(err, context.DeadlineExceeded) {
		r.fail("the module took too long")
	}
}

const (
	alphanumerics = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	unreserved    = alphanumerics + "-._~" // RFC 3986 §2.3
)

// randomText returns n characters of alphabet.
func randomText(n int, alphabet string) string {
	random := make([]byte, n)
	_, _ = rand.Read(random) // never fails
	for i := range random {
		random[i] = alphabet[int(random[i])%len(alphabet)]
	}
	return string(random)
}

// longText returns n characters that end in the punctuation which needs no
// escaping in a URL, so that a value which is cut off or filtered is noticed.
func longText(n int) string { return randomText(n-4, alphanumerics) + "-._~" }
