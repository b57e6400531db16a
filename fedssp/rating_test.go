package fedssp

import (
	"math"
	"testing"

	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/solver"
	"github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Why --unit rating is refused, twice over.
//
// Users are fitted: another value of one of ten ratings moves what its user says of the nine other
// items, in every form.
//
// If users were frozen at numbers of a public seed instead, weights would still depend on the whole
// user: w = 1/√k for each of k ratings. One more rating moves the k others by 1/√k - 1/√(k+1) each
// and adds 1/√(k+1): √(2 - 2√(k/(k+1))) together, by hand. A user's first rating moves by 1, the
// bound of the whole user. So ε per rating would equal ε per user.
func TestRatingMovesAllThatItsUserSends(t *testing.T) {
	for _, name := range kindNames() {
		p := kinds(30, 3)[name]
		if p.Feedback == kernel.Implicit || p.Budgeting == kernel.UniformSample || p.Budgeting == kernel.TailSample || p.Solver == solver.Variational {
			// values do not matter; or the sent ratings are another draw; or there is no noise, and
			// no user is protected
			continue
		}
		if byUser(&p) {
			continue // one gradient of all ratings, clipped as a whole: each of them moves all of it
		}
		steps := complete(t, p, 0)
		last := steps[len(steps)-1]
		m := start(p)
		m.Counts, m.Bias = make([]float64, p.Items), make([]float64, p.Items)
		for j := range m.Counts {
			m.Counts[j] = float64(10 + j)
		}
		if descends(&p) {
			e, err := p.NewEncoder()
			if err != nil {
				t.Fatal(err)
			}
			m.Theta = e.Theta()
		}
		sent := func(value float64) []float64 {
			var r model.Ratings
			for j := range 10 {
				r.Items, r.Values = append(r.Items, int32(3*j)), append(r.Values, float32(p.Min+0.3+0.9*float64(j%3)))
			}
			r.Values[9] = float32(value)
			plan := &protocol.Plan{Round: uint64(len(steps)), Phase: last.Phase, Cohort: protocol.Cohort{Clients: 1000}, Releases: last.Releases, Broadcast: m.Encode()}
			var all []float64
			for c, v := range contribute(t, NewUser(&p, r), plan, 1) {
				if n := last.Releases[c].Len; n == p.Items*p.Rank { // moments, a row each
					all = append(all, spread(v, n)...)
				}
			}
			return all
		}
		low, high := sent(p.Min), sent(p.Max)
		if len(low) == 0 {
			t.Errorf("%s: no release has a row for each item", name)
		}
		others := 0
		for j := range 9 {
			for c := range p.Rank {
				if low[3*j*p.Rank+c] != high[3*j*p.Rank+c] {
					others++
					break
				}
			}
		}
		if others < 9 {
			t.Errorf("%s: a rating moved the rows of %d of 9 other items", name, others)
		}
	}
	for k := range 5 {
		before, after := make([]float64, k), make([]float64, k+1)
		if k > 0 {
			user.Weigh(before, nil, 0)
		}
		user.Weigh(after, nil, 0)
		square := after[k] * after[k]
		for i, w := range before {
			square += (after[i] - w) * (after[i] - w)
		}
		want := 1.
		if k > 0 {
			want = math.Sqrt(2 - 2*math.Sqrt(float64(k)/float64(k+1)))
		}
		if math.Abs(math.Sqrt(square)-want) > 1e-12 {
			t.Errorf("rating %d moves weights by %v, by hand %v", k+1, math.Sqrt(square), want)
		}
	}
}
