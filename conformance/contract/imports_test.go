package contract

// The packages whose services are held to the contract: one line each, and
// nothing else for a new one. TestEveryServedOperationIsTested names the
// methods of a line that is missing.
import (
	_ "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/feature/v2"
)
