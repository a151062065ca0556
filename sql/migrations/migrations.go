// Package migrations embeds the schema; goose runs it, sqlc reads it.
package migrations

import "embed"

// Files holds the numbered migrations.
//
//go:embed *.sql
var Files embed.FS
