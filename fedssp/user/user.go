package user

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/fedssp/kernel"
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

// Embedding is u, followed by the user's weights of public features, after the last fit; nil before
// the first. Not a copy.
func (t *User) Embedding() []float64 { return t.u }

// Bias is the user's own bias after the last fit.
func (t *User) Bias() float64 { return t.bias }

// Finished reports whether the user was fitted to the final model.
func (t *User) Finished() bool { return t.finished }

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
	t.finished = true
	return nil
}

// Snapshot returns the user's own parameters, if it takes steps, and the sample of ratings, if
// there is one. Fitted numbers are not saved: every round fits anew.
func (t *User) Snapshot() ([]byte, error) {
	keeps := solverOf(t.Params).Keeps(t.Params)
	if t.chosen == nil && (keeps == 0 || t.u == nil) {
		return nil, nil
	}
	b := make([]byte, 0, 8*keeps+4*len(t.chosen))
	if keeps > 0 {
		b = kernel.AppendFloats(kernel.AppendFloats(b, t.u...), make([]float64, t.Params.Width()-len(t.u))...)
		b = kernel.AppendFloats(b, t.bias)
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
	steps := kernel.Numbers(snapshot[:size])
	for _, x := range steps {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("fedssp: a snapshot holds the number %v; numbers are finite", x)
		}
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
		t.u, t.bias = steps[:len(steps)-1], steps[len(steps)-1]
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
