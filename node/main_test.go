package node_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Whatever the tests start has ended when they have.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		removeBuilt()
		os.Exit(code)
	}))
}
