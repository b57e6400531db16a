package study

import (
	"math"
	"slices"
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

// Steps returns about so many round numbers between two numbers, ascending: multiples of 1, 2 or 5 times a power of ten.
func Steps(from, to float64, about int) (list []float64) {
	raw := (to - from) / float64(about)
	step := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 5, 10} {
		if step*m >= raw {
			step *= m
			break
		}
	}
	for k := math.Ceil(from / step); k*step <= to; k++ {
		list = append(list, k*step)
	}
	return list
}

// XSteps is Steps for the x axis of the figure: whole numbers alone if the figure has no others, such as rounds.
func (f *Figure) XSteps(from, to float64, about int) []float64 {
	broken := func(x float64) bool { return x != math.Round(x) }
	if slices.ContainsFunc(f.Series, func(s Series) bool { return slices.ContainsFunc(s.X, broken) }) {
		return Steps(from, to, about)
	}
	return slices.DeleteFunc(Steps(from, to, about), broken)
}

// ticks marks a linear axis of a picture: at the places that it returns for two ends that differ.
type ticks func(from, to float64, about int) []float64

// Ticks returns the marks with their labels.
func (t ticks) Ticks(from, to float64) (list []plot.Tick) {
	const about = 6
	places := t(from, to, about)
	for i, text := range Labels(places) {
		list = append(list, plot.Tick{Value: places[i], Label: text})
	}
	return list
}
