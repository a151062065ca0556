package page

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"image"
	"slices"

	settingsv3 "github.com/writ-id/writ/gen/proto/writ/settings/v3alpha"
	"github.com/writ-id/writ/impl/api/branding"
	languages "github.com/writ-id/writ/impl/api/language"
	"github.com/writ-id/writ/impl/core/setting"
)

// scene is what the settings of an instance, or of the organization that a login is for,
// make of pages. It is read in one statement and remembered as everything else is.
type scene struct {
	languages []string // that pages are offered in, the default one first
	look      *branding.Look
	colors    template.CSS // nothing but colours; "" for those of style.css
	hash      string       // of colors, as a content security policy has it
}

// plain is the scene where nothing is known.
var plain = func() *scene {
	look, err := branding.LookOf(nil)
	if err != nil {
		panic(err) // a defect that the first start finds
	}
	return &scene{languages: []string{languages.Fallback}, look: look}
}()

// scene returns what pages of an instance, or of one of its organizations, look like;
// during an outage what was known last.
func (r *Renderer) scene(ctx context.Context, instanceID, orgID string) *scene {
	if instanceID == "" {
		return plain
	}
	key := instanceID + "\x00" + orgID
	found, err := r.scenes.GetOrLast(ctx, key, nil, func(ctx context.Context) (*scene, error) {
		said, err := setting.Read(ctx, r.db.Pool, instanceID, orgID, languages.Subject, branding.Subject)
		if err != nil {
			return nil, err
		}
		return sceneOf(said)
	})
	if err != nil || len(found.languages) == 0 {
		return plain
	}
	return found
}

func sceneOf(said setting.Said) (s *scene, err error) {
	s = &scene{}
	if s.languages, err = languages.Offered(said); err != nil {
		return nil, err
	}
	s.languages = slices.DeleteFunc(s.languages, func(key string) bool { return catalogues[key] == nil })
	if s.look, err = branding.LookOf(said); err != nil {
		return nil, err
	}
	if s.look.Colored {
		css := s.look.CSS()
		sum := sha256.Sum256([]byte(css))
		s.colors, s.hash = template.CSS(css), "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'" //nolint:gosec // colours that the contract has checked
	}
	return s, nil
}

// title returns the title of a window: what it shows, and where that is.
func (w Words) title(head string) string {
	if w.scene.look.HideProduct {
		return w.Get("title", head, w.host)
	}
	return w.Get("title", head, "Writ")
}

// brand is what a page shows of who it is of.
type brand struct {
	Colors           template.CSS
	Icon             string                  // "" for that of the product
	Logo, Dark       *settingsv3.StoredImage // Dark is nil where it is the same
	Size             image.Point
	Host             string // what the logo is called, which may be blocked
	Mark, MarkAtFoot bool   // whether the product is named, and where
	Links            []branding.Link
}

func (w Words) brand() brand {
	look := w.scene.look
	b := brand{
		Colors: w.scene.colors, Icon: look.Icon.GetUrl(), Logo: look.LogoLight, Size: branding.Shown(look.LogoLight), Host: w.host,
		Mark: look.LogoLight == nil && !look.HideProduct, MarkAtFoot: look.LogoLight != nil && !look.HideProduct, Links: look.Links(w.language),
	}
	if look.Swaps() {
		b.Dark = look.LogoDark
	}
	return b
}
