// Package encoder is the item encoder of multi-encoder models (Krichene et al., "Private Learning
// with Public Features", AISTATS 2024, section 2.2 and appendix E.1.2). It maps an item's public
// features to an embedding, and its parameters are fitted to statistics that are already private.
//
// The encoder turns the features of item j into the embedding v_j(θ) of rank d. Each value of each
// category has an embedding. A category gives the weighted average of the embeddings of the item's
// values (a bag of words), or the zero vector if it has none. The categories' vectors are
// concatenated and pass through a dense layer, a matrix without bias; in a linear encoder they are
// added instead. An item's id may be one more category. A linear encoder with ids only has θ = V:
// plain matrix factorization.
//
// The server runs all of it, on public features and on noisy sums, so it costs no privacy. All
// randomness comes from a public seed, and results depend neither on the number of workers nor on
// their order.
package encoder

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Encoder maps items to embeddings. It holds the parameters θ and the state of the optimiser. It is
// not safe for concurrent use.
type Encoder struct {
	settings    Settings // Dim is never 0
	seed        uint64
	items, rank int
	hidden      int // width of the layer below the embeddings; the rank in a linear encoder
	bags        []bag
	described   int // items with a feature
	fingerprint [32]byte

	theta []float64 // embeddings by category, value and coordinate, then the dense layer, hidden x rank
	dense []float64 // the dense layer's part of theta; empty in a linear encoder
	opt   optimiser

	pass pass
}

