package executions

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// way is a way to answer, and what the documents say of it.
type way struct {
	name   string
	answer func(http.ResponseWriter, *http.Request, *conversation)

	failure  bool // the call of the target failed, whatever it is for
	unfit    bool // it succeeded, but its body cannot take the place of a message
	replaces bool // its body takes the place of a message
	forwards int  // with this status the call is refused, if the target interrupts
	gone     bool // the target wants no events any more
	silent   bool // nothing comes at the target
	slow     bool // it takes longer than a target may
	hops     int  // how many more calls come, by redirects
}

func (w *way) path() string { return strings.ReplaceAll(w.name, " ", "-") }

// forwarded is the message of refusals that are forwarded.
const forwarded = "not on Sundays"

// says answers with a status and a text.
func says(code int, body string) func(http.ResponseWriter, *http.Request, *conversation) {
	return func(w http.ResponseWriter, _ *http.Request, _ *conversation) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// changed answers with what change makes of what was sent: of a response, else of a
// request; functions have an answer of their own.
func changed(code int, change func(map[string]any), function string) func(http.ResponseWriter, *http.Request, *conversation) {
	return func(w http.ResponseWriter, _ *http.Request, c *conversation) {
		var sent struct{ Request, Response map[string]any }
		_ = json.Unmarshal([]byte(c.Body), &sent) // it was read before
		message := sent.Response
		if message == nil {
			message = sent.Request
		}
		answer := []byte(function)
		if message != nil {
			change(message)
			answer, _ = json.Marshal(message) // of what was JSON
		}
		w.WriteHeader(code)
		_, _ = w.Write(answer)
	}
}

// Names that targets give, and the claim that they add.
const (
	called = "changed by a target"
	added  = `{"append_claims":[{"key":"added","value":true}]}`
)

// rename changes what both messages have: the name of the project, and the ID of the
// answer's details.
func rename(to string) func(map[string]any) {
	return func(message map[string]any) {
		if project, ok := message["project"].(map[string]any); ok {
			project["name"] = to
		}
		if details, ok := message["details"].(map[string]any); ok {
			details["id"] = to
		}
	}
}

// oversized is one byte more than is read.
var oversized = sync.OnceValue(func() []byte { return bytes.Repeat([]byte(" "), 20<<20+1) })

func (c *conversation) hang(req *http.Request) {
	select {
	case <-c.done:
	case <-req.Context().Done():
	}
}

// ways are all of them.
var ways = []*way{
	{name: "200 empty", answer: says(200, "")},
	{name: "204", answer: says(204, "")},
	{name: "200 changed", answer: changed(200, rename(called), added), replaces: true},
	{name: "201 changed", answer: changed(201, rename(called), added), replaces: true},
	{name: "200 not JSON", answer: says(200, "thanks"), unfit: true},
	{name: "200 an array", answer: says(200, "[]"), unfit: true},
	{name: "200 cut JSON", answer: says(200, `{"project":`), unfit: true},
	{name: "200 unknown member", answer: changed(200, func(m map[string]any) { m["unknown"] = 1 }, `{"unknown":1}`), unfit: true},
	{name: "200 member twice", answer: says(200, `{"details":{},"details":{},"project":{},"project":{},"append_claims":[],"append_claims":[]}`), unfit: true},
	{name: "200 bound broken", answer: changed(200, func(m map[string]any) {
		rename("")(m)
		delete(m, "details") // an answer has them
	}, `{"append_claims":[{"key":"","value":1}]}`), unfit: true},
	{name: "400", answer: says(400, "{}"), failure: true},
	{name: "401", answer: says(401, ""), failure: true},
	{name: "404", answer: says(404, ""), failure: true},
	{name: "410", answer: says(410, ""), failure: true, gone: true},
	{name: "429", answer: says(429, ""), failure: true},
	{name: "500", answer: says(500, `{"project":{"name":"x"}}`), failure: true},
	{name: "503", answer: says(503, ""), failure: true},
	{name: "300", answer: says(300, ""), failure: true},
	{name: "304", answer: says(304, ""), failure: true},
	{name: "303", answer: redirect(303, "200-empty"), failure: true},
	{name: "307 followed", answer: redirect(307, "200-changed"), replaces: true, hops: 1},
	{name: "308 to a failure", answer: redirect(308, "500"), failure: true, hops: 1},
	{name: "302 without end", answer: redirect(302, "302-without-end"), failure: true, hops: 5},
	{name: "307 to nowhere", answer: says(307, ""), failure: true},
	{name: "307 to a private address", answer: func(w http.ResponseWriter, _ *http.Request, _ *conversation) {
		w.Header().Set("Location", "http://10.0.0.1:9/")
		w.WriteHeader(307)
	}, failure: true},
	{name: "307 to another scheme", answer: func(w http.ResponseWriter, _ *http.Request, _ *conversation) {
		w.Header().Set("Location", "file:///etc/passwd")
		w.WriteHeader(307)
	}, failure: true},
	{name: "forwarded", answer: says(200, `{"forwardedStatusCode":409,"forwardedErrorMessage":"`+forwarded+`"}`), failure: true, forwards: 409},
	{name: "forwarded 500", answer: says(200, `{"forwardedStatusCode":500,"forwardedErrorMessage":"`+forwarded+`"}`), failure: true},
	{name: "forwarded in 201", answer: says(201, `{"forwardedStatusCode":409,"forwardedErrorMessage":"`+forwarded+`"}`), unfit: true},
	{name: "reset", answer: func(w http.ResponseWriter, _ *http.Request, _ *conversation) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.(interface{ SetLinger(int) error }).SetLinger(0)
			conn.Close()
		}
	}, failure: true},
	{name: "body cut off", answer: func(w http.ResponseWriter, _ *http.Request, _ *conversation) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "{}")
		panic(http.ErrAbortHandler)
	}, failure: true},
	{name: "oversized", answer: func(w http.ResponseWriter, _ *http.Request, _ *conversation) {
		w.Header().Set("Content-Length", strconv.Itoa(len(oversized())))
		_, _ = w.Write(oversized())
	}, failure: true},
	{name: "no connection", failure: true, silent: true, slow: true, answer: func(http.ResponseWriter, *http.Request, *conversation) {}},
	{name: "no headers", failure: true, slow: true, answer: func(_ http.ResponseWriter, req *http.Request, c *conversation) { c.hang(req) }},
	{name: "no end of the body", failure: true, slow: true, answer: func(w http.ResponseWriter, req *http.Request, c *conversation) {
		_, _ = io.WriteString(w, "{")
		_ = http.NewResponseController(w).Flush()
		c.hang(req)
	}},
}

