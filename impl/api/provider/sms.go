package provider

import (
	"context"
	"strconv"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	smsv3 "github.com/writ-id/writ/gen/proto/writ/sms/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/courier"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/store"
)

// SMS implements the SMS providers API. It is safe for concurrent use.
type SMS struct {
	smsv3.UnsafeServiceSMSProvidersServer // a new RPC must fail to compile here

	providers[db.SmsProvider, storage.SmsProviders]
}

var _ smsv3.ServiceSMSProvidersServer = (*SMS)(nil)

// NewSMS returns the service over c.
func NewSMS(c Config) *SMS {
	s := &SMS{}
	s.providers = providers[db.SmsProvider, storage.SmsProviders]{
		Config: c, name: "sms_providers",
		table: resource.NewReusable(c.Env, storage.SmsProviders{}, func(row *db.SmsProvider) *object.StatePolicy { return &row.StatePolicy },
			func(word object.StatePolicy) event.Payload {
				switch word {
				case object.StatePolicy_STATE_POLICY_ACTIVATE:
					return &eventv1.SMSProviderActivated{}
				case object.StatePolicy_STATE_POLICY_DEACTIVATE:
					return &eventv1.SMSProviderDeactivated{}
				}
				return &eventv1.SMSProviderInherited{}
			}).Alternatives(),
		common: func(row *db.SmsProvider) common {
			return common{
				InstanceID: row.InstanceID, ID: row.ID, Type: row.ProviderType, Endpoint: row.Endpoint, Policy: &row.StatePolicy,
				Key: &row.SigningKey, OldKey: &row.OldSigningKey, OldKeyUntil: &row.OldSigningKeyUntil,
			}
		},
		secrets: func(row *db.SmsProvider) []*sealed {
			return []*sealed{{"token", "provider.twilio.token", &row.Token, row.Sid}}
		},
		check: s.check,
	}
	return s
}

// check refuses what could not work.
func (s *SMS) check(_ context.Context, _ db.DBTX, row *db.SmsProvider) error {
	if row.ProviderType != typeHTTP && len(row.Token) == 0 {
		return fault.Invalid("TOKEN_REQUIRED", "provider.twilio.token", "an account with Twilio has a token")
	}
	return nil
}

// CreateSMSProvider makes a provider of the context.
func (s *SMS) CreateSMSProvider(ctx context.Context, req *smsv3.CreateSMSProviderRequest) (*smsv3.CreateSMSProviderResponse, error) {
	row := &db.SmsProvider{ID: s.NewID(), InstanceID: policy.CallFrom(ctx).Context.InstanceID, Token: []byte{}, SigningKey: []byte{}}
	storage.AssignSMSProvider(row, req.GetProvider())
	secrets := given{}
	if config := req.GetProvider().GetTwilio(); config != nil {
		secrets["token"] = config.Token
	}
	details, key, err := s.create(ctx, row, secrets, &eventv1.SMSProviderAdded{})
	return &smsv3.CreateSMSProviderResponse{Details: details, SigningKey: present(key)}, err
}

// PatchSMSProvider changes the fields that are present.
func (s *SMS) PatchSMSProvider(ctx context.Context, req *smsv3.PatchSMSProviderRequest) (*smsv3.PatchSMSProviderResponse, error) {
	secrets := given{}
	if config := req.GetProvider().GetTwilio(); config != nil {
		secrets["token"] = config.Token
	}
	details, err := s.patch(ctx, req.GetId(), req.GetProvider(), req.GetProvider().StatePolicy, secrets, &eventv1.SMSProviderChanged{},
		func(row *db.SmsProvider) { storage.AssignPatchSMSProvider(row, req.GetProvider()) })
	return &smsv3.PatchSMSProviderResponse{Details: details}, err
}

// GetSMSProvider reads a provider.
func (s *SMS) GetSMSProvider(ctx context.Context, req *smsv3.GetSMSProviderRequest) (*smsv3.GetSMSProviderResponse, error) {
	row, view, err := s.table.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return &smsv3.GetSMSProviderResponse{Provider: showSMS(row, view)}, nil
}

func showSMS(row *db.SmsProvider, view *resource.View) *smsv3.GetSMSProvider {
	got := storage.NewGetSMSProvider(row)
	got.Details, got.Parent, got.State, got.StatePolicy = view.Details, view.Parent, view.State, view.Policy
	return got
}

// DeleteSMSProvider deletes a provider where it is defined.
func (s *SMS) DeleteSMSProvider(ctx context.Context, req *smsv3.DeleteSMSProviderRequest) (*smsv3.DeleteSMSProviderResponse, error) {
	details, err := s.table.Delete(ctx, req.GetId(), &eventv1.SMSProviderRemoved{})
	return &smsv3.DeleteSMSProviderResponse{Details: details}, err
}

