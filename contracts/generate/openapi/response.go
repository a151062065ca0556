package main

import (
	"net/http"
	"slices"
	"strconv"

	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
)

const statusName = "Status"

// status is the schema of the body of every refusal.
var status = &schema{
	Type: "object",
	Description: "Status is the body of every refusal: google.rpc.Status in JSON. Its details hold a " +
		"google.rpc.ErrorInfo with a stable reason and, when fields were refused, a google.rpc.BadRequest that names them.",
	Properties: fields[*schema]{
		{"code", &schema{Type: "integer", Format: "int32", Description: "The google.rpc.Code, for example 3 for INVALID_ARGUMENT."}},
		{"message", &schema{Type: "string", Description: "A sentence for developers. It may change; do not compare it."}},
		{"details", &schema{
			Type:        "array",
			Description: "What a program can act on.",
			Items: &schema{
				Type: "object",
				Properties: fields[*schema]{
					{"@type", &schema{Type: "string", Description: "The type of the detail, for example type.googleapis.com/google.rpc.ErrorInfo."}},
				},
				Required:             []string{"@type"},
				AdditionalProperties: true,
			},
		}},
	},
	Required: []string{"code", "message", "details"},
}

// refusals are the shared answers of status 400 and above, by status, each
// with the methods it belongs to.
var refusals = []struct {
	status      int
	name        string
	description string
	headers     fields[header]
	of          func(*method) bool
}{
	{http.StatusBadRequest, "BadRequest",
		"The request is malformed or breaks a rule of this contract (INVALID_ARGUMENT), or the operation cannot run now, " +
			"for example because its feature is switched off (FAILED_PRECONDITION, reason FEATURE_DISABLED) or because a target " +
			"of an execution around it failed (reason EXECUTION_FAILED).", nil, everyMethod},
	{http.StatusUnauthorized, "Unauthenticated", "The access token is missing, invalid, expired or of another tenant.",
		fields[header]{{"WWW-Authenticate", header{"The challenge: Bearer, with the error of RFC 6750 when a token was sent.", true, &schema{Type: "string"}}}},
		everyMethod},
	{http.StatusForbidden, "PermissionDenied", "The caller lacks the permission in the context of the call.", nil, func(m *method) bool {
		return m.policy.GetPermission() != "" || m.policy.GetSelf() || m.contextual() || m.refuses(policyv1.Refusal_REFUSAL_PERMISSION_DENIED)
	}},
	{http.StatusNotFound, "NotFound", "Something the request names does not exist, or no instance answers on this host.", nil, namesSomething},
	{http.StatusNotFound, "UnknownHost", "No instance answers on this host.", nil, func(m *method) bool { return !namesSomething(m) }},
	{http.StatusConflict, "AlreadyExists", "Something of that name exists already.", nil, func(m *method) bool {
		return m.refuses(policyv1.Refusal_REFUSAL_ALREADY_EXISTS)
	}},
	{http.StatusRequestEntityTooLarge, "BodyTooLarge", "The body is larger than the server accepts.", nil, hasBody},
	{http.StatusUnsupportedMediaType, "UnsupportedMediaType", "The body is not application/json.", nil, hasBody},
	{http.StatusTooManyRequests, "Blocked", "The operator has blocked the instance (RESOURCE_EXHAUSTED, reason INSTANCE_BLOCKED).", nil, func(m *method) bool {
		return len(m.policy.GetLevels()) == 0 || m.policy.GetLevels()[0] != policyv1.Level_LEVEL_SYSTEM
	}},
	{http.StatusInternalServerError, "Internal", "The server failed. The cause is in its log only.", nil, everyMethod},
	{http.StatusServiceUnavailable, "Unavailable", "The server cannot answer now, for example because the database is away.",
		fields[header]{{"Retry-After", header{"The seconds to wait.", true, &schema{Type: "integer", Minimum: "0"}}}},
		everyMethod},
}

func everyMethod(*method) bool { return true }

func hasBody(m *method) bool { return m.body != "" }

func namesSomething(m *method) bool {
	return m.refuses(policyv1.Refusal_REFUSAL_NOT_FOUND) || m.contextual()
}

// contextual reports whether the request can select its context.
func (m *method) contextual() bool { return m.desc.Input().Fields().ByName("ctx") != nil }

func (m *method) refuses(r policyv1.Refusal) bool {
	return slices.Contains(m.policy.GetRefusals(), r)
}

// responses returns the answers of m by status.
func (g *generator) responses(m *method) fields[response] {
	var all fields[response]
	successes := m.policy.GetSuccess()
	if len(successes) == 0 {
		successes = []uint32{http.StatusOK}
	}
	for _, status := range successes {
		text := http.StatusText(int(status)) + "."
		if len(successes) > 1 && status == http.StatusOK {
			text = "Changed."
		}
		all.add(strconv.Itoa(int(status)), response{
			Description: text,
			Content:     map[string]mediaType{jsonType: {Schema: g.ref(m.desc.Output(), inAnswer)}},
			Links:       g.links(m),
		})
	}
	for _, refusal := range refusals {
		if refusal.of(m) {
			all.add(strconv.Itoa(refusal.status), response{Ref: "#/components/responses/" + refusal.name})
		}
	}
	all.add("4XX", response{Ref: "#/components/responses/" + forwardedName})
	return all
}

// forwardedName is the answer whose status a target of the tenant chose.
const forwardedName = "Refused"

// links returns the operations on one resource of the collection that m puts
// resources into: they take the ID of its details.
func (g *generator) links(m *method) fields[link] {
	details := m.desc.Output().Fields().ByName("details")
	if m.body == "" || len(m.inPath) > 0 || details == nil || details.Message() == nil || details.Message().Fields().ByName("id") == nil {
		return nil
	}
	var all fields[link]
	for _, other := range g.methods {
		if other.path == m.path+"/{id}" {
			name := string(other.desc.Name())
			all.add(name, link{name, map[string]string{"id": "$response.body#/details/id"}})
		}
	}
	return all
}

// sharedResponses returns the refusals as components.
func sharedResponses() fields[response] {
	var all fields[response]
	for _, refusal := range refusals {
		all.add(refusal.name, response{
			Description: refusal.description,
			Headers:     refusal.headers,
			Content:     map[string]mediaType{jsonType: {Schema: &schema{Ref: schemaRef + statusName}}},
		})
	}
	all.add(forwardedName, response{
		Description: "A target of an execution on the request or the response refuses the call with a status of its own " +
			"(reason EXECUTION_REFUSED). No other refusal has a status that is not named here.",
		Content: map[string]mediaType{jsonType: {Schema: &schema{Ref: schemaRef + statusName}}},
	})
	return all
}
