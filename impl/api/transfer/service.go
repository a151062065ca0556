// Package transfer exports organizations with all that is theirs, and imports them: what
// document 2 calls the administrative export and import.
//
// What moves and how it is written down says the contract (contracts/proto/writ/transfer);
// the statements are generated (gen/storage, transfer.Kind). Peculiar to moving are one
// snapshot (export.go), one transaction over staging tables (import.go), the rules that the
// rooms of the API have for what they store (prepare.go), and operations that run by
// themselves (operation.go).
package transfer

import (
	"context"
	"log/slog"
	"sync"

	"github.com/writ-id/writ/impl/api/domain"
	"github.com/writ-id/writ/impl/api/org"
	"github.com/writ-id/writ/impl/core/admission"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/spool"
)

// Config holds what a Service needs.
type Config struct {
	resource.Env
	Sealer secret.Sealer
	Roles  *policy.Roles
	Logger *slog.Logger
	// MaxHashCost is as with user.Config.
	MaxHashCost float64
	// Space is where bytes are that move; nil is the folder for temporary files, with the room
	// that is usual there.
	Space *spool.Space
}

// Service exports and imports. It is safe for concurrent use.
type Service struct {
	Config
	orgs  *org.Service // furnishes organizations that come without a domain
	rules *policy.Validator

	places *admission.Gate // of what runs at once on a node
	mu     sync.Mutex
	moving map[string]bool // the instances that move something here

	running  sync.WaitGroup
	stopping context.Context //nolint:containedctx // of the node
	stop     context.CancelFunc
}

// atOnce is how many exports and imports have the database work on a node at once, of different
// instances: each has a connection and is a CPU's work for it.
const atOnce = 2

// New returns a Service over c.
func New(c Config) (*Service, error) {
	rules, err := policy.NewRules() // each kind's are compiled when an item of it comes first
	if err == nil && c.Space == nil {
		c.Space, err = spool.Open("", 0)
	}
	if err != nil {
		return nil, err
	}
	s := &Service{Config: c, orgs: org.New(c.Env, domain.New(c.Env, nil)), rules: rules, places: admission.New(atOnce, 1), moving: map[string]bool{}}
	s.stopping, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// sentences say what the marks and reasons mean.
var sentences = map[string]string{
	"EXISTS":                  "it is there already",
	"ID_TAKEN":                "its ID is that of something in another organization",
	"ID_USED":                 "its ID was that of something that was deleted, and IDs are never used again",
	"DUPLICATE":               "it is in the file twice",
	"NAME_TAKEN":              "its name or something else that has to be unique is taken",
	"ORGANIZATION_NOT_FOUND":  "its organization is neither in the file nor there already",
	"ORGANIZATION_DIFFERS":    "what it belongs to is in another organization",
	"USER_NOT_FOUND":          "its user is neither in the file nor there already",
	"PROJECT_NOT_FOUND":       "its project is neither in the file nor there already",
	"PROJECT_GRANT_NOT_FOUND": "the grant of its project is neither in the file nor there already",
	"GRANTED_ORG_NOT_FOUND":   "the organization that may use the project is neither in the file nor there already",
	"IDP_NOT_FOUND":           "its identity provider is neither in the file nor one of the instance",
	"SCHEMA_NOT_FOUND":        "its user schema is not there; it has to be made first, under the same ID",
	"USERNAME_OF_ANOTHER":     "its username ends in a verified domain of another organization",
	"ROLE_NOT_FOUND":          "there is no such role at its level",
	"INVALID_USERNAME":        "its username is empty, too long, or has characters that look like others or like nothing",
	hashTooCostly:             "it is carried without its password, whose hash takes more work to verify than the operator allows (--max-hash-cost)",
	"OTP_SECRET_MISSING":      "a second factor of one-time passwords is nothing without its secret; export with_otp",
	"OTP_NOT_ASKED_FOR":       "secrets of one-time passwords are included with with_otp only",
	"NOT_INCLUDED":            "an export does not include it",
	"REFERS_ELSEWHERE":        "it refers to something of an organization that is not exported",
	"SUBJECT_UNKNOWN":         "there is no such setting",
}

func sentence(reason string) string { return sentences[reason] }
