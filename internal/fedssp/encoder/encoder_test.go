package encoder

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/dataset"
)

// 1,500 items are more than go through a block, and more blocks than there are shares.
// Expected: the same with dense matrices.
func TestEmbed(t *testing.T) {
	for _, c := range variants() {
		for _, items := range []int{12, 1500} {
			e, f := c.build(t, items, 3)
			_, want := newReference(e, f).layers()
			v := slices.Repeat([]float64{math.NaN()}, items*3)
			e.Embed(v, serial)
			if d := furthest(v, want.RawMatrix().Data); !(d < 1e-13) {
				t.Errorf("%s: %d items: embeddings are off by %v", c.name, items, d)
			}
		}
	}
}

// By hand: weights 1 and 3 average to a quarter and three quarters; an item without a
// value in a category gets nothing from it.
func TestEmbedByHand(t *testing.T) {
	f := &dataset.ItemFeatures{Items: 3, Categories: []dataset.Category{
		{Name: "a", Values: []string{"x", "y"}, Start: []int32{0, 2, 3, 3}, Value: []int32{0, 1, 1}, Weight: []float64{1, 3, 9}},
		{Name: "b", Values: []string{"z"}, Start: []int32{0, 0, 1, 1}, Value: []int32{0}, Weight: []float64{2}},
	}}
	s := plain()
	s.Dim = 1
	for dense, want := range map[bool][]float64{
		false: {0.25*4 + 0.75*8, 8 + 100, 0},
		true:  {7 * 2, 8*2 + 100*3, 0}, // a goes through 2, b through 3
	} {
		s.Dense = dense
		e, err := New(f, 3, 1, s, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := copy(e.theta, []float64{4, 8, 100, 2, 3}); got != len(e.theta) {
			t.Fatalf("%d parameters", len(e.theta))
		}
		v := make([]float64, 3)
		if e.Embed(v, serial); !slices.Equal(v, want) {
			t.Errorf("dense %t: %v, want %v", dense, v, want)
		}
	}
}

// The start has the norm that was asked for, over the items that have features, is the
// same for the same seed and another for another.
func TestStart(t *testing.T) {
	for _, c := range variants() {
		c.settings.StartNorm = 2.5
		e, f := c.build(t, 40, 3)
		described := 40
		if c.features && !c.settings.IDs {
			described = 0
			for j := range 40 {
				if slices.ContainsFunc(f.Categories, func(c dataset.Category) bool { return c.Start[j] < c.Start[j+1] }) {
					described++
				}
			}
		}
		v := make([]float64, 40*3)
		e.Embed(v, serial)
		if got := floats.Norm(v, 2) / math.Sqrt(float64(described)); math.Abs(got-2.5) > 1e-12 {
			t.Errorf("%s: the root mean square of the norms is %v, want 2.5", c.name, got)
		}
		again, _ := c.build(t, 40, 3)
		other, err := New(f, 40, 3, c.settings, 12)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(again.theta, e.theta) || slices.Equal(other.theta, e.theta) {
			t.Errorf("%s: the start does not follow from the seed, or from nothing else", c.name)
		}
	}
}

// New says what is wrong, of the settings everything at once.
func TestNewRefuses(t *testing.T) {
	good := films(4)
	changed := func(change func(*dataset.Category)) *dataset.ItemFeatures {
		f := *good
		c := f.Categories[0]
		c.Start, c.Value, c.Weight = slices.Clone(c.Start), slices.Clone(c.Value), slices.Clone(c.Weight)
		change(&c)
		f.Categories = []dataset.Category{c}
		return &f
	}
	for _, c := range []struct {
		want        string
		f           *dataset.ItemFeatures
		items, rank int
	}{
		{"the features are of 4 items; there are 5", good, 5, 2},
		{"0 items; there must be from 1 to 2147483647", nil, 0, 2},
		{"-1 items", nil, -1, 2},
		{"rank is 0; it must be at least 1", good, 4, 0},
		{"parameters and coordinates of embeddings; 2147483647 is the most", good, 4, 1 << 40},
		{"no item has a feature", changed(func(c *dataset.Category) { c.Start, c.Value, c.Weight = make([]int32, 5), nil, nil }), 4, 2},
		{`category "genres": 4 starts; 4 items need one each and an end`, changed(func(c *dataset.Category) { c.Start = c.Start[:4] }), 4, 2},
		{"items begin at 1 and end", changed(func(c *dataset.Category) { c.Start[0] = 1 }), 4, 2},
		{"must begin at 0 and end at the last of both", changed(func(c *dataset.Category) { c.Weight = c.Weight[1:] }), 4, 2},
		{"must begin at 0 and end at the last of both", changed(func(c *dataset.Category) { c.Start[4]-- }), 4, 2},
		{"starts must not fall", changed(func(c *dataset.Category) { c.Start[2] = 100 }), 4, 2},
		{"starts must not fall", changed(func(c *dataset.Category) { c.Start[1] = -1 }), 4, 2},
		{"has value 5; values are from 0 to 4", changed(func(c *dataset.Category) { c.Value[0] = 5 }), 4, 2},
		{"has value -1; values are from 0 to 4", changed(func(c *dataset.Category) { c.Value[0] = -1 }), 4, 2},
		{"weight 0; weights are above 0", changed(func(c *dataset.Category) { c.Weight[0] = 0 }), 4, 2},
		{"weight NaN; weights are above 0", changed(func(c *dataset.Category) { c.Weight[0] = math.NaN() }), 4, 2},
		{"weight +Inf; weights are above 0", changed(func(c *dataset.Category) { c.Weight[0] = math.Inf(1) }), 4, 2},
		{"add up to +Inf; give smaller ones", changed(func(c *dataset.Category) {
			for i := range c.Weight {
				c.Weight[i] = math.MaxFloat64
			}
		}), 4, 2},
	} {
		if _, err := New(c.f, c.items, c.rank, plain(), 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want an error with %q", err, c.want)
		}
	}
	if _, err := New(good, 4, 2, plain(), 1); err != nil {
		t.Errorf("what was changed is refused as it was: %v", err)
	}
}

func TestSettingsValidate(t *testing.T) {
	for _, c := range []struct {
		want string
		set  func(*Settings)
	}{
		{"dim is -1", func(s *Settings) { s.Dim, s.Dense = -1, true }},
		{"dim is 4 without a dense layer; embeddings that are added up must have the rank, 3", func(s *Settings) { s.Dim = 4 }},
		{`optimiser is "lbfgs"; it must be one of [adam sgd]`, func(s *Settings) { s.Optimiser = "lbfgs" }},
	} {
		s := plain()
		c.set(&s)
		if err := s.Validate(3); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want one error with %q", err, c.want)
		}
	}
	if err := (Settings{}).Validate(0); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("the zero settings at rank 0: %v, want two errors", err)
	}
	for _, dim := range []int{0, 3} {
		s := plain()
		if s.Dim = dim; s.Validate(3) != nil {
			t.Errorf("dim %d at rank 3: %v", dim, s.Validate(3))
		}
	}
}

