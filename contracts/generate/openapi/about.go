package main

// scopes are those a client asks for to call the API (document 1,
// "Authentication").
var scopes = []string{"openid", "urn:service:iam:org:project:id:service:aud"}

var securitySchemes = fields[securityScheme]{
	{"bearer", securityScheme{Type: "http", Scheme: "bearer", Description: "The personal access token of a service user."}},
	{"oauth2", securityScheme{
		Type:        "oauth2",
		Description: "An access token of this server whose audience holds the project of the platform.",
		Flows: map[string]any{"authorizationCode": struct {
			AuthorizationURL string         `json:"authorizationUrl"`
			TokenURL         string         `json:"tokenUrl"`
			Scopes           fields[string] `json:"scopes"`
		}{
			"/oauth/v2/authorize", "/oauth/v2/token",
			fields[string]{
				{scopes[0], "Authenticate the user."},
				{scopes[1], "Add the project of the platform to the audience of the token."},
			},
		}},
	}},
}

const description = `The resource and settings API of Writ, an identity platform. Every operation exists as a gRPC method too, which gRPC-web and Connect reach over HTTP.

**Version.** The services carry the label 3.0-alpha; 3.0.0-alpha is the same as a semantic version.

**Contexts.** Installation, instance, organization. A call applies to the instance of its Host header unless ctx says otherwise.

**JSON.** Names are lowerCamelCase, 64-bit integers are strings, times are RFC 3339 in UTC, durations are seconds such as 10s. Unknown members, unknown query parameters and bodies of operations that take none are refused; {} is no body. Answers may gain members.

**Refusals** have the schema Status on every path of this API. They name fields as the request has them: by their path in the body, or as a parameter.

**Alpha.** These services may still change, and answer only where their feature is switched on.`
