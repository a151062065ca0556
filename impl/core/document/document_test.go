package document_test

import (
	"errors"
	"testing"

	"github.com/writ-id/writ/gen/openapi"
	"github.com/writ-id/writ/impl/core/document"
	"github.com/writ-id/writ/impl/core/fault"
)

func TestWhatASchemaDoesNotAllowIsRefusedWithItsField(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		from          []byte
		schema, text  string
		reason, field string
	}{
		{openapi.Development, "LoginRequest", `{"user":"alice","scopes":["openid"],"parameters":{"nonce":"n"}}`, "", ""},
		{openapi.Development, "LoginRequest", `{"user":"alice","password":"x","zeta":1}`, "UNKNOWN_FIELD", "password"},
		{openapi.Development, "LoginRequest", `{"user":1}`, "INVALID_FIELD", "user"},
		{openapi.Development, "LoginRequest", `{"client":"web"}`, "INVALID_FIELD", "user"},
		{openapi.Development, "LoginRequest", `{"user":"alice","scopes":["a",""]}`, "INVALID_FIELD", "scopes.1"},
		{openapi.Development, "LoginRequest", `{"user":"alice","parameters":{"nonce":1}}`, "INVALID_FIELD", "parameters.nonce"},
		{openapi.Development, "LoginRequest", `["alice"]`, "INVALID_FIELD", ""},
		{openapi.Development, "LoginRequest", `{"user":"alice"} {}`, "MALFORMED_REQUEST", ""},
		{openapi.Development, "LoginRequest", `{`, "MALFORMED_REQUEST", ""},
		{openapi.Development, "ClockChange", `{"set":"2026-01-02T03:04:05Z"}`, "", ""},
		{openapi.Development, "ClockChange", `{"set":"tomorrow"}`, "INVALID_FIELD", "set"},
		{openapi.Development, "WorldRequest", `{"clock":{"sett":1}}`, "UNKNOWN_FIELD", "clock.sett"},
		{openapi.Development, "FaultRequest", `{"route":"/x","status":600}`, "INVALID_FIELD", "status"},
		{openapi.Development, "FaultRequest", `{"route":"x"}`, "INVALID_FIELD", "route"},
		{openapi.Development, "FaultRequest", `{"route":"/x","method":"get"}`, "INVALID_FIELD", "method"},
		{openapi.Development, "FaultRequest", `{"route":"/x","count":1.5}`, "INVALID_FIELD", "count"},
		{openapi.Development, "Snapshot", `{"snapshot":"s"}`, "", ""},
		{openapi.Admin, "ExportRequest", `{"org_ids":["1"],"timeout":"1h30m","response_output":true}`, "", ""},
		{openapi.Admin, "ExportRequest", `{"timeout":"soon"}`, "INVALID_FIELD", "timeout"},
		{openapi.Admin, "ExportRequest", `{"s3_output":{"endpoint":"x","path":"p","bucket":"bucket","access_key_id":"a"}}`, "INVALID_FIELD", "s3_output.secret_access_key"},
		{openapi.Admin, "ImportRequest", `{"on_conflict":"skip","data_orgsv1":{"orgs":[]}}`, "", ""},
		{openapi.Admin, "ImportRequest", `{"on_conflict":"maybe"}`, "INVALID_FIELD", "on_conflict"},
	} {
		var into map[string]any
		err := document.Of(test.from).Decode(test.schema, []byte(test.text), &into)
		if test.reason == "" {
			if err != nil || len(into) == 0 {
				t.Errorf("%s %s: %v, read as %v", test.schema, test.text, err, into)
			}
			continue
		}
		field := ""
		refused, ok := errors.AsType[*fault.Error](err)
		if ok && len(refused.Fields) > 0 {
			field = refused.Fields[0].Field
		}
		if !ok || refused.Reason != test.reason || field != test.field {
			t.Errorf("%s %s: got %v of %q, want %s of %q", test.schema, test.text, err, field, test.reason, test.field)
		}
	}
}
