package login

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/resource"
)

// maxName bounds a login name, in bytes: a username, an at sign and a domain.
const maxName = 500

// showName shows the page that asks for the login name.
func (v *visit) showName() error {
	name := v.flow.GetLoginName()
	if name == "" {
		name = v.flow.GetLoginHint()
	}
	return v.nameForm(name, nil)
}

// takeName takes the login name. Whether there is such a user is not looked up:
// the next page is the same for all (SEC-170).
func (v *visit) takeName() error {
	name := canonicalName(v.form.Get("loginName"))
	if name == "" {
		return v.nameForm(v.form.Get("loginName"), []mistake{{"loginName", "loginName.required"}})
	}
	v.flow.LoginName, v.flow.SessionId, v.flow.Registering = name, "", false
	return v.to(pathPassword)
}

func (v *visit) nameForm(name string, mistakes []mistake) error {
	p := v.page("name", pathName)
	p.Fields = []field{{Name: "loginName", Type: "text", Value: name, Autocomplete: "username", Username: true}}
	if v.instance.AllowRegistration {
		p.Links = append(p.Links, v.link("register", pathRegister))
	}
	if len(v.cookies.tokens) > 0 {
		p.Links = append(p.Links, v.link("accounts", pathAccounts))
	}
	return v.render(p, mistakes)
}

// canonicalName returns the one form of a login name that was typed (SEC-174), ""
// when no name can be like that.
func canonicalName(typed string) string {
	if len(typed) > maxName || !utf8.ValidString(typed) || strings.ContainsRune(typed, 0) {
		return ""
	}
	return norm.NFC.String(strings.TrimSpace(typed))
}

// resolve returns whom a login name means here; with an empty ID nobody.
func (v *visit) resolve(name string) (db.LoginCandidatesRow, error) {
	params := db.LoginCandidatesParams{
		InstanceID: v.instance.ID, NameFolded: resource.Fold(name), DefaultOrg: v.instance.DefaultOrg,
		OnlyOrg: v.flow.GetOrgId(), OnlyUser: v.flow.GetUserId(),
	}
	if at := strings.LastIndexByte(name, '@'); at >= 0 {
		params.UsernameFolded, params.Domain = resource.Fold(name[:at]), strings.ToLower(name[at+1:])
	}
	found, err := v.queries.LoginCandidates(v.r.Context(), v.DB.Pool, params)
	if err != nil || len(found) == 0 || len(found) > 1 && found[0].Rank == byEmail && found[1].Rank == byEmail {
		return db.LoginCandidatesRow{}, err // an address of two users means neither
	}
	return found[0], nil
}

// byEmail is the rank of a candidate who is meant by an e-mail address.
const byEmail = 3
