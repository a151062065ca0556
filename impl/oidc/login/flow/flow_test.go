package flow_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/oidc/login/flow"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// account is one at an identity provider, which may be a user whose login name is "known".
func account(loginName string) *tokenv1.External {
	return &tokenv1.External{Id: "trip", ProviderId: "idp", Subject: "s", LoginName: loginName, EndedAt: now.Unix()}
}

// events has each event once, by its name.
var events = map[string]flow.Event{
	"Hinted": flow.Hinted{LoginName: "hint"}, "Named": flow.Named{LoginName: "typed", DomainOrg: "org"}, "Another": flow.Another{},
	"Chose": flow.Chose{SessionID: "k", LoginName: "chosen"}, "Proved": flow.Proved{SessionID: "k", Since: now.Unix()},
	"Registered": flow.Registered{UserID: "u", Address: "a@b.example", SessionID: "k", Since: now.Unix()}, "Verified": flow.Verified{},
	"Sent": flow.Sent{}, "Forgot": flow.Forgot{LoginName: "forgetful", UserID: "u"}, "Replaced": flow.Replaced{}, "Left": flow.Left{},
	"Refused": flow.Refused{Reason: "idp_gone"}, "Met": flow.Met{External: account("known")}, "Linking": flow.Linking{},
	"Linked": flow.Linked{SessionID: "k"}, "ConsentDue": flow.ConsentDue{Proof: true}, "Consented": flow.Consented{},
}

// states has each state, by the events that lead there.
var states = map[string][]flow.Event{
	"Name":     nil,
	"SignIn":   {events["Named"]},
	"Proven":   {events["Named"], events["Proved"]},
	"Verify":   {events["Registered"]},
	"Reset":    {events["Forgot"]},
	"Unlinked": {events["Met"]},
	"Linking":  {events["Met"], flow.Linking{}},
}

// after says which state each state is in after each event; "-" is refused. States that a
// row does not name stay.
var after = map[string]map[string]string{
	"Hinted":     {},
	"Named":      {"": "SignIn", "Linking": "Linking"},
	"Another":    {"": "Name", "Linking": "Linking name"},
	"Chose":      {"": "Proven", "Linking": "Linking session"},
	"Proved":     {"": "Proven", "Name": "-", "Unlinked": "-", "Linking": "Linking session"},
	"Registered": {"": "Verify", "Linking": "Linking verify"},
	"Verified":   {"": "-", "Verify": "Proven"},
	"Sent":       {},
	"Forgot":     {"": "Reset", "Linking": "Linking reset"},
	"Replaced":   {"": "-", "Reset": "SignIn"},
	"Left":       {"": "SignIn", "Name": "Name", "Unlinked": "Name"},
	"Refused":    {"": "SignIn", "Name": "Name", "Unlinked": "Name"},
	"Met":        {"": "Unlinked"},
	"Linking":    {"": "-", "Unlinked": "Linking"},
	"Linked":     {"": "-", "Linking": "Proven"},
	"ConsentDue": {},
	"Consented":  {},
}

func begin(list ...flow.Event) *flow.Flow {
	f := flow.New(flow.Asked{Request: "x=y"}, flow.Proof{}, "", now)
	for _, one := range list {
		if !f.On(one) {
			panic(fmt.Sprintf("%T is refused", one))
		}
	}
	return f
}

// nameOf names the state of a flow as the table does.
func nameOf(f *flow.Flow) string {
	name := strings.TrimPrefix(fmt.Sprintf("%T", f.State()), "flow.")
	if f.Link() != nil {
		switch is := f.State().(type) {
		case flow.SignIn:
			if is.SessionID != "" {
				return "Linking session"
			}
			return "Linking"
		default:
			return "Linking " + strings.ToLower(name)
		}
	}
	if name == "SignIn" && f.SessionID() != "" {
		return "Proven"
	}
	return name
}

// TestSEC144_EveryEventInEveryState holds the machine to the table, which has a row for each
// event that there is.
func TestSEC144_EveryEventInEveryState(t *testing.T) {
	t.Parallel()
	if len(after) != len(events) {
		t.Fatalf("the table has %d rows, there are %d events", len(after), len(events))
	}
	for event, row := range after {
		for state, path := range states {
			want, ok := row[state]
			if !ok {
				if want, ok = row[""]; !ok {
					want = state
				}
			}
			f := begin(path...)
			before := f.Message()
			taken := f.On(events[event])
			got := nameOf(f)
			if !taken {
				got = "-"
				if !proto.Equal(before, f.Message()) {
					t.Errorf("%s in %s is refused, and changes %v to %v", event, state, before, f.Message())
				}
			}
			if got != want {
				t.Errorf("%s in %s leads to %s, want %s", event, state, got, want)
			}
		}
	}
}

