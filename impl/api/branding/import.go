package branding

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"image"
	"image/png"
	"regexp"
)

// Pictures are the properties that are pictures, as JSON has them.
var Pictures = []string{"logoLight", "logoDark", "icon"}

// rooms are those of the pictures, as they are stored.
var rooms = map[string]image.Point{"logo_light": logoRoom, "logo_dark": logoRoom, "icon": iconRoom}

// storedURL is where a picture of ours is; nothing else is shown on pages.
var storedURL = regexp.MustCompile(`^/assets/[A-Za-z0-9_-]{43}\.png$`)

var errForeign = errors.New("it is not a picture that a server like this has drawn")

// CheckStored refuses an address of a picture that is elsewhere.
func CheckStored(url string) error {
	if !storedURL.MatchString(url) {
		return errForeign
	}
	return nil
}

// CheckPicture refuses a picture that comes from elsewhere and was not drawn by the code that
// draws uploads here: its pixels, encoded again, are the picture.
func CheckPicture(property, digest string, content []byte) error {
	room, known := rooms[property]
	if !known {
		return errors.New("there is no such picture")
	}
	sum := sha256.Sum256(content)
	if base64.RawURLEncoding.EncodeToString(sum[:]) != digest {
		return errors.New("its digest is another")
	}
	config, err := png.DecodeConfig(bytes.NewReader(content))
	if err != nil || config.Width > room.X || config.Height > room.Y {
		return errForeign
	}
	decoded, err := png.Decode(bytes.NewReader(content))
	if err != nil {
		return errForeign
	}
	again, err := encode(decoded)
	if err != nil || !bytes.Equal(again, content) {
		return errForeign
	}
	return nil
}

func encode(picture image.Image) ([]byte, error) {
	var out bytes.Buffer
	err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, picture)
	return out.Bytes(), err
}
