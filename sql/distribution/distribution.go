// Package distribution finds out whether a statement stays within one tenant: what a
// database that is distributed by instance (Citus, or one schema for each) can send to
// one place, and what one tenant pays for alone.
//
// A statement does when each table that it reads or writes has its instance bound: by
// WHERE or the condition of a join, to a value or to the instance of another table that is
// bound; or, where it inserts, when it names the instance of the rows. It is read by
// PostgreSQL's own parser. Only tests import this package.
package distribution

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/wasilibs/go-pgquery/parser"
)

// Tables are those that are distributed, and views of them, with the column that says to
// which instance a row belongs.
type Tables map[string]string

// ReadTables returns those of a database, and the tables that have no such column.
func ReadTables(ctx context.Context, conn *pgx.Conn) (tables Tables, others []string, err error) {
	rows, err := conn.Query(ctx, `SELECT c.relname, c.relname IN ('instances', 'instance_rows'), EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'instance_id' AND NOT a.attisdropped)
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p', 'v', 'm') ORDER BY 1`)
	if err != nil {
		return nil, nil, err
	}
	tables = Tables{}
	var name string
	var instances, has bool
	_, err = pgx.ForEachRow(rows, []any{&name, &instances, &has}, func() error {
		switch {
		case instances:
			tables[name] = "id"
		case has:
			tables[name] = "instance_id"
		default:
			others = append(others, name)
		}
		return nil
	})
	return tables, others, err
}

// Loose returns what of the statements in sql is not bound to an instance, a line each.
func (t Tables) Loose(sql string) ([]string, error) { return t.loose(sql, false) }

// LooseView is Loose for the definition of a view: what it shows as the instance is bound
// by who reads it.
func (t Tables) LooseView(sql string) ([]string, error) { return t.loose(sql, true) }

func (t Tables) loose(sql string, view bool) ([]string, error) {
	text, err := parser.ParseToJSON(sql)
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, sql)
	}
	var parsed tree
	if err := json.Unmarshal([]byte(text), &parsed); err != nil {
		return nil, err
	}
	c := &check{tables: t, view: view}
	for _, stmt := range parsed.list("stmts") {
		c.node(stmt.in("stmt"), nil)
	}
	return c.found, nil
}

// tree is a node of what PostgreSQL's parser makes of a statement, by the names of its
// source (parsenodes.h). What is not there is empty.
type tree map[string]any

func (t tree) in(path ...string) tree {
	for _, name := range path {
		t, _ = t[name].(map[string]any)
	}
	return t
}

func (t tree) text(name string) string {
	text, _ := t[name].(string)
	return text
}

func (t tree) list(name string) []tree {
	all, _ := t[name].([]any)
	list := make([]tree, len(all))
	for i := range all {
		list[i], _ = all[i].(map[string]any)
	}
	return list
}

// check is one over statements.
type check struct {
	tables Tables
	found  []string
	view   bool // the outermost SELECT is that of a view
}

// node looks at a statement or a part of one. with are the names of WITH that hold there.
func (c *check) node(n tree, with []string) {
	for kind := range n {
		s := n.in(kind)
		switch kind {
		case "SelectStmt":
			c.selects(s, with)
		case "UpdateStmt":
			with = c.with(s, with)
			c.block(&block{check: c, with: with}, s, append(s.list("fromClause"), tree{"RangeVar": map[string]any(s.in("relation"))}), "targetList", "returningList")
		case "DeleteStmt":
			with = c.with(s, with)
			c.block(&block{check: c, with: with}, s, append(s.list("usingClause"), tree{"RangeVar": map[string]any(s.in("relation"))}), "returningList")
		case "InsertStmt":
			with = c.with(s, with)
			into := s.in("relation").text("relname")
			if key, ok := c.tables[into]; ok && !slices.ContainsFunc(s.list("cols"), func(col tree) bool { return col.in("ResTarget").text("name") == key }) {
				c.found = append(c.found, "INSERT INTO "+into+" without "+key)
			}
			c.node(s.in("selectStmt"), with)
			c.parts(s["onConflictClause"], with)
			c.parts(s["returningList"], with)
		case "CreateTableAsStmt":
			if skip, _ := s.in("into")["skipData"].(bool); !skip { // WITH NO DATA takes the columns alone
				c.parts(n[kind], with)
			}
		default:
			c.parts(n[kind], with)
		}
	}
}