// SearchSMSProviders finds the providers that meet all filters.
func (s *SMS) SearchSMSProviders(ctx context.Context, req *smsv3.SearchSMSProvidersRequest) (*smsv3.SearchSMSProvidersResponse, error) {
	rows, details, err := storage.SearchSMSProviders(ctx, s.table.Table(), req, s.table.Filters(ctx))
	if err != nil {
		return nil, err
	}
	views, err := s.table.Views(ctx, rows)
	if err != nil {
		return nil, err
	}
	res := &smsv3.SearchSMSProvidersResponse{Details: details, SortingColumn: req.GetSortingColumn()}
	for i := range rows {
		res.Result = append(res.Result, showSMS(&rows[i], &views[i]))
	}
	return res, nil
}

// ActivateSMSProvider has a context send through a provider.
func (s *SMS) ActivateSMSProvider(ctx context.Context, req *smsv3.ActivateSMSProviderRequest) (*smsv3.ActivateSMSProviderResponse, error) {
	details, err := s.switchTo(ctx, req.GetId(), object.StatePolicy_STATE_POLICY_ACTIVATE)
	return &smsv3.ActivateSMSProviderResponse{Details: details}, err
}

// DeactivateSMSProvider has a context not send through it.
func (s *SMS) DeactivateSMSProvider(ctx context.Context, req *smsv3.DeactivateSMSProviderRequest) (*smsv3.DeactivateSMSProviderResponse, error) {
	details, err := s.switchTo(ctx, req.GetId(), object.StatePolicy_STATE_POLICY_DEACTIVATE)
	return &smsv3.DeactivateSMSProviderResponse{Details: details}, err
}

// TestSMSProvider sends a text message that says what it is.
func (s *SMS) TestSMSProvider(ctx context.Context, req *smsv3.TestSMSProviderRequest) (*smsv3.TestSMSProviderResponse, error) {
	t, err := s.test(ctx, req.GetId(), func(ctx context.Context, row *db.SmsProvider) error {
		return s.Send(ctx, row, &courier.SMS{ID: s.NewID(), To: req.GetTest().GetRecipient(), Text: "Test of " + row.Name})
	})
	if err != nil {
		return nil, err
	}
	return &smsv3.TestSMSProviderResponse{Taken: t.taken, Error: t.err, Status: t.status, Duration: t.took}, nil
}

// RotateSMSProviderSigningKey gives a provider another key.
func (s *SMS) RotateSMSProviderSigningKey(ctx context.Context, req *smsv3.RotateSMSProviderSigningKeyRequest) (*smsv3.RotateSMSProviderSigningKeyResponse, error) {
	details, key, err := s.rotate(ctx, req.GetId(), req.GetRotation().GetOverlap(), &eventv1.SMSProviderKeyRotated{})
	return &smsv3.RotateSMSProviderSigningKeyResponse{Details: details, SigningKey: key}, err
}

// Active returns the provider that a context sends through, nil when it has none. An empty
// orgID is the instance itself.
func (s *SMS) Active(ctx context.Context, conn db.DBTX, instanceID, orgID string) (*db.SmsProvider, error) {
	row, err := db.New().ActiveSMSProvider(ctx, conn, db.ActiveSMSProviderParams{InstanceID: instanceID, OrgID: orgID})
	if store.NoRow(err) {
		return nil, nil
	}
	return &row, err
}

// Send sends a text message through a provider. What goes wrong is a *courier.Problem.
func (s *SMS) Send(ctx context.Context, row *db.SmsProvider, m *courier.SMS) error {
	if row.ProviderType == typeHTTP {
		return s.call(ctx, row, m.ID, (&smsv3.TextMessage{Recipient: m.To, Text: m.Text}).AppendJSON(nil))
	}
	account := &courier.Twilio{
		Key: "sms/" + row.InstanceID + "/" + row.ID + "/" + strconv.FormatInt(row.Sequence, 10), AccountSID: row.Sid,
		From: resource.Text(row.SenderNumber), MessagingService: resource.Text(row.MessagingServiceSid),
	}
	var err error
	if account.Token, err = s.secret(row, "token"); err != nil {
		return err
	}
	return s.Courier.SMS(ctx, account, m)
}

// ErrNoSMS says that nobody would carry text messages on.
var ErrNoSMS = fault.New(fault.FailedPrecondition, "SMS_PROVIDER_MISSING", "there is no active SMS provider to send text messages with")
