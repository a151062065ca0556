package main

import (
	"fmt"
	"slices"
	"strings"
)

// statements is a field of transfer.Kind and what it holds.
type statements struct {
	name  string
	list  bool
	texts []string
}

// movedSQL makes the statements of a kind.
func (m *moved) movedSQL() []statements {
	export := m.exportSQL()
	staged := "staged_" + m.GetName()
	var carried []string
	for _, c := range m.carried {
		carried = append(carried, "t."+quoted(c.Name))
	}
	found := []statements{
		{"Export", false, export[:1]}, {"ExportOf", false, export[1:2]}, {"Behind", false, export[2:]},
		{"Stage", false, []string{fmt.Sprintf("CREATE TEMP TABLE %s ON COMMIT DROP AS SELECT 0::bigint AS item, NULL::text AS why, %s FROM %s t WITH NO DATA", staged, strings.Join(carried, ", "), m.GetName())}},
		{"Find", true, m.findSQL(staged)},
		{"Missing", true, m.missingSQL(staged)},
		{"Insert", false, []string{m.insertSQL(staged)}},
		{"Taken", true, []string{
			fmt.Sprintf("UPDATE %s s SET why = 'DUPLICATE' WHERE s.why IS NULL AND s.item BETWEEN $2 AND $3 AND EXISTS (SELECT FROM %s e WHERE %s AND e.item < s.item) AND $1 <> ''", staged, staged, m.same("e", "s")),
			fmt.Sprintf("UPDATE %s s SET why = 'NAME_TAKEN' WHERE s.why IS NULL AND s.item BETWEEN $2 AND $3 AND NOT EXISTS (SELECT FROM %s t WHERE t.instance_id = $1 AND %s)", staged, m.GetName(), m.same("t", "s")),
		}},
		{"Outcome", false, []string{fmt.Sprintf("SELECT %s, coalesce(why, ''), count(*) FROM %s GROUP BY 1, 2 ORDER BY 1, 2", m.org(""), staged)}},
		{"Marked", false, []string{fmt.Sprintf("SELECT %s, %s, why FROM %s WHERE why IS NOT NULL AND why NOT IN ('UPDATED', 'UNCHANGED') ORDER BY item LIMIT $1", m.named(), m.org(""), staged)}},
	}
	for i, text := range m.updateSQL(staged) {
		found = append(found, statements{[]string{"Unchanged", "Update", "Updated"}[i], false, []string{text}})
	}
	return found
}

// org is the column of the organization, or the row itself.
func (m *moved) org(of string) string {
	if m.has("org_id") {
		return of + "org_id"
	}
	return of + "id"
}

// named is what tells a row apart, for people.
func (m *moved) named() string {
	var parts []string
	for _, column := range m.key() {
		if column != "org_id" {
			parts = append(parts, column)
		}
	}
	return strings.Join(parts, " || '/' || ")
}

// same is the condition that two rows of an instance are one.
func (m *moved) same(a, b string) string {
	var parts []string
	for _, column := range m.key() {
		parts = append(parts, fmt.Sprintf("%s.%s = %s.%s", a, column, b, column))
	}
	return strings.Join(parts, " AND ")
}

func (m *moved) exportSQL() []string {
	var columns, order, inside []string
	for _, c := range m.exported() {
		columns = append(columns, "t."+quoted(c.Name))
	}
	for _, column := range m.key() {
		order = append(order, "t."+column)
	}
	for _, n := range m.nodes {
		refers := refersOf(n.field)
		if refers == "" || n.column.Name == "org_id" || refers == "user_schemas" {
			continue
		}
		column := "t." + n.column.Name
		org := "r.org_id = ANY($2)"
		switch refers {
		case "organizations":
			org = "r.id = ANY($2)"
		case "idps": // those above move by themselves
			org = "(r.org_id IS NULL OR r.org_id = ANY($2))"
		}
		where := "r.instance_id = t.instance_id"
		if refers == "idps" {
			where = "r.instance_id IN (t.instance_id, '')"
		}
		condition := fmt.Sprintf("EXISTS (SELECT FROM %s r WHERE %s AND r.id = %s AND %s)", refers, where, column, org)
		if n.column.pointer() {
			condition = "(" + column + " IS NULL OR " + condition + ")"
		}
		inside = append(inside, condition)
	}
	from := fmt.Sprintf("FROM %s t WHERE t.instance_id = $1", m.GetName())
	if m.has("org_id") {
		from += " AND t.org_id <> ''"
	}
	of := from + " AND " + m.org("t.") + " = ANY($2)"
	selected, ordered := "SELECT "+strings.Join(columns, ", ")+" ", " ORDER BY "+strings.Join(order, ", ")
	made := []string{selected + from + ordered, selected + of + ordered}
	if len(inside) > 0 {
		both := strings.Join(inside, " AND ")
		made[1] = selected + of + " AND " + both + ordered
		made = append(made, fmt.Sprintf("SELECT %s, count(*) %s AND NOT (%s) GROUP BY 1 ORDER BY 1", m.org("t."), of, both))
	}
	return made
}

