package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	featurev2 "github.com/writ-id/writ/gen/proto/writ/feature/v2"
	"github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/gen/restclient"
)

// operation is one operation of the contract in all generated clients.
type operation struct {
	method protoreflect.MethodDescriptor
	answer func() proto.Message
	rest   func(context.Context, *restclient.Client, proto.Message) (*http.Response, error)
	parse  func(*http.Response) (any, error)
	grpc   func(context.Context, grpc.ClientConnInterface, proto.Message) (proto.Message, error)
	web    func(context.Context, connect.HTTPClient, string, http.Header, proto.Message) (proto.Message, http.Header, error)
}

// policy returns what the contract says about the operation.
func (o *operation) policy() *policyv1.Operation {
	return proto.GetExtension(o.method.Options(), policyv1.E_Operation).(*policyv1.Operation)
}

// path returns the operation as gRPC names it: /package.Service/Method.
func (o *operation) path() string {
	return "/" + string(o.method.Parent().FullName()) + "/" + string(o.method.Name())
}

// message is a pointer to a generated message.
type message[T any] interface {
	*T
	proto.Message
}

// op makes the entry of an operation out of the generated functions.
func op[Client, Req, Res, Answer any, PReq message[Req], PRes message[Res]](
	name string,
	client func(grpc.ClientConnInterface) Client,
	stub func(Client, context.Context, *Req, ...grpc.CallOption) (*Res, error),
	rest func(context.Context, *restclient.Client, *Req) (*http.Response, error),
	parse func(*http.Response) (*Answer, error),
) *operation {
	descriptor, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(name[1:], "/", ".")))
	if err != nil {
		panic(err)
	}
	return &operation{
		method: descriptor.(protoreflect.MethodDescriptor),
		answer: func() proto.Message { return PRes(new(Res)) },
		rest: func(ctx context.Context, c *restclient.Client, req proto.Message) (*http.Response, error) {
			return rest(ctx, c, (*Req)(req.(PReq)))
		},
		parse: func(response *http.Response) (any, error) { return parse(response) },
		grpc: func(ctx context.Context, conn grpc.ClientConnInterface, req proto.Message) (proto.Message, error) {
			res, err := stub(client(conn), ctx, (*Req)(req.(PReq)))
			return PRes(res), err
		},
		web: func(ctx context.Context, http connect.HTTPClient, issuer string, header http.Header, req proto.Message) (proto.Message, http.Header, error) {
			call := connect.NewRequest((*Req)(req.(PReq)))
			for key, values := range header {
				call.Header()[key] = values
			}
			res, err := connect.NewClient[Req, Res](http, issuer+name, connect.WithGRPCWeb()).CallUnary(ctx, call)
			if err != nil {
				return nil, nil, err
			}
			return PRes(res.Msg), res.Header(), nil
		},
	}
}

