package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
)

// ExportRequest says what to export (contracts/openapi/admin.yaml).
type ExportRequest struct {
	OrgIDs         []string `json:"org_ids,omitempty"`
	ExcludedOrgIDs []string `json:"excluded_org_ids,omitempty"`
	WithPasswords  bool     `json:"with_passwords,omitempty"`
	WithOTP        bool     `json:"with_otp,omitempty"`
	WithSecrets    bool     `json:"with_secrets,omitempty"`
	Timeout        string   `json:"timeout,omitempty"`

	// The answer is a file, which is fetched when it is done.
	ResponseOutput bool `json:"response_output"`
	Async          bool `json:"async"`
}

// Export has the server export and writes the file to out. With the ID of an operation it
// fetches what that exported.
func (c *Client) Export(ctx context.Context, request ExportRequest, operation string, out io.Writer) (*transferv1.Summary, error) {
	var err error
	if c.server, err = c.Find(ctx); err != nil {
		return nil, err
	}
	at := &transferv1.TransferOperation{}
	if operation != "" {
		at, err = c.get(ctx, operation)
	} else {
		request.ResponseOutput, request.Async = true, true
		var answer json.RawMessage
		if err = c.server.Call(ctx, http.MethodPost, "/admin/v1/export", request, &answer); err == nil {
			err = read(answer, at)
		}
	}
	if err != nil {
		return nil, err
	}
	if at, err = c.follow(ctx, at, "exporting"); err != nil {
		if ctx.Err() != nil && operation == "" {
			c.cancel(ctx, at.GetId())
		}
		return nil, err
	}
	if err := c.download(ctx, at, out); err != nil {
		if _, ok := errors.AsType[*writeError](err); !ok {
			c.Tell("what was exported is kept for a day: writ export --operation %s fetches it", at.GetId())
		}
		return nil, err
	}
	return at.GetSummary(), nil
}

// download fetches the result of an operation. It goes on where a connection broke.
func (c *Client) download(ctx context.Context, operation *transferv1.TransferOperation, out io.Writer) error {
	size, got, breaks := operation.GetSize(), uint64(0), 0
	for {
		n, err := c.fetch(ctx, operation.GetId(), got, size, out)
		got += n
		if err == nil && got == size {
			c.Bar.Clear()
			return nil
		}
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		if _, ok := errors.AsType[*writeError](err); ok || !again(ctx, err) {
			return err
		}
		if n > 0 {
			breaks = 0
		}
		if breaks++; breaks > maxSilent {
			return fmt.Errorf("the download broke off at %d of %d bytes: %w", got, size, err)
		}
		c.Bar.Clear()
		c.Tell("the connection broke (%v); going on at byte %d of %d", err, got, size)
		if err := pause(ctx, c.Interval*time.Duration(min(breaks, 10))); err != nil {
			return err
		}
	}
}

// writeError is one of the file that is written, which another connection does not help.
type writeError struct{ error }

func (e *writeError) Unwrap() error { return e.error }

// fetch reads a result from a byte on, as far as the connection holds.
func (c *Client) fetch(ctx context.Context, id string, from, size uint64, out io.Writer) (uint64, error) {
	header := http.Header{"Accept-Encoding": {"identity"}}
	if from > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	response, err := c.server.Stream(ctx, http.MethodGet, operations+url.PathEscape(id)+"/result", header, nil)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if from > 0 && !strings.HasPrefix(response.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", from)) {
		return 0, &writeError{errors.New("the server does not go on where the connection broke")}
	}
	buffer := make([]byte, 256<<10)
	body := io.LimitReader(response.Body, int64(size-from))
	for got := uint64(0); ; {
		n, err := body.Read(buffer)
		if n > 0 {
			if _, failed := out.Write(buffer[:n]); failed != nil {
				return got, &writeError{failed}
			}
			got += uint64(n)
			c.Bar.Show("downloading", from+got, size, bytesOf)
		}
		if err == io.EOF {
			return got, nil
		}
		if err != nil {
			return got, err
		}
	}
}
