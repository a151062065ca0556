package foreign

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	settingsv3 "github.com/writ-id/writ/gen/proto/writ/settings/v3alpha"
	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
)

// setting hands on what an organization says about a subject.
func (r *reading) setting(orgID, subject string, says proto.Message) {
	id := orgID + "/" + subject
	if !r.mend("settings", id, says) {
		return
	}
	text, err := protojson.Marshal(says)
	properties := &structpb.Struct{}
	if err == nil {
		err = protojson.Unmarshal(text, properties)
	}
	if err != nil {
		r.Lost("settings", id, err.Error())
	} else if len(properties.Fields) > 0 {
		r.put("settings", id, &transferv1.TransferSetting{OrgId: orgID, Subject: subject, Properties: properties})
	}
}

// look is how the pages of an organization look, of which two of their policies speak.
func (z *zitadel) look() *settingsv3.SetBrandingSettings {
	if z.org.look == nil {
		z.org.look = &settingsv3.SetBrandingSettings{}
	}
	return z.org.look
}

func (z *zitadel) labelPolicy(o *jsonObject) {
	look := z.look()
	for name, property := range map[string]**string{
		"primaryColor": &look.PrimaryColorLight, "backgroundColor": &look.BackgroundColorLight,
		"fontColor": &look.FontColorLight, "warnColor": &look.WarnColorLight,
		"primaryColorDark": &look.PrimaryColorDark, "backgroundColorDark": &look.BackgroundColorDark,
		"fontColorDark": &look.FontColorDark, "warnColorDark": &look.WarnColorDark,
	} {
		if colour := o.text(name); colour != "" {
			*property = &colour
		}
	}
	if hide := o.flag("disableWatermark"); hide {
		look.HideProductName = &settingsv3.BoolSetting{Value: &hide}
	}
	if o.flag("hideLoginNameSuffix") {
		z.Lost("labelPolicy", z.org.id, "without hideLoginNameSuffix: login names are shown as they are")
	}
	if mode := o.text("themeMode"); mode != "" && mode != "THEME_MODE_UNSPECIFIED" && mode != "THEME_MODE_AUTO" {
		z.Lost("labelPolicy", z.org.id, "without themeMode: the browser says whether pages are light or dark")
	}
}

func (z *zitadel) privacyPolicy(o *jsonObject) {
	look := z.look()
	for name, property := range map[string]**string{"tosLink": &look.TermsLink, "privacyLink": &look.PrivacyLink, "helpLink": &look.HelpLink} {
		if link := o.text(name); link != "" {
			*property = &link
		}
	}
}

// The variables of messages: theirs that ours have under another name, and what a text of ours
// has to name, or the message would be of no use.
var (
	zitadelVariable  = regexp.MustCompile(`\{\{-?\s*([^{}]*?)\s*-?\}\}`)
	zitadelVariables = map[string]string{".Code": "Code", ".OTP": "Code", ".Domain": "Domain", ".DisplayName": "Name", ".FirstName": "Name", ".Username": "Username", ".UserName": "Username"}
	neededVariables  = map[string]string{"domain_claimed": "Username", "password_changed": ""}
)

// message reads the words of a message in a language.
func message(kind string) func(*zitadel, *jsonObject) {
	needed, said := neededVariables[kind]
	if !said {
		needed = "Code"
	}
	sms := slices.Contains([]string{"verify_phone", "otp_sms"}, kind)
	return func(z *zitadel, o *jsonObject) {
		language := strings.ToLower(strings.SplitN(o.needed("language"), "-", 2)[0])
		id := z.org.id + "/message_texts/" + kind + "/" + language
		words := &settingsv3.SetMessageTextSettings{}
		for _, property := range []struct {
			name string
			to   **string
		}{
			{"subject", &words.Subject}, {"preHeader", &words.Preheader}, {"title", &words.Title}, {"greeting", &words.Greeting},
			{"text", &words.Text}, {"buttonText", &words.ButtonText}, {"footerText", &words.Footer},
		} {
			text := o.text(property.name)
			if text == "" {
				continue
			}
			if sms && property.name != "text" {
				z.Lost("settings", id, "without "+property.name+": text messages have nothing but a text")
				continue
			}
			text, unknown := translate(text, needed)
			switch {
			case unknown != "":
				z.Lost("settings", id, fmt.Sprintf("without %s: there is no {{%s}}", property.name, unknown))
			case property.name == "text" && needed != "" && !strings.Contains(text, "{{."+needed+"}}"):
				z.Lost("settings", id, fmt.Sprintf("without text: ours has to name {{.%s}}", needed))
			default:
				*property.to = &text
			}
		}
		if language != "de" && language != "en" {
			z.Lost("settings", id, "there is no such language")
			return
		}
		z.setting(z.org.id, strings.TrimPrefix(id, z.org.id+"/"), words)
	}
}

// translate names the variables of a text as ours do; unknown is one that there is not.
func translate(text, needed string) (translated, unknown string) {
	translated = zitadelVariable.ReplaceAllStringFunc(text, func(found string) string {
		said := zitadelVariable.FindStringSubmatch(found)[1]
		name := zitadelVariables[said]
		if name == "" || (name == "Code" || name == "Username") && name != needed {
			unknown = said
		}
		return "{{." + name + "}}"
	})
	if unknown == "" && strings.Count(translated, "{{") != len(zitadelVariable.FindAllString(translated, -1)) {
		unknown = "…"
	}
	return translated, unknown
}
