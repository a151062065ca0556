package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/writ-id/writ/gen/db"
	eventv3 "github.com/writ-id/writ/gen/proto/writ/event/v3alpha"
	"github.com/writ-id/writ/impl/core/delivery"
	"github.com/writ-id/writ/impl/core/outgoing"
	"github.com/writ-id/writ/impl/core/webhook"
)

// Listener delivers events to an address of this machine as a target gets them: the same
// body, the same headers, signed.
type Listener struct {
	Follower
	To      string
	Key     []byte
	Timeout time.Duration
	Retries int       // of one event
	Out     io.Writer // a line for each delivery
	// Keep is told behind which event it goes on when it is started again.
	Keep func(Position) error

	caller *webhook.Caller
}

// everywhere: the person who runs the command says where to.
var everywhere = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

// Listen delivers what happens until ctx ends.
func (l *Listener) Listen(ctx context.Context) error {
	l.caller = &webhook.Caller{Out: outgoing.New(outgoing.Config{Allow: everywhere}), Now: time.Now}
	return l.Follow(ctx, l.deliver, l.Keep)
}

// deliver sends an event and says what came of it.
func (l *Listener) deliver(ctx context.Context, instance string, text json.RawMessage) error {
	event := &eventv3.GetEvent{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, event); err != nil {
		return fmt.Errorf("this event is none: %w", err)
	}
	payload, err := json.Marshal(event.GetPayload())
	if err != nil {
		return err
	}
	target := &webhook.Target{InstanceID: instance, ID: "listen", URL: l.To, Timeout: l.Timeout, Keys: []webhook.Key{{Secret: l.Key}}}
	message := &webhook.Message{
		ID: instance + "-" + strconv.FormatUint(event.GetSequence(), 10), Traceparent: webhook.Traceparent(""),
		Body: delivery.Body(&db.Event{
			InstanceID: instance, Sequence: int64(event.GetSequence()), AggregateType: event.GetAggregateType(), AggregateID: event.GetAggregateId(),
			EventType: event.GetType(), Payload: payload, Creator: event.GetCreator(), OwnerID: event.GetResourceOwner().GetId(),
			CreatedAt: event.GetCreationDate().AsTime(),
		}),
	}
	for pause, left := time.Second, l.Retries; ; pause, left = min(2*pause, time.Minute), left-1 {
		answer, err := l.caller.Call(ctx, target, message)
		if ctx.Err() != nil {
			return ctx.Err() // it is sent again by the next run
		}
		failure := err
		if failure == nil && (answer.Status < 200 || answer.Status > 299) { // of an answer to an event nothing else counts
			failure = fmt.Errorf("the answer has the status %d", answer.Status)
		}
		l.tell(event, answer, failure, left)
		if failure == nil || left <= 0 {
			return l.Keep(Position{instance, event.GetSequence()})
		}
		if err := l.sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// tell prints the line of a delivery.
func (l *Listener) tell(event *eventv3.GetEvent, answer *webhook.Answer, failure error, left int) {
	status := "---"
	if answer.Status > 0 {
		status = strconv.Itoa(answer.Status)
	}
	what := fmt.Sprintf("%s  %s  %-32s %s/%s  %s", time.Now().Format(time.TimeOnly), status, event.GetType(), event.GetAggregateType(), event.GetAggregateId(),
		answer.Took.Round(time.Millisecond))
	switch {
	case failure == nil:
	case left > 0:
		what += fmt.Sprintf("  failed, will be sent again: %v", failure)
	default:
		what += fmt.Sprintf("  failed: %v", failure)
	}
	fmt.Fprintln(l.Out, what)
}
