package verb

import (
	"fmt"
	"io"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/results"
)

// Progress tells a person how far a run is.
type Progress struct {
	*cli.Bar

	w       io.Writer
	trained bool // rounds were reported
}

// NewProgress returns a Progress that writes to w.
func NewProgress(w io.Writer) *Progress { return &Progress{Bar: cli.NewBar(w), w: w} }

// Start prints that a phase begins. Rounds print a line each; phases after the rounds are
// announced.
func (p *Progress) Start(label string, rounds int) {
	p.Bar.Start(label, rounds)
	if p.trained {
		p.Announce()
	}
}

// Resumed prints the round after which a run continues.
func (p *Progress) Resumed(after, rounds int) {
	p.Clear()
	text := fmt.Sprintf("continues after round %d of %d\n", after, rounds)
	if after == 0 {
		text = "no checkpoint of this run is there; it begins at round 1\n"
	}
	io.WriteString(p.w, text) //nolint:errcheck // it is only progress
	p.From(after)
}

// Note prints a note.
func (p *Progress) Note(text string) {
	p.Clear()
	io.WriteString(p.w, text+"\n") //nolint:errcheck // it is only progress
}

// Round prints the results of a round.
func (p *Progress) Round(m results.Metrics, skipped error) error {
	p.trained = true
	return p.Line(m.Round, m.Note(skipped))
}
