// Package outbox shows what became of messages to users, and has them sent again. Package
// message sends them.
package outbox

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	messagev3 "github.com/writ-id/writ/gen/proto/writ/message/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/api/message"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/resource"
)

// Service implements the API of messages. It is safe for concurrent use.
type Service struct {
	messagev3.UnsafeServiceMessagesServer // a new RPC must fail to compile here

	resource.Env
	queries  *db.Queries
	messages *resource.Table[db.Message, storage.Messages]
}

var _ messagev3.ServiceMessagesServer = (*Service)(nil)

// New returns a Service over env.
func New(env resource.Env) *Service {
	return &Service{Env: env, queries: db.New(), messages: resource.New(env, storage.Messages{})}
}

// SearchMessages finds the messages that meet all filters.
func (s *Service) SearchMessages(ctx context.Context, req *messagev3.SearchMessagesRequest) (*messagev3.SearchMessagesResponse, error) {
	rows, details, err := storage.SearchMessages(ctx, s.messages, req)
	return &messagev3.SearchMessagesResponse{
		Details: details, SortingColumn: req.GetSortingColumn(), Result: resource.All(rows, storage.NewGetMessage),
	}, err
}

// GetMessage reads one with its attempts.
func (s *Service) GetMessage(ctx context.Context, req *messagev3.GetMessageRequest) (*messagev3.GetMessageResponse, error) {
	row, err := s.messages.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	attempts, err := s.queries.AttemptsOfDelivery(ctx, s.DB.Conn(), db.AttemptsOfDeliveryParams{InstanceID: row.InstanceID, Delivery: row.ID})
	if err != nil {
		return nil, err
	}
	res := &messagev3.GetMessageResponse{Message: storage.NewGetMessage(row)}
	for _, a := range attempts {
		res.Attempts = append(res.Attempts, &messagev3.MessageAttempt{
			Number: uint32(a.Number), Date: timestamppb.New(a.Date), Duration: durationpb.New(time.Duration(a.TookNanos)),
			Provider: a.Provider, Status: uint32(a.Status), Error: a.Error,
		})
	}
	return res, nil
}

// ReplayMessage has a message that was given up sent again.
func (s *Service) ReplayMessage(ctx context.Context, req *messagev3.ReplayMessageRequest) (*messagev3.ReplayMessageResponse, error) {
	var details *object.Details
	err := s.DB.InTx(ctx, func(tx pgx.Tx) error {
		row, err := s.messages.Lock(ctx, tx, req.GetId())
		if err != nil {
			return err
		}
		now := s.Now()
		switch {
		case row.State != messagev3.MessageState_MESSAGE_STATE_DEAD:
			return fault.New(fault.FailedPrecondition, "MESSAGE_NOT_DEAD", "the message %q is not given up", row.ID)
		case row.ExpirationDate != nil && !now.Before(*row.ExpirationDate), string(row.Payload) == "{}":
			return fault.New(fault.FailedPrecondition, "MESSAGE_EXPIRED", "the code or link in the message %q has expired", row.ID)
		}
		if err := message.Carried(ctx, tx, &s.Env, message.Kind(row.Kind), row.InstanceID, row.OrgID); err != nil {
			return err
		}
		old := *row
		row.State, row.DeadReason = messagev3.MessageState_MESSAGE_STATE_PENDING, messagev3.MessageDeadReason_MESSAGE_DEAD_REASON_UNSPECIFIED
		row.Attempts, row.NextAttempt = 0, now
		if _, err := s.messages.Save(ctx, tx, &old, row, &eventv1.MessageReplayed{}); err != nil {
			return err
		}
		details = s.messages.Details(row)
		return s.queries.NotifyMessages(ctx, tx)
	})
	if err != nil {
		return nil, err
	}
	return &messagev3.ReplayMessageResponse{Details: details}, nil
}
