package transfer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/writ-id/writ/gen/admin"
	"github.com/writ-id/writ/gen/db"
	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/objectstore"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/spool"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/transfer"
	"github.com/writ-id/writ/impl/core/transfer/foreign"
	"github.com/writ-id/writ/impl/core/wire"
)

// Endpoint serves the operations of contracts/openapi/admin.yaml.
type Endpoint struct {
	*Service
	Chain   *policy.Chain
	Buckets *objectstore.Store
	// Answer writes an answer, Refuse a refusal.
	Answer func(w http.ResponseWriter, status int, answer wire.Appender)
	Refuse func(w http.ResponseWriter, r *http.Request, err error)
}

// maxImport is how many bytes may be imported at once: room for some ten million users.
const maxImport = 16 << 30

var _ admin.ServerInterface = (*Endpoint)(nil)

const (
	// defaultTimeout and asyncTimeout are those that the contract states, as is maxTimeout.
	defaultTimeout, asyncTimeout, maxTimeout = 5 * time.Minute, time.Hour, 24 * time.Hour
	// slack is how much longer than its work an answer may take to be read.
	slack = 30 * time.Second
)

var errTimeout = fault.New(fault.TooSlow, "TIMEOUT", "it took longer than its timeout; nothing is left of it")

// owner admits a request of an instance that moves nothing else here.
func (e *Endpoint) owner(r *http.Request) (instanceID, userID string, leave func(), err error) {
	instance, userID, err := e.Chain.Owner(r.Context())
	if err != nil {
		return "", "", nil, err
	}
	leave, err = e.admit(instance.ID)
	return instance.ID, userID, leave, err
}

// ExportData exports organizations.
func (e *Endpoint) ExportData(w http.ResponseWriter, r *http.Request) {
	if err := e.export(w, r); err != nil {
		e.Refuse(w, r, err)
	}
}

func (e *Endpoint) export(w http.ResponseWriter, r *http.Request) error {
	instanceID, by, leave, err := e.owner(r)
	if err != nil {
		return err
	}
	defer func() {
		if leave != nil {
			leave()
		}
	}()
	text, err := io.ReadAll(r.Body)
	if tooLong, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fault.New(fault.TooLarge, "REQUEST_TOO_LARGE", "a request may have at most %d bytes", tooLong.Limit)
	}
	if err != nil {
		return fault.New(fault.Canceled, "CANCELED", "the request was broken off").Because(err)
	}
	var req admin.ExportRequest
	if err := decode("ExportRequest", text, &req); err != nil {
		return err
	}
	to, err := output(&req)
	if err != nil {
		return err
	}
	limit, err := timeout(req.Timeout, value(req.Async))
	if err != nil {
		return err
	}
	of := Selection{OrgIDs: value(req.OrgIds), ExcludedOrgIDs: value(req.ExcludedOrgIds), Asked: transfer.Asked{Passwords: value(req.WithPasswords), OTP: value(req.WithOtp), Secrets: value(req.WithSecrets)}}
	// whole exports to where nobody keeps it waiting.
	whole := func(ctx context.Context, out io.Writer, progress Progress) (summary *transferv1.Summary, err error) {
		err = e.working(ctx, instanceID, func() (err error) {
			summary, err = e.Export(ctx, instanceID, of, out, progress)
			return err
		})
		return summary, room(err)
	}
	if value(req.Async) {
		if err := e.Check(r.Context(), instanceID, of); err != nil {
			return err
		}
		free := leave
		leave = nil
		return e.begin(w, r, transferv1.OperationType_OPERATION_TYPE_EXPORT, instanceID, by, limit, func(ctx context.Context, out io.Writer, progress Progress) (proto.Message, error) {
			defer free()
			if to == nil {
				return message(whole(ctx, out, progress))
			}
			file, err := e.Space.New(instanceID)
			if err != nil {
				return nil, room(err)
			}
			defer func() { _ = file.Close() }() // it was read
			summary, err := whole(ctx, file, progress)
			if err == nil {
				err = e.upload(ctx, file, *to)
			}
			return message(summary, err)
		}, free)
	}
	ctx, cancel := within(w, r, limit)
	defer cancel()
	file, err := e.Space.New(instanceID)
	if err != nil {
		return room(err)
	}
	defer func() { _ = file.Close() }() // it was read
	summary, err := whole(ctx, file, tell)
	if err != nil {
		return because(ctx, err)
	}
	if to != nil {
		if err := e.upload(ctx, file, *to); err != nil {
			return because(ctx, err)
		}
		e.Answer(w, http.StatusOK, &transferv1.TransferFile{Version: transfer.Version, Summary: summary})
		return nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Disposition", `attachment; filename="export.json"`)
	if _, err := io.Copy(paced(w), io.NewSectionReader(file, 0, file.Size())); err != nil { // there is no way to take back what was sent but to break off
		panic(http.ErrAbortHandler)
	}
	return nil
}

