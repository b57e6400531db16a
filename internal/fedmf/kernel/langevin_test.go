package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// langevinParams returns settings of DP-SGLD.
func langevinParams(unit dp.Unit, users, items, rank int) PartyParams {
	p := soundParams(users, items, rank)
	p.Clipping, p.Prior, p.Unit = ResidualClipping, 2, unit
	if unit == dp.User {
		p.ClipRatings = 3
	}
	return p
}

// A unit moves the summed gradient by at most the sensitivity: this holds for 1,000 random units,
// at embeddings of any sign on the edge of the ball. A unit with all signs equal reaches the bound:
// u = √R·e1, v = -√R·e1, x = R has error 2R, cut to R.
func TestLangevinSensitivity(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for _, unit := range []dp.Unit{dp.Rating, dp.User} {
		p := langevinParams(unit, 1, 3, 2)
		count := 1
		if unit == dp.User {
			count = 3
		}
		most := 0.
		for trial := range 1000 {
			u, v := model.NewMatrix(1, 2), model.NewMatrix(3, 2)
			for _, x := range [][]float64{u.Data(), v.Data()} {
				for i := range x {
					x[i] = 4 * rng.NormFloat64()
				}
			}
			if trial == 0 {
				copy(u.Data(), []float64{100, 0})
				copy(v.Data(), []float64{-100, 0, -100, 0, -100, 0})
			}
			p.project(u.Row(0))
			for j := range 3 {
				p.project(v.Row(j))
			}
			r := model.Ratings{Items: model.Indices(count), Values: make([]float32, count)}
			for k := range r.Values {
				r.Values[k] = 5 * rng.Float32()
				if trial == 0 {
					r.Values[k] = 5
				}
			}
			s := newStepper(&p, newTable([]model.Ratings{r}), v)
			s.add(0, u.Row(0), r, true)
			norm := math.Sqrt(model.Dot(s.gradU, s.gradU) + model.Dot(s.gradV.Data(), s.gradV.Data()))
			most = max(most, norm)
		}
		if bound := p.Sensitivity(true); most > bound*(1+1e-12) || most < bound*(1-1e-12) {
			t.Errorf("unit %s: the longest gradient is %v, the bound %v", unit, most, bound)
		}
	}
}

// Without ratings a step is, in the language of the paper, θ <- θ - (η/2)λθ + N(0, η); if privacy
// needs more noise, that noise replaces N(0, η). For U, gain = rate/(q·m·τ) = 1e-3/(0.5·6·0.1) and
// η = 2q·gain = 3.33e-3.
func TestLangevinStep(t *testing.T) {
	const users, items, q, tau = 20_000, 6, 0.5, 0.1
	for _, z := range []float64{0, 1e-3, 0.5} {
		p := langevinParams(dp.User, users, items, 1)
		p.SamplingRate, p.Density, p.Spread = q, tau, 0
		p.StartMean = 1
		n := protocol.Noise{Kind: protocol.PartyNoise, Multiplier: z, SamplingRate: q, Steps: 1}
		if z == 0 {
			n = protocol.Noise{}
		}
		party := newVertical(t, &p, model.Indices(items), make([]model.Ratings, users))
		if z > 0 {
			n.Spread = true
		}
		contribute(t, party, planOf(&p, 1, p.StartUsers(users), n), simulated.New(1, "party"))
		gain := 1e-3 / (q * items * tau)
		eta := 2 * q * gain
		deviation := max(math.Sqrt(eta), gain*z*p.Sensitivity(true))
		moved := make([]float64, users)
		for i, x := range party.Users.Data() {
			moved[i] = x - (1 - eta/2*2) // from 1, λ = 2
		}
		checkNormal(t, "U", moved, deviation)
	}
	p := langevinParams(dp.User, 3, 3, 1)
	if p.ClipRatings = 0; p.Validate() == nil {
		t.Error("users of any number of ratings were accepted")
	}
}
