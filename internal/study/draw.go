package study

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	_ "gonum.org/v1/plot/vg/vgimg" // png
	_ "gonum.org/v1/plot/vg/vgsvg" // svg
)

// Palette holds colours that people with any colour vision can distinguish (Okabe and Ito 2008).
var Palette = []string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#8C6D31"}

// Dashes go with the colours, so that lines can be distinguished without colour. Lengths in points.
var Dashes = [][]int{{}, {7, 3}, {2, 3}, {9, 3, 2, 3}, {12, 4}, {4, 2}, {1, 4}, {6, 2, 1, 2}}

func init() { plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"} }

// Draw writes a figure as "svg" or "png", so many centimetres wide.
func (f *Figure) Draw(w io.Writer, format string, width float64) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = f.Title, f.X, f.Y
	p.Title.TextStyle.Font.Size, p.X.Label.TextStyle.Font.Size, p.Y.Label.TextStyle.Font.Size = 12, 10, 10
	p.Legend.Top, p.Legend.TextStyle.Font.Size = true, 8
	p.Title.Padding = vg.Points(6)
	p.X.Tick.Marker, p.Y.Tick.Marker = ticks{}, ticks{}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{235}, color.Gray{225}
	p.Add(grid)
	switch places := f.Places(); {
	case f.Log && len(places) > ManyPlaces:
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	case f.Log:
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(logTicks(places))
	}
	if f.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	if f.Ticks != nil {
		p.NominalX(f.Ticks...)
	}
	for i, s := range f.Series {
		if err := f.add(p, i, s); err != nil {
			return fmt.Errorf("%s, %s: %w", f.ID, s.Name, err)
		}
	}
	if f.Bars { // room for all bars of the first place and the last
		p.X.Min, p.X.Max = -0.5, float64(len(f.Ticks))-0.5
	}
	x := vg.Length(width) * vg.Centimeter
	c, err := draw.NewFormattedCanvas(x, x*0.5, format)
	if err != nil {
		return err
	}
	// The legend stands beside the plot: inside, it would hide lines.
	page, legend := draw.New(c), p.Legend
	p.Legend = plot.NewLegend()
	legend.Left, legend.YPosition = true, 0
	names := legend.Rectangle(page).Size().X + vg.Points(6)
	p.Draw(draw.Crop(page, 0, -names, 0, -vg.Points(4)))
	legend.Draw(draw.Crop(page, x-names+vg.Points(6), 0, 0, -vg.Points(28)))
	_, err = c.WriteTo(w)
	return err
}

// add draws one series.
func (f *Figure) add(p *plot.Plot, i int, s Series) error {
	c := rgb(Palette[s.Colour%len(Palette)])
	if f.Bars {
		const all = 0.8 // of the room between ticks
		width := all / float64(len(f.Series))
		for k := range s.X {
			left := s.X[k] - all/2 + float64(i)*width
			bar, err := plotter.NewPolygon(plotter.XYs{{X: left, Y: 0}, {X: left + width*0.9, Y: 0}, {X: left + width*0.9, Y: s.Y[k]}, {X: left, Y: s.Y[k]}})
			if err != nil {
				return err
			}
			bar.Color, bar.LineStyle.Width = c, 0
			p.Add(bar)
			if k == 0 {
				p.Legend.Add(s.Name, bar)
			}
		}
		return nil
	}
	if s.Low != nil {
		var edge plotter.XYs
		for k := range s.X {
			edge = append(edge, plotter.XY{X: s.X[k], Y: s.High[k]})
		}
		for k := range s.X {
			at := len(s.X) - 1 - k
			edge = append(edge, plotter.XY{X: s.X[at], Y: s.Low[at]})
		}
		band, err := plotter.NewPolygon(edge)
		if err != nil {
			return err
		}
		band.Color, band.LineStyle.Width = color.NRGBA{c.R, c.G, c.B, 50}, 0
		p.Add(band)
	}
	var points plotter.XYs
	for k := range s.X {
		points = append(points, plotter.XY{X: s.X[k], Y: s.Y[k]})
	}
	line, marks, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	line.Color, line.Width = c, vg.Points(1.6)
	for _, d := range Dashes[s.Colour%len(Dashes)] {
		line.Dashes = append(line.Dashes, vg.Points(float64(d)))
	}
	if s.Level {
		line.Color, line.Width, line.Dashes = color.Gray{110}, vg.Points(1), []vg.Length{vg.Points(float64(2 + i)), vg.Points(3)}
		p.Add(line)
		p.Legend.Add(s.Name, line)
		return nil
	}
	marks.Color, marks.Shape, marks.Radius = c, draw.CircleGlyph{}, vg.Points(2.2)
	p.Add(line)
	if len(points) <= ManyPlaces {
		p.Add(marks)
	}
	p.Legend.Add(s.Name, line)
	return nil
}

// ManyPlaces is the number of places from which they are too many to name each on a logarithmic
// axis, or to mark each on a line.
const ManyPlaces = 20

// logTicks returns the values of x that occur.
func logTicks(places []float64) (ticks []plot.Tick) {
	for _, x := range places {
		ticks = append(ticks, plot.Tick{Value: x, Label: strconv.FormatFloat(x, 'g', -1, 64)})
	}
	return ticks
}

// rgb reads #RRGGBB.
func rgb(text string) color.NRGBA {
	v, err := strconv.ParseUint(text[1:], 16, 32)
	if err != nil {
		panic(err) // of the palette
	}
	return color.NRGBA{uint8(v >> 16), uint8(v >> 8), uint8(v), math.MaxUint8}
}
