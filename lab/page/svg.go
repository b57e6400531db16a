package page

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fedsim/fedsim/lab/figures"
)

// The drawing, in its own units; the browser scales it.
const (
	width, height            = 640, 340
	left, right, top, bottom = 58, 12, 12, 54 // around the axes
)

// scale maps values to the drawing.
type scale struct {
	from, to float64 // values at the ends
	a, b     float64 // places of the ends
	log      bool
}

func (s scale) at(v float64) float64 {
	from, to := s.from, s.to
	if s.log {
		v, from, to = math.Log(v), math.Log(from), math.Log(to)
	}
	if to == from {
		return (s.a + s.b) / 2
	}
	return s.a + (v-from)/(to-from)*(s.b-s.a)
}

// drawing collects SVG. Its inputs are numbers and escaped texts.
type drawing struct {
	strings.Builder
	f    *figures.Figure
	x, y scale
}

// The width of a letter of a label: on a narrow screen, where page.html draws it at 19 units, and on a wide one at 11.
const (
	narrowDigit = 11
	wideLetter  = 6.8
)

// draw returns a figure as an image that a screen reader names by its title; the numbers are in a
// table below it.
func draw(f *figures.Figure) template.HTML {
	d := &drawing{f: f}
	d.scales()
	d.put(`<svg viewBox="0 0 %d %d" role="img" aria-labelledby="t-%s"><title id="t-%s">%s</title>`, width, height, f.ID, f.ID, template.HTMLEscapeString(f.Title+": "+f.Y+" by "+f.X))
	d.axes()
	for i, s := range f.Series {
		if f.Bars {
			d.bars(i, s)
		} else {
			d.band(s)
		}
	}
	for i, s := range f.Series {
		if !f.Bars {
			d.line(i, s)
		}
	}
	d.put(`</svg>`)
	return template.HTML(d.String()) //nolint:gosec // made of numbers and escaped texts
}

func (d *drawing) put(format string, args ...any) { d.WriteString(fmt.Sprintf(format, args...)) }

// scales fit all values, bands included, and bars stand on 0.
func (d *drawing) scales() {
	x0, x1, y0, y1 := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, s := range d.f.Series {
		for i := range s.X {
			x0, x1 = min(x0, s.X[i]), max(x1, s.X[i])
			y0, y1 = min(y0, s.Y[i]), max(y1, s.Y[i])
			if s.Low != nil {
				y0, y1 = min(y0, s.Low[i]), max(y1, s.High[i])
			}
		}
	}
	room := cmp.Or((y1-y0)*0.06, max(math.Abs(y1)*0.05, 1e-9))
	switch {
	case d.f.LogY:
		y0, y1 = y0/1.1, y1*1.1
	case d.f.Bars:
		x0, x1, y0, y1 = -0.5, float64(len(d.f.Ticks))-0.5, 0, y1+room
	default:
		y0, y1 = y0-room, y1+room
	}
	d.x = scale{from: x0, to: x1, a: left, b: width - right, log: d.f.Log}
	d.y = scale{from: y0, to: y1, a: height - bottom, b: top, log: d.f.LogY}
}

