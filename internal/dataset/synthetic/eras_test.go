package synthetic

import (
	"math"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/internal/effort"
)

// TestSyntheticEras compares what features say of ratings in synthetic:eras with MovieLens latest-small. It takes the mean product of two
// residuals of a user, by genres in common and the distance of years. Residuals are after means of users and items. NumPy computed the
// figures of latest-small.
func TestSyntheticEras(t *testing.T) {
	effort.NotShort(t, "hundreds of thousands of ratings")
	set := generated(t, "eras")
	r := set.Ratings
	mean, users, items := r.Mean(), make([]float64, r.Users), make([]float64, r.Items)
	for range 10 {
		items = shrunkMeans(r.Item, r.Items, 4, func(k int) float64 { return float64(r.Value[k]) - mean - users[r.User[k]] })
		users = shrunkMeans(r.User, r.Users, 5, func(k int) float64 { return float64(r.Value[k]) - mean - items[r.Item[k]] })
	}
	cells := []struct {
		alike      bool // all genres, or none, in common
		from, to   int  // years between
		want       float64
		sum, count float64
	}{
		{true, 0, 2, 0.072, 0, 0}, {true, 11, 20, 0.032, 0, 0}, {true, 21, 40, 0.026, 0, 0},
		{false, 0, 2, -0.010, 0, 0}, {false, 11, 20, -0.034, 0, 0}, {false, 21, 40, -0.039, 0, 0},
	}
	rows := r.ByUser()
	for u := range r.Users {
		rated, values := rows.Row(u)
		rated, values = rated[:min(len(rated), 300)], values[:min(len(values), 300)]
		residual := func(k int) float64 { return float64(values[k]) - mean - users[u] - items[rated[k]] }
		for k, i := range rated {
			for l, j := range rated[:k] {
				common := 0
				for _, g := range set.Genres[i] {
					if slices.Contains(set.Genres[j], g) {
						common++
					}
				}
				all := common == len(set.Genres[i]) && common == len(set.Genres[j])
				apart := set.Years[i] - set.Years[j]
				apart = max(apart, -apart)
				for c := range cells {
					if cell := &cells[c]; (all && cell.alike || common == 0 && !cell.alike) && apart >= cell.from && apart <= cell.to {
						cell.sum += residual(k) * residual(l) / float64(len(rated))
						cell.count += 1 / float64(len(rated))
					}
				}
			}
		}
	}
	for _, c := range cells {
		got := c.sum / c.count
		t.Logf("alike %v, %d to %d years apart: %.4f, of latest-small %.4f", c.alike, c.from, c.to, got, c.want)
		if math.Abs(got-c.want) > 0.025 {
			t.Errorf("alike %v, %d to %d years apart: %.4f, of latest-small %.4f", c.alike, c.from, c.to, got, c.want)
		}
	}
}
