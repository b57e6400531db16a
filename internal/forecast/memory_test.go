package forecast

import (
	"math"
	"testing"
)

// TestMemoryEstimate computes by hand: the documented bytes a user and a rating, and garbage.
func TestMemoryEstimate(t *testing.T) {
	for _, c := range []struct {
		name string
		peak memoryEstimate
		want int64
	}{
		// 1.5·(2^26 + 700·1,000 + 24·100,000)
		{"columns", memoryEstimate{Ratings: 100_000, Users: 1000, ByUser: true}, 105_313_296},
		// 56 bytes a rating more: 1.5·5,600,000
		{"of parties", memoryEstimate{Ratings: 100_000, Users: 1000}, 113_713_296},
		// 1.5·(2^26 + 700·700,000 + 80,000,000) + 180,000,000
		{"packed", memoryEstimate{Ratings: 100_000_000, Packed: 180_000_000, Users: 700_000, ByUser: true, Sums: 80_000_000}, 1_135_663_296},
	} {
		if got := c.peak.Bytes(); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
	}
}

// TestCalibration: the line through two trials, by hand.
func TestCalibration(t *testing.T) {
	// 0.5 s and 0.01 s for 1,000 ratings: 1,000,000 of them take 10.5 s, over 5 rounds, on 2 workers.
	got := CalibrationOf([]Trial{{Users: 10, Ratings: 1000, Seconds: 0.51}, {Users: 40, Ratings: 4000, Seconds: 0.54}}, 1_000_000, 5, 2)
	for name, c := range map[string][2]float64{"all": {got.Processor, 10.5}, "a round": {got.Round, 2.1}, "on two": {got.Wall, 5.25}} {
		if math.Abs(c[0]-c[1]) > 1e-9 {
			t.Errorf("%s: %v s, want %v", name, c[0], c[1])
		}
	}
	// The last trial took 0.54 s of processors in 0.4 s, so ten and a half seconds take
	// 10.5·0.4/0.54.
	got = CalibrationOf([]Trial{{Ratings: 1000, Seconds: 0.51, Wall: 0.51}, {Ratings: 4000, Seconds: 0.54, Wall: 0.4}}, 1_000_000, 5, 2)
	if want := 10.5 * 0.4 / 0.54; math.Abs(got.Wall-want) > 1e-9 {
		t.Errorf("on the wall: %v s, want %v", got.Wall, want)
	}
	// Trials that would begin below zero, or fall, or are a single trial: in proportion, or no more
	// than measured.
	for name, c := range map[string]struct {
		trials []Trial
		want   float64
	}{
		"below zero": {[]Trial{{Ratings: 1000, Seconds: 0.1}, {Ratings: 2000, Seconds: 0.4}}, 2},
		"falling":    {[]Trial{{Ratings: 1000, Seconds: 0.5}, {Ratings: 2000, Seconds: 0.4}}, 0.4},
		"one":        {[]Trial{{Ratings: 1000, Seconds: 0.5}}, 5},
		"no ratings": {[]Trial{{Seconds: 0.5}}, 5000},
	} {
		if got := CalibrationOf(c.trials, 10_000, 1, 1).Processor; math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v s, want %v", name, got, c.want)
		}
	}
}
