package study

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

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
		l := legend{plot: width / 2}
		l.fill(entries, style, 1)
		l.right = l.widths[0] + 2*legendGap
		return l
	}
	for columns := min(3, len(entries)); ; columns-- {
		l := legend{plot: width * 0.65}
		l.fill(entries, style, columns)
		var sum, high vg.Length
		for i, c := range l.columns {
			sum += l.widths[i] + legendGap
			high = max(high, c.Rectangle(draw.Canvas{}).Size().Y)
		}
		if sum <= width || columns <= 1 {
			l.below = high + legendGap
			return l
		}
	}
}

// fill puts entries into so many columns, from the top of the first.
func (l *legend) fill(entries []entry, style text.Style, columns int) {
	rows := 1
	if columns > 0 {
		rows = (len(entries) + columns - 1) / columns
	}
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
}

// draw draws a plot and its legend on a page of a width.
func (l *legend) draw(p *plot.Plot, page draw.Canvas, width vg.Length) {
	p.Legend = plot.NewLegend()
	const edge = vg.Length(4)
	// On a logarithmic axis gonum makes room for a label at the right of the middle, where it draws none.
	label := p.X.Label
	p.X.Label.Text = ""
	high := label.TextStyle.Height(label.Text) + edge
	area := draw.Crop(page, edge, -l.right-edge, l.below+high, -edge)
	p.Draw(area)
	data := p.DataCanvas(area)
	page.FillText(label.TextStyle, vg.Point{X: (data.Min.X + data.Max.X) / 2, Y: l.below + edge}, label.Text)
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
