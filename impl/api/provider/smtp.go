package provider

import (
	"cmp"
	"context"
	"net"
	"net/mail"
	"strconv"
	"strings"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	smtpv3 "github.com/writ-id/writ/gen/proto/writ/smtp/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/courier"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/outgoing"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/store"
)

// SMTP implements the SMTP providers API. It is safe for concurrent use.
type SMTP struct {
	smtpv3.UnsafeServiceSMTPProvidersServer // a new RPC must fail to compile here

	providers[db.SmtpProvider, storage.SmtpProviders]
}

var _ smtpv3.ServiceSMTPProvidersServer = (*SMTP)(nil)

// NewSMTP returns the service over c.
func NewSMTP(c Config) *SMTP {
	s := &SMTP{}
	s.providers = providers[db.SmtpProvider, storage.SmtpProviders]{
		Config: c, name: "smtp_providers",
		table: resource.NewReusable(c.Env, storage.SmtpProviders{}, func(row *db.SmtpProvider) *object.StatePolicy { return &row.StatePolicy },
			func(word object.StatePolicy) event.Payload {
				switch word {
				case object.StatePolicy_STATE_POLICY_ACTIVATE:
					return &eventv1.SMTPProviderActivated{}
				case object.StatePolicy_STATE_POLICY_DEACTIVATE:
					return &eventv1.SMTPProviderDeactivated{}
				}
				return &eventv1.SMTPProviderInherited{}
			}).Alternatives(),
		common: func(row *db.SmtpProvider) common {
			return common{
				InstanceID: row.InstanceID, ID: row.ID, Type: row.ProviderType, Endpoint: row.Endpoint, Policy: &row.StatePolicy,
				Key: &row.SigningKey, OldKey: &row.OldSigningKey, OldKeyUntil: &row.OldSigningKeyUntil,
			}
		},
		secrets: func(row *db.SmtpProvider) []*sealed {
			return []*sealed{
				{"password", "provider.smtp.password", &row.Password, row.Host},
				{"client_secret", "provider.smtp.oauth.clientSecret", &row.ClientSecret, row.TokenEndpoint},
			}
		},
		check: s.check,
	}
	return s
}

// MayBeSender reports whether e-mails to users of an instance may be from the address of a
// provider.
func MayBeSender(ctx context.Context, conn db.DBTX, row *db.SmtpProvider, instanceID string) (bool, error) {
	return db.New().MayBeSender(ctx, conn, db.MayBeSenderParams{
		InstanceID: instanceID, OrgID: resource.Text(row.OrgID), Domain: row.SenderAddress[strings.LastIndexByte(row.SenderAddress, '@')+1:],
	})
}

// check refuses what could not work or would not be safe.
func (s *SMTP) check(ctx context.Context, conn db.DBTX, row *db.SmtpProvider) error {
	if may, err := MayBeSender(ctx, conn, row, row.InstanceID); err != nil || !may {
		return cmp.Or(err, error(errSenderDomain))
	}
	if row.ProviderType == typeHTTP {
		return nil
	}
	_, port, err := net.SplitHostPort(row.Host)
	if err == nil {
		err = outgoing.MailPort(port)
	}
	if err != nil {
		return fault.Invalid("INVALID_HOST", "provider.smtp.host", "the host is a name or an address and a port: of ports %v", err)
	}
	scram := row.Auth == smtpv3.AuthMechanism_AUTH_MECHANISM_SCRAM_SHA_1 || row.Auth == smtpv3.AuthMechanism_AUTH_MECHANISM_SCRAM_SHA_256
	switch {
	case row.Tls == smtpv3.TLSMode_TLS_MODE_NONE && row.Auth != smtpv3.AuthMechanism_AUTH_MECHANISM_UNSPECIFIED && !scram:
		return fault.Invalid("UNENCRYPTED_AUTH", "provider.smtp.auth", "without encryption only SCRAM keeps the password")
	case row.Auth == smtpv3.AuthMechanism_AUTH_MECHANISM_XOAUTH2 && row.Username == "":
		return fault.Invalid("USER_REQUIRED", "provider.smtp.user", "XOAUTH2 needs a user")
	case row.TokenEndpoint != "" && row.Auth != smtpv3.AuthMechanism_AUTH_MECHANISM_XOAUTH2:
		return fault.Invalid("UNUSED_OAUTH", "provider.smtp.oauth", "only XOAUTH2 takes tokens")
	}
	return nil
}

