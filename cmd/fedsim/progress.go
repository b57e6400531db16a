package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/fedsim/fedsim/experiment"
)

// progress tells a person how far a run is: a bar on a terminal, a line an
// iteration elsewhere.
type progress struct {
	w        io.Writer
	terminal bool
	label    string
	total    int
	drawn    time.Time
	bar      bool // something is on the terminal's last line
}

func newProgress(w io.Writer) *progress {
	f, ok := w.(*os.File)
	return &progress{w: w, terminal: ok && term.IsTerminal(int(f.Fd()))}
}

// loading returns a callback for the reading of data.
func (p *progress) loading(name string) func(done, total int64) {
	if !p.terminal {
		return nil
	}
	return func(done, total int64) {
		if total > 0 && time.Since(p.drawn) > 100*time.Millisecond {
			p.draw("reading "+name, float64(done)/float64(total), "")
		}
	}
}

// start begins a phase of total steps.
func (p *progress) start(label string, total int) {
	p.label, p.total = label, total
	p.step(0, "")
}

// say names a phase without steps.
func (p *progress) say(label string) {
	if p.terminal {
		p.draw(label, 1, "")
	}
}

// step draws the bar on a terminal.
func (p *progress) step(done int, note string) {
	if p.terminal {
		p.draw(p.label, float64(done)/float64(p.total), fmt.Sprintf("%d/%d  %s", done, p.total, note))
	}
}

// iteration reports an iteration.
func (p *progress) iteration(m experiment.Metrics, skipped error) {
	note := ""
	if m.RatingMetrics != nil {
		note = fmt.Sprintf("rmse %.4f", m.RMSE)
	} else {
		note = fmt.Sprintf("recall@20 %.4f", m.Recall)
	}
	if m.Epsilon != nil {
		note += fmt.Sprintf("  epsilon %.3f", *m.Epsilon)
	}
	if m.Federated != nil {
		note += fmt.Sprintf("  alive %d/%d", m.Alive, m.Alive+m.Dropped)
	}
	if skipped != nil {
		note += "  skipped: " + skipped.Error()
	}
	if p.terminal {
		p.step(m.Round, note)
		return
	}
	fmt.Fprintf(p.w, "%s %d/%d  %s\n", p.label, m.Round, p.total, note)
}

const barWidth = 24

func (p *progress) draw(label string, share float64, note string) {
	full := int(share * barWidth)
	fmt.Fprintf(p.w, "\r\x1b[K%s [%s%s] %s", label, strings.Repeat("=", full), strings.Repeat(" ", barWidth-full), note)
	p.drawn, p.bar = time.Now(), true
}

// clear takes the bar off the terminal.
func (p *progress) clear() {
	if p.bar {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.bar = false
	}
}