// operations are all of them, by method. TestEveryServedOperationIsTested
// compares them with what the server serves.
var operations = byMethod(
	op(actionv3.ServiceActions_CreateTarget_FullMethodName, actionv3.NewServiceActionsClient, actionv3.ServiceActionsClient.CreateTarget,
		func(ctx context.Context, c *restclient.Client, r *actionv3.CreateTargetRequest) (*http.Response, error) {
			return c.CreateTarget(ctx, into[restclient.TargetInput](r.GetTarget()))
		}, restclient.ParseCreateTargetAnswer),
	op(actionv3.ServiceActions_PatchTarget_FullMethodName, actionv3.NewServiceActionsClient, actionv3.ServiceActionsClient.PatchTarget,
		func(ctx context.Context, c *restclient.Client, r *actionv3.PatchTargetRequest) (*http.Response, error) {
			return c.PatchTarget(ctx, r.GetId(), into[restclient.PatchTarget](r.GetTarget()))
		}, restclient.ParsePatchTargetAnswer),
	op(actionv3.ServiceActions_DeleteTarget_FullMethodName, actionv3.NewServiceActionsClient, actionv3.ServiceActionsClient.DeleteTarget,
		func(ctx context.Context, c *restclient.Client, r *actionv3.DeleteTargetRequest) (*http.Response, error) {
			return c.DeleteTarget(ctx, r.GetId())
		}, restclient.ParseDeleteTargetAnswer),
	op(actionv3.ServiceActions_GetTarget_FullMethodName, actionv3.NewServiceActionsClient, actionv3.ServiceActionsClient.GetTarget,
		func(ctx context.Context, c *restclient.Client, r *actionv3.GetTargetRequest) (*http.Response, error) {
			return c.GetTarget(ctx, r.GetId())
		}, restclient.ParseGetTargetAnswer),
	op(actionv3.ServiceActions_SearchTargets_FullMethodName, actionv3.NewServiceActionsClient, actionv3.ServiceActionsClient.SearchTargets,
		func(ctx context.Context, c *restclient.Client, r *actionv3.SearchTargetsRequest) (*http.Response, error) {
			offset, limit, asc := page(r.GetQuery())
			params := &restclient.SearchTargetsParams{QueryOffset: offset, QueryLimit: limit, QueryAsc: asc}
			if r.GetSortingColumn() != 0 {
				column := restclient.TargetFieldName(r.GetSortingColumn().String())
				params.SortingColumn = &column
			}
			return c.SearchTargets(ctx, params, intoList[restclient.TargetSearchFilter](r.GetFilters()))
		}, restclient.ParseSearchTargetsAnswer),
	op(actionv3.ServiceActions_PutExecution_FullMethodName, actionv3.NewServiceActionsClient, actionv3.ServiceActionsClient.PutExecution,
		func(ctx context.Context, c *restclient.Client, r *actionv3.PutExecutionRequest) (*http.Response, error) {
			return c.PutExecution(ctx, into[restclient.ExecutionInput](r.GetExecution()))
		}, restclient.ParsePutExecutionAnswer),
	op(actionv3.ServiceActions_DeleteExecution_FullMethodName, actionv3.NewServiceActionsClient, actionv3.ServiceActionsClient.DeleteExecution,
		func(ctx context.Context, c *restclient.Client, r *actionv3.DeleteExecutionRequest) (*http.Response, error) {
			return c.DeleteExecution(ctx, r.GetId())
		}, restclient.ParseDeleteExecutionAnswer),
	op(actionv3.ServiceActions_SearchExecutions_FullMethodName, actionv3.NewServiceActionsClient, actionv3.ServiceActionsClient.SearchExecutions,
		func(ctx context.Context, c *restclient.Client, r *actionv3.SearchExecutionsRequest) (*http.Response, error) {
			offset, limit, asc := page(r.GetQuery())
			params := &restclient.SearchExecutionsParams{QueryOffset: offset, QueryLimit: limit, QueryAsc: asc}
			return c.SearchExecutions(ctx, params, intoList[restclient.ExecutionSearchFilter](r.GetFilters()))
		}, restclient.ParseSearchExecutionsAnswer),
	op(actionv3.ServiceActions_ListAvailableExecutionFunctions_FullMethodName, actionv3.NewServiceActionsClient, actionv3.ServiceActionsClient.ListAvailableExecutionFunctions,
		func(ctx context.Context, c *restclient.Client, _ *actionv3.ListAvailableExecutionFunctionsRequest) (*http.Response, error) {
			return c.ListAvailableExecutionFunctions(ctx)
		}, restclient.ParseListAvailableExecutionFunctionsAnswer),
	op(actionv3.ServiceActions_ListAvailableExecutionMethods_FullMethodName, actionv3.NewServiceActionsClient, actionv3.ServiceActionsClient.ListAvailableExecutionMethods,
		func(ctx context.Context, c *restclient.Client, _ *actionv3.ListAvailableExecutionMethodsRequest) (*http.Response, error) {
			return c.ListAvailableExecutionMethods(ctx)
		}, restclient.ParseListAvailableExecutionMethodsAnswer),
	op(actionv3.ServiceActions_ListAvailableExecutionServices_FullMethodName, actionv3.NewServiceActionsClient, actionv3.ServiceActionsClient.ListAvailableExecutionServices,
		func(ctx context.Context, c *restclient.Client, _ *actionv3.ListAvailableExecutionServicesRequest) (*http.Response, error) {
			return c.ListAvailableExecutionServices(ctx)
		}, restclient.ParseListAvailableExecutionServicesAnswer),

	op(featurev2.ServiceFeatures_GetSystemFeatures_FullMethodName, featurev2.NewServiceFeaturesClient, featurev2.ServiceFeaturesClient.GetSystemFeatures,
		func(ctx context.Context, c *restclient.Client, _ *featurev2.GetSystemFeaturesRequest) (*http.Response, error) {
			return c.GetSystemFeatures(ctx)
		}, restclient.ParseGetSystemFeaturesAnswer),
	op(featurev2.ServiceFeatures_SetSystemFeatures_FullMethodName, featurev2.NewServiceFeaturesClient, featurev2.ServiceFeaturesClient.SetSystemFeatures,
		func(ctx context.Context, c *restclient.Client, r *featurev2.SetSystemFeaturesRequest) (*http.Response, error) {
			return c.SetSystemFeatures(ctx, into[restclient.SetFeatures](r.GetFeatures()))
		}, restclient.ParseSetSystemFeaturesAnswer),
	op(featurev2.ServiceFeatures_ResetSystemFeatures_FullMethodName, featurev2.NewServiceFeaturesClient, featurev2.ServiceFeaturesClient.ResetSystemFeatures,
		func(ctx context.Context, c *restclient.Client, _ *featurev2.ResetSystemFeaturesRequest) (*http.Response, error) {
			return c.ResetSystemFeatures(ctx)
		}, restclient.ParseResetSystemFeaturesAnswer),
	op(featurev2.ServiceFeatures_GetInstanceFeatures_FullMethodName, featurev2.NewServiceFeaturesClient, featurev2.ServiceFeaturesClient.GetInstanceFeatures,
		func(ctx context.Context, c *restclient.Client, r *featurev2.GetInstanceFeaturesRequest) (*http.Response, error) {
			id, domain := selected(r.GetCtx())
			return c.GetInstanceFeatures(ctx, &restclient.GetInstanceFeaturesParams{CtxInstanceID: id, CtxInstanceDomain: domain})
		}, restclient.ParseGetInstanceFeaturesAnswer),
	op(featurev2.ServiceFeatures_SetInstanceFeatures_FullMethodName, featurev2.NewServiceFeaturesClient, featurev2.ServiceFeaturesClient.SetInstanceFeatures,
		func(ctx context.Context, c *restclient.Client, r *featurev2.SetInstanceFeaturesRequest) (*http.Response, error) {
			id, domain := selected(r.GetCtx())
			return c.SetInstanceFeatures(ctx, &restclient.SetInstanceFeaturesParams{CtxInstanceID: id, CtxInstanceDomain: domain}, into[restclient.SetFeatures](r.GetFeatures()))
		}, restclient.ParseSetInstanceFeaturesAnswer),
	op(featurev2.ServiceFeatures_ResetInstanceFeatures_FullMethodName, featurev2.NewServiceFeaturesClient, featurev2.ServiceFeaturesClient.ResetInstanceFeatures,
		func(ctx context.Context, c *restclient.Client, r *featurev2.ResetInstanceFeaturesRequest) (*http.Response, error) {
			id, domain := selected(r.GetCtx())
			return c.ResetInstanceFeatures(ctx, &restclient.ResetInstanceFeaturesParams{CtxInstanceID: id, CtxInstanceDomain: domain})
		}, restclient.ParseResetInstanceFeaturesAnswer),
)

