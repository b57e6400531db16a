package algorithm_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/lists"
)

// TestFeaturesBesideAuto: auto and a file give the features that auto finds and the file's, or the file's alone where the set has none.
func TestFeaturesBesideAuto(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.csv")
	if err := os.WriteFile(file, []byte("item_id,category,value\n1,studio,a\n2,studio,a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	described := &dataset.Set{ItemIDs: []string{"1", "2"}, Genres: [][]string{{"Drama"}, {"War"}}, Years: []int{1990, 1995}, Ratings: dataset.Ratings{Items: 2}}
	bare := &dataset.Set{ItemIDs: described.ItemIDs, Ratings: described.Ratings}
	for _, c := range []struct {
		set  *dataset.Set
		name string
		want []string
	}{
		{described, "ssp-c", []string{"era", "genre-era", "genres", "studio"}},
		{described, "dp-cmf", []string{"genres", "studio", "year"}},
		{bare, "ssp-c", []string{"studio"}},
	} {
		settings, err := config.Resolve([]config.Setting{{Key: "algorithm", Value: c.name}, {Key: "features", Value: "auto," + file}})
		if err != nil {
			t.Fatal(err)
		}
		got, spec, err := algorithm.ReadFeatures(settings, c.set)
		if err != nil {
			t.Fatal(err)
		}
		if names := lists.Map(got.Categories, func(c dataset.Category) string { return c.Name }); !slices.Equal(names, c.want) {
			t.Errorf("%s has the features %v of %s, want %v", c.name, names, spec, c.want)
		}
	}
}
