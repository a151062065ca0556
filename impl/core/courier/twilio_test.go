package courier_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/core/courier"
	"github.com/writ-id/writ/impl/core/outgoing"
	"github.com/writ-id/writ/impl/core/webhook"
)

func TestTwilioIsAskedAsItsDocumentationSays(t *testing.T) {
	t.Parallel()
	var got []string
	status, body := 201, `{"sid":"SM1","status":"queued","error_code":null,"error_message":null}`
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, token, _ := r.BasicAuth()
		_ = r.ParseForm()
		got = append(got, fmt.Sprint(r.Method, " ", r.URL.Path, " ", user, ":", token, " ", r.PostForm.Encode(), " ", r.Header.Get("Content-Type")))
		if status == 308 {
			w.Header().Set("Location", "/elsewhere")
		}
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(api.Close)
	c := courier.New(outgoing.New(outgoing.Config{Allow: outgoing.Loopback, Origins: map[string]string{"https://api.twilio.com": api.URL}}), time.Now)
	account := &courier.Twilio{Key: "k", AccountSID: "AC1", Token: password, From: "+41790000000"}
	sms := &courier.SMS{ID: "1", To: "+41791111111", Text: "Your code: 1 & 2"}
	if err := c.SMS(t.Context(), account, sms); err != nil {
		t.Fatal(err)
	}
	service := *account
	service.From, service.MessagingService = "", "MG1"
	if err := c.SMS(t.Context(), &service, sms); err != nil {
		t.Fatal(err)
	}
	const at = "POST /2010-04-01/Accounts/AC1/Messages.json AC1:" + password
	want := []string{
		at + " Body=Your+code%3A+1+%26+2&From=%2B41790000000&To=%2B41791111111 application/x-www-form-urlencoded",
		at + " Body=Your+code%3A+1+%26+2&MessagingServiceSid=MG1&To=%2B41791111111 application/x-www-form-urlencoded",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, test := range []struct {
		status int
		body   string
		want   string
		final  bool
	}{
		{400, `{"code":21211,"message":"The 'To' number ` + password + `","more_info":"…","status":400}`, "Twilio refuses the message: the recipient is no phone number (400 21211)", true},
		{400, `{"code":21610,"status":400}`, "Twilio refuses the message: the recipient has opted out (400 21610)", true},
		{400, `{"code":21606,"status":400}`, "Twilio refuses the message (400 21606)", false},
		{401, `{"code":20003,"status":401}`, "Twilio does not accept the credentials (401 20003)", false},
		{429, `{"code":20429,"status":429}`, "Twilio gets too many messages (429 20429)", false},
		{503, `oops`, "Twilio has trouble (503)", false},
		{200, `<html>`, "what answers is not Twilio (200)", false},
		{201, `{"sid":"SM1","status":"failed","error_code":30007}`, "Twilio could not send the message (201 30007)", false},
		{308, ``, "Twilio refuses the message (308)", false},
	} {
		got, status, body = nil, test.status, test.body
		p := problem(t, c.SMS(t.Context(), account, sms))
		if p.Error() != test.want || p.Final != test.final || len(got) != 1 {
			t.Errorf("%d %s: got %v, final %v, by %d requests", test.status, test.body, p, p.Final, len(got))
		}
		if test.status == 429 && p.RetryAfter != 7*time.Second {
			t.Errorf("it asks for %s", p.RetryAfter)
		}
	}
	api.Close()
	if p := problem(t, c.SMS(t.Context(), account, sms)); p.Final || !strings.HasPrefix(p.Error(), "Twilio gives no answer: ") {
		t.Errorf("got %v", p)
	}
}

func TestSEC255_AnEndpointGetsASignedCall(t *testing.T) {
	t.Parallel()
	key := []byte("0123456789abcdef0123456789abcdef")
	status := http.StatusNoContent
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Webhook-Id") != "m1" || !strings.HasPrefix(r.Header.Get("Webhook-Signature"), "v1,") {
			t.Errorf("got %v", r.Header)
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(endpoint.Close)
	caller := &webhook.Caller{Out: outgoing.New(outgoing.Config{Allow: outgoing.Loopback}), Now: time.Now}
	target := &webhook.Target{InstanceID: "i", ID: "p", URL: endpoint.URL, Timeout: 5 * time.Second, Keys: []webhook.Key{{Secret: key}}}
	if err := courier.Call(t.Context(), caller, target, "m1", []byte(`{}`)); err != nil {
		t.Error(err)
	}
	status = http.StatusGone
	if p := problem(t, courier.Call(t.Context(), caller, target, "m1", nil)); !p.Final {
		t.Errorf("got %v", p)
	}
	status = http.StatusInternalServerError
	if p := problem(t, courier.Call(t.Context(), caller, target, "m1", nil)); p.Final || p.Code != 500 {
		t.Errorf("got %v", p)
	}
	target.Keys = nil
	if p := problem(t, courier.Call(t.Context(), caller, target, "m1", nil)); p.Final {
		t.Errorf("got %v", p)
	}
}
