// Package courier hands a message to who carries it on: an e-mail to an SMTP server, a
// text message to Twilio, either to an HTTP endpoint (as a signed call, by package
// webhook). It knows neither providers nor queues. All of its calls go through package
// outgoing, which judges the addresses.
//
// What goes wrong is a Problem: in words of ours, with the code of the other side, and with
// whether another attempt could help. What others say themselves is not passed on: it may
// repeat what we said to them.
package courier

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/writ-id/writ/impl/core/outgoing"
)

// Courier carries messages. It is safe for concurrent use. Make it with New.
type Courier struct {
	Out *outgoing.Client
	// Now is the clock that the dates of e-mails are by.
	Now func() time.Time

	idle   lines
	tokens tokens
}

// New returns a Courier that calls through out.
func New(out *outgoing.Client, now func() time.Time) *Courier {
	return &Courier{Out: out, Now: now, idle: lines{all: map[string][]*line{}}, tokens: tokens{all: map[string]token{}}}
}

// Close ends the connections that are kept.
func (c *Courier) Close() { c.idle.close() }

// Problem is why a message was not taken.
type Problem struct {
	What string // in words
	// Code is the status of the other side's answer, 0 when there was none, and Detail its
	// finer code: 5.1.1 of a mail server, 21211 of Twilio.
	Code   int
	Detail string
	// Final is set when no other attempt can help: the other side will not have this
	// message, or has no such recipient. What is wrong with the provider is not final,
	// for somebody may mend it.
	Final bool
	// RetryAfter is how long the other side asks to be left alone.
	RetryAfter time.Duration
	// Cause is what the other side did not say: no connection, no answer.
	Cause error

	early bool // nothing was begun
}

// Error implements error.
func (p *Problem) Error() string {
	text := p.What
	if p.Cause != nil {
		text += ": " + p.Cause.Error()
	}
	if codes := strings.TrimSpace(fmt.Sprint(omitZero(p.Code), " ", p.Detail)); codes != "" {
		text += " (" + codes + ")"
	}
	return text
}

func omitZero(code int) string { return strings.TrimPrefix(fmt.Sprint(code), "0") }

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Cause }

// answered returns what an HTTP answer means, nil when the message was taken.
func answered(who string, status int) *Problem {
	switch {
	case status >= 200 && status <= 299:
		return nil
	case status == http.StatusGone:
		return &Problem{What: who + " wants no more messages", Code: status, Final: true}
	case status >= 500:
		return &Problem{What: who + " has trouble", Code: status}
	case status == http.StatusTooManyRequests:
		return &Problem{What: who + " gets too many messages", Code: status}
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return &Problem{What: who + " does not accept the credentials", Code: status}
	}
	return &Problem{What: who + " refuses the message", Code: status}
}

// plainWord is a text without what could end a header or a line.
func plainWord(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\u0085' || r == '\u2028' || r == '\u2029' }), " ")
}
