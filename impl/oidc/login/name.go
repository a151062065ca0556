package login

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/resource"
)

// maxName bounds a login name, in bytes: a username, an at sign and a domain.
const maxName = 500

// showName shows the page that asks for the login name.
func showName(v *visit) error {
	name := v.flow.GetLoginName()
	if name == "" {
		name = v.flow.GetLoginHint()
	}
	return nameForm(v, name, nil)
}

// takeName takes the login name. Whether there is such a user is not looked up:
// the next page is the same for all (SEC-170).
func takeName(v *visit) error {
	name := canonicalName(v.form.Get("loginName"))
	if name == "" {
		return nameForm(v, v.form.Get("loginName"), []mistake{{"loginName", "loginName.required"}})
	}
	if err := v.discover(name); err != nil {
		return err
	}
	v.flow.LoginName, v.flow.SessionId, v.flow.Registering = name, "", false
	return v.to(pathPassword)
}

func nameForm(v *visit, name string, mistakes []mistake) error {
	p := v.page("name", pathName)
	p.Fields = []field{{Name: "loginName", Type: "text", Value: name, Autocomplete: "username", Username: true}}
	if v.instance.AllowRegistration {
		p.Links = append(p.Links, v.link("register", pathRegister))
	}
	if len(v.cookies.tokens) > 0 {
		p.Links = append(p.Links, v.link("accounts", pathAccounts))
	}
	return v.renderWith(p, mistakes)
}

// canonicalName returns the one form of a login name that was typed (SEC-174), ""
// when no name can be like that.
func canonicalName(typed string) string {
	if len(typed) > maxName || !utf8.ValidString(typed) || strings.ContainsRune(typed, 0) {
		return ""
	}
	return norm.NFC.String(strings.TrimSpace(typed))
}

// resolve returns whom a login name means here; with an empty ID nobody. A username alone means who
// has it in the default organization, else the only one who has it: so whoever came with an
// organization from elsewhere is called what they were called there. One that
// reads like somebody's login name or verified address gives way to that; what is the
// login name of one and the address of another, or the address of two, means neither:
// nothing but a rank could decide, and the wrong one would be asked for a password, or
// sent the code for a new one (SEC-174). Who is meant has other names.
func resolve(v *visit, name string) (db.LoginCandidatesRow, error) {
	params := db.LoginCandidatesParams{
		InstanceID: v.instance.ID, NameFolded: resource.Fold(name), DefaultOrg: v.instance.DefaultOrg,
		OnlyOrg: v.flow.GetOrgId(), OnlyUser: v.flow.GetUserId(),
	}
	if at := strings.LastIndexByte(name, '@'); at >= 0 {
		params.UsernameFolded, params.Domain = resource.Fold(name[:at]), strings.ToLower(name[at+1:])
	}
	found, err := v.queries.LoginCandidates(v.r.Context(), v.DB.Pool, params)
	if err != nil {
		return db.LoginCandidatesRow{}, err
	}
	for _, weak := range []int32{byOnlyUsername, byUsername} {
		is := func(one db.LoginCandidatesRow) bool { return one.Rank == weak }
		if !slices.ContainsFunc(found, func(one db.LoginCandidatesRow) bool { return !is(one) }) {
			break
		}
		found = slices.DeleteFunc(found, is)
	}
	for i := range found {
		if found[i].ID != found[0].ID {
			return db.LoginCandidatesRow{}, nil
		}
	}
	if len(found) == 0 {
		return db.LoginCandidatesRow{}, nil
	}
	return found[0], nil
}

// byUsername is the rank of a candidate who is meant by a username of the default organization
// alone, byOnlyUsername of one of any.
const byUsername, byOnlyUsername = 2, 4
