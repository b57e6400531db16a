package fedssp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/solver"
	"github.com/fedsim/fedsim/internal/fedssp/stage"
	lab "github.com/fedsim/fedsim/lab/ssp/steps"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// record returns a user's ratings of the kind numbered k: random ratings and adversarial ones.
func record(p *kernel.Params, rng *rand.Rand, k int) model.Ratings {
	var r model.Ratings
	rate := func(j int, x float32) {
		r.Items, r.Values = append(r.Items, int32(j)), append(r.Values, x)
	}
	top, bottom := float32(p.Max), float32(p.Min)
	switch k % 8 {
	case 0: // none
	case 1:
		rate(rng.IntN(p.Items), top)
	case 2:
		rate(rng.IntN(p.Items), bottom)
	case 3: // everything, as high as can be
		for j := range p.Items {
			rate(j, top)
		}
	case 4: // everything, extremes in turn
		for j := range p.Items {
			rate(j, []float32{top, bottom}[j%2])
		}
	case 5: // two items, extremes
		rate(0, top)
		rate(p.Items-1, bottom)
	default:
		chance := rng.Float64()
		for j := range p.Items {
			if rng.Float64() < chance {
				rate(j, bottom+float32(rng.IntN(int(top-bottom)+1)))
			}
		}
	}
	return r
}

// hostile returns a model of the kind numbered k: an honest model and models that a server might
// send to raise a user's norm.
func hostile(p *kernel.Params, rng *rand.Rand, k int) *kernel.Model {
	m := start(*p)
	m.Counts, m.Bias = make([]float64, p.Items), make([]float64, p.Items)
	for j := range m.Counts {
		m.Counts[j], m.Bias[j] = 1000*rng.Float64(), rng.NormFloat64()
	}
	worst := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, -1e300, 1e300, 1e-300, math.MaxFloat64, 5}
	fill := func(x []float64, share float64) {
		for i := range x {
			if rng.Float64() < share {
				x[i] = worst[rng.IntN(len(worst))]
			}
		}
	}
	if descends(p) {
		e, err := p.NewEncoder()
		if err != nil {
			panic(err)
		}
		m.Theta = e.Theta()
		fill(m.Theta, []float64{0, 0, 0.3, 0, 0.1, 1}[k%6])
	}
	switch k % 6 {
	case 0:
	case 1: // counts that put all the weight on one item
		fill(m.Counts, 1)
		m.Counts[rng.IntN(p.Items)] = -5
	case 2:
		fill(m.Items, 0.3)
		fill(m.Gramian, 0.3)
	case 3: // embeddings that stretch u as far as the ridge allows
		for i := range m.Items {
			m.Items[i] = 1e-3 * rng.NormFloat64()
		}
	case 4:
		fill(m.Bias, 0.5)
		m.Mean = worst[rng.IntN(len(worst))]
	case 5:
		fill(m.Items, 1)
		fill(m.Bias, 1)
		fill(m.Counts, 1)
		m.Mean = math.NaN()
	}
	if p.Feedback == kernel.Implicit {
		m.Bias = nil
	}
	if p.PopularWidth() > 0 && k%2 == 0 {
		m.Popularity = make([]float64, p.Items)
		fill(m.Popularity, 0.5)
	}
	if p.Solver == solver.Variational && k%3 > 0 {
		m.Covariance, m.Variances = make([]float64, p.Items*p.PackedJoint()), []float64{0.5, 0.2, 1e-6, 9}
		fill(m.Covariance, []float64{0, 0.1, 1}[rng.IntN(3)])
		if k%4 == 0 {
			x := m.Variances
			fill(x, 0.5)
			m.Variances = x
		}
	}
	return m
}

