package transfer

import (
	"cmp"
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"

	membershipv3 "github.com/writ-id/writ/gen/proto/writ/membership/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/api/app"
	"github.com/writ-id/writ/impl/api/user"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/transfer"
)

// prepare gives an item what it left out, and holds it to what the rooms of the API ask
// beyond the rules of the contract. A reason says that it cannot be carried, without why it
// is carried without something of it.
func (s *Service) prepare(item transfer.Item) (reason, without string, err error) {
	if m, ok := item.(*transferv1.TransferUser); ok {
		return s.user(m)
	}
	reason, err = s.other(item)
	return reason, "", err
}

func (s *Service) other(item transfer.Item) (reason string, err error) {
	switch m := item.(type) {
	case *transferv1.TransferApp:
		return "", app.Complete(m, s.Local)
	case *transferv1.TransferAuthenticator:
		if m.GetType() == totp && len(m.GetSecret()) == 0 {
			return "OTP_SECRET_MISSING", nil
		}
		if m.GetType() != totp {
			m.Secret = nil
		}
	case *transferv1.TransferMembership:
		return s.membership(m), located(m)
	case *transferv1.TransferSetting:
		return s.setting(m)
	case *transferv1.TransferSettingImage:
		return "", picture(m)
	}
	return "", nil
}

// user: one user of many whose name or password is not for here does not keep out the others.
func (s *Service) user(m *transferv1.TransferUser) (reason, without string, err error) {
	name, err := user.Canonical(m.GetUsername())
	if refusal, ok := errors.AsType[*fault.Error](err); ok {
		return refusal.Reason, "", nil
	}
	if err != nil {
		return "", "", err
	}
	m.Username = name
	switch of := m.GetType().(type) {
	case *transferv1.TransferUser_Human:
		of.Human.Profile = cmp.Or(of.Human.Profile, &userv3.Profile{})
		of.Human.Profile.DisplayName = cmp.Or(of.Human.Profile.DisplayName, user.DefaultName(of.Human.Profile.GetGivenName(), of.Human.Profile.GetFamilyName(), m.GetUsername()))
		m.IsEmailProven = m.GetIsEmailProven() && of.Human.GetEmail().GetIsVerified()
		m.SecretHash = nil
	case *transferv1.TransferUser_Service:
		m.PasswordHash, m.IsEmailProven = nil, false
	}
	if m.PasswordHash == nil {
		return "", "", nil
	}
	err = user.CheckHash(m.GetPasswordHash(), s.MaxHashCost, "passwordHash")
	if refusal, ok := errors.AsType[*fault.Error](err); ok && refusal.Reason == hashTooCostly {
		m.PasswordHash = nil
		return "", hashTooCostly, nil
	}
	return "", "", err
}

// hashTooCostly is the reason of user.CheckHash.
const hashTooCostly = "HASH_TOO_COSTLY"

// tidy takes out of a user what is empty: a row has all of it, a request only what it says.
func tidy(m *transferv1.TransferUser) {
	human := m.GetHuman()
	if human.GetEmail().GetAddress() == "" && human != nil {
		human.Email = nil
	}
	if human.GetPhone().GetNumber() == "" && human != nil {
		human.Phone = nil
	}
	if human != nil && proto.Size(human.GetAddress()) == 0 {
		human.Address = nil
	}
}

// membership says why a membership cannot be carried: whoever reads the roles of its level
// would not find one.
func (s *Service) membership(m *transferv1.TransferMembership) string {
	known := s.Roles.Names(policyv1.Level(m.GetLevel()))
	if slices.ContainsFunc(m.GetRoles(), func(role string) bool { return !slices.Contains(known, role) }) {
		return "ROLE_NOT_FOUND"
	}
	return ""
}

// located refuses a membership that is not where its object is.
func located(m *transferv1.TransferMembership) error {
	object := m.GetOrgId()
	switch m.GetLevel() {
	case membershipv3.MembershipLevel_MEMBERSHIP_LEVEL_ORG:
		if m.ProjectId != nil || m.ProjectGrantId != nil {
			return fault.Invalid("INVALID_FIELD", "projectId", "a membership of an organization has no project")
		}
	case membershipv3.MembershipLevel_MEMBERSHIP_LEVEL_PROJECT:
		if m.ProjectGrantId != nil {
			return fault.Invalid("INVALID_FIELD", "projectGrantId", "a membership of a project has no grant")
		}
		object = m.GetProjectId()
	case membershipv3.MembershipLevel_MEMBERSHIP_LEVEL_PROJECT_GRANT:
		object = m.GetProjectGrantId()
	}
	if m.GetObjectId() != object || object == "" {
		return fault.Invalid("INVALID_FIELD", "objectId", "must be the ID of the organization, project or grant that the level says")
	}
	return nil
}
