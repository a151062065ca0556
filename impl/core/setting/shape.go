package setting

import (
	"google.golang.org/protobuf/proto"

	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/core/policy"
)

// Source returns the nearest of words that says a property, and the owner that it is inherited
// from; when none does, the defaults, which are the system's. The generated resolvers of
// package storage call it for each property.
func Source[M proto.Message](words []Word[M], defaults M, in policy.Context, says func(M) bool) (M, *object.Owner) {
	for i := range words {
		if says(words[i].Says) {
			return words[i].Says, words[i].Inherited(in)
		}
	}
	return defaults, &object.Owner{Type: object.OwnerType_OWNER_TYPE_SYSTEM}
}
