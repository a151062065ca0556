package login

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/message"
	"github.com/writ-id/writ/impl/secret"
	"github.com/writ-id/writ/impl/store"
)

// What a code is good for; it is good for nothing else (SEC-017).
const (
	purposeVerify int16 = 1
	purposeReset  int16 = 2
)

// The codes that the pages send themselves (SEC-172).
const (
	codeDigits   = 8
	codeAttempts = 5
	codeLifetime = 10 * time.Minute
	// codesLimit is how many messages a user gets at an address in an hour before
	// nobody can make another code. It bounds the tries too: each code has its own.
	codesLimit = 10
)

// errNoMoreCodes ends a transaction that would make one code too many.
var errNoMoreCodes = errors.New("login: too many codes in an hour")

// recipient is whom a message goes to.
type recipient struct {
	id, orgID, address, language, name string

	browser string // that asks, if it is known to them
	door    string // a link for them, if the text has one
}

// sendCode makes a code for a user and queues the message with it. When there were
// too many it does nothing, and nobody learns of it (SEC-185).
func (v *visit) sendCode(ctx context.Context, purpose int16, template string, to recipient) error {
	err := v.DB.InTx(ctx, func(tx pgx.Tx) error { return v.sendCodeIn(ctx, tx, purpose, template, to) })
	if errors.Is(err, errNoMoreCodes) {
		err = nil
	}
	return err
}

// sendCodeIn is sendCode within a transaction, which has to end with errNoMoreCodes.
func (v *visit) sendCodeIn(ctx context.Context, tx db.DBTX, purpose int16, template string, to recipient) error {
	code := secret.NewCode(codeDigits)
	salt, hash := secret.HashCode(code)
	if err := v.queries.PutUserCode(ctx, tx, db.PutUserCodeParams{
		InstanceID: v.instance.ID, UserID: to.id, Purpose: purpose, Browser: to.browser, Address: to.address,
		Salt: salt, Hash: hash, ExpirationDate: v.Now().Add(codeLifetime),
	}); err != nil {
		return err
	}
	// Counted behind the lock on the code's row, so that parallel ones all count.
	recent, err := v.queries.RecentMessages(ctx, tx, db.RecentMessagesParams{
		InstanceID: v.instance.ID, UserID: to.id, Recipient: to.address, Since: v.Now().Add(-time.Hour),
	})
	if err != nil {
		return err
	}
	limit := int64(codesLimit)
	if to.browser != "" { // what strangers ask for leaves some
		limit *= 2
	}
	if recent >= limit {
		return errNoMoreCodes
	}
	return v.tell(ctx, tx, template, code, to)
}

// tell queues a message. What it says of where it comes from is the domain of the
// instance, never what the request calls it (SEC-171).
func (v *visit) tell(ctx context.Context, tx db.DBTX, template, code string, to recipient) error {
	domain, err := v.queries.PrimaryHost(ctx, tx, v.instance.ID)
	if err != nil {
		return err
	}
	return message.Queue(ctx, tx, &v.Env, &message.Message{
		InstanceID: v.instance.ID, OrgID: to.orgID, UserID: to.id, Kind: message.Email, Template: template,
		Recipient: to.address, Language: to.language,
		Data: message.Data{Code: code, Minutes: int(codeLifetime.Minutes()), Domain: domain, Name: to.name, Link: to.door},
	})
}

// triedCode is a code that was found right, and not yet used.
type triedCode struct {
	userID  string
	browser string
	purpose int16
	address string
	hash    []byte
}

// tryCode tries a code of a user, who may not exist; nil when it is not good. The
// try is counted before it is compared and stays counted.
func (v *visit) tryCode(userID string, purpose int16, code string) (*triedCode, error) {
	browser := ""
	if purpose == purposeReset {
		var err error
		if browser, err = v.browserOf(userID, nil); err != nil {
			return nil, err
		}
	}
	made, err := v.queries.TryUserCode(v.r.Context(), v.DB.Pool, db.TryUserCodeParams{
		InstanceID: v.instance.ID, UserID: userID, Purpose: purpose, Browser: browser, Now: v.Now(), AttemptsLimit: codeAttempts,
	})
	if store.NoRow(err) {
		return nil, nil
	}
	if err != nil || !secret.VerifyCode(made.Salt, made.Hash, code) {
		return nil, err
	}
	return &triedCode{userID, browser, purpose, made.Address, made.Hash}, nil
}

// use uses a code up. Of parallel uses one is told true.
func (v *visit) use(ctx context.Context, tx db.DBTX, code *triedCode) (bool, error) {
	n, err := v.queries.UseUserCode(ctx, tx, db.UseUserCodeParams{
		InstanceID: v.instance.ID, UserID: code.userID, Purpose: code.purpose, Browser: code.browser, Hash: code.hash,
	})
	return n == 1, err
}
