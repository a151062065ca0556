package login

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/writ-id/writ/gen/db"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/store"
	"github.com/writ-id/writ/impl/token"
)

// A browser in which a user has signed in is known to them: it has tries of its own, and
// codes of its own, so that strangers who use up theirs keep nobody out (SEC-177). Another
// one becomes known by a link in a message that only the user reads, the door. Neither
// signs anybody in; and both end with the generation of the user, as all that was issued.

const (
	// knownCookie holds, sealed, who has signed in with a browser.
	knownCookie   = "writ_known"
	knownLifetime = 365 * 24 * time.Hour
	maxKnown      = 8 // users of a browser
	maxKnownText  = 2048

	// doorLifetime is longer than doorEvery, so that who needs a door has a good one.
	doorLifetime = 24 * time.Hour
	doorEvery    = 3 * time.Hour
)

// readKnown reads what the browser's cookie says; nothing, when there is none.
func (v *visit) readKnown() (*tokenv1.KnownBrowser, error) {
	known := &tokenv1.KnownBrowser{}
	sent, err := v.r.Cookie(v.cookies.name(knownCookie))
	if err != nil || len(sent.Value) > maxKnownText {
		return known, nil //nolint:nilerr // there is none
	}
	if err := v.Box.Open(v.r.Context(), v.instance.ID, token.Known, sent.Value, known); errors.Is(err, token.ErrInvalid) {
		return &tokenv1.KnownBrowser{}, nil
	} else if err != nil {
		return nil, err
	}
	return known, nil
}

// browserOf returns the ID of the browser, if it is known to a user, in a generation if one
// is named.
func (v *visit) browserOf(userID string, generation *int32) (string, error) {
	known, err := v.readKnown()
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

// remember makes the browser known to a user.
func (v *visit) remember(user *tokenv1.KnownUser) error {
	known, err := v.readKnown()
	if err != nil {
		return err
	}
	if known.GetId() == "" {
		known.Id = v.NewID()
	}
	known.Users = slices.DeleteFunc(known.GetUsers(), func(one *tokenv1.KnownUser) bool { return one.GetUserId() == user.GetUserId() })
	known.Users = slices.Insert(known.Users, 0, user)
	known.Users = known.Users[:min(len(known.Users), maxKnown)]
	sealed, err := v.Box.Seal(v.r.Context(), v.instance.ID, token.Known, known)
	if err != nil || len(sealed) > maxKnownText { // IDs may be long
		return err
	}
	v.cookies.set(v.w, knownCookie, sealed, knownLifetime)
	return nil
}

// door returns a link that makes the browser known in which it is opened. It leads to a
// domain of the instance, whatever the request calls it (SEC-171).
func (v *visit) door(user *db.LoginCandidatesRow) (string, error) {
	sealed, err := v.Box.Seal(v.r.Context(), v.instance.ID, token.Door, &tokenv1.Door{
		User: &tokenv1.KnownUser{UserId: user.ID, Generation: user.Generation}, ExpiresAt: v.Now().Add(doorLifetime).Unix(),
	})
	if err != nil {
		return "", err
	}
	asked := v.r
	at, err := v.queries.InstanceByDomain(v.r.Context(), v.DB.Pool, strings.ToLower(hostname(asked.Host)))
	if err != nil && !store.NoRow(err) {
		return "", err
	}
	if err != nil || at.ID != v.instance.ID {
		primary, err := v.queries.PrimaryHost(v.r.Context(), v.DB.Pool, v.instance.ID)
		if err != nil {
			return "", err
		}
		asked = asked.Clone(asked.Context())
		asked.Host = primary
	}
	return v.Issuer(asked) + pathDoor + "?door=" + sealed, nil
}

func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

// shutOut tells a user who cannot get in because strangers used up the tries how to get in
// all the same. It is silent towards the browser, which may be one of a stranger.
func (v *visit) shutOut(user *db.LoginCandidatesRow) error {
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
	to := recipient{id: user.ID, orgID: user.OrgID, address: user.Email, language: user.PreferredLanguage, name: user.DisplayName}
	if to.door, err = v.door(user); err != nil {
		return err
	}
	return v.tell(ctx, v.DB.Pool, "door", "", to)
}

// openDoor reads the door that a request brings.
func (v *visit) openDoor(sealed string) (*tokenv1.Door, error) {
	door := &tokenv1.Door{}
	err := v.Box.Open(v.r.Context(), v.instance.ID, token.Door, sealed, door)
	if errors.Is(err, token.ErrInvalid) || err == nil && v.Now().Unix() >= door.GetExpiresAt() {
		return nil, refuse(http.StatusBadRequest, "door_closed")
	}
	return door, err
}

// serveDoor shows what the link of a message does, and does it when that is confirmed: who
// scans mail follows links, too.
func (v *visit) serveDoor() error {
	if v.r.Method == http.MethodPost {
		if err := v.readForm(v.w, v.r); err != nil {
			return err
		}
		door, err := v.openDoor(v.r.PostForm.Get("door"))
		if err != nil {
			return err
		}
		if err := v.remember(door.GetUser()); err != nil {
			return err
		}
		v.leave()
		http.Redirect(v.w, v.r, pathName, http.StatusSeeOther)
		return nil
	}
	sealed := v.r.URL.Query().Get("door")
	if _, err := v.openDoor(sealed); err != nil {
		return err
	}
	shown := &page{
		name: "signout.html", status: http.StatusOK, Words: v.words, Head: v.words.get("door.head"), Lead: v.words.get("door.lead"),
		Submit: v.words.get("door.submit"), Action: pathDoor, Hidden: []param{{"door", sealed}},
	}
	shown.Title = v.words.get("title", shown.Head)
	v.show(v.w, v.r, shown, "'self'")
	return nil
}
