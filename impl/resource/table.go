package resource

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/event"
	"github.com/writ-id/writ/impl/fault"
	"github.com/writ-id/writ/impl/policy"
	"github.com/writ-id/writ/impl/store"
)

// Env is what every service of resources needs; every field is required.
type Env struct {
	DB         *store.DB
	Now        func() time.Time
	NewID      func() string
	Invalidate func() // drops what package policy remembers, on this node
}

// Spec says of a table what its model and the contract do not tell.
type Spec struct {
	Table string // for example projects
	Kind  string // what one row is, for people and in field names: project

	// Columns that say where a row is, when they are not called org_id,
	// project_id, project_grant_id and user_id.
	Org, Project, ProjectGrant, User string
	// Reader is the column of another organization that may read a row, but not
	// change it.
	Reader string
	// System is set for a table of the system, which has no instance_id.
	System bool
	// Under is the column an ID is unique in, when that is not the instance: user_id
	// for the keys of a user's metadata. Get, Lock, Change and Delete then need it
	// as a Key.
	Under string
	// OfUsers is set for users and for what is theirs: nobody changes or deletes what is
	// of a user who holds roles that they could not give (policy.Call.MayBecome).
	OfUsers bool
	// Aggregate is the column with the ID of the object that the events are about,
	// when that is not the row's own.
	Aggregate string

	// Fields maps the paths of fields, or their ends, to columns where the two are
	// not called alike: email_address (of email.address) to email.
	Fields map[string]string

	// Growing are columns that only grow: storing a row that was read before another
	// statement of the transaction raised one does not take that back.
	Growing []string

	// Remembered is set when package policy remembers something of the rows: then
	// every node hears of changes and deletions.
	Remembered bool
	// RememberedNew is set when this holds for new rows too.
	RememberedNew bool

	// Counted are columns of few values, each shared by many rows, whose totals
	// triggers keep (count_values in 00003_resources.sql).
	Counted []string
	// Sort maps sorting columns (in lower case, without prefix) to SQL, when they
	// are not columns of that name.
	Sort map[string]string
	// Filters holds the filters, by name in the contract, that do not compare the
	// column of their name.
	Filters map[string]FilterFunc
	// Refusals holds the refusals for violated constraints that do not follow
	// the pattern of names, <table>_<column>_key and <table>_<object>_fkey.
	Refusals map[string]func() *fault.Error
}

// Table is the one code path of all resources: it creates, reads, changes,
// deletes and searches rows of the type R, which is the model that sqlc
// generates from the migrations (conventions: 00003_resources.sql). R may embed
// that model beside fields with a tag sql:"…", which are computed on reading.
//
// Every read asks, by the columns that say where the row is, whether the caller
// may do this there; what it may not reach does not exist for it (SEC-232). The
// statements are made once, of names that the program holds; values are always
// parameters (SEC-240).
type Table[R any] struct {
	Spec
	Env
	columns []column // those that are stored first
	stored  int
	byName  map[string]*column
	place   [4]*column // organization, project, grant of a project, user
	reader  *column
	twins   []twin
	plans   plans

	selectSQL, insertSQL, updateSQL string
}

// NewTable returns the table of a spec. It panics when R and the spec do not fit
// together, a defect that the first start finds.
func NewTable[R any](env Env, spec Spec) *Table[R] {
	t := &Table[R]{Spec: spec, Env: env, byName: map[string]*column{}}
	var computed []column
	t.read(reflect.TypeFor[R](), nil, &computed)
	t.stored = len(t.columns)
	t.columns = append(t.columns, computed...)
	for i := range t.columns {
		t.byName[t.columns[i].name] = &t.columns[i]
	}
	for _, name := range []string{"id", "sequence", "creation_date", "change_date"} {
		t.column(name)
	}
	for i, names := range [4][2]string{{spec.Org, "org_id"}, {spec.Project, "project_id"}, {spec.ProjectGrant, "project_grant_id"}, {spec.User, "user_id"}} {
		if names[0] != "" {
			t.place[i] = t.column(names[0])
		} else {
			t.place[i] = t.byName[names[1]]
		}
	}
	if spec.Reader != "" {
		t.reader = t.column(spec.Reader)
	}
	for name, folded := range t.byName {
		if text, ok := strings.CutSuffix(name, "_folded"); ok {
			t.twins = append(t.twins, twin{t.column(text), folded})
		}
	}
	t.prepare()
	return t
}

// instanceOf returns the instance a row belongs to; "" for the system.
func (t *Table[R]) instanceOf(row reflect.Value) string { return t.byName["instance_id"].text(row) }

// objectOf returns the ID of the object that the events of a row are about.
func (t *Table[R]) objectOf(row reflect.Value) string {
	if t.Aggregate != "" {
		return t.column(t.Aggregate).text(row)
	}
	return t.byName["id"].text(row)
}

