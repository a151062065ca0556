// Package language holds the language settings of the system, of instances and
// of organizations: each inherits what it does not say itself (document 1,
// "Language settings").
package language

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"golang.org/x/text/language"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	languagev3 "github.com/writ-id/writ/gen/proto/writ/language/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/store"
)

// Supported are the languages the product has texts in, sorted; Fallback is the
// one that counts while nobody says another.
var Supported = []string{"de", "en"}

// Fallback is the default language of the system.
const Fallback = "en"

// Service implements the language settings API. It is safe for concurrent use.
type Service struct {
	languagev3.UnsafeServiceLanguageSettingsServer

	resource.Env
	queries *db.Queries
}

var _ languagev3.ServiceLanguageSettingsServer = (*Service)(nil)

// New returns a Service over env.
func New(env resource.Env) *Service { return &Service{Env: env, queries: db.New()} }

// ResolveLanguages reads the settings as they apply in the context of the call.
func (s *Service) ResolveLanguages(ctx context.Context, _ *languagev3.ResolveLanguagesRequest) (*languagev3.ResolveLanguagesResponse, error) {
	in := policy.CallFrom(ctx).Context
	if err := admit(policy.CallFrom(ctx), "org.read"); err != nil {
		return nil, err
	}
	words, err := s.words(ctx, s.DB.Conn(), in)
	if err != nil {
		return nil, err
	}
	details := resource.SettingDetails(0, s.Now(), in.Owner())
	if len(words) > 0 && words[0].InstanceID == in.InstanceID && words[0].OrgID == in.OrgID {
		details = resource.SettingDetails(words[0].Sequence, words[0].ChangeDate, in.Owner())
	}
	return &languagev3.ResolveLanguagesResponse{Details: details, Settings: resolve(words, in)}, nil
}

// admit lets every caller of the tenant in, to the instance and to their own
// organization, and to those they hold the permission in (SEC-238).
func admit(call *policy.Call, permission string) error {
	in, caller := call.Context, call.Caller
	switch {
	case in.Level == policyv1.Level_LEVEL_SYSTEM && caller.InstanceID != "",
		in.Level == policyv1.Level_LEVEL_ORG && caller.OrgID != in.OrgID && caller.InstanceID != "" &&
			!call.Holds(permission, policy.Place{InstanceID: in.InstanceID, OrgID: in.OrgID}):
		return call.Operation.Denied()
	}
	return nil
}

func (s *Service) words(ctx context.Context, tx db.DBTX, in policy.Context) ([]db.LanguageSetting, error) {
	return s.queries.LanguageSettings(ctx, tx, db.LanguageSettingsParams{InstanceID: in.InstanceID, OrgID: in.OrgID})
}

// resolve returns what applies in a context: the nearest word counts, of default
// languages the nearest that the languages that apply allow; while none of them does,
// the first of these.
func resolve(words []db.LanguageSetting, in policy.Context) *languagev3.ResolvedLanguageSettings {
	system := &object.Owner{Type: object.OwnerType_OWNER_TYPE_SYSTEM}
	settings := &languagev3.ResolvedLanguageSettings{
		RestrictedLanguages: &languagev3.ResolvedLanguages{Value: list(Supported), Owner: system},
		SupportedLanguages:  &languagev3.ResolvedLanguages{Value: list(Supported), Owner: system},
	}
	allowed := Supported
	for _, word := range slices.Backward(words) {
		if word.RestrictedLanguages != nil {
			allowed = word.RestrictedLanguages
			settings.RestrictedLanguages = &languagev3.ResolvedLanguages{Value: list(allowed), Owner: inherited(&word, in)}
		}
	}
	settings.DefaultLanguage = &languagev3.ResolvedString{Value: allowed[0], Owner: settings.RestrictedLanguages.GetOwner()}
	if slices.Contains(allowed, Fallback) {
		settings.DefaultLanguage = &languagev3.ResolvedString{Value: Fallback, Owner: system}
	}
	for _, word := range slices.Backward(words) {
		if word.DefaultLanguage != nil && slices.Contains(allowed, *word.DefaultLanguage) {
			settings.DefaultLanguage = &languagev3.ResolvedString{Value: *word.DefaultLanguage, Owner: inherited(&word, in)}
		}
	}
	return settings
}

// Offered returns the languages that the texts of a context are offered in, the
// default one first. An empty orgID is the instance itself.
func Offered(ctx context.Context, conn db.DBTX, instanceID, orgID string) ([]string, error) {
	words, err := db.New().LanguageSettings(ctx, conn, db.LanguageSettingsParams{InstanceID: instanceID, OrgID: orgID})
	if err != nil {
		return nil, err
	}
	settings := resolve(words, policy.Context{InstanceID: instanceID, OrgID: orgID})
	offered := []string{settings.GetDefaultLanguage().GetValue()}
	for _, one := range settings.GetRestrictedLanguages().GetValue() {
		if one.GetKey() != offered[0] {
			offered = append(offered, one.GetKey())
		}
	}
	return offered, nil
}

// Of returns the one of some languages that a tag is in, whatever region it names;
// "" when it is in none of them.
func Of(tag language.Tag, languages []string) string {
	if base, sure := tag.Base(); sure == language.Exact && slices.Contains(languages, base.String()) {
		return base.String()
	}
	return ""
}

// inherited returns the context a word comes from, nil when that is in itself.
func inherited(word *db.LanguageSetting, in policy.Context) *object.Owner {
	from := policy.Context{Level: policyv1.Level_LEVEL_INSTANCE, InstanceID: word.InstanceID, OrgID: word.OrgID}
	switch {
	case word.InstanceID == in.InstanceID && word.OrgID == in.OrgID:
		return nil
	case word.InstanceID == "":
		from.Level = policyv1.Level_LEVEL_SYSTEM
	}
	return from.Owner()
}