// An emptied record moves a release by the user's whole contribution. The contribution is within
// every declared bound, for every user and every broadcast of the server. The test takes 320 users, or 1,000,
// random and adversarial, of every kind of run, and computes their norms itself.
// Worst cases reach more than 0.99 of the L2 bound where it is meant to be tight.
func TestSensitivity(t *testing.T) {
	for _, name := range kindNames() {
		t.Run(name, func(t *testing.T) {
			p := kinds(30, 3)[name]
			p.UserRidge = 1e-4 // u as long as the clipping allows
			steps := complete(t, p, 0)
			worst := map[string]float64{}
			rng := rand.New(rand.NewPCG(11, 11))
			users := effort.Of(80, 320, 1000)
			if p.NormItems > 0 || p.Solver == solver.Variational { // few users come near these bounds
				users = effort.Of(80, 1000, 1000)
			}
			for k := range users {
				user := NewUser(&p, record(&p, rng, k))
				model := hostile(&p, rng, k/8).Encode()
				for i, s := range steps {
					plan := &protocol.Plan{Round: uint64(i + 1), Phase: s.Phase, Cohort: protocol.Cohort{Clients: 1000}, Releases: s.Releases, Broadcast: model}
					for c, v := range contribute(t, user, plan, k) {
						share := within(t, fmt.Sprintf("user %d, step %d", k, i+1), s.Releases[c], v)
						worst[s.Releases[c].Name] = max(worst[s.Releases[c].Name], share)
					}
				}
			}
			for release, share := range worst {
				least := 0.99
				switch {
				case release == kernel.Mean && p.MeanCap > 1:
					least = 0.99 // all ratings at an end of the scale
				case (release == kernel.Gramian || release == kernel.Gramians) && p.NormItems > 0:
					least = 0.8 // a u that is long comes with residuals that are, and is scaled down with them
				case p.Bounded() && p.Solver == solver.Variational && (release == kernel.SecondMoments || release == kernel.FirstMoments):
					least = 0.99 // measured, and scaled down to it
				case p.Solver == solver.Variational && (release == kernel.SecondMoments || release == kernel.FirstMoments):
					least = 0.24 // of a user as precise as others; up to four times that is left for others
				case release == kernel.Scales && p.Bounded():
					least = 0.5 // each in units of its own
				case release == kernel.Scales:
					least = 0.15 // all of them are not at their largest at once
				case p.Solver == solver.Variational && release == kernel.Gramian:
					least = 0.6 // the rest of the bound is of the 1 and the means beside u
				case release == "hessians" && lab.Of(&p).Loss == lab.Huber:
					least = 0.3 // half the items are beyond the width
				case (release == "hessians" || release == "gradients") && p.Logits:
					least = 0.3 // ℓ″ is 1/4 where ℓ′ is 1/2; predictions are not both at once
				}
				if share < least && !testing.Short() {
					t.Errorf("release %q reaches %.3f of its L2 bound at most; at least %.2f was expected: it is not tight", release, share, least)
				}
			}
		})
	}
}

// within checks every declared bound of a contribution and returns its share of the L2 bound.
func within(t *testing.T, who string, r protocol.Release, v protocol.Vector) float64 {
	t.Helper()
	var l2, l1, largest float64
	nonZero := 0
	if err := v.Validate(r.Len); err != nil {
		t.Fatalf("%s: release %q: %v", who, r.Name, err)
	}
	for _, x := range spread(v, r.Len) {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			t.Fatalf("%s: release %q holds %v", who, r.Name, x)
		}
		l2 += x * x
		l1 += math.Abs(x)
		largest = max(largest, math.Abs(x))
		if x != 0 {
			nonZero++
		}
	}
	l2 = math.Sqrt(l2)
	const rounding = 1e-12
	if l2 > r.L2*(1+rounding) {
		t.Fatalf("%s: release %q has L2 norm %v; %v is declared", who, r.Name, l2, r.L2)
	}
	if r.L1 > 0 && l1 > r.L1*(1+rounding) {
		t.Fatalf("%s: release %q has L1 norm %v; %v is declared", who, r.Name, l1, r.L1)
	}
	if r.LInf > 0 && largest > r.LInf { // to the last bit, as a client checks it
		t.Fatalf("%s: release %q has a coordinate of %v; %v is declared", who, r.Name, largest, r.LInf)
	}
	if nonZero > r.MaxNonZero {
		t.Fatalf("%s: release %q has %d non-zeros; %d are declared", who, r.Name, nonZero, r.MaxNonZero)
	}
	return l2 / r.L2
}

