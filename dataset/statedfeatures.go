package dataset

import (
	"errors"
	"fmt"
	"math"
)

// StatedFeatures are item features that another party states, for the items of these ids,
// in the form of the categories of read.Features. Their format is checked in full; whether
// they are true is not. Without categories the result is nil.
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
