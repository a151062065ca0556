package background

import (
	"testing"

	"github.com/writ-id/writ/impl/core/store/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
