package flow

import "time"

// FactorLifetime is how long a second factor counts.
const FactorLifetime = 18 * time.Hour

// recentPassword is how old the proof of a password may be that is to be changed (SEC-180).
const recentPassword = 15 * time.Minute

// Session is a session of a browser as it is now, complete or not: what the user has proven
// in it, and what they have to prove.
type Session struct {
	ID, UserID, OrgID      string
	LoginName, DisplayName string
	Generation             int32         // of the user
	IsActive               bool          // whether the user may sign in
	Life                   time.Duration // how long a password counts, or the word of an identity provider

	PasswordVerifiedAt, PasswordChanged *time.Time
	PasswordChangeRequired              bool

	IntentVerifiedAt, IntentAuthTime *time.Time // at an identity provider
	IDPID                            string
	IsLinked                         bool

	HasTOTP                  bool
	SMSAddress, EmailAddress string // where codes go; empty: the user has no such factor

	TOTPVerifiedAt, SMSVerifiedAt, EmailVerifiedAt *time.Time
}

// since reports whether something was proven at or after a time.
func since(proven *time.Time, from time.Time) bool { return proven != nil && !proven.Before(from) }

// hasPassword reports whether the password was proven, and is still the same.
func (k *Session) hasPassword(now time.Time) bool {
	return since(k.PasswordVerifiedAt, now.Add(-k.Life)) &&
		(k.PasswordChanged == nil || since(k.PasswordVerifiedAt, *k.PasswordChanged))
}

// hasIntent reports whether the user signed in with an identity provider, and is linked to
// the account there still.
func (k *Session) hasIntent(now time.Time) bool {
	return k.IsLinked && since(k.IntentVerifiedAt, now.Add(-k.Life))
}

// isProven reports whether the user proved who they are, in whatever way.
func (k *Session) isProven(now time.Time) bool { return k.hasPassword(now) || k.hasIntent(now) }

// provenTime returns when the user last did.
func (k *Session) provenTime(now time.Time) (at time.Time) {
	if k.hasPassword(now) {
		at = *k.PasswordVerifiedAt
	}
	if k.hasIntent(now) && k.IntentAuthTime != nil && k.IntentAuthTime.After(at) {
		at = *k.IntentAuthTime
	}
	return at
}

// MustChange reports whether the password has to be changed with which the user signed in.
func (k *Session) MustChange(now time.Time) bool {
	return k.PasswordChangeRequired && k.hasPassword(now)
}

// Factors returns the second factors that the user can prove, the best first, as what is due.
func (k *Session) Factors() (all []Due) {
	if k.HasTOTP {
		all = append(all, TOTP)
	}
	if k.SMSAddress != "" {
		all = append(all, SMS)
	}
	if k.EmailAddress != "" {
		all = append(all, Email)
	}
	return all
}

// HasFactor reports whether the user proved a second factor in this session, or has
// none to prove (SEC-179).
func (k *Session) HasFactor(now time.Time) bool {
	return len(k.Factors()) == 0 || !k.factorTime().Before(now.Add(-FactorLifetime))
}

// IsComplete reports whether the user is signed in with this session.
func (k *Session) IsComplete(now time.Time) bool {
	return k.IsActive && k.isProven(now) && k.HasFactor(now) && !k.MustChange(now)
}

// AuthTime returns when the user last authenticated: since when all has been proven that
// is asked of them. A password that is proven anew does not make the second factor newer.
func (k *Session) AuthTime(now time.Time) time.Time {
	at := k.provenTime(now)
	if factor := k.factorTime(); !factor.IsZero() && factor.Before(at) {
		at = factor
	}
	return at
}

// factorTime returns when the user last proved one of their second factors.
func (k *Session) factorTime() (newest time.Time) {
	for _, one := range []struct {
		has bool
		at  *time.Time
	}{{k.HasTOTP, k.TOTPVerifiedAt}, {k.SMSAddress != "", k.SMSVerifiedAt}, {k.EmailAddress != "", k.EmailVerifiedAt}} {
		if one.has && one.at != nil && one.at.After(newest) {
			newest = *one.at
		}
	}
	return newest
}

// amrFederated is what there is instead of a method when somebody else authenticated the
// user: RFC 8176 has no name for that; this one is that of the field.
const amrFederated = "fed"

// AMR returns what the user proved, as far as it still counts (RFC 8176). What an identity
// provider says of its own methods is not repeated: a second factor is one that was proven
// here (SEC-179).
func (k *Session) AMR(now time.Time) (amr []string) {
	from := now.Add(-FactorLifetime)
	if k.hasPassword(now) {
		amr = append(amr, "pwd")
	}
	if k.hasIntent(now) {
		amr = append(amr, amrFederated)
	}
	first := len(amr)
	if since(k.TOTPVerifiedAt, from) || since(k.EmailVerifiedAt, from) {
		amr = append(amr, "otp")
	}
	if since(k.SMSVerifiedAt, from) {
		amr = append(amr, "sms")
	}
	if second := len(amr) - first; second > 0 && min(first, 1)+second > 1 {
		amr = append(amr, "mfa")
	}
	return amr
}

// Provider returns the identity provider with which the user signed in, if it is one.
func (k *Session) Provider(now time.Time) string {
	if !k.hasIntent(now) {
		return ""
	}
	return k.IDPID
}
