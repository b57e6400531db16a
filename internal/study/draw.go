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
	"gonum.org/v1/plot/vg/vgimg"
	_ "gonum.org/v1/plot/vg/vgpdf" // pdf
	_ "gonum.org/v1/plot/vg/vgsvg" // svg
)

// Palette holds colours that people with any colour vision can distinguish (Okabe and Ito 2008).
var Palette = []string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#8C6D31"}

// Dashes go with the colours, so that lines can be distinguished without colour. Lengths in points.
var Dashes = [][]int{{}, {7, 3}, {2, 3}, {9, 3, 2, 3}, {12, 4}, {4, 2}, {1, 4}, {6, 2, 1, 2}}

func init() { plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"} }

// Picture says how a figure is drawn.
type Picture struct {
	Format string  // svg, pdf or png; a png has 300 dots an inch
	Width  float64 // in centimetres
	Font   float64 // size of most text in points; 0: 10, or 8 if the picture is narrow
	// Title draws the title; papers have a caption instead.
	Title bool
	// Low and High are the ends of the y axis; NaN: where the data end.
	Low, High float64
}

// narrow is the width in centimetres below which the legend stands under the plot. A column of a
// paper is narrower.
const narrow = 12

// dots is the number of dots an inch of a png.
const dots = 300

// Draw writes a figure.
func (f *Figure) Draw(w io.Writer, pic Picture) error {
	size := pic.Font
	if size == 0 {
		size = 10
		if pic.Width < narrow {
			size = 8
		}
	}
	p := f.axes(pic, font.Length(size))
	var legend []entry
	for i, s := range f.Series {
		thumb, err := f.add(p, i, s)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", f.ID, s.Name, err)
		}
		legend = append(legend, entry{s.Name, thumb})
	}
	if f.Bars { // room for all bars of the first place and the last
		p.X.Min, p.X.Max = -0.5, float64(len(f.Ticks))-0.5
	}
	if !math.IsNaN(pic.Low) {
		p.Y.Min = pic.Low
	}
	if !math.IsNaN(pic.High) {
		p.Y.Max = pic.High
	}
	x := vg.Length(pic.Width) * vg.Centimeter
	place := legendOf(legend, p.Legend.TextStyle, x, pic.Width < narrow)
	c, err := canvas(x, place.plot+place.below, pic.Format)
	if err != nil {
		return err
	}
	place.draw(p, draw.New(c), x)
	_, err = c.WriteTo(w)
	return err
}

// canvas returns the canvas of a format.
func canvas(x, y vg.Length, format string) (vg.CanvasWriterTo, error) {
	if format == "png" {
		return vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(x, y), vgimg.UseDPI(dots))}, nil
	}
	c, err := draw.NewFormattedCanvas(x, y, format)
	if format == "pdf" && err == nil {
		c = pdf{c}
	}
	return c, err
}

// axes returns a plot with the figure's axes and no series.
func (f *Figure) axes(pic Picture, size font.Length) *plot.Plot {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = f.X, f.Y
	if pic.Title {
		p.Title.Text = f.Title
	}
	p.Title.TextStyle.Font.Size, p.X.Label.TextStyle.Font.Size, p.Y.Label.TextStyle.Font.Size = size+2, size, size
	p.X.Tick.Label.Font.Size, p.Y.Tick.Label.Font.Size, p.Legend.TextStyle.Font.Size = size, size, size-1
	p.Title.Padding = vg.Points(6)
	p.X.Tick.Marker, p.Y.Tick.Marker = ticks(f.XSteps), ticks(Steps)
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
		f.slant(p, vg.Length(pic.Width)*vg.Centimeter)
	}
	return p
}

// slant turns the names on the x axis where they would overlap in a picture of a width.
func (f *Figure) slant(p *plot.Plot, width vg.Length) {
	style := &p.X.Tick.Label
	var widest vg.Length
	for _, name := range f.Ticks {
		widest = max(widest, style.Width(name+"  "))
	}
	const plain = 0.7 // of the picture is the plot, about
	if widest*vg.Length(len(f.Ticks)) > plain*width {
		style.Rotation, style.XAlign, style.YAlign = math.Pi/4, draw.XRight, draw.YCenter
	}
}

// add draws one series, and returns what stands for it in the legend.
func (f *Figure) add(p *plot.Plot, i int, s Series) (plot.Thumbnailer, error) {
	c := rgb(Palette[s.Colour%len(Palette)])
	if f.Bars {
		const all = 0.8 // of the room between ticks
		width := all / float64(len(f.Series))
		var thumb plot.Thumbnailer
		for k := range s.X {
			left := s.X[k] - all/2 + float64(i)*width
			bar, err := plotter.NewPolygon(plotter.XYs{{X: left, Y: 0}, {X: left + width*0.9, Y: 0}, {X: left + width*0.9, Y: s.Y[k]}, {X: left, Y: s.Y[k]}})
			if err != nil {
				return nil, err
			}
			bar.Color, bar.LineStyle.Width = c, 0
			p.Add(bar)
			thumb = bar
		}
		return thumb, nil
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
			return nil, err
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
		return nil, err
	}
	line.Color, line.Width = c, vg.Points(1.6)
	for _, d := range Dashes[s.Colour%len(Dashes)] {
		line.Dashes = append(line.Dashes, vg.Points(float64(d)))
	}
	if s.Level {
		line.Color, line.Width, line.Dashes = color.Gray{110}, vg.Points(1), []vg.Length{vg.Points(float64(2 + i)), vg.Points(3)}
		p.Add(line)
		return line, nil
	}
	marks.Color, marks.Shape, marks.Radius = c, draw.CircleGlyph{}, vg.Points(2.2)
	p.Add(line)
	if len(points) <= ManyPlaces {
		p.Add(marks)
	}
	return line, nil
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
