package browser

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/api/user"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/token"
)

// Whether a user has tries left is told to nobody: it would tell which users there are, and that
// two names are one user's. So a browser is told of its own tries only, which it knows of
// anyway. They are counted in a cookie of its own, by the name that was typed, and decide
// nothing but the words of the page: a browser that drops the cookie gains nothing.

const (
	// triesCookie holds, sealed, how many wrong passwords a browser has sent lately.
	triesCookie    = "writ_wrong"
	maxTriedNames  = 8
	maxTriesText   = 1024
	triedNameBytes = 8

	// nearTheLimit is from which wrong password on the page says how many there are.
	nearTheLimit = user.PasswordAttempts - 3
)

// WrongKey names the text for a browser that has sent so many wrong passwords for a name.
func WrongKey(times int32) string {
	switch {
	case times >= user.PasswordAttempts:
		return "password.spent"
	case times >= nearTheLimit:
		return "password.near.wrong"
	}
	return "password.wrong"
}

// tries reads what the browser's cookie says of the period that lasts still.
func (b *Browser) tries(ctx context.Context) (*tokenv1.WrongPasswords, error) {
	sent := b.Jar.get(triesCookie)
	if sent == "" || len(sent) > maxTriesText {
		return &tokenv1.WrongPasswords{}, nil
	}
	found := &tokenv1.WrongPasswords{}
	if err := b.Box.Open(ctx, b.Instance.ID, token.Wrong, sent, found); errors.Is(err, token.ErrInvalid) {
		return &tokenv1.WrongPasswords{}, nil
	} else if err != nil {
		return nil, err
	}
	found.Names = slices.DeleteFunc(found.GetNames(), func(one *tokenv1.WrongPassword) bool {
		return b.Now().Sub(time.Unix(one.GetSince(), 0)) >= user.PasswordPeriod
	})
	return found, nil
}

// Wrong counts a wrong password for a name, and returns how many there were in this period.
func (b *Browser) Wrong(ctx context.Context, name string) (int32, error) {
	found, err := b.tries(ctx)
	if err != nil {
		return 0, err
	}
	one := take(found, name)
	if one == nil {
		one = &tokenv1.WrongPassword{Name: triedName(name), Since: b.Now().Unix()}
	}
	one.Times = min(one.GetTimes()+1, user.PasswordAttempts)
	found.Names = slices.Insert(found.GetNames(), 0, one)
	found.Names = found.Names[:min(len(found.Names), maxTriedNames)]
	return one.GetTimes(), b.keepTries(ctx, found)
}

// Right forgets those for a name, as the server does.
func (b *Browser) Right(ctx context.Context, name string) error {
	found, err := b.tries(ctx)
	if err != nil || take(found, name) == nil {
		return err
	}
	return b.keepTries(ctx, found)
}

func (b *Browser) keepTries(ctx context.Context, left *tokenv1.WrongPasswords) error {
	if len(left.GetNames()) == 0 {
		b.Jar.set(triesCookie, "", -time.Second)
		return nil
	}
	sealed, err := b.Box.Seal(ctx, b.Instance.ID, token.Wrong, left)
	if err == nil {
		b.Jar.set(triesCookie, sealed, user.PasswordPeriod)
	}
	return err
}

// take removes what is said of a name, and returns it.
func take(from *tokenv1.WrongPasswords, name string) *tokenv1.WrongPassword {
	at := slices.IndexFunc(from.GetNames(), func(one *tokenv1.WrongPassword) bool { return bytes.Equal(one.GetName(), triedName(name)) })
	if at < 0 {
		return nil
	}
	one := from.GetNames()[at]
	from.Names = slices.Delete(from.Names, at, at+1)
	return one
}

func triedName(name string) []byte {
	hash := sha256.Sum256([]byte(resource.Fold(name)))
	return hash[:triedNameBytes]
}
