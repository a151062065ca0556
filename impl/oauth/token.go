package oauth

import (
	"net/http"

	"github.com/writ-id/writ/gen/oauth"
	"github.com/writ-id/writ/impl/form"
)

const tokenPath = "/oauth/v2/token"

// The grant types (RFC 6749, RFC 7523, RFC 8693).
const (
	typeCode        = "authorization_code"
	typeRefresh     = "refresh_token"
	typeCredentials = "client_credentials"
	typeAssertion   = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	typeExchange    = "urn:ietf:params:oauth:grant-type:token-exchange"
)

// grants are what the token endpoint does for each of them.
var grants = map[string]func(*call, *oauth.TokenRequest, credentials) (*oauth.TokenReply, error){
	typeCode: (*call).redeem, typeRefresh: (*call).refresh, typeCredentials: (*call).clientCredentials, typeAssertion: (*call).jwtProfile, typeExchange: (*call).exchange,
}

// Token issues tokens: document 2, "token_endpoint".
func (s *Server) Token(w http.ResponseWriter, r *http.Request) {
	c := s.begin(w, r)
	if c == nil {
		return
	}
	var req oauth.TokenRequest
	err := form.Body(w, r, &req)
	var res *oauth.TokenReply
	if err == nil {
		res, err = c.grant(&req)
	}
	if err != nil {
		c.fail(err)
		return
	}
	c.answer(http.StatusOK, res)
}

func (c *call) grant(req *oauth.TokenRequest) (*oauth.TokenReply, error) {
	if req.GrantType == "" {
		return nil, invalidRequest("grant_type is missing")
	}
	grant := grants[req.GrantType]
	if grant == nil {
		return nil, refuse(oauth.UnsupportedGrantType, "the grant type is not supported")
	}
	shown, err := c.shown(req.ClientId, req.ClientSecret, req.ClientAssertion, req.ClientAssertionType)
	if err != nil {
		return nil, err
	}
	return grant(c, req, shown)
}
