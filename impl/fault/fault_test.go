package fault

import "testing"

// TestRefusalsNameFieldsAsTheBodyHasThem takes a path of a message to that of the
// REST body, which is one of its fields.
func TestRefusalsNameFieldsAsTheBodyHasThem(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ field, body, want, message string }{
		{"target.name", "target", "name", "name: is bad"},
		{"target.restWebhook.url", "target", "restWebhook.url", "restWebhook.url: is bad"},
		{"target", "target", "body", "body: is bad"},
		{"filters[1].name", "filters", "[1].name", "[1].name: is bad"},
		{"username", "user", "username", "username: is bad"},
		{"id", "target", "id", "id: is bad"},
		{"", "target", "", "is bad"},
		{"target.name", "", "target.name", "target.name: is bad"},
	} {
		refusal := Invalid("INVALID_FIELD", test.field, "is bad")
		below := refusal.Below(test.body, "body")
		if got := below.Fields[0].Field; got != test.want || below.Message != test.message {
			t.Errorf("%s below %s: got %q, %q, want %q, %q", test.field, test.body, got, below.Message, test.want, test.message)
		}
		if refusal.Fields[0].Field != test.field {
			t.Errorf("%s below %s changed the refusal, which others share", test.field, test.body)
		}
	}
}
