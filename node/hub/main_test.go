package hub

import (
	"testing"

	"go.uber.org/goleak"
)

// Whatever the tests start has ended when they have.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
