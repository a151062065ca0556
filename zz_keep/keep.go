// Package keep holds requirements while the tree is being built; remove it.
package keep

import (
	_ "buf.build/go/protovalidate"
	_ "connectrpc.com/connect"
	_ "github.com/fergusstrange/embedded-postgres"
	_ "github.com/getkin/kin-openapi/openapi3"
	_ "github.com/getkin/kin-openapi/openapi3filter"
	_ "github.com/getkin/kin-openapi/routers/gorillamux"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/google/uuid"
	_ "github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/pressly/goose/v3"
	_ "github.com/santhosh-tekuri/jsonschema/v6"
	_ "github.com/spf13/cobra"
	_ "go.yaml.in/yaml/v4"
	_ "golang.org/x/crypto/argon2"
	_ "golang.org/x/text/cases"
	_ "google.golang.org/grpc/health"
	_ "google.golang.org/grpc/reflection"
)
