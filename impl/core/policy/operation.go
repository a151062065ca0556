package policy

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/core/fault"
)

// Operation is one method with what its contract asks of callers.
type Operation struct {
	Method     string // "/package.Service/Method"
	Permission string // "" for any authenticated caller
	Feature    policyv1.Feature
	Success    []uint32
	levels     []policyv1.Level
	reach      policyv1.Reach
	self       bool
	inherits   bool // it is about an object that contexts inherit; see Call.Sees
	skippable  bool // of a service that owners reach whatever executions do
}

// Operations holds the operations of the mounted services by method.
type Operations struct {
	byMethod map[string]*Operation
	methods  []string // sorted
	services []string // sorted

	// Those that executions can run around: not what is of the system alone.
	extensibleMethods, extensibleServices []string
}

// NewOperations reads the operations of the named services from their
// descriptors. A method that does not state its policy is an error: what has no
// rule is not served (SEC-230).
func NewOperations(services ...string) (*Operations, error) {
	o := &Operations{byMethod: map[string]*Operation{}, services: slices.Sorted(slices.Values(services))}
	for _, name := range services {
		descriptor, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
		if err != nil {
			return nil, fmt.Errorf("service %s: %w", name, err)
		}
		skippable := proto.GetExtension(descriptor.Options(), policyv1.E_SkipsExecutions).(bool)
		methods := descriptor.(protoreflect.ServiceDescriptor).Methods()
		for i := range methods.Len() {
			method := methods.Get(i)
			option := proto.GetExtension(method.Options(), policyv1.E_Operation).(*policyv1.Operation)
			if option == nil {
				return nil, fmt.Errorf("%s has no (writ.policy.v1.operation)", method.FullName())
			}
			full := "/" + name + "/" + string(method.Name())
			o.byMethod[full] = &Operation{
				Method: full, Permission: option.GetPermission(), Feature: option.GetFeature(),
				Success: option.GetSuccess(), levels: option.GetLevels(), reach: option.GetReach(), self: option.GetSelf(), inherits: option.GetInherits(),
				skippable: skippable,
			}
			o.methods = append(o.methods, full)
			if !o.byMethod[full].ofSystem() {
				o.extensibleMethods = append(o.extensibleMethods, full)
				o.extensibleServices = append(o.extensibleServices, name)
			}
		}
	}
	slices.Sort(o.methods)
	slices.Sort(o.extensibleMethods)
	slices.Sort(o.extensibleServices)
	o.extensibleServices = slices.Compact(o.extensibleServices)
	return o, nil
}

// Methods returns all methods as "/package.Service/Method", sorted.
func (o *Operations) Methods() []string { return slices.Clone(o.methods) }

// Services returns all services as "package.Service", sorted.
func (o *Operations) Services() []string { return slices.Clone(o.services) }

// Find returns the operation of a method, or nil.
func (o *Operations) Find(method string) *Operation { return o.byMethod[method] }

// ExtensibleMethods returns the methods that executions can run around, sorted: all but
// those of the system, of which no tenant is told and which none changes.
func (o *Operations) ExtensibleMethods() []string { return slices.Clone(o.extensibleMethods) }

// ExtensibleServices returns the services with such methods, sorted.
func (o *Operations) ExtensibleServices() []string { return slices.Clone(o.extensibleServices) }

// IsExtensible reports whether executions can run around a method, or around methods of a
// service, of that name.
func (o *Operations) IsExtensible(name string) bool {
	_, method := slices.BinarySearch(o.extensibleMethods, name)
	_, service := slices.BinarySearch(o.extensibleServices, name)
	return method || service
}

// HasService reports whether a service of that name is served.
func (o *Operations) HasService(name string) bool {
	_, found := slices.BinarySearch(o.services, name)
	return found
}

// Permissions returns every permission an operation asks for.
func (o *Operations) Permissions() []string {
	var all []string
	for _, operation := range o.byMethod {
		if operation.Permission != "" {
			all = append(all, operation.Permission)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Denied is the refusal of callers without the permission in the context; of an
// operation that needs none, of those to whom the context is nothing.
func (o *Operation) Denied() error {
	if o.Permission == "" {
		return fault.New(fault.PermissionDenied, "PERMISSION_DENIED", "the context is not that of the caller")
	}
	return fault.New(fault.PermissionDenied, "PERMISSION_DENIED", "the caller lacks the permission %s in this context", o.Permission)
}

// ofSystem reports whether the operation applies to the system alone. The generation holds
// the levels of the contract to what requests can select.
func (o *Operation) ofSystem() bool {
	return len(o.levels) == 1 && o.levels[0] == policyv1.Level_LEVEL_SYSTEM
}

// featureNames are the names of features as the feature API spells them, for
// example multitenancy_resources_api; FeatureDefaults says by them what holds where neither
// the instance nor the system decided. It is not to be changed.
var featureNames, FeatureDefaults = func() (map[policyv1.Feature]string, map[string]bool) {
	names, defaults := map[policyv1.Feature]string{}, map[string]bool{}
	values := policyv1.Feature(0).Descriptor().Values()
	for i := range values.Len() {
		name := strings.ToLower(strings.TrimPrefix(string(values.Get(i).Name()), "FEATURE_"))
		names[policyv1.Feature(values.Get(i).Number())] = name
		defaults[name] = proto.GetExtension(values.Get(i).Options(), policyv1.E_OnByDefault).(bool)
	}
	return names, defaults
}()
