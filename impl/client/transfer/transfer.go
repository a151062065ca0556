// Package transfer is what `writ export` and `writ import` do: they have a server export and
// import, over connections that break, and write and read the files (file.go). The operations
// are those of contracts/openapi/admin.yaml.
package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	"github.com/writ-id/writ/impl/client"
)

// Client has a server export and import.
type Client struct {
	Find     client.Find
	Interval time.Duration // between two questions how far it is
	Tell     func(format string, args ...any)
	Bar      *Bar

	server *client.Server
}

const operations = "/admin/v1/operations/"

// maxSilent is how often in a row a server may be asked that does not answer, with pauses that
// grow to ten times the interval.
const maxSilent = 60

// follow asks how far an operation is until it has ended.
func (c *Client) follow(ctx context.Context, operation *transferv1.TransferOperation, what string) (*transferv1.TransferOperation, error) {
	silent := 0
	for operation.GetState() == transferv1.OperationState_OPERATION_STATE_RUNNING {
		c.Bar.Show(what, operation.GetItems(), operation.GetTotal(), count)
		if err := pause(ctx, c.Interval*time.Duration(min(silent+1, 10))); err != nil {
			return operation, err
		}
		next, err := c.get(ctx, operation.GetId())
		switch {
		case err == nil:
			operation, silent = next, 0
		case !again(ctx, err):
			return operation, err
		case silent == 0:
			c.Bar.Clear()
			c.Tell("the server does not answer (%v); asking again", err)
			fallthrough
		default:
			if silent++; silent > maxSilent {
				return operation, fmt.Errorf("the server does not answer any more; the operation %s may still run: %w", operation.GetId(), err)
			}
		}
	}
	c.Bar.Clear()
	if operation.GetState() == transferv1.OperationState_OPERATION_STATE_SUCCEEDED {
		return operation, nil
	}
	if operation.GetState() == transferv1.OperationState_OPERATION_STATE_CANCELED {
		return operation, errors.New("the operation was cancelled; it left nothing")
	}
	return operation, fmt.Errorf("it failed and left nothing: %s (%s)", operation.GetError().GetMessage(), operation.GetError().GetReason())
}

func (c *Client) get(ctx context.Context, id string) (*transferv1.TransferOperation, error) {
	var answer json.RawMessage
	if err := c.server.Call(ctx, http.MethodGet, operations+url.PathEscape(id), nil, &answer); err != nil {
		return nil, err
	}
	operation := &transferv1.TransferOperation{}
	return operation, read(answer, operation)
}

// cancel ends what nobody waits for any more.
func (c *Client) cancel(ctx context.Context, id string) {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer done()
	var answer json.RawMessage
	if err := c.server.Call(ctx, http.MethodPost, operations+url.PathEscape(id)+"/_cancel", nil, &answer); err != nil {
		c.Tell("the operation %s could not be cancelled: %v", id, err)
		return
	}
	c.Tell("the operation is cancelled; it leaves nothing")
}

// again reports whether trying again may help.
func again(ctx context.Context, err error) bool {
	_, refused := errors.AsType[*client.Refused](err)
	return ctx.Err() == nil && !refused
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// read decodes an answer; a newer server may say more.
func read(answer []byte, into proto.Message) error {
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(answer, into); err != nil {
		return &client.Refused{Status: http.StatusOK, Message: "no answer of this API: " + err.Error()}
	}
	return nil
}
