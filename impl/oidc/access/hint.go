package access

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/writ-id/writ/impl/core/signing"
	"github.com/writ-id/writ/impl/core/token"
	"github.com/writ-id/writ/impl/oidc/claims"
	"github.com/writ-id/writ/impl/oidc/endpoint"
)

// Hint is an ID token that was issued here, however long ago, and whatever has ended
// since: it names a user, and proves nothing.
type Hint struct {
	UserID, SessionID string
	ClientID          string   // "" of a service user's own
	ID                string   // says what the token came from (subject.Source); "" of a release before
	Origins           []string // what was exchanged for it

	Ends     time.Time
	AuthTime int64
	AMR      []string
	Actor    []byte
}

// ReadHint reads an ID token hint: signed by a key that the instance has or had, for
// this issuer; nil when it is not (SEC-013, SEC-133).
func (s *Reader) ReadHint(ctx context.Context, at endpoint.Site, text string) (*Hint, error) {
	jwt, err := token.ParseJWT(text)
	if errors.Is(err, token.ErrInvalid) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	keys, err := s.Keys.Get(ctx, at.ID)
	if err != nil {
		return nil, err
	}
	issuer, _ := jwt.Claims.Text("iss")
	if !jwt.IsType(signing.IDToken) || jwt.Claims.Has("client_id") || !jwt.HintVerifiedBy(keys) || issuer != at.Issuer { // with it, it is an access token
		return nil, nil
	}
	found := &Hint{}
	found.UserID, _ = jwt.Claims.Text("sub")
	found.SessionID, _ = jwt.Claims.Text("sid")
	found.ClientID, _ = jwt.Claims.Text("azp")
	found.Ends, _ = jwt.Claims.Time("exp")
	found.ID, _ = jwt.Claims.Text("jti")
	found.Origins = jwt.Claims.Texts(claims.Origins)
	if at, ok := jwt.Claims.Time("auth_time"); ok {
		found.AuthTime = at.Unix()
	}
	found.AMR, found.Actor = jwt.Claims.Texts("amr"), jwt.Claims["act"]
	if found.UserID == "" || found.ClientID != "" && !slices.Contains(jwt.Claims.Texts("aud"), found.ClientID) {
		return nil, nil
	}
	return found, nil
}
