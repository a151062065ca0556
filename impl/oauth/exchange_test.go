package oauth_test

const (
	typeExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	typeAccess   = "urn:ietf:params:oauth:token-type:access_token"
	typeRefresh  = "urn:ietf:params:oauth:token-type:refresh_token"
	typeID       = "urn:ietf:params:oauth:token-type:id_token"
	typeJWT      = "urn:ietf:params:oauth:token-type:jwt"
	typeUser     = "urn:service:params:oauth:token-type:user_id"
)

// exchange exchanges an access token, unless the changes say otherwise.
func (s *side) exchange(app string, changes ...string) *answer {
	s.Helper()
	values := pairs("grant_type", typeExchange, "subject_token_type", typeAccess, "scope", "openid")
	for i := 0; i < len(changes); i += 2 {
		values.Set(changes[i], changes[i+1])
		if changes[i+1] == "-" {
			values.Del(changes[i])
		}
	}
	return s.as(app, tokenPath, values)
}
