package courier

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"time"

	"github.com/writ-id/writ/impl/core/outgoing"
	"github.com/writ-id/writ/impl/core/webhook"
)

// Twilio is an account with Twilio.
type Twilio struct {
	Key        string // connections are kept for it
	AccountSID string
	Token      string
	// From is the number of the sender; or else MessagingService picks one.
	From, MessagingService string
}

// SMS is a text message.
type SMS struct {
	ID, To, Text string
}

const (
	twilio = "https://api.twilio.com"
	// maxAnswer is how much of an answer is read to the purpose.
	maxAnswer = 64 << 10
)

// hopeless are the errors of Twilio that are about the recipient or the text, so that
// another attempt comes to the same.
var hopeless = map[int]string{
	21211: "the recipient is no phone number",
	21214: "the recipient's number cannot be reached",
	21217: "the recipient is no phone number",
	21265: "the recipient is the sender",
	21266: "the recipient is the sender",
	21610: "the recipient has opted out",
	21612: "the recipient's number cannot be reached",
	21614: "the recipient's number takes no text messages",
	21617: "the text is too long",
}

// SMS sends a text message by Twilio. The error is a *Problem.
func (c *Courier) SMS(ctx context.Context, t *Twilio, m *SMS) error {
	form := url.Values{"To": {m.To}, "Body": {m.Text}}
	if t.From != "" {
		form.Set("From", t.From)
	} else {
		form.Set("MessagingServiceSid", t.MessagingService)
	}
	at := c.Out.Origin(twilio + "/2010-04-01/Accounts/" + url.PathEscape(t.AccountSID) + "/Messages.json")
	answer, err := c.Out.PostOnce(ctx, t.Key, at, formHeader(t.AccountSID, t.Token), []byte(form.Encode()), maxAnswer)
	if err != nil {
		return noAnswer(ctx, "Twilio", err)
	}
	// A message that was made, or {"code": 21211, "message": "…", "status": 400}.
	var said struct {
		SID       string `json:"sid"`
		Code      int    `json:"code"`
		Status    any    `json:"status"`
		ErrorCode int    `json:"error_code"`
	}
	read := json.Unmarshal(answer.Body, &said)
	problem := answered("Twilio", answer.Status)
	code := said.Code
	if problem == nil {
		if read != nil || said.SID == "" {
			return &Problem{What: "what answers is not Twilio", Code: answer.Status}
		}
		if said.Status != "failed" && said.Status != "undelivered" {
			return nil
		}
		problem, code = &Problem{What: "Twilio could not send the message", Code: answer.Status}, said.ErrorCode
	}
	if code != 0 {
		problem.Detail = strconv.Itoa(code)
	}
	problem.RetryAfter = answer.RetryAfter(time.Now())
	if why := hopeless[code]; why != "" {
		problem.What, problem.Final = "Twilio refuses the message: "+why, true
	}
	return problem
}

// Call hands a message to an HTTP endpoint, as a signed call. The error is a *Problem.
func Call(ctx context.Context, caller *webhook.Caller, t *webhook.Target, id string, body []byte) error {
	answer, err := caller.Call(ctx, t, &webhook.Message{ID: id, Traceparent: webhook.Traceparent(""), Body: body})
	if err != nil {
		return noAnswer(ctx, "the endpoint", err)
	}
	problem := answered("the endpoint", answer.Status)
	if problem == nil {
		return nil
	}
	problem.RetryAfter = answer.RetryAfter
	return problem
}

// noAnswer is the problem of a call that came to nothing.
func noAnswer(ctx context.Context, who string, err error) *Problem {
	if ctx.Err() != nil {
		return &Problem{What: who + " took too long"}
	}
	if errors.Is(err, outgoing.ErrTooLong) {
		return &Problem{What: who + " says too much"}
	}
	return &Problem{What: who + " gives no answer", Cause: err}
}
