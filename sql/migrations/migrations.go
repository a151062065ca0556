// Package migrations embeds the schema; goose runs it, sqlc reads it.
//
// The first files are a baseline: one for each subject, each table on one page as it
// is today. What follows is append-only. A file that is listed in SHA256SUMS has
// landed: databases have run it, so a change of it would reach none of them. Whoever
// adds a migration adds its line, in this folder:
//
//	sha256sum 00013_subject.sql >> SHA256SUMS
//
// Until the first release no database is kept, so a baseline may be edited where a
// further migration would only spread a table over two pages. Then the list is
// written anew (sha256sum *.sql > SHA256SUMS), the commit says so, and databases of
// developers are made anew.
package migrations

import "embed"

// Files holds the numbered migrations.
//
//go:embed *.sql
var Files embed.FS
