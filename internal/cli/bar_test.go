package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// On a terminal the line is taken back and drawn again: \r and ESC [ K. The bar has 24 cells.
func TestBarOfATerminal(t *testing.T) {
	var out bytes.Buffer
	b := onTerminal(&out, 80)
	b.now = time.Now // less than a second passes: the time left is not known
	for _, c := range []struct {
		do   func()
		want string
	}{
		{func() { b.Clear() }, ""}, // nothing is there
		{func() { b.Start("train", 4) }, "\r\x1b[Ktrain [                        ] 0/4  "},
		{func() { b.Step(1) }, "\r\x1b[Ktrain [======                  ] 1/4  "},
		{func() { _ = b.Line(4, "rmse 1") }, "\r\x1b[Ktrain [========================] 4/4  rmse 1"},
		{func() { b.Start("baselines", 0) }, "\r\x1b[Kbaselines [========================] "},
		{func() { b.Clear() }, "\r\x1b[K"},
		{func() { b.Clear() }, ""}, // it is gone already
	} {
		out.Reset()
		if c.do(); out.String() != c.want {
			t.Errorf("drew %q, want %q", &out, c.want)
		}
	}
	out.Reset()
	b.Start("train", 2)
	drawn := out.Len()
	if err := b.Line(2, "alive 3/4"); err != nil || out.String()[drawn:] != "\r\x1b[Ktrain [========================] 2/2  alive 3/4" {
		t.Errorf("drew %q, %v", out.String()[drawn:], err)
	}
}

// Elsewhere there is a line for each step worth one, and no control character.
func TestBarElsewhere(t *testing.T) {
	var out bytes.Buffer
	b := NewBar(&out)
	if b.Loading("data") != nil {
		t.Error("loading is shown")
	}
	b.Start("baselines", 0)
	b.Start("train", 3)
	b.Step(1)
	b.Clear()
	if out.Len() > 0 {
		t.Errorf("wrote %q", &out)
	}
	if err := b.Line(2, "rmse 0.9"); err != nil || out.String() != "train 2/3  rmse 0.9\n" {
		t.Errorf("wrote %q, %v", &out, err)
	}
	out.Reset()
	b.Start("candidates", 0) // a private search does not say how many there will be
	if b.Sparse(1, "noted"); out.String() != "candidates 1  noted\n" {
		t.Errorf("wrote %q of a phase whose length is not known", &out)
	}
	full := &Bar{w: failing{}}
	if err := full.Line(1, ""); !errors.Is(err, errFull) {
		t.Errorf("a line that could not be written: %v", err)
	}
}

// onTerminal makes a bar for a terminal so wide, where a second passes with each look at the clock.
func onTerminal(w io.Writer, width int) *Bar {
	var clock time.Time
	return &Bar{w: w, terminal: true, width: func() int { return width }, now: func() time.Time {
		clock = clock.Add(time.Second)
		return clock
	}}
}

// No line is as wide as the terminal: it would wrap, and could not be taken back. Words take 40
// columns, the bar and its frame three more than its cells. First the bar
// shrinks, below 8 cells it goes, then the end of the note.
func TestBarOfANarrowTerminal(t *testing.T) {
	for width, want := range map[int]string{
		80: "train [============            ] 5/10  3s left  rmse 0.9  alive 3/4",
		60: "train [========        ] 5/10  3s left  rmse 0.9  alive 3/4",
		52: "train [====    ] 5/10  3s left  rmse 0.9  alive 3/4",
		51: "train 5/10  3s left  rmse 0.9  alive 3/4",
		30: "train 5/10  3s left  rmse 0.9",
		0:  "",
	} {
		var out bytes.Buffer
		b := onTerminal(&out, width)
		b.Start("train", 10)
		out.Reset()
		// The clock stood at 1 s at the start, at 2 s when the empty bar was drawn, and is looked at a third time.
		if err := b.Line(5, "rmse 0.9  alive 3/4"); err != nil || out.String() != "\r\x1b[K"+want {
			t.Errorf("%d columns: drew %q, want %q", width, &out, want)
		}
	}
}

// The time left is the time of the steps so far, divided by their number, times the number of steps
// left.
func TestTimeLeft(t *testing.T) {
	b := onTerminal(io.Discard, 80)
	b.Start("train", 100)
	b.now = func() time.Time { return b.began.Add(30 * time.Second) }
	for done, want := range map[int]string{0: "", 10: "  4m30s left", 50: "  30s left", 99: "  0s left", 100: ""} {
		if got := b.left(done); got != want {
			t.Errorf("after %d of 100 in 30 s: %q, want %q", done, got, want)
		}
	}
	b.now = func() time.Time { return b.began.Add(999 * time.Millisecond) }
	if got := b.left(50); got != "" {
		t.Errorf("after less than a second: %q", got)
	}
}

// Under TERM=dumb no line can be overwritten; a file behaves the same.
func TestDumbTerminal(t *testing.T) {
	t.Setenv("TERM", "dumb")
	if b := NewBar(os.Stderr); b.terminal {
		t.Error("a dumb terminal is drawn over")
	}
	t.Setenv("TERM", "xterm")
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if b := NewBar(f); b.terminal {
		t.Error("a file is drawn over")
	}
}

var errFull = errors.New("full")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }

// A download says each tenth once, also where several pass between two calls.
func TestFetching(t *testing.T) {
	var out bytes.Buffer
	size := func(n int64) string { return fmt.Sprint(n, " B") }
	tell := NewBar(&out).Fetching("set", size)
	for _, done := range []int64{0, 1, 99, 100, 150, 480, 1000} {
		tell(done, 1000)
	}
	tell(7, 0) // of unknown size
	want := "set 0%, 0 B of 1000 B\nset 10%, 100 B of 1000 B\nset 40%, 480 B of 1000 B\nset 100%, 1000 B of 1000 B\n"
	if out.String() != want {
		t.Errorf("wrote\n%swant\n%s", &out, want)
	}
	out.Reset()
	b := onTerminal(&out, 80)
	b.Fetching("set", size)(1000, 1000)
	if want = "\r\x1b[Kset [========================] 1000 B of 1000 B"; out.String() != want {
		t.Errorf("drew %q, want %q", &out, want)
	}
}

// Loading is drawn at most ten times a second, so that data are not read for the bar.
func TestLoading(t *testing.T) {
	var out bytes.Buffer
	tell := onTerminal(&out, 80).Loading("films")
	tell(5, 0) // of unknown size
	if out.Len() > 0 {
		t.Errorf("drew %q", &out)
	}
	tell(5, 10)
	if want := "\r\x1b[Kreading films [============            ] "; out.String() != want {
		t.Errorf("drew %q, want %q", &out, want)
	}
}
