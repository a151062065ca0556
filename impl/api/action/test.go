package action

import (
	"context"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	"github.com/writ-id/writ/impl/core/execution"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/webhook"
)

const (
	// testTimeout leaves time to answer with what came of a target that does not.
	testTimeout = policy.CallTimeout - 2*time.Second
	// shown is how much of an answer is answered, in bytes.
	shown = 64 << 10
)

// TestTarget calls a target with a sample. That the call failed is no refusal: it is what
// was asked for.
func (s *Service) TestTarget(ctx context.Context, req *actionv3.TestTargetRequest) (*actionv3.TestTargetResponse, error) {
	if err := s.checkExists("condition", req.GetCondition()); err != nil {
		return nil, err
	}
	row, err := s.targets.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	call, request, target := policy.CallFrom(ctx), policy.RequestFrom(ctx), execution.Target(s.sealer, row)
	target.Timeout = min(target.Timeout, testTimeout)
	message := &webhook.Message{
		ID: s.NewID(), RequestID: request.ID, Traceparent: webhook.Traceparent(request.Traceparent),
		Body: execution.Sample(req.GetCondition(), s.operations, call, timestamppb.New(s.Now())).AppendJSON(nil),
		Keep: shown,
	}
	var answer *webhook.Answer
	var failure error
	if err := request.Outside(ctx, target.Timeout, func(ctx context.Context) error {
		if answer, failure = s.caller.Call(ctx, target, message); failure == nil {
			failure = answer.Failure()
		}
		return nil
	}); err != nil {
		return nil, err
	}
	res := &actionv3.TestTargetResponse{
		CallId: message.ID, RequestBody: string(message.Body), Status: int32(answer.Status), ResponseBody: text(answer.Body), Duration: durationpb.New(answer.Took),
	}
	if failure != nil {
		res.Error = failure.Error()
	}
	return res, nil
}

// text returns the beginning of an answer as text.
func text(body []byte) string {
	return strings.ReplaceAll(strings.ToValidUTF8(string(body[:min(len(body), shown)]), "\uFFFD"), "\x00", "\uFFFD")
}
