package results

import (
	"context"
	"errors"
	"fmt"
)

// Progress is told how far a run is. If Round returns an error, the run ends.
type Progress interface {
	// Start begins a phase with this number of rounds; 0: the number is unknown.
	Start(label string, rounds int)
	// Step says how many rounds of a phase without measurements are over.
	Step(done int)
	// Round reports a round of the run itself, and if it released nothing, why.
	Round(m Metrics, skipped error) error
}

// Resumer is a Progress that is told, once its phase has started, after which round a run goes
// on that was asked to; after 0 where no checkpoint of it is there.
type Resumer interface{ Resumed(after, rounds int) }

// Noter is a Progress that is told, in a sentence, what the owner of a run should know before it begins.
type Noter interface{ Note(text string) }

// silent ignores progress.
type silent struct{}

func (silent) Start(string, int)          {}
func (silent) Step(int)                   {}
func (silent) Round(Metrics, error) error { return nil }

// OrSilent returns p, or for nil a Progress that ignores everything.
func OrSilent(p Progress) Progress {
	if p == nil {
		return silent{}
	}
	return p
}

// StoppedError is returned for a run that was stopped in the middle, and that can be gone on
// with.
type StoppedError struct {
	Path          string // of its checkpoint
	Round, Rounds int    // that it goes on after, of how many
	Err           error  // why it was stopped
	Unwritten     error  // why rounds after that one are not in the checkpoint; nil where none failed to be written
}

// Error says how to go on.
func (e *StoppedError) Error() string {
	text := fmt.Sprintf("the same command with --resume goes on after round %d of %d, which is in %s", e.Round, e.Rounds, e.Path)
	if e.Unwritten != nil {
		text += fmt.Sprintf("; later rounds could not be written: %v", e.Unwritten)
	}
	return text
}

// Unwrap is why.
func (e *StoppedError) Unwrap() error { return e.Err }

// UncomparedError is returned for a run that is kept, and whose baselines are not all there.
type UncomparedError struct {
	Folder string
	Err    error // why
}

// Error says where the run is.
func (e *UncomparedError) Error() string {
	why := e.Err.Error()
	if errors.Is(e.Err, context.Canceled) {
		why = "interrupted"
	}
	return fmt.Sprintf("%s while baselines were trained; the run itself is finished and in %s, without those that are missing", why, e.Folder)
}

// Unwrap is why.
func (e *UncomparedError) Unwrap() error { return e.Err }
