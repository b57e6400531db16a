// Package figures draws pictures of finished runs: quality against ε, by round, by stage and by message, as PDF, SVG or PNG.
// It computes no number that a table does not have.
package figures

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	_ "gonum.org/v1/plot/vg/vgpdf" // pdf
	_ "gonum.org/v1/plot/vg/vgsvg" // svg

	"github.com/fedsim/fedsim/internal/lists"
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
	p.X.Tick.Marker, p.Y.Tick.Marker = Ticks(f.XSteps), Ticks(Steps)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{235}, color.Gray{225}
	p.Add(grid)
	switch places := f.Places(); {
	case f.Log && len(places) > ManyPlaces:
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	case f.Log:
		named := lists.Map(places, func(x float64) plot.Tick { return plot.Tick{Value: x, Label: strconv.FormatFloat(x, 'g', -1, 64)} })
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(named)
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
	fill := func(x, y []float64, c color.Color) (*plotter.Polygon, error) {
		area, err := plotter.NewPolygon(points(x, y))
		if err == nil {
			area.Color, area.LineStyle.Width = c, 0
			p.Add(area)
		}
		return area, err
	}
	if f.Bars {
		var thumb plot.Thumbnailer
		for k, y := range s.Y {
			left, right := f.Bar(i, k)
			bar, err := fill([]float64{left, right, right, left}, []float64{0, 0, y, y}, c)
			if err != nil {
				return nil, err
			}
			thumb = bar
		}
		return thumb, nil
	}
	if s.Low != nil {
		x, y := s.Outline()
		if _, err := fill(x, y, color.NRGBA{c.R, c.G, c.B, 50}); err != nil {
			return nil, err
		}
	}
	line, marks, err := plotter.NewLinePoints(points(s.X, s.Y))
	if err != nil {
		return nil, err
	}
	p.Add(line)
	if s.Level {
		line.Color, line.Width, line.Dashes = color.Gray{110}, vg.Points(1), []vg.Length{vg.Points(float64(2 + i)), vg.Points(3)}
		return line, nil
	}
	line.Color, line.Width = c, vg.Points(1.6)
	for _, d := range Dashes[s.Colour%len(Dashes)] {
		line.Dashes = append(line.Dashes, vg.Points(float64(d)))
	}
	if len(s.X) <= ManyPlaces {
		marks.Color, marks.Shape, marks.Radius = c, draw.CircleGlyph{}, vg.Points(2.2)
		p.Add(marks)
	}
	return line, nil
}

// points pairs values of x and y.
func points(x, y []float64) plotter.XYs {
	all := make(plotter.XYs, len(x))
	for k := range x {
		all[k] = plotter.XY{X: x[k], Y: y[k]}
	}
	return all
}

// ManyPlaces is the number of places from which they are too many to name each on a logarithmic
// axis, or to mark each on a line.
const ManyPlaces = 20

// rgb reads #RRGGBB.
func rgb(text string) color.NRGBA {
	c := color.NRGBA{A: math.MaxUint8}
	if _, err := fmt.Sscanf(text, "#%02x%02x%02x", &c.R, &c.G, &c.B); err != nil {
		panic(err) // of the palette
	}
	return c
}

type entry struct {
	name  string
	thumb plot.Thumbnailer
}

// legend is a legend outside the plot, where it hides no data: at the right, or in columns below.
type legend struct {
	columns []plot.Legend
	widths  []vg.Length
	plot    vg.Length // height of the plot
	right   vg.Length // room at the right of the plot
	below   vg.Length // room below the plot
}

// legendGap is the room between a plot and its legend, and between columns.
const legendGap = vg.Length(8)

// legendOf lays out a legend for a picture of a width.
func legendOf(entries []entry, style text.Style, width vg.Length, below bool) legend {
	if !below {
		l := fill(entries, style, 1)
		l.plot, l.right = width/2, l.widths[0]+2*legendGap
		return l
	}
	for columns := min(3, len(entries)); ; columns-- {
		l := fill(entries, style, columns)
		var sum, high vg.Length
		for i, c := range l.columns {
			sum += l.widths[i] + legendGap
			high = max(high, c.Rectangle(draw.Canvas{}).Size().Y)
		}
		if sum <= width || columns <= 1 {
			l.plot, l.below = width*0.65, high+legendGap
			return l
		}
	}
}

// fill puts entries into so many columns, from the top of the first.
func fill(entries []entry, style text.Style, columns int) (l legend) {
	rows := max(1, (len(entries)+columns-1)/max(1, columns))
	for from := 0; from < max(1, len(entries)); from += rows {
		c := plot.NewLegend()
		c.TextStyle, c.Left, c.Top = style, true, true
		c.TextStyle.XAlign = draw.XLeft
		c.ThumbnailWidth, c.Padding = vg.Points(18), vg.Points(2)
		for _, e := range entries[from:min(from+rows, len(entries))] {
			c.Add(e.name, e.thumb)
		}
		l.columns = append(l.columns, c)
		l.widths = append(l.widths, c.Rectangle(draw.Canvas{}).Size().X)
	}
	return l
}

