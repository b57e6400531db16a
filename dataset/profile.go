package dataset

import (
	"fmt"
	"math"

	"github.com/fedsim/fedsim/dataset/internal/idhash"
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

// FromRegression makes a set of a regression. Its examples are the users 1 to Rows, and each rates the
// single item, by its label. Labels beyond the scale count as its ends, since a refused label would
// reveal its value. columns are the names of the features; nil numbers them.
func FromRegression(name string, r *Regression, columns []string, lo, hi float64) (*Set, error) {
	if r.Rows < 1 || r.Cols < 1 || len(r.X) != r.Rows*r.Cols || len(r.Y) != r.Rows || columns != nil && len(columns) != r.Cols {
		return nil, fmt.Errorf("%s: %d features, %d labels and %d names for %d rows and %d columns; there must be a feature for each row and column, a label for each row and a name for each column",
			name, len(r.X), len(r.Y), len(columns), r.Rows, r.Cols)
	}
	if !(lo < hi) || math.IsInf(lo, 0) || math.IsInf(hi, 0) {
		return nil, fmt.Errorf("%s: %w: %v to %v; want two finite numbers, the lower first", name, ErrScale, lo, hi)
	}
	for k, v := range r.X {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%s: feature %d of row %d is %v; features must be finite", name, k%r.Cols+1, k/r.Cols+1, v)
		}
	}
	if columns == nil {
		columns = make([]string, r.Cols)
		for j := range columns {
			columns[j] = fmt.Sprintf("x%d", j+1)
		}
	}
	return FromLabels(name, NewProfile(columns, r.X), r.Y, lo, hi), nil
}

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

// Regression is a set of examples: public features and a label each.
type Regression struct {
	Rows, Cols int
	X          []float64 // row by row, Rows x Cols
	Y          []float64 // Rows labels
}

// Field is a categorical feature of the users of a set: which of so many values each has.
type Field struct {
	Name   string
	Size   int     // values are from 0 to Size-1
	Values []int32 // one of each user
}

// HashField makes a field of words, which are hashed to size values (FNV-1a of name and word). A model
// that learns from the field cannot tell apart words that share a value.
func HashField(name string, words []string, size int) (Field, error) {
	if size < 1 || size > math.MaxInt32 {
		return Field{}, fmt.Errorf("dataset: field %s has the size %d; it must be from 1 to 2^31-1", name, size)
	}
	f := Field{Name: name, Size: size, Values: make([]int32, len(words))}
	for i, w := range words {
		f.Values[i] = idhash.Bucket(name, w, size)
	}
	return f, nil
}