// New returns an encoder at its public start: the seed draws embeddings and dense layer from a
// normal distribution, scaled to Settings.StartNorm. If f is nil, items have ids only. Otherwise
// the encoder keeps f, which must not change.
func New(f *dataset.ItemFeatures, items, rank int, s Settings, seed uint64) (*Encoder, error) {
	errs := problems.List{s.Validate(rank)}
	fits := items >= 1 && items <= math.MaxInt32
	errs.If(!fits, "encoder: %d items; there must be from 1 to %d", items, math.MaxInt32)
	if f != nil {
		errs.If(fits && f.Items != items, "encoder: the features are of %d items; there are %d", f.Items, items)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	f, s = complete(f, items, rank, s)
	e := &Encoder{settings: s, seed: seed, items: items, rank: rank, fingerprint: fingerprint(f, rank, s, seed)}
	if err := e.lay(f); err != nil {
		return nil, err
	}
	e.preparePass()
	e.start()
	return e, nil
}

// lay places the categories in θ and in the hidden layer.
func (e *Encoder) lay(f *dataset.ItemFeatures) error {
	for i := range f.Categories {
		b, err := newBag(&f.Categories[i], e.items)
		if err != nil {
			return err
		}
		e.bags = append(e.bags, b)
	}
	if e.settings.IDs {
		e.bags = append(e.bags, idBag(e.items))
	}
	if n := float64(e.items)*float64(e.rank) + parameters(f, e.items, e.rank, e.settings); n > maxNumbers {
		return fmt.Errorf("encoder: %.3g parameters and coordinates of embeddings; %d is the most: lower the rank or dim, or give fewer features",
			n, maxNumbers)
	}
	size := 0
	e.hidden = e.settings.Dim
	for k := range e.bags {
		b := &e.bags[k]
		b.first = size
		size += b.values() * e.settings.Dim
		if e.settings.Dense {
			b.column = k * e.settings.Dim
			e.hidden = b.column + e.settings.Dim
		}
	}
	embeddings := size
	if e.settings.Dense {
		size += e.hidden * e.rank
	}
	e.theta = make([]float64, size)
	e.dense = e.theta[embeddings:]
	e.opt.kind = e.settings.Optimiser
	if e.opt.kind == Adam {
		e.opt.mean, e.opt.sq = make([]float64, size), make([]float64, size)
	}
	for j := range e.items {
		for _, b := range e.bags {
			if b.byItem.start[j] < b.byItem.start[j+1] {
				e.described++
				break
			}
		}
	}
	if e.described == 0 {
		return fmt.Errorf("encoder: no item has a feature; give features or ids")
	}
	return nil
}

// maxNumbers limits the memory of an encoder.
const maxNumbers = math.MaxInt32

// Parameters counts the numbers of θ for an encoder of the settings that [New] takes. The count is
// a float64 because absurd settings would overflow an int.
func Parameters(f *dataset.ItemFeatures, items, rank int, s Settings) float64 {
	f, s = complete(f, items, rank, s)
	return parameters(f, items, rank, s)
}

// parameters is Parameters for completed settings.
func parameters(f *dataset.ItemFeatures, items, rank int, s Settings) float64 {
	n, categories := 0., 0.
	for i := range f.Categories {
		n += float64(len(f.Categories[i].Values)) * float64(s.Dim)
		categories++
	}
	if s.IDs {
		n += float64(items) * float64(s.Dim)
		categories++
	}
	if s.Dense {
		n += categories * float64(s.Dim) * float64(rank)
	}
	return n
}

// complete replaces the settings that stand for others.
func complete(f *dataset.ItemFeatures, items, rank int, s Settings) (*dataset.ItemFeatures, Settings) {
	s.Dim = cmp.Or(s.Dim, rank)
	if f == nil || len(f.Categories) == 0 {
		f, s.IDs = &dataset.ItemFeatures{Items: items}, true
	}
	return f, s
}

// start puts θ at its public start and clears the optimiser. The paper does not say where θ starts.
// Here a layer keeps the norm of its input, on average, and both layers share the scaling equally.
func (e *Encoder) start() {
	e.opt.steps = 0
	clear(e.opt.mean)
	clear(e.opt.sq)
	rng := entropy.Public(e.seed, "fedssp/encoder/start")
	embeddings := e.theta[:len(e.theta)-len(e.dense)]
	for i := range embeddings {
		embeddings[i] = rng.NormFloat64() / math.Sqrt(float64(e.settings.Dim))
	}
	for i := range e.dense {
		e.dense[i] = rng.NormFloat64() / math.Sqrt(float64(e.rank))
	}
	v := make([]float64, e.items*e.rank)
	e.Embed(v, protocol.Workers(1))
	scale := e.settings.StartNorm * math.Sqrt(float64(e.described)) / floats.Norm(v, 2)
	if e.settings.Dense {
		scale = math.Sqrt(scale)
	}
	floats.Scale(scale, e.theta)
}

// Embed writes the embeddings of all items to v, items x rank, row by row.
func (e *Encoder) Embed(v []float64, run protocol.Runner) {
	p := &e.pass
	p.batch, p.out = p.all, v
	run.Each(p.shares(), p.embed)
	p.batch, p.out = nil, nil
}

// embedShare embeds a share of all items, for Embed.
func (e *Encoder) embedShare(i int) {
	p := &e.pass
	lo, hi := p.share(i)
	for at := lo; at < hi; at += blockItems {
		n := min(blockItems, hi-at)
		copy(p.out[at*e.rank:(at+n)*e.rank], e.forward(&p.scratch[i], p.batch[at:at+n]))
	}
}

// forward embeds at most blockItems items. The result is valid until the next use of the scratch.
func (e *Encoder) forward(s *scratch, items []int32) []float64 {
	dim := e.settings.Dim
	h := s.hidden[:len(items)*e.hidden]
	clear(h)
	for r, j := range items {
		for k := range e.bags {
			b := &e.bags[k]
			dst := h[r*e.hidden+b.column:][:dim]
			for p := b.byItem.start[j]; p < b.byItem.start[j+1]; p++ {
				floats.AddScaled(dst, b.byItem.weight[p], e.theta[b.first+int(b.byItem.index[p])*dim:][:dim])
			}
		}
	}
	if !e.settings.Dense {
		return h
	}
	v := s.v[:len(items)*e.rank]
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, dense.General(h, len(items), e.hidden), dense.General(e.dense, e.hidden, e.rank),
		0, dense.General(v, len(items), e.rank))
	return v
}

// Optimiser is the rule that updates θ from a gradient.
type Optimiser string

const (
	// Adam is Algorithm 1 of Kingma & Ba (2015), with their β1 = 0.9, β2 = 0.999 and ε = 1e-8.
	Adam Optimiser = "adam"
	// SGD is plain gradient descent, without momentum.
	SGD Optimiser = "sgd"
)

// Optimisers lists all rules.
var Optimisers = []Optimiser{Adam, SGD}

// lastRate is the fraction of the rate at the last step of several.
const lastRate = 0.1

