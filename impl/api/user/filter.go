package user

import (
	_ "embed"
	"slices"
	"strings"

	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/sqltext"
)

//go:embed filter.sql
var filterSQL string

var statements = sqltext.Read(filterSQL)

// filters are those of SearchUsers that compare no column.
type filters struct{}

// Ways to compare; each is followed by the one that ignores case.
const (
	equals     = object.TextFilterMethod_TEXT_FILTER_METHOD_EQUALS
	startsWith = object.TextFilterMethod_TEXT_FILTER_METHOD_STARTS_WITH
	contains   = object.TextFilterMethod_TEXT_FILTER_METHOD_CONTAINS
	endsWith   = object.TextFilterMethod_TEXT_FILTER_METHOD_ENDS_WITH
)

// ByLoginName compares <username>@<domain>, which no column holds, by conditions
// on username and domain that indexes serve. A domain has no @, so the last @ of
// a login name is the one between them: what the text has around its own last @
// belongs to the end of a username and the start of a domain.
//
//	equal to a@b     username = a and domain = b
//	starts with a@b  username starts with a@b, or username = a and domain starts with b
//	ends with a@b    username ends with a and domain = b
//	contains a@b     username contains a@b, or username ends with a and domain starts with b
//
// Without an @ the text is in the username or in the domain. Where the
// organization has no domain the login name is the username.
func (filters) ByLoginName(w *resource.Where, filter *userv3.LoginNameFilter) {
	text, ignoreCase := filter.GetLoginName(), filter.GetMethod()&1
	name := func(text string, method object.TextFilterMethod) string {
		return w.Text("t.username", text, method|ignoreCase)
	}
	orgs := statements.SQL("PrimaryDomains", "instance", w.Instance())
	domain := func(text string, method object.TextFilterMethod) string {
		found, all := w.Lookup(orgs, func(sub *resource.Where) { sub.And(sub.Text("d.domain", text, method|ignoreCase)) })
		if !all {
			return statements.SQL("InDomain", "instance", w.Instance(), "condition", w.Text("d.domain", text, method|ignoreCase))
		}
		return statements.SQL("InOrganizations", "orgs", w.Arg(found))
	}
	both := func(name, domain string) string {
		return statements.SQL("NameInDomain", "name", name, "domain", domain)
	}
	at := strings.LastIndexByte(text, '@')
	before, after := text, ""
	if at >= 0 {
		before, after = text[:at], text[at+1:]
	}
	var any []string
	method := filter.GetMethod() &^ 1
	if method == startsWith || method == contains {
		any = append(any, name(text, method))
	} else { // the end of a username is not the end of a login name
		any = append(any, statements.SQL("WithoutDomain", "instance", w.Instance(), "name", name(text, method)))
	}
	switch {
	case at >= 0 && method == equals:
		any = append(any, both(name(before, equals), domain(after, equals)))
	case at >= 0 && method == startsWith:
		any = append(any, both(name(before, equals), domain(after, startsWith)))
	case at >= 0 && method == endsWith:
		any = append(any, both(name(before, endsWith), domain(after, equals)))
	case at >= 0:
		any = append(any, both(name(before, endsWith), domain(after, startsWith)))
	case method == contains || method == endsWith:
		any = append(any, domain(text, method))
	}
	w.Any(any)
}

// ByEmail reads addresses from behind when a filter gives their end.
func (filters) ByEmail(w *resource.Where, filter *object.TextFilter) {
	w.And(w.Text("t.email", filter.GetText(), filter.GetMethod()))
	if filter.GetMethod()&^1 == endsWith {
		end := []rune(resource.Fold(filter.GetText()))
		slices.Reverse(end)
		w.And(statements.SQL("EmailFromBehind", "pattern", w.Arg(resource.Literal(string(end))+"%")))
	}
}

// ByInEmails compares addresses without their case.
func (filters) ByInEmails(w *resource.Where, filter *userv3.InEmailsFilter) {
	folded := []string{}
	for _, address := range filter.GetEmails() {
		folded = append(folded, resource.Fold(address))
	}
	w.And(statements.SQL("InEmails", "emails", w.Arg(folded)))
}

// ByPhone compares numbers, which have no case.
func (filters) ByPhone(w *resource.Where, filter *object.TextFilter) {
	pattern, folded := resource.Patterns(filter.GetText(), filter.GetMethod())
	if pattern == nil {
		pattern = folded
	}
	w.And(statements.SQL("Phone", "pattern", w.Arg(*pattern)))
}

// byEntry finds users by an entry of their metadata. The users are looked up first,
// because a condition on the entry narrows more than any order of users helps.
func byEntry(w *resource.Where, condition func(*resource.Where) string) {
	users := statements.SQL("Entries", "instance", w.Instance())
	if found, all := w.Lookup(users, func(sub *resource.Where) { sub.And(condition(sub)) }); all {
		w.And(statements.SQL("OneOf", "users", w.Arg(found)))
		return
	}
	w.And(statements.SQL("WithEntry", "instance", w.Instance(), "condition", condition(w)))
}

// ByMetadataKey finds users by a key of their metadata.
func (filters) ByMetadataKey(w *resource.Where, filter *object.TextFilter) {
	byEntry(w, func(w *resource.Where) string { return w.Text("m.id", filter.GetText(), filter.GetMethod()) })
}

// ByMetadata finds users by an entry of their metadata.
func (filters) ByMetadata(w *resource.Where, filter *userv3.MetadataFilter) {
	byEntry(w, func(w *resource.Where) string {
		return statements.SQL("EntryIs", "key", w.Arg(filter.GetKey()), "value", w.Arg(filter.GetValue()))
	})
}
