package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gonum.org/v1/plot"

	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/lab/figures"
)

// The ends of the axes, in units of page.html: its drawing is 640 units wide and 340 high, and the browser scales it.
const left, right, top, bottom = 58, 628, 12, 286

// scale maps values to the drawing.
type scale struct {
	plot.Normalizer
	from, to float64 // values at the ends
	a, b     float64 // places of the ends
}

func (s scale) at(v float64) float64 {
	if s.to == s.from {
		return (s.a + s.b) / 2
	}
	return s.a + s.Normalize(s.from, s.to, v)*(s.b-s.a)
}

// drawing is a figure as page.html draws it.
type drawing struct {
	*figures.Figure
	x, y          scale
	Rows, Columns []tick
}

// tick is a label of an axis.
type tick struct {
	Name string
	At   float64 // value
	Y    int     // place of a text below the x axis
	Wide bool    // for wide screens alone
}

// The width of a letter of a label: on a narrow screen, where page.html draws it at 19 units, and on a wide one at 11.
const (
	narrowDigit = 11
	wideLetter  = 6.8
)

// draw lays a figure out for the template "picture": an image that a screen reader names by its title. The numbers are in a table
// below it.
func draw(f figures.Figure) *drawing {
	d := &drawing{Figure: &f}
	d.scales()
	d.rows()
	d.columns()
	return d
}

// scales fit all values, bands included, and bars stand on 0.
func (d *drawing) scales() {
	x0, x1, y0, y1 := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, s := range d.Series {
		for _, x := range s.X {
			x0, x1 = min(x0, x), max(x1, x)
		}
		for _, y := range slices.Concat(s.Y, s.Low, s.High) {
			y0, y1 = min(y0, y), max(y1, y)
		}
	}
	room := cmp.Or((y1-y0)*0.06, max(math.Abs(y1)*0.05, 1e-9))
	switch {
	case d.LogY:
		y0, y1 = y0/1.1, y1*1.1
	case d.Bars:
		x0, x1, y0, y1 = -0.5, float64(len(d.Ticks))-0.5, 0, y1+room
	default:
		y0, y1 = y0-room, y1+room
	}
	of := map[bool]plot.Normalizer{false: plot.LinearScale{}, true: plot.LogScale{}}
	d.x = scale{of[d.Log], x0, x1, left, right}
	d.y = scale{of[d.LogY], y0, y1, bottom, top}
}

// rows labels the y axis.
func (d *drawing) rows() {
	rows := figures.Steps(d.y.from, d.y.to, 5)
	names := figures.Labels(rows)
	if d.LogY {
		rows = decades(d.y)
		names = lists.Map(rows, number)
	}
	for i, v := range rows {
		d.Rows = append(d.Rows, tick{Name: names[i], At: v})
	}
}

// columns labels the x axis, in two rows on a wide screen.
func (d *drawing) columns() {
	var at []float64
	names := d.Ticks
	switch {
	case d.Ticks != nil:
		for i := range d.Ticks {
			at = append(at, float64(i))
		}
	case !d.Log:
		at = d.XSteps(d.x.from, d.x.to, 8)
		names = figures.Labels(at)
	case len(d.Places()) > figures.ManyPlaces:
		at = decades(d.x)
		names = lists.Map(at, number)
	default:
		last := math.Inf(-1)
		for _, v := range d.Places() {
			if x := d.x.at(v); x-last > 26 { // room for three digits
				at, names, last = append(at, v), append(names, number(v)), x
			}
		}
	}
	end := math.Inf(-1)                            // of the last label that a narrow screen shows
	ends := [2]float64{math.Inf(-1), math.Inf(-1)} // of the last labels of two rows on a wide screen
	for i, name := range names {
		t, x, letters := tick{Name: name, At: at[i]}, d.x.at(at[i]), float64(utf8.RuneCountInString(name))
		if t.Wide = x-narrowDigit*letters/2 < end; !t.Wide {
			end = x + narrowDigit*(letters/2+1)
		}
		row := slices.IndexFunc(ends[:], func(end float64) bool { return x-wideLetter*letters/2 >= end })
		if row >= 0 {
			ends[row] = x + wideLetter*(letters+1)/2
			t.Y = bottom + 20 + 13*row
			d.Columns = append(d.Columns, t)
		}
	}
}

// decades returns the powers of ten of a logarithmic axis.
func decades(s scale) (list []float64) {
	for k := math.Ceil(math.Log10(s.from) - 1e-9); k <= math.Log10(s.to)+1e-9; k++ {
		list = append(list, math.Pow(10, k))
	}
	return list
}

// number is a value on an axis, without the digits that arithmetic left.
func number(v float64) string { return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'g', 6, 64) }

// AtX is the place of a value of x.
func (d *drawing) AtX(v float64) string { return fmt.Sprintf("%.1f", d.x.at(v)) }

// AtY is the place of a value of y.
func (d *drawing) AtY(v float64) string { return fmt.Sprintf("%.1f", d.y.at(v)) }

// Path goes through points of the figure.
func (d *drawing) Path(x, y []float64) string {
	var b strings.Builder
	command := 'M'
	for k := range x {
		fmt.Fprintf(&b, "%c%s %s", command, d.AtX(x[k]), d.AtY(y[k]))
		command = 'L'
	}
	return b.String()
}

// Marked reports whether the points of a line are drawn.
func (d *drawing) Marked(s figures.Series) bool { return !s.Level && len(s.X) <= figures.ManyPlaces }

// Band goes around the band of a series.
func (d *drawing) Band(s figures.Series) string { return d.Path(s.Outline()) + "Z" }

// Box goes around the k-th bar of the i-th series.
func (d *drawing) Box(i, k int) string {
	from, to := d.Bar(i, k)
	y := d.Series[i].Y[k]
	return d.Path([]float64{from, to, to, from}, []float64{0, 0, y, y}) + "Z"
}

// Whisker goes through the band of the k-th point or bar of the i-th series.
func (d *drawing) Whisker(i, k int) string {
	s := d.Series[i]
	x := s.X[k]
	if d.Bars {
		from, to := d.Bar(i, k)
		x = (from + to) / 2
	}
	return d.Path([]float64{x, x}, []float64{s.Low[k], s.High[k]})
}
