package contract

// The packages whose services are held to the contract: one line each, and
// nothing else for a new one. TestEveryServedOperationIsTested names the
// methods of a line that is missing.
import (
	_ "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/app/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/authenticator/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/domain/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/event/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/feature/v2"
	_ "github.com/writ-id/writ/gen/proto/writ/grant/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/idp/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/instance/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/language/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/membership/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/message/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/org/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/project/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/schema/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/session/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/settings/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/sms/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/smtp/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
)
