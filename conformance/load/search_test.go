package load

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// search is one search request of the REST API.
type search struct{ name, path, filters string }

// sorted returns a search for each sorting column and direction.
func sorted(collection, prefix string, columns ...string) (all []search) {
	for _, column := range columns {
		for _, ascending := range []bool{false, true} {
			all = append(all, search{
				fmt.Sprintf("by %s, ascending %v", strings.ToLower(column), ascending),
				fmt.Sprintf("%s/_search?sortingColumn=%s%s&query.asc=%v", collection, prefix, column, ascending), "[]",
			})
		}
	}
	return all
}

// filtered returns a search for each filter, given as name and JSON in turn.
func filtered(collection string, pairs ...string) (all []search) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, search{pairs[i], collection + "/_search", "[" + pairs[i+1] + "]"})
	}
	return all
}

func text(field, member, value, method string) string {
	return fmt.Sprintf(`{"%s":{"%s":"%s","method":"TEXT_FILTER_METHOD_%s"}}`, field, member, value, method)
}

func targetSearches(id string) []search {
	const collection = "/resources/v3alpha/targets"
	return append(sorted(collection, "TARGET_FIELD_NAME_", "ID", "CREATION_DATE", "CHANGE_DATE", "NAME", "TARGET_TYPE", "URL", "TIMEOUT", "ASYNC", "INTERRUPT_ON_ERROR"),
		filtered(collection,
			"name equals", text("name", "name", "Target 0a1b2c", "EQUALS"),
			"name starts with", text("name", "name", "Target 0a1b", "STARTS_WITH"),
			"name equals, ignoring case", text("name", "name", "TARGET 0A1B2C", "EQUALS_IGNORE_CASE"),
			"name starts with, ignoring case", text("name", "name", "TARGET 0A1B", "STARTS_WITH_IGNORE_CASE"),
			"name contains", text("name", "name", "0a1b2", "CONTAINS"),
			"name contains, ignoring case", text("name", "name", "0A1B2", "CONTAINS_IGNORE_CASE"),
			"name ends with", text("name", "name", "0a1b2", "ENDS_WITH"),
			"in_ids", `{"inIds":{"ids":["`+id+`","nothing"]}}`,
		)...)
}

func userSearches(id, username, email string) []search {
	const collection = "/resources/v3alpha/users"
	return append(sorted(collection, "USER_FIELD_NAME_", "ID", "CREATION_DATE", "CHANGE_DATE", "USERNAME", "EMAIL", "DISPLAY_NAME", "STATE", "TYPE"),
		filtered(collection,
			"in_ids", `{"inIds":{"ids":["`+id+`","nothing"]}}`,
			"username equals", text("username", "text", username, "EQUALS"),
			"username contains", text("username", "text", username[8:16], "CONTAINS"),
			"login name equals", text("loginName", "loginName", username+"@default.localhost", "EQUALS"),
			"login name equals, ignoring case", text("loginName", "loginName", strings.ToUpper(username)+"@default.localhost", "EQUALS_IGNORE_CASE"),
			"login name starts with", text("loginName", "loginName", username[:12], "STARTS_WITH"),
			"login name contains", text("loginName", "loginName", username[8:16], "CONTAINS"),
			"e-mail equals", text("email", "text", email, "EQUALS"),
			"e-mail starts with, ignoring case", text("email", "text", strings.ToUpper(email[:8]), "STARTS_WITH_IGNORE_CASE"),
			"e-mail contains", text("email", "text", email[4:12], "CONTAINS"),
			"in_emails", `{"inEmails":{"emails":["`+email+`","nobody@mail.example"]}}`,
			"phone equals", text("phone", "text", "+4179000000123", "EQUALS"),
			"display name starts with", text("displayName", "text", "Name 0a1b", "STARTS_WITH"),
			"display name contains, ignoring case", text("displayName", "text", "0A1B2", "CONTAINS_IGNORE_CASE"),
			"metadata key and value", `{"metadata":{"key":"tier","value":"Z29sZA=="}}`,
			"state inactive (1 % of all)", `{"state":{"state":"USER_STATE_INACTIVE"}}`,
			"type human (90 % of all)", `{"type":{"type":"USER_TYPE_HUMAN"}}`,
		)...)
}

// searches times each search over REST, one at a time: a page of up to 100 with
// its exact total.
func (b *bench) searches(all []search) string {
	var table strings.Builder
	table.WriteString("| search | p50 | worst |\n|---|---|---|\n")
	for _, one := range all {
		var times []time.Duration
		for begin := time.Now(); len(times) < 100 && time.Since(begin) < 5*time.Second; {
			started := time.Now()
			b.search(one)
			times = append(times, time.Since(started))
		}
		slices.Sort(times)
		fmt.Fprintf(&table, "| %s | %.2f ms | %.2f ms |\n", one.name, float64(times[len(times)/2])/1e6, float64(times[len(times)-1])/1e6)
	}
	return table.String()
}

func (b *bench) search(one search) {
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.issuer+one.path, bytes.NewReader([]byte(one.filters)))
	if err != nil {
		b.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+b.token)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		b.t.Fatalf("%s: %d, %v: %s", one.name, response.StatusCode, err, answer)
	}
}
