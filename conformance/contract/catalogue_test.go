package contract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/conformance/harness"
)

// Whoever receives events, or searches them, builds on what the published document says of
// their payloads. TestMain compares it with all that the suite made happen.

// checkCatalogue returns what of a server's events is not as its document says.
func checkCatalogue(server *harness.Server) error {
	url, err := server.DatabaseURL()
	if err != nil || url == "" {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	payloads, err := publishedEvents(ctx, server)
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, "SELECT DISTINCT event_type, aggregate_type, payload FROM events ORDER BY event_type")
	if err != nil {
		return err
	}
	var wrong []string
	var kind, aggregate string
	var payload json.RawMessage
	if _, err := pgx.ForEachRow(rows, []any{&kind, &aggregate, &payload}, func() error {
		if err := payloads.check(kind, aggregate, payload); err != nil && len(wrong) < 20 {
			wrong = append(wrong, fmt.Sprintf("%s %s: %v", kind, payload, err))
		}
		return nil
	}); err != nil {
		return err
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%d events are not what the published document says of them:\n%s", len(wrong), strings.Join(wrong, "\n"))
	}
	return nil
}

// catalogued is what the document says of an event.
type catalogued struct {
	aggregate string
	payload   *openapi3.Schema
}

type publishedPayloads map[string]catalogued

// check returns how an event differs from what is published.
func (c publishedPayloads) check(kind, aggregate string, payload json.RawMessage) error {
	known, ok := c[kind]
	if !ok {
		return errors.New("it is not in the document")
	}
	if known.aggregate != aggregate {
		return fmt.Errorf("it is about a %s, in the document about a %s", aggregate, known.aggregate)
	}
	var members map[string]any
	if err := json.Unmarshal(payload, &members); err != nil {
		return err
	}
	for name := range members {
		if known.payload.Properties[name] == nil {
			return fmt.Errorf("the document has no %s", name)
		}
	}
	return known.payload.VisitJSON(members)
}

// publishedEvents reads the webhooks of a server's document.
func publishedEvents(ctx context.Context, server *harness.Server) (publishedPayloads, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.Issuer+"/openapi.json", http.NoBody)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(res.Body)
	var published struct {
		Webhooks map[string]struct {
			Post struct {
				Aggregate   string `json:"x-aggregate"`
				RequestBody struct {
					Content map[string]struct{ Schema json.RawMessage }
				}
			}
		} `json:"x-webhooks"`
		Components struct{ Schemas map[string]json.RawMessage }
	}
	if err := errors.Join(err, res.Body.Close(), json.Unmarshal(text, &published)); err != nil {
		return nil, err
	}
	// The schemas become components, so that what they refer to is found.
	for name, hook := range published.Webhooks {
		published.Components.Schemas[name] = hook.Post.RequestBody.Content["application/json"].Schema
	}
	text, err = json.Marshal(map[string]any{
		"openapi": "3.0.3", "info": map[string]any{"title": "events", "version": "1"}, "paths": map[string]any{},
		"components": map[string]any{"schemas": published.Components.Schemas},
	})
	if err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, err
	}
	events := publishedPayloads{}
	for name, hook := range published.Webhooks {
		parts := doc.Components.Schemas[name].Value.AllOf
		own := slices.IndexFunc(parts, func(part *openapi3.SchemaRef) bool { return part.Value.Properties["event_payload"] != nil })
		if own < 0 {
			return nil, fmt.Errorf("the webhook %s has no event_payload", name)
		}
		events[name] = catalogued{hook.Post.Aggregate, parts[own].Value.Properties["event_payload"].Value}
	}
	if len(events) < 100 {
		return nil, fmt.Errorf("the document has %d events", len(events))
	}
	return events, nil
}

// TestTheSuiteSeesAnEventThatIsNotAsPublished is the control of checkCatalogue.
func TestTheSuiteSeesAnEventThatIsNotAsPublished(t *testing.T) {
	payloads, err := publishedEvents(t.Context(), harness.Shared(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		kind, aggregate, payload string
		good                     bool
	}{
		{"user.username.changed", "user", `{"username":"ada"}`, true},
		{"user.username.changed", "user", `{}`, false},
		{"user.username.changed", "user", `{"username":7}`, false},
		{"user.username.changed", "user", `{"username":"ada","password":"x"}`, false},
		{"user.username.changed", "session", `{"username":"ada"}`, false},
		{"user.username.altered", "user", `{"username":"ada"}`, false},
	} {
		if err := payloads.check(test.kind, test.aggregate, json.RawMessage(test.payload)); (err == nil) != test.good {
			t.Errorf("%s of a %s, %s: got %v", test.kind, test.aggregate, test.payload, err)
		}
	}
}
