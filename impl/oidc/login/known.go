package login

import (
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/writ-id/writ/gen/db"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/token"
	"github.com/writ-id/writ/impl/oidc/login/code"
)

// A browser in which a user has signed in is known to them: it has tries of its own, and
// messages of its own, so that strangers who use up theirs keep nobody out (SEC-177). Another
// one becomes known by a link in a message that only the user reads, the door. Neither
// signs anybody in; and both end with the generation of the user, as all that was issued.
// Of who registers there is no user yet: their browser becomes known to the address.

const (
	// knownCookie holds, sealed, who has signed in with a browser.
	knownCookie   = "writ_known"
	knownLifetime = 365 * 24 * time.Hour
	maxKnown      = 8 // users of a browser
	maxAddresses  = 2 // which are of a day
	maxKnownText  = 2048

	// doorLifetime is longer than doorEvery, so that who needs a door has a good one.
	doorLifetime = 24 * time.Hour
	doorEvery    = 3 * time.Hour
)

// acquaintance is a browser, as its users know it.
type acquaintance struct {
	*Pages
	w        http.ResponseWriter
	r        *http.Request
	instance *policy.Instance
	cookies  *cookies
}

func (v *visit) browser() acquaintance { return acquaintance{v.Pages, v.w, v.r, v.instance, v.cookies} }

// read reads what the browser's cookie says; nothing, when there is none.
func (a acquaintance) read() (*tokenv1.KnownBrowser, error) {
	known := &tokenv1.KnownBrowser{}
	sent, err := a.r.Cookie(a.cookies.name(knownCookie))
	if err != nil || len(sent.Value) > maxKnownText {
		return known, nil //nolint:nilerr // there is none
	}
	if err := a.Box.Open(a.r.Context(), a.instance.ID, token.Known, sent.Value, known); errors.Is(err, token.ErrInvalid) {
		return &tokenv1.KnownBrowser{}, nil
	} else if err != nil {
		return nil, err
	}
	return known, nil
}