// TestWhatIsAskedNeverChanges: no event changes what the login is for, and each flow travels
// whole.
func TestWhatIsAskedNeverChanges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		asked := flow.Asked{Request: "x=y", AppName: "App", Language: "de", OrgID: "o", UserID: "u", Choose: true, Create: true, IDPID: "idp"}
		f := flow.New(asked, flow.Proof{Fresh: rapid.Bool().Draw(t, "fresh"), Since: rapid.Int64Range(0, 9).Draw(t, "since")}, "hint", now)
		f.Bind([]byte("browser"))
		names := rapid.SliceOfN(rapid.SampledFrom([]string{
			"Hinted", "Named", "Another", "Chose", "Proved", "Registered", "Verified", "Sent", "Forgot", "Replaced", "Left", "Refused", "Met", "Linking", "Linked", "ConsentDue", "Consented",
		}), 0, 8).Draw(t, "events")
		for _, name := range names {
			f.On(events[name])
		}
		if f.Asked() != asked {
			t.Fatalf("%v changed what is asked: %+v", names, f.Asked())
		}
		if read := flow.Of(f.Message()); !reflect.DeepEqual(read, f) {
			t.Fatalf("after %v: %+v travels as %+v", names, f, read)
		}
	})
}

// TestREL073_AFlowOfTheReleaseBeforeIsRead has what that wrote of states.
func TestREL073_AFlowOfTheReleaseBeforeIsRead(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		of   *tokenv1.Flow
		want flow.State
		link bool
	}{
		{"nothing", &tokenv1.Flow{}, flow.Name{}, false},
		{"a name", &tokenv1.Flow{LoginName: "a", SessionId: "k"}, flow.SignIn{LoginName: "a", SessionID: "k"}, false},
		{"registering", &tokenv1.Flow{LoginName: "a@b", Registering: true, CodeUserId: "u", Address: "a@b", SessionId: "k"}, flow.Verify{UserID: "u", Address: "a@b", SessionID: "k"}, false},
		{"a code for a password", &tokenv1.Flow{LoginName: "a", CodeUserId: "u"}, flow.Reset{LoginName: "a", UserID: "u"}, false},
		{"an account", &tokenv1.Flow{External: account("")}, flow.Unlinked{External: account("")}, false},
		{"an account that is linked", &tokenv1.Flow{LoginName: "a", External: account(""), Linking: true}, flow.SignIn{LoginName: "a"}, true},
		{"a link to nothing", &tokenv1.Flow{LoginName: "a", Linking: true}, flow.SignIn{LoginName: "a"}, false},
	} {
		got := flow.Of(test.of)
		if !reflect.DeepEqual(got.State(), test.want) || (got.Link() != nil) != test.link {
			t.Errorf("%s: got %+v, %v", test.name, got.State(), got.Link())
		}
	}
}

