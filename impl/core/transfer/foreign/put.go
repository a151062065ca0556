package foreign

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	appv3 "github.com/writ-id/writ/gen/proto/writ/app/v3alpha"
	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/redirect"
	"github.com/writ-id/writ/impl/core/transfer"
)

// rules are those of everything that a file has.
var rules = sync.OnceValues(func() (protovalidate.Validator, error) {
	return protovalidate.New(protovalidate.WithMessages(&transferv1.TransferFile{}), protovalidate.WithFailFast()) // mend takes one at a time
})

// put hands on an item of a list of transferv1.TransferFile. What of it the contract does not
// take is left out of it and reported, as long as it can be without: a telephone number
// that is none keeps no one from moving.
func (r *reading) put(kind, id string, item transfer.Item) {
	if app, ok := item.(*transferv1.TransferApp); ok {
		r.register(id, app.GetOidc())
	}
	if r.mend(kind, id, item) {
		if user, ok := item.(*transferv1.TransferUser); ok && user.GetHuman().GetEmail().GetAddress() == "" {
			user.IsEmailProven = false
		}
		r.queue = append(r.queue, entry{storage.Moved.Find(kind), item})
	}
}

// register leaves out the addresses that no app could have been given here (SEC-003).
func (r *reading) register(id string, of *appv3.OIDCConfig) {
	if of == nil {
		return
	}
	client := redirect.Client{Native: of.GetApplicationType() == appv3.ApplicationType_APPLICATION_TYPE_NATIVE, Development: of.GetDevelopmentMode()}
	for _, list := range []struct {
		name   string
		values *[]string
		check  func(string) error
	}{
		{"redirect URI", &of.RedirectUris, client.Check},
		{"redirect URI after logout", &of.PostLogoutRedirectUris, client.Check},
		{"origin", &of.AdditionalOrigins, client.CheckOrigin},
	} {
		var kept []string
		for _, value := range *list.values {
			if err := list.check(value); err != nil {
				r.Lost("apps", id, fmt.Sprintf("without the %s %q: it %v", list.name, value, err))
			} else {
				kept = append(kept, value)
			}
		}
		*list.values = kept
	}
}

// mend makes a message keep to the contract by leaving out of it what does not, and
// reports that; false is that it cannot.
func (r *reading) mend(kind, id string, m proto.Message) bool {
	v, err := rules()
	if err != nil {
		r.refuse("", "the rules of the contract: %v", err)
		return false
	}
	cleared := map[string]bool{}
	for range 50 {
		err := v.Validate(m)
		if err == nil {
			return true
		}
		invalid, ok := errors.AsType[*protovalidate.ValidationError](err)
		if !ok {
			r.refuse("", "%s %s: %v", kind, id, err)
			return false
		}
		first := invalid.Violations[0].Proto
		path := first.GetField().GetElements()
		field := protovalidate.FieldPathString(first.GetField())
		for ; len(path) > 0 && cleared[pathKey(path)]; path = path[:len(path)-1] {
		}
		key := pathKey(path)
		if len(path) == 0 || !leaveOut(m.ProtoReflect(), path) {
			r.Lost(kind, id, strings.TrimPrefix(fmt.Sprintf("%s: %s", field, first.GetMessage()), ": "))
			return false
		}
		if !listed(path) { // the next one has the place of one that is gone
			cleared[key] = true
		}
		if !cleared["said "+field] {
			cleared["said "+field] = !listed(path)
			r.Lost(kind, id, fmt.Sprintf("without %s: %s", field, first.GetMessage()))
		}
	}
	r.Lost(kind, id, "too much of it is not as the contract has it")
	return false
}

func pathKey(path []*validate.FieldPathElement) string {
	return protovalidate.FieldPathString(&validate.FieldPath{Elements: path})
}

func listed(path []*validate.FieldPathElement) bool {
	_, ok := path[len(path)-1].GetSubscript().(*validate.FieldPathElement_Index)
	return ok
}

// leaveOut takes what is at a path out of a message, unless it is what the message is
// about: its ID, or the only thing that it is.
func leaveOut(m protoreflect.Message, path []*validate.FieldPathElement) bool {
	for i, element := range path {
		field := m.Descriptor().Fields().ByNumber(protoreflect.FieldNumber(element.GetFieldNumber()))
		if field == nil || !m.Has(field) {
			return false
		}
		last := i == len(path)-1
		switch {
		case last && field.IsList() && listed(path):
			list, at := m.Mutable(field).List(), int(element.GetIndex())
			if at >= list.Len() {
				return false
			}
			for ; at < list.Len()-1; at++ {
				list.Set(at, list.Get(at+1))
			}
			list.Truncate(list.Len() - 1)
		case last && (field.ContainingOneof() != nil && !field.ContainingOneof().IsSynthetic()):
			return false
		case last && i == 0 && isKey(field):
			return false
		case last:
			m.Clear(field)
		case field.Message() == nil || field.IsList() || field.IsMap():
			return false
		default:
			m = m.Mutable(field).Message()
		}
	}
	return true
}

// isKey tells fields that say what a message is about. Without them it is another.
func isKey(field protoreflect.FieldDescriptor) bool {
	name := string(field.Name())
	return name == "id" || strings.HasSuffix(name, "_id") || name == "username" || name == "key" || name == "value" || name == "role_keys" || name == "roles"
}