func (d *drawing) axes() {
	rows := figures.Steps(d.y.from, d.y.to, 5)
	names := figures.Labels(rows)
	if d.f.LogY {
		rows, names = decades(d.y.from, d.y.to), nil
		for _, v := range rows {
			names = append(names, number(v))
		}
	}
	for i, v := range rows {
		y := d.y.at(v)
		d.put(`<path class="grid" d="M%d %.1fH%d"/><text class="tick" x="%d" y="%.1f" text-anchor="end">%s</text>`, left, y, width-right, left-6, y+4, names[i])
	}
	end := math.Inf(-1)                            // of the last label that a narrow screen shows
	ends := [2]float64{math.Inf(-1), math.Inf(-1)} // of the last labels of two rows on a wide screen
	label := func(v float64, text string) {
		at, letters := d.x.at(v), float64(utf8.RuneCountInString(text))
		class := "tick"
		if at-narrowDigit*letters/2 < end {
			class = "tick wide"
		} else {
			end = at + narrowDigit*(letters/2+1)
		}
		for row := range ends {
			if at-wideLetter*letters/2 >= ends[row] {
				ends[row] = at + wideLetter*(letters+1)/2
				d.put(`<text class="%s" x="%.1f" y="%d" text-anchor="middle">%s</text>`, class, at, height-bottom+20+13*row, template.HTMLEscapeString(text))
				return
			}
		}
	}
	switch {
	case d.f.Ticks != nil:
		for i, text := range d.f.Ticks {
			label(float64(i), text)
		}
	case d.f.Log && len(d.f.Places()) > figures.ManyPlaces:
		for _, v := range decades(d.x.from, d.x.to) {
			label(v, number(v))
		}
	case d.f.Log:
		last := math.Inf(-1)
		for _, v := range d.f.Places() {
			if at := d.x.at(v); at-last > 26 { // room for three digits
				label(v, number(v))
				last = at
			}
		}
	default:
		list := d.f.XSteps(d.x.from, d.x.to, 8)
		for i, text := range figures.Labels(list) {
			label(list[i], text)
		}
	}
	d.put(`<path class="axis" d="M%d %dH%d"/>`, left, height-bottom, width-right)
	d.put(`<text class="label" x="%d" y="%d" text-anchor="middle">%s</text>`, (left+width-right)/2, height-8, template.HTMLEscapeString(d.f.X))
}

// decades returns the powers of ten between two numbers.
func decades(from, to float64) (list []float64) {
	for k := math.Ceil(math.Log10(from) - 1e-9); k <= math.Log10(to)+1e-9; k++ {
		list = append(list, math.Pow(10, k))
	}
	return list
}

// number is a value on an axis, without the digits that arithmetic left.
func number(v float64) string { return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'g', 6, 64) }

func (d *drawing) band(s figures.Series) {
	switch {
	case s.Low == nil:
		return
	case len(s.X) == 1: // no line and no band: a line through the point
		d.put(`<path class="whisker" d="M%.1f %.1fV%.1f"/>`, d.x.at(s.X[0]), d.y.at(s.Low[0]), d.y.at(s.High[0]))
		return
	}
	d.put(`<path class="band c%d" d="`, s.Colour%len(figures.Palette))
	for k := range s.X {
		d.put("%s%.1f %.1f", command(k), d.x.at(s.X[k]), d.y.at(s.High[k]))
	}
	for k := range s.X {
		at := len(s.X) - 1 - k
		d.put("L%.1f %.1f", d.x.at(s.X[at]), d.y.at(s.Low[at]))
	}
	d.put(`Z"/>`)
}

func command(k int) string {
	if k == 0 {
		return "M"
	}
	return "L"
}

func (d *drawing) line(i int, s figures.Series) {
	class := fmt.Sprintf("line c%d", s.Colour%len(figures.Palette))
	if s.Level {
		class = fmt.Sprintf("level l%d", i%3)
	}
	d.put(`<path class="%s" d="`, class)
	for k := range s.X {
		d.put("%s%.1f %.1f", command(k), d.x.at(s.X[k]), d.y.at(s.Y[k]))
	}
	d.put(`"/>`)
	if s.Level || len(s.X) > figures.ManyPlaces {
		return
	}
	for k := range s.X {
		d.put(`<circle class="dot c%d" cx="%.1f" cy="%.1f" r="3"/>`, s.Colour%len(figures.Palette), d.x.at(s.X[k]), d.y.at(s.Y[k]))
	}
}

func (d *drawing) bars(i int, s figures.Series) {
	const all = 0.8
	w := all / float64(len(d.f.Series))
	for k := range s.X {
		x0, x1 := d.x.at(s.X[k]-all/2+float64(i)*w), d.x.at(s.X[k]-all/2+(float64(i)+0.9)*w)
		y := d.y.at(s.Y[k])
		d.put(`<rect class="bar c%d" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, s.Colour%len(figures.Palette), x0, y, x1-x0, d.y.a-y)
		if s.Low != nil {
			d.put(`<path class="whisker" d="M%.1f %.1fV%.1f"/>`, (x0+x1)/2, d.y.at(s.Low[k]), d.y.at(s.High[k]))
		}
	}
}
