package browser

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"time"

	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/token"
	"github.com/writ-id/writ/impl/oidc/login/code"
)

// A browser in which a user has signed in is known to them: it has tries of its own, and
// messages of its own, so that strangers who use up theirs keep nobody out (SEC-177). Another
// one becomes known by a link in a message that only the user reads, the door (door.go). Neither
// signs anybody in; and both end with the generation of the user, as all that was issued.
// A registration has no user yet: its browser becomes known to the address.

const (
	// knownCookie holds, sealed, the users who have signed in with a browser.
	knownCookie   = "writ_known"
	knownLifetime = 365 * 24 * time.Hour
	maxKnown      = 8 // users of a browser
	maxAddresses  = 2 // which are of a day
	maxKnownText  = 2048
)

// known reads what the browser's cookie says; nothing, when there is none.
func (b *Browser) known(ctx context.Context) (*tokenv1.KnownBrowser, error) {
	known := &tokenv1.KnownBrowser{}
	sent := b.Jar.get(knownCookie)
	if sent == "" || len(sent) > maxKnownText {
		return known, nil
	}
	if err := b.Box.Open(ctx, b.Instance.ID, token.Known, sent, known); errors.Is(err, token.ErrInvalid) {
		return &tokenv1.KnownBrowser{}, nil
	} else if err != nil {
		return nil, err
	}
	return known, nil
}

// KnownTo returns the ID of the browser, if it is known to a user, in a generation if one
// is named.
func (b *Browser) KnownTo(ctx context.Context, userID string, generation *int32) (string, error) {
	known, err := b.known(ctx)
	if err != nil {
		return "", err
	}
	for _, one := range known.GetUsers() {
		if one.GetUserId() == userID && (generation == nil || one.GetGeneration() == *generation) {
			return known.GetId(), nil
		}
	}
	return "", nil
}

// Asks returns the browser as one that asks for codes for a user, if one is named in a
// generation; a browser that is not known to them is the one that has its cookie.
func (b *Browser) Asks(ctx context.Context, userID string, generation *int32) (code.Browser, error) {
	id, err := b.KnownTo(ctx, userID, generation)
	if id != "" {
		return code.Browser{ID: id, Known: true}, err
	}
	return code.Browser{ID: b.Unknown()}, err
}

// Unknown names a browser by its cookie, as no known one is named.
func (b *Browser) Unknown() string {
	return "~" + base64.RawURLEncoding.EncodeToString(b.Jar.hash())
}

// AsksFor is Asks for a registration with an address.
func (b *Browser) AsksFor(ctx context.Context, address string) (code.Browser, error) {
	known, err := b.known(ctx)
	return code.Browser{ID: b.Unknown(), Known: slices.ContainsFunc(known.GetAddresses(), func(one *tokenv1.KnownAddress) bool {
		return one.GetAddress() == resource.Fold(address) && b.Now().Unix() < one.GetExpiresAt()
	})}, err
}

// Remember makes the browser known to a user.
func (b *Browser) Remember(ctx context.Context, userID string, generation int32) error {
	return b.change(ctx, func(known *tokenv1.KnownBrowser) {
		known.Users = slices.DeleteFunc(known.GetUsers(), func(one *tokenv1.KnownUser) bool { return one.GetUserId() == userID })
		known.Users = slices.Insert(known.Users, 0, &tokenv1.KnownUser{UserId: userID, Generation: generation})
		known.Users = known.Users[:min(len(known.Users), maxKnown)]
	})
}

// rememberAddress makes the browser known to an address.
func (b *Browser) rememberAddress(ctx context.Context, address string) error {
	return b.change(ctx, func(known *tokenv1.KnownBrowser) {
		known.Addresses = slices.DeleteFunc(known.GetAddresses(), func(one *tokenv1.KnownAddress) bool { return one.GetAddress() == address })
		known.Addresses = slices.Insert(known.Addresses, 0, &tokenv1.KnownAddress{Address: address, ExpiresAt: b.Now().Add(doorLifetime).Unix()})
		known.Addresses = known.Addresses[:min(len(known.Addresses), maxAddresses)]
	})
}

// change changes what the browser's cookie says.
func (b *Browser) change(ctx context.Context, change func(*tokenv1.KnownBrowser)) error {
	known, err := b.known(ctx)
	if err != nil {
		return err
	}
	if known.GetId() == "" {
		known.Id = b.NewID()
	}
	change(known)
	sealed, err := b.Box.Seal(ctx, b.Instance.ID, token.Known, known)
	if err != nil || len(sealed) > maxKnownText { // IDs may be long
		return err
	}
	b.Jar.set(knownCookie, sealed, knownLifetime)
	return nil
}
