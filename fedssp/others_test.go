package fedssp

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/solver"
	"github.com/fedsim/fedsim/model"
)

// Items that are not trained on have embeddings where the solver learns from features, of the size
// that was planned, and biases where their priors are learned; elsewhere there are none.
func TestOthersAreEmbedded(t *testing.T) {
	effort.NotShort(t, "whole runs")
	const items, top = 30, 12
	for _, name := range chosenNames() {
		p := chosenKinds(items, 2, top)[name]
		users, _ := people(&p, 60, 0.4, 5)
		s := newStrategy(t, p, 60, 1e-4)
		train(t, s, users)
		embedded, biased := p.PredictsOthers()
		if (s.Current().Rest != nil) != embedded || (s.Current().RestBias != nil) != biased {
			t.Errorf("%s: others have embeddings: %v, want %v; biases: %v, want %v", name, s.Current().Rest != nil, embedded, s.Current().RestBias != nil, biased)
		}
		if n := len(s.Current().Rest); embedded && n != (items-top)*p.Rank {
			t.Errorf("%s: %d numbers of %d other items of rank %d", name, n, items-top, p.Rank)
		}
		if embedded && kernel.Nothing(s.Current().Rest) {
			t.Errorf("%s: nothing is said of others", name)
		}
	}
}

// An encoder without ids knows items by their features alone. An item that is not trained on has
// the embedding of a trained item with the same features.
func TestOthersAreAsTheirTwins(t *testing.T) {
	const items = 30
	for _, name := range []string{"encoder", "encoder, convex, resampled"} {
		p := kinds(items, 2)[name]
		// Item j+15 is the twin of item j, and the first of them are trained on.
		twins := make([]int32, items)
		for j := range twins {
			twins[j] = int32(j % 15)
		}
		p.Features = p.Features.Pick(twins)
		p.TopItems, p.CountCap, p.Split.Counts = 15, items, 0.05
		users, _ := people(&p, 40, 0.5, 9)
		s := newStrategy(t, p, 40, 0)
		if err := s.Adopt(model.Indices(15)); err != nil {
			t.Fatal(err)
		}
		train(t, s, users)
		near(t, name, s.Current().Rest, s.Current().Items, 1e-12)
	}
}

// The embedding of another item solves the least squares of its features: the gradient there, which
// is summed over features here, one by one, is zero.
func TestOthersOfCMFSolveForTheirFeatures(t *testing.T) {
	p := chosenKinds(30, 3, 12)["cmf"]
	users, _ := people(&p, 60, 0.4, 5)
	s := newStrategy(t, p, 60, 1e-4)
	train(t, s, users)
	_, typical := s.Weights()
	ridge := (p.ItemRidge + p.ItemPrior) * typical
	for i := range s.Chosen.Others {
		v := s.Current().Rest[i*3 : (i+1)*3]
		gradient, feature, steep := make([]float64, 3), 0, ridge // steep bounds the curvature
		for _, cat := range s.Chosen.Rest.Categories {
			of := make(map[int32]float64)
			values, weights := cat.Features(i)
			for k, value := range values {
				of[value] = weights[k]
			}
			for value := range cat.Values {
				f := s.Solving.(*solver.Collective).F[feature*3 : (feature+1)*3]
				feature++
				weight := p.CMF.Unobserved
				target, has := of[int32(value)]
				if has {
					weight = 1
				}
				for a := range gradient {
					gradient[a] += p.CMF.FeatureWeight * (weight*dense.Dot(f, v) - target) * f[a]
				}
				steep += p.CMF.FeatureWeight * weight * dense.Dot(f, f)
			}
		}
		for a := range gradient {
			if gradient[a] += ridge * v[a]; math.Abs(gradient[a]) > 1e-9+steep*rounding*math.Sqrt(dense.Dot(v, v)) {
				t.Fatalf("item %d: the gradient is %v", i, gradient)
			}
		}
	}
}

// An item without any information scores NaN, which comes last in rankings. On a scale of ratings
// its prediction is the user's average. Models that are read again behave alike.
func TestUnknownItemsComeLast(t *testing.T) {
	const items, top = 30, 12
	rng := rand.New(rand.NewPCG(2, 8))
	for _, name := range []string{"implicit", "plain"} {
		p := chosenKinds(items, 2, top)[name]
		users, _ := people(&p, 40, 0.4, 5)
		s := newStrategy(t, p, 40, 0)
		train(t, s, users)
		m, err := kernel.DecodeModel(s.Model(), &p)
		if err != nil {
			t.Fatal(err)
		}
		u := []float64{rng.NormFloat64(), rng.NormFloat64()}
		read := saved{users: model.NewMatrix(1, 2), items: model.NewMatrix(items, 2), mean: m.Mean, lastUnknown: name == "implicit"}
		copy(read.users.Row(0), u)
		copy(read.items.Data(), m.Extended(&p))
		scores := make([]float64, items)
		read.score(0, scores)
		for j := range items {
			x, trained := m.Predict(u, 0, j), m.Chosen.Place[j] >= 0
			switch {
			case trained && (math.IsNaN(x) || x == m.Mean):
				t.Errorf("%s: item %d, which is trained on, is predicted at %v", name, j, x)
			case !trained && name == "implicit" && !math.IsNaN(x), !trained && name == "plain" && x != m.Mean:
				t.Errorf("%s: item %d, of which nothing is known, is predicted at %v", name, j, x)
			}
			if math.Float64bits(scores[j]) != math.Float64bits(x) && !(math.IsNaN(x) && math.IsNaN(scores[j])) && math.Abs(x-scores[j]) > 1e-12 {
				t.Errorf("%s: item %d is predicted at %v, and at %v by the model that is read", name, j, x, scores[j])
			}
		}
	}
}
