package study

import (
	"slices"
	"strings"

	"golang.org/x/image/font/sfnt"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
)

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