// By hand: another item has the average of its values' embeddings, through the dense layer, and
// nothing of a value that no item of the encoder's has, nor of an id.
func TestEmbedOthersByHand(t *testing.T) {
	all := &dataset.ItemFeatures{Items: 4, Categories: []dataset.Category{
		{Name: "a", Values: []string{"x", "y", "never"}, Start: []int32{0, 1, 2, 4, 5}, Value: []int32{0, 1, 0, 1, 2}, Weight: []float64{1, 1, 1, 3, 1}},
		{Name: "b", Values: []string{"z"}, Start: []int32{0, 1, 1, 2, 2}, Value: []int32{0, 0}, Weight: []float64{2, 5}},
	}}
	own, others := all.Pick([]int32{0, 1}), all.Pick([]int32{2, 3})
	s := plain()
	s.Dim, s.IDs = 1, true
	for dense, want := range map[bool][]float64{
		false: {0.25*4 + 0.75*8 + 100, 0},
		true:  {7*2 + 100*3, 0}, // a goes through 2, b through 3
	} {
		s.Dense = dense
		e, err := New(own, 2, 1, s, 1)
		if err != nil {
			t.Fatal(err)
		}
		copy(e.theta, []float64{4, 8, 1e6, 100, 1e7, 1e7})
		if dense {
			copy(e.dense, []float64{2, 3, 1e9})
		}
		if got := e.EmbedOthers(others); !slices.Equal(got, want) {
			t.Errorf("dense %t: %v, want %v", dense, got, want)
		}
	}
}
