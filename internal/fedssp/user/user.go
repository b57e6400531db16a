package user

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// New returns the trainers of n users of one process. They keep their embeddings in kept.
func New(p *kernel.Params, stage Stages, n int, all model.RatingsByUser, kept *model.RowArena) []User {
	shared, list := &crowd{Params: p, stage: stage, all: all, kept: kept, many: n > 1}, make([]User, n)
	for i := range list {
		list[i] = User{crowd: shared, at: int32(i)}
	}
	return list
}

// Contribute returns a vector for each release of the plan, by name. An error does not depend on
// the ratings, unless they are off the scale.
func (t *User) Contribute(p *protocol.Plan, src entropy.Source, _ protocol.Runner) ([]protocol.Vector, error) {
	if p.OwnNoise() {
		return nil, errors.New("fedssp: the plan asks users for noise of their own, and these users add none; the ledger would be charged for missing noise")
	}
	from, err := t.open(p.Broadcast)
	if err != nil {
		return nil, err
	}
	m := from.model
	memory := model.Borrow()
	defer memory.Return()
	all, err := t.read(memory)
	if err != nil {
		return nil, err
	}
	c := Contribution{User: t, Params: m.Params, All: all, Model: m, Source: src, Round: p.Round, Phase: p.Phase, fitted: t.isFitted(from), clients: p.Cohort.Clients}
	c.Ratings, c.from = m.TrainedOn(all)
	defer c.free()
	vectors := make([]protocol.Vector, len(p.Releases))
	for i, r := range p.Releases {
		if vectors[i], err = c.vector(r); err != nil {
			return nil, fmt.Errorf("fedssp: release %q: %w", r.Name, err)
		}
	}
	return vectors, nil
}

// Finish fits the user to the final model.
func (t *User) Finish(final []byte, _ protocol.Runner) error {
	from, err := t.open(final)
	if err != nil {
		return err
	}
	memory := model.Borrow()
	defer memory.Return()
	all, err := t.read(memory)
	if err != nil {
		return err
	}
	if from.model.Unchosen {
		return kernel.ErrNotCounted
	}
	if !t.isFitted(from) {
		t.fit(from.model, all)
	}
	t.Finished = true
	return nil
}

// Snapshot returns the user's own parameters, if it takes steps, and the sample of ratings, if
// there is one. Fitted numbers are not saved: every round fits anew.
func (t *User) Snapshot() ([]byte, error) {
	keeps := solverOf(t.Params).Keeps(t.Params)
	if t.chosen == nil && (keeps == 0 || t.U == nil) {
		return nil, nil
	}
	b := make([]byte, 0, 8*keeps+4*len(t.chosen))
	if keeps > 0 {
		b = model.AppendFloats(model.AppendFloats(b, t.U...), make([]float64, t.Params.Width()-len(t.U))...)
		b = model.AppendFloats(b, t.Bias)
	}
	for _, k := range t.chosen {
		b = binary.LittleEndian.AppendUint32(b, uint32(k))
	}
	return b, nil
}

// Resume reads a snapshot.
func (t *User) Resume(snapshot []byte, _ entropy.Source) error {
	if snapshot == nil {
		return nil
	}
	size := 8 * solverOf(t.Params).Keeps(t.Params)
	if len(snapshot) < size {
		return fmt.Errorf("fedssp: a snapshot of %d bytes; a user's parameters have %d", len(snapshot), size)
	}
	steps := model.Floats(snapshot[:size])
	if i := dense.NotFinite(steps); i >= 0 {
		return fmt.Errorf("fedssp: a snapshot holds the number %v; numbers are finite", steps[i])
	}
	snapshot = snapshot[size:]
	memory := model.Borrow()
	defer memory.Return()
	n, ratings := len(snapshot)/4, len(t.Ratings(memory).Items)
	if len(snapshot)%4 != 0 || n > ratings || n > t.Params.PerUser {
		return fmt.Errorf("fedssp: a snapshot of %d bytes of places of ratings; there are %d ratings, and at most %d count", len(snapshot), ratings, t.Params.PerUser)
	}
	chosen := make([]int, n)
	for i := range chosen {
		k := binary.LittleEndian.Uint32(snapshot[4*i:])
		if int64(k) >= int64(ratings) || slices.Contains(chosen[:i], int(k)) {
			return fmt.Errorf("fedssp: a snapshot with the rating at place %d, of %d different ones", k, ratings)
		}
		chosen[i] = int(k)
	}
	if size > 0 {
		t.U, t.Bias = steps[:len(steps)-1], steps[len(steps)-1]
	}
	if t.Params.Budgeting != kernel.Weights {
		t.chosen = chosen
	}
	return nil
}

