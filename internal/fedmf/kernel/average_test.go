package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/internal/modelserver"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// newAverage makes the server's side, with the shared embeddings at start.
func newAverage(t *testing.T, p PartyParams, start *model.Matrix, gradients bool, noise protocol.Noise) *Average {
	t.Helper()
	r := p.Release(start.Rows())
	if noise.Kind == protocol.PartyNoise {
		noise.Steps = p.LocalSteps
	}
	r.Width, r.Noise = 40, noise
	p.Gradients = gradients
	return NewAverage(p, start, modelserver.Server{Session: protocol.SessionID{1: 7}, Cohort: protocol.Cohort{Clients: 4, Tolerance: 0.5}, Schedule: scheduleOf(p, r)})
}

// scheduleOf returns the schedule that asks for a release in every round. Where parties add noise, the last round pays for the
// steps after it.
func scheduleOf(p PartyParams, r protocol.Release) protocol.Schedule {
	s := protocol.Schedule{{Rounds: p.Rounds, Phase: r.Name, Releases: []protocol.Release{r}}}
	if r.Noise.Kind == protocol.PartyNoise {
		s.EndWith(p.LocalSteps + p.ItemSteps)
	}
	return s
}

// Each plan asks for T' local steps, and the last one pays for the κ after it.
func TestAveragePlans(t *testing.T) {
	p := soundParams(3, 4, 2)
	p.Rounds, p.LocalSteps, p.ItemSteps = 3, 5, 7
	for _, kind := range []protocol.NoiseKind{protocol.NoNoise, protocol.PartyNoise} {
		var noise protocol.Noise
		if kind == protocol.PartyNoise {
			noise = protocol.Noise{Kind: kind, Multiplier: 2, SamplingRate: 0.1, Steps: 5}
		}
		s := newAverage(t, p, p.StartUsers(3), false, noise)
		for i, steps := range []int{5, 5, 12} {
			got, done, err := s.Next()
			if err != nil || done {
				t.Fatal(done, err)
			}
			if noise.Kind == protocol.PartyNoise {
				noise.Steps = steps
			}
			release := p.Release(3)
			release.Width, release.Noise = 40, noise
			want := &protocol.Plan{Session: protocol.SessionID{1: 7}, Round: uint64(i + 1), Phase: "shared-embeddings",
				Cohort: protocol.Cohort{Clients: 4, Tolerance: 0.5}, Releases: []protocol.Release{release}, Broadcast: p.StartUsers(3).Encode()}
			if d := cmp.Diff(want, got); d != "" || got.Validate() != nil {
				t.Errorf("round %d (-want +got):\n%s%v", i+1, d, got.Validate())
			}
			s.Skip(got, nil)
		}
		if got, done, err := s.Next(); got != nil || !done || err != nil {
			t.Errorf("after the last: %v, %t, %v", got, done, err)
		}
		if !cmp.Equal(s.Model(), p.StartUsers(3).Encode()) {
			t.Error("skipped rounds changed the model")
		}
	}
}

// The embeddings become the average, by weight, over the parties that took part: here every subset
// of three parties. The server knows only the sums.
func TestAbsorbAverages(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	p := soundParams(3, 4, 2)
	weights := []float64{0.5, 0.125, 0.375}
	for subset := range 8 {
		for _, gradients := range []bool{false, true} {
			p.Rounds, p.ItemRate = 10, 0.3
			start := someMatrix(rng, 3, 2)
			model.Round(start.Data())
			s := newAverage(t, p, start, gradients, protocol.Noise{})
			pl, _, err := s.Next()
			if err != nil {
				t.Fatal(err)
			}
			sum, mean, weight := make([]float64, 7), make([]float64, 6), 0.0
			for k, w := range weights {
				if subset>>k&1 == 0 {
					continue
				}
				x := someMatrix(rng, 3, 2)
				for i, v := range weighted(x, w, pl.Releases[0]).Value {
					sum[i] += v
				}
				for i, v := range x.Data() {
					mean[i] = (mean[i]*weight + v*w) / (weight + w)
				}
				weight += w
			}
			if err := s.Absorb(pl, protocol.Sums{Values: [][]float64{sum}, Survivors: 3}, serial{}); err != nil {
				t.Fatal(err)
			}
			want := mean
			if gradients || subset == 0 { // a step of the full rate; of an empty sum none
				want = slices.Clone(start.Data())
				for i := range want {
					want[i] += 0.3 * mean[i]
				}
			}
			if subset == 0 {
				want = start.Data()
			}
			if d := apart(want, s.shared.Data()); d > 1e-14 {
				t.Errorf("parties %03b, gradients %t: off by %g", subset, gradients, d)
			}
			if !cmp.Equal(s.Model(), s.shared.Encode()) {
				t.Error("the model is not what is shared")
			}
		}
	}
}

// An average or a step outside the ball is projected, unless gradients are clipped instead; and
// steps slow down over the rounds.
func TestAbsorbProjects(t *testing.T) {
	for _, c := range []struct {
		clipping  Clipping
		gradients bool
		want      []float64
	}{
		{EmbeddingClipping, false, []float64{math.Sqrt(5), 0}}, // of (6, -2)
		{BothClippings, true, []float64{math.Sqrt(5), 0}},
		{ResidualClipping, false, []float64{6 * math.Sqrt(5./40), -2 * math.Sqrt(5./40)}}, // of any sign
		{GradientClipping, false, []float64{6, -2}},
		{GradientClipping, true, []float64{1 + 0.5*6, 1 - 0.5*2}},
	} {
		p := soundParams(1, 1, 2)
		p.Clipping, p.Clip, p.ItemRate, p.Rounds = c.clipping, 1, 0.5, 2
		s := newAverage(t, p, model.Wrap(1, 2, []float64{1, 1}), c.gradients, protocol.Noise{})
		if c.clipping == GradientClipping && c.gradients {
			// The second of two attempts steps by 0.4375 of the rate.
			if _, _, err := s.Next(); err != nil {
				t.Fatal(err)
			}
			c.want = []float64{1 + 0.5*second*6, 1 - 0.5*second*2}
		}
		pl, _, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Absorb(pl, protocol.Sums{Values: [][]float64{{3, -1, 0.5}}}, serial{}); err != nil {
			t.Fatal(err)
		}
		if apart(c.want, s.shared.Data()) > 1e-14 {
			t.Errorf("clipping %s, gradients %t: %v, want %v", c.clipping, c.gradients, s.shared.Data(), c.want)
		}
	}
}
