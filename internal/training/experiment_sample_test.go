package training_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/experiment"
	_ "github.com/fedsim/fedsim/internal/families"
)

// TestSampleStaysPacked checks that a sample of packed ratings is packed, so that it costs as little as they do. It holds the
// ratings that a sample of the same ratings in columns holds.
func TestSampleStaysPacked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "small.pack")
	if _, err := read.PackFile(t.Context(), "synthetic:small", read.Options{}, file); err != nil {
		t.Fatal(err)
	}
	sample := func(data string, packed bool) *experiment.Experiment {
		c, err := config.Resolve([]config.Setting{{Key: "algorithm", Value: "lfl-sgdmf"}, {Key: "data", Value: data}})
		if err != nil {
			t.Fatal(err)
		}
		open := experiment.Open
		if packed {
			open = experiment.OpenPacked
		}
		e, err := open(t.Context(), c, nil)
		if err != nil {
			t.Fatal(err)
		}
		if e, err = e.Sample(50); err != nil {
			t.Fatal(err)
		}
		return e
	}
	packed, columns := sample(file, true), sample("synthetic:small", false)
	if packed.Data.Packed == nil || packed.Split.Train.Packed == nil {
		t.Error("the sample of packed ratings is not packed")
	}
	for name, pair := range map[string][2]dataset.Ratings{
		"all":      {packed.Data.Ratings.Unpack(), columns.Data.Ratings},
		"training": {packed.Split.Train.Unpack(), columns.Split.Train},
	} {
		if a, b := pair[0].ByUser(), pair[1].ByUser(); pair[0].Len() != pair[1].Len() {
			t.Errorf("%s: %d ratings packed, %d in columns", name, pair[0].Len(), pair[1].Len())
		} else {
			for u := range pair[0].Users {
				items, values := a.Row(u)
				if others, those := b.Row(u); !slices.Equal(items, others) || !slices.Equal(values, those) {
					t.Fatalf("%s: user %d has other ratings", name, u)
				}
			}
		}
	}
}