func (m *moved) findSQL(staged string) []string {
	found := []string{fmt.Sprintf("UPDATE %s s SET why = 'EXISTS' FROM %s t WHERE t.instance_id = $1 AND %s", staged, m.GetName(), m.same("t", "s"))}
	if m.has("org_id") && !slices.Contains(m.key(), "org_id") {
		found[0] = fmt.Sprintf("UPDATE %s s SET why = CASE WHEN t.org_id = s.org_id THEN 'EXISTS' ELSE 'ID_TAKEN' END FROM %s t WHERE t.instance_id = $1 AND %s", staged, m.GetName(), m.same("t", "s"))
	}
	if m.hasEvent() && m.subject() == "id" {
		found = append(found, fmt.Sprintf("UPDATE %s s SET why = 'ID_USED' WHERE s.why IS NULL AND EXISTS (SELECT FROM events e WHERE e.instance_id = $1 AND e.aggregate_type = '%s' AND e.aggregate_id = s.id)", staged, m.event.GetAggregate()))
	}
	return found
}

func (m *moved) missingSQL(staged string) []string {
	var made []string
	for _, n := range m.nodes {
		refers := refersOf(n.field)
		if refers == "" {
			continue
		}
		reason := strings.ToUpper(strings.TrimSuffix(n.column.Name, "_id")) + "_NOT_FOUND"
		if n.column.Name == "org_id" {
			reason = "ORGANIZATION_NOT_FOUND"
		}
		made = append(made, fmt.Sprintf("UPDATE %s s SET why = '%s' WHERE (s.why IS NULL OR $2 AND s.why = 'EXISTS') AND s.%s IS NOT NULL AND NOT EXISTS (SELECT FROM %s r WHERE r.instance_id = $1 AND r.id = s.%s)",
			staged, reason, n.column.Name, refers, n.column.Name))
	}
	return made
}

// insertSQL stores items, each with its event, whose sequence the row gets.
func (m *moved) insertSQL(staged string) string {
	names, values := []string{"instance_id"}, []string{"$1"}
	for _, c := range m.carried {
		names, values = append(names, quoted(c.Name)), append(values, m.staged(c))
	}
	for _, one := range m.made {
		name, value, _ := strings.Cut(one, "=")
		names, values = append(names, name), append(values, value)
	}
	if m.has("change_date") {
		names, values = append(names, "change_date"), append(values, "$2::timestamptz")
	}
	if m.hasEvent() {
		names, values = append(names, "sequence"), append(values, "nextval('events_sequence')")
	}
	insert := fmt.Sprintf("INSERT INTO %s AS t (%s) SELECT %s FROM %s s WHERE s.item BETWEEN $3 AND $4 AND s.why IS NULL%s ORDER BY s.%s, s.item ON CONFLICT DO NOTHING",
		m.GetName(), strings.Join(names, ", "), strings.Join(values, ", "), staged, m.unused(), m.near())
	return m.withEvents(insert)
}

// near is the column that rows are stored in the order of: that of their names, so that
// entries of the indexes of names, which are most of the work, come next to each other.
func (m *moved) near() string {
	for _, c := range m.carried {
		if strings.HasSuffix(c.Name, "_folded") {
			return c.Name
		}
	}
	return "item"
}