// vector computes one release.
func (c *Contribution) vector(r protocol.Release) (protocol.Vector, error) {
	of, want := c.stage(r.Name)
	if want == 0 {
		return protocol.Vector{}, errors.New("no such release is known")
	} else if r.Len != want {
		return protocol.Vector{}, fmt.Errorf("it has %d coordinates; it must have %d", r.Len, want)
	}
	if err := c.asSampled(r); err != nil {
		return protocol.Vector{}, err
	}
	ratings := c.Ratings
	if of.BeforeChoice(c.Params) {
		ratings = c.All
	} else if c.Model.Unchosen {
		return protocol.Vector{}, errors.New("the model does not say which items are trained on")
	}
	if len(ratings.Items) == 0 {
		return protocol.Vector{Index: []uint32{}}, nil
	}
	return of.Contribute(c, r)
}

// This file holds the client's local fit. It fits the user's embedding u and bias b to its ratings:
//
//	min  Σ_j ℓ(μ + b_j + b + <u, v_j> + <t, x_j>; y_j) + λ_u/2 (‖u‖² + ‖t‖²) + λ_b/2 b²
//
// Here t holds the user's weights of public features, if it weighs any ([kernel.UserFeatures]), and of
// popularity, if that was released. ℓ is half the squared error, except for the other losses of the
// Convex solver. With implicit feedback the target is 1 and α/2·Σ_j <u, v_j>² over all items is
// added. The fit is never sent as such.
//
// A fit never fails: for any items the result is finite or zero.

// Fit does a client's local fit to a model. It returns u, followed by the user's weights of
// public features, and the user's own bias, 0 if users have none. The ratings must be valid for the
// settings, with items ascending (see [fedssp.NewUser]).
func Fit(m *kernel.Model, r model.Ratings) (u []float64, bias float64) {
	p := m.Params
	if m.Unchosen {
		return make([]float64, p.Rank+p.UserFeatures.Width()), 0
	}
	w := fitted(m, r)
	defer w.Free()
	return w.embedding(p, nil), w.bias(p)
}

// fitted fits a user to a model. The workspace has the solution.
func fitted(m *kernel.Model, all model.Ratings) *Workspace {
	w := NewWorkspace(m.Params)
	r, _ := m.TrainedOn(all)
	w.Gather(m.Params, m, r)
	w.Fit(m.Params, m)
	return w
}

// Workspace is the memory of a fit. Users fit in it one after the other.
type Workspace struct {
	Width  int       // of a row: its head, and the public features that the user weighs
	Items  []int32   // the rated items
	Rows   []float64 // n x width: whole rows, after Spread
	Offset []float64 // μ + b_j, or its logit
	Value  []float64 // y_j; for Logistic scaled to 0..1
	Beta   []float64 // the solution: u, the bias if there is one, weights of features
	Gram   []float64 // width x width
	Solver any       // memory of the solver's fit

	head    int           // of a row: v_j, 1 for the bias if any, popularity if weighed
	biased  bool          // there is a bias
	step    int           // from line to line
	lines   []float64     // n x step: a head, y_j less its offset, zeros
	table   *kernel.Table // holds the lines in place of them; nil: none does
	popular []float64     // of each item, if a table holds the lines; else nil
	tastes  *kernel.UserFeatures
	top     []float64 // products of lines with each other
	sides   []float64 // products of lines with each feature, a line for each
	pairs   []float64 // products of features with each other, packed

	own     []float64 // the user's own parts of predictions
	weights [kernel.MaxUserFeatures][dense.Lane]float64
}

var workspaces = sync.Pool{New: func() any { return new(Workspace) }}

// NewWorkspace takes the memory of a fit from a pool. Free gives it back.
func NewWorkspace(p *kernel.Params) *Workspace {
	w := workspaces.Get().(*Workspace)
	w.head, w.step, w.tastes = p.WeightsAt(), kernel.LineOf(p), p.UserFeatures
	w.biased = p.Bias
	w.Width = w.head + w.tastes.Width()
	w.Beta = Resize(w.Beta, w.Width)
	return w
}

// Free gives the memory back. It must not be used any more.
func (w *Workspace) Free() {
	w.Items, w.table, w.popular, w.tastes = nil, nil, nil, nil // owned by others, not to be kept alive
	workspaces.Put(w)
}

// Resize returns n zeros, in the memory of x if it is large enough.
func Resize(x []float64, n int) []float64 {
	if cap(x) < n {
		return make([]float64, n)
	}
	x = x[:n]
	clear(x)
	return x
}

// room returns n numbers, not cleared, in the memory of x if it is large enough.
func room(x []float64, n int) []float64 {
	if cap(x) < n {
		return make([]float64, n, n+n/2)
	}
	return x[:n]
}

