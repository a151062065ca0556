package transfer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-id/writ/gen/db"
	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	"github.com/writ-id/writ/impl/core/background"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
)

const (
	// kept is how long an operation and its result can be asked for.
	kept = 24 * time.Hour
	// beat is how often a running operation tells that it is there, and lease how long it may
	// be silent.
	beat, lease = 2 * time.Second, 30 * time.Second
	// part is how many bytes of a result are in a row of their own.
	part = 1 << 20
)

// work is what an operation does; out takes what it exports.
type work func(ctx context.Context, out io.Writer, progress Progress) (proto.Message, error)

// start has something run by itself, until it ends or the node does.
func (s *Service) start(ctx context.Context, of transferv1.OperationType, instanceID, by, id string, limit time.Duration, do work) (*transferv1.TransferOperation, error) {
	row, err := db.New().AddOperation(ctx, s.DB.Pool, db.AddOperationParams{
		InstanceID: instanceID, ID: id, Type: int16(of), Creator: by, Seconds: lease.Seconds(), Now: s.Now(), ExpirationDate: s.Now().Add(kept),
	})
	if err != nil {
		return nil, err
	}
	s.running.Go(func() {
		(&operation{Service: s, row: row}).run(limit, do)
	})
	return shown(&row)
}

// Stop ends what runs by itself, and waits for that.
func (s *Service) Stop() {
	s.stop()
	s.running.Wait()
}

// operation is one that runs here.
type operation struct {
	*Service
	row db.Operation

	mu           sync.Mutex
	items, total uint64
}

var (
	errCanceled = errors.New("transfer: cancelled")
	errStopping = fault.New(fault.Unavailable, "NODE_STOPPED", "the node that ran it was stopped; it left nothing")
)

func (o *operation) run(limit time.Duration, do work) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	defer context.AfterFunc(o.stopping, func() { cancel(errStopping) })()
	ctx, end := context.WithTimeoutCause(ctx, limit, errTimeout)
	defer end()
	beating := make(chan struct{})
	go func() {
		defer close(beating)
		o.beat(ctx, cancel)
	}()
	out := &parts{o: o, ctx: ctx}
	outcome, err := do(ctx, out, o.progress)
	if err == nil {
		err = out.close()
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	cancel(nil)
	<-beating
	if err := o.end(outcome, out.size, err); err != nil {
		o.Logger.Error("the end of an operation is not noted", "operation", o.row.ID, "err", err)
	}
}

func (o *operation) progress(items, total uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.items, o.total = items, total
}

func (o *operation) so() (items, total int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return int64(o.items), int64(o.total)
}

// beat tells that the operation is there, and ends it when that is asked for.
func (o *operation) beat(ctx context.Context, cancel context.CancelCauseFunc) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(beat):
		}
		items, total := o.so()
		ends, err := db.New().BeatOperation(ctx, o.DB.Pool, db.BeatOperationParams{
			InstanceID: o.row.InstanceID, ID: o.row.ID, Items: items, Total: total, Now: o.Now(), Seconds: lease.Seconds(),
		})
		if ends || store.NoRow(err) { // or another node thinks that this one is gone
			cancel(errCanceled)
			return
		}
	}
}

// end notes what came of it.
func (o *operation) end(outcome proto.Message, size int64, err error) error {
	items, total := o.so()
	p := db.EndOperationParams{
		InstanceID: o.row.InstanceID, ID: o.row.ID, State: int16(transferv1.OperationState_OPERATION_STATE_SUCCEEDED),
		Items: items, Total: max(items, total), Size: size, Now: o.Now(), ExpirationDate: o.Now().Add(kept),
	}
	if _, exported := outcome.(*transferv1.Summary); outcome != nil && outcome.ProtoReflect().IsValid() && (err == nil || !exported) {
		text, err := protojson.Marshal(outcome)
		if err != nil {
			return err
		}
		p.Outcome = text
	}
	switch refusal, refused := errors.AsType[*fault.Error](err); {
	case err == nil:
	case errors.Is(err, errCanceled):
		p.State = int16(transferv1.OperationState_OPERATION_STATE_CANCELED)
	case refused:
		p.State, p.ErrorReason, p.ErrorMessage = int16(transferv1.OperationState_OPERATION_STATE_FAILED), refusal.Reason, refusal.Message
	default:
		o.Logger.Error("an operation failed", "operation", o.row.ID, "err", store.Explain(err))
		p.State, p.ErrorReason, p.ErrorMessage = int16(transferv1.OperationState_OPERATION_STATE_FAILED), "INTERNAL", "internal error"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err = db.New().EndOperation(ctx, o.DB.Pool, p)
	return err
}

// parts stores what is written in rows of one length each.
type parts struct {
	o      *operation
	ctx    context.Context //nolint:containedctx // of the one stream that it is
	buffer bytes.Buffer
	number int64
	size   int64
}

// Write implements io.Writer.
func (p *parts) Write(text []byte) (int, error) {
	p.size += int64(len(text))
	p.buffer.Write(text)
	for p.buffer.Len() >= part {
		if err := p.store(p.buffer.Next(part)); err != nil {
			return 0, err
		}
	}
	return len(text), nil
}

func (p *parts) close() error {
	if p.buffer.Len() == 0 {
		return nil
	}
	return p.store(p.buffer.Bytes())
}

var (
	packer, _   = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1))
	unpacker, _ = zstd.NewReader(nil, zstd.WithDecoderMaxMemory(2*part), zstd.WithDecoderConcurrency(1))
)

