// Package contracts embeds those parts of the contract that are data rather
// than code: the table of roles and the default seed.
package contracts

import _ "embed"

// Roles is roles.yaml: the built-in roles and the permissions they hold.
//
//go:embed roles.yaml
var Roles []byte

// DefaultSeed is seed.default.yaml: what `writ dev` starts with.
//
//go:embed seed.default.yaml
var DefaultSeed []byte