func (c *check) selects(s tree, with []string) {
	with = c.with(s, with)
	if left := s.in("larg"); left != nil { // UNION and its like
		c.selects(left, with)
		c.selects(s.in("rarg"), with)
		return
	}
	b := &block{check: c, with: with}
	if c.view {
		c.view, b.shown = false, s.list("targetList")
	}
	c.block(b, s, s.list("fromClause"), "targetList", "valuesLists", "sortClause", "groupClause", "havingClause", "limitCount", "limitOffset", "windowClause", "distinctClause")
}

// with looks at the statements of a WITH and returns its names with those around it.
func (c *check) with(s tree, around []string) []string {
	names := slices.Clone(around)
	for _, n := range s.in("withClause").list("ctes") {
		cte := n.in("CommonTableExpr")
		if s.in("withClause")["recursive"] == true {
			names = append(names, cte.text("ctename"))
		}
		c.node(cte.in("ctequery"), names)
		names = append(names, cte.text("ctename"))
	}
	return names
}

// parts looks for statements within an expression, or many.
func (c *check) parts(n any, with []string) {
	switch n := n.(type) {
	case []any:
		for _, one := range n {
			c.parts(one, with)
		}
	case map[string]any:
		for name, part := range n {
			if name == "SelectStmt" {
				c.selects(tree(n).in(name), with)
			} else {
				c.parts(part, with)
			}
		}
	}
}

// block is one FROM with its WHERE: where tables are bound.
type block struct {
	*check
	with  []string
	bases map[string]string // the column that says the instance, by the alias of its table
	ands  []tree            // conditions that all hold
	using bool              // there is a join USING the instance
	shown []tree            // of a view
}

// block looks at a FROM and its WHERE, and at the statements within both and the rest.
func (c *check) block(b *block, s tree, from []tree, rest ...string) {
	b.bases = map[string]string{}
	for _, n := range from {
		b.from(n)
	}
	b.and(s.in("whereClause"))
	bound := map[string]bool{}
	for _, n := range b.shown {
		if alias := b.keyOf(n.in("ResTarget", "val")); alias != "" {
			bound[alias] = true
		}
	}
	var pairs [][2]string
	for _, n := range b.ands {
		b.binds(n, func(alias, to string) {
			if to == "" {
				bound[alias] = true
			} else {
				pairs = append(pairs, [2]string{alias, to})
			}
		})
	}
	for range pairs {
		for _, p := range pairs {
			if bound[p[0]] || bound[p[1]] {
				bound[p[0]], bound[p[1]] = true, true
			}
		}
	}
	for _, alias := range slices.Sorted(maps.Keys(b.bases)) {
		if !bound[alias] && (!b.using || len(bound) == 0) {
			c.found = append(c.found, alias+" is not bound by "+b.bases[alias])
		}
	}
	for _, n := range b.ands {
		c.parts(map[string]any(n), b.with)
	}
	for _, name := range rest {
		c.parts(s[name], b.with)
	}
}

// from takes what an item of FROM adds. What is no table was looked at where it was made.
func (b *block) from(n tree) {
	for kind := range n {
		f := n.in(kind)
		switch kind {
		case "RangeVar":
			name := f.text("relname")
			if key, ok := b.tables[name]; ok && !slices.Contains(b.with, name) {
				b.bases[cmp.Or(f.in("alias").text("aliasname"), name)] = key
			}
		case "JoinExpr":
			b.from(f.in("larg"))
			b.from(f.in("rarg"))
			b.and(f.in("quals"))
			for _, name := range f.list("usingClause") {
				b.using = b.using || name.in("String").text("sval") == "instance_id"
			}
		case "RangeSubselect":
			b.node(f.in("subquery"), b.with)
		default:
			b.parts(n[kind], b.with)
		}
	}
}

