package training

import (
	"context"
	"errors"
	"testing"
)

// TestBaselineWithoutAContextIsAbandoned checks that the end of a run's context is not held up by a computation that knows no
// context, and that the result of another computation is returned.
func TestBaselineWithoutAContextIsAbandoned(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if x, err := orEnd(ctx, func() (int, error) { return 7, nil }); x != 7 || err != nil {
		t.Errorf("%d, %v; want 7", x, err)
	}
	never := make(chan int)
	defer close(never)
	cancel()
	if x, err := orEnd(ctx, func() (int, error) { return <-never, nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("%d, %v; want the context's error", x, err)
	}
}