// draw draws a plot and its legend on a page of a width.
func (l *legend) draw(p *plot.Plot, page draw.Canvas, width vg.Length) {
	p.Legend = plot.NewLegend()
	const edge = vg.Length(4)
	// On a logarithmic axis gonum makes room for a label at the right of the middle, where it draws none; and it squashes the data
	// beside a label that is higher than they are.
	x, y := p.X.Label, p.Y.Label
	p.X.Label.Text, p.Y.Label.Text = "", ""
	wide, high := y.TextStyle.Height(y.Text)+edge, x.TextStyle.Height(x.Text)+edge
	area := draw.Crop(page, wide+edge, -l.right-edge, l.below+high, -edge)
	p.Draw(area)
	data := p.DataCanvas(area)
	page.FillText(x.TextStyle, vg.Point{X: (data.Min.X + data.Max.X) / 2, Y: l.below + edge}, x.Text)
	half := y.TextStyle.Width(y.Text) / 2
	y.TextStyle.Rotation = math.Pi / 2
	page.FillText(y.TextStyle, vg.Point{X: wide, Y: max(min((data.Min.Y+data.Max.Y)/2, page.Max.Y-edge-half), l.below+edge+half)}, y.Text)
	if l.below == 0 {
		l.columns[0].Draw(draw.Crop(page, width-l.right+legendGap, 0, 0, -vg.Points(24)))
		return
	}
	left := legendGap
	for i, c := range l.columns {
		c.Draw(draw.Crop(page, left, 0, 0, l.below-edge-page.Size().Y))
		left += l.widths[i] + legendGap
	}
}

// Unknown returns the characters of a figure's texts that the font of pictures does not have, each once. A picture shows a box in their place.
func (f *Figure) Unknown() string {
	texts := append([]string{f.Title, f.X, f.Y}, f.Ticks...)
	for _, s := range f.Series {
		texts = append(texts, s.Name)
	}
	face := font.DefaultCache.Lookup(plot.DefaultFont, 10).Face
	var list []rune
	for _, r := range strings.Join(texts, "") {
		if at, err := face.GlyphIndex(new(sfnt.Buffer), r); (err != nil || at == 0) && !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	return string(list)
}

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
	coarse := func(v float64) bool {
		x, err := strconv.ParseFloat(strconv.FormatFloat(v, form, digits, 64), 64)
		return err != nil || !(math.Abs(x-v) <= step/1000)
	}
	for digits < 17 && slices.ContainsFunc(places, coarse) { // a double has at most 17 digits
		digits++
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

// Ticks marks a linear axis of a picture: at the places that it returns for two ends that differ.
type Ticks func(from, to float64, about int) []float64

// Ticks returns the marks with their labels.
func (t Ticks) Ticks(from, to float64) (list []plot.Tick) {
	const about = 6
	places := t(from, to, about)
	for i, text := range Labels(places) {
		list = append(list, plot.Tick{Value: places[i], Label: text})
	}
	return list
}

// pdf mends what gonum's canvas of PDF files does wrong. That canvas writes the bytes of a text as Latin letters, so that
// ε and ± come out as two wrong signs each, and it darkens colours that let others through.
type pdf struct{ vg.CanvasWriterTo }

// SetColor passes a colour on as gonum's canvas writes colours.
func (c pdf) SetColor(x color.Color) {
	if x == nil {
		x = color.Black
	}
	c.CanvasWriterTo.SetColor(straight{color.NRGBAModel.Convert(x).(color.NRGBA)})
}

// straight is a colour whose RGBA are not multiplied by its alpha, as gonum's canvas writes them.
type straight struct{ color.NRGBA }

// RGBA returns the parts of the colour without the multiplication that color.Color asks for.
func (c straight) RGBA() (r, g, b, a uint32) {
	return uint32(c.R) * 0x101, uint32(c.G) * 0x101, uint32(c.B) * 0x101, uint32(c.A) * 0x101
}

// FillString draws the outlines of a text with other signs than ASCII.
func (c pdf) FillString(face font.Face, at vg.Point, text string) {
	if !strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) {
		c.CanvasWriterTo.FillString(face, at, text)
		return
	}
	var buffer sfnt.Buffer
	units := face.Face.UnitsPerEm()
	scale := face.Font.Size / vg.Length(units)
	for i, letter := range text {
		index, err := face.Face.GlyphIndex(&buffer, letter)
		if err != nil {
			continue // a letter without a glyph has no outline
		}
		segments, err := face.Face.LoadGlyph(&buffer, index, fixed.Int26_6(units), nil)
		if err != nil || len(segments) == 0 {
			continue // a space
		}
		from := at.X + face.Width(text[:i])
		point := func(p fixed.Point26_6) vg.Point {
			return vg.Point{X: from + vg.Length(p.X)*scale, Y: at.Y - vg.Length(p.Y)*scale}
		}
		var path vg.Path
		for _, s := range segments {
			switch s.Op {
			case sfnt.SegmentOpMoveTo:
				path.Move(point(s.Args[0]))
			case sfnt.SegmentOpLineTo:
				path.Line(point(s.Args[0]))
			case sfnt.SegmentOpQuadTo:
				path.QuadTo(point(s.Args[0]), point(s.Args[1]))
			case sfnt.SegmentOpCubeTo:
				path.CubeTo(point(s.Args[0]), point(s.Args[1]), point(s.Args[2]))
			}
		}
		path.Close()
		c.Fill(path)
	}
}
