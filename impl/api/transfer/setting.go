package transfer

import (
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	languagev3 "github.com/writ-id/writ/gen/proto/writ/language/v3alpha"
	settingsv3 "github.com/writ-id/writ/gen/proto/writ/settings/v3alpha"
	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	"github.com/writ-id/writ/impl/api/appsetting"
	"github.com/writ-id/writ/impl/api/branding"
	"github.com/writ-id/writ/impl/api/language"
	"github.com/writ-id/writ/impl/api/lifetime"
	"github.com/writ-id/writ/impl/core/fault"
)

// setting holds what an organization says of a subject to the rules of the request that
// would have it say so; pictures are among the settingImages.
func (s *Service) setting(m *transferv1.TransferSetting) (reason string, err error) {
	properties := proto.CloneOf(m.GetProperties())
	var request, says proto.Message
	switch subject := m.GetSubject(); {
	case subject == branding.Subject:
		for _, name := range branding.Pictures {
			if stored := properties.GetFields()[name]; stored != nil {
				if err := branding.CheckStored(stored.GetStructValue().GetFields()["url"].GetStringValue()); err != nil {
					return "", fault.Invalid("INVALID_IMAGE", "properties."+name, "%v", err)
				}
				delete(properties.GetFields(), name)
			}
		}
		says = &settingsv3.SetBrandingSettings{}
		request = says
	case subject == language.Subject:
		says = &languagev3.SetLanguageSettings{}
		request = says
	case subject == lifetime.Subject:
		says = &settingsv3.SetLifetimeSettings{}
		request = says
	case subject == appsetting.Subject:
		says = &settingsv3.SetApplicationSettings{}
		request = says
	case strings.HasPrefix(subject, "message_texts/"):
		kind, tag, _ := strings.Cut(strings.TrimPrefix(subject, "message_texts/"), "/")
		of := &settingsv3.SetMessageTextRequest{Kind: kind, Language: tag, Settings: &settingsv3.SetMessageTextSettings{}}
		says, request = of.GetSettings(), of
	default:
		return "SUBJECT_UNKNOWN", nil
	}
	if err := read(properties, says); err != nil {
		return "", fault.Invalid("INVALID_FIELD", "properties", "%v", err)
	}
	return "", s.rules.Check(request)
}

func read(properties *structpb.Struct, into proto.Message) error {
	text, err := protojson.Marshal(properties)
	if err != nil {
		return err
	}
	return protojson.Unmarshal(text, into)
}

// picture refuses what is no picture that was drawn here or by another server like this
// (SEC-149).
func picture(m *transferv1.TransferSettingImage) error {
	if m.GetSubject() != branding.Subject {
		return fault.Invalid("INVALID_FIELD", "subject", "has no pictures")
	}
	if err := branding.CheckPicture(m.GetProperty(), m.GetDigest(), m.GetContent()); err != nil {
		return fault.Invalid("INVALID_IMAGE", "content", "%v", err)
	}
	return nil
}
