package oauth

import "github.com/writ-id/writ/gen/oauth"

func (c *call) exchange(req *oauth.TokenRequest, shown credentials) (*oauth.TokenResponse, error) {
	return nil, refuse(oauth.UnsupportedGrantType, "the grant type is not supported")
}
