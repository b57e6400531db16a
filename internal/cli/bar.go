package cli

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/fedsim/fedsim/internal/cli/screen"
)

// Bar tells a person how far long work is: a bar on a terminal, drawn over, and lines elsewhere. It has no colours.
type Bar struct {
	w        io.Writer
	terminal bool
	width    func() int // of the terminal, in characters
	now      func() time.Time
	label    string
	total    int
	began    time.Time // the phase
	before   int       // steps of it that were done before it began
	drawn    time.Time
	tenth    int  // of the phase, that Sparse has told of
	bar      bool // something is on the terminal's last line
}

// NewBar makes a bar, which is drawn if the writer is a terminal that can overwrite lines; under TERM=dumb it cannot.
func NewBar(w io.Writer) *Bar {
	terminal := os.Getenv("TERM") != "dumb" && screen.IsTerminal(w)
	return &Bar{w: w, now: time.Now, width: func() int { return screen.Width(w) }, terminal: terminal}
}

// Loading returns a callback for the reading of data; nil where nothing is drawn.
func (b *Bar) Loading(name string) func(done, total int64) {
	if !b.terminal {
		return nil
	}
	return func(done, total int64) {
		if total > 0 && b.now().Sub(b.drawn) > 100*time.Millisecond {
			b.draw("reading "+name, float64(done)/float64(total), "")
		}
	}
}

// Fetching returns a callback for a download of so many bytes: a bar on a terminal, a line
// for each tenth elsewhere. size writes a count of bytes.
func (b *Bar) Fetching(label string, size func(int64) string) func(done, total int64) {
	tenths := int64(-1)
	return func(done, total int64) {
		switch {
		case total == 0: // the server does not tell
		case b.terminal:
			if b.now().Sub(b.drawn) > 100*time.Millisecond || done == total {
				b.draw(label, float64(done)/float64(total), fmt.Sprintf("%s of %s", size(done), size(total)))
			}
		case 10*done/total > tenths:
			tenths = 10 * done / total
			fmt.Fprintf(b.w, "%s %d%%, %s of %s\n", label, 10*tenths, size(done), size(total)) //nolint:errcheck // it is only progress
		}
	}
}

// Start begins a phase of total steps; 0: it has none that could be counted.
func (b *Bar) Start(label string, total int) {
	b.label, b.total, b.before, b.tenth, b.began = label, total, 0, 0, b.now()
	if total > 0 {
		b.Step(0)
	} else if b.terminal {
		b.draw(label, 1, "")
	}
}

// From says that so much of the phase was done before: what is left does not take as little time.
func (b *Bar) From(done int) { b.before = done }

// Announce writes the name of the phase as a line, elsewhere than on a terminal.
func (b *Bar) Announce() {
	if !b.terminal {
		b.Note(b.label)
	}
}

// Note writes a line. A bar makes room for it.
func (b *Bar) Note(text string) {
	b.Clear()
	fmt.Fprintln(b.w, text) //nolint:errcheck // it is only progress
}

// Warn writes a warning as a line.
func (b *Bar) Warn(text string) { b.Note("warning: " + text) }

// Step says how many steps of the phase are over. Elsewhere than on a terminal it says nothing.
func (b *Bar) Step(done int) {
	if b.terminal {
		_ = b.Line(done, "") // a bar gives no error
	}
}

// left returns how long the rest of the phase takes at the speed so far; "" if that is unknown or almost nothing.
func (b *Bar) left(done int) string {
	taken := b.now().Sub(b.began)
	if done <= b.before || done >= b.total || taken < time.Second {
		return ""
	}
	rest := time.Duration(float64(taken) / float64(done-b.before) * float64(b.total-done)).Round(time.Second)
	return fmt.Sprintf("  %v left", rest)
}

// count returns 3/15, or 3 of a phase whose length is not known, whose total is 0.
func (b *Bar) count(done int) string {
	if b.total == 0 {
		return strconv.Itoa(done)
	}
	return fmt.Sprintf("%d/%d", done, b.total)
}

// Line is Step with a note. Elsewhere than on a terminal it writes a line.
func (b *Bar) Line(done int, note string) error {
	if b.terminal {
		b.draw(b.label, min(1, float64(done)/float64(max(b.total, 1))), fmt.Sprintf("%s%s  %s", b.count(done), b.left(done), note))
		return nil
	}
	_, err := fmt.Fprintf(b.w, "%s %s  %s\n", b.label, b.count(done), note)
	return err
}

// Sparse is Line that elsewhere than on a terminal writes only at every tenth of the phase, and at its end.
func (b *Bar) Sparse(done int, note string) {
	if tenth := 10 * done / max(b.total, 1); b.terminal || tenth > b.tenth {
		b.tenth = tenth
		_ = b.Line(done, note) // it is only progress
	}
}

// A bar has barWidth cells; on a narrow terminal fewer, and none below leastBar.
const barWidth, leastBar = 24, 8

func (b *Bar) draw(label string, share float64, note string) {
	// A line that fills the last column wraps on some terminals, and would stay for ever.
	room := b.width() - 1
	line := label + " "
	if cells := min(barWidth, room-len(line)-len(note)-3); cells >= leastBar {
		full := int(share * float64(cells))
		line += fmt.Sprintf("[%s%s] ", strings.Repeat("=", full), strings.Repeat(" ", cells-full))
	}
	line += note
	if len(line) > room {
		line = strings.ToValidUTF8(line[:max(room, 0)], "")
	}
	fmt.Fprint(b.w, "\r\x1b[K"+line) //nolint:errcheck // it is only a bar
	b.drawn, b.bar = b.now(), true
}

// Clear takes the bar off the terminal.
func (b *Bar) Clear() {
	if b.bar {
		fmt.Fprint(b.w, "\r\x1b[K") //nolint:errcheck // likewise
		b.bar = false
	}
}