func list(keys []string) []*languagev3.Language {
	languages := make([]*languagev3.Language, len(keys))
	for i, key := range keys {
		languages[i] = &languagev3.Language{Key: key}
	}
	return languages
}

// SetLanguages sets or unsets what is present.
func (s *Service) SetLanguages(ctx context.Context, req *languagev3.SetLanguagesRequest) (*languagev3.SetLanguagesResponse, error) {
	call, now := policy.CallFrom(ctx), s.Now()
	in := call.Context
	if err := admit(call, "org.write"); err != nil {
		return nil, err
	}
	asked, err := parse(req.GetSettings())
	if err != nil {
		return nil, err
	}
	var row db.LanguageSetting
	err = s.DB.InTx(ctx, func(tx pgx.Tx) error {
		if row, err = s.queries.LockLanguages(ctx, tx, db.LockLanguagesParams{InstanceID: in.InstanceID, OrgID: in.OrgID, Now: now}); err != nil {
			return err
		}
		set := asked.apply(&row)
		if set == nil {
			return nil
		}
		words, err := s.words(ctx, tx, in)
		if err != nil {
			return err
		}
		if err := asked.agree(&row, resolve(append([]db.LanguageSetting{row}, words[1:]...), in)); err != nil {
			return err
		}
		row.ChangeDate = now
		row.Sequence, err = event.Append(ctx, tx, event.Event{
			InstanceID: in.InstanceID, ObjectID: in.Owner().GetType().String() + "/" + in.Owner().GetId(), Payload: set,
			Creator: call.Caller.UserID, Owner: in.Owner(), At: now,
		})
		if err != nil {
			return err
		}
		return s.queries.UpdateLanguages(ctx, tx, db.UpdateLanguagesParams{
			InstanceID: in.InstanceID, OrgID: in.OrgID, Sequence: row.Sequence, ChangeDate: now,
			DefaultLanguage: row.DefaultLanguage, RestrictedLanguages: row.RestrictedLanguages,
		})
	})
	if store.Violates(err, "language_settings_org_fkey") { // deleted since the context was looked up
		err = fault.New(fault.NotFound, "CONTEXT_NOT_FOUND", "the context does not exist")
	}
	return &languagev3.SetLanguagesResponse{Details: resource.SettingDetails(row.Sequence, row.ChangeDate, in.Owner())}, err
}

// change is what a request asks for, in canonical tags.
type change struct {
	defaultLanguage *string  // "" takes the word back
	restricted      []string // empty takes the word back
	setRestricted   bool
}

func parse(settings *languagev3.SetLanguageSettings) (*change, error) {
	asked := &change{}
	if settings.GetDefaultLanguage() != nil {
		key := settings.GetDefaultLanguage().GetKey()
		if key != "" {
			canonical, err := supported(key, "settings.defaultLanguage.key")
			if err != nil {
				return nil, err
			}
			key = canonical
		}
		asked.defaultLanguage = &key
	}
	if settings.GetRestrictedLanguages() != nil {
		asked.setRestricted = true
		for i, one := range settings.GetRestrictedLanguages().GetLanguages() {
			key, err := supported(one.GetKey(), fmt.Sprintf("settings.restrictedLanguages.languages[%d].key", i))
			if err != nil {
				return nil, err
			}
			if !slices.Contains(asked.restricted, key) {
				asked.restricted = append(asked.restricted, key)
			}
		}
		slices.Sort(asked.restricted)
	}
	return asked, nil
}

// supported returns the language of a tag, if there are texts in it.
func supported(key, field string) (string, error) {
	tag, err := language.Parse(key)
	if err != nil {
		return "", fault.Invalid("INVALID_LANGUAGE", field, "%q is not a BCP 47 language tag", key)
	}
	known := Of(tag, Supported)
	if known == "" {
		return "", fault.Invalid("LANGUAGE_NOT_SUPPORTED", field, "there are no texts in %q; there are %v", tag, Supported)
	}
	return known, nil
}

// apply changes the row and returns the event of it, nil when nothing changes.
func (c *change) apply(row *db.LanguageSetting) *eventv1.LanguagesSet {
	set, changed := &eventv1.LanguagesSet{}, false
	if c.defaultLanguage != nil && *c.defaultLanguage != value(row.DefaultLanguage) {
		changed, set.DefaultLanguage, row.DefaultLanguage = true, c.defaultLanguage, c.defaultLanguage
		if *c.defaultLanguage == "" {
			row.DefaultLanguage = nil
		}
	}
	if c.setRestricted && !slices.Equal(c.restricted, row.RestrictedLanguages) {
		changed, row.RestrictedLanguages = true, c.restricted
	}
	set.RestrictedLanguages = row.RestrictedLanguages
	if !changed {
		return nil
	}
	return set
}

func value(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// agree refuses a default language that would not count, and a restriction after which
// the context's own would not. What is inherited gives way, and so does what is its own
// when a word is taken back.
func (c *change) agree(row *db.LanguageSetting, settings *languagev3.ResolvedLanguageSettings) error {
	said := value(c.defaultLanguage) != "" || len(c.restricted) > 0
	if own := value(row.DefaultLanguage); said && own != "" && settings.GetDefaultLanguage().GetValue() != own {
		return fault.Invalid("DEFAULT_LANGUAGE_RESTRICTED", "settings.defaultLanguage",
			"the default language %q would not be among the restricted languages", own)
	}
	return nil
}
