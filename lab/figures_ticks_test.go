package lab_test

import (
	"github.com/fedsim/fedsim/lab/figures"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// By hand.
func TestLabels(t *testing.T) {
	for _, c := range []struct {
		places []float64
		want   []string
	}{
		{[]float64{0.85, 0.9, 0.95}, []string{"0.85", "0.90", "0.95"}},
		{[]float64{10.001, 10.002, 10.003}, []string{"10.001", "10.002", "10.003"}},
		{[]float64{0.8794, 0.87945, 0.8795}, []string{"0.87940", "0.87945", "0.87950"}},
		{[]float64{-1, 0, 1}, []string{"-1", "0", "1"}},
		{[]float64{-0.2, -5e-17, 0.2}, []string{"-0.2", "0.0", "0.2"}},
		{[]float64{200000, 400000}, []string{"200000", "400000"}},
		{[]float64{1e7, 2.5e7}, []string{"1.0e+07", "2.5e+07"}},
		{[]float64{1.0000001, 1.0000002}, []string{"1.0000001e+00", "1.0000002e+00"}},
		{[]float64{2.5}, []string{"2.5"}},
		{nil, []string{}},
	} {
		if got := figures.Labels(c.places); !slices.Equal(got, c.want) {
			t.Errorf("%v: %q, want %q", c.places, got, c.want)
		}
	}
}

// Places that differ are told apart, and each label is where it says, however narrow the axis.
func TestTicksOfNarrowRanges(t *testing.T) {
	for _, from := range []float64{0, 0.86, 10, 1234.5, -3, 5e6} {
		for width := 1e-5; width < 1e4; width *= 3 {
			at := 0
			before := ""
			for _, k := range figures.Ticks(figures.Steps).Ticks(from, from+width) {
				if k.IsMinor() {
					continue
				}
				x, err := strconv.ParseFloat(k.Label, 64)
				if err != nil || math.Abs(x-k.Value) > width/100 || k.Label == before {
					t.Errorf("from %v over %v: %q after %q stands at %v", from, width, k.Label, before, k.Value)
				}
				at, before = at+1, k.Label
			}
			if at < 2 {
				t.Errorf("from %v over %v: %d labels", from, width, at)
			}
		}
	}
}

// By hand.
func TestSteps(t *testing.T) {
	rounds := &figures.Figure{Series: []figures.Series{{X: []float64{1, 2, 3}}}}
	minutes := &figures.Figure{Series: []figures.Series{{X: []float64{1, 2.5, 3}}}}
	for _, c := range []struct {
		steps    figures.Ticks
		from, to float64
		want     string
	}{
		{figures.Steps, 0.873, 1.02, "0.90 0.95 1.00"},
		{figures.Steps, 0, 10, "0 2 4 6 8 10"},
		{figures.Steps, -0.3, 0.25, "-0.2 0.0 0.2"},
		{minutes.XSteps, 1, 3, "1.0 1.5 2.0 2.5 3.0"},
		{rounds.XSteps, 1, 3, "1 2 3"},
		{rounds.XSteps, 1, 14, "5 10"},
	} {
		if got := strings.Join(figures.Labels(c.steps(c.from, c.to, 5)), " "); got != c.want {
			t.Errorf("from %v to %v: %s, want %s", c.from, c.to, got, c.want)
		}
	}
}