// placeOf returns where a row is.
func (t *Table[R]) placeOf(row reflect.Value) policy.Place {
	return policy.Place{
		InstanceID: t.instanceOf(row),
		OrgID:      t.place[0].text(row), ProjectID: t.place[1].text(row), ProjectGrantID: t.place[2].text(row), UserID: t.place[3].text(row),
	}
}

// ownerOf returns the context a row belongs to.
func (t *Table[R]) ownerOf(row reflect.Value) *object.Owner {
	instanceID, orgID := t.instanceOf(row), t.byName["org_id"].text(row)
	switch {
	case orgID != "":
		return &object.Owner{Type: object.OwnerType_OWNER_TYPE_ORG, Id: orgID}
	case instanceID != "":
		return &object.Owner{Type: object.OwnerType_OWNER_TYPE_INSTANCE, Id: instanceID}
	}
	return &object.Owner{Type: object.OwnerType_OWNER_TYPE_SYSTEM}
}

// Details returns the details record of a row.
func (t *Table[R]) Details(row *R) *object.Details {
	v := reflect.ValueOf(row)
	return Details(t.byName["id"].text(v), t.byName["sequence"].value(v).Int(),
		t.byName["change_date"].value(v).Interface().(time.Time), t.ownerOf(v))
}

// Key is a column and the value it has to have, for example the user a key
// belongs to.
type Key struct {
	Column string
	Value  any
}

// where returns the condition and parameters of one row.
func (t *Table[R]) where(call *policy.Call, id string, keys []Key) (string, []any) {
	condition, args := "t.id = $1", []any{id}
	if !t.System {
		condition, args = condition+" AND t.instance_id = $2", append(args, call.Context.InstanceID)
	}
	for _, key := range keys {
		args = append(args, key.Value)
		condition += fmt.Sprintf(" AND %s = $%d", t.column(key.Column).sql, len(args))
	}
	return condition, args
}

// Get reads a row by ID, and by more keys where its address has them.
func (t *Table[R]) Get(ctx context.Context, id string, keys ...Key) (*R, error) {
	return t.one(ctx, t.DB.Conn(ctx), "", id, keys)
}

// Lock reads a row and keeps others from changing or deleting it until the
// transaction ends.
func (t *Table[R]) Lock(ctx context.Context, tx pgx.Tx, id string, keys ...Key) (*R, error) {
	row, err := t.one(ctx, tx, " FOR NO KEY UPDATE OF t", id, keys)
	if err == nil {
		err = t.mayChange(ctx, tx, row)
	}
	return row, err
}

// Hold reads a row and keeps others from changing or deleting it until the
// transaction ends; others may hold it too. It is for what is created below the
// row or refers to it.
func (t *Table[R]) Hold(ctx context.Context, tx pgx.Tx, id string, keys ...Key) (*R, error) {
	return t.one(ctx, tx, " FOR SHARE OF t", id, keys)
}

// mayChange refuses to change what is of a user who holds more than the caller.
func (t *Table[R]) mayChange(ctx context.Context, tx pgx.Tx, row *R) error {
	if !t.OfUsers {
		return nil
	}
	at := t.placeOf(reflect.ValueOf(row))
	return policy.CallFrom(ctx).MayBecome(ctx, tx, at.InstanceID, at.UserID)
}

// Unused refuses an ID that an object of this kind has or had: IDs are never
// given twice (SEC-219). aggregate is what its events belong to.
func (t *Table[R]) Unused(ctx context.Context, tx pgx.Tx, id, aggregate string) error {
	used, err := db.New().EverUsed(ctx, tx, db.EverUsedParams{
		InstanceID: policy.CallFrom(ctx).Context.InstanceID, AggregateType: aggregate, AggregateID: id,
	})
	if err == nil && used {
		err = t.IDTaken()
	}
	return err
}

func (t *Table[R]) one(ctx context.Context, tx db.DBTX, lock, id string, keys []Key) (*R, error) {
	call := policy.CallFrom(ctx)
	condition, args := t.where(call, id, keys)
	row := new(R)
	err := tx.QueryRow(ctx, t.selectSQL+condition+lock, args...).Scan(t.targets(row)...)
	v := reflect.ValueOf(row)
	reached := call.Reaches(t.placeOf(v)) // asked even when there is none
	if lock == "" && t.reader != nil {
		reached = reached || call.Reaches(policy.Place{InstanceID: t.instanceOf(v), OrgID: t.reader.text(v)})
	}
	if store.NoRow(err) || err == nil && !reached {
		return nil, t.Missing(id)
	}
	return row, err
}

