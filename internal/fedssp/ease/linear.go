package ease

import (
	"bytes"
	"math"

	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/model"
)

// linear is the shared model. It ranks items for any user, also for users whom training has not seen.
type linear struct {
	*params
	*choice            // nil: no pairs
	counts   []float64 // as released
	vectors  *model.Matrix
	popular  []float64 // positive, in the order of counts
	share    []float64 // of each chosen item in the popularity of all chosen items
	leverage []float64 // |E_j|² of each chosen item
	reliance float64
	order    *kernel.Order
	years    *years // nil: unknown
}

// decode reads a broadcast model: nothing before any release, then counts, and vectors behind them.
func (p *params) decode(b []byte) (*linear, error) {
	if len(b) == 0 {
		return p.newLinear(make([]float64, p.items), nil), nil
	}
	head := min(len(b), model.EncodedSize(1, p.items))
	counts, err := model.NewBroadcast(b[:head], 1, p.items)
	if err != nil {
		return nil, err
	}
	var vectors *model.Matrix
	if len(b) > head {
		v, err := model.NewBroadcast(b[head:], p.top, p.columns())
		if err != nil {
			return nil, err
		}
		vectors = v.Matrix()
	}
	return p.newLinear(counts.Matrix().Data(), vectors), nil
}

// chosenBy returns the choice by the counts of a broadcast, which all clients of a process share.
func (p *params) chosenBy(broadcast []byte) (*choice, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil || !bytes.Equal(p.counts, broadcast) {
		counts, err := model.NewBroadcast(broadcast, 1, p.items)
		if err != nil {
			return nil, err
		}
		p.last, p.counts = p.choose(p.popularityOf(counts.Matrix().Data())), bytes.Clone(broadcast)
	}
	return p.last, nil
}

// newLinear makes the model of released counts and of vectors, which may be nil.
func (p *params) newLinear(counts []float64, vectors *model.Matrix) *linear {
	l := &linear{params: p, counts: counts, vectors: vectors, popular: p.popularityOf(counts)}
	years, others := yearsIn(p.features)
	l.order, l.years = kernel.NewOrder(l.popular, others, 1), newYears(years, l.popular)
	if p.top == 0 {
		return l
	}
	l.choice = p.choose(l.popular)
	total := 0.
	for _, j := range l.choice.items {
		total += l.popular[j]
	}
	l.share = lists.Map(l.choice.items, func(j int32) float64 { return l.popular[j] / total })
	if vectors != nil {
		for k := range vectors.Rows() {
			l.leverage = append(l.leverage, dense.Dot(vectors.Row(k), vectors.Row(k)))
		}
		l.reliance = reliance(vectors)
	}
	return l
}

// embed returns the sum of the vectors of a user's chosen items, each times its weight.
func (l *linear) embed(history []int32) []float64 {
	u := make([]float64, l.columns())
	if l.vectors == nil {
		return u
	}
	for _, j := range history {
		if k := l.place[j]; k >= 0 {
			dense.Axpy(u, l.weight[k], l.vectors.Row(int(k)))
		}
	}
	return u
}

// Score writes a score for each item. Their order alone counts. EASE predicts an item by the weights
// B_ij = -P_ij/P_jj = E_i·E_j/(1 - |E_j|²) of the user's other items i. Its positive predictions make up
// a share of the chosen items' popularity; popularity itself makes up the rest, and all of it for items
// that were not chosen. Last comes the user's taste for public features ([kernel.Order]) and for years.
func (l *linear) Score(_ int, history []int32, _ []float32, out []float64) {
	for j := range out {
		out[j] = 0 // log of popularity to popularity
	}
	if l.vectors != nil && len(history) > 0 {
		l.mix(history, out)
	}
	l.order.Rank(history, out)
	if l.years != nil {
		l.years.rank(history, out)
	}
}

// mix writes to out the logarithm of the mixed popularity of each chosen item to its own.
func (l *linear) mix(history []int32, out []float64) {
	u, total := l.embed(history), 0.
	z := make([]float64, l.top)
	for k := range z {
		z[k] = dense.Dot(u, l.vectors.Row(k))
	}
	for _, j := range history {
		if k := l.place[j]; k >= 0 {
			z[k] -= l.weight[k] * l.leverage[k] // an item does not predict itself
		}
	}
	for k := range z {
		z[k] = max(0, z[k]/max(1e-9, 1-l.leverage[k])/l.weight[k])
		total += z[k]
	}
	if !(total > 0 && l.reliance > 0) {
		return
	}
	for k := range z {
		z[k] = z[k] / total / l.share[k]
	}
	var own []float64
	for _, j := range history {
		if k := l.place[j]; k >= 0 {
			own = append(own, z[k])
		}
	}
	part := partOf(own, l.reliance)
	for k, j := range l.choice.items {
		out[j] = math.Log(part*z[k] + 1 - part)
	}
}

// reliance says how far pairs stand out of the noise, at most 1. The ridge keeps a share q of the first direction, whose relative
// error has about the variance ((1-q)/q)². From a half on pairs are noise.
func reliance(vectors *model.Matrix) float64 {
	q := 0.
	for k := range vectors.Rows() {
		q += vectors.Row(k)[0] * vectors.Row(k)[0]
	}
	return max(0, 1-2*(1-q)*(1-q)/max(1e-9, q*q))
}

// The part of a score that is predicted from pairs follows from the user's own items, and costs no privacy. Each chosen item is
// predicted from the others. Expectation and maximization find the most likely part, from a usual part that counts like some items,
// and like more of them the less pairs stand out.
const (
	usualPart  = 0.4 // of full reliance
	priorLikes = 2   // the same
	partFits   = 20
)

// partOf takes predictions of the user's items, relative to their popularity.
func partOf(ratios []float64, reliance float64) float64 {
	part := usualPart * reliance
	for range partFits {
		sum := usualPart * priorLikes
		for _, r := range ratios {
			sum += part * r / (part*r + 1 - part)
		}
		part = sum / (priorLikes/reliance + float64(len(ratios)))
	}
	return part
}
