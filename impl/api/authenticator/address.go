package authenticator

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	authv3 "github.com/writ-id/writ/gen/proto/writ/authenticator/v3alpha"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
)

// verification is what OTPPhone and OTPEmail say of the way to verify.
type verification interface {
	GetReturnCode() *authv3.OTPReturnCode
	GetIsVerified() bool
}

// addAddress adds an address to which codes are sent, with the first code. It
// returns the code when the caller is to send it.
func (s *Service) addAddress(ctx context.Context, userID, field string, row *db.Authenticator, how verification, added, removed event.Payload) (details *object.Details, code *string, err error) {
	call := policy.CallFrom(ctx)
	err = s.DB.InTx(ctx, func(tx pgx.Tx) error {
		user, err := s.lockHuman(ctx, tx, userID)
		if err != nil {
			return err
		}
		vouched := how.GetIsVerified() || how.GetReturnCode() != nil
		if vouched && !call.Holds("user.write", policy.Place{InstanceID: user.InstanceID, OrgID: *user.OrgID}) {
			// Who has only their own rights would prove an address to themselves (SEC-180).
			return fault.New(fault.PermissionDenied, "PERMISSION_DENIED", "the caller lacks the permission user.write, which vouching for an address needs").On(field)
		}
		row.IsVerified = how.GetIsVerified()
		if details, err = s.add(ctx, tx, user, row, added, removed); err != nil || row.IsVerified {
			return err
		}
		made, err := s.factors.Issue(ctx, tx, Registration, row, nil, how.GetReturnCode() == nil)
		if how.GetReturnCode() != nil {
			code = &made
		}
		return err
	})
	return details, code, err
}

// verifyAddress verifies an address by the code that went there.
func (s *Service) verifyAddress(ctx context.Context, userID, id, code string, kind authv3.SecondFactorType, verified event.Payload) (*object.Details, error) {
	details, err := s.verify(ctx, userID, id, kind, verified, func(row *db.Authenticator) (use, error) {
		return s.factors.tryCode(ctx, row.InstanceID, row.UserID, Registration, row.ID, code)
	})
	return details, onCode(err)
}

// onCode names the field of a code that is not right.
func onCode(err error) error {
	if errors.Is(err, ErrCode) {
		return fault.Invalid("CODE_INVALID", "code", "the code is wrong, was used, is too old, or was tried too often")
	}
	return err
}

// AddOTPSMS adds a phone number.
func (s *Service) AddOTPSMS(ctx context.Context, req *authv3.AddOTPSMSRequest) (*authv3.AddOTPSMSResponse, error) {
	row := &db.Authenticator{Type: typeSMS, Address: req.GetPhone().GetNumber()}
	details, code, err := s.addAddress(ctx, req.GetUserId(), "phone", row, req.GetPhone(), &eventv1.UserOTPSMSAdded{}, &eventv1.UserOTPSMSRemoved{})
	return &authv3.AddOTPSMSResponse{Details: details, OtpSmsId: row.ID, VerificationCode: code}, err
}

// VerifyOTPSMS verifies a phone number.
func (s *Service) VerifyOTPSMS(ctx context.Context, req *authv3.VerifyOTPSMSRequest) (*authv3.VerifyOTPSMSResponse, error) {
	details, err := s.verifyAddress(ctx, req.GetUserId(), req.GetOtpSmsId(), req.GetCode(), typeSMS, &eventv1.UserOTPSMSVerified{})
	return &authv3.VerifyOTPSMSResponse{Details: details}, err
}

// RemoveOTPSMS removes a phone number.
func (s *Service) RemoveOTPSMS(ctx context.Context, req *authv3.RemoveOTPSMSRequest) (*authv3.RemoveOTPSMSResponse, error) {
	details, err := s.remove(ctx, req.GetUserId(), req.GetOtpSmsId(), typeSMS, &eventv1.UserOTPSMSRemoved{})
	return &authv3.RemoveOTPSMSResponse{Details: details}, err
}

// AddOTPEmail adds an e-mail address.
func (s *Service) AddOTPEmail(ctx context.Context, req *authv3.AddOTPEmailRequest) (*authv3.AddOTPEmailResponse, error) {
	row := &db.Authenticator{Type: typeEmail, Address: strings.ToLower(req.GetEmail().GetAddress())}
	details, code, err := s.addAddress(ctx, req.GetUserId(), "email", row, req.GetEmail(), &eventv1.UserOTPEmailAdded{}, &eventv1.UserOTPEmailRemoved{})
	return &authv3.AddOTPEmailResponse{Details: details, OtpEmailId: row.ID, VerificationCode: code}, err
}

// VerifyOTPEmail verifies an e-mail address.
func (s *Service) VerifyOTPEmail(ctx context.Context, req *authv3.VerifyOTPEmailRequest) (*authv3.VerifyOTPEmailResponse, error) {
	details, err := s.verifyAddress(ctx, req.GetUserId(), req.GetOtpEmailId(), req.GetCode(), typeEmail, &eventv1.UserOTPEmailVerified{})
	return &authv3.VerifyOTPEmailResponse{Details: details}, err
}

// RemoveOTPEmail removes an e-mail address.
func (s *Service) RemoveOTPEmail(ctx context.Context, req *authv3.RemoveOTPEmailRequest) (*authv3.RemoveOTPEmailResponse, error) {
	details, err := s.remove(ctx, req.GetUserId(), req.GetOtpEmailId(), typeEmail, &eventv1.UserOTPEmailRemoved{})
	return &authv3.RemoveOTPEmailResponse{Details: details}, err
}