// TestSEC144_EachStateIsDueWhatItLacks holds Next to a table of all that a session can lack.
func TestSEC144_EachStateIsDueWhatItLacks(t *testing.T) {
	t.Parallel()
	ago := func(d time.Duration) *time.Time { at := now.Add(-d); return &at }
	type change = func(*flow.Session)
	with := func(changes ...change) *flow.Session {
		k := &flow.Session{ID: "k", IsActive: true, Life: 24 * time.Hour}
		for _, one := range changes {
			one(k)
		}
		return k
	}
	password := func(d time.Duration) change { return func(k *flow.Session) { k.PasswordVerifiedAt = ago(d) } }
	federated := func(k *flow.Session) { k.IntentVerifiedAt, k.IntentAuthTime, k.IsLinked = ago(0), ago(0), true }
	totp := func(k *flow.Session) { k.HasTOTP = true }
	totpProven := func(d time.Duration) change {
		return func(k *flow.Session) { k.HasTOTP, k.TOTPVerifiedAt = true, ago(d) }
	}
	mails := func(k *flow.Session) { k.EmailAddress = "a@b" }
	changes := func(k *flow.Session) { k.PasswordChangeRequired = true }
	linking, consents := []flow.Event{events["Met"], flow.Linking{}, events["Chose"]}, []flow.Event{events["Chose"], flow.ConsentDue{}}
	for _, test := range []struct {
		name  string
		state []flow.Event
		proof flow.Proof
		k     *flow.Session
		want  flow.Due
	}{
		{"nobody is named", nil, flow.Proof{}, nil, flow.LoginName},
		{"nobody is named, whoever is signed in", nil, flow.Proof{}, with(password(0)), flow.LoginName},
		{"a name", states["SignIn"], flow.Proof{}, nil, flow.Password},
		{"a session without a proof", states["Proven"], flow.Proof{}, with(), flow.Password},
		{"a password", states["Proven"], flow.Proof{}, with(password(time.Hour)), flow.Nothing},
		{"one that is too old", states["Proven"], flow.Proof{}, with(password(25 * time.Hour)), flow.Password},
		{"one that is older than asked", states["Proven"], flow.Proof{Since: now.Unix() - 60}, with(password(time.Hour)), flow.Password},
		{"one of another login", []flow.Event{events["Chose"]}, flow.Proof{Fresh: true}, with(password(0)), flow.Password},
		{"one of this login", states["Proven"], flow.Proof{Fresh: true}, with(password(0)), flow.Nothing},
		{"one that has changed since", states["Proven"], flow.Proof{}, with(password(time.Hour), func(k *flow.Session) { k.PasswordChanged = ago(time.Minute) }), flow.Password},
		{"an identity provider", states["Proven"], flow.Proof{}, with(federated), flow.Nothing},
		{"one that is not linked any more", states["Proven"], flow.Proof{}, with(federated, func(k *flow.Session) { k.IsLinked = false }), flow.Password},
		{"a second factor (SEC-179)", states["Proven"], flow.Proof{}, with(password(0), totp), flow.TOTP},
		{"a second factor with an identity provider (SEC-179)", states["Proven"], flow.Proof{}, with(federated, mails), flow.Email},
		{"the better of two", states["Proven"], flow.Proof{}, with(password(0), mails, totp), flow.TOTP},
		{"one that was proven", states["Proven"], flow.Proof{}, with(password(0), totpProven(time.Hour)), flow.Nothing},
		{"too long ago", states["Proven"], flow.Proof{}, with(password(0), totpProven(19*time.Hour)), flow.TOTP},
		{"longer ago than asked", states["Proven"], flow.Proof{Since: now.Unix() - 60}, with(password(0), totpProven(time.Hour)), flow.TOTP},
		{"a password to be changed", states["Proven"], flow.Proof{}, with(password(0), changes), flow.NewPassword},
		{"after the second factor", states["Proven"], flow.Proof{}, with(password(0), changes, totp), flow.TOTP},
		{"with an old proof (SEC-180)", states["Proven"], flow.Proof{}, with(password(time.Hour), changes), flow.Password},
		{"an address to be verified", states["Verify"], flow.Proof{}, with(password(0)), flow.Code},
		{"a code for a password", states["Reset"], flow.Proof{}, nil, flow.ByCode},
		{"an account that nobody is linked to", states["Unlinked"], flow.Proof{}, with(password(0)), flow.Choice},
		{"one to be linked by a password", linking, flow.Proof{}, with(password(0)), flow.LinkIt},
		{"not by another provider (SEC-202)", linking, flow.Proof{}, with(federated), flow.Password},
		{"not by an old password", linking, flow.Proof{}, with(password(time.Minute)), flow.Password},
		{"nor without a second factor", linking, flow.Proof{}, with(password(0), totpProven(time.Minute)), flow.TOTP},
		{"consent", consents, flow.Proof{}, with(password(time.Hour)), flow.Consent},
		{"to roles, with a proof of this login", []flow.Event{events["Chose"], flow.ConsentDue{Proof: true}}, flow.Proof{}, with(password(time.Hour)), flow.Password},
		{"after all else", consents, flow.Proof{}, with(password(0), changes), flow.NewPassword},
		{"which was given", append(consents[:2:2], flow.Consented{}), flow.Proof{}, with(password(time.Hour)), flow.Nothing},
	} {
		f := flow.New(flow.Asked{}, test.proof, "", now)
		for _, event := range test.state {
			f.On(event)
		}
		if got := flow.Next(f, test.k, now); got != test.want {
			t.Errorf("%s: %d is due, want %d", test.name, got, test.want)
		}
	}
}

// TestSEC144_EveryPageInEveryState: a page opens in the states that the table says and in no
// other, and everything that can be due but a link has a page that then opens.
func TestSEC144_EveryPageInEveryState(t *testing.T) {
	t.Parallel()
	opens := map[string]string{ // page -> states in which it opens, without a session
		flow.PathPassword: "SignIn Proven Reset Linking", flow.PathVerify: "Verify", flow.PathReset: "Reset",
		flow.PathUnlinked: "Unlinked", flow.PathLink: "Unlinked", flow.PathCreate: "Unlinked",
		flow.PathTOTP: "", flow.PathSMS: "", flow.PathEmail: "", flow.PathChange: "", flow.PathConsent: "",
	}
	for i := range flow.Pages {
		p := &flow.Pages[i]
		for state, path := range states {
			f := begin(path...)
			due := flow.Next(f, nil, now)
			want := strings.Contains(" "+opens[p.Path]+" ", " "+state+" ")
			if _, named := opens[p.Path]; !named {
				want = p.Opens == flow.Always
			}
			if got := p.MayOpen(f, nil, due); got != want {
				t.Errorf("%s in %s: opens %v, want %v", p.Path, state, got, want)
			}
			if page := flow.PageAt(due.Path()); page == nil || !page.MayOpen(f, nil, due) {
				t.Errorf("in %s %d is due, whose page does not open", state, due)
			}
		}
	}
	for due := flow.LoginName; due <= flow.Nothing; due++ {
		if (due.Path() == "") != (due == flow.LinkIt) {
			t.Errorf("%d has the page %q", due, due.Path())
		}
	}
}
