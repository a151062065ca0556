package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	"github.com/writ-id/writ/impl/client"
)

// ImportRequest says how to import (contracts/openapi/admin.yaml).
type ImportRequest struct {
	Timeout    string `json:"timeout,omitempty"`
	DryRun     bool   `json:"dry_run,omitempty"`
	OnConflict string `json:"on_conflict,omitempty"`
	Async      bool   `json:"async"`
}

// Upload is a file that is read as it is sent.
type Upload struct {
	File io.Reader
	Size uint64 // of the file; 0 when nobody knows it
	Keys Keys
}

// Import has the server import a file. With an error there may be a report of what stands in
// the way.
func (c *Client) Import(ctx context.Context, request ImportRequest, upload Upload) (*transferv1.ImportReport, error) {
	sent := &passed{from: upload.File, bar: c.Bar, size: upload.Size}
	file, err := Unwrap(sent, upload.Keys)
	if err != nil {
		return nil, err
	}
	if c.server, err = c.Find(ctx); err != nil {
		return nil, err
	}
	request.Async = true
	head, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	content := &object{from: file}
	body := io.MultiReader(bytes.NewReader(head[:len(head)-1]), strings.NewReader(`,"data_orgsv1":`), content, strings.NewReader("}"))
	response, err := c.server.Stream(ctx, http.MethodPost, "/admin/v1/import", http.Header{"Expect": {"100-continue"}}, io.NopCloser(body))
	c.Bar.Clear()
	if err != nil {
		return reportOf(err), c.because(ctx, content.err, err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("%w; what became of the import is not known: writ import --dry-run shows what is there", err)
	}
	if response.StatusCode != http.StatusAccepted {
		report := &transferv1.ImportReport{}
		return report, read(answer, report)
	}
	operation := &transferv1.TransferOperation{}
	if err := read(answer, operation); err != nil {
		return nil, err
	}
	operation, err = c.follow(ctx, operation, "importing")
	if ctx.Err() != nil {
		c.cancel(ctx, operation.GetId())
	}
	return operation.GetReport(), err
}

// because tells why sending failed: mostly it is the file.
func (c *Client) because(ctx context.Context, file, err error) error {
	if _, refused := errors.AsType[*client.Refused](err); refused || ctx.Err() != nil {
		return err
	}
	if file != nil && !errors.Is(file, io.EOF) {
		return fmt.Errorf("%w; nothing was imported", file)
	}
	return fmt.Errorf("%w; nothing was imported unless the whole file arrived: writ import --dry-run shows what is there", err)
}

// reportOf returns the report that a refusal has among its details.
func reportOf(err error) *transferv1.ImportReport {
	refused, ok := errors.AsType[*client.Refused](err)
	if !ok {
		return nil
	}
	for _, detail := range refused.Details {
		members := map[string]json.RawMessage{}
		var name string
		if json.Unmarshal(detail, &members) != nil || json.Unmarshal(members["@type"], &name) != nil || !strings.HasSuffix(name, "writ.transfer.v1.ImportReport") {
			continue
		}
		delete(members, "@type")
		report := &transferv1.ImportReport{}
		if text, err := json.Marshal(members); err == nil && read(text, report) == nil {
			return report
		}
	}
	return nil
}

// passed shows how much of a file was read.
type passed struct {
	from io.Reader
	bar  *Bar
	done uint64
	size uint64
}

// Read implements io.Reader.
func (p *passed) Read(into []byte) (int, error) {
	n, err := p.from.Read(into)
	p.done += uint64(n)
	p.bar.Show("uploading", p.done, p.size, bytesOf)
	return n, err
}
