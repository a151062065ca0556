package branding

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/image/draw"
	"golang.org/x/image/webp"

	"github.com/writ-id/writ/gen/db"
	settingsv3 "github.com/writ-id/writ/gen/proto/writ/settings/v3alpha"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/store"
)

// What an upload may come to: pixels are what decoding costs, whatever the file's length.
const (
	maxSide   = 4096
	maxPixels = 4 << 20
	// maxScans is how often a JPEG may go over its pixels, which takes a few bytes a time: encoders
	// of progressive ones do ten times.
	maxScans = 32
)

// startOfScan is how a scan of a JPEG begins. In what a scan holds it cannot be; in a comment
// or a preview it may, and counts.
var startOfScan = []byte{0xff, 0xda}

// The room that pages and mails have for pictures, at three pixels a point.
var (
	logoRoom = image.Pt(600, 168)
	iconRoom = image.Pt(192, 192)
)

const jpegType = "image/jpeg"

// decoders read the types of files that an upload may have, by what is in it: nothing else
// of a request says (SEC-149). Vector graphics are none: they can hold scripts.
var decoders = map[string]struct {
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
}{
	"image/png":  {png.DecodeConfig, png.Decode},
	jpegType:     {jpeg.DecodeConfig, jpeg.Decode},
	"image/webp": {webp.DecodeConfig, webp.Decode},
}

// picture is a picture as it is stored and served: always PNG, drawn by ourselves.
type picture struct {
	digest  string
	content []byte
	stored  *settingsv3.StoredImage
}

// redraw returns the picture of an upload, scaled down into a room. Whatever else the file
// had in it is gone.
func redraw(upload []byte, room image.Point, field string) (*picture, error) {
	kind := http.DetectContentType(upload)
	decoder, ok := decoders[kind]
	if !ok {
		return nil, fault.Invalid("IMAGE_TYPE_NOT_SUPPORTED", field, "the file is neither PNG nor JPEG nor WebP")
	}
	if n := bytes.Count(upload, startOfScan); kind == jpegType && n > maxScans {
		return nil, fault.Invalid("IMAGE_TOO_LARGE", field, "the picture has %d scans; %d are the most: save it as a baseline JPEG", n, maxScans)
	}
	config, err := decoder.config(bytes.NewReader(upload))
	if err == nil && (config.Width > maxSide || config.Height > maxSide || config.Width*config.Height > maxPixels) {
		return nil, fault.Invalid("IMAGE_TOO_LARGE", field, "the picture has %d × %d pixels; %d on a side and %d in all are the most", config.Width, config.Height, maxSide, maxPixels)
	}
	var decoded image.Image
	if err == nil {
		decoded, err = decoder.decode(bytes.NewReader(upload))
	}
	if err == nil && (decoded.Bounds().Empty() || config.Width == 0 || config.Height == 0) {
		err = errors.New("it is empty")
	}
	if err != nil {
		return nil, fault.Invalid("IMAGE_BROKEN", field, "the picture cannot be read")
	}
	size := fit(decoded.Bounds().Size(), room)
	drawn := image.NewNRGBA(image.Rectangle{Max: size})
	draw.CatmullRom.Scale(drawn, drawn.Bounds(), decoded, decoded.Bounds(), draw.Src, nil)
	content, err := encode(drawn)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	digest := base64.RawURLEncoding.EncodeToString(sum[:])
	return &picture{digest, content, &settingsv3.StoredImage{
		Url: pathAssets + digest + assetType, Width: uint32(size.X), Height: uint32(size.Y),
	}}, nil
}

// fit returns a size scaled down into a room, in proportion.
func fit(size, room image.Point) image.Point {
	if size.X > room.X {
		size = image.Pt(room.X, max(1, size.Y*room.X/size.X))
	}
	if size.Y > room.Y {
		size = image.Pt(max(1, size.X*room.Y/size.Y), room.Y)
	}
	return size
}

// Where pictures are served.
const (
	pathAssets = "/assets/"
	assetType  = ".png"
)

// Assets serves the pictures of an instance, to anybody: they stand on its login pages. They
// have one type, set no cookie and look at none, and open as a file, never as a page.
func Assets(db *store.DB, instance func(*http.Request) (*policy.Instance, error), fail func(http.ResponseWriter, *http.Request, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			fail(w, r, fault.New(fault.MethodNotAllowed, "METHOD_NOT_ALLOWED", "%s is not allowed here", r.Method))
			return
		}
		policy.RequestFrom(r.Context()).Route = pathAssets + "{digest}"
		content, err := asset(db, instance, r)
		if err != nil {
			fail(w, r, err)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "image/png")
		h.Set("Content-Length", strconv.Itoa(len(content)))
		h.Set("Content-Disposition", `attachment; filename="image.png"`)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
		h.Set("Cross-Origin-Resource-Policy", "cross-origin") // mail programs on the web show them
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		_, _ = w.Write(content) // a client that is gone cannot be told
	})
}

func asset(s *store.DB, instance func(*http.Request) (*policy.Instance, error), r *http.Request) ([]byte, error) {
	digest, ok := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, pathAssets), assetType)
	if raw, err := base64.RawURLEncoding.Strict().DecodeString(digest); !ok || err != nil || len(raw) != sha256.Size {
		return nil, notThere()
	}
	at, err := instance(r)
	if err != nil {
		return nil, err
	}
	content, err := db.New().SettingImage(r.Context(), s.Pool, db.SettingImageParams{Digest: digest, InstanceID: at.ID})
	if store.NoRow(err) {
		return nil, notThere()
	}
	return content, err
}

func notThere() error { return fault.New(fault.NotFound, "NOT_FOUND", "there is no such picture") }
