package store

import (
	"bytes"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
)

// Lists of texts are written as pgx writes them.
func TestTextsAreWrittenAsPgxDoes(t *testing.T) {
	t.Parallel()
	types := pgtype.NewMap()
	known, _ := types.TypeForOID(pgtype.TextArrayOID)
	for _, list := range [][]string{nil, {}, {""}, {"a"}, {"a", "", "größer", "\x1f{\"}"}} {
		want, err := types.Encode(pgtype.TextArrayOID, pgtype.BinaryFormatCode, list, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := texts{known.Codec}.PlanEncode(types, pgtype.TextArrayOID, pgtype.BinaryFormatCode, list).Encode(list, nil)
		if err != nil || !bytes.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%q is %x, %v, by pgx %x", list, got, err, want)
		}
	}
}

func BenchmarkTexts(b *testing.B) {
	types := pgtype.NewMap()
	known, _ := types.TypeForOID(pgtype.TextArrayOID)
	list := make([]string, 8)
	for i := range list {
		list[i] = "01a20591-a2b6-7e0e-b7e7-77af3ce6b792"
	}
	buf := make([]byte, 0, 1024)
	b.Run("pgx", func(b *testing.B) {
		for b.Loop() {
			if _, err := types.Encode(pgtype.TextArrayOID, pgtype.BinaryFormatCode, list, buf); err != nil {
				b.Fatal(err)
			}
		}
	})
	types.RegisterType(&pgtype.Type{Name: known.Name, OID: known.OID, Codec: texts{known.Codec}})
	b.Run("in one go", func(b *testing.B) {
		for b.Loop() {
			if _, err := types.Encode(pgtype.TextArrayOID, pgtype.BinaryFormatCode, list, buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}
