package flow

import (
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
)

// Message returns the login as it travels. Its fields are those of the release before, whose
// nodes go on with it during an upgrade (REL-073).
func (f *Flow) Message() *tokenv1.Flow {
	m := &tokenv1.Flow{
		Browser: f.browser, StartedAt: f.startedAt, Request: f.asked.Request, AppName: f.asked.AppName, LoginHint: f.hint, Language: f.asked.Language,
		Fresh: f.proof.Fresh, NotBefore: f.proof.Since, OrgId: f.asked.OrgID, UserId: f.asked.UserID, Choose: f.asked.Choose, Create: f.asked.Create,
		IdpId: f.asked.IDPID, LoginName: f.LoginName(), SessionId: f.SessionID(), DomainOrgId: f.domainOrg, Consent: f.consent, Notice: f.notice,
		External: f.link, Linking: f.link != nil,
	}
	switch state := f.state.(type) {
	case Verify:
		m.Registering, m.CodeUserId, m.Address = true, state.UserID, state.Address
	case Reset:
		m.CodeUserId = state.UserID
	case Unlinked:
		m.External = state.External
	}
	return m
}

// Of returns the login that a message holds.
func Of(m *tokenv1.Flow) *Flow {
	f := &Flow{
		asked: Asked{
			Request: m.GetRequest(), AppName: m.GetAppName(), Language: m.GetLanguage(), OrgID: m.GetOrgId(), UserID: m.GetUserId(),
			Choose: m.GetChoose(), Create: m.GetCreate(), IDPID: m.GetIdpId(),
		},
		browser: m.GetBrowser(), startedAt: m.GetStartedAt(), proof: Proof{Fresh: m.GetFresh(), Since: m.GetNotBefore()},
		hint: m.GetLoginHint(), domainOrg: m.GetDomainOrgId(), consent: m.GetConsent(), notice: m.GetNotice(),
	}
	if m.GetLinking() {
		f.link = m.GetExternal() // nil is no link
	}
	switch {
	case m.GetRegistering():
		f.state = Verify{UserID: m.GetCodeUserId(), Address: m.GetAddress(), SessionID: m.GetSessionId()}
	case m.GetExternal() != nil && !m.GetLinking():
		f.state = Unlinked{LoginName: m.GetLoginName(), External: m.GetExternal()}
	case m.GetCodeUserId() != "":
		f.state = Reset{LoginName: m.GetLoginName(), UserID: m.GetCodeUserId()}
	case m.GetLoginName() != "":
		f.state = SignIn{LoginName: m.GetLoginName(), SessionID: m.GetSessionId()}
	default:
		f.state = Name{}
	}
	return f
}
