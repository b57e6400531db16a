package fedssp

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/solver"
	"github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/lab/ssp/steps"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// By hand: with a public least of 20 ratings a rating weighs 1/√max(n, 20). A user of 5 ratings moves the weight of no
// item by more than 1/√20, and a user of 45 by 1/√45. A bias of clip 1.5 declares 1.5/√20 a coordinate.
func TestLeastRatingsBoundOneItem(t *testing.T) {
	for n, counts := range map[int]float64{1: 20, 5: 20, 20: 20, 45: 45} {
		p := full(60, 2)
		p.MeanCap, p.Exponent, p.Least = 0, 0, 20
		var r model.Ratings
		for j := range n {
			r.Items, r.Values = append(r.Items, int32(j)), append(r.Values, 5)
		}
		plan, sums := summed(t, newStrategy(t, p, 1, 0), []*user.User{NewUser(&p, r)})
		near(t, "the weight of a rating", sums.Values[1][:1], []float64{1 / math.Sqrt(counts)}, 1e-12)
		near(t, "bounds", []float64{plan.Releases[0].LInf, plan.Releases[1].LInf}, []float64{1.5 / math.Sqrt(20), 1 / math.Sqrt(20)}, 1e-10)
	}
}

// Vectors of every form keep the bound on coordinates, whatever the broadcast. The client's own check refuses 1.1 times the
// bound. With a least of 9 every bound of an item is a third of the bound without.
func TestCoordinatesKeepTheLeast(t *testing.T) {
	for name, p := range kinds(12, 3) {
		if p.Solver == solver.Variational || p.Solver.Traits().ByUser { // bound a user's vector as a whole
			continue
		}
		before := complete(t, p, 0)
		p.Least, p.Tilt = 9, 0
		held, broadcast := complete(t, p, 0), ordinary(t, p)
		_, rows := people(&p, 40, 0.2, 8)
		for step, s := range held {
			plan := &protocol.Plan{Round: uint64(step + 1), Phase: s.Phase, Cohort: protocol.Cohort{Clients: 40}, Releases: s.Releases, Broadcast: broadcast}
			for i, row := range rows {
				if p.Solver == steps.Joint && s.Phase == kernel.Statistics || len(row.Items) == 0 { // begins at zero
					continue
				}
				list := contribute(t, NewUser(&p, row), plan, i)
				for k, r := range s.Releases {
					if _, err := client.Quantize(list[k], r); err != nil {
						t.Errorf("%s, %s: %v", name, r.Name, err)
					}
				}
			}
			for k, r := range s.Releases {
				lie := make([]float64, r.Len)
				if lie[0] = 1.1 * r.LInf; lie[0] > r.L2 {
					continue
				}
				if _, err := client.Quantize(protocol.Vector{Value: lie}, r); !errors.Is(err, client.ErrOutOfBounds) {
					t.Errorf("%s, %s: 1.1 times the bound is taken: %v", name, r.Name, err)
				}
				bounded := r.Name == kernel.Bias && (p.NormBias > 0 || s.Phase == kernel.Refine) || p.NormItems > 0 && s.Phase == kernel.Statistics // as a whole
				perItem := r.Len%12 == 0 && !slices.Contains([]string{kernel.Gramian, kernel.Counts}, r.Name)
				if want := before[step].Releases[k].LInf / 3; perItem && !bounded && math.Abs(r.LInf/want-1) > 1e-9 {
					t.Errorf("%s, %s: a coordinate is at most %v, want %v", name, r.Name, r.LInf, want)
				}
			}
		}
	}
}
