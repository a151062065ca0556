package subject

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/writ-id/writ/gen/db"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/oidc/scope"
)

// What a token came from is in its ID, so that an opaque one, a JWT and an ID token say it
// alike:
//
//	<grant>.<id>                 a grant, which names the generation of its user
//	~<generation>~<user>.<id>    none: the user itself, in a generation
//
// A token ends with what it came from (SEC-097), and with the tokens that were
// exchanged for it, its origins. The list of origins also names each application that held
// one of these tokens for the resource API, and the user it acted for, as the new token
// has no more rights there than they had (SEC-235):
//
//	~@<length of user>~<user><client>.
//
// No token has such an ID, and a release that does not know the form skips it.

// MaxOrigins bounds how often a token can be exchanged for another one.
const MaxOrigins = 20

// TokenID returns the ID of a token of a grant or, without one, of a user in a
// generation.
func TokenID(grantID, userID string, generation int32, id string) string {
	if grantID == "" {
		grantID = "~" + strconv.Itoa(int(generation)) + "~" + userID
	}
	return grantID + "." + id
}

// Source reads what a token came from: a grant, or a user in a generation, or, of
// personal access tokens, neither.
func Source(tokenID string) (grantID, userID string, generation *int32) {
	end := strings.LastIndexByte(tokenID, '.')
	if end < 0 {
		return "", "", nil
	}
	text, ok := strings.CutPrefix(tokenID[:end], "~")
	if !ok {
		return text, "", nil
	}
	number, userID, _ := strings.Cut(text, "~")
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil { // none of ours
		return "", "", nil
	}
	of := int32(n)
	return "", userID, &of
}

// Origins returns the origins of what is exchanged for tokens; a subject that is only named
// has no ID and is none.
func Origins(tokens ...*tokenv1.AccessToken) (list []string) {
	for _, t := range tokens {
		list = append(list, t.GetOrigins()...)
		if t.GetId() != "" {
			list = append(list, t.GetId())
		}
		if t.GetAppId() != "" && slices.Contains(t.GetAudience(), scope.Platform) {
			list = append(list, use{t.GetUserId(), t.GetClientId()}.String())
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// use is the use of an application, for the resource API, by a user.
type use struct{ userID, clientID string }

// String is the use as an origin.
func (u use) String() string { return fmt.Sprintf("~@%d~%s%s.", len(u.userID), u.userID, u.clientID) }

// readUse reads an origin that is a use.
func readUse(origin string) (u use, ok bool) {
	text, ok := strings.CutPrefix(origin, "~@")
	if !ok {
		return u, false
	}
	length, text, _ := strings.Cut(strings.TrimSuffix(text, "."), "~")
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 || n > len(text) { // not written by String
		return u, false
	}
	return use{text[:n], text[n:]}, true
}

// Exchanges returns how many tokens are among origins.
func Exchanges(origins []string) (n int) {
	for _, one := range origins {
		if _, ok := readUse(one); !ok {
			n++
		}
	}
	return n
}

// Ended reports whether any of the tokens that others came from has ended.
func (s *Reader) Ended(ctx context.Context, instanceID string, origins []string) (bool, error) {
	if len(origins) == 0 {
		return false, nil
	}
	p := db.OriginsEndedParams{InstanceID: instanceID, Ids: origins}
	for _, id := range origins {
		grantID, userID, generation := Source(id)
		if grantID != "" {
			p.GrantIds = append(p.GrantIds, grantID)
		}
		if generation != nil {
			p.Add(db.OriginsEndedEntry{UserID: userID, Generation: *generation})
		}
	}
	return s.queries.OriginsEnded(ctx, s.DB.Pool, p)
}
