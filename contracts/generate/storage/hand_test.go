package main

import (
	"strings"
	"testing"

	"github.com/writ-id/writ/contracts/generate/schema"
	storagev1 "github.com/writ-id/writ/gen/proto/writ/storage/v1"
)

// handOf returns what holds for statements by hand.
func handOf(t *testing.T) (*models, *named, error) {
	t.Helper()
	plugin, err := pluginOf(contractOf(t))
	if err != nil {
		t.Fatal(err)
	}
	found, err := readModels(root+"db", root+"../sql")
	if err != nil {
		t.Fatal(err)
	}
	c, err := readContract(plugin, found, func(of *storagev1.Table) (*model, *model) {
		rows := found.byName[found.answers[camel(of.GetName())+"Read"]]
		return rows, rows
	})
	if err != nil {
		t.Fatal(err)
	}
	types, err := c.columnEnums()
	if err != nil {
		t.Fatal(err)
	}
	numbers, err := readNamed(root+"../sql/enums.yaml", plugin, found.schema, types)
	return found, numbers, err
}

// TestAStatementByHandForgetsNothing plants statements that leave out a column of what they
// insert, or a name of a number.
func TestAStatementByHandForgetsNothing(t *testing.T) {
	t.Parallel()
	found, numbers, err := handOf(t)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkHand(found, numbers); err != nil {
		t.Errorf("sql/queries: %v", err)
	}
	for name, test := range map[string]struct{ statement, want string }{
		"a column":                    {"INSERT INTO registrations (instance_id) VALUES (@instance_id)", "inserts into registrations without user_id"},
		"a column in WITH":            {"WITH made AS (INSERT INTO registrations (user_id) SELECT @user_id) SELECT 1", "inserts into registrations without instance_id"},
		"a reason":                    {"-- Without registrations: user_id\nINSERT INTO registrations (instance_id) VALUES (@instance_id)", "without user_id"},
		"a column that is said to be": {"-- Without registrations: user_id: it is there.\nINSERT INTO registrations (instance_id, user_id) VALUES (@instance_id, @user_id)", "and says that it does not"},
		"nothing, of one left out":    {"-- Without registrations: user_id: a test.\nINSERT INTO registrations (instance_id) VALUES (@instance_id)", ""},

		"a name":                      {"SELECT FROM users u WHERE u.state = 1", "name the number in"},
		"a name on the left":          {"SELECT FROM users u WHERE 1 = u.state", "1 /* USER_STATE_ACTIVE */"},
		"a name without a table":      {"SELECT FROM users WHERE state = 1", "1 /* USER_STATE_ACTIVE */"},
		"a name in a list":            {"SELECT FROM deliveries d WHERE d.state IN (1 /* DELIVERY_STATE_PENDING */, 3)", "3 /* DELIVERY_STATE_FAILED */"},
		"a name in SET":               {"UPDATE users u SET state = 2 WHERE u.id = @id", "2 /* USER_STATE_INACTIVE */"},
		"a name in CASE":              {"UPDATE deliveries d SET state = CASE WHEN @over::bool THEN 4 ELSE d.state END", "4 /* DELIVERY_STATE_DEAD */"},
		"a name in VALUES":            {"-- Without operations: id, type, creator, lease_end, creation_date, change_date, expiration_date, items, total, size, is_canceled, outcome, error_reason, error_message: a test.\nINSERT INTO operations (instance_id, state) VALUES (@i, 1)", "1 /* OPERATION_STATE_RUNNING */"},
		"a name of part of it":        {"SELECT FROM (SELECT state FROM users) n WHERE n.state = 1", "1 /* USER_STATE_ACTIVE */"},
		"the name's number":           {"SELECT FROM users u WHERE u.state = 2 /* USER_STATE_ACTIVE */", "2 /* USER_STATE_INACTIVE */"},
		"the name's column":           {"SELECT FROM users u WHERE u.state = 1 /* DELIVERY_STATE_PENDING */", "1 /* USER_STATE_ACTIVE */"},
		"a name that is none":         {"SELECT 7 /* USER_STATE_ACTIVE */ AS seven", "no enumeration of a column has the value USER_STATE_ACTIVE = 7"},
		"a name of the database":      {"SELECT FROM signing_keys k WHERE k.state = 2", "2 /* KEY_STATE_ACTIVE */"},
		"nothing, with all the names": {"SELECT FROM users u JOIN deliveries d ON d.state = 1 /* DELIVERY_STATE_PENDING */ WHERE u.state <> 1 /* USER_STATE_ACTIVE */", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queries, err := schema.QueriesOf("planted.sql", "-- name: Planted :exec\n"+test.statement+";\n")
			if err != nil {
				t.Fatal(err)
			}
			err = checkHand(&models{schema: found.schema, queries: queries}, numbers)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestANewColumnOfSessionsIsForgottenNowhere: what begins a session names each column.
func TestANewColumnOfSessionsIsForgottenNowhere(t *testing.T) {
	t.Parallel()
	found, numbers, err := handOf(t)
	if err == nil {
		err = found.schema.Add("ALTER TABLE sessions ADD COLUMN colour text NOT NULL DEFAULT ''")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := checkHand(found, numbers); err == nil || !strings.Contains(err.Error(), "BeginSession inserts into sessions without colour") {
		t.Errorf("got %v", err)
	}
}

// TestEachSmallNumberHasAMeaning refuses a column that neither the contract nor
// sql/enums.yaml knows.
func TestEachSmallNumberHasAMeaning(t *testing.T) {
	t.Parallel()
	found, _, err := handOf(t)
	if err == nil {
		err = found.schema.Add("ALTER TABLE sessions ADD COLUMN mood smallint")
	}
	if err != nil {
		t.Fatal(err)
	}
	plugin, err := pluginOf(contractOf(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readNamed(root+"../sql/enums.yaml", plugin, found.schema, nil); err == nil || !strings.Contains(err.Error(), "no message of the contract says what sessions.mood is") {
		t.Errorf("got %v", err)
	}
}
