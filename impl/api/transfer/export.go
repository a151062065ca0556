package transfer

import (
	"context"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-id/writ/gen/db"
	authenticatorv3 "github.com/writ-id/writ/gen/proto/writ/authenticator/v3alpha"
	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/transfer"
)

// Selection is what of an instance is exported.
type Selection struct {
	OrgIDs, ExcludedOrgIDs []string // no OrgIDs: all
	Asked                  transfer.Asked
}

// Progress hears how many items went by, and of how many, which is 0 while unknown.
type Progress func(items, total uint64)

// reportEvery is after how many items progress is told.
const reportEvery = 1000

// Check refuses organizations that there are not, by name.
func (s *Service) Check(ctx context.Context, instanceID string, of Selection) error {
	for _, list := range []struct {
		field string
		ids   []string
	}{{"org_ids", of.OrgIDs}, {"excluded_org_ids", of.ExcludedOrgIDs}} {
		unknown, err := db.New().UnknownOrganizations(ctx, s.DB.Pool, db.UnknownOrganizationsParams{InstanceID: instanceID, Ids: list.ids})
		if err != nil {
			return err
		}
		if len(unknown) > 0 {
			return fault.Invalid("ORGANIZATION_NOT_FOUND", list.field, "there are no organizations %s", strings.Join(unknown, ", "))
		}
	}
	return nil
}

// Export writes what is selected of an instance, as it is at one moment. What is written
// without an error is a whole file.
func (s *Service) Export(ctx context.Context, instanceID string, of Selection, to io.Writer, progress Progress) (*transferv1.Summary, error) {
	if err := s.Check(ctx, instanceID, of); err != nil {
		return nil, err
	}
	summary := &transferv1.Summary{Time: timestamppb.New(s.Now())}
	err := pgx.BeginTxFunc(ctx, s.DB.Pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if err := db.New().LongTransaction(ctx, tx); err != nil {
			return err
		}
		e := &export{Service: s, tx: tx, instanceID: instanceID, asked: of.Asked, out: transfer.NewWriter(to, storage.Moved), summary: summary, progress: progress}
		e.all = len(of.OrgIDs)+len(of.ExcludedOrgIDs) == 0
		orgs, err := db.New().OrganizationIDs(ctx, tx, db.OrganizationIDsParams{InstanceID: instanceID, OrgIds: resource.NotNull(of.OrgIDs), Excluded: resource.NotNull(of.ExcludedOrgIDs)})
		if err != nil {
			return err
		}
		e.orgs = resource.NotNull(orgs)
		return e.run(ctx)
	})
	return summary, err
}

// export is one under way.
type export struct {
	*Service
	tx         pgx.Tx
	instanceID string
	orgs       []string
	all        bool
	asked      transfer.Asked
	out        *transfer.Writer
	summary    *transferv1.Summary
	progress   Progress
	items      uint64
	total      uint64
}

func (e *export) run(ctx context.Context) error {
	if e.all {
		n, err := db.New().RowsOf(ctx, e.tx, db.RowsOfParams{InstanceID: e.instanceID, Tables: tables()})
		if err != nil {
			return err
		}
		e.total = uint64(max(n, 0))
	}
	for _, kind := range storage.Moved {
		if err := e.kind(ctx, kind); err != nil {
			return err
		}
	}
	behind, err := db.New().CredentialsBehind(ctx, e.tx, db.CredentialsBehindParams{InstanceID: e.instanceID, OrgIds: e.orgs})
	if err != nil {
		return err
	}
	for _, one := range behind {
		e.behind(one.Kind, one.OrgID, uint64(one.Count), "NOT_INCLUDED")
	}
	e.progress(e.items, e.items)
	return e.out.Close(e.summary)
}

// tables are the names of those that move.
func tables() []string {
	names := make([]string, len(storage.Moved))
	for i, kind := range storage.Moved {
		names[i] = kind.Table
	}
	return names
}

// behind notes what is not carried.
func (e *export) behind(kind, orgID string, count uint64, reason string) {
	e.summary.Behind = append(e.summary.Behind, &transferv1.Behind{Kind: kind, OrgId: orgID, Count: count, Reason: reason, Message: sentence(reason)})
}

func (e *export) kind(ctx context.Context, kind *transfer.Kind) error {
	sql, args := kind.Export, []any{e.instanceID}
	if !e.all {
		sql, args = kind.ExportOf, append(args, e.orgs)
	}
	rows, err := e.tx.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	at := transfer.Arrival{InstanceID: e.instanceID, Sealer: e.Sealer}
	var count uint64
	without := map[string]uint64{} // one-time passwords that were not asked for, by organization
	for rows.Next() {
		item, err := kind.Scan(rows, e.asked, at)
		if err != nil {
			return err
		}
		switch m := item.(type) {
		case *transferv1.TransferUser:
			tidy(m)
		case *transferv1.TransferAuthenticator:
			if m.GetType() == totp && len(m.GetSecret()) == 0 {
				without[m.GetOrgId()]++
				continue
			}
		}
		if err := e.out.Item(kind, item); err != nil {
			return err
		}
		count++
		if e.items++; e.items%reportEvery == 0 {
			e.progress(e.items, e.total)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	e.summary.Carried = append(e.summary.Carried, &transferv1.Carried{Kind: kind.Name, Count: count})
	for _, org := range e.orgs {
		if without[org] > 0 {
			e.behind(kind.Name, org, without[org], "OTP_NOT_ASKED_FOR")
		}
	}
	if e.all || kind.Behind == "" {
		return nil
	}
	return e.outside(ctx, kind)
}

const totp = authenticatorv3.SecondFactorType_SECOND_FACTOR_TYPE_TOTP

// outside counts what refers to organizations that are not exported.
func (e *export) outside(ctx context.Context, kind *transfer.Kind) error {
	rows, err := e.tx.Query(ctx, kind.Behind, e.instanceID, e.orgs)
	if err != nil {
		return err
	}
	var org string
	var count int64
	_, err = pgx.ForEachRow(rows, []any{&org, &count}, func() error {
		e.behind(kind.Name, org, uint64(count), "REFERS_ELSEWHERE")
		return nil
	})
	return err
}
