package session

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	sessionv3 "github.com/writ-id/writ/gen/proto/writ/session/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/api/authenticator"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/resource"
)

// change is what Session and PatchSession have in common.
type change interface {
	GetMetadata() map[string][]byte
	GetChallenges() *sessionv3.Challenges
	GetLifetime() *durationpb.Duration
}

// apply writes into a session, which this transaction makes or has locked, what a
// call proved and wants.
func (s *Service) apply(ctx context.Context, tx pgx.Tx, draft *resource.Draft[row, storage.Sessions], p *proven, in change) (*sessionv3.MadeChallenges, error) {
	session := draft.Row
	switch { // the session may have changed since the checks
	case s.expired(session):
		return nil, errExpired()
	case p.isNew && session.UserID != nil, p.user == nil && session.UserID != nil:
		return nil, errUserKnown()
	}
	for _, step := range p.steps {
		if step.use != nil {
			if err := step.use(ctx, tx); err != nil {
				return nil, err
			}
		}
	}
	if err := s.fill(ctx, draft, p, in); err != nil {
		return nil, err
	}
	if err := draft.Store(ctx, tx); err != nil {
		return nil, err
	}
	return s.challenge(ctx, tx, session, in.GetChallenges())
}

// fill makes the steps of a draft of what was proven and what a call wants.
func (s *Service) fill(ctx context.Context, draft *resource.Draft[row, storage.Sessions], p *proven, in change) error {
	for _, step := range p.steps {
		// A copy: a transaction that is run again fills it anew.
		draft.Change(ctx, proto.CloneOf(step.payload), step.set)
	}
	metadata, err := merge(metadataOf(draft.Row), in.GetMetadata())
	if err != nil {
		return err
	}
	draft.Change(ctx, &eventv1.SessionMetadataSet{}, func(session *row) { session.Metadata = metadata })
	if in.GetLifetime() != nil {
		end := s.Now().Add(in.GetLifetime().AsDuration()).Truncate(time.Microsecond)
		draft.Change(ctx, &eventv1.SessionLifetimeSet{}, func(session *row) { session.ExpirationDate = &end })
	}
	return nil
}

// challenge makes the codes that a call wants.
func (s *Service) challenge(ctx context.Context, tx pgx.Tx, session *row, want *sessionv3.Challenges) (*sessionv3.MadeChallenges, error) {
	if want.GetOtpSms() == nil && want.GetOtpEmail() == nil {
		return nil, nil
	}
	if session.UserID == nil {
		return nil, errNoUser()
	}
	made := &sessionv3.MadeChallenges{}
	for _, one := range []struct {
		want    *sessionv3.CodeChallenge
		purpose authenticator.Purpose
		field   string
		code    **string
	}{
		{want.GetOtpSms(), authenticator.SessionSMS, "otpSms", &made.OtpSms},
		{want.GetOtpEmail(), authenticator.SessionEmail, "otpEmail", &made.OtpEmail},
	} {
		if one.want == nil {
			continue
		}
		answer := one.want.GetReturnCode()
		if answer && !holds(ctx, session, "session.write") {
			// The token alone is in the hands of the user, who has to get the code the
			// way that it proves.
			return nil, fault.New(fault.PermissionDenied, "PERMISSION_DENIED", "the caller lacks the permission session.write, which returning a code needs").
				On("session.challenges." + one.field + ".returnCode")
		}
		code, err := s.factors.Challenge(ctx, tx, session.InstanceID, *session.UserID, one.purpose, session.ID, one.want.GetAuthenticatorId(), !answer)
		if err != nil {
			return nil, err
		}
		if answer {
			*one.code = &code
		}
	}
	return made, nil
}

// metadataLimit is how many keys a session may have.
const metadataLimit = 50

// merge sets keys of metadata, and deletes those set to nothing.
func merge(all, set map[string][]byte) (json.RawMessage, error) {
	for key, value := range set {
		if len(value) == 0 {
			delete(all, key)
		} else {
			all[key] = value
		}
	}
	if len(all) > metadataLimit {
		return nil, fault.New(fault.FailedPrecondition, "METADATA_FULL", "a session has at most %d keys of metadata", metadataLimit).On("session.metadata")
	}
	return json.Marshal(all)
}

func metadataOf(session *row) map[string][]byte {
	all := map[string][]byte{}
	_ = json.Unmarshal(session.Metadata, &all) // what merge wrote
	return all
}

// clock returns the time of a proof.
func (s *Service) clock() *time.Time {
	now := s.Now()
	return &now
}
