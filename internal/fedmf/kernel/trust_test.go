package kernel

import (
	"errors"
	"math"
	"testing"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// A party protects its own privacy, whatever it receives. A fault here would break the sensitivity
// that the noise covers, or the noise.

// A server may broadcast arbitrary values. Embeddings far outside the ball would make gradients
// longer than the sensitivity: a party refuses them, or projects them first. A broadcast NaN must
// not get into the party's own embeddings, where it would show who rated what: V of VFL is
// published in the end.
func TestInfeasibleBroadcast(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, bad := range []float64{1000, -1000, 1e200, nan, inf, -inf} {
		for _, clipping := range []Clipping{EmbeddingClipping, BothClippings, GradientClipping} {
			p := soundParams(3, 3, 2)
			p.Clipping, p.Clip = clipping, 50
			// The victim, user 0, rated item 1; no other user rated anything.
			rows := []model.Ratings{{Items: []int32{1}, Values: []float32{5}}, {}, {}}
			x := p.StartUsers(3)
			x.Data()[0] = bad     // of user 0, for VFL
			x.Data()[2] = bad     // of item 1, for HFL
			x.Data()[3] = bad / 2 // so that no coordinate alone decides
			for kind, party := range bothKinds(t, &p, rows) {
				pl := planOf(&p, 1, x, protocol.Noise{})
				vectors, err := party.Contribute(pl, simulated.New(1, "party"), serial{})
				steps := stepperOf(party)
				if steps == nil {
					if err == nil {
						t.Errorf("%s, %s: a broadcast of %v is taken up, and nothing trained", kind, clipping, bad)
					}
					continue
				}
				norm := 0.0
				for _, g := range steps.gradV.Data() {
					norm += g * g
				}
				if most := p.Sensitivity(false); !(math.Sqrt(norm) <= most*(1+1e-12)) {
					t.Errorf("%s, %s: broadcast %v makes one rating's gradient of V %g long, the noise is made for %g", kind, clipping, bad, math.Sqrt(norm), most)
				}
				for _, v := range steps.v.Data() {
					if math.IsNaN(v) || math.IsInf(v, 0) {
						t.Errorf("%s, %s: broadcast %v leaves %v in V", kind, clipping, bad, v)
						break
					}
				}
				if err == nil && len(vectors) != 1 {
					t.Errorf("%s: %d vectors", kind, len(vectors))
				}
			}
		}
	}
}

// stepperOf returns nil before the party's first accepted round.
func stepperOf(party any) *stepper {
	switch party := party.(type) {
	case *Vertical:
		return party.steps
	case *Horizontal:
		return party.steps
	}
	return nil
}

// An infeasible final model is refused or projected too: the last κ steps are noised for the
// sensitivity of V.
func TestInfeasibleModel(t *testing.T) {
	p := soundParams(2, 2, 2)
	p.ItemSteps = 1
	party := newVertical(t, &p, model.Indices(2), []model.Ratings{{Items: []int32{1}, Values: []float32{5}}, {}})
	contribute(t, party, planOf(&p, 1, p.StartUsers(2), protocol.Noise{}), simulated.New(1, "party"))
	for _, bad := range []float64{1000, math.NaN()} {
		model := p.StartUsers(2)
		model.Data()[0] = bad
		if err := party.Finish(model.Encode(), serial{}); err != nil {
			continue
		}
		norm := 0.0
		for _, g := range party.steps.gradV.Data() {
			norm = math.Hypot(norm, g)
		}
		if most := p.Sensitivity(false); !(norm <= most*(1+1e-12)) {
			t.Errorf("a model of %v makes one rating's gradient of V %g long, the noise is made for %g", bad, norm, most)
		}
	}
}

// Without randomness a party trains nothing: it says so, and does not panic, at
// the first round, at a later one, and in the last steps.
func TestPartiesWithoutEntropy(t *testing.T) {
	p := soundParams(3, 3, 2)
	p.ItemSteps, p.Rounds = 1, 2
	rows := []model.Ratings{{Items: []int32{1}, Values: []float32{5}}, {}, {}}
	noise := protocol.Noise{Kind: protocol.PartyNoise, Multiplier: 1, SamplingRate: 0.5, Steps: 2}
	x := p.StartUsers(3)
	for kind, party := range bothKinds(t, &p, rows) {
		for _, later := range []bool{false, true} {
			if later {
				contribute(t, party, planOf(&p, 1, x, noise), simulated.New(1, "party"))
			}
			if got, err := attempt(func() ([]protocol.Vector, error) {
				return party.Contribute(planOf(&p, 2, x, noise), entropy.Source{}, serial{})
			}); !errors.Is(err, entropy.ErrNone) || got != nil {
				t.Errorf("%s, later %t: %d vectors, error %v; want none and ErrNone", kind, later, len(got), err)
			}
		}
	}
	party := newVertical(t, &p, model.Indices(3), rows)
	contribute(t, party, planOf(&p, 2, x, noise), simulated.New(1, "party"))
	party.source = entropy.Source{}
	if _, err := attempt(func() ([]protocol.Vector, error) { return nil, party.Finish(x.Encode(), serial{}) }); !errors.Is(err, entropy.ErrNone) || party.Finished() {
		t.Errorf("last steps: error %v, finished %t; want ErrNone", err, party.Finished())
	}
}

var errPanic = errors.New("panic")

// attempt turns a panic into an error.
func attempt(f func() ([]protocol.Vector, error)) (got []protocol.Vector, err error) {
	defer func() {
		if r := recover(); r != nil {
			got, err = nil, errPanic
		}
	}()
	return f()
}

// Ratings outside the scale make gradients longer than 2R^{3/2}, and indices
// outside the matrices end in a panic: a party is not made of them.
func TestPartiesRefuseData(t *testing.T) {
	for name, r := range map[string]model.Ratings{
		"item beyond the party's":   {Items: []int32{3}, Values: []float32{1}},
		"negative item":             {Items: []int32{-1}, Values: []float32{1}},
		"above the scale":           {Items: []int32{0}, Values: []float32{5.5}},
		"below the scale":           {Items: []int32{0}, Values: []float32{-0.5}},
		"NaN":                       {Items: []int32{0}, Values: []float32{float32(math.NaN())}},
		"more items than values":    {Items: []int32{0, 1}, Values: []float32{1}},
		"fewer items than values":   {Items: []int32{0}, Values: []float32{1, 1}},
		"twice the same item":       {Items: []int32{1, 1}, Values: []float32{5, 5}},
		"twice the same, not aside": {Items: []int32{1, 0, 1}, Values: []float32{5, 5, 5}},
	} {
		p := soundParams(2, 3, 2)
		p.Unit, p.ClipRatings = dp.User, 2
		rows := []model.Ratings{{}, r}
		if _, err := NewVertical(&p, model.Indices(3), rows); err == nil {
			t.Errorf("%s: a party of VFL was made", name)
		}
		if _, err := NewHorizontal(&p, model.Indices(2), rows); err == nil {
			t.Errorf("%s: a party of HFL was made", name)
		}
	}
	p := soundParams(2, 3, 2)
	for _, items := range [][]int32{{3}, {-1}, {0, 0}} {
		if _, err := NewVertical(&p, items, make([]model.Ratings, 2)); err == nil {
			t.Errorf("a party that owns the items %v of 3 was made", items)
		}
	}
	for _, users := range [][]int32{{2}, {-1}, {0, 0}} {
		if _, err := NewHorizontal(&p, users, make([]model.Ratings, len(users))); err == nil {
			t.Errorf("a party of the users %v of 2 was made", users)
		}
	}
}

// A user of LFL adds no noise of its own. A plan that says it does would have the client charge its
// ledger for noise that no party adds, and send the gradient without noise.
func TestUsersRefuseOwnNoise(t *testing.T) {
	p := soundParams(1, 3, 2).Params
	p.Contribution = OneRating
	r := p.Release()
	r.Scale, r.Width, r.Noise = 10, 32, protocol.Noise{Kind: protocol.PartyNoise, Multiplier: 1e6, SamplingRate: 1, Steps: 1}
	pl := &protocol.Plan{Round: 1, Phase: ItemGradient, Cohort: protocol.Cohort{Clients: 1}, Releases: []protocol.Release{r}, Broadcast: p.StartItems().Encode()}
	user := NewUser(&p, model.Ratings{Items: []int32{1}, Values: []float32{5}})
	if got, err := user.Contribute(pl, simulated.New(1, "user"), serial{}); err == nil {
		t.Errorf("a user contributes %v to a plan that has the parties add the noise", got)
	}
}
