package cli

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
)

// On a terminal the line is taken back and drawn again: \r and ESC [ K. The bar has 24 cells.
func TestBarOfATerminal(t *testing.T) {
	var out bytes.Buffer
	b := &Bar{w: &out, terminal: true}
	for _, c := range []struct {
		do   func()
		want string
	}{
		{func() { b.Clear() }, ""}, // nothing is there
		{func() { b.Start("train", 4) }, "\r\x1b[Ktrain [                        ] 0/4  "},
		{func() { b.Step(1) }, "\r\x1b[Ktrain [======                  ] 1/4  "},
		{func() { b.StepNote(4, "rmse 1") }, "\r\x1b[Ktrain [========================] 4/4  rmse 1"},
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

// Elsewhere there is a line for what is worth one, and no control character.
func TestBarElsewhere(t *testing.T) {
	var out bytes.Buffer
	b := NewBar(&out)
	if b.Loading("data") != nil {
		t.Error("loading is shown")
	}
	b.Start("baselines", 0)
	b.Start("train", 3)
	b.Step(1)
	b.StepNote(1, "note")
	b.Clear()
	if out.Len() > 0 {
		t.Errorf("wrote %q", &out)
	}
	if err := b.Line(2, "rmse 0.9"); err != nil || out.String() != "train 2/3  rmse 0.9\n" {
		t.Errorf("wrote %q, %v", &out, err)
	}
	full := &Bar{w: failing{}}
	if err := full.Line(1, ""); !errors.Is(err, errFull) {
		t.Errorf("a line that could not be written: %v", err)
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
	b := &Bar{w: &out, terminal: true}
	b.Fetching("set", size)(1000, 1000)
	if want = "\r\x1b[Kset [========================] 1000 B of 1000 B"; out.String() != want {
		t.Errorf("drew %q, want %q", &out, want)
	}
}

// Loading is drawn at most ten times a second, so that data are not read for the bar.
func TestLoading(t *testing.T) {
	var out bytes.Buffer
	tell := (&Bar{w: &out, terminal: true}).Loading("films")
	tell(5, 0) // of unknown size
	if out.Len() > 0 {
		t.Errorf("drew %q", &out)
	}
	tell(5, 10)
	if want := "\r\x1b[Kreading films [============            ] "; out.String() != want {
		t.Errorf("drew %q, want %q", &out, want)
	}
}
