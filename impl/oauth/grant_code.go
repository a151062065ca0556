package oauth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"slices"

	"github.com/writ-id/writ/gen/oauth"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/token"
)

var errCode = invalidGrant("the code is not good: unknown, expired, used, or issued to another client")

// redeem exchanges an authorization code (RFC 6749, section 4.1.3; RFC 7636, section
// 4.5; OpenID Connect Core, section 3.1.3).
func (c *call) redeem(req *oauth.TokenRequest, shown credentials) (*oauth.TokenReply, error) {
	of, err := c.authenticate(shown, methodBasic, methodPost, methodNone, methodJWT)
	if err != nil {
		return nil, err
	}
	switch {
	case !of.may(grantCode):
		return nil, unauthorizedClient("the client may not use authorization codes")
	case req.Code == "":
		return nil, invalidRequest("code is missing")
	case req.RedirectUri == "":
		return nil, invalidRequest("redirect_uri is missing")
	}
	code := &tokenv1.Code{}
	if err := c.Box.Open(c.ctx(), c.instance.ID, token.Code, req.Code, code); errors.Is(err, token.ErrInvalid) {
		return nil, errCode
	} else if err != nil {
		return nil, err
	}
	if code.GetClientId() != of.ClientID {
		return nil, errCode
	}
	if c.now.Unix() >= code.GetExpiresAt() {
		_, err := c.void(code, of, "expired") // for good, whatever the clock does
		return nil, orElse(err, errCode)
	}
	switch {
	case code.GetChallenge() != "" && req.CodeVerifier == "": // that is no guess
		return nil, invalidRequest("code_verifier is missing")
	case code.GetRedirectUri() != req.RedirectUri:
		return nil, c.guessed(code, of, "redirect_uri is not that of the authorization request")
	case code.GetChallenge() == "" && req.CodeVerifier != "":
		return nil, c.guessed(code, of, "code_verifier is given, but the authorization request had no code_challenge")
	case !proves(req.CodeVerifier, code.GetChallenge()):
		return nil, c.guessed(code, of, "code_verifier is not what the code_challenge was made of")
	}
	return c.redeemFor(of, code)
}

// guessed spends a code whose proof was wrong: nobody gets to guess (SEC-034).
func (c *call) guessed(code *tokenv1.Code, of *client, why string) error {
	if err := c.spend(code, of); err != nil {
		return err
	}
	return invalidGrant("%s; the code is spent", why)
}

// proves reports whether a verifier is what a challenge was made of; without one
// there must be none (SEC-035).
func proves(verifier, challenge string) bool {
	if challenge == "" || verifier == "" {
		return challenge == verifier
	}
	if len(verifier) < 43 || len(verifier) > 128 {
		return false
	}
	for i := range len(verifier) { // RFC 7636, section 4.1
		c := verifier[i]
		letter, digit := c|0x20 >= 'a' && c|0x20 <= 'z', c >= '0' && c <= '9'
		if !letter && !digit && c != '-' && c != '.' && c != '_' && c != '~' {
			return false
		}
	}
	sum := sha256.Sum256([]byte(verifier))
	return subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(challenge)) == 1
}

func (c *call) redeemFor(of *client, code *tokenv1.Code) (*oauth.TokenReply, error) {
	sc := sortScopes(code.GetScopes())
	t := c.newAccess(code.GetId(), code.GetUserId(), 0)
	t.SessionId, t.ClientId, t.AppId = code.GetSessionId(), of.ClientID, of.ID
	t.Audience, t.AuthTime, t.Amr, t.Claims = code.GetAudience(), code.GetAuthTime(), code.GetAmr(), code.GetClaims()
	found, err := c.state(about{user: t.UserId, generation: &code.UserGeneration, session: t.SessionId, projects: t.Audience, parts: of.tokenParts(sc, t.Claims)})
	if err != nil {
		return nil, err
	}
	if found == nil || !sc.belongs(found.OrgID, found.Domain) {
		return nil, errCode
	}
	if may, err := c.mayUse(of, found.ID, found.OrgID); err != nil || !may {
		return nil, orElse(err, errCode)
	}
	i := &issuance{access: t, scopes: sc, state: found, client: of, jwt: of.AccessTokenType == jwtAccessTokens, id: true, nonce: code.GetNonce()}
	generation := int32(0)
	if sc.has(scopeOffline) && of.may(grantRefresh) {
		generation = 1
		i.refresh, err = c.refreshToken(t, generation, false)
		if err != nil {
			return nil, err
		}
	} else if sc.has(scopeOffline) {
		i.scopes = sc.without(func(scope string) bool { return scope == scopeOffline })
	}
	res, err := c.issue(i) // before the code is used up, so that a failure leaves it
	if err != nil {
		return nil, err
	}
	first, err := c.addGrant(i, "", generation)
	if err == nil && !first {
		err = orElse(c.revokeFamily(code.GetId(), "reuse"), errCode) // SEC-033
	}
	return res, err
}

