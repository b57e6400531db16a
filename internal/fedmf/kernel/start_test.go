package kernel_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/fedmf"
	"github.com/fedsim/fedsim/internal/fedmf/kernel"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// startFrom opens an experiment of three users and the items a, b and new, which starts from another session. It returns the matrix that
// the server broadcasts first.
func startFrom(t *testing.T, settings string, from *algorithm.Start) (algorithm.Instance, []float64, error) {
	t.Helper()
	s := opened.Experiment(t, settings+" rank=2 data="+opened.File(t, "user,item,rating\na,b,1\nb,a,2\nnew,new,5\na,a,3\nb,new,1\n")).Setup
	s.Start = from
	x, err := algorithm.Of(s.Config).Open(&s)
	if err != nil {
		return nil, nil, err
	}
	strategy, err := x.Strategy(protocol.SessionID{1})
	if err != nil {
		t.Fatal(err)
	}
	b, err := model.NewBroadcast(strategy.Model(), 3, 2)
	if err != nil {
		t.Fatal(err)
	}
	if ids := []string{"a", "b", "new"}; !slices.Equal(s.Data.ItemIDs, ids) || !slices.Equal(s.Data.UserIDs, ids) {
		t.Fatalf("the items are %v, the users %v", s.Data.ItemIDs, s.Data.UserIDs)
	}
	return x, b.Matrix().Data(), nil
}

// broadcast returns numbers as they are broadcast, as float32.
func broadcast(x ...float64) []float64 {
	model.Round(x)
	return x
}

// Rows are matched by id. A new item starts at the mean of the released rows, every row is projected, and a row of an
// item that is gone stays in the record. The numbers are written out by hand.
func TestStartFromReleasedRows(t *testing.T) {
	released := func(name string, ids ...string) *algorithm.Start {
		return &algorithm.Start{From: "there", Released: []model.Embeddings{model.NewEmbeddings(name, model.Wrap(3, 2, []float64{1, 1, 3, -1, 0, 0.5}), ids)}}
	}
	x, got, err := startFrom(t, "algorithm=lfl-sgdmf", released("item_embeddings", "a", "b", "gone"))
	if err != nil {
		t.Fatal(err)
	}
	// b is (3, -1): the negative coordinate becomes 0, and the norm √5. The mean of a and b, before, is (2, 0).
	if want := broadcast(1, 1, 2.23606797749979, 0, 2, 0); !slices.Equal(got, want) {
		t.Errorf("the start is %v, want %v", got, want)
	}
	list, err := x.(algorithm.Recorder).Record(released3{}, nil)
	if err != nil || !slices.Equal(list[0].IDs, []string{"a", "b", "new", "gone"}) || !slices.Equal(list[0].Matrix.Row(3), []float64{0, 0.5}) {
		t.Errorf("the record is %v %v; the item that is gone must stay", list[0].IDs, list[0].Matrix)
	}
	if _, _, err = startFrom(t, "algorithm=lfl-sgdmf", released("item_embeddings", "x", "y", "z")); err == nil || !strings.Contains(err.Error(), "there knows none of these 3 ids") {
		t.Errorf("%v", err)
	}
	// Of dp-sgld rows keep their signs, and norms above √5 become √5: (3, -1) has √10.
	from := released("user_embeddings", "a", "b", "gone")
	from.Released = append(from.Released, model.NewEmbeddings("item_embeddings", model.Wrap(1, 2, []float64{1, 1}), []string{"a"}))
	if _, got, err = startFrom(t, "algorithm=dp-sgld", from); err != nil || !slices.Equal(got, broadcast(1, 1, 2.1213203435596424, -0.7071067811865475, 2, 0)) {
		t.Errorf("of dp-sgld the start is %v (%v)", got, err)
	}
}

// released3 is a strategy that released three embeddings of zeros.
type released3 struct{ algorithm.Strategy }

func (released3) Model() []byte { return model.NewMatrix(3, 2).Encode() }

// Parties own the items a to d and e to g. A new item starts at the mean of its own party's, and a party that kept none has
// the common start. The numbers are written out by hand.
func TestItemsOfPartiesStartFromTheirOwn(t *testing.T) {
	s := opened.Experiment(t, "algorithm=fmf-vfl rank=1 parties=2 data="+opened.File(t, "user,item,rating\n1,a,5\n1,b,4\n1,c,3\n1,d,1\n2,e,1\n2,f,2\n2,g,3\n2,a,3\n3,a,4\n")).Setup
	kept := func(ids ...string) []model.Embeddings {
		return []model.Embeddings{model.NewEmbeddings("item_embeddings", model.Wrap(len(ids), 1, []float64{1, 2, 0.5}[:len(ids)]), ids)}
	}
	users := model.NewEmbeddings("user_embeddings", model.Wrap(1, 1, []float64{1}), s.Data.UserIDs[:1])
	start := func(deployed bool, released []model.Embeddings) (algorithm.Instance, error) {
		s := s
		if deployed { // the parties have the ratings
			s.Train = nil
		}
		s.Start = &algorithm.Start{From: "there", Released: append(released, users)}
		return algorithm.Of(s.Config).Open(&s)
	}
	if _, err := start(false, kept("gone")); err == nil || !strings.Contains(err.Error(), "there knows none of these 7 ids of item_embeddings") {
		t.Errorf("no item is known: %v", err)
	}
	params, err := fedmf.ParamsOf(&s)
	if err != nil {
		t.Fatal(err)
	}
	common := params.StartItems().Data()
	for i, v := range common {
		common[i] = math.RoundToEven(v*(1<<24)) / (1 << 24) // as a party publishes it
	}
	rows := &algorithm.LocalData{Set: s.Data, Rows: s.Data.ByUser()}
	x, err := start(true, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kept []model.Embeddings
		own  []string
		want []float64
	}{
		{kept("a", "d", "f"), []string{"a", "b", "c", "d"}, []float64{1, 1.5, 1.5, 2}},
		{kept("a", "d", "f"), []string{"e", "f", "g"}, []float64{0.5, 0.5, 0.5}},
		{kept("gone"), []string{"e", "f", "g"}, common[4:]},
	} {
		p, failed := x.Party(algorithm.PartyData{IDs: c.own, Kept: c.kept}, rows)
		if failed != nil {
			t.Fatal(failed)
		}
		got := p.Result()[0]
		if !slices.Equal(got.IDs, c.own) || !slices.Equal(got.Matrix.Data(), c.want) {
			t.Errorf("the items %v start at %v, want %v", got.IDs, got.Matrix, c.want)
		}
	}
	// In a simulation the items of all parties are in one folder.
	if x, err = start(false, kept("a", "d")); err != nil {
		t.Fatal(err)
	}
	side, err := x.ClientSide()
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range side.Trainers() {
		p, sum, n := of.(*kernel.Vertical), 0., 0.
		values := map[string]float64{"a": 1, "d": 2}
		for _, j := range p.Own {
			if v, ok := values[s.Data.ItemIDs[j]]; ok {
				sum, n = sum+v, n+1
			}
		}
		for i, j := range p.Own {
			want, known := values[s.Data.ItemIDs[j]]
			switch {
			case n == 0:
				want = common[j]
			case !known:
				want = sum / n
			}
			if got := p.Embeddings().Row(i)[0]; got != want {
				t.Errorf("item %s starts at %v, want %v, with %v known items of the party", s.Data.ItemIDs[j], got, want, n)
			}
		}
	}
}
