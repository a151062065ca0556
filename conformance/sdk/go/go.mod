module example.com/sdk

go 1.26

require example.com/sdk/openapi v0.0.0

require golang.org/x/oauth2 v0.27.0 // indirect

replace example.com/sdk/openapi => ./openapi
