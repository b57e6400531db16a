package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// planted returns ratings that two factors explain exactly, within the ball: a minimum at which the
// gradient is zero, projections aside. Two thirds of the pairs of 20 users and 15 items have a
// rating.
func planted(rng *rand.Rand, party func(user, item int) int) *slow {
	const n, m, rank = 20, 15, 2
	s := &slow{u: model.NewMatrix(n, rank), v: model.NewMatrix(m, rank)}
	for _, x := range []*model.Matrix{s.u, s.v} {
		for i := range x.Data() {
			x.Data()[i] = 0.5 + rng.Float64()
		}
	}
	for i := range n {
		for j := range m {
			if rng.IntN(3) > 0 {
				s.x = append(s.x, triple{party(i, j), i, j, model.Dot(s.u.Row(i), s.v.Row(j))})
			}
		}
	}
	return s
}

// steepness returns the norm of the gradient of the mean loss over all parties' ratings, by the
// slow reference.
func (s *slow) steepness(parties int, u, v *model.Matrix) float64 {
	gu, gv := model.NewMatrix(u.Rows(), u.Cols()), model.NewMatrix(v.Rows(), v.Cols())
	for k := range parties {
		a, b := s.gradients(k, u, v)
		for i, x := range a.Data() {
			gu.Data()[i] += x
		}
		for i, x := range b.Data() {
			gv.Data()[i] += x
		}
	}
	return math.Sqrt(model.Dot(gu.Data(), gu.Data())+model.Dot(gv.Data(), gv.Data())) / float64(len(s.x))
}

// vanilla runs FMF with three parties for T rounds of two local steps on samples of half of the
// ratings, at the step size of the theorem. It returns the mean of the gradient's norm over the
// rounds.
func vanilla(t *testing.T, horizontally bool, rounds int) float64 {
	const n, m, rank, local = 20, 15, 2, 2
	party := func(user, item int) int {
		if horizontally {
			return user % 3
		}
		return item % 3
	}
	ref := planted(rand.New(rand.NewPCG(9, 9)), party)
	p := soundParams(n, m, rank)
	p.Rounds, p.LocalSteps, p.SamplingRate, p.Density, p.Spread = rounds, local, 0.5, 2./3, 0.1
	p.StartMean, p.UserRate = 1, 0.8/(local*math.Sqrt(float64(rounds)))
	p.ItemRate = p.UserRate * n / m
	p.TrainUsers, p.RandomUsers, p.Unit = true, true, dp.User
	p.ClipRatings = m
	var parties []client.Trainer
	u, v := p.StartUsers(n), p.StartItems()
	server := newAverage(t, p, u, false, protocol.Noise{})
	if horizontally {
		server = newAverage(t, p, v, false, protocol.Noise{})
	}
	copies := make([]func(), 3)
	for k := range copies {
		own := indicesOfMod(n, m, k, horizontally)
		if horizontally {
			h := newHorizontal(t, &p, own, rowsOf(ref.x, k, len(own), func(r triple) (int, int) { return slices.Index(own, int32(r.user)), r.item }))
			parties = append(parties, h)
			copies[k] = func() {
				for i, user := range own {
					copy(u.Row(int(user)), h.Users.Row(i))
				}
			}
			continue
		}
		h := newVertical(t, &p, own, rowsOf(ref.x, k, n, func(r triple) (int, int) { return r.user, slices.Index(own, int32(r.item)) }))
		parties = append(parties, h)
		copies[k] = func() {
			for i, item := range own {
				copy(v.Row(int(item)), h.exact().Row(i))
			}
		}
	}
	var sum float64
	for range rounds {
		iterate(t, server, parties)
		for _, c := range copies {
			c()
		}
		if horizontally {
			v = server.shared.Matrix
		} else {
			u = server.shared.Matrix
		}
		sum += ref.steepness(3, u, v)
	}
	return sum / float64(rounds)
}

// indicesOfMod returns the users, or items, of party k of three.
func indicesOfMod(n, m, k int, horizontally bool) (own []int32) {
	if !horizontally {
		n = m
	}
	for i := k; i < n; i += 3 {
		own = append(own, int32(i))
	}
	return own
}

// The mean norm of the gradient over T rounds falls at least like T^(-1/2) with a step size of
// O(√D/(T'√T)) (FMF paper, theorem 2). The slope of the least-squares line through the logarithms
// is at most -0.4. Steps fall over a run to a tenth, as in all runs here, which is a constant
// factor.
func TestConvergence(t *testing.T) {
	for name, horizontally := range map[string]bool{"VFL": false, "HFL": true} {
		var x, y []float64
		for _, rounds := range []int{10, 40, 160, 640} {
			norm := vanilla(t, horizontally, rounds)
			x, y = append(x, math.Log(float64(rounds))), append(y, math.Log(norm))
		}
		var mx, my, xy, xx float64
		for i := range x {
			mx, my = mx+x[i]/4, my+y[i]/4
		}
		for i := range x {
			xy, xx = xy+(x[i]-mx)*(y[i]-my), xx+(x[i]-mx)*(x[i]-mx)
		}
		t.Logf("%s: logarithms %.3v, slope %.3f", name, y, xy/xx)
		if slope := xy / xx; !(slope <= -0.4) {
			t.Errorf("%s: the gradient falls like T^%.3f, want at least T^-0.4", name, slope)
		}
	}
}
