package recommend

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/model"
)

// rated returns the recommender of made with ratings: item a has three, c two, b one.
func rated() *Recommender {
	r := made()
	set := dataset.Set{Ratings: dataset.Ratings{Users: 3, Items: 5, User: []int32{0, 0, 0, 1, 1, 2}, Item: []int32{0, 1, 2, 0, 2, 0}, Value: make([]float32, 6)}}
	r.train = set.ByUser()
	return r
}

// By inner product with (3, 0) the items (1, 1), (0, 1/2) and (-7, 0) are 3, 0 and -21 away, and
// they have 2, 1 and no ratings.
func TestSimilarByInnerProduct(t *testing.T) {
	got, err := rated().Similar("East", 2, Inner)
	if err != nil || len(got.Items) != 2 {
		t.Fatal(got, err)
	}
	for k, want := range []struct {
		id      string
		inner   float64
		ratings int
	}{{"c", 3, 2}, {"b", 0, 1}} {
		if x := got.Items[k]; x.ID != want.id || x.Cosine != nil || x.Nearness() != want.inner || x.Ratings != want.ratings {
			t.Errorf("place %d: %+v, want %+v", k+1, x, want)
		}
	}
	var text bytes.Buffer
	if err := got.Print(&text); err != nil {
		t.Fatal(err)
	}
	const want = "INNER  ID  TITLE       GENRES  RATINGS\n3.000  c   North-East  -       2\n0.000  b   North       -       1\n"
	if d := cmp.Diff(want, text.String()); d != "" {
		t.Error(d)
	}
}

// The inner products by hand: a (3, 0) with c 3; b (0, 1/2) with c 1/2. c (1, 1) has 3 with a and
// 1/2 with b. d (-7, 0) has none above 0; e is zero.
func TestWriteSimilarByHand(t *testing.T) {
	const head = "item_id,category,value,weight\n"
	for _, c := range []struct {
		n      int
		binary bool
		want   string
	}{
		{5, false, head + "a,similar,c,3\nb,similar,c,0.5\nc,similar,a,3\nc,similar,b,0.5\n"},
		{1, false, head + "a,similar,c,3\nb,similar,c,0.5\nc,similar,a,3\n"},
		{5, true, head + "a,similar,c,1\nb,similar,c,1\nc,similar,a,1\nc,similar,b,1\n"},
	} {
		var got bytes.Buffer
		items, _, err := rated().WriteSimilar(&got, c.n, Inner, c.binary)
		if d := cmp.Diff(c.want, got.String()); err != nil || items != 3 || d != "" {
			t.Errorf("%d nearest: %d items, %v:\n%s", c.n, items, err, d)
		}
	}
	r := rated()
	r.Data.ItemIDs = append([]string{`a "b", c`}, r.Data.ItemIDs[1:]...)
	var got bytes.Buffer
	want := head + `"a ""b"", c",similar,c,3` + "\nb,similar,c,0.5\n" + `c,similar,"a ""b"", c",3` + "\n"
	if _, _, err := r.WriteSimilar(&got, 1, Inner, false); err != nil || got.String() != want {
		t.Errorf("%v: %s", err, got.String())
	}
}

// Two models of the made items. In the first model the nearest to a is c, to b c, to c a, and to d
// b (a product of 0, before -7 and -21). In the second a and b change places: nearest to a is c, to
// b c, to c b, to d a. Each bucket has a fifth of the items, in the order a, c, b, d, e by ratings.
func TestOverlapByHand(t *testing.T) {
	a, b := rated(), rated()
	rows := b.saved.Items
	copy(rows.Row(0), []float64{0, 0.5})
	copy(rows.Row(1), []float64{3, 0})
	got, err := OverlapOf(a, b, 1, Inner)
	want := &Overlap{Top: 1, By: Inner, Items: 4, Mean: 0.5, Buckets: []OverlapBucket{{1, 1}, {1, 0}, {1, 1}, {1, 0}, {0, 0}}}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	same, err := OverlapOf(a, rated(), 2, Cosine)
	if err != nil || same.Mean != 1 {
		t.Errorf("a model and itself share %+v, %v", same, err)
	}
	b.Data.ItemIDs = []string{"a"}
	if _, err = OverlapOf(a, b, 1, Inner); !errors.Is(err, ErrOtherItems) {
		t.Error(err)
	}
}

// Of six items five point the same way: any two of the four others are as near to the first, and a list of all four is right. Items
// in five directions are told apart.
func TestSimilarKnowsNothing(t *testing.T) {
	r := made()
	r.Data.ItemIDs, r.Data.Items, r.Data.Titles = []string{"a", "b", "c", "d", "e", "f"}, 6, nil
	r.saved.Items = model.NewMatrix(6, 2)
	copy(r.saved.Items.Data(), []float64{1, 1, 2, 2.001, 3, 3, 4, 4, 5, 5, 1, -1})
	for n, want := range map[int]bool{2: true, 3: true, 4: false, 5: false} {
		like, err := r.Similar("a", n, Cosine)
		if err != nil || (like.Note != "") != want || want && !strings.HasPrefix(like.Note, "4 items") {
			t.Errorf("%d items: %+v, %v", n, like, err)
		}
	}
	var b strings.Builder
	if items, doubtful, err := r.WriteSimilar(&b, 2, Cosine, false); err != nil || items != 5 || doubtful != 5 {
		t.Errorf("%d of %d items are doubtful, %v; want 5 of 5", doubtful, items, err)
	}
	set := dataset.Set{Ratings: dataset.Ratings{Users: 1, Items: 6, User: []int32{0}, Item: []int32{0}, Value: make([]float32, 1)}}
	r.train = set.ByUser()
	for top, want := range map[int]int{2: 1, 4: 6} { // two of four are chance, so that f alone counts
		if o, err := OverlapOf(r, r, top, Cosine); err != nil || o.Items != want || o.Mean != 1 {
			t.Errorf("top %d: %+v, %v; want %d items", top, o, err, want)
		}
	}
	r = made()
	if like, err := r.Similar("a", 1, Cosine); err != nil || like.Note != "" {
		t.Errorf("%v, %+v", err, like)
	}
}
