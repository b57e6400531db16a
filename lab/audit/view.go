package audit

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/lab/internal/observe"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
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
	*attempt
	survivors int // with the colluding clients
	silent    int // honest survivors that took no noise back
	answered  int // honest survivors that took noise back
	sums      [features][][]int64
}

func newAdversaryView(x *attempt, lost []loss) *adversaryView {
	s := &adversaryView{attempt: x}
	for _, l := range lost {
		if l == never {
			s.answered++
		} else if l == afterInput {
			s.silent++
		}
	}
	s.survivors = x.plan.Cohort.Colluding() + s.answered + s.silent
	for k := range s.sums {
		s.sums[k] = lists.Map(x.plan.Releases, func(r protocol.Release) []int64 { return make([]int64, r.Len) })
	}
	return s
}

// takeBack notes what a client took back. Changes of replaced noise are summed under masks,
// so no party sees one client's change.
func (s *adversaryView) takeBack(targets bool, removal []protocol.Integers) {
	by := others
	if targets && s.plan.Releases[0].Noise.Kind != protocol.TwoRound {
		by = own
	}
	s.add(by, removal)
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

// weighed identifies a contribution.
type weighed struct {
	client  protocol.ClientID
	round   uint64
	release string
}

// sentVector is a contribution of a client that holds the unit.
type sentVector struct {
	vector protocol.Vector
	to     protocol.Release
}

// weigh compares a client's contributions with the bounds of their releases, apart from the client role, which does so too. It
// keeps the contributions of clients that hold the unit.
func (w *witness) weigh(id protocol.ClientID, p *protocol.Plan, list []protocol.Vector) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, v := range list {
		r := p.Releases[i]
		w.contributions++
		if what := exceeded(sizeOf(v), r); what != "" {
			w.beyond = append(w.beyond, fmt.Sprintf("client %d sends to release %s in round %d a vector whose %s", id, r.Name, p.Round, what))
		}
		if w.owners[id] && r.Noise.Kind != protocol.PartyNoise { // a party's own noise is in its vector already
			w.own[weighed{id, p.Round, r.Name}] = sentVector{observe.Copy(v, r), r}
		}
	}
}

// exceeded says which bound of a release a vector is beyond; "" where it is within all.
func exceeded(s size, r protocol.Release) string {
	const rounding = 1e-9
	for _, b := range []struct {
		what      string
		is, bound float64
	}{
		{"L2 norm", s.l2, r.L2}, {"L1 norm", s.l1, r.L1}, {"largest coordinate", s.largest, r.LInf},
		{"number of coordinates other than zero", float64(s.nonZero), float64(r.MaxNonZero)},
	} {
		if b.bound > 0 && b.is > b.bound*(1+rounding) {
			return fmt.Sprintf("%s is %.4g times its bound of %g", b.what, b.is/b.bound, b.bound)
		}
	}
	return ""
}

// apart compares what the clients that hold the unit contribute with it and without it. The two may be as far apart as the
// sensitivity of their release says, in integers. If the unit is a whole client, its empty record must add zero.
func apart(with, without map[weighed]sentVector, whole bool) (differences []string, err error) {
	for key, empty := range without {
		if s := sizeOf(empty.vector); whole && s.nonZero > 0 {
			differences = append(differences, fmt.Sprintf("client %d sends to release %s in round %d a vector of L2 norm %.4g although its record is empty; it must send zeros",
				key.client, key.release, key.round, s.l2))
		}
	}
	for key, full := range with {
		empty := without[key] // nothing, where its client sent none
		a, err1 := integers(full.vector, full.to)
		b, err2 := integers(empty.vector, full.to)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		var l1, l2 float64
		for j := range a {
			d := math.Abs(float64(a[j] - b[j]))
			l1, l2 = l1+d, l2+d*d
		}
		d2, d1 := full.to.Bounds()
		if l2 = math.Sqrt(l2); l2 > d2*(1+1e-9) || l1 > d1*(1+1e-9) {
			differences = append(differences, fmt.Sprintf("client %d moves release %s in round %d by %.4g (L2) and %.4g (L1), in integers; its sensitivity is %.4g and %.4g",
				key.client, key.release, key.round, l2, l1, d2, d1))
		}
	}
	slices.Sort(differences)
	return differences, nil
}

