package fedmf

import (
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/fedmf/kernel"
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
	p := kernel.Params{Items: 3, Rank: 2, MaxRating: 5}
	if err := startFrom(&p, s); err != nil {
		t.Fatal(err)
	}
	// b is (3, -1): the negative coordinate becomes 0, and the norm √5. The mean of a and b, before, is (2, 0).
	want := []float64{2.23606797749979, 0, 2, 0, 1, 1}
	if got := p.StartItems().Data(); !slices.EqualFunc(got, want, near) {
		t.Errorf("the start is %v, want %v", got, want)
	}
	// Of dp-sgld rows keep their signs, and norms above √5 become √5: (3, -1) has √10.
	s.Data.UserIDs, from.Released[0].Name = s.Data.ItemIDs, "user_embeddings"
	algorithm.Name.Set(&s.Config, "dp-sgld")
	if err := startFrom(&p, s); err != nil || !slices.EqualFunc(p.StartUsers(3).Data(), []float64{2.1213203435596424, -0.7071067811865475, 2, 0, 1, 1}, near) {
		t.Errorf("of dp-sgld the start is %v (%v)", p.FromUsers, err)
	}
	from.Released[0].Name = "item_embeddings"
	algorithm.Name.Set(&s.Config, "lfl-sgdmf")
	algorithm.Rank.Set(&s.Config, 2)
	x := sharedRows{s, "item_embeddings", s.Data.ItemIDs}
	list, err := x.Record(released3{}, nil)
	if err != nil || !slices.Equal(list[0].IDs, []string{"b", "new", "a", "gone"}) || !slices.Equal(list[0].Matrix.Row(3), []float64{0, 0.5}) {
		t.Errorf("the record is %v %v; the item that is gone must stay", list[0].IDs, list[0].Matrix)
	}
	s.Data.ItemIDs = []string{"x", "y", "z"}
	if err := startFrom(&p, s); err == nil || !strings.Contains(err.Error(), "there knows none of these 3 ids") {
		t.Errorf("%v", err)
	}
}

// released3 is a strategy that released three embeddings of zeros.
type released3 struct{ algorithm.Strategy }

func (released3) Model() []byte { return model.NewMatrix(3, 2).Encode() }

// Parties own the items a to d and e to g. A new item starts at the mean of its own party's, and a party that kept none has
// the common start. The numbers are written out by hand: the common start of rank 1 without spread is √3.5.
func TestItemsOfPartiesStartFromTheirOwn(t *testing.T) {
	var c config.Config
	algorithm.Name.Set(&c, "vfl-sgdmf")
	s := &algorithm.Setup{Config: c, Data: &dataset.Set{ItemIDs: []string{"a", "b", "c", "d", "e", "f", "g"}, Max: 5}}
	kept := func(ids ...string) *algorithm.Start {
		return &algorithm.Start{From: "there", Released: []model.Embeddings{model.NewEmbeddings("item_embeddings", model.Wrap(len(ids), 1, []float64{1, 2, 0.5}[:len(ids)]), ids)}}
	}
	first, second := []int32{0, 1, 2, 3}, []int32{4, 5, 6}
	common := 1.8708286933869707
	for _, x := range []struct {
		kept  *algorithm.Start
		parts [][]int32
		want  []float64
		any   bool
	}{
		{kept("a", "d", "f"), [][]int32{first, second}, []float64{1, 1.5, 1.5, 2, 0.5, 0.5, 0.5}, true},
		{kept("a", "d"), [][]int32{first, second}, []float64{1, 1.5, 1.5, 2, common, common, common}, true},
		{kept("gone"), [][]int32{second}, []float64{0, 0, 0, 0, common, common, common}, false},
	} {
		p := kernel.Params{Items: 7, Rank: 1, MaxRating: 5, StartMean: 3.5}
		any, err := startItems(&p, s, x.kept, x.parts...)
		if err != nil || any != x.any {
			t.Errorf("%v, %v", any, err)
		}
		if got := p.StartItems().Data(); !slices.EqualFunc(got, x.want, near) {
			t.Errorf("items start at %v, want %v", got, x.want)
		}
	}
}

func near(a, b float64) bool { return a-b < 1e-12 && b-a < 1e-12 }
