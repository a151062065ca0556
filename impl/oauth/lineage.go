package oauth

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/writ-id/writ/gen/db"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
)

// What a token came from is in its ID, so that an opaque one and a JWT say it alike:
//
//	<grant>.<id>                 a grant, which names the generation of its user
//	~<generation>~<user>.<id>    none: the user itself, in a generation
//
// A token ends with what it came from (SEC-097), and with the tokens that were
// exchanged for it, its origins.

// maxOrigins bounds how often a token can be exchanged for another one.
const maxOrigins = 20

// newAccess returns an access token that begins now, of a grant or, without one, of a
// user in a generation.
func (c *call) newAccess(grantID, userID string, generation int32) *tokenv1.AccessToken {
	source := grantID
	if source == "" {
		source = "~" + strconv.Itoa(int(generation)) + "~" + userID
	}
	return &tokenv1.AccessToken{
		Id: source + "." + c.NewID(), GrantId: grantID, UserId: userID, IssuedAt: c.now.Unix(), ExpiresAt: c.now.Add(accessLife).Unix(),
	}
}

// source reads what a token came from: a grant, or a user in a generation, or, of
// personal access tokens, neither.
func source(tokenID string) (grantID, userID string, generation *int32) {
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

// originsOf returns the origins of what is exchanged for tokens; an ID token has no ID
// and is none.
func originsOf(tokens ...*tokenv1.AccessToken) (list []string) {
	for _, t := range tokens {
		list = append(list, t.GetOrigins()...)
		if t.GetId() != "" {
			list = append(list, t.GetId())
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// ended reports whether any of the tokens that others came from has ended.
func (c *call) ended(ctx context.Context, origins []string) (bool, error) {
	if len(origins) == 0 {
		return false, nil
	}
	p := db.OriginsEndedParams{InstanceID: c.instance.ID, Ids: origins}
	for _, id := range origins {
		grantID, userID, generation := source(id)
		if grantID != "" {
			p.GrantIds = append(p.GrantIds, grantID)
		}
		if generation != nil {
			p.UserIds, p.Generations = append(p.UserIds, userID), append(p.Generations, *generation)
		}
	}
	return c.queries.OriginsEnded(ctx, c.DB.Pool, p)
}