// CreateSMTPProvider makes a provider of the context.
func (s *SMTP) CreateSMTPProvider(ctx context.Context, req *smtpv3.CreateSMTPProviderRequest) (*smtpv3.CreateSMTPProviderResponse, error) {
	in := policy.CallFrom(ctx).Context
	row := &db.SmtpProvider{
		ID: s.NewID(), InstanceID: in.InstanceID, OrgID: present(in.OrgID), Scopes: []string{},
		Password: []byte{}, ClientSecret: []byte{}, SigningKey: []byte{},
	}
	storage.AssignSMTPProvider(row, req.GetProvider())
	secrets := given{}
	if config := req.GetProvider().GetSmtp(); config != nil {
		secrets["password"] = config.Password
		if oauth := config.GetOauth(); oauth != nil {
			secrets["client_secret"] = oauth.ClientSecret
		}
	}
	details, key, err := s.create(ctx, row, secrets, &eventv1.SMTPProviderAdded{})
	return &smtpv3.CreateSMTPProviderResponse{Details: details, SigningKey: present(key)}, err
}

// PatchSMTPProvider changes the fields that are present.
func (s *SMTP) PatchSMTPProvider(ctx context.Context, req *smtpv3.PatchSMTPProviderRequest) (*smtpv3.PatchSMTPProviderResponse, error) {
	secrets := given{}
	if config := req.GetProvider().GetSmtp(); config != nil {
		secrets["password"] = config.Password
		if oauth := config.GetOauth(); oauth != nil {
			secrets["client_secret"] = oauth.ClientSecret
		}
	}
	details, err := s.patch(ctx, req.GetId(), req.GetProvider(), req.GetProvider().StatePolicy, secrets, &eventv1.SMTPProviderChanged{},
		func(row *db.SmtpProvider) { storage.AssignPatchSMTPProvider(row, req.GetProvider()) })
	return &smtpv3.PatchSMTPProviderResponse{Details: details}, err
}

// GetSMTPProvider reads a provider.
func (s *SMTP) GetSMTPProvider(ctx context.Context, req *smtpv3.GetSMTPProviderRequest) (*smtpv3.GetSMTPProviderResponse, error) {
	row, view, err := s.table.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return &smtpv3.GetSMTPProviderResponse{Provider: showSMTP(row, view)}, nil
}

func showSMTP(row *db.SmtpProvider, view *resource.View) *smtpv3.GetSMTPProvider {
	got := storage.NewGetSMTPProvider(row)
	got.Details, got.Parent, got.State, got.StatePolicy = view.Details, view.Parent, view.State, view.Policy
	if config := got.GetProvider().GetSmtp(); config != nil && row.TokenEndpoint == "" {
		config.Oauth = nil
	}
	return got
}

// DeleteSMTPProvider deletes a provider where it is defined.
func (s *SMTP) DeleteSMTPProvider(ctx context.Context, req *smtpv3.DeleteSMTPProviderRequest) (*smtpv3.DeleteSMTPProviderResponse, error) {
	details, err := s.table.Delete(ctx, req.GetId(), &eventv1.SMTPProviderRemoved{})
	return &smtpv3.DeleteSMTPProviderResponse{Details: details}, err
}

// SearchSMTPProviders finds the providers that meet all filters.
func (s *SMTP) SearchSMTPProviders(ctx context.Context, req *smtpv3.SearchSMTPProvidersRequest) (*smtpv3.SearchSMTPProvidersResponse, error) {
	rows, details, err := storage.SearchSMTPProviders(ctx, s.table.Table(), req, s.table.Filters(ctx))
	if err != nil {
		return nil, err
	}
	views, err := s.table.Views(ctx, rows)
	if err != nil {
		return nil, err
	}
	res := &smtpv3.SearchSMTPProvidersResponse{Details: details, SortingColumn: req.GetSortingColumn()}
	for i := range rows {
		res.Result = append(res.Result, showSMTP(&rows[i], &views[i]))
	}
	return res, nil
}

// ActivateSMTPProvider has a context send through a provider.
func (s *SMTP) ActivateSMTPProvider(ctx context.Context, req *smtpv3.ActivateSMTPProviderRequest) (*smtpv3.ActivateSMTPProviderResponse, error) {
	details, err := s.switchTo(ctx, req.GetId(), object.StatePolicy_STATE_POLICY_ACTIVATE)
	return &smtpv3.ActivateSMTPProviderResponse{Details: details}, err
}

// DeactivateSMTPProvider has a context not send through it.
func (s *SMTP) DeactivateSMTPProvider(ctx context.Context, req *smtpv3.DeactivateSMTPProviderRequest) (*smtpv3.DeactivateSMTPProviderResponse, error) {
	details, err := s.switchTo(ctx, req.GetId(), object.StatePolicy_STATE_POLICY_DEACTIVATE)
	return &smtpv3.DeactivateSMTPProviderResponse{Details: details}, err
}

