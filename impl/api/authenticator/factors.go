package authenticator

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/api/message"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
)

// Purpose is what a code is good for; it is good for nothing else (SEC-017).
type Purpose int16

// The purposes: the registration of an authenticator, whose ID is the subject,
// and the challenges of a session, whose ID is the subject.
const (
	Registration = Purpose(db.CodePurposeRegistration)
	SessionSMS   = Purpose(db.CodePurposeSessionSms)
	SessionEmail = Purpose(db.CodePurposeSessionEmail)
)

const (
	codeDigits   = 8
	codeLifetime = 5 * time.Minute
	// codeAttempts is how often a code may be tried.
	codeAttempts = 5
	// FactorAttempts is how often a user may try codes of all kinds, on all roads, in
	// a period that begins with the first try that fails (SEC-175). It ends by
	// itself, so that nobody can keep a user out for good (SEC-177).
	FactorAttempts = 10
	factorPeriod   = 10 * time.Minute
)

// ErrCode is the answer to a code that is wrong, too old, used or tried too often.
var ErrCode = errors.New("authenticator: the code is not good")

// use uses up a code that was found right, within the transaction of what it
// proves. It is ErrCode when another one was faster.
type use func(ctx context.Context, tx pgx.Tx, row *db.Authenticator) error

// Factors checks second factors. It is safe for concurrent use.
type Factors struct {
	resource.Env
	sealer  secret.Sealer
	queries *db.Queries
}

// NewFactors returns Factors over env that open secrets with sealer.
func NewFactors(env resource.Env, sealer secret.Sealer) *Factors {
	return &Factors{Env: env, sealer: sealer, queries: db.New()}
}

// Issue makes a code that is sent to the address of row, or returned for the
// caller to send it. sessionID is that of the session whose challenge it is.
func (f *Factors) Issue(ctx context.Context, tx pgx.Tx, purpose Purpose, row *db.Authenticator, sessionID *string, send bool) (code string, err error) {
	code = secret.NewCode(codeDigits)
	subject := row.ID
	if sessionID != nil {
		subject = *sessionID
	}
	salt, hash := secret.HashCode(code)
	if err := f.queries.PutCode(ctx, tx, db.PutCodeParams{
		InstanceID: row.InstanceID, Purpose: int16(purpose), SubjectID: subject, AuthenticatorID: row.ID, SessionID: sessionID,
		Salt: salt, Hash: hash, ExpirationDate: f.Now().Add(codeLifetime),
	}); err != nil || !send {
		return code, err
	}
	user, err := f.queries.MessageUser(ctx, tx, db.MessageUserParams{InstanceID: row.InstanceID, ID: row.UserID})
	if err != nil {
		return "", err
	}
	domain, err := f.queries.PrimaryHost(ctx, tx, row.InstanceID) // never from the request (SEC-171)
	if err != nil {
		return "", err
	}
	m := &message.Message{
		InstanceID: row.InstanceID, OrgID: row.OrgID, UserID: row.UserID, Kind: message.SMS, Template: "otp_sms",
		Recipient: row.Address, Proven: row.IsVerified, Language: user.PreferredLanguage,
		Data: message.Data{Code: code, Minutes: int(codeLifetime.Minutes()), Domain: domain, Name: user.DisplayName},
	}
	switch {
	case row.Type == typeEmail:
		m.Kind, m.Template = message.Email, "otp_email"
	case purpose == Registration:
		m.Template = "verify_phone"
	}
	return "", message.Queue(ctx, tx, &f.Env, m)
}

// count counts a try of the user before anybody learns whether it is right, in
// its own transaction: parallel ones cannot be more than there may be (REL-027).
func (f *Factors) count(ctx context.Context, instanceID, userID string) error {
	now := f.Now()
	n, err := f.queries.TrySecondFactor(ctx, f.DB.Conn(), db.TrySecondFactorParams{
		Now: now, PeriodEnd: now.Add(factorPeriod), InstanceID: instanceID, ID: userID, AttemptsLimit: FactorAttempts,
	})
	if err == nil && n == 0 {
		err = ErrCode
	}
	return err
}

// tryCode tries a code that was sent.
func (f *Factors) tryCode(ctx context.Context, instanceID, userID string, purpose Purpose, subject, code string) (use, error) {
	if err := f.count(ctx, instanceID, userID); err != nil {
		return nil, err
	}
	made, err := f.queries.TryCode(ctx, f.DB.Conn(), db.TryCodeParams{
		InstanceID: instanceID, Purpose: int16(purpose), SubjectID: subject, Now: f.Now(), AttemptsLimit: codeAttempts,
	})
	switch {
	case store.NoRow(err), err == nil && !secret.VerifyCode(made.Salt, made.Hash, code):
		return nil, ErrCode
	case err != nil:
		return nil, err
	}
	return func(ctx context.Context, tx pgx.Tx, _ *db.Authenticator) error {
		return once(f.queries.UseCode(ctx, tx, db.UseCodeParams{InstanceID: instanceID, Purpose: int16(purpose), SubjectID: subject, Hash: made.Hash}))
	}, nil
}

// tryTOTP tries the code of an authenticator app.
func (f *Factors) tryTOTP(ctx context.Context, row *db.Authenticator, code string) (use, error) {
	if err := f.count(ctx, row.InstanceID, row.UserID); err != nil {
		return nil, err
	}
	key, err := f.open(row)
	if err != nil {
		return nil, err
	}
	step, right := secret.VerifyTOTP(key, code, f.Now())
	if !right {
		return nil, ErrCode
	}
	return func(ctx context.Context, tx pgx.Tx, row *db.Authenticator) error {
		row.LastStep = step
		return once(f.queries.UseStep(ctx, tx, db.UseStepParams{Step: step, InstanceID: row.InstanceID, ID: row.ID}))
	}, nil
}

// once is ErrCode when a statement that uses up a code changed nothing.
func once(n int64, err error) error {
	if err == nil && n == 0 {
		return ErrCode
	}
	return err
}

// place names where a secret is, for its seal. A user has one TOTP secret.
func place(instanceID, userID string) string {
	return secret.Place("authenticators", instanceID, userID)
}

func (f *Factors) seal(instanceID, userID string, key []byte) ([]byte, error) {
	return f.sealer.Seal(key, place(instanceID, userID))
}

func (f *Factors) open(row *db.Authenticator) ([]byte, error) {
	return f.sealer.Open(row.Secret, place(row.InstanceID, row.UserID))
}
