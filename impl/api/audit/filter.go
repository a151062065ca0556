package audit

import (
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	eventv3 "github.com/writ-id/writ/gen/proto/writ/event/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
)

// filter is what an event has to meet. SQL refers to it as e.
type filter struct {
	resource.Where
	instanceID string
	types      []string // nil: any
	ofObject   bool     // whether it is about one object
	times      []span
}

// span is a bound of the time of events.
type span struct {
	at     *timestamppb.Timestamp
	method object.TimestampFilterMethod
}

// newFilter returns the conditions of a search, and those of where the caller may read.
func newFilter(call *policy.Call, filters []*eventv3.EventSearchFilter) *filter {
	f := &filter{instanceID: call.Context.InstanceID}
	f.And("e.instance_id = " + f.Arg(f.instanceID)) // $1
	f.within(call)
	for _, one := range filters {
		switch one := one.GetFilter().(type) {
		case *eventv3.EventSearchFilter_Type:
			f.ofTypes(one.Type.GetTypes())
		case *eventv3.EventSearchFilter_Object:
			f.about(one.Object)
		case *eventv3.EventSearchFilter_Creator:
			f.Equal("e.creator", one.Creator.GetId())
		case *eventv3.EventSearchFilter_Owner:
			f.Equal("e.owner_id", one.Owner.GetId())
		case *eventv3.EventSearchFilter_CreationDate:
			f.Time("e.created_at", one.CreationDate.GetTimestamp(), one.CreationDate.GetMethod())
			f.times = append(f.times, span{one.CreationDate.GetTimestamp(), one.CreationDate.GetMethod()})
		case *eventv3.EventSearchFilter_Sequence:
			if one.Sequence.AtLeast != nil {
				f.And("e.sequence >= " + f.Arg(clamp(one.Sequence.GetAtLeast())))
			}
			if one.Sequence.AtMost != nil {
				f.And("e.sequence <= " + f.Arg(clamp(one.Sequence.GetAtMost())))
			}
		}
	}
	return f
}

// clamp returns a sequence as the database counts: beyond that there are none.
func clamp(sequence uint64) int64 { return int64(min(sequence, math.MaxInt64)) }

// within keeps to the context of the call and to what the caller may read: the events of
// an instance, or those of what belongs to organizations.
func (f *filter) within(call *policy.Call) {
	scope := call.Scope()
	orgs := scope.Orgs
	if call.Context.Level == policyv1.Level_LEVEL_ORG {
		if scope.All || slices.Contains(scope.Orgs, call.Context.OrgID) {
			orgs = []string{call.Context.OrgID}
		} else {
			orgs = nil
		}
	} else if scope.All {
		return
	}
	f.And("e.owner_type = " + f.Arg(int16(object.OwnerType_OWNER_TYPE_ORG)))
	if len(orgs) == 1 {
		f.Equal("e.owner_id", orgs[0])
	} else {
		f.In("e.owner_id", orgs)
	}
}

// ofTypes keeps to types. Groups become the types in them, so that an index leads to each.
func (f *filter) ofTypes(names []string) {
	var types []string
	for _, name := range names {
		if strings.HasSuffix(name, ".*") {
			types = append(types, event.Known.Named(name)...)
		} else {
			types = append(types, name)
		}
	}
	slices.Sort(types)
	f.types = resource.Intersect(f.types, slices.Compact(types))
}

// about keeps to the events of an object, or of a kind of them: those of the types that
// such objects have.
func (f *filter) about(object *eventv3.EventObjectFilter) {
	if object.Id == nil {
		f.types = resource.Intersect(f.types, event.Known.EventsOf(object.GetType()))
		return
	}
	f.Equal("e.aggregate_type", object.GetType())
	f.Equal("e.aggregate_id", object.GetId())
	f.ofObject = true
}