// targets returns where the columns of a row are scanned to.
func (t *Table[R]) targets(row *R) []any {
	v := reflect.ValueOf(row)
	targets := make([]any, len(t.columns))
	for i := range t.columns {
		targets[i] = t.columns[i].value(v).Addr().Interface()
	}
	return targets
}

// args returns the parameters of a row and its event.
func (t *Table[R]) args(ctx context.Context, row *R, payload event.Payload) []any {
	v := reflect.ValueOf(row)
	for _, twin := range t.twins {
		twin.folded.value(v).SetString(Fold(twin.text.text(v)))
	}
	args := make([]any, t.stored, t.stored+eventParameters)
	for i := range args {
		column := t.columns[i].value(v)
		if column.Kind() == reflect.Slice && column.IsNil() && column.Type().Elem().Kind() != reflect.Uint8 {
			column.Set(reflect.MakeSlice(column.Type(), 0, 0)) // a list is never NULL
		}
		args[i] = column.Interface()
	}
	return append(args, event.Columns(t.event(ctx, v, payload))...)
}

// event returns the event of the last change to a row.
func (t *Table[R]) event(ctx context.Context, row reflect.Value, payload event.Payload) event.Event {
	return event.Event{
		InstanceID: t.instanceOf(row), ObjectID: t.objectOf(row), Payload: payload,
		Creator: policy.CallFrom(ctx).Caller.UserID, Owner: t.ownerOf(row),
		At: t.byName["change_date"].value(row).Interface().(time.Time),
	}
}

// Create stores a new row and appends its event in one statement. It gives the
// row what it lacks of ID, instance, organization (that of the call) and dates;
// the fields of payload that are called like columns are filled from it.
func (t *Table[R]) Create(ctx context.Context, row *R, payload event.Payload) (*object.Details, error) {
	if t.RememberedNew {
		var details *object.Details
		err := t.DB.InTx(ctx, func(tx pgx.Tx) (err error) {
			details, err = t.CreateIn(ctx, tx, row, payload)
			return err
		})
		t.Invalidate()
		return details, t.Refusal(err)
	}
	return t.CreateIn(ctx, t.DB.Conn(ctx), row, payload)
}

// CreateIn is Create within a transaction. What it makes of a table whose new rows
// are remembered other nodes hear of; this one when the caller invalidates after
// the commit.
func (t *Table[R]) CreateIn(ctx context.Context, tx db.DBTX, row *R, payload event.Payload) (*object.Details, error) {
	t.begin(ctx, row)
	t.record(payload, nil, row)
	if err := t.insert(ctx, tx, row, payload); err != nil {
		return nil, err
	}
	return t.Details(row), nil
}

// begin gives a new row what it lacks of ID, instance, organization and dates.
func (t *Table[R]) begin(ctx context.Context, row *R) {
	call, now, v := policy.CallFrom(ctx), t.Now(), reflect.ValueOf(row)
	t.setText(v, "id", t.NewID)
	if !t.System {
		t.setText(v, "instance_id", func() string { return call.Context.InstanceID })
	}
	t.setText(v, "org_id", func() string { return call.Context.OrgID })
	t.byName["creation_date"].value(v).Set(reflect.ValueOf(now))
	t.byName["change_date"].value(v).Set(reflect.ValueOf(now))
}

func (t *Table[R]) insert(ctx context.Context, tx db.DBTX, row *R, payload event.Payload) error {
	err := t.store(ctx, tx, t.insertSQL, row, payload)
	if err == nil && t.RememberedNew {
		err = db.New().NotifyChange(ctx, tx)
	}
	return t.refusal(err, row)
}

// setText sets a column of text that is still empty, if there is one.
func (t *Table[R]) setText(row reflect.Value, name string, value func() string) {
	c := t.byName[name]
	if c == nil || c.text(row) != "" {
		return
	}
	text := value()
	if text == "" {
		return
	}
	if v := c.value(row); v.Kind() == reflect.Pointer {
		v.Set(reflect.ValueOf(&text))
	} else {
		v.SetString(text)
	}
}

// Change locks a row, lets apply change it, appends the event and stores it, in
// one transaction. When apply changes nothing nothing is written, and the
// details are those of the last change. The fields of payload that are called
// like columns are set where those changed.
func (t *Table[R]) Change(ctx context.Context, id string, payload event.Payload, apply func(pgx.Tx, *R) error, keys ...Key) (*object.Details, error) {
	var details *object.Details
	var row *R
	changed := false
	err := t.DB.InTx(ctx, func(tx pgx.Tx) (err error) {
		if row, err = t.Lock(ctx, tx, id, keys...); err != nil {
			return err
		}
		old := *row
		if err := apply(tx, row); err != nil {
			return err
		}
		changed, err = t.Save(ctx, tx, &old, row, payload)
		details = t.Details(row)
		return err
	})
	if changed && t.Remembered {
		t.Invalidate()
	}
	return details, t.refusal(err, row)
}

