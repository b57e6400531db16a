package kernel

import (
	"math"
	"testing"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/model"
)

// Why HFL refuses --unit rating. Users are fitted to all their ratings, and a rating changes u_i
// and so the gradients of all items that the user rated. Twenty ratings, half of them 0 and half R,
// are of items in one direction, where errors of R/2 remain. One more rating is of an item in
// another direction, and alone decides that component of u. The gradient of V moves by more than
// 2R^{3/2}, which the FMF paper claims per rating, and by less than 4R^{3/2}√θ, the bound for θ
// rows that may all turn round.
func TestRatingMovesEveryRowOfItsUser(t *testing.T) {
	const others = 20
	p := soundParams(1, others+1, 2)
	p.Unit = dp.Rating
	v := model.NewMatrix(others+1, 2)
	rows := make([]model.Ratings, 1)
	for j := range others {
		v.Row(j)[0] = math.Sqrt(p.MaxRating)
		rows[0].Items, rows[0].Values = append(rows[0].Items, int32(j)), append(rows[0].Values, float32(j%2)*float32(p.MaxRating))
	}
	v.Row(others)[1] = math.Sqrt(p.MaxRating)
	gradient := func(rows []model.Ratings) []float64 {
		u := model.NewMatrix(1, 2)
		copy(u.Row(0), p.User(rows[0], v))
		return sumOfGradients(t, &p, newTable(rows), u, v, sensitive{dp.Rating, EmbeddingClipping, true, true})
	}
	without := gradient(rows)
	rows[0].Items, rows[0].Values = append(rows[0].Items, others), append(rows[0].Values, 0)
	with := gradient(rows)
	var square float64
	touched := 0
	for j := range others + 1 {
		row := 0.
		for c := range 2 {
			row += math.Pow(with[2*j+c]-without[2*j+c], 2)
		}
		if row > 1e-6 {
			touched++
		}
		square += row
	}
	moved, unit := math.Sqrt(square), math.Pow(p.MaxRating, 1.5)
	t.Logf("a rating moves %d rows, by %.1f together; 2R^{3/2} is %.1f, 4R^{3/2}√θ %.1f", touched, moved, 2*unit, 4*unit*math.Sqrt(others+1))
	if touched < others || moved <= 2*unit || moved > 4*unit*math.Sqrt(others+1) {
		t.Errorf("a rating moves %d rows, by %v", touched, moved)
	}
}
