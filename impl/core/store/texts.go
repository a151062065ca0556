package store

import (
	"context"
	"encoding/binary"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// texts is the codec of text[], which statements of many rows have a dozen of: it writes a
// list in one go, where pgx asks for a plan for each element.
type texts struct{ pgtype.Codec }

// withTexts makes a connection use it.
func withTexts(_ context.Context, conn *pgx.Conn) error {
	types := conn.TypeMap()
	if known, ok := types.TypeForOID(pgtype.TextArrayOID); ok {
		types.RegisterType(&pgtype.Type{Name: known.Name, OID: known.OID, Codec: texts{known.Codec}})
	}
	return nil
}

// PlanEncode implements pgtype.Codec.
func (t texts) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.([]string); ok && format == pgtype.BinaryFormatCode {
		return encodeTexts{}
	}
	return t.Codec.PlanEncode(m, oid, format, value)
}

type encodeTexts struct{}

// Encode writes an array of one dimension, as array_send of PostgreSQL does: dimensions,
// whether any is null, the type; length and first index; each text with its length.
func (encodeTexts) Encode(value any, buf []byte) ([]byte, error) {
	list := value.([]string)
	if list == nil { // is null
		return nil, nil
	}
	number := func(n int) { buf = binary.BigEndian.AppendUint32(buf, uint32(n)) }
	for _, head := range []int{1, 0, pgtype.TextOID, len(list), 1} {
		number(head)
	}
	for _, text := range list {
		number(len(text))
		buf = append(buf, text...)
	}
	return buf, nil
}
