package results

import (
	"context"
	"errors"
	"fmt"
)

// Progress hears how far a run is. If Round returns an error, the run ends.
type Progress interface {
	// Start begins a phase with this number of rounds; 0: the number is unknown.
	Start(label string, rounds int)
	// Step reports the number of finished rounds of a phase without measurements.
	Step(done int)
	// Round reports a round of the run itself. skipped says why the round released nothing.
	Round(m Metrics, skipped error) error
}

// Resumer is a Progress that hears, once its phase has started, the last round before a resumed run
// continues. The round is 0 if there is no checkpoint of the run.
type Resumer interface{ Resumed(after, rounds int) }

// Noter is a Progress that hears a sentence that the owner of a run should know before the run
// begins.
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

// StoppedError is returned for a run that was stopped in the middle, and that can be resumed.
type StoppedError struct {
	Path          string // of the checkpoint
	Round, Rounds int    // the last round in the checkpoint, and the number of rounds of the run
	Err           error  // why the run was stopped
	Unwritten     error  // why later rounds are not in the checkpoint; nil if none failed to be written
}

// Error says how to resume the run.
func (e *StoppedError) Error() string {
	text := fmt.Sprintf("this command with --resume continues after round %d of %d, which is in %s", e.Round, e.Rounds, e.Path)
	if e.Unwritten != nil {
		text += fmt.Sprintf("; later rounds could not be written: %v", e.Unwritten)
	}
	return text
}

// Unwrap returns why the run was stopped.
func (e *StoppedError) Unwrap() error { return e.Err }

// UncomparedError is returned for a run that is kept but lacks some of its baselines.
type UncomparedError struct {
	Folder string
	Err    error // why
}

// Error says where the run is kept.
func (e *UncomparedError) Error() string {
	why := e.Err.Error()
	if errors.Is(e.Err, context.Canceled) {
		why = "interrupted"
	}
	return fmt.Sprintf("%s while baselines were trained; the run itself is finished and in %s, without the missing baselines", why, e.Folder)
}

// Unwrap returns why baselines are missing.
func (e *UncomparedError) Unwrap() error { return e.Err }
