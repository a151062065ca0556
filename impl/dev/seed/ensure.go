package seed

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
)

// kind is a kind of resource by the names of its operations in the contract.
type kind struct {
	service, name, plural string
	body                  string // the field of requests that holds it
}

var (
	organizations = kind{"writ.org.v3alpha.ServiceOrganizations", "Organization", "Organizations", "organization"}
	domains       = kind{"writ.domain.v3alpha.ServiceDomains", "Domain", "Domains", "domain"}
	targets       = kind{"writ.action.v3alpha.ServiceActions", "Target", "Targets", "target"}
	userSchemas   = kind{"writ.schema.v3alpha.ServiceUserSchemas", "UserSchema", "UserSchemas", "user_schema"}
	users         = kind{"writ.user.v3alpha.ServiceUsers", "User", "Users", "user"}
	memberships   = kind{"writ.membership.v3alpha.ServiceMemberships", "Membership", "Memberships", "membership"}
	projects      = kind{"writ.project.v3alpha.ServiceProjects", "Project", "Projects", "project"}
	roles         = kind{"writ.grant.v3alpha.ServiceGrants", "Role", "Roles", "role"}
	projectGrants = kind{"writ.grant.v3alpha.ServiceGrants", "ProjectGrant", "ProjectGrants", "project_grant"}
	userGrants    = kind{"writ.grant.v3alpha.ServiceGrants", "UserGrant", "UserGrants", "user_grant"}
	smtpProviders = kind{"writ.smtp.v3alpha.ServiceSMTPProviders", "SMTPProvider", "SMTPProviders", "provider"}
	smsProviders  = kind{"writ.sms.v3alpha.ServiceSMSProviders", "SMSProvider", "SMSProviders", "provider"}
	apps          = kind{"writ.app.v3alpha.ServiceApps", "App", "Apps", "app"}
)

// ensure makes a resource exist as body says and returns its ID: it is found by
// the filters, patched when it is there, and created when not. answer is that of
// the creation, nil when it was there.
func (r *run) ensure(ctx context.Context, k kind, body Body, filters ...Body) (id string, answer proto.Message, err error) {
	found, err := r.call(ctx, k, "Search"+k.plural, Body{"filters": filters})
	if err != nil {
		return "", nil, err
	}
	if results := list(found, "result"); results.Len() > 0 {
		id = detailsOf(results.Get(0).Message()).GetId()
		return id, nil, r.patch(ctx, k, id, body)
	}
	answer, err = r.call(ctx, k, "Create"+k.name, Body{k.body: body})
	if err != nil {
		return "", nil, err
	}
	return detailsOf(answer.ProtoReflect()).GetId(), answer, nil
}

// patch changes what the contract lets a patch change; a patch that changes
// nothing writes nothing.
func (r *run) patch(ctx context.Context, k kind, id string, body Body) error {
	request, err := requestType(k, "Patch"+k.name)
	if err != nil {
		return err
	}
	patch := request.Descriptor().Fields().ByName(protoreflect.Name(k.body)).Message()
	_, err = r.call(ctx, k, "Patch"+k.name, Body{"id": id, k.body: prune(body, patch)})
	return err
}

// prune returns what of body a message has fields for.
func prune(body map[string]any, message protoreflect.MessageDescriptor) map[string]any {
	kept := map[string]any{}
	for name, value := range body {
		field := message.Fields().ByTextName(name)
		if field == nil {
			field = message.Fields().ByJSONName(name)
		}
		switch inner, nested := value.(map[string]any); {
		case field == nil:
		case nested && field.Message() != nil && !field.IsMap() && field.Message().FullName() != "google.protobuf.Struct":
			kept[name] = prune(inner, field.Message())
		case field.Message() != nil && !field.IsList() && isList(value):
			kept[name] = map[string]any{string(field.Message().Fields().Get(0).Name()): value}
		default:
			kept[name] = value
		}
	}
	return kept
}

func isList(value any) bool { return reflect.ValueOf(value).Kind() == reflect.Slice }

// call calls an operation with a request written as JSON, by its rules.
func (r *run) call(ctx context.Context, k kind, operation string, request Body) (proto.Message, error) {
	made, err := requestType(k, operation)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	req := made.New().Interface()
	if err := protojson.Unmarshal(text, req); err != nil {
		return nil, fmt.Errorf("%s: %w", operation, err)
	}
	return r.Call(ctx, "/"+k.service+"/"+operation, req)
}

func requestType(k kind, operation string) (protoreflect.MessageType, error) {
	pkg := k.service[:strings.LastIndexByte(k.service, '.')]
	return protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(pkg + "." + operation + "Request"))
}

// list returns a list field of an answer.
func list(message proto.Message, name protoreflect.Name) protoreflect.List {
	m := message.ProtoReflect()
	return m.Get(m.Descriptor().Fields().ByName(name)).List()
}

// text returns a text of an answer, "" when it has none of that name.
func text(message proto.Message, name protoreflect.Name) string {
	if message == nil {
		return ""
	}
	m := message.ProtoReflect()
	if field := m.Descriptor().Fields().ByName(name); field != nil {
		return m.Get(field).String()
	}
	return ""
}

func detailsOf(m protoreflect.Message) *object.Details {
	return m.Get(m.Descriptor().Fields().ByName("details")).Message().Interface().(*object.Details)
}