// Settings describes the encoder and its fit. Callers keep numbers in their ranges.
type Settings struct {
	// Dim is the length of a feature's embedding; 0 means the rank. Without a dense layer these
	// embeddings are added up, so Dim must be the rank.
	Dim int
	// Dense adds a dense layer after the concatenated embeddings of the categories. Without it they
	// are added up, and the encoder is linear.
	Dense bool
	// IDs gives each item an embedding of its id besides its features' embeddings. Without features
	// there are only ids, whatever IDs says.
	IDs bool
	// StartNorm is the root mean square of ‖v_j‖ at the start over the items that have features;
	// above 0 and at most 1e9.
	StartNorm float64

	Optimiser Optimiser
	Rate      float64 // learning rate of the first step; above 0
	Steps     int     // gradient steps of a round; at least 1
	// Batch is the most items that a step uses; 0 means all of them. An epoch divides the items
	// into batches whose sizes differ by at most one.
	Batch int
	// Ridge is ρ in ½ρ‖θ‖², which is added to the mean loss of the items. It is not negative, and
	// applies to the dense layer, too.
	Ridge float64
}

// Validate reports what does not go with an encoder of that rank. Ranges of numbers stand with the keys of the settings.
func (s Settings) Validate(rank int) error {
	var errs problems.List
	bad := func(holds bool, format string, args ...any) { errs.If(holds, "encoder: "+format, args...) }
	bad(rank < 1, "rank is %d; it must be at least 1", rank)
	bad(s.Dim < 0, "dim is %d; it must be at least 1, or 0 for the rank", s.Dim)
	bad(!s.Dense && s.Dim > 0 && s.Dim != rank, "dim is %d without a dense layer; embeddings that are added up must have the rank, %d", s.Dim, rank)
	bad(!slices.Contains(Optimisers, s.Optimiser), "optimiser is %q; it must be one of %v", s.Optimiser, Optimisers)
	return errors.Join(errs...)
}

// rate is the learning rate of a step, counted from 0: it falls along half a cosine.
func (s Settings) rate(step int) float64 {
	if s.Steps == 1 {
		return s.Rate
	}
	left := 1 - float64(step)/float64(s.Steps-1) // from 1 to 0
	return s.Rate * (lastRate + (1-lastRate)*(1-math.Cos(math.Pi*left))/2)
}

// Visits returns Σ_j β_j of the am-ssp paper, appendix C: the expected number of items in the
// batches of an epoch of DP-SGD, each batch's items counted once. counts are D_j, the number of
// examples of item j, and D is their sum. Batches have B examples, drawn with replacement, and β_j
// = D/B·(1 - (1 - D_j/D)^B). A step goes forward and back once for each item in its batch. There
// are D/B batches, which need not be a whole number; batch is positive. Without examples the result
// is 0.
func Visits(counts []float64, batch float64) float64 {
	var all, sum float64
	for _, n := range counts {
		all += n
	}
	if all == 0 {
		return 0
	}
	for _, n := range counts {
		// Expm1 and Log1p keep the digits of 1 - (1-p)^B if p is small.
		sum -= all / batch * math.Expm1(batch*math.Log1p(-n/all))
	}
	return sum
}

// Cost counts multiplications as in Proposition 2 of the am-ssp paper, up to constants that both
// sides share.
type Cost struct {
	Examples, Items, Rank float64 // D, m, d
	Pass                  float64 // c, of going forward and back for an item
	Epochs                float64 // e; in each, every item is gone through once
	Visits                float64 // β, of items in an epoch of DP-SGD
}

// Ratio is (9): the cost of SSP-c as a fraction of the cost of DP-SGD. SSP-c costs D·d² for
// statistics and c + d² for each item in an epoch; DP-SGD costs c a visit.
func (c Cost) Ratio() float64 {
	square := c.Rank * c.Rank
	return (c.Examples*square + c.Epochs*c.Items*(c.Pass+square)) / (c.Pass * c.Epochs * c.Visits)
}

// PassCost is c of this encoder, averaged over items: the coordinates of embeddings that an item's
// values add up, and the dense layer.
func (e *Encoder) PassCost() float64 {
	var values int
	for _, b := range e.bags {
		values += int(b.byItem.start[e.items])
	}
	c := float64(values) * float64(e.settings.Dim) / float64(e.items)
	if e.settings.Dense {
		c += float64(e.hidden * e.rank)
	}
	return c
}

