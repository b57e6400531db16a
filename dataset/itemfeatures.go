package dataset

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

// ItemFeatures are public features of the items of a set, by category. They say
// nothing about who rated what: a server without ratings has them too.
type ItemFeatures struct {
	Items      int        // of the set; they keep its indices
	Categories []Category // at least one, by name

	// Digest is a hex SHA-256 over the ids of the items and all that is here but
	// Skipped. Parties whose digests are equal have equal features of equal items.
	Digest string

	// Skipped counts the rows of files about items that the set does not have: see read.Features.
	Skipped int
}

// Category is one kind of features, such as the genres, in compressed rows: item j
// has the features Value[Start[j]:Start[j+1]], with the weights at the same places.
type Category struct {
	Name   string   `json:"name"`
	Values []string `json:"values"` // the vocabulary, each of some item: numeric where all are integers, else lexicographic

	Start  []int32   `json:"start"`  // one entry for each item and one more
	Value  []int32   `json:"value"`  // indices into Values, ascending within an item, none twice
	Weight []float64 `json:"weight"` // of each, finite and positive; 1 where nothing else was said
}

// GenreEra is the category of genres in times: each value is a genre and a time of release.
const GenreEra = "genre-era"

// Features returns the indices into Values of item j's features, and the weight of
// each. Both are empty for an item without any; do not write to them.
func (c *Category) Features(j int) (values []int32, weights []float64) {
	from, to := c.Start[j], c.Start[j+1]
	return c.Value[from:to:to], c.Weight[from:to:to]
}

// Pick are the features of some items, which become items 0, 1, ... in that order. Vocabularies stay, with values
// that none of them may have.
func (f *ItemFeatures) Pick(items []int32) *ItemFeatures {
	d := NewDigester()
	d.Text("fedsim picked item features v1")
	d.Text(f.Digest)
	for _, j := range items {
		d.Number(uint64(j))
	}
	out := &ItemFeatures{Items: len(items), Digest: d.Sum()}
	for _, c := range f.Categories {
		picked := Category{Name: c.Name, Values: c.Values, Start: make([]int32, 1, len(items)+1)}
		for _, j := range items {
			values, weights := c.Features(int(j))
			picked.Value, picked.Weight = append(picked.Value, values...), append(picked.Weight, weights...)
			picked.Start = append(picked.Start, int32(len(picked.Value)))
		}
		out.Categories = append(out.Categories, picked)
	}
	return out
}

// NewItemFeatures makes features of the items of these ids, of valid categories in order of their names.
func NewItemFeatures(categories []Category, ids []string) *ItemFeatures {
	f := &ItemFeatures{Items: len(ids), Categories: categories}
	d := NewDigester() // of the features together with what the items are called
	d.Text("fedsim item features v1")
	d.Number(uint64(f.Items))
	d.Texts(ids)
	d.Number(uint64(len(f.Categories)))
	for _, c := range f.Categories {
		d.Text(c.Name)
		d.Texts(c.Values)
		for _, start := range c.Start { // as many as items, and one
			d.Number(uint64(start))
		}
		for k, v := range c.Value {
			d.Number(uint64(v))
			d.Number(math.Float64bits(c.Weight[k]))
		}
	}
	f.Digest = d.Sum()
	return f
}

// WriteCSV writes the features as a file that read.Features reads. ids are the items' ids.
func (f *ItemFeatures) WriteCSV(to io.Writer, ids []string) error {
	w := csv.NewWriter(to)
	if err := w.Write([]string{"item_id", "category", "value", "weight"}); err != nil {
		return err
	}
	for j, id := range ids {
		for i := range f.Categories {
			c := &f.Categories[i]
			values, weights := c.Features(j)
			for k, v := range values {
				if err := w.Write([]string{id, c.Name, c.Values[v], strconv.FormatFloat(weights[k], 'g', -1, 64)}); err != nil {
					return err
				}
			}
		}
	}
	w.Flush()
	return w.Error()
}

// ItemColumn is a column of an items.csv beyond title, genres and year: public features of the items, used where a spec of features names it
// (read.Features).
//
// An items.csv beside own ratings has a header with a column called item, item_id or id, or as the ratings call it. It may have title,
// genres and year, as MovieLens has them: without a year, one at the end of a title counts. Any other column is an ItemColumn. Genres and
// these may have several values with | between. A field may be empty.
type ItemColumn struct {
	Name   string
	Values [][]string // of each item; nil for none
}

// StatedFeatures are item features that another party states, for the items of these ids. Their format is checked in full; whether they are
// true is not. Without categories the result is nil.
func StatedFeatures(categories []Category, ids []string) (*ItemFeatures, error) {
	if len(categories) == 0 {
		return nil, nil
	}
	var errs []error
	for i, c := range categories {
		if i > 0 && c.Name <= categories[i-1].Name {
			errs = append(errs, fmt.Errorf("category %q comes after %q; they are in alphabetical order, each once", c.Name, categories[i-1].Name))
		}
		if err := c.check(len(ids)); err != nil {
			errs = append(errs, fmt.Errorf("category %q: %w", c.Name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return NewItemFeatures(categories, ids), nil
}

// check reports the first thing that is wrong with the rows of a category.
func (c *Category) check(items int) error {
	if c.Name == "" {
		return errors.New("it has no name")
	}
	seen := make(map[string]bool, len(c.Values))
	for _, v := range c.Values {
		if v == "" || seen[v] {
			return fmt.Errorf("the value %q is empty or stands twice", v)
		}
		seen[v] = true
	}
	if len(c.Start) != items+1 || c.Start[0] != 0 || int(c.Start[items]) != len(c.Value) || len(c.Weight) != len(c.Value) {
		return fmt.Errorf("%d starts, %d values and %d weights do not describe %d items", len(c.Start), len(c.Value), len(c.Weight), items)
	}
	for j := range items {
		from, to := c.Start[j], c.Start[j+1]
		if from > to || int(to) > len(c.Value) {
			return fmt.Errorf("item %d has the entries %d to %d of %d", j, from, to, len(c.Value))
		}
		for k := from; k < to; k++ {
			if v := c.Value[k]; v < 0 || int(v) >= len(c.Values) || k > from && v <= c.Value[k-1] {
				return fmt.Errorf("item %d has the value %d; values are below %d and ascend", j, v, len(c.Values))
			}
			if w := c.Weight[k]; !(w > 0) || math.IsInf(w, 1) {
				return fmt.Errorf("item %d has a value of weight %v; weights are positive and finite", j, w)
			}
		}
	}
	return nil
}

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

// Row are the features of a user; do not write to them.
func (p *Profile) Row(user int) []float64 {
	n := len(p.Columns)
	return p.X[user*n : (user+1)*n : (user+1)*n]
}

// Field is a categorical feature of the users of a set: which of so many values each has.
type Field struct {
	Name   string
	Size   int     // values are from 0 to Size-1
	Values []int32 // one of each user
}
