package engine

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/sim"
)

// fate says which clients train and which are summed in a round of the pipeline. If only its numbers are set, no client
// is lost in the round.
type fate struct {
	Trained, Summed     protocol.Bitmap  // nil: all clients
	Survivors, Answered int              // how many inputs the sum has, and how many of these clients answered
	TooFew              *protocol.TooFew // why there is no sum; nil where there is
}

func (f *fate) trained(i int) bool { return f.Trained == nil || f.Trained.Has(i) }

func (f *fate) summed(i int) bool {
	return f.TooFew == nil && (f.Summed == nil || f.Summed.Has(i))
}

// fateOf converts what happened in a rehearsed round. It returns an error if the round was skipped for another reason than
// too few clients, or if the simulator's counts contradict each other.
func fateOf(it sim.Round, from happened, clients int) (*fate, error) {
	f := &fate{Trained: unlessAll(from.Trained, clients), Summed: unlessAll(from.Summed, clients)}
	if it.Skipped != nil {
		if !errors.As(it.Skipped, &f.TooFew) {
			return nil, fmt.Errorf("round %d: %w", it.Number, it.Skipped)
		}
		return f, nil
	}
	f.Survivors, f.Answered = it.Survivors, it.Answered
	if got := from.Summed.Count(); got != f.Survivors {
		return nil, fmt.Errorf("round %d: %d inputs are in a sum of %d", it.Number, got, f.Survivors)
	}
	return f, nil
}

func unlessAll(b protocol.Bitmap, n int) protocol.Bitmap {
	if b.Count() == n {
		return nil
	}
	return b
}

func (f *fate) equal(o *fate) bool {
	return bytes.Equal(f.Trained, o.Trained) && bytes.Equal(f.Summed, o.Summed) && f.Survivors == o.Survivors && f.Answered == o.Answered &&
		(f.TooFew == nil) == (o.TooFew == nil) && (f.TooFew == nil || *f.TooFew == *o.TooFew)
}
