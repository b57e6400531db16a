package fedmf

import "github.com/fedsim/fedsim/model"

// Pass takes one projected gradient step on u_i and v_j for each rating, in the
// given order: plain stochastic gradient descent on ratings in one place. users,
// items and values say whose, of what and how much each rating is.
func (p Params) Pass(u, v *model.Matrix, users, items []int32, values []float32, order []int32, rate float64) {
	for _, k := range order {
		ui, vj := u.Row(int(users[k])), v.Row(int(items[k]))
		step := 2 * rate * (float64(values[k]) - model.Dot(ui, vj))
		for c, x := range ui {
			ui[c] += step * vj[c]
			vj[c] += step * x
		}
		Project(ui, p.MaxRating)
		Project(vj, p.MaxRating)
	}
}

// Order is the identity permutation of n ratings, for a caller to shuffle.
func Order(n int) []int32 {
	order := make([]int32, n)
	for k := range order {
		order[k] = int32(k)
	}
	return order
}
