package read

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A list names items by their ids, in any order, with ids of other catalogues between them.
func TestListedItems(t *testing.T) {
	set := open(t, "synthetic:small", Options{})
	path := filepath.Join(t.TempDir(), "items.txt")
	list := func(lines ...string) ([]int32, error) {
		t.Helper()
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		return ListedItems(set, path)
	}
	ids := set.ItemIDs
	got, err := list(ids[7], "", " "+ids[3]+"\r", "no such item", ids[311])
	if want := []int32{3, 7, 311}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if _, err = list(ids[7], ids[3], ids[7]); err == nil || !strings.Contains(err.Error(), "stands on line 1 already") {
		t.Errorf("an item twice: %v", err)
	}
	if _, err = list("no such item", ""); err == nil || !strings.Contains(err.Error(), "no line is the id of an item of "+set.Name) {
		t.Errorf("no item: %v", err)
	}
	if _, err = ListedItems(set, path+"x"); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
}

// Picked items have the features that they had, by the same vocabulary, in the order in which they were picked.
func TestPickFeatures(t *testing.T) {
	set := open(t, "synthetic:small", Options{})
	f, err := Features(set, "genres,year")
	if err != nil {
		t.Fatal(err)
	}
	items := []int32{9, 2, 2, 399}
	p := f.Pick(items)
	if p.Items != 4 || len(p.Categories) != 2 {
		t.Fatalf("%d items, %d categories", p.Items, len(p.Categories))
	}
	for c := range p.Categories {
		got, want := &p.Categories[c], &f.Categories[c]
		if got.Name != want.Name || !slices.Equal(got.Values, want.Values) {
			t.Errorf("category %s has another vocabulary", want.Name)
		}
		for i, j := range items {
			values, weights := got.Features(i)
			of, by := want.Features(int(j))
			if !slices.Equal(values, of) || !slices.Equal(weights, by) {
				t.Errorf("item %d, picked as %d, has %v with %v, want %v with %v", j, i, values, weights, of, by)
			}
		}
	}
	if other := f.Pick([]int32{9, 2, 399, 2}); other.Digest == p.Digest || p.Digest == f.Digest {
		t.Error("other items have the same digest")
	}
}
