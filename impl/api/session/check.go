package session

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	sessionv3 "github.com/writ-id/writ/gen/proto/writ/session/v3alpha"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/api/authenticator"
	"github.com/writ-id/writ/impl/api/user"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/store"
)

// active is the state of users who can sign in.
const active = userv3.UserState_USER_STATE_ACTIVE

// errCheck is the answer to every check that fails. Whether there is such a user,
// whether they may sign in and which check it was is not told (SEC-170).
var errCheck = newErrCheck()

func newErrCheck() *fault.Error {
	return fault.New(fault.FailedPrecondition, "CHECK_FAILED", "a check failed")
}

// failed turns what a check of another package failed with into errCheck.
func failed(err error) error {
	if errors.Is(err, authenticator.ErrCode) {
		return errCheck
	}
	return err
}

// proven is what the checks of a call have found to be right.
type proven struct {
	user     *db.LoginUserRow // of the session, when it is about one
	isNew    bool             // the session did not know the user before
	steps    []step
	password *user.Right // that was compared and has to be judged still
}

// onlyPassword reports whether nothing was proven besides the user and a password.
func (p *proven) onlyPassword() bool {
	for _, step := range p.steps {
		switch step.payload.(type) {
		case *eventv1.SessionUserChecked, *eventv1.SessionPasswordChecked:
		default:
			return false
		}
	}
	return true
}

// done follows a session that was stored.
func (p *proven) done(ctx context.Context) error {
	if p.password == nil {
		return nil
	}
	return p.password.Improve(ctx)
}

// step writes one proof into a session.
type step struct {
	payload event.Payload
	use     func(context.Context, pgx.Tx) error // uses the proof up; nil when it is none of the kind
	set     func(*row)
}

// Attempt is who tries a password, and what the pages have read of whom already.
type Attempt struct {
	user.Attempt
	User *db.LoginUserRow
}

// check checks what a call says to prove, in order; the first failure ends it. It
// counts failures for good, whatever becomes of the call.
func (s *Service) check(ctx context.Context, session *row, checks *sessionv3.Checks, by Attempt) (*proven, error) {
	if s.expired(session) {
		return nil, errExpired()
	}
	p := &proven{}
	if err := s.checkUser(ctx, session, checks, p, by); err != nil {
		return nil, err
	}
	if p.user == nil {
		if checks.GetPassword() != nil || checks.GetTotp() != nil || checks.GetOtpSms() != nil || checks.GetOtpEmail() != nil {
			return nil, errNoUser()
		}
		return p, nil
	}
	if checks.GetPassword() != nil {
		by.InstanceID, by.UserID, by.Hash = session.InstanceID, p.user.ID, p.user.PasswordHash
		right, err := s.checkPassword(ctx, by, checks.GetPassword().GetPassword())
		if err != nil {
			return nil, err
		}
		step := s.passwordStep()
		if checks.GetTotp() == nil && checks.GetOtpSms() == nil && checks.GetOtpEmail() == nil {
			step.use = func(ctx context.Context, tx pgx.Tx) error { return s.judged(ctx, right.Accept(ctx, tx)) }
		} else if err := s.judged(ctx, right.Accept(ctx, s.DB.Conn())); err != nil { // what comes next would tell that it was right
			return nil, err
		}
		p.password, p.steps = right, append(p.steps, step)
	}
	return p, failed(s.checkCodes(ctx, session, checks, p))
}

// hold refuses proofs of a user whose generation has ended since they were checked, and
// keeps it from ending before the transaction does (SEC-097). It comes before the session
// is locked, in the order in which signing out takes the two.
func (s *Service) hold(ctx context.Context, tx pgx.Tx, instanceID string, p *proven) error {
	if p.user == nil || len(p.steps) == 0 {
		return nil
	}
	now, err := s.queries.HoldGeneration(ctx, tx, db.HoldGenerationParams{InstanceID: instanceID, ID: p.user.ID})
	if store.NoRow(err) || err == nil && (now.Generation != p.user.Generation || now.State != active) {
		return errCheck
	}
	return err
}

func (s *Service) passwordStep() step {
	return step{&eventv1.SessionPasswordChecked{}, nil, func(session *row) { session.PasswordVerifiedAt = s.clock() }}
}

// Intent is how somebody signed in with an identity provider.
type Intent struct {
	IDPID, ExternalUserID string
	AuthTime              time.Time // when they authenticated there
}

// intentStep writes that into a session, while the account there is linked to its user.
func (s *Service) intentStep(instanceID string, p *proven, intent Intent) step {
	linked := func(ctx context.Context, tx pgx.Tx) error {
		if p.user == nil {
			return errNoUser()
		}
		_, err := s.queries.HoldLink(ctx, tx, db.HoldLinkParams{InstanceID: instanceID, IdpID: intent.IDPID, ExternalUserID: intent.ExternalUserID, UserID: p.user.ID})
		if err == nil || store.NoRow(err) {
			s.Telemetry.Login(ctx, "idp", err == nil)
		}
		if store.NoRow(err) {
			return errCheck
		}
		return err
	}
	return step{&eventv1.SessionIntentChecked{}, linked, func(session *row) {
		session.IntentVerifiedAt, session.IntentAuthTime, session.IdpID = s.clock(), &intent.AuthTime, intent.IDPID
	}}
}

