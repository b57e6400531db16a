package study

import (
	"image/color"

	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

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
	for i := range len(text) {
		if text[i] >= 0x80 {
			c.outline(face, at, text)
			return
		}
	}
	c.CanvasWriterTo.FillString(face, at, text)
}

// outline fills the outlines of the letters of a text.
func (c pdf) outline(face font.Face, at vg.Point, text string) {
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
