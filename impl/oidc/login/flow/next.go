package flow

import (
	"slices"
	"time"
)

// Due is what a login needs next.
type Due int

// What can be due.
const (
	LoginName Due = iota + 1
	Password
	TOTP
	SMS
	Email
	NewPassword // another password, which an administrator asks for
	Code        // for the address of a registration
	ByCode      // a new password, by a code
	Choice      // what becomes of an account that no user is linked to
	LinkIt      // no page: the account is linked
	Consent
	Nothing // the login is complete
)

// Next returns what a login needs next, of its session, which is nil when there is none. It
// is the one place that decides; every page asks it, so none can be left out (SEC-144).
func Next(f *Flow, k *Session, now time.Time) Due {
	switch f.state.(type) {
	case Verify: // whether or not there is a user (SEC-170)
		return Code
	case Reset:
		return ByCode
	case Unlinked:
		return Choice
	case SignIn:
		return f.lacks(k, now)
	}
	return LoginName
}

// lacks returns what the session of somebody who is named lacks.
func (f *Flow) lacks(k *Session, now time.Time) Due {
	switch {
	case k == nil, !k.isProven(now), !f.IsFresh(k, now), f.link != nil && !f.provedHere(k, now):
		return Password
	case !k.HasFactor(now), len(k.Factors()) > 0 && k.factorTime().Unix() < f.proof.Since:
		return k.Factors()[0]
	case k.MustChange(now) && !since(k.PasswordVerifiedAt, now.Add(-recentPassword)):
		return Password
	case k.MustChange(now):
		return NewPassword
	case f.link != nil:
		return LinkIt
	case f.consent:
		return Consent
	}
	return Nothing
}

// IsFresh reports whether the user of a session proved who they are as late as the login asks
// for; Next asks the same of the second factor.
func (f *Flow) IsFresh(k *Session, now time.Time) bool {
	at := k.provenTime(now)
	return !f.proof.Fresh && !at.IsZero() && at.Unix() >= f.proof.Since
}

// provedHere reports whether the user proved their password since the account came that is to
// be linked: what another provider says is not enough for that.
func (f *Flow) provedHere(k *Session, now time.Time) bool {
	return k.hasPassword(now) && k.PasswordVerifiedAt.Unix() >= f.link.GetEndedAt()
}

// IsFactor reports whether what is due is a second factor of a session.
func (d Due) IsFactor(k *Session) bool { return k != nil && slices.Contains(k.Factors(), d) }
