package kernel

import (
	"runtime"

	"github.com/fedsim/fedsim/model"
)

// Pass takes one projected gradient step on u_i and v_j for each rating, in the given order: plain
// stochastic gradient descent on ratings in one place. users, items and values hold the user, the
// item and the stars of each rating.
func (p Params) Pass(u, v *model.Matrix, users, items []int32, values []float32, order []int32, rate float64) {
	type rating struct {
		user, item []float64
		value      float64
	}
	var block [32]rating
	var loaded float64
	for len(order) > 0 {
		// Loading a block's ratings and the start of its rows before its steps lets the memory
		// answer many requests at a time. A step would wait for each of its own.
		n := min(len(order), len(block))
		for i, k := range order[:n] {
			b := &block[i]
			b.user, b.item, b.value = u.Row(int(users[k])), v.Row(int(items[k])), float64(values[k])
			loaded += b.user[0] + b.item[0]
		}
		for i := range block[:n] {
			b := &block[i]
			p.step(b.user, b.item, 2*rate*(b.value-model.Dot(b.user, b.item)))
		}
		order = order[n:]
	}
	runtime.KeepAlive(loaded)
}

// step adds step·vj to ui and step·ui to vj and projects both, as Project does, in one loop:
// the two norms do not wait for each other.
func (p Params) step(ui, vj []float64, step float64) {
	vj = vj[:len(ui)]
	var normU, normV float64
	for c, x := range ui {
		y := vj[c]
		a, b := x+step*y, y+step*x
		if a < 0 {
			a = 0
		}
		if b < 0 {
			b = 0
		}
		ui[c], vj[c] = a, b
		normU += a * a
		normV += b * b
	}
	Shrink(ui, normU, p.MaxRating)
	Shrink(vj, normV, p.MaxRating)
}

// Order returns the identity permutation of n ratings, for a caller to shuffle.
func Order(n int) []int32 {
	order := make([]int32, n)
	for k := range order {
		order[k] = int32(k)
	}
	return order
}