// A client checks a contribution to the last bit, and would send nothing in place of an invalid
// one. If all of a user's u, or all of its ratings, are in one coordinate, the coordinate is as
// large as its bound. Few such numbers have a square or a middle that float64 holds; the scales and
// clippings are chosen so.
func TestContributionsAreTaken(t *testing.T) {
	effort.NotShort(t, "whole runs")
	for _, name := range kindNames() {
		rng := rand.New(rand.NewPCG(12, 12))
		for range effort.Of(0, 30, 100) {
			p := kinds(8, 1)[name]
			p.ClipUser, p.UserRidge = 0.1+rng.Float64(), 1e-4
			if lab.Of(&p).Loss == lab.Huber {
				p.Own = lab.Settings{Loss: lab.Huber, LossWidth: 0.1 + rng.Float64()}
			}
			if descends(&p) {
				clip(&p, 0.1+rng.Float64())
			}
			if p.MeanCap > 0 {
				p.MeanCap = 1
			}
			if p.Feedback == kernel.Explicit {
				low, high := float64(rng.IntN(30))/10, float64(35+rng.IntN(60))/10
				p.Min, p.Max = min(low, float64(float32(low))), max(high, float64(float32(high))) // ratings are float32
				p.ClipRating, p.ClipBias = 0.1+rng.Float64(), 0.1+rng.Float64()
			}
			steps := complete(t, p, 0)
			for k := range 6 {
				user, model := NewUser(&p, record(&p, rng, k)), hostile(&p, rng, 3).Encode()
				for i, s := range steps {
					plan := &protocol.Plan{Round: uint64(i + 1), Phase: s.Phase, Cohort: protocol.Cohort{Clients: 1000}, Releases: s.Releases, Broadcast: model}
					for c, v := range contribute(t, user, plan, k) {
						if _, err := client.Quantize(v, s.Releases[c]); err != nil {
							t.Fatalf("%s, clipped to %v: %v", name, p.ClipUser, err)
						}
					}
				}
			}
		}
	}
}

// A user's sample is drawn once: in every round the same ratings take part.
func TestSampleIsDrawnOnce(t *testing.T) {
	p := kinds(200, 2)["uniform"]
	users, _ := people(&p, 1, 0.5, 4)
	seen := map[string]bool{}
	for i, s := range complete(t, p, 0) {
		plan := &protocol.Plan{Round: uint64(i + 1), Phase: s.Phase, Releases: s.Releases, Broadcast: start(p).Encode()}
		v := contribute(t, users[0], plan, 0)
		items := ""
		for _, k := range v[len(v)-1].Index {
			items += fmt.Sprint(k, " ")
		}
		seen[items] = true
	}
	if len(seen) != 1 {
		t.Errorf("samples differ: %v", seen)
	}
}

// A server's message is answered or refused by its content, never by the ratings of the client.
func TestRefusalsDoNotDependOnRatings(t *testing.T) {
	p := full(20, 2)
	users, _ := people(&p, 5, 0.5, 8)
	users = append(users, NewUser(&p, model.Ratings{}))
	good := complete(t, p, 0)[2]
	odd := good.Releases[0]
	odd.Name = "ratings"
	short := good.Releases[0]
	short.Len--
	for _, c := range []struct {
		name string
		plan protocol.Plan
	}{
		{"another release", protocol.Plan{Releases: []protocol.Release{odd}, Broadcast: start(p).Encode()}},
		{"another length", protocol.Plan{Releases: []protocol.Release{short}, Broadcast: start(p).Encode()}},
		{"own noise", protocol.Plan{Releases: []protocol.Release{{Noise: protocol.Noise{Kind: protocol.PartyNoise}}}, Broadcast: start(p).Encode()}},
		{"no model", protocol.Plan{Releases: good.Releases}},
		{"another model", protocol.Plan{Releases: good.Releases, Broadcast: start(p).Encode()[1:]}},
	} {
		for i, u := range users {
			if _, err := u.Contribute(&c.plan, simulated.New(1, "x"), serial{}); err == nil {
				t.Errorf("%s: user %d answers", c.name, i)
			}
		}
	}
}

