// Package message sends e-mails and text messages.
//
// A message is queued in the transaction of the change that causes it (Queue), so
// that there is no change without its message and no message without its change.
// A Worker of any node delivers it, at least once, through a Sender.
package message

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/writ-id/writ/gen/db"
	messagev3 "github.com/writ-id/writ/gen/proto/writ/message/v3alpha"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/setting"
)

// Kind is the way a message goes.
type Kind int16

// The kinds.
const (
	Email Kind = 1
	SMS   Kind = 2
)

// String returns the kind as the dev page spells it.
func (k Kind) String() string {
	if k == Email {
		return "EMAIL"
	}
	return "SMS"
}

// Message is a message to a user.
type Message struct {
	InstanceID, OrgID, UserID string
	Kind                      Kind
	Template                  string // a kind of message: kinds
	Recipient                 string // an e-mail address or a phone number
	Proven                    bool   // whether the user has proven that it is theirs
	Language                  string // what the user prefers; the settings decide where it is not offered
	Data                      Data
}

// Data is what a text can name.
type Data struct {
	Code    string
	Minutes int    // how long the code is good
	Domain  string // where it is good
	Name    string // of the user
	Link    string // to a page of ours; '' in texts without one

	Username string // a new one
}

// payload is the part of a message that may hold a code.
type payload struct {
	Subject string `json:"subject,omitempty"`
	Text    string `json:"text,omitempty"`
	HTML    string `json:"html,omitempty"` // of e-mails: the same words
	Code    string `json:"code,omitempty"`
}

// An address gets at most hourlyLimit messages an hour from all who name it, and as many as
// the user who has proven it; what is more is not sent, and its caller does not learn of it
// (SEC-185). So nobody uses up another one's.
const hourlyLimit = 50

// Queue queues a message within tx, in the words it will be sent with. It refuses a message
// with a code, which somebody waits for, when nobody would carry it on; a notice is left out.
// An address that is nobody's yet is that of whoever was named, so no text of who named it
// goes there.
func Queue(ctx context.Context, tx db.DBTX, env *resource.Env, m *Message) error {
	// Who carries messages on reads the codes in them. So those of who holds more than the
	// owner of their organization could give are in the hands of the instance (SEC-235).
	above, err := db.New().HoldsElsewhere(ctx, tx, db.HoldsElsewhereParams{InstanceID: m.InstanceID, UserID: m.UserID, OrgID: m.OrgID})
	if err != nil {
		return err
	}
	if above {
		m.OrgID = ""
	}
	if err := Carried(ctx, tx, env, m.Kind, m.InstanceID, m.OrgID); err != nil {
		if m.Data.Code == "" && errors.Is(err, missing(m.Kind)) {
			return nil
		}
		return err
	}
	counted := m.UserID
	if !m.Proven {
		counted, m.Data.Name = "", ""
	}
	said, err := setting.Read(ctx, tx, m.InstanceID, m.OrgID, subjects(m.Template)...)
	if err != nil {
		return err
	}
	language, words, err := render(m, said, env.OriginOf(m.Data.Domain))
	if err != nil {
		return err
	}
	body, err := json.Marshal(words)
	if err != nil {
		return err
	}
	now, q := env.Now(), db.New()
	recent, err := q.RecentMessagesTo(ctx, tx, db.RecentMessagesToParams{InstanceID: m.InstanceID, Recipient: m.Recipient, UserID: counted, Since: now.Add(-time.Hour)})
	if err != nil || recent >= hourlyLimit {
		return err
	}
	return q.QueueMessage(ctx, tx, db.QueueMessageParams{
		InstanceID: m.InstanceID, ID: env.NewID(), OrgID: m.OrgID, UserID: m.UserID, Kind: messagev3.MessageKind(m.Kind), Template: m.Template,
		Recipient: m.Recipient, Language: language, Payload: body, Now: now, ExpirationDate: m.expires(now),
	})
}

// Outgoing is a message as a Sender gets it.
type Outgoing struct {
	InstanceID, OrgID, ID string
	Kind                  Kind
	Recipient             string
	Subject, Text         string
	HTML                  string // the same words; '' for an SMS
}

// Sender delivers messages. It may be asked for the same one again, when a node
// died before it noted that it was sent. It returns the ID of the provider that it asked, and
// what went wrong as a *courier.Problem.
type Sender interface {
	Send(ctx context.Context, m *Outgoing) (provider string, err error)
}

func outgoing(row *db.Message) (*Outgoing, error) {
	var p payload
	if err := json.Unmarshal(row.Payload, &p); err != nil {
		return nil, fmt.Errorf("message %s: %w", row.ID, err)
	}
	return &Outgoing{InstanceID: row.InstanceID, OrgID: row.OrgID, ID: row.ID, Kind: Kind(row.Kind), Recipient: row.Recipient, Subject: p.Subject, Text: p.Text, HTML: p.HTML}, nil
}
