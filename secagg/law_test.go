package secagg_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// alpha is the false-alarm rate of each statistical test here: correct noise
// fails one with that probability, over the choice of the fixed seed. The forty
// or so of them together stay below 1e-4.
const alpha = 1e-6

const (
	clients  = 20
	length   = 20000
	variance = 50.0
	width    = 32
)

// noisy is a plan of one noised release: N = 20, ω = 0.6, so 8 are required;
// γ = 0.1, so c = 2. A client adds a = 50/6.
func noisy(kind protocol.NoiseKind, round uint64) *protocol.Plan {
	return &protocol.Plan{
		Round: round, Cohort: protocol.Cohort{Clients: clients, Tolerance: 0.6, Colluders: 0.1},
		Releases: []protocol.Release{{Name: "g", Len: length, L2: 1000, MaxNonZero: 1, Scale: 1, Width: width,
			Noise: protocol.Noise{Kind: kind, Variance: variance}}},
	}
}

// hot contributes 100 at the client's own coordinate.
type hot int

func (h hot) Contribute(*protocol.Plan, entropy.Source, protocol.Runner) ([]protocol.Vector, error) {
	return []protocol.Vector{{Index: []uint32{uint32(h)}, Value: []float64{100}}}, nil
}
func (hot) Finish([]byte, protocol.Runner) error { return nil }

// observed holds the noise that an aggregator of a round sees.
type observed struct {
	noise    []float64 // in the sum, contributions subtracted
	first    []float64 // in the sum of the masked inputs alone
	removals []float64 // sum of what came with the unmask answers
}

// run takes the first inputs of the clients through the masked input, and the
// first answered of them through the unmask, by the client role's own steps.
func run(t *testing.T, p *protocol.Plan, draw secagg.Draw, seed uint64, inputs, answered int) observed {
	t.Helper()
	sum := ideal(p, draw, simulated.New(seed, "ideal-sum"))
	samplers := new(client.Samplers)
	roles := make([]*client.Client, inputs)
	for i := range roles {
		roles[i] = client.New(client.Config{
			ID: protocol.ClientID(i), Trainer: hot(i), Noise: samplers, Entropy: simulated.New(seed, fmt.Sprint("client/", i)),
			NewSum: func(s protocol.Setup) (client.Sum, error) { return secagg.NewIdealClient(s, draw), nil },
		})
	}
	var out observed
	for _, m := range []protocol.Message{
		&protocol.Announce{Plan: p}, &protocol.Roster{Round: p.Round, Clients: inputs},
		&protocol.Delivery{Round: p.Round, Clients: inputs}, &protocol.Proceed{Round: p.Round}, &protocol.Survivors{Round: p.Round, Count: inputs},
	} {
		if m.Kind() == protocol.KindSurvivors {
			roles = roles[:answered]
		}
		for i, r := range roles {
			eff := r.Step(time.Time{}, protocol.Received{Envelope: protocol.Envelope{From: protocol.Party{Role: protocol.Aggregator}, Message: m}})
			for _, w := range eff.Work {
				eff = r.Step(time.Time{}, w.Do(serial{}))
			}
			if len(eff.Send) != 1 || len(eff.Events) != 0 {
				t.Fatalf("client %d answers %s with %+v", i, m.Kind(), eff)
			}
			answer := eff.Send[0].Message.(protocol.StageMessage)
			if answer.Kind() == protocol.KindPrepared {
				continue // the sum has no such stage
			}
			if err := sum.Receive(protocol.ClientID(i), answer); err != nil {
				t.Fatal(err)
			}
			switch answer := answer.(type) {
			case *protocol.MaskedInput:
				out.first = accumulate(out.first, answer.Vectors)
			case *protocol.Unmask:
				out.removals = accumulate(out.removals, answer.Removals)
			}
		}
	}
	released, err := sum.Sum(serial{})
	if err != nil {
		t.Fatal(err)
	}
	for j, x := range released[0] {
		if j < inputs {
			x -= 100
			if draw == secagg.DrawClient {
				out.first[j] -= 100
			}
		}
		out.noise = append(out.noise, float64(x))
	}
	return out
}

// accumulate adds a dense vector of one release; sparse ones carry no noise.
func accumulate(sum []float64, v []protocol.Integers) []float64 {
	if len(v) == 0 || v[0].Index != nil {
		return sum
	}
	if sum == nil {
		sum = make([]float64, length)
	}
	for j, x := range v[0].Value {
		sum[j] += float64(x)
	}
	return sum
}

