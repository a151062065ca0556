package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/transfer"
)

// OnConflict says what becomes of what is there already.
type OnConflict int

// What becomes of it.
const (
	Refuse OnConflict = iota // nothing is imported
	Skip                     // it stays as it is
	Update                   // it becomes what the file says
)

// Plan is how something is imported.
type Plan struct {
	InstanceID string
	By         string       // the user who imports
	From       event.Origin // where they asked from
	ImportID   string
	DryRun     bool
	OnConflict OnConflict
}

const (
	// copied is how many rows are sent to a staging table at once, and stored is how many
	// are stored by one statement: what is between is held in memory.
	copied, stored = 500, 50_000
	// maxLost bounds how many items a report names.
	maxLost = 1000
)

// errDry ends the transaction of a dry run.
var errDry = errors.New("transfer: a dry run")

// Import stores all that a source has, or nothing. It returns a report also when what is
// there already is in the way.
func (s *Service) Import(ctx context.Context, from transfer.Source, plan Plan, progress Progress) (*transferv1.ImportReport, error) {
	in := &importing{Service: s, Plan: plan, progress: progress, staged: map[*transfer.Kind]int64{}, made: map[*transfer.Kind]bool{}, outcomes: map[place]*transferv1.Outcome{}, report: &transferv1.ImportReport{ImportId: plan.ImportID, DryRun: plan.DryRun}}
	err := s.alone(ctx, plan.InstanceID, func(tx pgx.Tx) error {
		in.tx = tx
		if err := in.run(ctx, from); err != nil {
			return err
		}
		if plan.DryRun {
			return errDry
		}
		return nil
	})
	if errors.Is(err, errDry) {
		return in.report, nil
	}
	if err != nil {
		in.undone()
		return in.report, explained(err)
	}
	s.DB.Committed()
	s.Invalidate()
	return in.report, nil
}

// errElsewhere says that another node imports into the instance.
var errElsewhere = errors.New("transfer: another import runs")

