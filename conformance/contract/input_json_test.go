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
		body("no member of a oneof", `{"name":"a","timeout":"1s"}`, "INVALID_FIELD", "body"),
		target("two members of a oneof", `"restRequestResponse":{"url":"https://a.example"}`, "ONEOF_CONFLICT", "restRequestResponse"),
		target("two members of a oneof in the other spelling", `"rest_request_response":{"url":"https://a.example"}`, "ONEOF_CONFLICT", "rest_request_response"),
		target("two scalar members of a oneof", `"isAsync":true,"interruptOnError":true`, "ONEOF_CONFLICT", "interruptOnError"),
		target("two scalar members of a oneof, one false", `"isAsync":false,"interruptOnError":false`, "ONEOF_CONFLICT", "interruptOnError"),
		target("an unknown member", `"colour":"red"`, "UNKNOWN_FIELD", "colour"),
		target("an unknown member of a oneof", `"restCall":{}`, "UNKNOWN_FIELD", "restCall"),
		target("an unknown member in other case", `"Name":"a"`, "UNKNOWN_FIELD", "Name"),
		target("a member of the answer", `"id":"a"`, "UNKNOWN_FIELD", "id"),
		target("an unknown member with an empty name", `"":1`, "UNKNOWN_FIELD", ""),
		target("an extension", `"[writ.x]":1`, "UNKNOWN_FIELD", "[writ.x]"),
		body("an unknown member below", `{"name":"a","timeout":"1s","restWebhook":{"url":"https://a.example","uri":"x"}}`, "UNKNOWN_FIELD", "restWebhook.uri"),
		target("a member twice", `"name":"b"`, "DUPLICATE_FIELD", "name"),
		target("a member twice with the same value", `"timeout":"1s"`, "DUPLICATE_FIELD", "timeout"),
		target("a message twice", `"restWebhook":{"url":"https://b.example"}`, "DUPLICATE_FIELD", "restWebhook"),
		target("a member in both spellings", `"isAsync":true,"is_async":true`, "DUPLICATE_FIELD", "is_async"),
		target("a member twice by an escape", `"n\u0061me":"b"`, "DUPLICATE_FIELD", "name"),
		body("a member twice below", `{"name":"a","timeout":"1s","restWebhook":{"url":"https://a.example","url":"https://a.example"}}`, "DUPLICATE_FIELD", "restWebhook.url"),

		body("a number for a text", named("1"), "WRONG_TYPE", "name"),
		body("a boolean for a text", named("true"), "WRONG_TYPE", "name"),
		body("an object for a text", named("{}"), "WRONG_TYPE", "name"),
		body("a list for a text", named(`["a"]`), "WRONG_TYPE", "name"),
		body("a number for a duration", strings.Replace(good, `"1s"`, "1", 1), "WRONG_TYPE", "timeout"),
		body("a duration without a unit", strings.Replace(good, `"1s"`, `"1"`, 1), "INVALID_VALUE", "timeout"),
		body("a duration in minutes", strings.Replace(good, `"1s"`, `"1m"`, 1), "INVALID_VALUE", "timeout"),
		body("an empty duration", strings.Replace(good, `"1s"`, `""`, 1), "INVALID_VALUE", "timeout"),
		body("a duration of ten decimals", strings.Replace(good, `"1s"`, `"1.0000000001s"`, 1), "INVALID_VALUE", "timeout"),
		body("an overflowing duration", strings.Replace(good, `"1s"`, `"99999999999999999999s"`, 1), "INVALID_VALUE", "timeout"),
		target("a text for a boolean", `"isAsync":"true"`, "WRONG_TYPE", "isAsync"),
		target("a number for a boolean", `"isAsync":1`, "WRONG_TYPE", "isAsync"),
		body("a text for an object", `{"name":"a","timeout":"1s","restWebhook":"https://a.example"}`, "WRONG_TYPE", "restWebhook"),
		body("a list for an object", `{"name":"a","timeout":"1s","restWebhook":[]}`, "WRONG_TYPE", "restWebhook"),
		body("a list for the body", "["+good+"]", "WRONG_TYPE", "body"),
		body("a text for the body", `"a"`, "WRONG_TYPE", "body"),
		body("a number for the body", `1`, "WRONG_TYPE", "body"),

		body("null for the body", "null", "NULL_VALUE", "body"),
		body("null for a text", named("null"), "NULL_VALUE", "name"),
		target("null for a boolean", `"isAsync":null`, "NULL_VALUE", "isAsync"),
		body("null for a duration", strings.Replace(good, `"1s"`, "null", 1), "NULL_VALUE", "timeout"),
		body("null for an object", `{"name":"a","timeout":"1s","restWebhook":null}`, "NULL_VALUE", "restWebhook"),
		body("null below", `{"name":"a","timeout":"1s","restWebhook":{"url":null}}`, "NULL_VALUE", "restWebhook.url"),

		body("no body", "", "BODY_MISSING", ""),
		body("a body of spaces", " \r\n\t", "BODY_MISSING", ""),
		body("a word behind the value", good+" x", "MALFORMED_REQUEST", "body"),
		body("another value behind the value", good+good, "MALFORMED_REQUEST", "body"),
		body("a brace too many", good+"}", "MALFORMED_REQUEST", "body"),
		body("a NUL behind the value", good+"\x00", "MALFORMED_REQUEST", "body"),
		body("an open object", good[:len(good)-1], "MALFORMED_JSON", "body"),
		body("an open text", `{"name":"a`, "MALFORMED_JSON", "body"),
		body("a comma too many", strings.TrimSuffix(good, "}")+",}", "MALFORMED_JSON", "body"),
		body("single quotes", strings.ReplaceAll(good, `"`, "'"), "MALFORMED_JSON", "body"),
		body("a comment", "/* */"+good, "MALFORMED_JSON", "body"),
		body("a byte order mark", "\ufeff"+good, "MALFORMED_JSON", "body"),
		body("XML", "<target/>", "MALFORMED_JSON", "body"),
		body("a name without quotes", strings.Replace(good, `"name"`, "name", 1), "MALFORMED_JSON", "body"),
		body("a control character", named("\"a\nb\""), "MALFORMED_JSON", "body"),
		body("an unknown escape", named(`"\x"`), "MALFORMED_JSON", "body"),
		body("invalid UTF-8", named("\"a\xff\""), "INVALID_UTF8", ""),
		body("an overlong NUL", named("\"a\xc0\x80\""), "INVALID_UTF8", ""),
		body("a surrogate in UTF-8", named("\"\xed\xa0\x80\""), "INVALID_UTF8", ""),
		body("UTF-16", "\xff\xfe{\x00}\x00", "INVALID_UTF8", ""),
		body("an escaped NUL", named(`"a\u0000"`), "INVALID_TEXT", "name"),
		body("a lone high surrogate", named(`"\ud800"`), "MALFORMED_REQUEST", "body"),
		body("a lone low surrogate", named(`"\udc00"`), "MALFORMED_REQUEST", "body"),
		body("two high surrogates", named(`"\ud800\ud800"`), "MALFORMED_REQUEST", "body"),
		body("10,000 arrays", strings.Repeat("[", 10_000)+strings.Repeat("]", 10_000), "TOO_DEEP", ""),
		body("10,000 objects", strings.Repeat(`{"a":`, 10_000)+"1"+strings.Repeat("}", 10_000), "TOO_DEEP", ""),
		target("10,000 arrays in a member", `"isAsync":`+strings.Repeat("[", 10_000)+strings.Repeat("]", 10_000), "TOO_DEEP", "").anyMessage(),
		list("10,000 open arrays", strings.Repeat("[", 10_000), "TOO_DEEP", ""),

		list("an object for a list", `{"inIds":{}}`, "MALFORMED_REQUEST", "body"),
		list("null for a list", `null`, "NULL_VALUE", "body"),
		list("null in a list", `[null]`, "NULL_VALUE", "[0]"),
		list("a number in a list", `[1]`, "WRONG_TYPE", "[0]"),
		list("a list in a list", `[{"inIds":{}},[]]`, "WRONG_TYPE", "[1]"),
		list("something behind a list", `[] []`, "MALFORMED_REQUEST", "body"),
		list("a bracket too many", `[]]`, "MALFORMED_REQUEST", "body"),
		list("an open list", `[{"inIds":{}}`, "MALFORMED_REQUEST", "body"),
		list("no member of a filter", `[{}]`, "INVALID_FIELD", "[0]"),
		list("two members of a filter", `[{"name":{"name":"a"},"inIds":{"ids":[]}}]`, "ONEOF_CONFLICT", "[0].inIds"),
		list("an unknown member of a filter", `[{"inIds":{}},{"state":{}}]`, "UNKNOWN_FIELD", "[1].state"),
		list("an unknown member below a filter", `[{"name":{"name":"a","ignoreCase":true}}]`, "UNKNOWN_FIELD", "[0].name.ignoreCase"),
		list("a member of a filter twice", `[{"name":{"name":"a","name":"b"}}]`, "DUPLICATE_FIELD", "[0].name.name"),
		list("an unknown enum name", `[{"name":{"name":"a","method":"LIKE"}}]`, "INVALID_ENUM", "[0].name.method"),
		list("an enum name in lower case", `[{"name":{"name":"a","method":"text_filter_method_equals"}}]`, "INVALID_ENUM", "[0].name.method"),
		list("an enum number as a text", `[{"name":{"name":"a","method":"1"}}]`, "INVALID_ENUM", "[0].name.method"),
		list("an unknown enum number", `[{"name":{"name":"a","method":99}}]`, "INVALID_FIELD", "[0].name.method"),
		list("a negative enum number", `[{"name":{"name":"a","method":-1}}]`, "INVALID_FIELD", "[0].name.method"),
		list("an overflowing enum number", `[{"name":{"name":"a","method":4294967297}}]`, "OUT_OF_RANGE", "[0].name.method"),
		list("an enum number with a fraction", `[{"name":{"name":"a","method":1.5}}]`, "WRONG_TYPE", "[0].name.method"),
		list("a boolean for an enum", `[{"name":{"name":"a","method":true}}]`, "WRONG_TYPE", "[0].name.method"),
		list("null for an enum", `[{"name":{"name":"a","method":null}}]`, "NULL_VALUE", "[0].name.method"),
		list("a text for a list of IDs", `[{"inIds":{"ids":"a"}}]`, "WRONG_TYPE", "[0].inIds.ids"),
		list("null in a list of IDs", `[{"inIds":{"ids":["a",null]}}]`, "NULL_VALUE", "[0].inIds.ids[1]"),
		list("a number in a list of IDs", `[{"inIds":{"ids":[1]}}]`, "WRONG_TYPE", "[0].inIds.ids[0]"),

		execution("an empty execution", `{}`, "INVALID_FIELD", "condition"),
		execution("no member of a condition", `{"condition":{}}`, "INVALID_FIELD", "condition"),
		execution("two members of a condition", `{"condition":{"function":"preuserinfo","event":{"all":true}}}`, "ONEOF_CONFLICT", "condition.event"),
		execution("two members below a condition", `{"condition":{"request":{"all":true,"service":"a"}}}`, "ONEOF_CONFLICT", "condition.request.service"),
		execution("an unknown member of a condition", `{"condition":{"webhook":{}}}`, "UNKNOWN_FIELD", "condition.webhook"),
		execution("an unknown member below a condition", `{"condition":{"event":{"name":"a"}}}`, "UNKNOWN_FIELD", "condition.event.name"),
		execution("a text for a condition", `{"condition":"request"}`, "WRONG_TYPE", "condition"),
		execution("a text for all", `{"condition":{"request":{"all":"true"}}}`, "WRONG_TYPE", "condition.request.all"),
		execution("null for a condition", `{"condition":null}`, "NULL_VALUE", "condition"),
		execution("null for the targets", `{"condition":{"request":{"all":true}},"targets":null}`, "NULL_VALUE", "targets"),
		execution("null in the targets", `{"condition":{"request":{"all":true}},"targets":[null]}`, "NULL_VALUE", "targets[0]"),
		execution("an object in the targets", `{"condition":{"request":{"all":true}},"targets":[{"target":"a"}]}`, "WRONG_TYPE", "targets[0]"),
		execution("a text for the includes", `{"condition":{"request":{"all":true}},"includes":"request"}`, "WRONG_TYPE", "includes"),

		feature("an unknown feature", `{"teleport":true}`, "UNKNOWN_FIELD", "teleport"),
		feature("a text for a feature", `{"userSchema":"on"}`, "WRONG_TYPE", "userSchema"),
		feature("null for a feature", `{"userSchema":null}`, "NULL_VALUE", "userSchema"),
		feature("a feature twice", `{"userSchema":true,"user_schema":false}`, "DUPLICATE_FIELD", "user_schema"),
		feature("the answer's form of a feature", `{"userSchema":{"enabled":true}}`, "WRONG_TYPE", "userSchema"),
	}
}

// anyMessage drops what the message has to name.
func (w wrong) anyMessage() wrong {
	w.named = ""
	return w
}