// checkVariance compares the second moment with the moment of Skellam noise of mean 0 and variance
// v. Its fourth moment is 3v² + v, so the standard error of n squares is sqrt((2v² + v)/n).
func checkVariance(t *testing.T, name string, x []float64, v float64) {
	t.Helper()
	sum := 0.0
	for _, e := range x {
		sum += e * e
	}
	n := float64(len(x))
	limit := distuv.UnitNormal.Quantile(1 - alpha/2)
	if score := (sum/n - v) / math.Sqrt((2*v*v+v)/n); !(math.Abs(score) < limit) {
		t.Errorf("%s: variance %.3f, want %.3f: off by %.1f standard errors, limit %.1f", name, sum/n, v, score, limit)
	}
}

// checkSameLaw compares two samples by Kolmogorov and Smirnov, at alpha (for
// integers the test errs towards acceptance), and by the chi-square test of
// homogeneity, which does not.
func checkSameLaw(t *testing.T, name string, x, y []float64) {
	t.Helper()
	x, y = slices.Sorted(slices.Values(x)), slices.Sorted(slices.Values(y))
	n, m := float64(len(x)), float64(len(y))
	d, limit := stat.KolmogorovSmirnov(x, nil, y, nil), math.Sqrt(-math.Log(alpha/2)/2*(n+m)/(n*m))
	if d > limit {
		t.Errorf("%s: distribution functions differ by %.4f, limit %.4f", name, d, limit)
	}
	both := slices.Sorted(slices.Values(append(slices.Clone(x), y...)))
	// Classes of whole values with 1,000 of the joint sample at least.
	chi, classes := 0.0, 0
	for start := 0; start < len(both); {
		end := min(start+1000, len(both))
		for end < len(both) && (both[end] == both[end-1] || len(both)-end < 1000) {
			end++
		}
		in := func(z []float64) float64 {
			lo, _ := slices.BinarySearch(z, both[start])
			hi := len(z)
			if end < len(both) {
				hi, _ = slices.BinarySearch(z, both[end])
			}
			return float64(hi - lo)
		}
		a, b := in(x), in(y)
		ea, eb := (a+b)*n/(n+m), (a+b)*m/(n+m)
		chi += (a-ea)*(a-ea)/ea + (b-eb)*(b-eb)/eb
		classes++
		start = end
	}
	if p := (distuv.ChiSquared{K: float64(classes - 1)}).Survival(chi); p < alpha {
		t.Errorf("%s: chi-square over %d classes has p-value %.2g, limit %.2g", name, classes, p, alpha)
	}
}

// The noise of a sum, drawn at once or by the clients, has the variance of section 6.2 of the FMF
// paper. With c = 2 colluders taken out of the denominators it is u2·V/(u1 - 2) + (u1 - u2)·V/(8 -
// 2). Both ways give the same law. Of the survivors, none, 10% and 50% are silent in round 2.
func TestNoise(t *testing.T) {
	effort.NotShort(t, "much noise")
	for i, kind := range []protocol.NoiseKind{protocol.Split, protocol.TwoRound} {
		for j, u2 := range []int{20, 18, 10} {
			checkNoise(t, kind, clients, u2, uint64(10*i+j+1))
		}
	}
	// With two lost before the masked input: u1 is not N.
	checkNoise(t, protocol.Split, 18, 9, 30)
	checkNoise(t, protocol.TwoRound, 18, 9, 31)
	// And with the fewest survivors that are allowed nothing is taken back.
	checkNoise(t, protocol.Split, 8, 8, 32)
}

func checkNoise(t *testing.T, kind protocol.NoiseKind, u1, u2 int, seed uint64) {
	t.Helper()
	p := noisy(kind, seed)
	want := float64(u2)*variance/float64(u1-2) + float64(u1-u2)*variance/6
	name := fmt.Sprintf("noise %s, |U1| = %d, |U2| = %d", kind, u1, u2)
	sum := run(t, p, secagg.DrawSum, seed, u1, u2)
	each := run(t, p, secagg.DrawClient, seed, u1, u2)
	checkVariance(t, name+", drawn by the sum", sum.noise, want)
	checkVariance(t, name+", drawn by the clients", each.noise, want)
	checkVariance(t, name+", before the removal", each.first, float64(u1)*variance/6)
	checkSameLaw(t, name, sum.noise, each.noise)
	if u1 == u2 && u1 > 8 {
		checkCorrelation(t, name, kind, each)
	}
}

// checkCorrelation: with split noise, the noise that is taken back says nothing about the noise
// that stays. The published scheme is broken because its second view is independent of the first:
// if every client answers, the new noise has no part in the old.
func checkCorrelation(t *testing.T, name string, kind protocol.NoiseKind, o observed) {
	t.Helper()
	other, what := o.removals, "the removals"
	if kind == protocol.TwoRound {
		other, what = o.first, "the noise before"
	}
	limit := distuv.UnitNormal.Quantile(1 - alpha/2)
	if score := stat.Correlation(o.noise, other, nil) * math.Sqrt(length); !(math.Abs(score) < limit) {
		t.Errorf("%s: the noise that stays correlates with %s by %.1f standard errors, limit %.1f", name, what, score, limit)
	}
}
