package message

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/store"
)

// newestLimit is how many messages the dev page shows.
const newestLimit = 100

// shown is a message as the dev page shows it.
type shown struct {
	ID           string    `json:"id"`
	InstanceID   string    `json:"instanceId"`
	UserID       string    `json:"userId"`
	Kind         string    `json:"kind"`
	Template     string    `json:"template"`
	Recipient    string    `json:"recipient"`
	Language     string    `json:"language"`
	Subject      string    `json:"subject,omitempty"`
	Text         string    `json:"text"`
	Code         string    `json:"code,omitempty"`
	State        string    `json:"state"`
	CreationDate time.Time `json:"creationDate"`
}

var states = [...]string{1: "QUEUED", 2: "SENT", 3: "FAILED"}

// Handler serves the newest messages with their codes, of all instances and to
// anybody: it is for development only.
func Handler(s *store.DB) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rows, err := db.New().NewestMessages(r.Context(), s.Pool, db.NewestMessagesParams{
			Recipient: r.URL.Query().Get("recipient"), UserID: r.URL.Query().Get("user_id"), PageLimit: newestLimit,
		})
		if err != nil {
			http.Error(w, "the database does not answer", http.StatusServiceUnavailable)
			return
		}
		list := make([]shown, 0, len(rows))
		for i := range rows {
			row := &rows[i]
			var p payload
			_ = json.Unmarshal(row.Payload, &p) // one that is unreadable is shown without
			list = append(list, shown{
				ID: row.ID, InstanceID: row.InstanceID, UserID: row.UserID, Kind: Kind(row.Kind).String(), Template: row.Template,
				Recipient: row.Recipient, Language: row.Language, Subject: p.Subject, Text: p.Text, Code: p.Code,
				State: states[row.State], CreationDate: row.CreationDate,
			})
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(list) // the client went away
	})
}
