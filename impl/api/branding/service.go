// Package branding holds the looks of login pages and e-mails: what the system, instances
// and organizations say about them (contracts/proto/writ/settings), the colours and pictures
// that come of it, and the pictures served.
package branding

import (
	"context"
	"image"
	"runtime"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	settingsv3 "github.com/writ-id/writ/gen/proto/writ/settings/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/admission"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/setting"
)

// Subject is what these settings are called where settings are stored.
const Subject = "branding"

// Service implements the branding settings API. It is safe for concurrent use.
type Service struct {
	settingsv3.UnsafeServiceBrandingSettingsServer

	resource.Env
	queries *db.Queries
	// drawing has the places of uploads that are decoded, which tenants share by turns: as many
	// as half of the cores, one at least. A picture takes moments, so one is enough for all.
	drawing *admission.Gate
}

var _ settingsv3.ServiceBrandingSettingsServer = (*Service)(nil)

// New returns a Service over env.
func New(env resource.Env) *Service {
	places := max(runtime.GOMAXPROCS(0)/2, 1)
	return &Service{Env: env, queries: db.New(), drawing: admission.NewShares(places, max(places-places/4, 1), 4)}
}

// ResolveBranding reads the properties as they apply in the context of the call.
func (s *Service) ResolveBranding(ctx context.Context, _ *settingsv3.ResolveBrandingRequest) (*settingsv3.ResolveBrandingResponse, error) {
	in := policy.CallFrom(ctx).Context
	said, err := setting.Read(ctx, s.DB.Conn(), in.InstanceID, in.OrgID, Subject)
	if err != nil {
		return nil, err
	}
	words, err := setting.Words[*eventv1.BrandingSet](said, Subject)
	if err != nil {
		return nil, err
	}
	return &settingsv3.ResolveBrandingResponse{
		Details: setting.Details(words, in, s.Now()), Settings: storage.ResolveBrandingSettings(words, Defaults, in),
	}, nil
}

// SetBranding sets or takes back what is present.
func (s *Service) SetBranding(ctx context.Context, req *settingsv3.SetBrandingRequest) (*settingsv3.SetBrandingResponse, error) {
	in, asked := policy.CallFrom(ctx).Context, storage.AskSetBrandingSettings(req.GetSettings())
	drawn, err := s.pictures(ctx, in.InstanceID, req.GetSettings(), asked)
	if err != nil {
		return nil, err
	}
	details, err := setting.Set(ctx, &s.Env, setting.Change[*eventv1.BrandingSet]{
		Subject: Subject, Says: asked,
		Agree: func(words []setting.Word[*eventv1.BrandingSet]) error {
			return legible(asked, setting.Applies(words, Defaults))
		},
		Event: func(changed, _ *eventv1.BrandingSet) event.Payload { return changed },
		Beside: func(ctx context.Context, tx pgx.Tx, changed *eventv1.BrandingSet) error {
			return s.keep(ctx, tx, in, drawn, changed)
		},
	})
	return &settingsv3.SetBrandingResponse{Details: details}, err
}

// pictures draws the uploads of a request and has asked name them.
func (s *Service) pictures(ctx context.Context, instanceID string, settings *settingsv3.SetBrandingSettings, asked *eventv1.BrandingSet) (map[protoreflect.Name]*picture, error) {
	drawn := map[protoreflect.Name]*picture{}
	for _, one := range []struct {
		name   protoreflect.Name
		upload *settingsv3.Image
		room   image.Point
		field  string
	}{
		{"logo_light", settings.GetLogoLight(), logoRoom, "settings.logoLight.content"},
		{"logo_dark", settings.GetLogoDark(), logoRoom, "settings.logoDark.content"},
		{"icon", settings.GetIcon(), iconRoom, "settings.icon.content"},
	} {
		if one.upload == nil {
			continue
		}
		stored := &settingsv3.StoredImage{} // takes it back
		if len(one.upload.GetContent()) > 0 {
			picture, err := s.draw(ctx, instanceID, one.upload, one.room, one.field)
			if err != nil {
				return nil, err
			}
			drawn[one.name], stored = picture, picture.stored
		}
		reflected := asked.ProtoReflect()
		reflected.Set(reflected.Descriptor().Fields().ByName(one.name), protoreflect.ValueOfMessage(stored.ProtoReflect()))
	}
	return drawn, nil
}

// draw draws an upload in one of the places of the node.
func (s *Service) draw(ctx context.Context, instanceID string, upload *settingsv3.Image, room image.Point, field string) (*picture, error) {
	if err := s.drawing.Enter(ctx, instanceID); err != nil {
		return nil, err
	}
	defer s.drawing.Leave(instanceID)
	return redraw(upload.GetContent(), room, field)
}

// keep stores the pictures that changed, and forgets those that were taken back.
func (s *Service) keep(ctx context.Context, tx pgx.Tx, in policy.Context, drawn map[protoreflect.Name]*picture, changed *eventv1.BrandingSet) error {
	for _, name := range []protoreflect.Name{"logo_light", "logo_dark", "icon"} {
		var err error
		switch picture := drawn[name]; {
		case !changed.ProtoReflect().Has(changed.ProtoReflect().Descriptor().Fields().ByName(name)):
		case picture != nil:
			err = s.queries.PutSettingImage(ctx, tx, db.PutSettingImageParams{
				InstanceID: in.InstanceID, OrgID: in.OrgID, Subject: Subject, Property: string(name), Digest: picture.digest, Content: picture.content,
			})
		default:
			err = s.queries.DeleteSettingImage(ctx, tx, db.DeleteSettingImageParams{
				InstanceID: in.InstanceID, OrgID: in.OrgID, Subject: Subject, Property: string(name),
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
