package fedssp

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/encoder"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// Encoded is the solver in which a public encoder computes v_j from the item's features or its id.
// The encoder takes gradient steps on the statistics (SSP-c, SSP-i, AM-SSP).
var Encoded Solver = encoderSolver{}

type encoderSolver struct{ closed }

func (encoderSolver) String() string { return namedEncoded }

func (x encoderSolver) keys() []*config.Key {
	return slices.Concat(x.closed.keys(), encoderKeys(), passKeys(), []*config.Key{keys.itemRidge.Key, keys.itemPrior.Key})
}

// declareEncoder declares the keys of the public encoder of items: see [encoder.Settings].
func declareEncoder() {
	plain := func(name, standard string, when condition, words []string, help string) config.TextKey {
		return config.DeclareText(config.Key{Name: "encoder." + name, Kind: config.Word, Default: standard, Words: words, When: when.when(), Help: help})
	}
	keys.dim = config.DeclareNumber(config.Key{
		Name: "encoder.dim", Kind: config.Whole, Default: "0", Range: config.AtLeast(0), When: encoded.when(), Help: "Length of a feature's embedding; 0 is the rank.", Check: checkDim,
	})
	keys.dense = word("encoder.dense", []string{yes, no}, encoded, "no; yes of am-ssp, am-dpsgd and dp-sgd-mf, as published", "Whether a dense layer is laid on the embeddings: it costs more to learn through noise than it gives.",
		func(s settings, _ *config.Facts) string { return yesIf(s.form().dense) })
	keys.ids = word("encoder.ids", []string{yes, no}, encoded, "yes; no where little can be learned, and of am-ssp, am-dpsgd and dp-sgd-mf, as published", "Whether an item has an embedding of its own besides its features' embeddings.",
		func(s settings, f *config.Facts) string {
			if s.form().dense {
				return no
			}
			if f == nil {
				return "auto"
			}
			return yesIf(!s.nearStart(f))
		})
	keys.startNorm = number("encoder.start-norm", config.Positive(), encoded, "0.3; 2 where little can be learned; 0.1 of am-dpsgd and dp-sgd-mf", "Typical norm of an item at the start.",
		byFacts(func(s settings, f *config.Facts) float64 {
			if s.byUser() {
				return 0.1
			}
			return either(s.nearStart(f), 2, 0.3)
		}))
	keys.optimiser = config.DeclareText(config.Key{
		Name: "encoder.optimiser", Kind: config.Word, Default: "auto", Auto: "exact of ssp-c, adam of the others", Words: []string{exact, string(encoder.Adam), string(encoder.SGD)},
		When: condition(func(s settings) bool { return s.encodes() || s.pooled() }).when(),
		Help: "How the encoder is fitted: exact solves for its best parameters.",
		ChooseWord: func(c config.Config, _ *config.Facts) string {
			switch s := settingsOf(c); {
			case s.pooled():
				return exact
			case s.encodes():
				return string(encoder.Adam)
			default:
				return "auto"
			}
		},
		Check: checkOptimiser,
	})
	keys.rate = number("encoder.rate", config.Positive(), encoded, "0.3/√encoder.steps; 0.001 where little can be learned; 0.01 of am-dpsgd and dp-sgd-mf", "Learning rate of the encoder.",
		byFacts(func(s settings, f *config.Facts) float64 { // fewer steps are longer
			if s.byUser() {
				return 0.01
			}
			return either(s.nearStart(f), 0.001, 0.3/math.Sqrt(s.encoderSteps()))
		}))
	keys.rateDecay = plain("decay", string(encoder.Cosine), encoded, []string{string(encoder.Constant), string(encoder.Cosine), string(encoder.Linear)}, "How the learning rate falls.")
	keys.steps = count("encoder.steps", config.Between(1, 1e6), inPasses, "100; 10 of ssp-i", "Gradient steps of a round.", always(settings.encoderSteps))
	keys.batch = config.DeclareNumber(config.Key{
		Name: "encoder.batch", Kind: config.Whole, Default: "0", Range: config.AtLeast(0), When: inPasses.when(), Help: "Most items of a gradient step; 0 takes all.",
	})
	keys.warmStart = plain("warm-start", yes, inPasses, []string{yes, no}, "Whether a round begins where the last one ended.")
	keys.ridge = config.DeclareNumber(config.Key{
		Name: "encoder.ridge", Kind: config.Real, Default: "0", Range: config.AtLeast(0), When: encoded.when(), Help: "Ridge of the encoder's parameters.",
	})
}

func checkDim(c config.Config) string {
	s := settingsOf(c)
	rank := int(algorithm.Rank.Or(c, s.rank()))
	if dim := keys.dim.Int(c); dim > 0 && keys.dense.Chosen(c) == no && dim != rank {
		return fmt.Sprintf("%d is not the rank %d: embeddings of features are added up where encoder.dense is no", dim, rank)
	}
	return ""
}

func checkOptimiser(c config.Config) string {
	f := settingsOf(c).form()
	if !keys.optimiser.Is(c, exact) || f.name == "" {
		return ""
	}
	switch {
	case !f.has(namedPooled):
		return fmt.Sprintf("%s is for %s", exact, listed(pooledNames()))
	case keys.gramian.Is(c, string(PerItem)) && !settingsOf(c).variational():
		return fmt.Sprintf("%s takes statistics.gramian: %s", exact, One)
	case keys.resample.Or(c, 1) > 1:
		return fmt.Sprintf("%s solves for a round's statistics once; statistics.resample must be 1", exact)
	default:
		return ""
	}
}