// bias is the user's bias after a fit.
func (w *Workspace) bias(p *kernel.Params) float64 {
	if !p.Bias {
		return 0
	}
	return w.Beta[p.Rank]
}

// embedding appends u and weights of features to dst, after a fit.
func (w *Workspace) embedding(p *kernel.Params, dst []float64) []float64 {
	return append(append(dst, w.Beta[:p.Rank]...), w.Beta[p.Rank+p.BiasWidth():]...)
}

// Residuals fits the user without V, and writes the residuals of its ratings, in stars, to dst.
func (w *Workspace) Residuals(p *kernel.Params, m *kernel.Model, r model.Ratings, dst []float64) {
	w.Gather(p, m, r)
	for k := range r.Items {
		clear(w.Row(k, p.Rank))
	}
	w.Fit(p, m)
	for k, own := range w.ownParts(p.Rank)[:len(dst)] {
		x := w.Offset[k] + own
		if p.Logits {
			dst[k] = (w.Value[k] - kernel.Sigmoid(x)) * (p.Max - p.Min)
		} else {
			dst[k] = w.Value[k] - x
		}
	}
}

// Ridge is λ of coordinate i of beta.
func (w *Workspace) Ridge(p *kernel.Params, i int) float64 {
	if p.Bias && i == p.Rank {
		return p.UserBiasRidge
	}
	return p.UserRidge
}

// Fit solves for beta.
func (w *Workspace) Fit(p *kernel.Params, m *kernel.Model) {
	clear(w.Beta)
	if len(w.Value) == 0 {
		return
	}
	solverOf(p).Fit(w, p, m)
	if dense.NotFinite(w.Beta) >= 0 {
		clear(w.Beta)
	}
}

// TasteRidge is the ridge of the weights of public features, from the upper triangle of XᵀX and from Xᵀr. How much a
// user's weights differ from zero is estimated from the user's own ratings. With residuals r around their mean, features
// X around theirs and noise of variance s, |Xᵀr|²/s - tr XᵀX has the expectation m·|XᵀX|²/λ and, without differences, the
// variance 2|XᵀX|². Here m is the variance of the weights in units of s/λ. Its prior is half of what the settings
// expect, with a deviation of as much. So a user whose ratings do not follow features is hardly predicted by them. Ours.
func (w *Workspace) TasteRidge(p *kernel.Params, gram, right []float64) float64 {
	const (
		usual       = 0.5
		noise       = 3. / 64 // of the square of the scale's length
		least, most = 0.05, 8
	)
	n := float64(len(w.Value))
	if !p.Bias || p.Logits || w.tastes == nil || p.Feedback == kernel.Implicit {
		return p.UserRidge
	}
	s := noise * dense.Sqr(p.Max-p.Min)
	sum := gram[p.Rank*w.Width:][:w.Width] // of each column
	var squares, trace, norm float64
	for i := w.head; i < w.Width; i++ {
		mean, row := sum[i]/n, gram[i*w.Width:]
		own := row[i] - float64(mean*sum[i])
		squares += float64(dense.Sqr(right[i] - float64(mean*right[p.Rank])))
		trace += own
		pairs := 0.
		for k := i + 1; k < w.Width; k++ {
			pairs += float64(dense.Sqr(row[k] - float64(mean*sum[k])))
		}
		norm += float64(own*own) + 2*pairs
	}
	m := (1/usual + (squares/s-trace)/(2*p.UserRidge)) / (1/(usual*usual) + norm/(2*p.UserRidge*p.UserRidge))
	return p.UserRidge / min(max(m, least), most)
}

// LeastSquares solves (XᵀX + Λ) beta = Xᵀ(y - offset).
func (w *Workspace) LeastSquares(p *kernel.Params, m *kernel.Model) {
	if p.Feedback == kernel.Implicit {
		dense.Unpack(w.Gram, m.Gramian, p.Rank, p.Unobserved)
	}
	w.AddProducts(w.Beta)
	tastes := w.TasteRidge(p, w.Gram, w.Beta)
	for i := range w.Width {
		ridge := tastes
		if i < w.head {
			ridge = w.Ridge(p, i)
		}
		w.Gram[i*w.Width+i] += ridge
	}
	if !dense.SolveUpper(w.Gram, w.Beta, w.Width) {
		clear(w.Beta)
	}
}

// ClipUser scales u, finite after a fit, down to norm bound if it is longer. Afterwards ‖u‖ <= Γ_u
// for any fit; a u whose norm overflows becomes zero. The scale is a little smaller than necessary:
// rounding must not move a u of one coordinate, or its square, past the bound, which is also
// declared for every coordinate.
func ClipUser(u []float64, bound float64) { Restrain(u, dense.Norm(u), bound) }