// alone does something in a transaction and a place of the node when no other node imports into
// the instance. A wait for that one has neither.
func (s *Service) alone(ctx context.Context, instanceID string, do func(tx pgx.Tx) error) error {
	for {
		err := s.working(ctx, instanceID, func() error {
			return pgx.BeginFunc(ctx, s.DB.Pool, func(tx pgx.Tx) error {
				free, err := db.New().LockImports(ctx, tx, instanceID)
				if err == nil && !free {
					err = errElsewhere
				}
				if err != nil {
					return err
				}
				return do(tx)
			})
		})
		if !errors.Is(err, errElsewhere) {
			return err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// importing is one under way.
type importing struct {
	*Service
	Plan
	tx       pgx.Tx
	progress Progress
	staged   map[*transfer.Kind]int64 // how many came
	made     map[*transfer.Kind]bool  // of which some can be carried, in a staging table
	outcomes map[place]*transferv1.Outcome
	report   *transferv1.ImportReport
	conflict bool
	items    uint64
}

func (in *importing) run(ctx context.Context, from transfer.Source) error {
	if err := db.New().LongTransaction(ctx, in.tx); err != nil {
		return err
	}
	if _, err := in.tx.Exec(ctx, statements.SQL("NoteEvents")); err != nil {
		return err
	}
	if err := in.stage(ctx, from); err != nil {
		return err
	}
	for _, kind := range storage.Moved {
		if !in.made[kind] {
			continue
		}
		if err := in.store(ctx, kind); err != nil {
			return fmt.Errorf("%s: %w", kind.Name, err)
		}
		if err := in.note(ctx, kind); err != nil {
			return fmt.Errorf("%s: %w", kind.Name, err)
		}
	}
	if err := in.organizations(ctx); err != nil {
		return err
	}
	if in.conflict && in.OnConflict == Refuse {
		in.undone()
		return fault.New(fault.AlreadyExists, "IMPORT_CONFLICT", "something of this is there already; nothing was imported").Telling(in.report)
	}
	if !in.DryRun {
		if _, err := in.tx.Exec(ctx, statements.SQL("AppendEvents")); err != nil {
			return err
		}
	}
	if in.made[storage.MovedOrganizations] {
		if err := in.domains(ctx); err != nil {
			return err
		}
	}
	return in.organizations(ctx)
}

// organizations puts into the report how those are called in which something is.
func (in *importing) organizations(ctx context.Context) error {
	var ids []string
	for at := range in.outcomes {
		if at.orgID != "" {
			ids = append(ids, at.orgID)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	rows, err := db.New().ImportedOrganizations(ctx, in.tx, db.ImportedOrganizationsParams{InstanceID: in.InstanceID, Ids: ids[:min(len(ids), maxLost)]})
	in.report.Organizations = nil
	for _, row := range rows {
		in.report.Organizations = append(in.report.Organizations, &transferv1.ImportedOrganization{Id: row.ID, Name: row.Name, PrimaryDomain: row.Domain})
	}
	return err
}

// domains gives the organizations of the file that have no primary domain the one that
// creating them would have: login names end in it, and what the file says may be taken.
func (in *importing) domains(ctx context.Context) error {
	without, err := in.tx.Query(ctx, statements.SQL("WithoutDomain"), in.InstanceID)
	if err != nil {
		return err
	}
	orgs, err := pgx.CollectRows(without, func(row pgx.CollectableRow) (*db.OrganizationRow, error) {
		org := &db.OrganizationRow{InstanceID: in.InstanceID}
		return org, row.Scan(&org.ID, &org.Name)
	})
	if err != nil {
		return err
	}
	ctx = policy.As(ctx, policy.Context{InstanceID: in.InstanceID}, in.By, in.Roles)
	for _, one := range orgs {
		if err := in.orgs.In(in.tx).AddDefaultDomain(ctx, in.tx, one); err != nil {
			return err
		}
	}
	return nil
}

// rows are some for one staging table.
type rows struct {
	kind   *transfer.Kind
	values [][]any
}

// stage reads the source and fills the staging tables, one making rows while the other
// sends them.
func (in *importing) stage(ctx context.Context, from transfer.Source) error {
	group, ctx := errgroup.WithContext(ctx)
	full := make(chan rows, 2)
	group.Go(func() error {
		defer close(full)
		return in.read(ctx, from, full)
	})
	group.Go(func() error {
		for some := range full {
			if !in.made[some.kind] {
				in.made[some.kind] = true
				if _, err := in.tx.Exec(ctx, some.kind.Stage); err != nil {
					return err
				}
			}
			columns := append([]string{"item"}, some.kind.Columns...)
			if _, err := in.tx.CopyFrom(ctx, pgx.Identifier{"staged_" + some.kind.Table}, columns, pgx.CopyFromRows(some.values)); err != nil {
				return err
			}
		}
		return nil
	})
	return group.Wait()
}

func (in *importing) read(ctx context.Context, from transfer.Source, full chan<- rows) error {
	waiting := map[*transfer.Kind][][]any{}
	send := func(kind *transfer.Kind) error {
		select {
		case full <- rows{kind, waiting[kind]}:
			waiting[kind] = nil
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	at := transfer.Arrival{InstanceID: in.InstanceID, Now: in.Now().Truncate(1000), Sealer: in.Sealer}
	for {
		kind, item, err := from.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if in.items++; in.items%reportEvery == 0 {
			in.progress(in.items, 0)
		}
		if user, ok := item.(*transferv1.TransferUser); ok {
			tidy(user)
		}
		err = in.rules.Check(item)
		var reason, without string
		if err == nil {
			reason, without, err = in.prepare(item)
		}
		if refusal, ok := errors.AsType[*fault.Error](err); ok {
			return refusal.Within(fmt.Sprintf("%s[%d]", kind.Name, in.staged[kind]))
		}
		if err != nil {
			return err
		}
		in.staged[kind]++
		if reason != "" {
			in.lose(kind, item, reason)
			continue
		}
		if without != "" { // it is carried, and so not counted
			id, org := kind.Names(item)
			in.lost(&transferv1.Lost{Kind: kind.Name, Id: id, OrgId: org, Reason: without, Message: sentence(without)})
		}
		values, err := kind.Values(item, at)
		if err != nil {
			return err
		}
		waiting[kind] = append(waiting[kind], append([]any{in.staged[kind]}, values...))
		if len(waiting[kind]) == copied {
			if err := send(kind); err != nil {
				return err
			}
		}
	}
	for _, kind := range storage.Moved {
		if len(waiting[kind]) > 0 {
			if err := send(kind); err != nil {
				return err
			}
		}
	}
	return nil
}

// lose notes an item that is not carried, before it is staged.
func (in *importing) lose(kind *transfer.Kind, item transfer.Item, reason string) {
	id, org := kind.Names(item)
	in.lost(&transferv1.Lost{Kind: kind.Name, Id: id, OrgId: org, Reason: reason, Message: sentence(reason)})
	in.outcome(org, kind).NotCarried++
	in.report.TotalNotCarried++
}

func (in *importing) lost(one *transferv1.Lost) {
	if len(in.report.GetNotCarried()) < maxLost {
		in.report.NotCarried = append(in.report.NotCarried, one)
	}
}

// outcome is what is reported of a kind in an organization.
func (in *importing) outcome(orgID string, kind *transfer.Kind) *transferv1.Outcome {
	at := place{orgID, kind}
	if in.outcomes[at] == nil {
		in.outcomes[at] = &transferv1.Outcome{OrgId: orgID, Kind: kind.Name}
		in.report.Outcomes = append(in.report.Outcomes, in.outcomes[at])
	}
	return in.outcomes[at]
}

// place is a list of the file, and an organization.
type place struct {
	orgID string
	kind  *transfer.Kind
}

// store stores what of a kind can be.
func (in *importing) store(ctx context.Context, kind *transfer.Kind) error {
	staged := "staged_" + kind.Table // a name of ours
	for _, sql := range []string{statements.SQL("IndexItems", "staged", staged), statements.SQL("AnalyzeItems", "staged", staged)} {
		if _, err := in.tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	for _, sql := range kind.Find {
		if _, err := in.tx.Exec(ctx, sql, in.InstanceID); err != nil {
			return err
		}
	}
	for _, sql := range slices.Concat(kind.Missing, beyond[kind]) {
		if _, err := in.tx.Exec(ctx, sql, in.InstanceID, in.OnConflict == Update); err != nil {
			return err
		}
	}
	payload := string((&eventv1.UserImported{ImportId: in.ImportID}).AppendJSON(nil)) // that of all of them
	for first := int64(1); first <= in.staged[kind]; first += stored {
		last := first + stored - 1
		if err := in.batch(ctx, kind, staged, first, last, payload); err != nil {
			return err
		}
		in.progress(in.items, in.items)
	}
	return nil
}

func (in *importing) batch(ctx context.Context, kind *transfer.Kind, staged string, first, last int64, payload string) error {
	var wanted int64
	if err := in.tx.QueryRow(ctx, statements.SQL("CountWanted", "staged", staged), first, last).Scan(&wanted); err != nil {
		return err
	}
	args := []any{in.InstanceID, in.Now(), first, last, in.By, payload, in.From.ClientAddress, in.From.Traceparent}
	done, err := in.tx.Exec(ctx, kind.Insert, args...)
	if err != nil {
		return err
	}
	if done.RowsAffected() != wanted {
		for _, sql := range kind.Taken {
			if _, err := in.tx.Exec(ctx, sql, in.InstanceID, first, last); err != nil {
				return err
			}
		}
	}
	if in.OnConflict != Update {
		return nil
	}
	if _, err := in.tx.Exec(ctx, kind.Unchanged, in.InstanceID, first, last); err != nil || kind.Update == "" {
		return err
	}
	if _, err := in.tx.Exec(ctx, kind.Update, args...); err != nil {
		return err
	}
	_, err = in.tx.Exec(ctx, kind.Updated, in.InstanceID, first, last)
	return err
}

// undone has the report say that nothing was imported: what would have been is not carried.
func (in *importing) undone() {
	for _, one := range in.report.GetOutcomes() {
		n := one.GetCreated() + one.GetUpdated()
		one.NotCarried += n
		in.report.TotalNotCarried += n
		one.Created, one.Updated = 0, 0
	}
}

// note puts into the report what became of a kind.
func (in *importing) note(ctx context.Context, kind *transfer.Kind) error {
	counts, err := in.tx.Query(ctx, kind.Outcome)
	if err != nil {
		return err
	}
	var org, why string
	var n int64
	if _, err := pgx.ForEachRow(counts, []any{&org, &why, &n}, func() error {
		outcome := in.outcome(org, kind)
		switch why {
		case "":
			outcome.Created += uint64(n)
		case transfer.Updated:
			outcome.Updated += uint64(n)
		case transfer.Unchanged:
			outcome.Skipped += uint64(n)
		case transfer.Exists:
			in.conflict = true
			outcome.Skipped += uint64(n)
		case transfer.Elsewhere, transfer.Used, transfer.Duplicated, transfer.Taken:
			in.conflict = true
			fallthrough
		default:
			outcome.NotCarried += uint64(n)
			in.report.TotalNotCarried += uint64(n)
		}
		return nil
	}); err != nil {
		return err
	}
	left := maxLost - len(in.report.GetNotCarried())
	marked, err := in.tx.Query(ctx, kind.Marked, left)
	if err != nil {
		return err
	}
	var id string
	_, err = pgx.ForEachRow(marked, []any{&id, &org, &why}, func() error {
		if why != transfer.Exists || in.OnConflict == Refuse {
			in.lost(&transferv1.Lost{Kind: kind.Name, Id: id, OrgId: org, Reason: why, Message: sentence(why)})
		}
		return nil
	})
	return err
}

// explained turns what the database refuses into what is wrong with the file.
func explained(err error) error {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return err
	}
	switch refused.Code {
	case "23505": // an update takes what another row has
		return fault.New(fault.AlreadyExists, "IMPORT_CONFLICT", "%s: what has to be unique is taken: %s", refused.TableName, refused.Detail).Because(err)
	case "23503", "23514":
		return fault.Invalid("INCONSISTENT_FILE", "", "%s: the file contradicts itself (%s): %s", refused.TableName, refused.ConstraintName, refused.Detail).Because(err)
	case "22001", "22021", "22P05", "54000":
		return fault.Invalid("INVALID_FIELD", "", "%s: %s", refused.TableName, refused.Message).Because(err)
	}
	return store.Explain(err)
}
