package study

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// Labels returns the labels for round places of an axis, ascending. They have enough decimals to
// distinguish the steps between them, and powers of ten if that is shorter.
func Labels(places []float64) []string {
	step, most := math.Inf(1), 0.
	for i, v := range places {
		most = max(most, math.Abs(v))
		if i > 0 {
			step = min(step, v-places[i-1])
		}
	}
	if math.IsInf(step, 1) {
		step = most
	}
	form, digits := byte('f'), 0
	if step < 1e-6 || most >= 1e7 {
		form = 'e'
	}
	// A double has at most 17 digits.
	for ; digits < 17; digits++ {
		whole := true
		for _, v := range places {
			x, err := strconv.ParseFloat(strconv.FormatFloat(v, form, digits, 64), 64)
			whole = whole && err == nil && math.Abs(x-v) <= step/1000
		}
		if whole {
			break
		}
	}
	labels := make([]string, len(places))
	for i, v := range places {
		if math.Abs(v) < step/1000 {
			v = 0 // and no minus zero
		}
		labels[i] = strconv.FormatFloat(v, form, digits, 64)
	}
	return labels
}

// ticks are the places that gonum chooses on a linear axis, with our labels: gonum's labels are
// equal if steps are small beside the values.
type ticks struct{}

func (ticks) Ticks(from, to float64) []plot.Tick {
	list := plot.DefaultTicks{}.Ticks(from, to)
	var places []float64
	for _, t := range list {
		if !t.IsMinor() {
			places = append(places, t.Value)
		}
	}
	for i, text := range Labels(places) { // gonum has minor ones behind them
		list[i].Label = text
	}
	return list
}
