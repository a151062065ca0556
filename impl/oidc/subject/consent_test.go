package subject

import (
	"slices"
	"testing"

	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/oidc/scope"
)

// TestSEC235_AnExchangeLeavesTheRightsThatBothApplicationsHave combines the consents of an
// application and of one that held the token before.
func TestSEC235_AnExchangeLeavesTheRightsThatBothApplicationsHave(t *testing.T) {
	t.Parallel()
	type names = []string
	everywhereTrusted := &Consent{Trusted: true, rank: everywhere}
	trusted := &Consent{Trusted: true, rank: inOrganization, Within: "o"}
	given := func(org string, roles ...string) *Consent { return &Consent{Given: true, Within: org, Roles: roles} }
	for name, test := range map[string]struct {
		now, before *Consent
		otherUser   bool
		want        Consent
	}{
		"both trusted":                          {now: trusted, before: trusted, want: *trusted},
		"trusted less far":                      {now: trusted, before: everywhereTrusted, want: *trusted},
		"trusted further":                       {now: everywhereTrusted, before: trusted, want: Consent{Trusted: true, Within: "o", Raised: true}},
		"of two organizations":                  {now: given("o", "a"), before: given("p", "a")},
		"without a consent":                     {now: trusted, before: &Consent{Within: "o"}},
		"by two consents":                       {now: given("o", "a", "b"), before: given("o", "b", "c"), want: Consent{Given: true, Within: "o", Roles: names{"b"}}},
		"by an actor's consent":                 {now: given("o", "a"), before: given("o", "b"), otherUser: true, want: Consent{Given: true, Within: "o", Roles: names{"a"}}},
		"trusted after a consent":               {now: trusted, before: given("o", "a"), want: Consent{Given: true, Within: "o", Roles: names{"a"}, Raised: true}},
		"trusted after the consent of an actor": {now: trusted, before: given("o", "a"), otherUser: true, want: Consent{Given: true, Within: "o", Raised: true}},
	} {
		got, want := test.now.and(test.before, !test.otherUser), test.want
		if got.Trusted != want.Trusted || got.Given != want.Given || got.Within != want.Within || got.Raised != want.Raised || !slices.Equal(got.Roles, want.Roles) {
			t.Errorf("%s: got %+v, want %+v", name, *got, want)
		}
	}
}

// TestSEC235_OriginsNameTheUsesOfApplications reads what Origins writes, whatever the names are.
func TestSEC235_OriginsNameTheUsesOfApplications(t *testing.T) {
	t.Parallel()
	for _, want := range []use{{"1", "2@p"}, {"", "client"}, {"~@3~a.b", "~.~"}, {"é.", "c."}} {
		token := &tokenv1.AccessToken{Id: "grant.id", AppId: "app", UserId: want.userID, ClientId: want.clientID, Audience: []string{scope.Platform}}
		list := Origins(token, token)
		at := slices.IndexFunc(list, func(one string) bool { _, ok := readUse(one); return ok })
		if len(list) != 2 || Exchanges(list) != 1 || at < 0 {
			t.Fatalf("%+v: got %q", want, list)
		}
		if got, _ := readUse(list[at]); got != want {
			t.Errorf("%q: got %+v, want %+v", list[at], got, want)
		}
		if grant, user, generation := Source(list[at]); grant != "" || user != "" || generation != nil {
			t.Errorf("%q is read as the ID of a token", list[at])
		}
	}
	for _, text := range []string{"", "~1~user.id", "~@", "~@x~a.", "~@-1~a.", "~@9~a.", "grant.~@1~a."} {
		if u, ok := readUse(text); ok {
			t.Errorf("%q is read as %+v", text, u)
		}
	}
}
