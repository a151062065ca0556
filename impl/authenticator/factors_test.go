package authenticator

import (
	"errors"
	"testing"

	"github.com/writ-id/writ/impl/fault"
	"github.com/writ-id/writ/impl/resource"
	"github.com/writ-id/writ/impl/secret"
)

func TestWithoutAMasterKeyNoSecretIsStored(t *testing.T) {
	t.Parallel()
	_, err := NewFactors(resource.Env{}, secret.NoKey{}).seal("i", "u", []byte("x"))
	if refusal, ok := errors.AsType[*fault.Error](err); !ok || refusal.Reason != "MASTER_KEY_MISSING" {
		t.Errorf("got %v", err)
	}
}