// of returns the ID of the browser, if it is known to a user, in a generation if one
// is named.
func (a acquaintance) of(userID string, generation *int32) (string, error) {
	known, err := a.read()
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

// asks returns the browser as one that asks for codes for a user, if one is named in a
// generation; a browser that is not known to them is the one that has its cookie.
func (a acquaintance) asks(userID string, generation *int32) (code.Browser, error) {
	id, err := a.of(userID, generation)
	if id != "" {
		return code.Browser{ID: id, Known: true}, err
	}
	return code.Browser{ID: a.unknown()}, err
}

// unknown names a browser by its cookie, as no known one is named.
func (a acquaintance) unknown() string {
	return "~" + base64.RawURLEncoding.EncodeToString(a.cookies.hash())
}

// asksFor is asks for who registers with an address.
func (a acquaintance) asksFor(address string) (code.Browser, error) {
	known, err := a.read()
	return code.Browser{ID: a.unknown(), Known: slices.ContainsFunc(known.GetAddresses(), func(one *tokenv1.KnownAddress) bool {
		return one.GetAddress() == resource.Fold(address) && a.Now().Unix() < one.GetExpiresAt()
	})}, err
}

// remember makes the browser known to a user.
func (a acquaintance) remember(user *tokenv1.KnownUser) error {
	return a.keep(func(known *tokenv1.KnownBrowser) {
		known.Users = slices.DeleteFunc(known.GetUsers(), func(one *tokenv1.KnownUser) bool { return one.GetUserId() == user.GetUserId() })
		known.Users = slices.Insert(known.Users, 0, user)
		known.Users = known.Users[:min(len(known.Users), maxKnown)]
	})
}

// enter makes the browser known to whom a door is for.
func (a acquaintance) enter(door *tokenv1.Door) error {
	if door.GetUser() != nil {
		return a.remember(door.GetUser())
	}
	return a.keep(func(known *tokenv1.KnownBrowser) {
		known.Addresses = slices.DeleteFunc(known.GetAddresses(), func(one *tokenv1.KnownAddress) bool { return one.GetAddress() == door.GetAddress() })
		known.Addresses = slices.Insert(known.Addresses, 0, &tokenv1.KnownAddress{Address: door.GetAddress(), ExpiresAt: a.Now().Add(doorLifetime).Unix()})
		known.Addresses = known.Addresses[:min(len(known.Addresses), maxAddresses)]
	})
}

// keep changes what the browser's cookie says.
func (a acquaintance) keep(change func(*tokenv1.KnownBrowser)) error {
	known, err := a.read()
	if err != nil {
		return err
	}
	if known.GetId() == "" {
		known.Id = a.NewID()
	}
	change(known)
	sealed, err := a.Box.Seal(a.r.Context(), a.instance.ID, token.Known, known)
	if err != nil || len(sealed) > maxKnownText { // IDs may be long
		return err
	}
	a.cookies.set(a.w, knownCookie, sealed, knownLifetime)
	return nil
}

// door returns a link that makes the browser known to a user in which it is opened.
func (a acquaintance) door(user *db.LoginCandidatesRow) (string, error) {
	return a.doorOf(&tokenv1.Door{User: &tokenv1.KnownUser{UserId: user.ID, Generation: user.Generation}})
}

// doorOf returns the link of a door. It leads to a domain of the instance, whatever the
// request calls it (SEC-171).
func (a acquaintance) doorOf(door *tokenv1.Door) (string, error) {
	door.ExpiresAt = a.Now().Add(doorLifetime).Unix()
	sealed, err := a.Box.Seal(a.r.Context(), a.instance.ID, token.Door, door)
	if err != nil {
		return "", err
	}
	asked := a.r
	at, err := a.queries.InstanceByDomain(a.r.Context(), a.DB.Pool, policy.CanonicalHost(asked.Host))
	if err != nil && !store.NoRow(err) {
		return "", err
	}
	if err != nil || at.ID != a.instance.ID {
		primary, err := a.queries.PrimaryHost(a.r.Context(), a.DB.Pool, a.instance.ID)
		if err != nil {
			return "", err
		}
		asked = asked.Clone(asked.Context())
		asked.Host = primary
	}
	return a.Issuer(asked) + pathDoor + "?door=" + sealed, nil
}

// recipient is a user as messages address them, in their own language.
func recipient(v *visit, user *db.LoginCandidatesRow) code.Recipient {
	return code.Recipient{
		InstanceID: v.instance.ID, ID: user.ID, OrgID: user.OrgID, Address: user.Email,
		Proven: user.IsEmailVerified && user.IsEmailProven, Language: user.PreferredLanguage, Name: user.DisplayName,
	}
}

// shutOut tells a user who cannot get in because strangers used up the tries how to get in
// all the same. It is silent towards the browser, which may be one of a stranger.
func shutOut(v *visit, user *db.LoginCandidatesRow) error {
	if !user.IsEmailVerified || user.Email == "" {
		return nil
	}
	ctx := v.r.Context()
	recent, err := v.queries.RecentMessagesOf(ctx, v.DB.Pool, db.RecentMessagesOfParams{
		InstanceID: v.instance.ID, UserID: user.ID, Template: "door", Since: v.Now().Add(-doorEvery),
	})
	if err != nil || recent > 0 {
		return err
	}
	to := recipient(v, user)
	if to.Door, err = v.browser().door(user); err != nil {
		return err
	}
	return v.codes.Tell(ctx, v.DB.Pool, "door", to)
}

// open reads the door that a request brings.
func (a acquaintance) open(sealed string) (*tokenv1.Door, error) {
	door := &tokenv1.Door{}
	err := a.Box.Open(a.r.Context(), a.instance.ID, token.Door, sealed, door)
	if errors.Is(err, token.ErrInvalid) || err == nil && a.Now().Unix() >= door.GetExpiresAt() {
		return nil, refuse(http.StatusBadRequest, "door_closed")
	}
	return door, err
}

// serveDoor shows what the link of a message does, and does it when that is confirmed: who
// scans mail follows links, too.
func serveDoor(v *visit) error {
	if v.r.Method == http.MethodPost {
		if err := v.readForm(v.w, v.r); err != nil {
			return err
		}
		door, err := v.browser().open(v.r.PostForm.Get("door"))
		if err != nil {
			return err
		}
		if err := v.browser().enter(door); err != nil {
			return err
		}
		v.leave()
		http.Redirect(v.w, v.r, pathName, http.StatusSeeOther)
		return nil
	}
	sealed := v.r.URL.Query().Get("door")
	if _, err := v.browser().open(sealed); err != nil {
		return err
	}
	shown := &page{
		name: "signout.html", status: http.StatusOK, Words: v.words, Head: v.words.get("door.head"), Lead: v.words.get("door.lead"),
		Submit: v.words.get("door.submit"), Action: pathDoor, Hidden: []param{{"door", sealed}},
	}
	shown.Title = v.words.title(shown.Head, hostOf(v.r))
	v.show(v.w, v.r, shown, "'self'")
	return nil
}
