package user

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/writ-id/writ/impl/fault"
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

// defaultName is what to show of a human who says nothing else.
func defaultName(user *row) string {
	if name := strings.TrimSpace(user.GivenName + " " + user.FamilyName); name != "" {
		return name
	}
	return user.Username
}
