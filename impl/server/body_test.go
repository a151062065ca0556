package server_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestABodyThatIsTheWholeRequest is strict about what the path and the query have
// to do with it.
func TestABodyThatIsTheWholeRequest(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	const path = "/v3alpha/users/u/otp_sms/s/verify"
	for _, test := range []struct{ name, path, body, want string }{
		{"good", path, `{"code":"x"}`, "NOT_FOUND"},
		{"nothing", path, ``, "UNSUPPORTED_MEDIA_TYPE"},
		{"an empty object", path, `{}`, "INVALID_FIELD"},
		{"a text", path, `"x"`, "WRONG_TYPE"},
		{"an unknown member", path, `{"code":"x","cod":"y"}`, "UNKNOWN_FIELD"},
		{"what is in the path", path, `{"code":"x","userId":"v"}`, "UNKNOWN_FIELD"},
		{"the same in the other spelling, empty", path, `{"code":"x","otp_sms_id":""}`, "UNKNOWN_FIELD"},
		{"a member as a parameter", path + "?code=x", `{"code":"x"}`, "UNKNOWN_PARAMETER"},
		{"what is in the path as a parameter", path + "?userId=u", `{"code":"x"}`, "UNKNOWN_PARAMETER"},
		{"null", path, `{"code":null}`, "NULL_VALUE"},
		{"too long a code", path, `{"code":"` + strings.Repeat("1", 201) + `"}`, "INVALID_FIELD"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := c.call(0, "a.example", c.token("a", "owner"), http.MethodPost, test.path, test.body)
			if !strings.Contains(got.body, `"reason":"`+test.want+`"`) {
				t.Errorf("got %d %s, want %s", got.status, got.body, test.want)
			}
		})
	}
}

func TestMessagesAreShownOnlyInDevelopment(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	if got := c.call(0, "a.example", c.token("a", "owner"), http.MethodGet, "/_dev/messages", ""); got.status != http.StatusNotFound {
		t.Errorf("got %d %s", got.status, got.body)
	}
}
