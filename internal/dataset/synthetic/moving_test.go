package synthetic

import (
	"math"
	"slices"
	"testing"
)

// A moving set has a time for each rating, inside the year, and no rating of an item before the item appears. Ratings of new
// items are there, users come over the year, and a rating late in the year says less about tastes at its start.
func TestMovingSet(t *testing.T) {
	set := open(t, "synthetic:moving", Options{Times: true})
	s, err := shapeOf("moving")
	if err != nil {
		t.Fatal(err)
	}
	born := s.makeMovement().born
	first := make([]float64, set.Users)
	late := 0
	for k, at := range set.Times {
		share := (at - yearStart) / yearSeconds
		if share < 0 || share > 1 || share+1./yearSeconds < born[set.Item[k]] {
			t.Fatalf("rating %d of item %d is at %v, and the item appears at %v", k, set.Item[k], share, born[set.Item[k]])
		}
		if born[set.Item[k]] > 0.5 {
			late++
		}
		if u := set.User[k]; first[u] == 0 || share < first[u] {
			first[u] = share
		}
	}
	if late < 1000 {
		t.Errorf("only %d of %d ratings are of items of the second half", late, set.Len())
	}
	slices.Sort(first)
	if m := first[len(first)/2]; m < 0.1 || m > 0.6 {
		t.Errorf("half of the users have come by %v of the year", m)
	}
	if len(set.Times) != set.Len() || set.Len() != 40_000 {
		t.Errorf("%d times of %d ratings", len(set.Times), set.Len())
	}

	// The bias of an item moves: the least-squares slopes of its ratings over the year scatter more than noise alone has them. The noise
	// is each item's own scatter around its line.
	var sum, excess, n float64
	for i := range set.Items {
		var x, y, xx, xy, yy, count float64
		for k, item := range set.Item {
			if int(item) == i {
				at, v := (set.Times[k]-yearStart)/yearSeconds-0.5, float64(set.Value[k])
				x, y, xx, xy, yy, count = x+at, y+v, xx+at*at, xy+at*v, yy+v*v, count+1
			}
		}
		if spread := xx - x*x/count; count > 100 && spread > 0 {
			slope := (xy - x*y/count) / spread
			noise := (yy - y*y/count - slope*slope*spread) / (count - 2) / spread
			sum += slope*slope - noise
			excess += slope*slope/noise - 1
			n++
		}
	}
	// A star is about one latent unit here: both have a deviation of about 1. Without movement the excess would have the deviation √(2n).
	if moved := math.Sqrt(max(sum/n, 0)); excess < 5*math.Sqrt(2*n) || moved < 0.7*biasMoves || moved > 1.4*biasMoves {
		t.Errorf("biases of %v items move by %v in the year, want about %v", n, moved, biasMoves)
	}
	if still := open(t, "synthetic:moving", Options{}); still.Times != nil || still.Len() != set.Len() || still.Value[7] != set.Value[7] {
		t.Error("without times it is another set")
	}
}
