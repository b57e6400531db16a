package training_test

import (
	"math"
	"testing"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/forecast"
	"github.com/fedsim/fedsim/internal/opened"
)

// stayPacked are ratings of which only the number and the size are known.
type stayPacked struct {
	dataset.Packed
	ratings, bytes int
}

func (p stayPacked) Len() int  { return p.ratings }
func (p stayPacked) Size() int { return p.bytes }

// TestPeakMemory computes by hand: the documented bytes a user and a rating, two vectors of 400 numbers for an ideal sum, and garbage.
func TestPeakMemory(t *testing.T) {
	columns := dataset.Ratings{Users: 1000, Value: make([]float32, 100_000)}
	for _, c := range []struct {
		name, settings string
		ratings        dataset.Ratings
		want           int64
	}{
		// 1.5·(2^26 + 700·1,000 + 24·100,000 + 2·8·400)
		{"columns", "secagg=ideal", columns, 105_322_896},
		// 56 bytes a rating more, and no sum: 1.5·5,600,000
		{"in one place", "algorithm=sgd-mf", columns, 113_713_296},
		// 1.5·(2^26 + 700·700,000 + 2·8·400) + 180,000,000
		{"packed", "secagg=ideal", dataset.Ratings{Users: 700_000, Packed: stayPacked{ratings: 100_000_000, bytes: 180_000_000}}, 1_015_672_896},
	} {
		e := opened.Experiment(t, c.settings)
		e.Data = &dataset.Set{Ratings: c.ratings}
		if got := forecast.PeakMemory(e); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
	}
}

// TestCalibration: the line through two trials, by hand.
func TestCalibration(t *testing.T) {
	// 0.5 s and 0.01 s for 1,000 ratings: 1,000,000 of them take 10.5 s, over 5 rounds, on 2 workers.
	got := forecast.CalibrationOf([]forecast.Trial{{Users: 10, Ratings: 1000, Seconds: 0.51}, {Users: 40, Ratings: 4000, Seconds: 0.54}}, 1_000_000, 5, 2)
	for name, c := range map[string][2]float64{"all": {got.Processor, 10.5}, "a round": {got.Round, 2.1}, "on two": {got.Wall, 5.25}} {
		if math.Abs(c[0]-c[1]) > 1e-9 {
			t.Errorf("%s: %v s, want %v", name, c[0], c[1])
		}
	}
	// The last trial took 0.54 s of processors in 0.4 s, so ten and a half seconds take
	// 10.5·0.4/0.54.
	got = forecast.CalibrationOf([]forecast.Trial{{Ratings: 1000, Seconds: 0.51, Wall: 0.51}, {Ratings: 4000, Seconds: 0.54, Wall: 0.4}}, 1_000_000, 5, 2)
	if want := 10.5 * 0.4 / 0.54; math.Abs(got.Wall-want) > 1e-9 {
		t.Errorf("on the wall: %v s, want %v", got.Wall, want)
	}
	// Trials that would begin below zero, or fall, or are a single trial: in proportion, or no more
	// than measured.
	for name, c := range map[string]struct {
		trials []forecast.Trial
		want   float64
	}{
		"below zero": {[]forecast.Trial{{Ratings: 1000, Seconds: 0.1}, {Ratings: 2000, Seconds: 0.4}}, 2},
		"falling":    {[]forecast.Trial{{Ratings: 1000, Seconds: 0.5}, {Ratings: 2000, Seconds: 0.4}}, 0.4},
		"one":        {[]forecast.Trial{{Ratings: 1000, Seconds: 0.5}}, 5},
		"no ratings": {[]forecast.Trial{{Seconds: 0.5}}, 5000},
	} {
		if got := forecast.CalibrationOf(c.trials, 10_000, 1, 1).Processor; math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v s, want %v", name, got, c.want)
		}
	}
}
