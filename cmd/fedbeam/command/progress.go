package command

import (
	"fmt"
	"io"
	"sync"

	"github.com/fedsim/fedsim/cmd/fedbeam/engine"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/results"
)

// progress tells a person how far a run is. Rounds are told by one goroutine, jobs by another.
type progress struct {
	*cli.Bar

	mu     sync.Mutex
	totals engine.Counts
	again  int // jobs that were run again
}

// Start begins the report of a run of so many rounds.
func (p *progress) Start(label string, rounds int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Bar.Start(label, rounds)
}

// Step reports how many rounds are done.
func (p *progress) Step(done int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Bar.Step(done)
}

// Round reports the metrics of a round, or why it was skipped.
func (p *progress) Round(m results.Metrics, skipped error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Line(m.Round, m.Note(skipped))
}

// counted adds up what jobs counted.
func (p *progress) counted(c engine.Counts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, n := range c {
		p.totals[name] += n
	}
}

// retried says that a job is run again.
func (p *progress) retried(attempt int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.again++
	p.Note(fmt.Sprintf("attempt %d failed, and is repeated: %v", attempt, err))
}

// tell says what Beam's counters came to.
func (p *progress) tell(w io.Writer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.totals
	fmt.Fprintf(w, "beam: %d rounds, %d contributions (%d in sums), %d bytes of sums of shards, %d jobs repeated\n", //nolint:errcheck // it is only progress
		c[engine.Rounds], c[engine.Trained], c[engine.Inputs], c[engine.SumBytes], p.again)
}
