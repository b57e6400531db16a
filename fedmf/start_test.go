package fedmf

import (
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/model"
)

// Rows are matched by id. A new item starts at the mean of the released rows, every row is projected, and a row of an
// item that is gone stays in the record. The numbers are written out by hand.
func TestStartFromReleasedRows(t *testing.T) {
	var c config.Config
	algorithm.Name.Set(&c, "lfl-sgdmf")
	from := &algorithm.Start{From: "there", Released: []model.Embeddings{
		model.NewEmbeddings("item_embeddings", model.Wrap(3, 2, []float64{1, 1, 3, -1, 0, 0.5}), []string{"a", "b", "gone"}),
	}}
	s := &algorithm.Setup{Config: c, Start: from, Data: &dataset.Set{ItemIDs: []string{"b", "new", "a"}, Max: 5}}
	p := Params{Items: 3, Rank: 2, MaxRating: 5}
	if err := p.startFrom(s); err != nil {
		t.Fatal(err)
	}
	// b is (3, -1): the negative coordinate becomes 0, and the norm √5. The mean of a and b, before, is (2, 0).
	want := []float64{2.23606797749979, 0, 2, 0, 1, 1}
	if got := p.StartItems().Data(); !slices.EqualFunc(got, want, near) {
		t.Errorf("the start is %v, want %v", got, want)
	}
	list := record(s, []model.Embeddings{model.NewEmbeddings("item_embeddings", model.NewMatrix(3, 2), s.Data.ItemIDs)})
	if !slices.Equal(list[0].IDs, []string{"b", "new", "a", "gone"}) || !slices.Equal(list[0].Matrix.Row(3), []float64{0, 0.5}) {
		t.Errorf("the record is %v %v; the item that is gone must stay", list[0].IDs, list[0].Matrix)
	}
	s.Data.ItemIDs = []string{"x", "y", "z"}
	if err := p.startFrom(s); err == nil || !strings.Contains(err.Error(), "there knows none of these 3 ids") {
		t.Errorf("%v", err)
	}
}

func near(a, b float64) bool { return a-b < 1e-12 && b-a < 1e-12 }
