package branding

import (
	"fmt"
	"math"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"

	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	"github.com/writ-id/writ/impl/core/fault"
)

// The contrast that WCAG 2.2 asks for (AA): of text, of the edges of controls.
const (
	ofText    = 4.5
	ofControl = 3.0
)

// color is a colour of the sRGB space.
type color [3]uint8

// parse reads #rrggbb, which the contract has checked; anything else is black.
func parse(text string) (c color) {
	if len(text) != 7 {
		return c
	}
	for i := range c {
		n, _ := strconv.ParseUint(text[1+2*i:3+2*i], 16, 8)
		c[i] = uint8(n)
	}
	return c
}

// String returns the colour as CSS has it.
func (c color) String() string { return fmt.Sprintf("#%02x%02x%02x", c[0], c[1], c[2]) }

// luminance is the relative luminance of WCAG 2.2.
func (c color) luminance() float64 {
	var linear [3]float64
	for i, part := range c {
		v := float64(part) / 255
		if v <= 0.04045 {
			linear[i] = v / 12.92
		} else {
			linear[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	return 0.2126*linear[0] + 0.7152*linear[1] + 0.0722*linear[2]
}

// contrast returns the contrast ratio of two colours, between 1 and 21.
func contrast(a, b color) float64 {
	la, lb := a.luminance(), b.luminance()
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

// mix returns so much of a colour in another one.
func mix(c, into color, share float64) (mixed color) {
	for i := range mixed {
		mixed[i] = uint8(math.Round(float64(c[i])*share + float64(into[i])*(1-share)))
	}
	return mixed
}

var white, black = color{255, 255, 255}, color{}

// on returns what can be read on a colour: white or black, one of which always can.
func on(c color) color {
	if contrast(white, c) >= contrast(black, c) {
		return white
	}
	return black
}

// reads returns a colour that has a contrast on a background: c, or, where that has not, as
// little of what can always be read there as is needed.
func reads(c, background color, ratio float64) color {
	for share := 1.0; share > 0; share -= 0.04 {
		if mixed := mix(c, on(background), share); contrast(mixed, background) >= ratio {
			return mixed
		}
	}
	return on(background)
}

// legible refuses colours that could not be read on the background that would apply, as far
// as a request has a say in it. Primary and warning colours are those of text too, links and
// mistakes, so that text's contrast counts for all of them.
func legible(asked, applies *eventv1.BrandingSet) error {
	fields := applies.ProtoReflect().Descriptor().Fields()
	for _, scheme := range []string{"light", "dark"} {
		background := fields.ByName(protoreflect.Name("background_color_" + scheme))
		behind := applies.ProtoReflect().Get(background).String()
		for _, name := range []string{"font", "primary", "warn"} {
			front := fields.ByName(protoreflect.Name(name + "_color_" + scheme))
			blamed := front
			switch reflected := asked.ProtoReflect(); {
			case reflected.Has(front):
			case reflected.Has(background):
				blamed = background
			default:
				continue
			}
			text := applies.ProtoReflect().Get(front).String()
			if ratio := contrast(parse(text), parse(behind)); ratio < ofText {
				return fault.New(fault.FailedPrecondition, "CONTRAST_TOO_LOW", "%s: %s on %s has a contrast of %.2f:1, text needs %.1f:1",
					front.JSONName(), text, behind, math.Floor(ratio*100)/100, ofText).On("settings." + blamed.JSONName())
			}
		}
	}
	return nil
}