// refreshToken makes the refresh token of a generation. The access tokens it is
// exchanged for are JWTs if that is asked for, or what the client is set to.
func (c *call) refreshToken(t *tokenv1.AccessToken, generation int32, jwt bool) (string, error) {
	return c.Box.Seal(c.ctx(), c.instance.ID, token.Refresh, &tokenv1.RefreshToken{
		GrantId: t.GetGrantId(), Generation: generation, ClientId: t.GetClientId(), UserId: t.GetUserId(), Jwt: jwt,
	})
}

var errRefresh = invalidGrant("the refresh token is not good: unknown, expired, revoked, used before, or issued to another client")

// refresh exchanges a refresh token (RFC 6749, section 6). It is good once: a token
// that is used again ends all that came from its code (RFC 9700, section 4.14.2).
func (c *call) refresh(req *oauth.TokenRequest, shown credentials) (*oauth.TokenReply, error) {
	of, err := c.authenticate(shown, methodBasic, methodPost, methodNone, methodJWT)
	if err != nil {
		return nil, err
	}
	switch {
	case !of.may(grantRefresh):
		return nil, unauthorizedClient("the client may not use refresh tokens")
	case req.RefreshToken == "":
		return nil, invalidRequest("refresh_token is missing")
	}
	old := &tokenv1.RefreshToken{}
	if err := c.Box.Open(c.ctx(), c.instance.ID, token.Refresh, req.RefreshToken, old); errors.Is(err, token.ErrInvalid) {
		return nil, errRefresh
	} else if err != nil {
		return nil, err
	}
	if old.GetClientId() != of.ClientID {
		return nil, errRefresh
	}
	parts := of.tokenParts(&scopes{}, nil) | withGrant
	if of.IDTokenUserinfoAssertion { // its scopes are not known yet
		parts |= withClaims
	}
	found, err := c.state(about{user: old.GetUserId(), grant: old.GetGrantId(), parts: parts})
	if err != nil {
		return nil, err
	}
	switch {
	case found == nil || found.App != of.ID || !c.now.Before(found.IdleDate) || !c.now.Before(found.EndsAt):
		return nil, errRefresh
	case found.RefreshGeneration != old.GetGeneration():
		return nil, orElse(c.revokeFamily(old.GetGrantId(), "reuse"), errRefresh)
	}
	if ended, err := c.ended(c.ctx(), found.Origins); err != nil || ended {
		return nil, orElse(err, errRefresh)
	}
	sc, err := narrowed(found.Scopes, req.Scope)
	if err != nil {
		return nil, err
	}
	if sc, err = c.grantable(sc, of.roles, of.OrgID); err != nil { // what the project lost since (SEC-098)
		return nil, err
	}
	if len(sc.list) == 0 {
		return nil, invalidScope("none of the scopes can be granted any more")
	}
	if !sc.belongs(found.OrgID, found.Domain) {
		return nil, errRefresh
	}
	if may, err := c.mayUse(of, found.ID, found.OrgID); err != nil || !may { // SEC-093
		return nil, orElse(err, errRefresh)
	}
	if sc.has(scopeMetadata) && sc.has(scopeOpenID) { // its scopes were not known before
		if found, err = c.state(about{user: found.ID, grant: old.GetGrantId(), parts: parts | withMetadata}); err != nil || found == nil {
			return nil, orElse(err, errRefresh)
		}
	}
	return c.rotate(of, old, found, sc)
}

// narrowed returns the scopes that a refresh asks for, of those that were granted
// (SEC-094).
func narrowed(granted []string, asked string) (*scopes, error) {
	list := spaceless(asked)
	if len(list) == 0 {
		return sortScopes(granted), nil
	}
	sc, err := readScopes(asked)
	if err != nil {
		return nil, err
	}
	for _, scope := range list {
		if !slices.Contains(granted, scope) {
			return nil, invalidScope("scope goes beyond what was granted")
		}
	}
	return sc, nil
}

func (c *call) rotate(of *client, old *tokenv1.RefreshToken, found *state, sc *scopes) (*oauth.TokenReply, error) {
	t := c.newAccess(old.GetGrantId(), found.ID, 0)
	t.SessionId, t.ClientId, t.AppId, t.Origins = found.Session, of.ClientID, of.ID, found.Origins
	t.Audience, t.AuthTime, t.Amr, t.Claims, t.Actor = found.Audience, found.AuthTime.Unix(), found.AMR, found.Claims, found.Actor
	t.ExpiresAt = min(t.ExpiresAt, found.EndsAt.Unix())
	i := &issuance{access: t, scopes: sc, state: found, client: of, jwt: old.GetJwt() || of.AccessTokenType == jwtAccessTokens, id: sc.has(scopeOpenID)}
	var err error
	if i.refresh, err = c.refreshToken(t, old.GetGeneration()+1, old.GetJwt()); err != nil {
		return nil, err
	}
	res, err := c.issue(i)
	if err != nil {
		return nil, err
	}
	use := &rotation{instanceID: c.instance.ID, grantID: old.GetGrantId(), generation: old.GetGeneration()}
	err = c.rotations.add(c.lasting(), use)
	if err == nil && !use.won { // another one was faster, so this token is used for the second time
		err = orElse(c.revokeFamily(old.GetGrantId(), "reuse"), errRefresh)
	}
	return res, err
}