// listed joins words as a sentence lists them.
func listed(words []string) string {
	if n := len(words) - 1; n > 0 {
		return strings.Join(words[:n], ", ") + " and " + words[n]
	}
	return strings.Join(words, "")
}

// pooledNames lists the algorithms whose encoder may be solved for.
func pooledNames() []string {
	var names []string
	for _, a := range algorithm.All() {
		if f, ok := a.(formed); ok && f.formOf().has(namedPooled) {
			names = append(names, f.formOf().name)
		}
	}
	return names
}

func encoderOf(c config.Config) encoder.Settings {
	return encoder.Settings{
		Dim: keys.dim.Int(c), Dense: keys.dense.Chosen(c) == yes, IDs: keys.ids.Is(c, yes), StartNorm: keys.startNorm.Value(c),
		Optimiser: encoder.Optimiser(keys.optimiser.Of(c)), Rate: keys.rate.Value(c), Decay: encoder.Decay(keys.rateDecay.Of(c)), Steps: keys.steps.Int(c),
		Batch: keys.batch.Int(c), WarmStart: keys.warmStart.Is(c, yes), Ridge: keys.ridge.Value(c),
	}
}

func (encoderSolver) read(p *Params, s settings) { p.Encoder = encoderOf(s.Config) }

// encoderKeys lists the keys of an encoder, passKeys the keys of an encoder that takes gradient
// steps on statistics.
func encoderKeys() []*config.Key {
	return []*config.Key{keys.dim.Key, keys.dense.Key, keys.ids.Key, keys.startNorm.Key, keys.optimiser.Key, keys.rate.Key, keys.rateDecay.Key, keys.ridge.Key}
}

func passKeys() []*config.Key {
	return []*config.Key{keys.steps.Key, keys.batch.Key, keys.warmStart.Key}
}

func (encoderSolver) encodes(*Params) bool { return true }
func (encoderSolver) speaks(*Params) bool  { return true }
func (encoderSolver) begin(*Params) solving {
	return stateless{func(s *Strategy, r absorbed, run protocol.Runner) error {
		if s.weight == nil {
			return nil
		}
		return s.fitEncoder(s.system(r, s.times(r), Gramians, Moments), run)
	}}
}

func (p *Params) newEncoder() (*encoder.Encoder, error) {
	features, settings := p.Solver.encoder(p)
	e, err := encoder.New(features, p.Items, p.Rank, settings, p.Seed)
	if err != nil {
		return nil, fmt.Errorf("fedssp: %w", err)
	}
	return e, nil
}

// objective is the loss that an encoder minimises. For item j it is vᵀA_jv/2 - b_jᵀv, discounted
// and with ridge, as a closed form solves it. All losses are divided by one number, which makes the
// mean curvature 1. So one learning rate suits many users and few, long embeddings and short.
type objective struct {
	d    int
	a, b []float64 // m x d x d and m x d
}

func (y *system) objective(run protocol.Runner) *objective {
	m, d := y.p.Items, y.p.Rank
	o := &objective{d: d}
	o.a, o.b = y.systems(run)
	var trace float64
	for j := range m {
		for i := range d {
			trace += o.a[j*d*d+i*(d+1)]
		}
	}
	if scale := float64(m*d) / trace; trace > 0 {
		for i := range o.a {
			o.a[i] *= scale
		}
		for i := range o.b {
			o.b[i] *= scale
		}
	}
	return o
}

// Gradient returns the loss of item j at v and sets g to its gradient.
func (o *objective) Gradient(j int, v, g []float64) float64 {
	d := o.d
	a, b := o.a[j*d*d:(j+1)*d*d], o.b[j*d:(j+1)*d]
	var loss float64
	for i := range d {
		av := dense.Dot(a[i*d:(i+1)*d], v)
		loss += (av/2 - b[i]) * v[i]
		g[i] = av - b[i]
	}
	return loss
}

// outer returns the outer step of a round, from 0, and which of the step's sums it is.
func (s *Strategy) outer() (step int, part encoder.Part) {
	p := &s.params.Params
	sum := s.sums()
	return sum / p.Resample, encoder.Part{Index: sum % p.Resample, Of: p.Resample}
}

// fitEncoder takes the gradient steps of one sum. V follows when the outer step ends.
func (s *Strategy) fitEncoder(y *system, run protocol.Runner) error {
	step, part := s.outer()
	if err := s.encoder.FitPart(y.objective(run), uint64(step+1), part, run); err != nil {
		return fmt.Errorf("fedssp: %w", err)
	}
	s.encoded = true
	s.follow(run)
	return nil
}

// follow sets V to the encoder's output, at the end of an outer step in which the encoder moved.
func (s *Strategy) follow(run protocol.Runner) {
	if !s.encoded {
		return
	}
	if _, part := s.outer(); part.Index != part.Of-1 {
		return
	}
	s.encoder.Embed(s.model.Items, run)
	if s.chosen != nil && s.chosen.rest != nil {
		s.model.rest = s.encoder.EmbedOthers(s.chosen.rest)
	}
	s.model.complete(&s.params.Params)
	s.encoded = false
}
