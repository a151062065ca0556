// Package code makes the codes that the pages send themselves, to verify an address and
// to set a new password, and queues the messages that carry them (SEC-172).
package code

import (
	"context"
	"errors"
	"strings"
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
	// limit is how many codes for a purpose go to an address, or to a user, in an hour; as many
	// again to browsers whose owner reads what is sent there. It bounds the tries too: each
	// code has its own.
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

	Proven  bool    // whether they have proven the address
	Browser Browser // that asks
	Door    string  // a link for them, if the text has one
}

// Browser is one that asks for codes, and is the only one in which they are good: what
// others ask for does not void them, nor do others use up their tries (SEC-177).
type Browser struct {
	ID    string
	Known bool // to whom it asks for
}

// Most is how many messages of a kind there are in an hour: what strangers ask for leaves some.
func (b Browser) Most() int64 {
	if b.Known {
		return 2 * limit
	}
	return limit
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
	// One at a time, so that parallel ones all count.
	if err := c.queries.LockName(ctx, tx, db.LockNameParams{InstanceID: to.InstanceID, Name: Lock(to.Address)}); err != nil {
		return err
	}
	of := db.RecentMessagesToParams{InstanceID: to.InstanceID, Recipient: to.Address, Template: template, Since: c.Now().Add(-time.Hour)}
	if purpose == Reset { // others may have the address, too
		of.UserID = to.ID
	}
	recent, err := c.queries.RecentMessagesTo(ctx, tx, of)
	if err != nil {
		return err
	}
	if recent >= to.Browser.Most() {
		return ErrNoMore
	}
	made := secret.NewCode(digits)
	salt, hash := secret.HashCode(made)
	if err = c.queries.PutUserCode(ctx, tx, db.PutUserCodeParams{
		InstanceID: to.InstanceID, UserID: to.ID, Purpose: int16(purpose), Browser: to.Browser.ID, Address: to.Address,
		Salt: salt, Hash: hash, ExpirationDate: c.Now().Add(lifetime), Now: c.Now(),
	}); err != nil {
		return err
	}
	return c.queue(ctx, tx, template, made, to)
}

// Lock names what one transaction at a time holds that decides about an address.
func Lock(address string) string { return "mail/" + strings.ToLower(address) }

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
		Recipient: to.Address, Proven: to.Proven, Language: to.Language,
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

// Try tries a code of a user, who may not exist, in the browser that asked for it; nil
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
	return &Tried{instanceID, userID, made.Address, made.Browser, purpose, made.Hash}, nil
}

// Use uses a code up. Of parallel uses one is told true.
func (c *Codes) Use(ctx context.Context, tx db.DBTX, tried *Tried) (bool, error) {
	n, err := c.queries.UseUserCode(ctx, tx, db.UseUserCodeParams{
		InstanceID: tried.InstanceID, UserID: tried.UserID, Purpose: int16(tried.purpose), Browser: tried.browser, Hash: tried.hash,
	})
	return n == 1, err
}