// withEvents notes the events of the rows that a statement writes: they are appended when all is stored.
func (m *moved) withEvents(write string) string {
	if !m.hasEvent() {
		return write
	}
	subject := "n." + m.subject()
	owner := "2, $1"
	if m.has("org_id") {
		owner = "3, n.org_id"
	}
	return fmt.Sprintf("WITH n AS (%s RETURNING t.*) INSERT INTO imported_events (instance_id, sequence, aggregate_type, aggregate_id, event_type, payload, creator, owner_type, owner_id, created_at, client_address, traceparent) SELECT $1, n.sequence, '%s', %s, '%s', $6::jsonb, $5::text, %s, $2, $7::text, $8::text FROM n",
		write, m.event.GetAggregate(), subject, m.event.GetType(), owner)
}

// updateSQL changes rows that are there already where they differ.
func (m *moved) updateSQL(staged string) []string {
	kept := map[string]bool{}
	m.each(m.nodes, func(n *node) {
		kept[n.column.Name] = askedOf(n.field) != 0
	})
	var sets, old, wanted []string
	for _, c := range m.carried {
		name := quoted(c.Name)
		if slices.Contains(m.key(), c.Name) || c.Name == "org_id" || c.Name == "creation_date" {
			continue
		}
		value := m.staged(c)
		if kept[c.Name] {
			value = fmt.Sprintf("coalesce(s.%s, t.%s)", name, name)
		}
		// What is sealed is another text each time, and so differs.
		sets, old, wanted = append(sets, name+" = "+value), append(old, "t."+name), append(wanted, value)
	}
	if len(sets) == 0 {
		return []string{fmt.Sprintf("UPDATE %s SET why = 'UNCHANGED' WHERE why = 'EXISTS' AND item BETWEEN $2 AND $3 AND $1 <> ''", staged)}
	}
	if slices.Contains(m.GetGrowing(), "generation") { // what proved them changed, maybe
		sets = append(sets, "generation = t.generation + 1")
	}
	if m.has("change_date") {
		sets = append(sets, "change_date = $2::timestamptz")
	}
	if m.hasEvent() {
		sets = append(sets, "sequence = nextval('events_sequence')")
	}
	where := fmt.Sprintf("s.why = 'EXISTS' AND s.item BETWEEN $3 AND $4 AND t.instance_id = $1 AND %s", m.same("t", "s"))
	update := fmt.Sprintf("UPDATE %s t SET %s FROM %s s WHERE %s%s AND %s IS DISTINCT FROM %s",
		m.GetName(), strings.Join(sets, ", "), staged, where, m.unused(), row(old), row(wanted))
	mark := fmt.Sprintf("UPDATE %s s SET why = 'UNCHANGED' FROM %s t WHERE s.why = 'EXISTS' AND s.item BETWEEN $2 AND $3 AND t.instance_id = $1 AND %s AND %s IS NOT DISTINCT FROM %s",
		staged, m.GetName(), m.same("t", "s"), row(old), row(wanted))
	done := fmt.Sprintf("UPDATE %s SET why = 'UPDATED' WHERE why = 'EXISTS' AND item BETWEEN $2 AND $3 AND $1 <> ''", staged)
	return []string{mark, m.withEvents(update), done}
}

// staged is the value of a column of a staged item.
func (m *moved) staged(c *column) string {
	value := "s." + quoted(c.Name)
	for _, one := range m.options.GetOtherwise() {
		if name, otherwise, _ := strings.Cut(one, "="); name == c.Name {
			if otherwise == "''" {
				return "coalesce(" + value + ", '')"
			}
			return "coalesce(nullif(" + value + ", 0), " + otherwise + ")"
		}
	}
	return value
}

// row spells values that are compared as one.
func row(values []string) string {
	if len(values) == 1 {
		return values[0]
	}
	return "(" + strings.Join(values, ", ") + ")"
}

// unused names the parameters of the event where there is none, so that the statements of
// all kinds have the same.
func (m *moved) unused() string {
	if m.hasEvent() {
		return ""
	}
	return " AND ($2::timestamptz, $5::text, $6::jsonb, $7::text, $8::text) IS NOT NULL"
}
