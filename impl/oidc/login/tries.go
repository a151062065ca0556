package login

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/api/user"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/token"
)

// Whether a user has tries left is for nobody to see: it would tell who there is, and that
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

// wrongKey names the text for a browser that has sent so many wrong passwords for a name.
func wrongKey(times int32) string {
	switch {
	case times >= user.PasswordAttempts:
		return "password.spent"
	case times >= nearTheLimit:
		return "password.near.wrong"
	}
	return "password.wrong"
}

// tries are those of the browser.
type tries struct{ acquaintance }

func (v *visit) tries() tries { return tries{v.browser()} }

// read reads what the browser's cookie says of the period that lasts still.
func (t tries) read() (*tokenv1.WrongPasswords, error) {
	sent, err := t.r.Cookie(t.cookies.name(triesCookie))
	if err != nil || len(sent.Value) > maxTriesText {
		return &tokenv1.WrongPasswords{}, nil //nolint:nilerr // there is none
	}
	found := &tokenv1.WrongPasswords{}
	if err := t.Box.Open(t.r.Context(), t.instance.ID, token.Wrong, sent.Value, found); errors.Is(err, token.ErrInvalid) {
		return &tokenv1.WrongPasswords{}, nil
	} else if err != nil {
		return nil, err
	}
	found.Names = slices.DeleteFunc(found.GetNames(), func(one *tokenv1.WrongPassword) bool {
		return t.Now().Sub(time.Unix(one.GetSince(), 0)) >= user.PasswordPeriod
	})
	return found, nil
}

// wrong counts a wrong password for a name, and returns how many there were in this period.
func (t tries) wrong(name string) (int32, error) {
	found, err := t.read()
	if err != nil {
		return 0, err
	}
	one := take(found, name)
	if one == nil {
		one = &tokenv1.WrongPassword{Name: triedName(name), Since: t.Now().Unix()}
	}
	one.Times = min(one.GetTimes()+1, user.PasswordAttempts)
	found.Names = slices.Insert(found.GetNames(), 0, one)
	found.Names = found.Names[:min(len(found.Names), maxTriedNames)]
	return one.GetTimes(), t.keep(found)
}

// right forgets those for a name, as the server does.
func (t tries) right(name string) error {
	found, err := t.read()
	if err != nil || take(found, name) == nil {
		return err
	}
	return t.keep(found)
}

func (t tries) keep(left *tokenv1.WrongPasswords) error {
	if len(left.GetNames()) == 0 {
		t.cookies.set(t.w, triesCookie, "", -time.Second)
		return nil
	}
	sealed, err := t.Box.Seal(t.r.Context(), t.instance.ID, token.Wrong, left)
	if err == nil {
		t.cookies.set(t.w, triesCookie, sealed, user.PasswordPeriod)
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
