// Package language holds the language settings of the system, of instances and
// of organizations: each inherits what it does not say itself (document 1,
// "Language settings").
package language

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/text/language"

	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	languagev3 "github.com/writ-id/writ/gen/proto/writ/language/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/setting"
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
}

var _ languagev3.ServiceLanguageSettingsServer = (*Service)(nil)

// New returns a Service over env.
func New(env resource.Env) *Service { return &Service{Env: env} }

// Subject is what these settings are called where settings are stored.
const Subject = "languages"

// word is what a context says of languages: tags in canonical form, lists sorted.
type word = setting.Word[*languagev3.SetLanguageSettings]

// ResolveLanguages reads the settings as they apply in the context of the call.
func (s *Service) ResolveLanguages(ctx context.Context, _ *languagev3.ResolveLanguagesRequest) (*languagev3.ResolveLanguagesResponse, error) {
	in := policy.CallFrom(ctx).Context
	if err := admit(policy.CallFrom(ctx), "org.read"); err != nil {
		return nil, err
	}
	said, err := setting.Read(ctx, s.DB.Conn(), in.InstanceID, in.OrgID, Subject)
	if err != nil {
		return nil, err
	}
	words, err := setting.Words[*languagev3.SetLanguageSettings](said, Subject)
	return &languagev3.ResolveLanguagesResponse{Details: setting.Details(words, in, s.Now()), Settings: resolve(words, in)}, err
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

// resolve returns what applies in a context: the nearest word counts, of default
// languages the nearest that the languages that apply allow; while none of them does,
// the first of these.
func resolve(words []word, in policy.Context) *languagev3.ResolvedLanguageSettings {
	system := &object.Owner{Type: object.OwnerType_OWNER_TYPE_SYSTEM}
	settings := &languagev3.ResolvedLanguageSettings{
		RestrictedLanguages: &languagev3.ResolvedLanguages{Value: list(Supported), Owner: system},
		SupportedLanguages:  &languagev3.ResolvedLanguages{Value: list(Supported), Owner: system},
	}
	allowed := Supported
	for _, word := range slices.Backward(words) {
		if said := word.Says.GetRestrictedLanguages().GetLanguages(); len(said) > 0 {
			allowed = keys(said)
			settings.RestrictedLanguages = &languagev3.ResolvedLanguages{Value: said, Owner: word.Inherited(in)}
		}
	}
	settings.DefaultLanguage = &languagev3.ResolvedString{Value: allowed[0], Owner: settings.RestrictedLanguages.GetOwner()}
	if slices.Contains(allowed, Fallback) {
		settings.DefaultLanguage = &languagev3.ResolvedString{Value: Fallback, Owner: system}
	}
	for _, word := range slices.Backward(words) {
		if said := word.Says.GetDefaultLanguage().GetKey(); said != "" && slices.Contains(allowed, said) {
			settings.DefaultLanguage = &languagev3.ResolvedString{Value: said, Owner: word.Inherited(in)}
		}
	}
	return settings
}

// Offered returns the languages that the texts of a context are offered in, the
// default one first, by what was said of the Subject.
func Offered(said setting.Said) ([]string, error) {
	words, err := setting.Words[*languagev3.SetLanguageSettings](said, Subject)
	if err != nil {
		return nil, err
	}
	settings := resolve(words, policy.Context{})
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

func list(keys []string) []*languagev3.Language {
	languages := make([]*languagev3.Language, len(keys))
	for i, key := range keys {
		languages[i] = &languagev3.Language{Key: key}
	}
	return languages
}

func keys(languages []*languagev3.Language) []string {
	keys := make([]string, len(languages))
	for i, one := range languages {
		keys[i] = one.GetKey()
	}
	return keys
}

// SetLanguages sets or unsets what is present.
func (s *Service) SetLanguages(ctx context.Context, req *languagev3.SetLanguagesRequest) (*languagev3.SetLanguagesResponse, error) {
	call := policy.CallFrom(ctx)
	if err := admit(call, "org.write"); err != nil {
		return nil, err
	}
	asked, err := canonical(req.GetSettings())
	if err != nil {
		return nil, err
	}
	details, err := setting.Set(ctx, &s.Env, setting.Change[*languagev3.SetLanguageSettings]{
		Subject: Subject, Says: asked,
		Agree: func(words []word) error { return agree(asked, words[0], resolve(words, call.Context)) },
		Event: func(changed, own *languagev3.SetLanguageSettings) event.Payload {
			set := &eventv1.LanguagesSet{RestrictedLanguages: keys(own.GetRestrictedLanguages().GetLanguages())}
			if changed.GetDefaultLanguage() != nil {
				set.DefaultLanguage = &changed.DefaultLanguage.Key
			}
			return set
		},
	})
	return &languagev3.SetLanguagesResponse{Details: details}, err
}

// canonical returns what a request asks for in canonical tags.
func canonical(settings *languagev3.SetLanguageSettings) (*languagev3.SetLanguageSettings, error) {
	asked := &languagev3.SetLanguageSettings{}
	if settings.GetDefaultLanguage() != nil {
		asked.DefaultLanguage = &languagev3.Language{}
		if key := settings.GetDefaultLanguage().GetKey(); key != "" {
			found, err := Canonical(key, "settings.defaultLanguage.key")
			if err != nil {
				return nil, err
			}
			asked.DefaultLanguage.Key = found
		}
	}
	if settings.GetRestrictedLanguages() != nil {
		var restricted []string
		for i, one := range settings.GetRestrictedLanguages().GetLanguages() {
			key, err := Canonical(one.GetKey(), fmt.Sprintf("settings.restrictedLanguages.languages[%d].key", i))
			if err != nil {
				return nil, err
			}
			restricted = append(restricted, key)
		}
		slices.Sort(restricted)
		asked.RestrictedLanguages = &languagev3.Languages{Languages: list(slices.Compact(restricted))}
	}
	return asked, nil
}

// Canonical returns the language of a tag, if there are texts in it; field is where the
// request has it.
func Canonical(key, field string) (string, error) {
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

// agree refuses a default language that would not count, and a restriction after which
// the context's own would not. What is inherited gives way, and so does what is its own
// when a word is taken back.
func agree(asked *languagev3.SetLanguageSettings, own word, settings *languagev3.ResolvedLanguageSettings) error {
	said := asked.GetDefaultLanguage().GetKey() != "" || len(asked.GetRestrictedLanguages().GetLanguages()) > 0
	if key := own.Says.GetDefaultLanguage().GetKey(); said && key != "" && settings.GetDefaultLanguage().GetValue() != key {
		return fault.Invalid("DEFAULT_LANGUAGE_RESTRICTED", "settings.defaultLanguage",
			"the default language %q would not be among the restricted languages", key)
	}
	return nil
}
