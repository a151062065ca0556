package fault

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
)

// TestRefusalsNameFieldsAsTheBodyHasThem takes a path of a message to that of the
// REST body, which is one of its fields.
func TestRefusalsNameFieldsAsTheBodyHasThem(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ field, body, want, message string }{
		{"target.name", "target", "name", "name: is bad"},
		{"target.restWebhook.url", "target", "restWebhook.url", "restWebhook.url: is bad"},
		{"target", "target", "body", "body: is bad"},
		{"filters[1].name", "filters", "[1].name", "[1].name: is bad"},
		{"username", "user", "username", "username: is bad"},
		{"id", "target", "id", "id: is bad"},
		{"", "target", "", "is bad"},
		{"target.name", "", "target.name", "target.name: is bad"},
	} {
		refusal := Invalid("INVALID_FIELD", test.field, "is bad")
		below := refusal.Below(test.body, "body")
		if got := below.Fields[0].Field; got != test.want || below.Message != test.message {
			t.Errorf("%s below %s: got %q, %q, want %q, %q", test.field, test.body, got, below.Message, test.want, test.message)
		}
		if refusal.Fields[0].Field != test.field {
			t.Errorf("%s below %s changed the refusal, which others share", test.field, test.body)
		}
	}
}

// TestARefusalThatIsSharedStaysWhatItIs: package variables are refusals that many
// requests return at once.
func TestARefusalThatIsSharedStaysWhatItIs(t *testing.T) {
	t.Parallel()
	shared := New(NotFound, "THING_NOT_FOUND", "no such thing")
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			field, cause := fmt.Sprint("field", i), fmt.Errorf("cause %d", i)
			got := shared.On(field).Because(cause)
			if len(got.Fields) != 1 || got.Fields[0] != (Violation{field, "no such thing"}) || !errors.Is(got, cause) {
				t.Errorf("got %+v: %v", got.Fields, got)
			}
		})
	}
	all.Wait()
	if len(shared.Fields) != 0 || shared.Unwrap() != nil {
		t.Errorf("the shared refusal has become %+v: %v", shared.Fields, shared)
	}
	first := Invalid("INVALID_FIELD", "a", "is bad")
	if second, third := first.On("b"), first.On("c"); len(first.Fields) != 1 || second.Fields[1].Field != "b" || third.Fields[1].Field != "c" {
		t.Errorf("two refusals made of one: %v and %v", second.Fields, third.Fields)
	}
}

func TestEveryKindGoesOverTheWireAsWhatItIs(t *testing.T) {
	t.Parallel()
	for kind := range kinds {
		refusal := New(Kind(kind), "SOME_REASON", "said \xff").On("a.b").Because(errors.New("a secret of the database"))
		if status := refusal.HTTP(); status < 400 || status > 599 {
			t.Errorf("kind %d: HTTP %d is no refusal", kind, status)
		}
		wire := refusal.GRPCStatus()
		if wire.Code() == codes.OK || wire.Message() != "said \uFFFD" {
			t.Errorf("kind %d: got %v %q", kind, wire.Code(), wire.Message())
		}
		info, fields, waits := false, false, false
		for _, detail := range wire.Details() {
			switch d := detail.(type) {
			case *errdetails.ErrorInfo:
				info = d.Reason == "SOME_REASON" && d.Domain == Domain
			case *errdetails.BadRequest:
				fields = len(d.FieldViolations) == 1 && d.FieldViolations[0].Field == "a.b"
			case *errdetails.RetryInfo:
				waits = d.RetryDelay.AsDuration() == RetryAfter
			}
		}
		if !info || !fields || waits != (Kind(kind) == Unavailable || Kind(kind) == Busy) {
			t.Errorf("kind %d: reason %v, field %v, retry %v", kind, info, fields, waits)
		}
		if strings.Contains(wire.String(), "secret") {
			t.Errorf("kind %d: the cause goes over the wire", kind)
		}
	}
}