// upload sends a file to a storage.
func (e *Endpoint) upload(ctx context.Context, file *spool.File, to objectstore.Place) error {
	ctx, watched, done := watch(ctx, stepTime)
	defer done()
	object, err := e.Buckets.Create(ctx, to, watched.went)
	if err != nil {
		return because(ctx, err)
	}
	defer object.Abort()
	if _, err = io.Copy(object, io.NewSectionReader(file, 0, file.Size())); err == nil {
		watched.within(closeTime)
		err = object.Close()
	}
	return because(ctx, err)
}

// tell is the progress of what nobody asks how far it is.
func tell(uint64, uint64) {}

func message[M proto.Message](m M, err error) (proto.Message, error) { return m, err }

// ImportData imports organizations.
func (e *Endpoint) ImportData(w http.ResponseWriter, r *http.Request) {
	if err := e.load(w, r); err != nil {
		e.Refuse(w, r, err)
	}
}

func (e *Endpoint) load(w http.ResponseWriter, r *http.Request) error {
	instanceID, by, leave, err := e.owner(r)
	if err != nil {
		return err
	}
	body, err := e.receive(w, r, instanceID)
	end := func() {
		leave()
		if body != nil {
			_ = body.Close()
		}
	}
	defer func() {
		if end != nil {
			end()
		}
	}()
	if err != nil {
		return room(err)
	}
	var req admin.ImportRequest
	if err := decode("ImportRequest", body.rest, &req); err != nil {
		return err
	}
	from, err := input(&req, body.data != nil)
	if err != nil {
		return err
	}
	limit, err := timeout(req.Timeout, value(req.Async))
	if err != nil {
		return err
	}
	plan := Plan{InstanceID: instanceID, By: by, From: policy.OriginOf(r.Context()), ImportID: e.NewID(), DryRun: value(req.DryRun), OnConflict: conflicts[value(req.OnConflict)]}
	do := func(ctx context.Context, progress Progress) (*transferv1.ImportReport, error) {
		data := body.data
		if from != nil {
			var err error
			if data, err = e.fetch(ctx, body, *from); err != nil {
				return nil, room(err)
			}
		}
		return e.importFile(ctx, data, plan, progress)
	}
	if value(req.Async) {
		free := end
		end = nil
		return e.begin(w, r, transferv1.OperationType_OPERATION_TYPE_IMPORT, instanceID, by, limit, func(ctx context.Context, _ io.Writer, progress Progress) (proto.Message, error) {
			defer free()
			return message(do(ctx, progress))
		}, free)
	}
	ctx, cancel := within(w, r, limit)
	defer cancel()
	report, err := do(ctx, tell)
	if err != nil {
		return because(ctx, err)
	}
	e.Answer(w, http.StatusOK, report)
	return nil
}

// fetch brings an object to the disk, where it can be read more than once.
func (e *Endpoint) fetch(ctx context.Context, body *upload, from objectstore.Place) (*io.SectionReader, error) {
	ctx, watched, done := watch(ctx, stepTime)
	defer done()
	object, err := e.Buckets.Open(ctx, from)
	if err != nil {
		return nil, because(ctx, err)
	}
	defer func() { _ = object.Close() }() // it was read
	size := body.file.Size()
	n, err := io.Copy(body.file, io.LimitReader(watched.reader(object), maxImport+1))
	if err == nil && n > maxImport {
		err = tooLarge(maxImport)
	}
	return io.NewSectionReader(body.file, size, n), because(ctx, err)
}

// importFile imports a file of ours, or of others that have the same operation.
func (e *Endpoint) importFile(ctx context.Context, data *io.SectionReader, plan Plan, progress Progress) (*transferv1.ImportReport, error) {
	var ignored []string
	var lost []*transferv1.Lost
	var losses uint64
	source := transfer.Source(transfer.NewReader(data, storage.Moved, func(member string) {
		if len(ignored) < maxLost {
			ignored = append(ignored, member)
		}
	}))
	if ofOthers(data) {
		source = foreign.Zitadel(data, foreign.Options{
			Lost: func(kind, id, reason string) {
				if losses++; losses <= maxLost {
					lost = append(lost, &transferv1.Lost{Kind: kind, Id: id, Reason: "NOT_CARRIED", Message: reason})
				}
			},
			Ignored: func(member string, _ int) { ignored = append(ignored, member) },
		})
	}
	report, err := e.Import(ctx, source, plan, progress)
	if refusal, ok := errors.AsType[*fault.Error](err); ok && len(refusal.Fields) == 1 && refusal.Fields[0].Field == "" {
		err = refusal.Within(dataMember) // the file as a whole, wherever it came from
	}
	if report != nil {
		report.Ignored = ignored
		report.TotalNotCarried += losses
		report.NotCarried = append(report.GetNotCarried(), lost[:min(len(lost), max(0, maxLost-len(report.GetNotCarried())))]...)
	}
	return report, err
}

