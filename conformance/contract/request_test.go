package contract

import (
	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
)

// Short forms of what requests are made of.

func onMethod(name string) *actionv3.Condition {
	return &actionv3.Condition{ConditionType: &actionv3.Condition_Request{
		Request: &actionv3.RequestExecution{Condition: &actionv3.RequestExecution_Method{Method: name}},
	}}
}

func onService(name string) *actionv3.Condition {
	return &actionv3.Condition{ConditionType: &actionv3.Condition_Request{
		Request: &actionv3.RequestExecution{Condition: &actionv3.RequestExecution_Service{Service: name}},
	}}
}

func onAllRequests() *actionv3.Condition {
	return &actionv3.Condition{ConditionType: &actionv3.Condition_Request{
		Request: &actionv3.RequestExecution{Condition: &actionv3.RequestExecution_All{All: true}},
	}}
}

func onMethodResponse(name string) *actionv3.Condition {
	return &actionv3.Condition{ConditionType: &actionv3.Condition_Response{
		Response: &actionv3.ResponseExecution{Condition: &actionv3.ResponseExecution_Method{Method: name}},
	}}
}

func onServiceResponse(name string) *actionv3.Condition {
	return &actionv3.Condition{ConditionType: &actionv3.Condition_Response{
		Response: &actionv3.ResponseExecution{Condition: &actionv3.ResponseExecution_Service{Service: name}},
	}}
}

func onAllResponses() *actionv3.Condition {
	return &actionv3.Condition{ConditionType: &actionv3.Condition_Response{
		Response: &actionv3.ResponseExecution{Condition: &actionv3.ResponseExecution_All{All: true}},
	}}
}

func onFunction(name string) *actionv3.Condition {
	return &actionv3.Condition{ConditionType: &actionv3.Condition_Function{Function: name}}
}

func onEvent(name string) *actionv3.Condition {
	return &actionv3.Condition{ConditionType: &actionv3.Condition_Event{
		Event: &actionv3.EventExecution{Condition: &actionv3.EventExecution_Event{Event: name}},
	}}
}

func onGroup(name string) *actionv3.Condition {
	return &actionv3.Condition{ConditionType: &actionv3.Condition_Event{
		Event: &actionv3.EventExecution{Condition: &actionv3.EventExecution_Group{Group: name}},
	}}
}

func onAllEvents() *actionv3.Condition {
	return &actionv3.Condition{ConditionType: &actionv3.Condition_Event{
		Event: &actionv3.EventExecution{Condition: &actionv3.EventExecution_All{All: true}},
	}}
}

func byName(text string, method object.TextFilterMethod) *actionv3.TargetSearchFilter {
	return &actionv3.TargetSearchFilter{Filter: &actionv3.TargetSearchFilter_Name{Name: &actionv3.TargetNameFilter{Name: text, Method: method}}}
}

func byIDs(ids ...string) *actionv3.TargetSearchFilter {
	return &actionv3.TargetSearchFilter{Filter: &actionv3.TargetSearchFilter_InIds{InIds: &object.InIDsFilter{Ids: ids}}}
}

func byConditions(conditions ...*actionv3.Condition) *actionv3.ExecutionSearchFilter {
	return &actionv3.ExecutionSearchFilter{Filter: &actionv3.ExecutionSearchFilter_InConditions{
		InConditions: &actionv3.InConditionsFilter{Conditions: conditions},
	}}
}

func byType(kind actionv3.ExecutionType) *actionv3.ExecutionSearchFilter {
	return &actionv3.ExecutionSearchFilter{Filter: &actionv3.ExecutionSearchFilter_ExecutionType{
		ExecutionType: &actionv3.ExecutionTypeFilter{Type: kind},
	}}
}

func byTarget(id string) *actionv3.ExecutionSearchFilter {
	return &actionv3.ExecutionSearchFilter{Filter: &actionv3.ExecutionSearchFilter_Target{Target: &actionv3.TargetFilter{Id: id}}}
}

func byInclude(id string) *actionv3.ExecutionSearchFilter {
	return &actionv3.ExecutionSearchFilter{Filter: &actionv3.ExecutionSearchFilter_Include{Include: &actionv3.IncludeFilter{Include: id}}}
}

func instanceByID(id string) *object.RequestContext {
	return &object.RequestContext{Owner: &object.RequestContext_InstanceId{InstanceId: id}}
}

func instanceByDomain(domain string) *object.RequestContext {
	return &object.RequestContext{Owner: &object.RequestContext_InstanceDomain{InstanceDomain: domain}}
}