// EmbedOthers returns the embeddings of other items, items x rank, row by row. Their features have
// the categories and vocabularies of the encoder's own, as with [dataset.ItemFeatures.Pick]. Their
// ids were never trained on, nor were values that none of the encoder's items has: these count as
// zero. An item with nothing else is zero.
func (e *Encoder) EmbedOthers(f *dataset.ItemFeatures) []float64 {
	dim, d := e.settings.Dim, e.rank
	v, h := make([]float64, f.Items*d), make([]float64, e.hidden)
	for j := range f.Items {
		clear(h)
		for k := range f.Categories {
			b := &e.bags[k]
			values, weights := f.Categories[k].Features(j)
			sum := floats.Sum(weights)
			for i, value := range values {
				if b.byValue.start[value] < b.byValue.start[value+1] {
					floats.AddScaled(h[b.column:][:dim], weights[i]/sum, e.theta[b.first+int(value)*dim:][:dim])
				}
			}
		}
		row := v[j*d : (j+1)*d]
		if !e.settings.Dense {
			copy(row, h)
			continue
		}
		blas64.Gemv(blas.Trans, 1, dense.General(e.dense, e.hidden, d), dense.Vector(h), 0, dense.Vector(row))
	}
	return v
}

// stateDomain begins the state of an encoder that survives a restart: θ, and for Adam its moments
// and the number of their steps.
//
//	state = domain ‖ fingerprint (32 bytes) ‖ steps (8, big endian) ‖ θ ‖ means ‖ squares
//
// Numbers are float64, little endian. The domain ends in the version of the form. The keeper of a
// state must detect damage.
const stateDomain = "fedsim/fedssp/encoder/v1\n"

// maxSteps is far above the steps of a run. Up to it steps are exact in a float64.
const maxSteps = 1 << 53

// fingerprint hashes everything that gives the numbers of a state their meaning and place. A state
// for other features of the same size would fit, and be nonsense.
func fingerprint(f *dataset.ItemFeatures, rank int, s Settings, seed uint64) [32]byte {
	h := sha256.New()
	item := func(b []byte) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b))))
		h.Write(b)
	}
	number := func(n uint64) { h.Write(binary.BigEndian.AppendUint64(nil, n)) }
	flag := func(b bool) { number(map[bool]uint64{true: 1}[b]) }
	item([]byte(stateDomain))
	item([]byte(f.Digest))
	number(uint64(f.Items))
	number(uint64(len(f.Categories)))
	for _, c := range f.Categories {
		item([]byte(c.Name))
		number(uint64(len(c.Values)))
	}
	number(uint64(rank))
	number(uint64(s.Dim))
	flag(s.Dense)
	flag(s.IDs)
	item([]byte(s.Optimiser))
	number(math.Float64bits(s.StartNorm))
	number(seed)
	return [32]byte(h.Sum(nil))
}

// Save returns the state between two calls of Fit.
func (e *Encoder) Save() []byte {
	b := append(make([]byte, 0, e.stateSize()), stateDomain...)
	b = append(b, e.fingerprint[:]...)
	b = binary.BigEndian.AppendUint64(b, e.opt.steps)
	return model.AppendFloats(model.AppendFloats(model.AppendFloats(b, e.theta...), e.opt.mean...), e.opt.sq...)
}

func (e *Encoder) stateSize() int {
	return len(stateDomain) + len(e.fingerprint) + 8 + 8*(len(e.theta)+len(e.opt.mean)+len(e.opt.sq))
}

// Restore returns to a state of Save. It returns an error that says why, and leaves the encoder
// unchanged, for a state that Save cannot return, or for other features, settings or seed.
func (e *Encoder) Restore(state []byte) error {
	b := state
	if len(b) != e.stateSize() {
		return fmt.Errorf("encoder: a state of %d bytes; of this encoder it has %d", len(b), e.stateSize())
	}
	if got := string(b[:len(stateDomain)]); got != stateDomain {
		return fmt.Errorf("encoder: the state begins with %q; it must begin with %q: it is of something else or of another version", got, stateDomain)
	}
	b = b[len(stateDomain):]
	if [32]byte(b) != e.fingerprint {
		return fmt.Errorf("encoder: the state is of other features, settings or another seed")
	}
	b = b[len(e.fingerprint):]
	steps := binary.BigEndian.Uint64(b)
	most := uint64(0)
	if e.opt.kind == Adam {
		most = maxSteps
	}
	if steps > most {
		return fmt.Errorf("encoder: the state's optimiser has taken %d steps; %d is the most it can keep", steps, most)
	}
	numbers, n := model.Floats(b[8:]), len(e.theta)
	for i, x := range numbers {
		if math.IsNaN(x) || math.IsInf(x, 0) || i >= 2*n && x < 0 {
			return fmt.Errorf("encoder: number %d of the state is %v; all are finite, and running squares not negative", i, x)
		}
	}
	for _, xs := range [][]float64{e.theta, e.opt.mean, e.opt.sq} {
		numbers = numbers[copy(xs, numbers):]
	}
	e.opt.steps = steps
	return nil
}