// Save stores a row that this transaction has locked, if it differs from what it
// was, and appends the event. It reports whether it did.
func (t *Table[R]) Save(ctx context.Context, tx pgx.Tx, old, row *R, payload event.Payload) (bool, error) {
	v := reflect.ValueOf(row)
	if !t.differs(old, row) {
		return false, nil
	}
	t.byName["change_date"].value(v).Set(reflect.ValueOf(t.Now()))
	t.record(payload, old, row)
	return true, t.update(ctx, tx, row, payload)
}

func (t *Table[R]) update(ctx context.Context, tx db.DBTX, row *R, payload event.Payload) error {
	err := t.store(ctx, tx, t.updateSQL, row, payload)
	if err == nil && t.Remembered {
		err = db.New().NotifyChange(ctx, tx)
	}
	return err
}

// store runs a statement that stores a row with its event.
func (t *Table[R]) store(ctx context.Context, tx db.DBTX, sql string, row *R, payload event.Payload) error {
	sequence := t.byName["sequence"].value(reflect.ValueOf(row)).Addr().Interface()
	return tx.QueryRow(ctx, sql, t.args(ctx, row, payload)...).Scan(sequence)
}

// Delete deletes a row and what belongs to it, with events. before, if not nil,
// may refuse or take out of other objects what refers to it; the change date of
// its row is already that of the deletion.
func (t *Table[R]) Delete(ctx context.Context, id string, payload event.Payload, before func(pgx.Tx, *R) error, keys ...Key) (*object.Details, error) {
	var details *object.Details
	err := t.DB.InTx(ctx, func(tx pgx.Tx) error {
		condition, args := t.where(policy.CallFrom(ctx), id, keys)
		row, err := t.one(ctx, tx, " FOR UPDATE OF t", id, keys)
		if err == nil {
			err = t.mayChange(ctx, tx, row)
		}
		if err != nil {
			return err
		}
		t.byName["change_date"].value(reflect.ValueOf(row)).Set(reflect.ValueOf(t.Now()))
		if before != nil {
			if err := before(tx, row); err != nil {
				return err
			}
		}
		details, err = t.deleteRow(ctx, tx, row, payload, condition, args)
		return err
	})
	if t.Remembered {
		t.Invalidate()
	}
	return details, t.Refusal(err)
}

func (t *Table[R]) deleteRow(ctx context.Context, tx pgx.Tx, row *R, payload event.Payload, condition string, args []any) (*object.Details, error) {
	v, actor := reflect.ValueOf(row), policy.CallFrom(ctx).Caller.UserID
	t.record(payload, nil, row)
	removed := t.event(ctx, v, payload)
	now := removed.At
	sequence, err := event.Append(ctx, tx, removed)
	if err != nil {
		return nil, err
	}
	command := db.SetActorParams{Actor: actor, Now: now.Format(time.RFC3339Nano), Deletes: t.Table}
	if err := db.New().SetActor(ctx, tx, command); err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, "DELETE FROM "+t.Table+" t WHERE "+condition, args...); err != nil {
		return nil, err
	}
	command.Deletes = ""
	if err := db.New().SetActor(ctx, tx, command); err != nil {
		return nil, err
	}
	if t.Remembered {
		err = db.New().NotifyChange(ctx, tx)
	}
	return Details(t.byName["id"].text(v), sequence, now, t.ownerOf(v)), err
}

// SetState moves a row to another state, which it must not be in yet; from, if
// given, are the only states it may come from.
func (t *Table[R]) SetState(ctx context.Context, id string, to int16, payload event.Payload, from ...int16) (*object.Details, error) {
	return t.SetStateWith(ctx, id, to, payload, nil, from...)
}

// SetStateWith is SetState with what else has to happen in the same transaction.
func (t *Table[R]) SetStateWith(ctx context.Context, id string, to int16, payload event.Payload, with func(pgx.Tx, *R) error, from ...int16) (*object.Details, error) {
	return t.Change(ctx, id, payload, func(tx pgx.Tx, row *R) error {
		state := t.column("state").value(reflect.ValueOf(row))
		allowed := len(from) == 0
		for _, one := range from {
			allowed = allowed || state.Int() == int64(one)
		}
		if state.Int() == int64(to) || !allowed {
			return fault.New(fault.FailedPrecondition, "STATE_UNCHANGED", "the %s %q is not in a state from which it can go there", t.Kind, id)
		}
		state.SetInt(int64(to))
		if with == nil {
			return nil
		}
		return with(tx, row)
	})
}