func byMethod(all ...*operation) map[string]*operation {
	out := map[string]*operation{}
	for _, o := range all {
		out[o.path()] = o
	}
	return out
}

// operationOf returns the operation that a request belongs to.
func operationOf(req proto.Message) *operation {
	for _, o := range operations {
		if o.method.Input().FullName() == req.ProtoReflect().Descriptor().FullName() {
			return o
		}
	}
	panic(fmt.Sprintf("no operation takes a %s", req.ProtoReflect().Descriptor().FullName()))
}

// into returns a message as the type that is generated from its schema. A
// member that the type does not know panics: the two contracts differ.
func into[T any](m proto.Message) (value T) {
	text, err := protojson.Marshal(m)
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		err = decoder.Decode(&value)
	}
	if err != nil {
		panic(err)
	}
	return value
}

func intoList[T any, M proto.Message](list []M) []T {
	values := []T{} // nil would be null
	for _, m := range list {
		values = append(values, into[T](m))
	}
	return values
}

// page returns a list query as the parameters of the REST client.
func page(q *object.ListQuery) (offset, limit *int64, asc *bool) {
	if q == nil {
		return nil, nil, nil
	}
	from, size, ascending := int64(q.GetOffset()), int64(q.GetLimit()), q.GetAsc()
	return &from, &size, &ascending
}

