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
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/problems"
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
	if s.Dim == 0 {
		s.Dim = rank
	}
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
