package command

import (
	"encoding/json"
	"io"

	"github.com/fedsim/fedsim/results"
)

// events tells a program how far a run is: each event is a line of JSON.
type events struct{ w io.Writer }

// Start prints that a phase begins.
func (e events) Start(label string, rounds int) {
	e.write(struct { //nolint:errcheck // the next round says so, too
		Event  string `json:"event"`
		Phase  string `json:"phase"`
		Rounds int    `json:"rounds,omitempty"`
	}{"phase", label, rounds})
}

// Resumed prints the round after which a run continues.
func (e events) Resumed(after, rounds int) {
	e.write(struct { //nolint:errcheck // likewise
		Event  string `json:"event"`
		After  int    `json:"after"`
		Rounds int    `json:"rounds"`
	}{"resumed", after, rounds})
}

// Note prints a note.
func (e events) Note(text string) {
	e.write(struct { //nolint:errcheck // likewise
		Event string `json:"event"`
		Text  string `json:"text"`
	}{"note", text})
}

// Step prints a step of a phase.
func (e events) Step(done int) {
	e.write(struct { //nolint:errcheck // likewise
		Event string `json:"event"`
		Done  int    `json:"done"`
	}{"step", done})
}

// Round prints the results of a round.
func (e events) Round(m results.Metrics, skipped error) error {
	why := ""
	if skipped != nil {
		why = skipped.Error()
	}
	return e.write(struct {
		Event string `json:"event"`
		results.Metrics
		Skipped string `json:"skipped,omitempty"`
	}{"round", m, why})
}

func (e events) write(v any) error { return json.NewEncoder(e.w).Encode(v) }