func errExpired() error {
	return fault.New(fault.FailedPrecondition, "SESSION_EXPIRED", "the lifetime of the session is over")
}

func errNoUser() error {
	return fault.New(fault.FailedPrecondition, "USER_MISSING", "the session has to know its user first")
}

// checkUser finds the user of a session, who must be able to sign in now.
func (s *Service) checkUser(ctx context.Context, session *row, checks *sessionv3.Checks, p *proven, by Attempt) error {
	named := checks.GetUser()
	params := db.LoginUserParams{InstanceID: policy.CallFrom(ctx).Context.InstanceID}
	switch {
	case named != nil && session.UserID != nil:
		return errUserKnown()
	case named != nil && named.GetLoginName() != "":
		at := strings.LastIndexByte(named.GetLoginName(), '@')
		if at >= 0 {
			params.UsernameFolded = resource.Fold(named.GetLoginName()[:at])
			params.Domain = strings.ToLower(named.GetLoginName()[at+1:])
		}
	case named != nil:
		params.ID = named.GetUserId()
	case session.UserID != nil:
		params.ID = *session.UserID
	default:
		return nil
	}
	found, err := s.userOf(ctx, params, by)
	if store.NoRow(err) {
		if checks.GetPassword() != nil { // as long as with a user, and refused under load like one
			by.InstanceID, by.UserID, by.Name = params.InstanceID, "", cmp.Or(by.Name, named.GetLoginName(), params.ID)
			_, err = s.checkPassword(ctx, by, checks.GetPassword().GetPassword())
		}
		if err == nil || store.NoRow(err) {
			err = errCheck
		}
		return err
	}
	if err != nil {
		return err
	}
	p.user, p.isNew = &found, session.UserID == nil
	if p.isNew {
		p.steps = append(p.steps, step{&eventv1.SessionUserChecked{}, nil, func(session *row) {
			session.UserID, session.OrgID, session.UserVerifiedAt = &found.ID, &found.OrgID, s.clock()
		}})
	}
	return nil
}

func errUserKnown() error {
	return fault.New(fault.FailedPrecondition, "USER_KNOWN", "the session has its user already").On("session.checks.user")
}

// userOf reads a user; the pages have done so when they looked whom a name means.
func (s *Service) userOf(ctx context.Context, params db.LoginUserParams, by Attempt) (db.LoginUserRow, error) {
	if by.User != nil && by.User.ID == params.ID {
		return *by.User, nil
	}
	if params.ID == "" && params.Domain == "" { // nobody is called like that
		return db.LoginUserRow{}, pgx.ErrNoRows
	}
	return s.queries.LoginUser(ctx, s.DB.Conn(), params)
}

// checkPassword compares a password, which is judged when it is used.
func (s *Service) checkPassword(ctx context.Context, by Attempt, password string) (*user.Right, error) {
	right, err := s.users.CheckPassword(ctx, by.Attempt, password)
	if right == nil && err == nil {
		err = errCheck
		s.Telemetry.Login(ctx, "password", false)
	} else if errors.Is(err, user.ErrTooMany) {
		err = s.judged(ctx, err)
	}
	return right, err
}

// judged tells of a password what it was judged to be. That there were too many before is for
// the pages to know; on the wire it is a failure like others.
func (s *Service) judged(ctx context.Context, err error) error {
	tooMany := errors.Is(err, user.ErrTooMany)
	if err == nil || tooMany {
		s.Telemetry.Login(ctx, "password", err == nil)
	}
	if tooMany {
		return newErrCheck().Because(err)
	}
	return err
}

// tried counts a code that was right, or wrong.
func (s *Service) tried(ctx context.Context, kind string, err error) {
	if err == nil || errors.Is(err, authenticator.ErrCode) {
		s.Telemetry.Login(ctx, kind, err == nil)
	}
}

// checkCodes tries the codes of second factors.
func (s *Service) checkCodes(ctx context.Context, session *row, checks *sessionv3.Checks, p *proven) error {
	if checks.GetTotp() != nil {
		proof, err := s.factors.CheckTOTP(ctx, session.InstanceID, p.user.ID, checks.GetTotp().GetCode())
		if s.tried(ctx, "totp", err); err != nil {
			return err
		}
		p.steps = append(p.steps, step{&eventv1.SessionTOTPChecked{}, proof.Use, func(session *row) { session.TotpVerifiedAt = s.clock() }})
	}
	if checks.GetOtpSms() != nil {
		proof, err := s.factors.CheckCode(ctx, session.InstanceID, p.user.ID, authenticator.SessionSMS, session.ID, checks.GetOtpSms().GetCode())
		if s.tried(ctx, "otp_sms", err); err != nil {
			return err
		}
		p.steps = append(p.steps, step{&eventv1.SessionOTPSMSChecked{}, proof.Use, func(session *row) { session.OtpSmsVerifiedAt = s.clock() }})
	}
	if checks.GetOtpEmail() != nil {
		proof, err := s.factors.CheckCode(ctx, session.InstanceID, p.user.ID, authenticator.SessionEmail, session.ID, checks.GetOtpEmail().GetCode())
		if s.tried(ctx, "otp_email", err); err != nil {
			return err
		}
		p.steps = append(p.steps, step{&eventv1.SessionOTPEmailChecked{}, proof.Use, func(session *row) { session.OtpEmailVerifiedAt = s.clock() }})
	}
	return nil
}