func redirect(code int, to string) func(http.ResponseWriter, *http.Request, *conversation) {
	return func(w http.ResponseWriter, req *http.Request, _ *conversation) {
		_, whose, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
		w.Header().Set("Location", "/"+to+"/"+whose)
		w.WriteHeader(code)
	}
}

// The types of targets, and of how they are called.
const (
	webhook   = "restWebhook"
	answering = "restRequestResponse"

	waiting      = ""
	async        = "isAsync"
	interrupting = "interruptOnError"
)

// expected is what comes of a call with one target around it.
type expected struct {
	refused   bool // the call
	forwarded int  // with a status that the target chose
	done      bool // the method ran
	changed   bool // the answer of the target took the place of the message
}

// expect is the model: what the documents say.
//
//   - Asynchronously the result is ignored.
//   - Success is 2xx. Of a webhook the body counts for nothing but a refusal that is
//     forwarded; of rest_request_response it takes the place of the message if there is
//     one, and has to be one that the contract allows.
//   - A failure ends the call if the target interrupts, and is passed over otherwise.
func expect(before bool, kind, exec string, of *way) expected {
	failed := of.failure || of.unfit && kind == answering
	switch {
	case exec == async || failed && exec == waiting:
		return expected{done: true}
	case failed:
		return expected{refused: true, forwarded: of.forwards, done: !before}
	}
	return expected{done: true, changed: of.replaces && kind == answering}
}
