package user

import (
	"context"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/policy"
)

// consentTaken is why tokens end whose user took back what the application may do.
const consentTaken = "consent"

// GiveConsent stores that a user lets an application act for them at the resource API, with
// some roles, each as role@object. It is no operation: a user says so on a page.
func (s *Service) GiveConsent(ctx context.Context, userID, appID string, roles []string) error {
	err := s.DB.InTx(ctx, func(tx pgx.Tx) error {
		user, err := s.users.Hold(ctx, tx, userID)
		if err != nil {
			return err
		}
		if err := s.queries.GiveConsent(ctx, tx, db.GiveConsentParams{InstanceID: user.InstanceID, UserID: userID, AppID: appID, Roles: roles, Now: s.Now()}); err != nil {
			return err
		}
		return s.told(ctx, tx, user, &eventv1.UserConsentAdded{AppId: appID, Roles: roles})
	})
	return s.users.Refusal(err)
}

// ListUserConsents lists whom a user lets act for them.
func (s *Service) ListUserConsents(ctx context.Context, req *userv3.ListUserConsentsRequest) (*userv3.ListUserConsentsResponse, error) {
	user, err := s.users.Get(ctx, req.GetUserId())
	if err != nil {
		return nil, err
	}
	rows, err := s.queries.ConsentsOfUser(ctx, s.DB.Conn(), db.ConsentsOfUserParams{InstanceID: user.InstanceID, UserID: user.ID})
	res := &userv3.ListUserConsentsResponse{}
	for i := range rows {
		res.Result = append(res.Result, &userv3.Consent{
			AppId: rows[i].AppID, AppName: rows[i].Name, Roles: rows[i].Roles, CreationDate: timestamppb.New(rows[i].CreationDate),
		})
	}
	return res, err
}

// RevokeUserConsent takes back what an application may do, and ends the families of tokens
// that it got for that; other tokens of it are asked about at each use.
func (s *Service) RevokeUserConsent(ctx context.Context, req *userv3.RevokeUserConsentRequest) (*userv3.RevokeUserConsentResponse, error) {
	res := &userv3.RevokeUserConsentResponse{}
	err := s.DB.InTx(ctx, func(tx pgx.Tx) error {
		user, err := s.users.Lock(ctx, tx, req.GetUserId())
		if err != nil {
			return err
		}
		res.Details = s.users.Details(user)
		gone, err := s.queries.TakeConsentBack(ctx, tx, db.TakeConsentBackParams{InstanceID: user.InstanceID, UserID: user.ID, AppID: req.GetAppId()})
		if err != nil || gone == 0 {
			return err
		}
		payload, from := &eventv1.OIDCSessionRefreshTokenRevoked{Reason: consentTaken}, policy.OriginOf(ctx)
		if _, err := s.queries.RevokeConsented(ctx, tx, db.RevokeConsentedParams{
			InstanceID: user.InstanceID, UserID: user.ID, AppID: req.GetAppId(), Audience: policy.Audience,
			EventType: event.Type(payload), Payload: event.JSON(payload), Creator: policy.CallFrom(ctx).Caller.UserID, Now: s.Now(),
			ClientAddress: from.ClientAddress, Traceparent: from.Traceparent,
		}); err != nil {
			return err
		}
		if err := s.told(ctx, tx, user, &eventv1.UserConsentRemoved{AppId: req.GetAppId()}); err != nil {
			return err
		}
		return s.queries.NotifyChange(ctx, tx) // every node asks again whose tokens are good
	})
	if err != nil {
		return nil, s.users.Refusal(err)
	}
	s.Invalidate()
	return res, nil
}

// told appends an event of a user.
func (s *Service) told(ctx context.Context, tx pgx.Tx, user *db.UserRow, payload event.Payload) error {
	in := policy.In(user.InstanceID, deref(user.OrgID))
	_, err := event.Append(ctx, tx, event.Event{
		InstanceID: user.InstanceID, ObjectID: user.ID, Payload: payload, Owner: in.Owner(), Cause: policy.CauseOf(ctx, s.Now()),
	})
	return err
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
