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
	call, target := policy.CallFrom(ctx), execution.Target(s.sealer, row)
	target.Timeout = min(target.Timeout, testTimeout)
	message := &webhook.Message{
		ID: s.NewID(), RequestID: call.RequestID(), Traceparent: webhook.Traceparent(""),
		Body: execution.Sample(req.GetCondition(), s.operations, call, timestamppb.New(s.Now())).AppendJSON(nil),
	}
	answer, err := s.caller.Call(ctx, target, message)
	if err == nil {
		err = answer.Failure()
	}
	res := &actionv3.TestTargetResponse{
		CallId: message.ID, RequestBody: string(message.Body), Status: int32(answer.Status), ResponseBody: text(answer.Body), Duration: durationpb.New(answer.Took),
	}
	if err != nil {
		res.Error = err.Error()
	}
	return res, nil
}

// text returns the beginning of an answer as text.
func text(body []byte) string {
	return strings.ReplaceAll(strings.ToValidUTF8(string(body[:min(len(body), shown)]), "\uFFFD"), "\x00", "\uFFFD")
}