func placeOf(instanceID, id string, number int64) string {
	return secret.Place("operation_chunks", instanceID, id, strconv.FormatInt(number, 10))
}

func (p *parts) store(text []byte) error {
	row := &p.o.row
	sealed, err := p.o.Sealer.Seal(packer.EncodeAll(text, nil), placeOf(row.InstanceID, row.ID, p.number))
	if err != nil {
		return err
	}
	err = db.New().AddOperationChunk(p.ctx, p.o.DB.Pool, db.AddOperationChunkParams{InstanceID: row.InstanceID, OperationID: row.ID, Number: p.number, Content: sealed})
	p.number++
	return err
}

// result reads what an operation exported, from any place on.
type result struct {
	*Service
	ctx    context.Context //nolint:containedctx // of the one request that reads it
	row    *db.Operation
	at     int64
	number int64 // of text
	text   []byte
}

// Seek implements io.Seeker.
func (r *result) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.row.Size
	}
	r.at = offset
	return offset, nil
}

// Read implements io.Reader.
func (r *result) Read(p []byte) (int, error) {
	if r.at >= r.row.Size {
		return 0, io.EOF
	}
	if number := r.at / part; r.text == nil || number != r.number {
		sealed, err := db.New().OperationChunk(r.ctx, r.DB.Pool, db.OperationChunkParams{InstanceID: r.row.InstanceID, OperationID: r.row.ID, Number: number})
		if err != nil {
			return 0, err
		}
		packed, err := r.Sealer.Open(sealed, placeOf(r.row.InstanceID, r.row.ID, number))
		if err != nil {
			return 0, err
		}
		if r.text, err = unpacker.DecodeAll(packed, nil); err != nil {
			return 0, err
		}
		r.number = number
	}
	from := r.at % part
	if from >= int64(len(r.text)) {
		return 0, io.ErrUnexpectedEOF
	}
	n := copy(p, r.text[from:])
	r.at += int64(n)
	return n, nil
}

// shown is an operation as it is told of.
func shown(row *db.Operation) (*transferv1.TransferOperation, error) {
	o := &transferv1.TransferOperation{
		Id: row.ID, Type: transferv1.OperationType(row.Type), State: transferv1.OperationState(row.State),
		Items: uint64(row.Items), Total: uint64(row.Total), Size: uint64(row.Size),
		CreationDate: timestamppb.New(row.CreationDate), ChangeDate: timestamppb.New(row.ChangeDate), ExpirationDate: timestamppb.New(row.ExpirationDate),
	}
	if row.ErrorReason != "" {
		o.Error = &transferv1.OperationError{Reason: row.ErrorReason, Message: row.ErrorMessage}
	}
	if len(row.Outcome) == 0 {
		return o, nil
	}
	if o.GetType() == transferv1.OperationType_OPERATION_TYPE_EXPORT {
		o.Summary = &transferv1.Summary{}
		return o, protojson.Unmarshal(row.Outcome, o.GetSummary())
	}
	o.Report = &transferv1.ImportReport{}
	return o, protojson.Unmarshal(row.Outcome, o.GetReport())
}

// Task forgets operations.
func (s *Service) Task() background.Task {
	return background.Task{Name: "sweeping operations", Every: 30 * time.Second, Alone: true, Do: func(ctx context.Context) (bool, error) {
		_, err := db.New().SweepOperations(ctx, s.DB.Pool, s.Now())
		return false, err
	}}
}