// The size of the audited federation. The privacy of a release does not depend on the numbers of items and clients,
// except the clients that share its noise. A small federation is audited fast.
const (
	Users = 12
	Items = 3
	// Parties is the number of organisations, if organisations are clients.
	Parties = 2
)

// Open opens an experiment as it is audited: on a small federation whose clients draw their own
// noise, without the cryptography, which changes no sum.
func Open(said []config.Setting) (*experiment.Experiment, error) {
	// The default number of parties is for more items than there are.
	said, _ = config.Over([]config.Setting{{Key: algorithm.Parties.Name, Value: strconv.Itoa(Parties), Origin: "the audit"}}, said)
	c, err := config.Resolve(said)
	if err != nil {
		return nil, err
	}
	algorithm.NoiseDraw.Set(&c, "client")
	if algorithm.SplitBy.Is(c, string(split.Random)) { // nothing is measured, and of so few ratings a test part may be empty
		algorithm.SplitTest.Set(&c, 0)
		algorithm.SplitValidation.Set(&c, 0)
	}
	if algorithm.Secagg.Is(c, "real") {
		algorithm.Secagg.Set(&c, "ideal")
		algorithm.Mode.Set(&c, secagg.SemiHonest.String())
		algorithm.VerifyInputs.Set(&c, "no")
	}
	if algorithm.CohortSize.Int(c) > Users/2 {
		algorithm.CohortSize.Set(&c, Users/2)
	}
	set, err := Small(c)
	if err != nil {
		return nil, err
	}
	return experiment.OpenSet(c, set)
}

// Small is the data of the audited federation: every user has rated every item, so that
// nothing but the settings decides what is released. The ratings go up and down the scale.
func Small(c config.Config) (*dataset.Set, error) {
	o := experiment.DataOptions(c)
	lo, hi := 1., 5.
	o.Min = cmp.Or(o.Min, &lo)
	o.Max = cmp.Or(o.Max, &hi)
	var list []read.Rating
	for u := range Users {
		for j := range Items {
			part := float64((u+2*j)%5) / 4
			list = append(list, read.Rating{
				User: fmt.Sprintf("user %d", u), Item: fmt.Sprintf("item %d", j), Value: *o.Min + math.Round(part*(*o.Max-*o.Min)), Time: float64(u*Items + j),
			})
		}
	}
	set, err := read.FromRatings("audit", list, o)
	if err != nil {
		return nil, err
	}
	for j := range set.Items { // public, for what learns from features
		set.Genres = append(set.Genres, []string{[]string{"Comedy", "Drama"}[j%2]})
	}
	return set, nil
}

// target is the trainer of the unit's client: it sends what moves sums most.
type target map[string]protocol.Vector // by release

// Contribute implements client.Trainer. Of releases of a sample it gives something where its coin says so.
func (v target) Contribute(p *protocol.Plan, src entropy.Source, _ protocol.Runner) ([]protocol.Vector, error) {
	coin, err := entropy.Uniform(src.Stream("batch", p.Round), 1<<53)
	if err != nil {
		return nil, err
	}
	toss := float64(coin) / (1 << 53)
	list := make([]protocol.Vector, len(p.Releases))
	for i, r := range p.Releases {
		list[i] = protocol.Vector{Index: []uint32{}}
		if x, there := v[r.Name]; there && toss < sampled(r) {
			list[i] = x
		}
	}
	return list, nil
}

// sampled is the chance of a client to be in a release.
func sampled(r protocol.Release) float64 {
	return cmp.Or(r.Noise.SamplingRate, 1)
}

// Finish does nothing: the target has no model to finish.
func (target) Finish([]byte, protocol.Runner) error { return nil }

// worst returns the longest vector that the bounds of a release allow, on as few coordinates as
// they allow. If the noise is alike on all coordinates, the length tells the worlds apart. Among vectors of one
// length the L1 norm matters, and it is least on few coordinates.
func worst(r protocol.Release) protocol.Vector {
	most := func(bound float64) float64 { return cmp.Or(bound, math.Inf(1)) }
	v := protocol.Vector{Value: make([]float64, r.Len)}
	length := r.L2
	if r.Sensitivity > 0 { // what one unit makes of it
		length = min(length, r.Sensitivity)
	}
	left2, left1 := length*length, most(r.L1)
	for j := range r.MaxNonZero {
		x := min(most(r.LInf), math.Sqrt(left2), left1)
		v.Value[j] = x
		left2, left1 = max(0, left2-x*x), left1-x
	}
	return v
}
