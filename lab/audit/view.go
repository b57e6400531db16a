package audit

import (
	"math"

	"github.com/fedsim/fedsim/protocol"
)

// features of a view: how far what was released lies in the direction of the unit, in units
// of the noise, summed over all releases of a run.
const (
	inputs = iota // the sums before noise is taken back
	own           // what the unit's client took back; 0 where only the sum of it is seen
	others        // what the others took back, or all
	features
)

// view holds the attacker's numbers of a run. likelihood is the logarithm of the likelihood ratio of everything
// released, under the stated law. It adds up over releases, since their noise is independent. The attacker learns
// whether the features tell more.
type view struct {
	likelihood float64
	feature    [features]float64
	pulls      []pull // until the pair is measured
}

// adversaryView is the view of server and aggregator of one attempt. For each release it holds the sum of the
// masked inputs of honest clients, and the noise that was taken back.
type adversaryView struct {
	plan      *protocol.Plan
	base      [][]int64 // what the unit's client sends while its record is empty
	shifts    [][]int64
	survivors int // with the colluding clients
	silent    int // honest survivors that took no noise back
	answered  int // honest survivors that took noise back
	sums      [features][][]int64
}

func newAdversaryView(p *protocol.Plan, base, shifts [][]int64, lost []loss) *adversaryView {
	s := &adversaryView{plan: p, base: base, shifts: shifts, survivors: p.Cohort.Colluding()}
	for _, l := range lost {
		switch l {
		case never:
			s.answered++
		case afterInput:
			s.silent++
		case beforeInput:
			continue
		}
		s.survivors++
	}
	for k := range s.sums {
		s.sums[k] = make([][]int64, len(p.Releases))
		for i, r := range p.Releases {
			s.sums[k][i] = make([]int64, r.Len)
		}
	}
	return s
}

func (s *adversaryView) hear(input []protocol.Integers) { s.add(inputs, input) }

// takeBack notes what a client took back. Changes of replaced noise are summed under masks,
// so no party sees one client's change.
func (s *adversaryView) takeBack(targets bool, removal []protocol.Integers) {
	if targets && s.plan.Releases[0].Noise.Kind != protocol.TwoRound {
		s.add(own, removal)
	} else {
		s.add(others, removal)
	}
}

func (s *adversaryView) add(k int, vectors []protocol.Integers) {
	for i, x := range vectors {
		x.AddTo(s.sums[k][i])
	}
}

// note adds the attempt to the view of a run. Releases of a sample are there together or not at all.
func (s *adversaryView) note(v *view) {
	var together, rate float64
	drawn := false
	defer func() { v.likelihood += math.Log1p(rate * math.Expm1(together)) }()
	for i, r := range s.plan.Releases {
		variance := r.Noise.Variance
		var along, length float64
		told := &v.likelihood
		if q := sampled(r); q < 1 {
			told, rate = &together, q
		}
		for j, d := range s.shifts[i] {
			if d == 0 {
				continue
			}
			for k := range s.sums {
				v.feature[k] += float64(d) * float64(s.sums[k][i][j]) / variance
			}
			input := s.sums[inputs][i][j] - s.base[i][j]
			released := input + s.sums[own][i][j] + s.sums[others][i][j]
			along, length = along+float64(d)*float64(released), length+float64(d)*float64(d)
			*told += ratio(released, d, s.left(r))
			if r.Noise.Kind == protocol.TwoRound {
				first := float64(s.silent+s.answered) * s.plan.Cohort.ShareVariance(variance)
				v.likelihood += ratio(input, d, first)
			}
		}
		if rate > 0 && told == &together && length > 0 && !drawn { // the releases of a plan share a draw
			drawn = true
			v.pulls = append(v.pulls, pull{along / length, math.Sqrt(s.left(r) / length), rate})
		}
	}
}

// left is the variance of the honest clients' noise in the sum that is released.
func (s *adversaryView) left(r protocol.Release) float64 {
	c, v := s.plan.Cohort, r.Noise.Variance
	return float64(s.answered)*v/float64(c.Honest(s.survivors)) + float64(s.silent)*c.ShareVariance(v)
}

// ratio is the logarithm of how much likelier x is when d was added to Skellam noise.
func ratio(x, d int64, variance float64) float64 {
	return logSkellam(float64(x-d), variance) - logSkellam(float64(x), variance)
}

// logSkellam is the logarithm of the probability that Skellam noise of a variance is k, by
// the saddle point with its first correction: within 1e-3 from a variance of 10 on. The
// attacker needs no more, since any statistic gives a true bound.
func logSkellam(k, variance float64) float64 {
	root := math.Hypot(variance, k) // the second derivative at the saddle point
	s := math.Asinh(k / variance)
	skew := k / root
	correction := (1 - 5*skew*skew/3) / (8 * root)
	return root - variance - k*s - math.Log(2*math.Pi*root)/2 + math.Log1p(correction)
}