// Ratings that break the scale are the owner's to hear of. The error is logged, so it holds no
// rating, item or number of them: none of the digits here, of 20 items rated from 1 to 5, is in the
// settings.
func TestUserChecksRatings(t *testing.T) {
	p := full(20, 2)
	plan := &protocol.Plan{Round: 1, Releases: complete(t, p, 0)[0].Releases, Broadcast: start(p).Encode()}
	nan := float32(math.NaN())
	for _, r := range []model.Ratings{
		{Items: []int32{1, 2}, Values: []float32{3}}, {Items: []int32{2, 1}, Values: []float32{3, 3}}, {Items: []int32{1, 1}, Values: []float32{3, 3}}, {Items: []int32{-1}, Values: []float32{3}},
		{Items: []int32{20}, Values: []float32{3}}, {Items: []int32{1}, Values: []float32{5.5}}, {Items: []int32{1}, Values: []float32{0}}, {Items: []int32{1}, Values: []float32{nan}},
		{Items: []int32{7, 6}, Values: []float32{3, 4}}, {Items: []int32{8, 9}, Values: []float32{3, 7.5}}, {Items: []int32{3, 4, 6, 7, 8, 9}, Values: make([]float32, 6)},
		{Items: []int32{3, 4, 6}, Values: make([]float32, 7)},
	} {
		u := NewUser(&p, r)
		_, err := u.Contribute(plan, simulated.New(1, "x"), serial{})
		if err == nil {
			t.Errorf("%v is contributed", r)
		} else if strings.ContainsAny(err.Error(), "346789") {
			t.Errorf("%v is refused with %q, which says what it is", r, err)
		}
		if err := u.Finish(plan.Broadcast, serial{}); err == nil || u.Finished {
			t.Errorf("%v is fitted", r)
		}
	}
}

// Shares of a run add up to 1 and what is configured is kept, in proportion.
func TestStepsShares(t *testing.T) {
	for _, name := range kindNames() {
		p := kinds(20, 3)[name]
		steps, err := stage.Steps(p)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, s := range steps {
			if len(s.Shares) != len(s.Releases) {
				t.Fatalf("%s: %d shares of %d releases", name, len(s.Shares), len(s.Releases))
			}
			for i, x := range s.Shares {
				if !(x > 0) {
					t.Errorf("%s: release %q has a share of %v", name, s.Releases[i].Name, x)
				}
				if r := s.Releases[i]; r.Len < 1 || r.MaxNonZero > r.Len {
					t.Errorf("%s: release %+v", name, r)
				}
				sum += x
			}
		}
		if math.Abs(sum-1) > 1e-12 {
			t.Errorf("%s: shares add up to %v", name, sum)
		}
	}
	// By hand: full has 0.05 counts, 0.05 mean, 0.4 bias of which 0.2 for weight counts, and 0.5 in
	// two rounds, 0.1 of each for the Gramian.
	p := full(20, 3)
	steps, _ := stage.Steps(p)
	var got []float64
	phases := ""
	for _, s := range steps {
		got, phases = append(got, s.Shares...), phases+s.Phase+" "
	}
	near(t, "shares", got, []float64{0.05, 0.05, 0.32, 0.08, 0.025, 0.225, 0.025, 0.225}, 1e-12)
	if phases != "prepare bias statistics statistics " {
		t.Errorf("phases %s", phases)
	}
	// Plain has 0.2 for weight counts, once, and halves of 0.8 in two rounds, half of each for the
	// Gramians.
	q := plain(20, 3)
	steps, _ = stage.Steps(q)
	near(t, "shares without biases", append(steps[0].Shares, steps[1].Shares...), []float64{0.2, 0.2, 0.2, 0.2, 0.2}, 1e-12)
	// Biases only: what the statistics would have had goes to the others.
	p.Rounds = 0
	steps, _ = stage.Steps(p)
	p.ClipUser, p.ClipRating, p.ItemRidge, p.ItemPrior = 0, 0, 0, 0 // need not be set
	users, rows := people(&p, 20, 0.5, 5)
	s := newStrategy(t, p, 20, 0.01)
	train(t, s, users)
	if u, own := fit(t, &p, s.Current(), rows[0]); u[0] != 0 || u[1] != 0 || u[2] != 0 || own == 0 {
		t.Errorf("without rounds a user has the embedding %v and bias %v", u, own)
	}
	near(t, "shares of biases", append(steps[0].Shares, steps[1].Shares...), []float64{0.1, 0.1, 0.64, 0.16}, 1e-12)
}
