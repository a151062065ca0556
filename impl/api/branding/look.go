package branding

import (
	"fmt"
	"image"
	"strings"

	"google.golang.org/protobuf/proto"

	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	settingsv3 "github.com/writ-id/writ/gen/proto/writ/settings/v3alpha"
	"github.com/writ-id/writ/impl/core/setting"
)

// Defaults are the properties that count while nobody says others: those of the product,
// which style.css of the login pages has too.
var Defaults = &eventv1.BrandingSet{
	PrimaryColorLight: new("#1d4d45"), BackgroundColorLight: new("#faf8f4"), FontColorLight: new("#1f1c18"), WarnColorLight: new("#a12b1c"),
	PrimaryColorDark: new("#8fc9bb"), BackgroundColorDark: new("#171614"), FontColorDark: new("#ece7de"), WarnColorDark: new("#f0907f"),
}

// Look is how pages and e-mails of a context look.
type Look struct {
	LogoLight, LogoDark, Icon *settingsv3.StoredImage // nil where there is none
	Light, Dark               Palette
	Colored                   bool // in other colours than the product's
	HideProduct               bool
	Terms, Privacy, Help      string // "" where there is none
}

// Palette are the colours of one scheme, by the names of style.css. All of them can be read
// on each other as they are used, whatever the properties are: a context may inherit other
// colours than those that its own were checked against.
type Palette struct {
	Paper, Ink, Soft, Line, Edge, Field, Accent, OnAccent, AccentHover, Wash, Wrong string
}

// LookOf returns the look that comes of what was said of the Subject.
func LookOf(said setting.Said) (*Look, error) {
	words, err := setting.Words[*eventv1.BrandingSet](said, Subject)
	if err != nil {
		return nil, err
	}
	b := setting.Applies(words, Defaults)
	look := &Look{
		LogoLight: b.GetLogoLight(), LogoDark: b.GetLogoDark(), Icon: b.GetIcon(), HideProduct: b.GetHideProductName().GetValue(),
		Light: palette(b.GetPrimaryColorLight(), b.GetBackgroundColorLight(), b.GetFontColorLight(), b.GetWarnColorLight()),
		Dark:  palette(b.GetPrimaryColorDark(), b.GetBackgroundColorDark(), b.GetFontColorDark(), b.GetWarnColorDark()),
		Terms: b.GetTermsLink(), Privacy: b.GetPrivacyLink(), Help: b.GetHelpLink(),
	}
	if look.LogoDark == nil {
		look.LogoDark = look.LogoLight
	}
	if look.LogoLight == nil {
		look.LogoLight = look.LogoDark
	}
	plain := &eventv1.BrandingSet{
		PrimaryColorLight: b.PrimaryColorLight, BackgroundColorLight: b.BackgroundColorLight, FontColorLight: b.FontColorLight, WarnColorLight: b.WarnColorLight,
		PrimaryColorDark: b.PrimaryColorDark, BackgroundColorDark: b.BackgroundColorDark, FontColorDark: b.FontColorDark, WarnColorDark: b.WarnColorDark,
	}
	look.Colored = !proto.Equal(plain, Defaults)
	return look, nil
}

// palette makes the colours of a scheme of the four that are set.
func palette(primary, background, font, warn string) Palette {
	paper := parse(background)
	ink := reads(parse(font), paper, ofText)
	accent := reads(parse(primary), paper, ofText)
	label := on(accent)
	hover := or(reads(mix(accent, ink, 0.8), paper, ofText), accent, label)
	wrong := parse(warn)
	lift := 0.04 // of fields over a dark paper
	if on(paper) == black {
		lift = 0.7
	}
	return Palette{
		Paper: paper.String(), Ink: ink.String(), Accent: accent.String(), OnAccent: label.String(), AccentHover: hover.String(),
		Soft: reads(mix(ink, paper, 0.7), paper, ofText).String(),
		Line: mix(ink, paper, 0.16).String(),
		Edge: reads(mix(ink, paper, 0.5), paper, ofControl).String(),
		// Fields and notices are what text and links stand on as well.
		Field: or(or(mix(white, paper, lift), paper, ink), paper, accent).String(),
		Wash:  or(or(mix(accent, paper, 0.08), paper, ink), paper, accent).String(),
		// Mistakes stand on the paper and on a wash of their own colour.
		Wrong: reads(reads(wrong, mix(wrong, paper, 0.08), ofText), paper, ofText).String(),
	}
}

// or returns a background if a text can be read on it, and otherwise another one.
func or(background, other, text color) color {
	if contrast(background, text) >= ofText {
		return background
	}
	return other
}

// CSS returns the colours as custom properties for a stylesheet; colours are all there is in
// it, so that nothing of a tenant is ever CSS.
func (l *Look) CSS() string {
	return ":root{" + l.Light.css() + "}@media (prefers-color-scheme:dark){:root{" + l.Dark.css() + "}}"
}

func (p *Palette) css() string {
	var b strings.Builder
	for _, one := range []struct{ name, value string }{
		{"paper", p.Paper}, {"ink", p.Ink}, {"soft", p.Soft}, {"line", p.Line}, {"edge", p.Edge}, {"field", p.Field}, {"accent", p.Accent},
		{"on-accent", p.OnAccent}, {"accent-hover", p.AccentHover}, {"wash", p.Wash}, {"wrong", p.Wrong},
	} {
		fmt.Fprintf(&b, "--%s:%s;", one.name, one.value)
	}
	return b.String()
}

// Link is a link to a page of the tenant.
type Link struct{ Text, Href string }

// labels are the words of the links, by language.
var labels = map[string][3]string{
	"de": {"Nutzungsbedingungen", "Datenschutz", "Hilfe"},
	"en": {"Terms", "Privacy", "Help"},
}

// Links returns the links that are set, in a language.
func (l *Look) Links(language string) (links []Link) {
	for i, href := range []string{l.Terms, l.Privacy, l.Help} {
		if href != "" {
			links = append(links, Link{labels[language][i], href})
		}
	}
	return links
}

// Swaps reports whether dark backgrounds have a logo of their own.
func (l *Look) Swaps() bool { return l.LogoLight.GetUrl() != l.LogoDark.GetUrl() }

// Shown returns the size that a picture is shown in, in points.
func Shown(picture *settingsv3.StoredImage) image.Point {
	return fit(image.Pt(int(picture.GetWidth()), int(picture.GetHeight())), image.Pt(logoRoom.X/3, logoRoom.Y/3))
}
