package subject

import (
	"context"
	"encoding/json"

	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/oidc/endpoint"
)

// actor is the claim act (RFC 8693, section 4.1): who acts, and who acted before.
type actor struct {
	Sub string          `json:"sub"`
	Act json.RawMessage `json:"act"`
}

func actorOf(act []byte) (a actor) {
	if len(act) > 0 {
		_ = json.Unmarshal(act, &a) // what we wrote
	}
	return a
}

// Actor returns who acts, by the claim act; "" is nobody.
func Actor(act []byte) string { return actorOf(act).Sub }

// mayAct reports whether each of those who act by a token may still: they are active, and
// have the permission to act in the name of whom they do. What lets them can be taken away at
// any time, so it is asked at each use, as generations are.
func (s *Reader) mayAct(ctx context.Context, at endpoint.Site, t *tokenv1.AccessToken) (bool, error) {
	principals := []string{t.GetUserId()}
	for one := actorOf(t.GetActor()); one.Sub != ""; one = actorOf(one.Act) {
		if found, err := s.Read(ctx, at, About{User: one.Sub}); err != nil || found == nil {
			return false, err
		}
		may := false
		for _, principal := range principals { // whose name it was then the claim does not say
			if may = principal == one.Sub; !may {
				var err error
				if may, err = s.mayBe(ctx, at, one.Sub, principal); err != nil {
					return false, err
				}
			}
			if may {
				break
			}
		}
		if !may {
			return false, nil
		}
		if principals[len(principals)-1] != one.Sub {
			principals = []string{t.GetUserId(), one.Sub}
		}
	}
	return true, nil
}

func (s *Reader) mayBe(ctx context.Context, at endpoint.Site, actorID, userID string) (bool, error) {
	of, err := s.Read(ctx, at, About{User: userID})
	if err != nil || of == nil {
		return false, err
	}
	return s.Roles.MayImpersonate(ctx, s.DB.Pool, policy.Identity{UserID: actorID}, policy.Place{InstanceID: at.ID, OrgID: of.OrgID, UserID: userID})
}
