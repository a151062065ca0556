package action

import (
	"strings"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
)

// The condition types as they are stored and as IDs start.
const (
	onRequest  = "request"
	onResponse = "response"
	onEvent    = "event"
	onFunction = "function"
)

var conditionTypes = map[actionv3.ExecutionType]string{
	actionv3.ExecutionType_EXECUTION_TYPE_REQUEST:  onRequest,
	actionv3.ExecutionType_EXECUTION_TYPE_RESPONSE: onResponse,
	actionv3.ExecutionType_EXECUTION_TYPE_EVENT:    onEvent,
	actionv3.ExecutionType_EXECUTION_TYPE_FUNCTION: onFunction,
}

// executionID returns a condition in canonical form, <type>.<value>; <type>
// alone stands for all, a trailing .* for a group. A group may be written with
// or without the .*.
func executionID(c *actionv3.Condition) string {
	point := func(kind, method, service string) string {
		if value := method + service; value != "" {
			return kind + "." + value
		}
		return kind
	}
	switch c := c.GetConditionType().(type) {
	case *actionv3.Condition_Request:
		return point(onRequest, c.Request.GetMethod(), c.Request.GetService())
	case *actionv3.Condition_Response:
		return point(onResponse, c.Response.GetMethod(), c.Response.GetService())
	case *actionv3.Condition_Function:
		return onFunction + "." + c.Function
	case *actionv3.Condition_Event:
		if group := c.Event.GetGroup(); group != "" {
			return onEvent + "." + strings.TrimSuffix(group, ".*") + ".*"
		}
		return point(onEvent, c.Event.GetEvent(), "")
	}
	return ""
}

// typeOfExecution returns the condition type of an ID.
func typeOfExecution(id string) string {
	kind, _, _ := strings.Cut(id, ".")
	return kind
}

// conditionOf returns the condition of an ID that executionID made.
func conditionOf(id string) *actionv3.Condition {
	kind, value, _ := strings.Cut(id, ".")
	isMethod := strings.HasPrefix(value, "/")
	switch kind {
	case onRequest:
		c := &actionv3.RequestExecution{Condition: &actionv3.RequestExecution_Service{Service: value}}
		if isMethod {
			c.Condition = &actionv3.RequestExecution_Method{Method: value}
		} else if value == "" {
			c.Condition = &actionv3.RequestExecution_All{All: true}
		}
		return &actionv3.Condition{ConditionType: &actionv3.Condition_Request{Request: c}}
	case onResponse:
		c := &actionv3.ResponseExecution{Condition: &actionv3.ResponseExecution_Service{Service: value}}
		if isMethod {
			c.Condition = &actionv3.ResponseExecution_Method{Method: value}
		} else if value == "" {
			c.Condition = &actionv3.ResponseExecution_All{All: true}
		}
		return &actionv3.Condition{ConditionType: &actionv3.Condition_Response{Response: c}}
	case onEvent:
		c := &actionv3.EventExecution{Condition: &actionv3.EventExecution_Event{Event: value}}
		if group, ok := strings.CutSuffix(value, ".*"); ok {
			c.Condition = &actionv3.EventExecution_Group{Group: group}
		} else if value == "" {
			c.Condition = &actionv3.EventExecution_All{All: true}
		}
		return &actionv3.Condition{ConditionType: &actionv3.Condition_Event{Event: c}}
	default:
		return &actionv3.Condition{ConditionType: &actionv3.Condition_Function{Function: value}}
	}
}

// checkExists refuses a condition that names what does not exist: methods and
// services come from the descriptors, functions and events from the catalogue. What is of
// the system alone is no tenant's to extend. at is where the condition is in the request.
func (s *Service) checkExists(at string, c *actionv3.Condition) error {
	missing := func(field, kind, name string) error {
		return fault.New(fault.NotFound, "CONDITION_NOT_FOUND", "there is no %s %q", kind, name).On(at + "." + field)
	}
	checkPoint := func(field, method, service string) error {
		switch {
		case method != "" && s.operations.Find(method) == nil:
			return missing(field+".method", "method", method)
		case service != "" && !s.operations.HasService(service):
			return missing(field+".service", "service", service)
		case method+service != "" && !s.operations.IsExtensible(method+service):
			name := map[bool]string{true: "method", false: "service"}[method != ""]
			return fault.Invalid("CONDITION_OF_SYSTEM", at+"."+field+"."+name, "%q is of the system, around which no executions run", method+service)
		}
		return nil
	}
	switch c := c.GetConditionType().(type) {
	case *actionv3.Condition_Request:
		return checkPoint(onRequest, c.Request.GetMethod(), c.Request.GetService())
	case *actionv3.Condition_Response:
		return checkPoint(onResponse, c.Response.GetMethod(), c.Response.GetService())
	case *actionv3.Condition_Function:
		if !event.Known.HasFunction(c.Function) {
			return missing(onFunction, "function", c.Function)
		}
	case *actionv3.Condition_Event:
		if name := c.Event.GetEvent(); name != "" && !event.Known.HasEvent(name) {
			return missing("event.event", "event", name)
		}
		if group := c.Event.GetGroup(); group != "" && !event.Known.HasGroup(strings.TrimSuffix(group, ".*")) {
			return missing("event.group", "event group", group)
		}
	}
	return nil
}
