package token

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"

	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/issue"
	"github.com/writ-id/writ/impl/oidc/scope"
	"github.com/writ-id/writ/impl/oidc/subject"
)

var errCode = endpoint.InvalidGrant("the code is not good: unknown, expired, used, or issued to another client")

// codeGrant exchanges an authorization code (RFC 6749, section 4.1.3; RFC 7636, section
// 4.5; OpenID Connect Core, section 3.1.3).
type codeGrant struct {
	*Endpoint
	code *tokenv1.Code
}

// present opens the code and compares the proof of who asked for it.
func (g *codeGrant) present(ctx context.Context, x *request) (err error) {
	switch {
	case x.form.Code == "":
		return endpoint.InvalidRequest("code is missing")
	case x.form.RedirectUri == "":
		return endpoint.InvalidRequest("redirect_uri is missing")
	}
	g.code, err = g.Issuer.OpenCode(ctx, x.at, x.form.Code)
	if err != nil {
		return err
	}
	if g.code == nil || g.code.GetClientId() != x.client.ClientID {
		return errCode
	}
	if x.at.Now.Unix() >= g.code.GetExpiresAt() {
		_, err := g.Ledger.Void(ctx, x.at, g.code, x.client.ID, x.client.OrgID, "expired")
		return endpoint.OrElse(err, errCode)
	}
	x.Scopes = scope.Of(g.code.GetScopes())
	challenge, verifier := g.code.GetChallenge(), x.form.CodeVerifier
	switch {
	case challenge != "" && verifier == "": // that is no guess
		return endpoint.InvalidRequest("code_verifier is missing")
	case g.code.GetRedirectUri() != x.form.RedirectUri:
		return g.guessed(ctx, x, "redirect_uri is not that of the authorization request")
	case challenge == "" && verifier != "":
		return g.guessed(ctx, x, "code_verifier is given, but the authorization request had no code_challenge")
	case !proves(verifier, challenge):
		return g.guessed(ctx, x, "code_verifier is not what the code_challenge was made of")
	}
	return nil
}

// guessed makes a code useless whose proof was wrong: nobody gets to guess (SEC-034). If it
// was used already, what came from it ends too.
func (g *codeGrant) guessed(ctx context.Context, x *request, why string) error {
	first, err := g.Ledger.Void(ctx, x.at, g.code, x.client.ID, x.client.OrgID, "verifier")
	if err == nil && !first {
		err = g.Ledger.RevokeFamily(ctx, x.at, g.code.GetId(), "verifier")
	}
	return endpoint.OrElse(err, endpoint.InvalidGrant("%s; the code is spent", why))
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

// about reads the user, who has to be in the generation and the session that the code was
// issued in.
func (g *codeGrant) about(ctx context.Context, x *request) (err error) {
	x.Subject, err = g.Subjects.Read(ctx, x.at, subject.About{
		User: g.code.GetUserId(), Generation: &g.code.UserGeneration, Session: g.code.GetSessionId(),
		Projects: issue.Roles(x.client, g.code.GetAudience()), Metadata: x.Scopes.Has(scope.Metadata),
	})
	if err == nil && x.Subject == nil {
		err = errCode
	}
	return err
}

func (g *codeGrant) draft(ctx context.Context, x *request) error {
	audience, err := g.current(ctx, x, x.client, g.code.GetUserId(), g.code.GetAudience(), nil)
	if err != nil {
		return err
	}
	t := g.Issuer.Begin(x.at, x.Lives, g.code.GetId(), g.code.GetUserId(), 0)
	t.SessionId, t.ClientId, t.AppId = g.code.GetSessionId(), x.client.ClientID, x.client.ID
	t.Audience, t.AuthTime, t.Amr, t.Claims = audience, g.code.GetAuthTime(), g.code.GetAmr(), g.code.GetClaims()
	x.Access, x.JWT, x.ID, x.Nonce = t, x.client.HasJWT(), true, g.code.GetNonce()
	x.renewable = true
	return nil
}

// write makes the row of the grant. Who finds it there was second, and ends the family
// (SEC-033).
func (g *codeGrant) write(ctx context.Context, x *request) error {
	first, err := g.Ledger.Grant(ctx, x.at, x.made())
	if err == nil && !first {
		err = endpoint.OrElse(g.Ledger.RevokeFamily(ctx, x.at, g.code.GetId(), "reuse"), errCode)
	}
	return err
}
