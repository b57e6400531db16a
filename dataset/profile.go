package dataset

import (
	"math"

	"github.com/fedsim/fedsim/dataset/internal/idtext"
)

// Profile are public features of the users of a set: a row of numbers each. A regression is a set of one item, the label,
// that every user rates once: its examples are the users, and their profiles the features.
type Profile struct {
	Columns []string  // names
	X       []float64 // row by row, users x columns; nil where only the moments are known
	Moments []float64 // (1/users)·XᵀX, row by row: what conditioning needs, without the rows

	// Fields are the same features as categories, where they come of a table, and Private features that are not public, which are nowhere else.
	Fields, Private []Field
	// Source is the digest of what both are made of, where that is neither.
	Source string
}

// Features returns the number of features: columns, or where there are none fields, the private ones
// included.
func (p *Profile) Features() int {
	if len(p.Columns) > 0 {
		return len(p.Columns)
	}
	return len(p.Fields) + len(p.Private)
}

// NewProfile takes features, row by row, which it keeps.
func NewProfile(columns []string, x []float64) *Profile {
	p := &Profile{Columns: columns, X: x}
	p.know()
	return p
}

// know computes the moments.
func (p *Profile) know() {
	cols, x := len(p.Columns), p.X
	rows := len(x) / cols
	p.Moments = make([]float64, cols*cols)
	for i := range rows {
		row := p.Row(i)
		for a, v := range row {
			out := p.Moments[a*cols : (a+1)*cols]
			for b := range a + 1 {
				out[b] += float64(v * row[b])
			}
		}
	}
	for a := range cols {
		for b := range a + 1 {
			p.Moments[a*cols+b] /= float64(rows)
			p.Moments[b*cols+a] = p.Moments[a*cols+b]
		}
	}
}

// Row are the features of a user; do not write to them.
func (p *Profile) Row(user int) []float64 {
	n := len(p.Columns)
	return p.X[user*n : (user+1)*n : (user+1)*n]
}

// labelItem is the single item of a regression.
const labelItem = "label"

// FromLabels makes a set of a profile and a label of each of its users.
func FromLabels(name string, p *Profile, labels []float64, lo, hi float64) *Set {
	rows := len(labels)
	set := &Set{Name: name, Min: lo, Max: hi, Ratings: NewRatings(rows, 1, rows), UserIDs: idtext.Numbered(rows), ItemIDs: []string{labelItem}, Profile: p}
	for i, y := range labels {
		if math.IsNaN(y) {
			y = lo
		}
		set.User[i], set.Value[i] = int32(i), float32(min(max(y, lo), hi))
	}
	set.Digest = set.ComputeDigest()
	return set
}

// Field is a categorical feature of the users of a set: which of so many values each has.
type Field struct {
	Name   string
	Size   int     // values are from 0 to Size-1
	Values []int32 // one of each user
}
