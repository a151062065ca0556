package user

import (
	"slices"
	"strings"

	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/core/resource"
)

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
	orgs := "SELECT d.org_id FROM domains d WHERE d.instance_id = " + w.Instance() + " AND d.org_id IS NOT NULL AND d.is_primary"
	domain := func(text string, method object.TextFilterMethod) string {
		found, all := w.Lookup(orgs, func(sub *resource.Where) { sub.And(sub.Text("d.domain", text, method|ignoreCase)) })
		if !all {
			return "t.org_id = ANY(ARRAY(" + orgs + " AND " + w.Text("d.domain", text, method|ignoreCase) + "))"
		}
		return "t.org_id = ANY(" + w.Arg(found) + "::text[])"
	}
	none := "NOT EXISTS (" + orgs + " AND d.org_id = t.org_id)"
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
		any = append(any, none+" AND "+name(text, method))
	}
	switch {
	case at >= 0 && method == equals:
		any = append(any, name(before, equals)+" AND "+domain(after, equals))
	case at >= 0 && method == startsWith:
		any = append(any, name(before, equals)+" AND "+domain(after, startsWith))
	case at >= 0 && method == endsWith:
		any = append(any, name(before, endsWith)+" AND "+domain(after, equals))
	case at >= 0:
		any = append(any, name(before, endsWith)+" AND "+domain(after, startsWith))
	case method == contains || method == endsWith:
		any = append(any, domain(text, method))
	}
	w.And("(" + strings.Join(any, " OR ") + ")")
}

// ByEmail reads addresses from behind when a filter gives their end.
func (filters) ByEmail(w *resource.Where, filter *object.TextFilter) {
	w.And(w.Text("t.email", filter.GetText(), filter.GetMethod()))
	if filter.GetMethod()&^1 == endsWith {
		end := []rune(resource.Fold(filter.GetText()))
		slices.Reverse(end)
		w.And("reverse(t.email_folded) LIKE " + w.Arg(resource.Literal(string(end))+"%"))
	}
}

// ByInEmails compares addresses without their case.
func (filters) ByInEmails(w *resource.Where, filter *userv3.InEmailsFilter) {
	folded := []string{}
	for _, address := range filter.GetEmails() {
		folded = append(folded, resource.Fold(address))
	}
	w.And("t.email_folded = ANY(" + w.Arg(folded) + "::text[])")
}

// ByPhone compares numbers, which have no case.
func (filters) ByPhone(w *resource.Where, filter *object.TextFilter) {
	pattern, folded := resource.Patterns(filter.GetText(), filter.GetMethod())
	if pattern == nil {
		pattern = folded
	}
	w.And("t.phone LIKE " + w.Arg(*pattern))
}

// byEntry finds users by an entry of their metadata. The users are looked up first,
// because a condition on the entry narrows more than any order of users helps.
func byEntry(w *resource.Where, condition func(*resource.Where) string) {
	users := "SELECT m.user_id FROM user_metadata m WHERE m.instance_id = " + w.Instance()
	if found, all := w.Lookup(users, func(sub *resource.Where) { sub.And(condition(sub)) }); all {
		w.And("t.id = ANY(" + w.Arg(found) + "::text[])")
		return
	}
	w.And("t.id IN (" + users + " AND " + condition(w) + ")")
}

// ByMetadataKey finds users by a key of their metadata.
func (filters) ByMetadataKey(w *resource.Where, filter *object.TextFilter) {
	byEntry(w, func(w *resource.Where) string { return w.Text("m.id", filter.GetText(), filter.GetMethod()) })
}

// ByMetadata finds users by an entry of their metadata.
func (filters) ByMetadata(w *resource.Where, filter *userv3.MetadataFilter) {
	byEntry(w, func(w *resource.Where) string {
		return "m.id = " + w.Arg(filter.GetKey()) + " AND sha256(m.value) = sha256(" + w.Arg(filter.GetValue()) + "::bytea)"
	})
}