// ofOthers says whether a file begins as those of the others do.
func ofOthers(data *io.SectionReader) bool {
	defer func() { _, _ = data.Seek(0, io.SeekStart) }() // within a file
	in := json.NewDecoder(bufio.NewReader(io.LimitReader(data, 4096)))
	begin, _ := in.Token()
	name, _ := in.Token()
	return begin == json.Delim('{') && name == "orgs"
}

// begin has work run by itself and answers with the operation.
func (e *Endpoint) begin(w http.ResponseWriter, r *http.Request, of transferv1.OperationType, instanceID, by string, limit time.Duration, do work, free func()) error {
	operation, err := e.start(r.Context(), of, instanceID, by, e.NewID(), limit, do)
	if err != nil {
		free()
		return err
	}
	e.Answer(w, http.StatusAccepted, operation)
	return nil
}

// GetOperation tells how far an operation is.
func (e *Endpoint) GetOperation(w http.ResponseWriter, r *http.Request, id string) {
	e.about(w, r, id, e.get)
}

// CancelOperation ends an operation.
func (e *Endpoint) CancelOperation(w http.ResponseWriter, r *http.Request, id string) {
	e.about(w, r, id, func(ctx context.Context, instanceID, id string) (*db.Operation, error) {
		row, err := db.New().CancelOperation(ctx, e.DB.Pool, db.CancelOperationParams{InstanceID: instanceID, ID: id})
		if store.NoRow(err) {
			err = errNoOperation
		}
		return &row, err
	})
}

var errNoOperation = fault.New(fault.NotFound, "OPERATION_NOT_FOUND", "there is no such operation, or not any more")

func (e *Endpoint) get(ctx context.Context, instanceID, id string) (*db.Operation, error) {
	row, err := db.New().Operation(ctx, e.DB.Pool, db.OperationParams{InstanceID: instanceID, ID: id})
	if store.NoRow(err) {
		err = errNoOperation
	}
	return &row, err
}

func (e *Endpoint) about(w http.ResponseWriter, r *http.Request, id string, find func(ctx context.Context, instanceID, id string) (*db.Operation, error)) {
	instance, _, err := e.Chain.Owner(r.Context())
	if err != nil {
		e.Refuse(w, r, err)
		return
	}
	row, err := find(r.Context(), instance.ID, id)
	if err != nil {
		e.Refuse(w, r, err)
		return
	}
	operation, err := shown(row)
	if err != nil {
		e.Refuse(w, r, err)
		return
	}
	e.Answer(w, http.StatusOK, operation)
}

// GetOperationResult returns what an operation exported.
func (e *Endpoint) GetOperationResult(w http.ResponseWriter, r *http.Request, id string, _ admin.GetOperationResultParams) {
	instance, _, err := e.Chain.Owner(r.Context())
	var row *db.Operation
	if err == nil {
		row, err = e.get(r.Context(), instance.ID, id)
	}
	if err == nil && (row.State != int16(transferv1.OperationState_OPERATION_STATE_SUCCEEDED) || row.Size == 0) {
		err = fault.New(fault.FailedPrecondition, "NO_RESULT", "the operation has no result: it runs, failed, or wrote elsewhere")
	}
	if err != nil {
		e.Refuse(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Disposition", `attachment; filename="export.json"`)
	h.Set("ETag", `"`+row.ID+`"`)
	http.ServeContent(&ranged{ResponseWriter: paced(w), r: r, e: e}, r, "", time.Time{}, &result{Service: e.Service, ctx: r.Context(), row: row})
}

// ranged answers bytes that the file does not have as the contract says.
type ranged struct {
	http.ResponseWriter
	r       *http.Request
	e       *Endpoint
	refused bool
}

// WriteHeader implements http.ResponseWriter.
func (g *ranged) WriteHeader(status int) {
	if status != http.StatusRequestedRangeNotSatisfiable {
		g.ResponseWriter.WriteHeader(status)
		return
	}
	g.refused = true
	g.e.Refuse(g.ResponseWriter, g.r, fault.New(fault.OutOfRange, "OUT_OF_RANGE", "the file does not have these bytes"))
}

// Write implements io.Writer.
func (g *ranged) Write(p []byte) (int, error) {
	if g.refused {
		return len(p), nil
	}
	return g.ResponseWriter.Write(p)
}

// Unwrap returns the writer behind it to http.ResponseController.
func (g *ranged) Unwrap() http.ResponseWriter { return g.ResponseWriter }
