// Package writ is the root of the module. It holds no code: `go generate .`
// (make generate) turns contracts/ and sql/ into gen/ by the lines below, in
// order. The plugins are built into bin/ from the versions of go.mod, buf and
// sqlc from those of tools/go.mod.
package writ

//go:generate go build -o bin/ ./contracts/generate/protodeps ./contracts/generate/protoc-gen-writ google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc
//go:generate bin/protodeps third_party
//go:generate bin/buf lint
//go:generate bin/buf generate
//go:generate bin/buf build contracts/proto --as-file-descriptor-set -o third_party/image.binpb
//go:generate go build -o bin/ ./contracts/generate/openapi ./contracts/generate/storage
//go:generate bin/openapi third_party/image.binpb gen/openapi contracts/openapi/admin.yaml contracts/openapi/oauth.yaml contracts/openapi/dev.yaml contracts/seed.schema.json
//go:generate go build -o bin/ github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen
//go:generate bin/oapi-codegen -config contracts/generate/restclient/config.yaml gen/openapi/openapi.json
//go:generate mkdir -p gen/oauth
//go:generate bin/oapi-codegen -config contracts/generate/oauth/config.yaml gen/openapi/openapi.json
//go:generate go run ./contracts/generate/params contracts/openapi/oauth.yaml gen/oauth/params.go
//go:generate mkdir -p gen/admin
//go:generate bin/oapi-codegen -config contracts/generate/admin/config.yaml gen/openapi/openapi.json
//go:generate mkdir -p gen/devapi
//go:generate bin/oapi-codegen -config contracts/generate/dev/config.yaml contracts/openapi/dev.yaml
//go:generate bin/sqlc generate -f contracts/generate/storage/models.yaml
//go:generate bin/storage sql third_party/image.binpb third_party/models sql/queries/generated
//go:generate bin/storage removals third_party/image.binpb third_party/models sql/migrations
//go:generate bin/sqlc generate -f third_party/sqlc.yaml
//go:generate bin/storage go third_party/image.binpb gen/db gen/storage
//go:generate go build -o bin/ ./contracts/generate/sdk
//go:generate bin/sdk . gen/sdk
