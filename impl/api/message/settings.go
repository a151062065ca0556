package message

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	settingsv3 "github.com/writ-id/writ/gen/proto/writ/settings/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/api/branding"
	languages "github.com/writ-id/writ/impl/api/language"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/setting"
	"github.com/writ-id/writ/impl/core/store"
)

// Texts implements the API of message texts. It is safe for concurrent use.
type Texts struct {
	settingsv3.UnsafeServiceMessageTextSettingsServer

	resource.Env
}

var _ settingsv3.ServiceMessageTextSettingsServer = (*Texts)(nil)

// NewTexts returns Texts over env.
func NewTexts(env resource.Env) *Texts { return &Texts{Env: env} }

type word = setting.Word[*eventv1.MessageTextSet]

// ResolveMessageText reads the words as they apply in the context of the call.
func (t *Texts) ResolveMessageText(ctx context.Context, req *settingsv3.ResolveMessageTextRequest) (*settingsv3.ResolveMessageTextResponse, error) {
	in := policy.CallFrom(ctx).Context
	_, words, defaults, err := t.read(ctx, in, req.GetKind(), req.GetLanguage())
	if err != nil {
		return nil, err
	}
	return &settingsv3.ResolveMessageTextResponse{
		Details: setting.Details(words, in, t.Now()), Variables: slices.Sorted(slices.Values(kinds[req.GetKind()].variables)),
		Settings: storage.ResolveMessageTextSettings(words, defaults, in),
	}, nil
}

// read reads what is said of a kind of message in a language, and of the looks around it.
func (t *Texts) read(ctx context.Context, in policy.Context, name, tag string) (said setting.Said, words []word, defaults *eventv1.MessageTextSet, err error) {
	language, err := languages.Canonical(tag, "language")
	if err != nil {
		return nil, nil, nil, err
	}
	all, err := texts()
	if err != nil {
		return nil, nil, nil, err
	}
	subject := subjectOf(name, language)
	if said, err = setting.Read(ctx, t.DB.Conn(), in.InstanceID, in.OrgID, subject, branding.Subject); err != nil {
		return nil, nil, nil, err
	}
	words, err = setting.Words[*eventv1.MessageTextSet](said, subject)
	return said, words, all[language][name], err
}

// SetMessageText sets or takes back what is present.
func (t *Texts) SetMessageText(ctx context.Context, req *settingsv3.SetMessageTextRequest) (*settingsv3.SetMessageTextResponse, error) {
	language, err := languages.Canonical(req.GetLanguage(), "language")
	if err != nil {
		return nil, err
	}
	asked, err := checked(req.GetKind(), req.GetSettings())
	if err != nil {
		return nil, err
	}
	details, err := setting.Set(ctx, &t.Env, setting.Change[*eventv1.MessageTextSet]{
		Subject: subjectOf(req.GetKind(), language), Says: asked,
		Event: func(changed, _ *eventv1.MessageTextSet) event.Payload {
			changed.Kind, changed.Language = req.GetKind(), language
			return changed
		},
	})
	return &settingsv3.SetMessageTextResponse{Details: details}, err
}

// checked returns what a request says, if messages can be made of it.
func checked(name string, settings *settingsv3.SetMessageTextSettings) (*eventv1.MessageTextSet, error) {
	k, asked := kinds[name], storage.AskSetMessageTextSettings(settings)
	var refused error
	reflected := asked.ProtoReflect()
	reflected.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		field := "settings." + f.JSONName()
		text := strings.TrimSpace(strings.ReplaceAll(v.String(), "\r\n", "\n"))
		if refused = k.refuse(string(f.Name()), field, text); refused != nil {
			return false
		}
		reflected.Set(f, protoreflect.ValueOfString(text))
		return true
	})
	return asked, refused
}

// refuse refuses words for a property that no message of the kind can be made of.
func (k kind) refuse(property, field, text string) error {
	if text == "" {
		return nil
	}
	if k.sms && property != "text" {
		return fault.Invalid("MESSAGE_TEXT_NOT_IN_SMS", field, "a text message has nothing but a text")
	}
	if k.sms && len([]rune(text)) > maxSMS {
		return fault.Invalid("MESSAGE_TEXT_TOO_LONG", field, "a text message has %d characters at most", maxSMS)
	}
	named := map[string]bool{}
	for _, paragraph := range paragraphsOf(text) {
		parts, err := segments(paragraph)
		if err != nil {
			return fault.Invalid("MESSAGE_TEXT_BROKEN", field, "%v", err)
		}
		for _, one := range parts {
			if one.variable != "" && !k.knows(one.variable) {
				return fault.Invalid("MESSAGE_TEXT_VARIABLE_UNKNOWN", field, "there is no variable {{.%s}} here; there are %s", one.variable, strings.Join(k.variables, ", "))
			}
			named[one.variable] = true
		}
	}
	if property == "text" && k.needed != "" && !named[k.needed] {
		return fault.Invalid("MESSAGE_TEXT_INCOMPLETE", field, "the message is of no use without {{.%s}}", k.needed)
	}
	return nil
}

// maxSMS is what a text message may hold before its variables are filled in: a few of the
// parts that networks send.
const maxSMS = 600

// PreviewMessageText shows a message with sample data.
func (t *Texts) PreviewMessageText(ctx context.Context, req *settingsv3.PreviewMessageTextRequest) (*settingsv3.PreviewMessageTextResponse, error) {
	in := policy.CallFrom(ctx).Context
	asked, err := checked(req.GetKind(), req.GetSettings())
	if err != nil {
		return nil, err
	}
	said, words, defaults, err := t.read(ctx, in, req.GetKind(), req.GetLanguage())
	if err != nil {
		return nil, err
	}
	look, err := branding.LookOf(said)
	if err != nil {
		return nil, err
	}
	sample := &Data{Code: "12345678", Minutes: 10, Domain: "login.example.com", Name: "Ada Lovelace", Username: "ada@login.example.com"}
	if in.InstanceID != "" {
		host, err := db.New().PrimaryHost(ctx, t.DB.Conn(), in.InstanceID)
		if err != nil && !store.NoRow(err) {
			return nil, err
		}
		if err == nil {
			sample.Domain, sample.Username = host, "ada@"+host
		}
	}
	origin := t.OriginOf(sample.Domain)
	if sample.Link = origin; origin == "" {
		sample.Link = "https://" + sample.Domain
	}
	sample.Link += "/login"
	language, err := languages.Canonical(req.GetLanguage(), "language")
	if err != nil {
		return nil, err
	}
	p, err := compose(kinds[req.GetKind()], language, setting.Applies(setting.Would(words, in, asked), defaults), sample, look, origin)
	if err != nil {
		return nil, fmt.Errorf("preview of %s: %w", req.GetKind(), err)
	}
	return &settingsv3.PreviewMessageTextResponse{Subject: p.Subject, Text: p.Text, Html: p.HTML}, nil
}
