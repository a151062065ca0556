package distribution_test

import (
	"strings"
	"testing"

	"github.com/writ-id/writ/sql/distribution"
)

// TestWhatIsBoundToAnInstanceIsToldFromWhatIsNot tries the rule itself.
func TestWhatIsBoundToAnInstanceIsToldFromWhatIsNot(t *testing.T) {
	t.Parallel()
	tables := distribution.Tables{"a": "instance_id", "b": "instance_id", "instances": "id"}
	for sql, want := range map[string]string{
		"SELECT 1":                                                                                                   "",
		"SELECT * FROM other":                                                                                        "",
		"SELECT * FROM a WHERE instance_id = $1":                                                                     "",
		"SELECT * FROM a WHERE a.instance_id = ANY($1)":                                                              "",
		"SELECT * FROM a x WHERE (x.instance_id, x.id) = ($1, $2)":                                                   "",
		"SELECT * FROM a WHERE id = $1":                                                                              "a",
		"SELECT * FROM a WHERE id = $1 OR instance_id = $2":                                                          "a",
		"SELECT * FROM a WHERE instance_id <> $1":                                                                    "a",
		"SELECT * FROM a WHERE NOT (instance_id = $1)":                                                               "a",
		"SELECT * FROM a WHERE other = ANY(SELECT instance_id)":                                                      "a",
		"SELECT * FROM instances i WHERE i.id = $1":                                                                  "",
		"SELECT * FROM instances i WHERE i.name = $1":                                                                "i",
		"SELECT * FROM a WHERE instance_id = $1 AND (x = 1 OR y=2)":                                                  "",
		"SELECT * FROM a WHERE (instance_id = $1 AND x = 1) OR (y = 2 AND instance_id = $1)":                         "",
		"SELECT * FROM a JOIN b ON b.instance_id = a.instance_id WHERE a.instance_id = $1":                           "",
		"SELECT * FROM a JOIN b USING (instance_id, id) WHERE a.instance_id = $1":                                    "",
		"SELECT * FROM a JOIN b ON b.instance_id = a.instance_id":                                                    "a b",
		"SELECT * FROM a JOIN b ON b.id = a.id WHERE a.instance_id = $1":                                             "b",
		"SELECT * FROM a WHERE instance_id = $1 AND EXISTS (SELECT FROM b WHERE b.instance_id = a.instance_id)":      "",
		"SELECT * FROM a WHERE instance_id = $1 AND EXISTS (SELECT FROM b WHERE b.id = a.id)":                        "b",
		"SELECT (SELECT count(*) FROM b) FROM a WHERE instance_id = $1":                                              "b",
		"SELECT * FROM a WHERE instance_id = $1 ORDER BY (SELECT max(id) FROM b)":                                    "b",
		"SELECT * FROM a WHERE instance_id = $1 UNION ALL SELECT * FROM b":                                           "b",
		"WITH w AS (SELECT * FROM a) SELECT * FROM w":                                                                "a",
		"WITH w AS (SELECT * FROM a WHERE instance_id = $1) SELECT * FROM b JOIN w ON b.instance_id = w.instance_id": "",
		"WITH w AS (DELETE FROM a WHERE id = $1 RETURNING *) SELECT * FROM w":                                        "a",
		"SELECT * FROM (SELECT unnest($1::text[]) AS i) n JOIN a ON a.instance_id = n.i":                             "",
		"SELECT * FROM a WHERE (instance_id, id) IN (SELECT instance_id, id FROM b WHERE id = $1)":                   "b",
		"UPDATE a SET x = 1 WHERE instance_id = $1":                                                                  "",
		"UPDATE a SET x = 1": "a",
		"UPDATE a SET x = (SELECT y FROM b WHERE b.id = $2) WHERE instance_id = $1":                                                 "b",
		"UPDATE a SET x = n.x FROM b n WHERE a.instance_id = n.instance_id AND n.instance_id = $1":                                  "",
		"DELETE FROM a USING b WHERE a.id = b.id AND b.instance_id = $1":                                                            "a",
		"INSERT INTO a (instance_id, id) VALUES ($1, $2)":                                                                           "",
		"INSERT INTO a (id) VALUES ($2)":                                                                                            "a",
		"INSERT INTO a VALUES ($2)":                                                                                                 "a",
		"INSERT INTO a (instance_id, id) SELECT $1, id FROM b":                                                                      "b",
		`SELECT 1 FROM ONLY "public"."a" x WHERE "instance_id" OPERATOR(pg_catalog.=) $1 AND "id" = $2 FOR KEY SHARE OF x`:          "",
		"SELECT * FROM instances i CROSS JOIN LATERAL (SELECT * FROM a WHERE a.instance_id = i.id LIMIT 1) o WHERE i.id = $1 AND 1": "",
	} {
		loose, err := tables.Loose(sql)
		got := strings.Join(loose, " ")
		if err != nil || (want == "") != (got == "") {
			t.Errorf("%s: got %q, %v, want %q", sql, got, err, want)
		}
		for _, alias := range strings.Fields(want) {
			if !strings.Contains(" "+got+" ", " "+alias+" ") {
				t.Errorf("%s: got %q, want it to name %s", sql, got, alias)
			}
		}
	}
}
