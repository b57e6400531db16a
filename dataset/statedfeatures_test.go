package dataset_test

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
)

// two categories of three items, the second of which has nothing of the first.
func statedCategories() []dataset.Category {
	return []dataset.Category{
		{Name: "cast", Values: []string{"Ann", "Bo"}, Start: []int32{0, 2, 2, 3}, Value: []int32{0, 1, 1}, Weight: []float64{1, 0.5, 2}},
		{Name: "year", Values: []string{"1990s"}, Start: []int32{0, 1, 2, 3}, Value: []int32{0, 0, 0}, Weight: []float64{1, 1, 1}},
	}
}

// Features read from a set and then stated are the same again, digest included.
func TestStatedFeaturesAreThoseOfTheSet(t *testing.T) {
	set, err := read.Open(t.Context(), "synthetic:small", read.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := read.Features(set, "genres,year")
	if err != nil {
		t.Fatal(err)
	}
	got, err := dataset.StatedFeatures(f.Categories, set.ItemIDs)
	if err != nil || !reflect.DeepEqual(got, f) {
		t.Errorf("stated features differ from those read, %v", err)
	}
	if got, err := dataset.StatedFeatures(nil, set.ItemIDs); got != nil || err != nil {
		t.Errorf("no categories are %v, %v; want none", got, err)
	}
}

// Nothing is taken that reading would stumble over.
func TestStatedFeaturesRefused(t *testing.T) {
	ids := []string{"a", "b", "c"}
	if _, err := dataset.StatedFeatures(statedCategories(), ids); err != nil {
		t.Fatal(err)
	}
	for reason, change := range map[string]func(c []dataset.Category){
		"no name":                         func(c []dataset.Category) { c[0].Name = "" },
		`category "cast" comes after`:     func(c []dataset.Category) { c[1].Name = "cast" },
		"stands twice":                    func(c []dataset.Category) { c[0].Values[1] = "Ann" },
		"is empty":                        func(c []dataset.Category) { c[0].Values[1] = "" },
		"do not describe 3 items":         func(c []dataset.Category) { c[0].Start = c[0].Start[:3] },
		"3 values and 2 weights":          func(c []dataset.Category) { c[0].Weight = c[0].Weight[:2] },
		"4 starts, 2 values":              func(c []dataset.Category) { c[0].Value, c[0].Weight = c[0].Value[:2], c[0].Weight[:2] },
		"4 starts":                        func(c []dataset.Category) { c[0].Start[0] = 1 },
		"item 0 has the entries 0 to 4":   func(c []dataset.Category) { c[0].Start[1] = 4 },
		"item 1 has the entries 2 to -1":  func(c []dataset.Category) { c[0].Start[2] = -1 },
		"item 0 has the value 2":          func(c []dataset.Category) { c[0].Value[1] = 2 },
		"item 0 has the value -1":         func(c []dataset.Category) { c[0].Value[0] = -1 },
		"item 0 has the value 1; values ": func(c []dataset.Category) { c[0].Value[0] = 1 },
		"weight 0":                        func(c []dataset.Category) { c[1].Weight[0] = 0 },
		"weight NaN":                      func(c []dataset.Category) { c[1].Weight[0] = math.NaN() },
		"weight +Inf":                     func(c []dataset.Category) { c[1].Weight[0] = math.Inf(1) },
	} {
		c := statedCategories()
		change(c)
		if f, err := dataset.StatedFeatures(c, ids); f != nil || err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("error %v, want %q in it", err, reason)
		}
	}
}
