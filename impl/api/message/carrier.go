package message

import (
	"context"
	"time"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/api/provider"
	"github.com/writ-id/writ/impl/core/courier"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/store"
)

// Carrier is the Sender of servers: it hands a message to the provider that the user's
// organization uses when it is sent.
type Carrier struct {
	DB   *store.DB
	SMTP *provider.SMTP
	SMS  *provider.SMS
	// Inbox is set where messages are read without one (resource.Env).
	Inbox bool
}

// Send implements Sender.
func (c *Carrier) Send(ctx context.Context, m *Outgoing) (string, error) {
	if m.Kind == Email {
		row, err := c.SMTP.Active(ctx, c.DB.Pool, m.InstanceID, m.OrgID)
		if err != nil || row == nil {
			return "", c.without(err)
		}
		if may, err := provider.MayBeSender(ctx, c.DB.Pool, row, m.InstanceID); err != nil {
			return row.ID, err
		} else if !may {
			return row.ID, &courier.Problem{What: "the sender is not at a verified domain"}
		}
		return row.ID, c.SMTP.Send(ctx, row, &courier.Mail{ID: m.ID, To: m.Recipient, Subject: m.Subject, Text: m.Text, HTML: m.HTML})
	}
	row, err := c.SMS.Active(ctx, c.DB.Pool, m.InstanceID, m.OrgID)
	if err != nil || row == nil {
		return "", c.without(err)
	}
	return row.ID, c.SMS.Send(ctx, row, &courier.SMS{ID: m.ID, To: m.Recipient, Text: m.Text})
}

func (c *Carrier) without(err error) error {
	if err != nil || c.Inbox {
		return err
	}
	return &courier.Problem{What: "no provider is active"}
}

// CanSend refuses what nobody would carry on: provider.ErrNoSMTP, provider.ErrNoSMS. Without an
// organization it refuses when nobody would for any user of the instance: then it can be
// asked before it is known who that is (SEC-170).
func CanSend(ctx context.Context, conn db.DBTX, env *resource.Env, kind Kind, instanceID, orgID string) error {
	if orgID != "" || env.Inbox {
		return Carried(ctx, conn, env, kind, instanceID, orgID)
	}
	q, can := db.New(), db.New().CanMail
	if kind == SMS {
		can = q.CanText
	}
	if yes, err := can(ctx, conn, instanceID); err != nil || yes {
		return err
	}
	return missing(kind)
}

// Carried refuses what nobody would carry on for users of an organization; of the instance
// itself, when none is named.
func Carried(ctx context.Context, conn db.DBTX, env *resource.Env, kind Kind, instanceID, orgID string) error {
	if env.Inbox {
		return nil
	}
	var err error
	if kind == Email {
		_, err = db.New().ActiveSMTPProvider(ctx, conn, db.ActiveSMTPProviderParams{InstanceID: instanceID, OrgID: orgID})
	} else {
		_, err = db.New().ActiveSMSProvider(ctx, conn, db.ActiveSMSProviderParams{InstanceID: instanceID, OrgID: orgID})
	}
	if store.NoRow(err) {
		return missing(kind)
	}
	return err
}

// missing says that nobody would carry a message on.
func missing(kind Kind) *fault.Error {
	if kind == Email {
		return provider.ErrNoSMTP
	}
	return provider.ErrNoSMS
}

// expires returns when a message is of no use any more: with its code, unless it has a link,
// which is good for longer.
func (m *Message) expires(now time.Time) *time.Time {
	if m.Data.Code == "" || m.Data.Link != "" || m.Data.Minutes == 0 {
		return nil
	}
	end := now.Add(time.Duration(m.Data.Minutes) * time.Minute)
	return &end
}
