package synthetic

import (
	"math/rand/v2"
	"testing"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/internal/idhash"
)

// TestRandomIsPCG compares the stream with the standard library.
func TestRandomIsPCG(t *testing.T) {
	r, want := newRandom(5, 7), rand.NewPCG(5, idhash.Mix(7))
	for k := range 1000 {
		if got, want := r.uint64(), want.Uint64(); got != want {
			t.Fatalf("word %d is %d, want %d", k, got, want)
		}
	}
}

// TestRoughDecidesAsExact compares what rough products decide with what the exact ones do: of chances near and far, and of ratings.
func TestRoughDecidesAsExact(t *testing.T) {
	for _, name := range []string{"small", "libimseti-tenth", "msd", "films"} {
		s, err := shapeOf(name)
		if err != nil {
			t.Fatal(err)
		}
		s.users = 20 // one is enough
		s.ratings = 20 * s.items
		w := (&population{shape: s, catalog: s.makeCatalog(), table: s.levelTable()}).newWorker(dataset.Ratings{}, 0)
		r := newRandom(9, 1)
		copy(w.likes, r.normals(tasteRank))
		w.setTaste()
		for i := range min(s.items, 5000) {
			match := w.match(i)
			chance := w.chance(match)
			for _, uniform := range []int64{int64(r.uint64() >> 11), int64(chance * (1 << 53)), int64(chance*(1<<53)) - 2*w.near, (1 << 53) / 20, (1<<53)/20 + 1} {
				want := 0
				if float64(uniform)/(1<<53) < w.chance(match) {
					want = 1
				}
				if got := w.takes(i, uniform, w.rough.match(&w.catalog.rough[i])); got != want {
					t.Fatalf("%s: candidate %d with chance %v at %v is taken %d times, want %d", name, i, chance, float64(uniform)/(1<<53), got, want)
				}
			}
			noise := float64(w.noise * r.normal())
			if got, want := w.rating(i, 0.1, noise), w.level(0.1+w.catalog.bias[i]+float64(w.taste*match)+noise); got != want {
				t.Fatalf("%s: the rating of item %d is %v, want %v", name, i, got, want)
			}
		}
	}
}

// TestLevelTable: a range that is sure of its level holds no cut, and nearly all ranges are sure. Counts of plays have no levels.
func TestLevelTable(t *testing.T) {
	for _, s := range shapes {
		unsureRanges := 0
		for at, level := range s.levelTable() {
			from, to := lowest+float64(at)*perRange, lowest+float64(at+1)*perRange
			for k, cut := range s.cuts {
				if level != unsure && (int(level) > k) != (cut <= from) || level != unsure && cut > from && cut < to {
					t.Errorf("%s: from %v to %v the level is %d, and there is a cut at %v", s.name, from, to, level, cut)
				}
			}
			if level == unsure {
				unsureRanges++
			}
		}
		if most := 2 + 4*len(s.cuts); s.plays.most == 0 && unsureRanges > most {
			t.Errorf("%s: %d ranges are unsure, want at most %d", s.name, unsureRanges, most)
		}
	}
}