// selected returns a request context as the parameters of the REST client.
func selected(c *object.RequestContext) (id, domain *string) {
	switch owner := c.GetOwner().(type) {
	case *object.RequestContext_InstanceId:
		id = &owner.InstanceId
	case *object.RequestContext_InstanceDomain:
		domain = &owner.InstanceDomain
	}
	return id, domain
}

var variable = regexp.MustCompile(`\{(\w+)(=[^}]*)?\}`)

// request makes the HTTP request of an operation by its rule.
func (o *operation) request(ctx context.Context, issuer string, req proto.Message) (*http.Request, error) {
	rule := proto.GetExtension(o.method.Options(), annotations.E_Http).(*annotations.HttpRule)
	verb, path := ruleOf(rule)
	from := req.ProtoReflect()
	bound := map[string]bool{rule.GetBody(): true}
	path = variable.ReplaceAllStringFunc(path, func(match string) string {
		name := variable.FindStringSubmatch(match)[1]
		bound[name] = true
		return url.PathEscape(from.Get(from.Descriptor().Fields().ByName(protoreflect.Name(name))).String())
	})
	query := url.Values{}
	addParameters(query, "", from, bound)
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	var body io.Reader
	if rule.GetBody() != "" {
		text, err := bodyOf(from, from.Descriptor().Fields().ByName(protoreflect.Name(rule.GetBody())))
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, verb, issuer+path, body)
	if err == nil && body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, err
}

// ruleOf returns the verb and path of an HTTP rule.
func ruleOf(rule *annotations.HttpRule) (verb, path string) {
	switch at := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		return http.MethodGet, at.Get
	case *annotations.HttpRule_Put:
		return http.MethodPut, at.Put
	case *annotations.HttpRule_Post:
		return http.MethodPost, at.Post
	case *annotations.HttpRule_Patch:
		return http.MethodPatch, at.Patch
	default:
		return http.MethodDelete, rule.GetDelete()
	}
}

// bodyOf returns one field of a message as JSON.
func bodyOf(from protoreflect.Message, field protoreflect.FieldDescriptor) ([]byte, error) {
	if !field.IsList() {
		return protojson.Marshal(from.Get(field).Message().Interface())
	}
	list := []json.RawMessage{}
	for i := range from.Get(field).List().Len() {
		text, err := protojson.Marshal(from.Get(field).List().Get(i).Message().Interface())
		if err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	return json.Marshal(list)
}

// addParameters adds what is set and not bound elsewhere.
func addParameters(query url.Values, prefix string, from protoreflect.Message, bound map[string]bool) {
	from.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		name := prefix + field.JSONName()
		switch {
		case prefix == "" && bound[string(field.Name())]:
		case field.Message() != nil:
			addParameters(query, name+".", value.Message(), nil)
		case field.Enum() != nil && field.Enum().Values().ByNumber(value.Enum()) != nil:
			query.Set(name, string(field.Enum().Values().ByNumber(value.Enum()).Name()))
		default:
			query.Set(name, value.String())
		}
		return true
	})
}
