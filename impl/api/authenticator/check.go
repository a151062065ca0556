package authenticator

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/store"
)

// Proof is a code that was found right. Use uses it up in the transaction of what
// it proves; it is ErrCode when another one was faster.
type Proof struct {
	factors            *Factors
	row                *db.Authenticator
	instanceID, userID string
	use                use
}

// Use uses the code up, and takes the tries of the user back.
func (p *Proof) Use(ctx context.Context, tx pgx.Tx) error {
	if err := p.use(ctx, tx, p.row); err != nil {
		return err
	}
	return p.factors.queries.ForgiveSecondFactor(ctx, tx, db.ForgiveSecondFactorParams{InstanceID: p.instanceID, ID: p.userID})
}

// CheckTOTP tries a code of the authenticator app of a user.
func (f *Factors) CheckTOTP(ctx context.Context, instanceID, userID, code string) (*Proof, error) {
	row, err := f.queries.VerifiedAuthenticator(ctx, f.DB.Conn(), db.VerifiedAuthenticatorParams{InstanceID: instanceID, UserID: userID, Type: typeTOTP})
	if store.NoRow(err) {
		return nil, ErrCode
	}
	if err != nil {
		return nil, err
	}
	use, err := f.tryTOTP(ctx, &row, code)
	return &Proof{f, &row, instanceID, userID, use}, err
}

// CheckCode tries the code of a challenge of a session.
func (f *Factors) CheckCode(ctx context.Context, instanceID, userID string, purpose Purpose, sessionID, code string) (*Proof, error) {
	use, err := f.tryCode(ctx, instanceID, userID, purpose, sessionID, code)
	return &Proof{f, nil, instanceID, userID, use}, err
}

// Challenge makes a code for a session, by the authenticator that is named or the
// oldest verified one of the user.
func (f *Factors) Challenge(ctx context.Context, tx pgx.Tx, instanceID, userID string, purpose Purpose, sessionID, authenticatorID string, send bool) (string, error) {
	kind := typeSMS
	if purpose == SessionEmail {
		kind = typeEmail
	}
	row, err := f.queries.VerifiedAuthenticator(ctx, tx, db.VerifiedAuthenticatorParams{InstanceID: instanceID, UserID: userID, Type: kind, ID: authenticatorID})
	if store.NoRow(err) {
		return "", fault.New(fault.FailedPrecondition, "AUTHENTICATOR_MISSING", "the user has no such verified authenticator")
	}
	if err != nil {
		return "", err
	}
	return f.Issue(ctx, tx, purpose, &row, &sessionID, send)
}