// and takes a condition apart.
func (b *block) and(n tree) {
	if and := n.in("BoolExpr"); and.text("boolop") == "AND_EXPR" {
		for _, arg := range and.list("args") {
			b.and(arg)
		}
	} else if len(n) > 0 {
		b.ands = append(b.ands, n)
	}
}

// binds tells which table a condition binds, and to which other one of the block, "" for
// what is from elsewhere.
func (b *block) binds(n tree, tell func(alias, to string)) {
	if or := n.in("BoolExpr"); or.text("boolop") == "OR_EXPR" { // what each side says, holds
		sides := map[[2]string]int{}
		for _, arg := range or.list("args") {
			side := &block{check: b.check, with: b.with, bases: b.bases}
			side.and(arg)
			said := map[[2]string]bool{}
			for _, and := range side.ands {
				side.binds(and, func(alias, to string) { said[[2]string{alias, to}] = true })
			}
			for pair := range said {
				sides[pair]++
			}
		}
		for pair, n := range sides {
			if n == len(or.list("args")) {
				tell(pair[0], pair[1])
			}
		}
		return
	}
	if link := n.in("SubLink"); link.text("subLinkType") == "ANY_SUBLINK" {
		b.pair(link.in("testexpr"), nil, tell)
		return
	}
	e := n.in("A_Expr")
	name := e.list("name")
	if len(name) == 0 || name[len(name)-1].in("String").text("sval") != "=" {
		return
	}
	if kind := e.text("kind"); kind == "AEXPR_OP" || kind == "AEXPR_IN" || kind == "AEXPR_OP_ANY" {
		b.pair(e.in("lexpr"), e.in("rexpr"), tell)
	}
}

// pair tells what an equality binds; of rows each column.
func (b *block) pair(left, right tree, tell func(alias, to string)) {
	if row := left.in("RowExpr").list("args"); len(row) > 0 {
		others := right.in("RowExpr").list("args")
		for i, arg := range row {
			if i < len(others) {
				b.pair(arg, others[i], tell)
			} else {
				b.pair(arg, nil, tell)
			}
		}
		return
	}
	switch l, r := b.keyOf(left), b.keyOf(right); {
	case l != "":
		tell(l, r)
	case r != "":
		tell(r, "")
	}
}

// keyOf returns the table of the block of whose rows an expression is the instance.
func (b *block) keyOf(n tree) string {
	fields := n.in("ColumnRef").list("fields")
	if len(fields) == 0 {
		return ""
	}
	column := fields[len(fields)-1].in("String").text("sval")
	if len(fields) > 1 {
		if alias := fields[len(fields)-2].in("String").text("sval"); b.bases[alias] != "" && b.bases[alias] == column {
			return alias
		}
		return ""
	}
	for alias, key := range b.bases { // without an alias there is one that has it
		if key == column {
			return alias
		}
	}
	return ""
}

// Name returns the name of a statement of sql/queries, "" for others.
func Name(sql string) string {
	_, rest, ok := strings.Cut(sql, "-- name: ")
	name, _, _ := strings.Cut(rest, " ")
	if !ok {
		return ""
	}
	return name
}

// Plain returns a statement of sql/queries without the notation of sqlc.
func Plain(sql string) string {
	sql = named.ReplaceAllString(sql, "$$1")
	sql = embedded.ReplaceAllString(sql, "$1.*")
	return sqlcArg.ReplaceAllString(sql, "$$1")
}

var (
	named    = regexp.MustCompile(`@[a-z_0-9]+`)
	embedded = regexp.MustCompile(`sqlc\.embed\(([a-z_0-9]+)\)`)
	sqlcArg  = regexp.MustCompile(`sqlc\.n?arg\([a-z_0-9]+\)`)
)
