package upstream

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"golang.org/x/oauth2"
	"golang.org/x/text/language"

	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/core/token"
)

// ask reads a document that an access token is needed for.
func (c *Client) ask(ctx context.Context, p *Provider, address string, tokens *oauth2.Token, into any) error {
	answer, err := c.out.Fetch(ctx, p.pool(), address, http.Header{"Accept": {"application/json"}, "Authorization": {"Bearer " + tokens.AccessToken}}, maxAnswer)
	switch {
	case err != nil:
		return unreachable(err)
	case answer.Status >= http.StatusInternalServerError, answer.Status == http.StatusTooManyRequests:
		return problem(Unreachable, "the endpoint of users answers %d", answer.Status)
	case answer.Status != http.StatusOK:
		return problem(Refused, "the endpoint of users answers %d", answer.Status)
	}
	if err := json.Unmarshal(answer.Body, into); err != nil {
		return problem(Invalid, "the answer of the userinfo endpoint is not the JSON that was expected")
	}
	return nil
}

// read reads what claims tell of a user, but for the subject.
func read(p *Provider, claims token.Claims) *Identity {
	first := func(names ...string) string {
		for _, name := range names {
			if text, ok := claims.Text(name); ok {
				return clean(text)
			}
		}
		return ""
	}
	who := &Identity{
		Username: first("preferred_username", "nickname"), Email: first("email"),
		GivenName: first("given_name"), FamilyName: first("family_name"), DisplayName: first("name"), Nickname: first("nickname"),
		Language: tag(first("locale")),
	}
	// Some send it as text; what is neither is no yes. A no is one, whatever is configured.
	var verified any
	if claims.Has("email_verified") {
		_ = json.Unmarshal(claims["email_verified"], &verified)
	} else {
		verified = p.EmailVerified
	}
	who.EmailVerified = who.Email != "" && (verified == true || verified == "true")
	return who
}

// maxText bounds what is taken of a user, in bytes.
const maxText = 200

// clean returns a text without what no name has, and none that is too long for one.
func clean(text string) string {
	if len(text) > maxText {
		return ""
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, text))
}

// tag returns a language, "" when it is none.
func tag(text string) string {
	read, err := language.Parse(text)
	if text == "" || err != nil {
		return ""
	}
	return read.String()
}

// byUserEndpoint identifies the user by what an endpoint tells whoever has an access
// token: the way of OAuth, which is no protocol for that.
func byUserEndpoint(ctx context.Context, c *Client, p *Provider, at *metadata, _ *tokenv1.Upstream, tokens *oauth2.Token, _ url.Values) (*Identity, error) {
	claims := token.Claims{}
	if err := c.ask(ctx, p, at.UserinfoEndpoint, tokens, &claims); err != nil {
		return nil, err
	}
	who := read(p, claims)
	who.Subject = subject(claims[p.IDAttribute])
	return who, nil
}

// subject returns an ID, which is a text or a whole number.
func subject(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		if clean(text) != text {
			return ""
		}
		return text
	}
	var number json.Number
	if json.Unmarshal(value, &number) != nil || strings.ContainsAny(number.String(), ".eE") {
		return ""
	}
	return number.String()
}

// byGitHub identifies a user of GitHub, whose addresses are a list of their own.
func byGitHub(ctx context.Context, c *Client, p *Provider, at *metadata, _ *tokenv1.Upstream, tokens *oauth2.Token, _ url.Values) (*Identity, error) {
	claims := token.Claims{}
	if err := c.ask(ctx, p, at.UserinfoEndpoint, tokens, &claims); err != nil {
		return nil, err
	}
	text := func(name string) string { found, _ := claims.Text(name); return clean(found) }
	who := &Identity{Subject: subject(claims["id"]), Username: text("login"), DisplayName: text("name")}
	if i := strings.LastIndexByte(who.DisplayName, ' '); i > 0 {
		who.GivenName, who.FamilyName = strings.TrimSpace(who.DisplayName[:i]), who.DisplayName[i+1:]
	}
	// The address of the profile is one that anybody may see, verified or not; the list
	// says which one is the primary one. A token that may not read it tells no address.
	var addresses []struct {
		Email    string `json:"email"`
		Primary  bool   `json:"primary"`
		Verified bool   `json:"verified"`
	}
	if err := c.ask(ctx, p, at.UserinfoEndpoint+"/emails", tokens, &addresses); err != nil && kindOf(err) != Refused {
		return nil, err
	}
	for _, one := range addresses {
		if one.Primary {
			who.Email, who.EmailVerified = clean(one.Email), one.Verified && clean(one.Email) != ""
		}
	}
	return who, nil
}
