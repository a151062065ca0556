// Package appsetting holds what applications may get from those who sign in to them, as the
// system, instances and organizations set it.
package appsetting

import (
	"context"
	"slices"

	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	settingsv3 "github.com/writ-id/writ/gen/proto/writ/settings/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/setting"
)

// Service implements the application settings API. It is safe for concurrent use.
type Service struct {
	settingsv3.UnsafeServiceApplicationSettingsServer

	resource.Env
}

var _ settingsv3.ServiceApplicationSettingsServer = (*Service)(nil)

// New returns a Service over env.
func New(env resource.Env) *Service { return &Service{Env: env} }

// Subject is what these settings are called where they are stored, which AppConsent reads.
const Subject = "applications"

// word is what a context says.
type word = eventv1.ApplicationSettingsSet

var defaults = &word{RolesNeedTrust: &settingsv3.BoolSetting{Value: new(bool)}}

// ResolveApplicationSettings reads the settings as they apply in the context of the call.
func (s *Service) ResolveApplicationSettings(ctx context.Context, _ *settingsv3.ResolveApplicationSettingsRequest) (*settingsv3.ResolveApplicationSettingsResponse, error) {
	in := policy.CallFrom(ctx).Context
	said, err := setting.Read(ctx, s.DB.Conn(), in.InstanceID, in.OrgID, Subject)
	if err != nil {
		return nil, err
	}
	words, err := setting.Words[*word](said, Subject)
	if err != nil {
		return nil, err
	}
	for i := range words {
		if loosens(words[i:]) { // said before what is above
			words[i].Says.RolesNeedTrust = nil
		}
	}
	return &settingsv3.ResolveApplicationSettingsResponse{
		Details: setting.Details(words, in, s.Now()), Settings: storage.ResolveApplicationSettings(words, defaults, in),
	}, nil
}

// SetApplicationSettings sets or takes back what is present.
func (s *Service) SetApplicationSettings(ctx context.Context, req *settingsv3.SetApplicationSettingsRequest) (*settingsv3.SetApplicationSettingsResponse, error) {
	details, err := setting.Set(ctx, &s.Env, setting.Change[*word]{
		Subject: Subject, Says: storage.AskSetApplicationSettings(req.GetSettings()),
		Agree: func(words []setting.Word[*word]) error {
			if loosens(words) {
				return fault.Invalid("SETTING_LOOSENED", "settings.rolesNeedTrust.value", "must be true, as above")
			}
			return nil
		},
		Event: func(changed, _ *word) event.Payload { return changed },
	})
	return &settingsv3.SetApplicationSettingsResponse{Details: details}, err
}

// loosens reports whether the nearest of some words leaves roles to applications that one above
// takes them from.
func loosens(words []setting.Word[*word]) bool {
	own := words[0].Says.GetRolesNeedTrust()
	return own != nil && own.Value != nil && !own.GetValue() && slices.ContainsFunc(words[1:], func(above setting.Word[*word]) bool {
		return above.Says.GetRolesNeedTrust().GetValue()
	})
}
