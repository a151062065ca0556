// Package code makes the codes that the pages send themselves, to verify an address and
// to set a new password, and queues the messages that carry them (SEC-172).
package code

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/api/message"
	"github.com/writ-id/writ/impl/api/provider"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
)

// Purpose is what a code is good for; it is good for nothing else (SEC-017).
type Purpose int16

// The purposes, as user_codes has them.
const (
	Verify Purpose = 1
	Reset  Purpose = 2
)

const (
	digits   = 8
	attempts = 5
	lifetime = 10 * time.Minute
	// limit is how many messages a user gets at an address in an hour before
	// nobody can make another code. It bounds the tries too: each code has its own.
	limit = 10
)

// ErrNoMore ends a transaction that would make one code too many.
var ErrNoMore = errors.New("login: too many codes in an hour")

// Codes makes codes and tries them. It is safe for concurrent use.
type Codes struct {
	resource.Env
	queries *db.Queries
}

// New returns Codes over env.
func New(env resource.Env) *Codes { return &Codes{env, db.New()} }

// Recipient is whom a message goes to.
type Recipient struct {
	InstanceID, ID, OrgID, Address, Language, Name string

	Browser string // that asks, if it is known to them
	Door    string // a link for them, if the text has one
}

// Send makes a code for a user and queues the message with it. When there were too many, or
// nobody would carry messages to this user on, it does nothing, and nobody learns of it
// (SEC-185, SEC-170).
func (c *Codes) Send(ctx context.Context, purpose Purpose, template string, to Recipient) error {
	err := c.DB.InTx(ctx, func(tx pgx.Tx) error { return c.SendIn(ctx, tx, purpose, template, to) })
	if errors.Is(err, ErrNoMore) || errors.Is(err, provider.ErrNoSMTP) {
		err = nil
	}
	return err
}

// SendIn is Send within a transaction, which has to end with ErrNoMore.
func (c *Codes) SendIn(ctx context.Context, tx db.DBTX, purpose Purpose, template string, to Recipient) error {
	made := secret.NewCode(digits)
	salt, hash := secret.HashCode(made)
	if err := c.queries.PutUserCode(ctx, tx, db.PutUserCodeParams{
		InstanceID: to.InstanceID, UserID: to.ID, Purpose: int16(purpose), Browser: to.Browser, Address: to.Address,
		Salt: salt, Hash: hash, ExpirationDate: c.Now().Add(lifetime),
	}); err != nil {
		return err
	}
	// Counted behind the lock on the code's row, so that parallel ones all count.
	recent, err := c.queries.RecentMessages(ctx, tx, db.RecentMessagesParams{
		InstanceID: to.InstanceID, UserID: to.ID, Recipient: to.Address, Since: c.Now().Add(-time.Hour),
	})
	if err != nil {
		return err
	}
	most := int64(limit)
	if to.Browser != "" { // what strangers ask for leaves some
		most *= 2
	}
	if recent >= most {
		return ErrNoMore
	}
	return c.queue(ctx, tx, template, made, to)
}

// Tell queues a message without a code.
func (c *Codes) Tell(ctx context.Context, tx db.DBTX, template string, to Recipient) error {
	return c.queue(ctx, tx, template, "", to)
}

// queue queues a message. What it says of where it comes from is the domain of the
// instance, never what the request calls it (SEC-171).
func (c *Codes) queue(ctx context.Context, tx db.DBTX, template, code string, to Recipient) error {
	domain, err := c.queries.PrimaryHost(ctx, tx, to.InstanceID)
	if err != nil {
		return err
	}
	return message.Queue(ctx, tx, &c.Env, &message.Message{
		InstanceID: to.InstanceID, OrgID: to.OrgID, UserID: to.ID, Kind: message.Email, Template: template,
		Recipient: to.Address, Language: to.Language,
		Data: message.Data{Code: code, Minutes: int(lifetime.Minutes()), Domain: domain, Name: to.Name, Link: to.Door},
	})
}

// Tried is a code that was found right, and not yet used.
type Tried struct {
	InstanceID, UserID, Address string

	browser string
	purpose Purpose
	hash    []byte
}

// Try tries a code of a user, who may not exist, by a browser if it is known to them; nil
// when it is not good. The try is counted before it is compared and stays counted.
func (c *Codes) Try(ctx context.Context, instanceID, userID string, purpose Purpose, browser, typed string) (*Tried, error) {
	made, err := c.queries.TryUserCode(ctx, c.DB.Pool, db.TryUserCodeParams{
		InstanceID: instanceID, UserID: userID, Purpose: int16(purpose), Browser: browser, Now: c.Now(), AttemptsLimit: attempts,
	})
	if store.NoRow(err) {
		return nil, nil
	}
	if err != nil || !secret.VerifyCode(made.Salt, made.Hash, typed) {
		return nil, err
	}
	return &Tried{instanceID, userID, made.Address, browser, purpose, made.Hash}, nil
}

// Use uses a code up. Of parallel uses one is told true.
func (c *Codes) Use(ctx context.Context, tx db.DBTX, tried *Tried) (bool, error) {
	n, err := c.queries.UseUserCode(ctx, tx, db.UseUserCodeParams{
		InstanceID: tried.InstanceID, UserID: tried.UserID, Purpose: int16(tried.purpose), Browser: tried.browser, Hash: tried.hash,
	})
	return n == 1, err
}
