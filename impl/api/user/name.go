package user

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/store"
)

// Canonical returns the one form of a username (SEC-298): trimmed and in NFC.
// Names that look like another by the compatibility forms of Unicode or by
// invisible characters are refused; case is folded when names are compared.
func Canonical(username string) (string, error) {
	const field = "user.username"
	name := norm.NFC.String(strings.TrimSpace(username))
	if name == "" || utf8.RuneCountInString(name) > 200 {
		return "", fault.Invalid("INVALID_USERNAME", field, "must be 1 to 200 characters once it is trimmed")
	}
	if norm.NFKC.String(name) != name {
		return "", fault.Invalid("INVALID_USERNAME", field, "must not contain compatibility forms of other characters")
	}
	for _, r := range name {
		if !unicode.IsGraphic(r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || unicode.Is(unicode.Variation_Selector, r) {
			return "", fault.Invalid("INVALID_USERNAME", field, "must not contain invisible characters")
		}
	}
	return name, nil
}

// mayBeNamed refuses a username that could be somebody's address or login name: with an @
// it has to end in a verified domain of the user's organization (SEC-298).
func (s *Service) mayBeNamed(ctx context.Context, conn db.DBTX, user *db.UserRow) error {
	at := strings.LastIndexByte(user.Username, '@')
	if at < 0 {
		return nil
	}
	own, err := s.ownsDomain(ctx, conn, user, user.Username[at+1:])
	if err == nil && !own {
		err = fault.Invalid("INVALID_USERNAME", "user.username", "a username with an @ has to end in a verified domain of the organization")
	}
	return err
}

// vouch says where a verified address counts: everywhere in the instance, if who vouches
// for it has a say there or over its domain. What was proven before stays so.
func (s *Service) vouch(ctx context.Context, conn db.DBTX, old, user *db.UserRow) error {
	switch {
	case !user.IsEmailVerified:
		user.IsEmailProven = false
		return nil
	case old.IsEmailVerified && old.Email == user.Email:
		return nil
	case policy.CallFrom(ctx).Holds("user.write", policy.Place{InstanceID: user.InstanceID}):
		user.IsEmailProven = true
		return nil
	}
	own, err := s.ownsDomain(ctx, conn, user, user.Email[strings.LastIndexByte(user.Email, '@')+1:])
	user.IsEmailProven = own
	return err
}

// ownsDomain reports whether a domain is a verified one of a user's organization.
func (s *Service) ownsDomain(ctx context.Context, conn db.DBTX, user *db.UserRow, domain string) (bool, error) {
	owner, err := s.queries.OrgByDomain(ctx, conn, db.OrgByDomainParams{InstanceID: user.InstanceID, Domain: strings.ToLower(domain)})
	if store.NoRow(err) {
		return false, nil
	}
	return user.OrgID != nil && owner == *user.OrgID, err
}

// defaultName is what to show of a human who says nothing else.
func defaultName(user *db.UserRow) string {
	return DefaultName(user.GivenName, user.FamilyName, user.Username)
}

// DefaultName is what to show of a human of these names who says nothing else.
func DefaultName(given, family, username string) string {
	if name := strings.TrimSpace(given + " " + family); name != "" {
		return name
	}
	return username
}
