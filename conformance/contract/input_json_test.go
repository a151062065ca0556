package contract

import (
	"net/http"
	"strings"
)

// good is a body of CreateTarget that is accepted.
const good = `{"name":"wrong","restWebhook":{"url":"https://a.example"},"timeout":"1s"}`

// wrongJSON are bodies.
func wrongJSON() []wrong {
	// target makes a row of a body of CreateTarget, with members beside good ones.
	target := func(name, members, reason, field string) wrong {
		return wrong{name: name, http: post(targets, strings.TrimSuffix(good, "}")+","+members+"}"), reason: reason, field: field, named: field}
	}
	body := func(name, text, reason, field string) wrong {
		return wrong{name: name, http: post(targets, text), reason: reason, field: field}
	}
	list := func(name, text, reason, field string) wrong {
		return wrong{name: name, http: post(targets+"/_search", text), reason: reason, field: field}
	}
	execution := func(name, text, reason, field string) wrong {
		return wrong{name: name, http: post(executions, text), reason: reason, field: field}
	}
	feature := func(name, text, reason, field string) wrong {
		return wrong{name: name, http: &httpInput{verb: http.MethodPut, path: features, body: text}, reason: reason, field: field}
	}
	named := func(text string) string { return strings.Replace(good, `"wrong"`, text, 1) }
	return []wrong{
		body("no member of a oneof", `{"name":"a","timeout":"1s"}`, "INVALID_FIELD", "target.targetType"),
		target("two members of a oneof", `"restRequestResponse":{"url":"https://a.example"}`, "ONEOF_CONFLICT", "target.restRequestResponse"),
		target("two members of a oneof in the other spelling", `"rest_request_response":{"url":"https://a.example"}`, "ONEOF_CONFLICT", "target.rest_request_response"),
		target("two scalar members of a oneof", `"isAsync":true,"interruptOnError":true`, "ONEOF_CONFLICT", "target.interruptOnError"),
		target("two scalar members of a oneof, one false", `"isAsync":false,"interruptOnError":false`, "ONEOF_CONFLICT", "target.interruptOnError"),
		target("an unknown member", `"colour":"red"`, "UNKNOWN_FIELD", "target.colour"),
		target("an unknown member of a oneof", `"restCall":{}`, "UNKNOWN_FIELD", "target.restCall"),
		target("an unknown member in other case", `"Name":"a"`, "UNKNOWN_FIELD", "target.Name"),
		target("a member of the answer", `"id":"a"`, "UNKNOWN_FIELD", "target.id"),
		target("an unknown member with an empty name", `"":1`, "UNKNOWN_FIELD", "target."),
		target("an extension", `"[writ.x]":1`, "UNKNOWN_FIELD", "target.[writ.x]"),
		body("an unknown member below", `{"name":"a","timeout":"1s","restWebhook":{"url":"https://a.example","uri":"x"}}`, "UNKNOWN_FIELD", "target.restWebhook.uri"),
		target("a member twice", `"name":"b"`, "DUPLICATE_FIELD", "target.name"),
		target("a member twice with the same value", `"timeout":"1s"`, "DUPLICATE_FIELD", "target.timeout"),
		target("a message twice", `"restWebhook":{"url":"https://b.example"}`, "DUPLICATE_FIELD", "target.restWebhook"),
		target("a member in both spellings", `"isAsync":true,"is_async":true`, "DUPLICATE_FIELD", "target.is_async"),
		target("a member twice by an escape", `"n\u0061me":"b"`, "DUPLICATE_FIELD", "target.name"),
		body("a member twice below", `{"name":"a","timeout":"1s","restWebhook":{"url":"https://a.example","url":"https://a.example"}}`, "DUPLICATE_FIELD", "target.restWebhook.url"),

		body("a number for a text", named("1"), "WRONG_TYPE", "target.name"),
		body("a boolean for a text", named("true"), "WRONG_TYPE", "target.name"),
		body("an object for a text", named("{}"), "WRONG_TYPE", "target.name"),
		body("a list for a text", named(`["a"]`), "WRONG_TYPE", "target.name"),
		body("a number for a duration", strings.Replace(good, `"1s"`, "1", 1), "WRONG_TYPE", "target.timeout"),
		body("a duration without a unit", strings.Replace(good, `"1s"`, `"1"`, 1), "INVALID_VALUE", "target.timeout"),
		body("a duration in minutes", strings.Replace(good, `"1s"`, `"1m"`, 1), "INVALID_VALUE", "target.timeout"),
		body("an empty duration", strings.Replace(good, `"1s"`, `""`, 1), "INVALID_VALUE", "target.timeout"),
		body("a duration of ten decimals", strings.Replace(good, `"1s"`, `"1.0000000001s"`, 1), "INVALID_VALUE", "target.timeout"),
		body("an overflowing duration", strings.Replace(good, `"1s"`, `"99999999999999999999s"`, 1), "INVALID_VALUE", "target.timeout"),
		target("a text for a boolean", `"isAsync":"true"`, "WRONG_TYPE", "target.isAsync"),
		target("a number for a boolean", `"isAsync":1`, "WRONG_TYPE", "target.isAsync"),
		body("a text for an object", `{"name":"a","timeout":"1s","restWebhook":"https://a.example"}`, "WRONG_TYPE", "target.restWebhook"),
		body("a list for an object", `{"name":"a","timeout":"1s","restWebhook":[]}`, "WRONG_TYPE", "target.restWebhook"),
		body("a list for the body", "["+good+"]", "WRONG_TYPE", "target"),
		body("a text for the body", `"a"`, "WRONG_TYPE", "target"),
		body("a number for the body", `1`, "WRONG_TYPE", "target"),

		body("null for the body", "null", "NULL_VALUE", "target"),
		body("null for a text", named("null"), "NULL_VALUE", "target.name"),
		target("null for a boolean", `"isAsync":null`, "NULL_VALUE", "target.isAsync"),
		body("null for a duration", strings.Replace(good, `"1s"`, "null", 1), "NULL_VALUE", "target.timeout"),
		body("null for an object", `{"name":"a","timeout":"1s","restWebhook":null}`, "NULL_VALUE", "target.restWebhook"),
		body("null below", `{"name":"a","timeout":"1s","restWebhook":{"url":null}}`, "NULL_VALUE", "target.restWebhook.url"),

		body("no body", "", "BODY_MISSING", ""),
		body("a body of spaces", " \r\n\t", "BODY_MISSING", ""),
		body("a word behind the value", good+" x", "MALFORMED_REQUEST", "target"),
		body("another value behind the value", good+good, "MALFORMED_REQUEST", "target"),
		body("a brace too many", good+"}", "MALFORMED_REQUEST", "target"),
		body("a NUL behind the value", good+"\x00", "MALFORMED_REQUEST", "target"),
		body("an open object", good[:len(good)-1], "MALFORMED_JSON", "target"),
		body("an open text", `{"name":"a`, "MALFORMED_JSON", "target"),
		body("a comma too many", strings.TrimSuffix(good, "}")+",}", "MALFORMED_JSON", "target"),
		body("single quotes", strings.ReplaceAll(good, `"`, "'"), "MALFORMED_JSON", "target"),
		body("a comment", "/* */"+good, "MALFORMED_JSON", "target"),
		body("a byte order mark", "\ufeff"+good, "MALFORMED_JSON", "target"),
		body("XML", "<target/>", "MALFORMED_JSON", "target"),
		body("a name without quotes", strings.Replace(good, `"name"`, "name", 1), "MALFORMED_JSON", "target"),
		body("a control character", named("\"a\nb\""), "MALFORMED_JSON", "target"),
		body("an unknown escape", named(`"\x"`), "MALFORMED_JSON", "target"),
		body("invalid UTF-8", named("\"a\xff\""), "INVALID_UTF8", ""),
		body("an overlong NUL", named("\"a\xc0\x80\""), "INVALID_UTF8", ""),
		body("a surrogate in UTF-8", named("\"\xed\xa0\x80\""), "INVALID_UTF8", ""),
		body("UTF-16", "\xff\xfe{\x00}\x00", "INVALID_UTF8", ""),
		body("an escaped NUL", named(`"a\u0000"`), "INVALID_TEXT", "target.name"),
		body("a lone high surrogate", named(`"\ud800"`), "MALFORMED_REQUEST", "target"),
		body("a lone low surrogate", named(`"\udc00"`), "MALFORMED_REQUEST", "target"),
		body("two high surrogates", named(`"\ud800\ud800"`), "MALFORMED_REQUEST", "target"),
		body("10,000 arrays", strings.Repeat("[", 10_000)+strings.Repeat("]", 10_000), "TOO_DEEP", ""),
		body("10,000 objects", strings.Repeat(`{"a":`, 10_000)+"1"+strings.Repeat("}", 10_000), "TOO_DEEP", ""),
		target("10,000 arrays in a member", `"isAsync":`+strings.Repeat("[", 10_000)+strings.Repeat("]", 10_000), "TOO_DEEP", "").anyMessage(),
		list("10,000 open arrays", strings.Repeat("[", 10_000), "TOO_DEEP", ""),

		list("an object for a list", `{"inIds":{}}`, "MALFORMED_REQUEST", "filters"),
		list("null for a list", `null`, "NULL_VALUE", "filters"),
		list("null in a list", `[null]`, "NULL_VALUE", "filters[0]"),
		list("a number in a list", `[1]`, "WRONG_TYPE", "filters[0]"),
		list("a list in a list", `[{"inIds":{}},[]]`, "WRONG_TYPE", "filters[1]"),
		list("no body for a list", "", "BODY_MISSING", ""),
		list("something behind a list", `[] []`, "MALFORMED_REQUEST", "filters"),
		list("a bracket too many", `[]]`, "MALFORMED_REQUEST", "filters"),
		list("an open list", `[{"inIds":{}}`, "MALFORMED_REQUEST", "filters"),
		list("no member of a filter", `[{}]`, "INVALID_FIELD", "filters[0].filter"),
		list("two members of a filter", `[{"name":{"name":"a"},"inIds":{"ids":[]}}]`, "ONEOF_CONFLICT", "filters[0].inIds"),
		list("an unknown member of a filter", `[{"inIds":{}},{"state":{}}]`, "UNKNOWN_FIELD", "filters[1].state"),
		list("an unknown member below a filter", `[{"name":{"name":"a","ignoreCase":true}}]`, "UNKNOWN_FIELD", "filters[0].name.ignoreCase"),
		list("a member of a filter twice", `[{"name":{"name":"a","name":"b"}}]`, "DUPLICATE_FIELD", "filters[0].name.name"),
		list("an unknown enum name", `[{"name":{"name":"a","method":"LIKE"}}]`, "INVALID_ENUM", "filters[0].name.method"),
		list("an enum name in lower case", `[{"name":{"name":"a","method":"text_filter_method_equals"}}]`, "INVALID_ENUM", "filters[0].name.method"),
		list("an enum number as a text", `[{"name":{"name":"a","method":"1"}}]`, "INVALID_ENUM", "filters[0].name.method"),
		list("an unknown enum number", `[{"name":{"name":"a","method":99}}]`, "INVALID_FIELD", "filters[0].name.method"),
		list("a negative enum number", `[{"name":{"name":"a","method":-1}}]`, "INVALID_FIELD", "filters[0].name.method"),
		list("an overflowing enum number", `[{"name":{"name":"a","method":4294967297}}]`, "OUT_OF_RANGE", "filters[0].name.method"),
		list("an enum number with a fraction", `[{"name":{"name":"a","method":1.5}}]`, "WRONG_TYPE", "filters[0].name.method"),
		list("a boolean for an enum", `[{"name":{"name":"a","method":true}}]`, "WRONG_TYPE", "filters[0].name.method"),
		list("null for an enum", `[{"name":{"name":"a","method":null}}]`, "NULL_VALUE", "filters[0].name.method"),
		list("a text for a list of IDs", `[{"inIds":{"ids":"a"}}]`, "WRONG_TYPE", "filters[0].inIds.ids"),
		list("null in a list of IDs", `[{"inIds":{"ids":["a",null]}}]`, "NULL_VALUE", "filters[0].inIds.ids[1]"),
		list("a number in a list of IDs", `[{"inIds":{"ids":[1]}}]`, "WRONG_TYPE", "filters[0].inIds.ids[0]"),

		execution("an empty execution", `{}`, "INVALID_FIELD", "execution.condition"),
		execution("no member of a condition", `{"condition":{}}`, "INVALID_FIELD", "execution.condition.conditionType"),
		execution("two members of a condition", `{"condition":{"function":"preuserinfo","event":{"all":true}}}`, "ONEOF_CONFLICT", "execution.condition.event"),
		execution("two members below a condition", `{"condition":{"request":{"all":true,"service":"a"}}}`, "ONEOF_CONFLICT", "execution.condition.request.service"),
		execution("an unknown member of a condition", `{"condition":{"webhook":{}}}`, "UNKNOWN_FIELD", "execution.condition.webhook"),
		execution("an unknown member below a condition", `{"condition":{"event":{"name":"a"}}}`, "UNKNOWN_FIELD", "execution.condition.event.name"),
		execution("a text for a condition", `{"condition":"request"}`, "WRONG_TYPE", "execution.condition"),
		execution("a text for all", `{"condition":{"request":{"all":"true"}}}`, "WRONG_TYPE", "execution.condition.request.all"),
		execution("null for a condition", `{"condition":null}`, "NULL_VALUE", "execution.condition"),
		execution("null for the targets", `{"condition":{"request":{"all":true}},"targets":null}`, "NULL_VALUE", "execution.targets"),
		execution("null in the targets", `{"condition":{"request":{"all":true}},"targets":[null]}`, "NULL_VALUE", "execution.targets[0]"),
		execution("an object in the targets", `{"condition":{"request":{"all":true}},"targets":[{"target":"a"}]}`, "WRONG_TYPE", "execution.targets[0]"),
		execution("a text for the includes", `{"condition":{"request":{"all":true}},"includes":"request"}`, "WRONG_TYPE", "execution.includes"),

		feature("an unknown feature", `{"teleport":true}`, "UNKNOWN_FIELD", "features.teleport"),
		feature("a text for a feature", `{"userSchema":"on"}`, "WRONG_TYPE", "features.userSchema"),
		feature("null for a feature", `{"userSchema":null}`, "NULL_VALUE", "features.userSchema"),
		feature("a feature twice", `{"userSchema":true,"user_schema":false}`, "DUPLICATE_FIELD", "features.user_schema"),
		feature("the answer's form of a feature", `{"userSchema":{"enabled":true}}`, "WRONG_TYPE", "features.userSchema"),
	}
}

// anyMessage drops what the message has to name.
func (w wrong) anyMessage() wrong {
	w.named = ""
	return w
}