// TestSMTPProvider sends an e-mail that says what it is.
func (s *SMTP) TestSMTPProvider(ctx context.Context, req *smtpv3.TestSMTPProviderRequest) (*smtpv3.TestSMTPProviderResponse, error) {
	t, err := s.test(ctx, req.GetId(), func(ctx context.Context, row *db.SmtpProvider) error {
		return s.Send(ctx, row, &courier.Mail{
			ID: s.NewID(), To: req.GetTest().GetRecipient(), Subject: "Test of " + row.Name,
			Text: "This e-mail was sent to see whether the provider works. Nobody has to do anything.\n",
		})
	})
	if err != nil {
		return nil, err
	}
	return &smtpv3.TestSMTPProviderResponse{Taken: t.taken, Error: t.err, Status: t.status, Duration: t.took}, nil
}

// RotateSMTPProviderSigningKey gives a provider another key.
func (s *SMTP) RotateSMTPProviderSigningKey(ctx context.Context, req *smtpv3.RotateSMTPProviderSigningKeyRequest) (*smtpv3.RotateSMTPProviderSigningKeyResponse, error) {
	details, key, err := s.rotate(ctx, req.GetId(), req.GetRotation().GetOverlap(), &eventv1.SMTPProviderKeyRotated{})
	return &smtpv3.RotateSMTPProviderSigningKeyResponse{Details: details, SigningKey: key}, err
}

// Active returns the provider that a context sends through, nil when it has none. An empty
// orgID is the instance itself.
func (s *SMTP) Active(ctx context.Context, conn db.DBTX, instanceID, orgID string) (*db.SmtpProvider, error) {
	row, err := db.New().ActiveSMTPProvider(ctx, conn, db.ActiveSMTPProviderParams{InstanceID: instanceID, OrgID: orgID})
	if store.NoRow(err) {
		return nil, nil
	}
	return &row, err
}

var encryptions = map[smtpv3.TLSMode]courier.Encryption{
	smtpv3.TLSMode_TLS_MODE_IMPLICIT: courier.ImplicitTLS, smtpv3.TLSMode_TLS_MODE_NONE: courier.NoTLS,
}

var mechanisms = map[smtpv3.AuthMechanism]courier.Mechanism{
	smtpv3.AuthMechanism_AUTH_MECHANISM_PLAIN: courier.Plain, smtpv3.AuthMechanism_AUTH_MECHANISM_LOGIN: courier.LoginAuth,
	smtpv3.AuthMechanism_AUTH_MECHANISM_SCRAM_SHA_1: courier.ScramSHA1, smtpv3.AuthMechanism_AUTH_MECHANISM_SCRAM_SHA_256: courier.ScramSHA256,
	smtpv3.AuthMechanism_AUTH_MECHANISM_XOAUTH2: courier.XOAuth2,
}

// Send sends an e-mail through a provider. What goes wrong is a *courier.Problem.
func (s *SMTP) Send(ctx context.Context, row *db.SmtpProvider, m *courier.Mail) error {
	if row.ProviderType == typeHTTP {
		return s.call(ctx, row, m.ID, (&smtpv3.EMail{
			Recipient: m.To, SenderAddress: row.SenderAddress, SenderName: row.SenderName, ReplyToAddress: row.ReplyToAddress,
			Subject: m.Subject, Text: m.Text, Html: m.HTML,
		}).AppendJSON(nil))
	}
	to := &courier.MailServer{
		// Another sequence is another configuration.
		Key:     "smtp/" + row.InstanceID + "/" + row.ID + "/" + strconv.FormatInt(row.Sequence, 10),
		Address: row.Host, Encryption: encryptions[row.Tls],
		Sender: mail.Address{Name: row.SenderName, Address: row.SenderAddress}, ReplyTo: row.ReplyToAddress,
		Login: courier.Login{User: row.Username, Mechanism: mechanisms[row.Auth]},
	}
	var err error
	if to.Login.Password, err = s.secret(row, "password"); err != nil {
		return err
	}
	if row.TokenEndpoint != "" {
		source := &courier.TokenSource{Endpoint: row.TokenEndpoint, ClientID: row.ClientID, Scopes: row.Scopes}
		if source.Password, err = s.secret(row, "client_secret"); err != nil {
			return err
		}
		to.Login.Token = source
	}
	return s.Courier.Mail(ctx, to, m)
}

var errSenderDomain = fault.New(fault.FailedPrecondition, "SENDER_DOMAIN_UNVERIFIED", "the sender has to be at a verified domain of the instance or of the organization")

// ErrNoSMTP says that nobody would carry e-mails on.
var ErrNoSMTP = fault.New(fault.FailedPrecondition, "SMTP_PROVIDER_MISSING", "there is no active SMTP provider to send e-mails with")
