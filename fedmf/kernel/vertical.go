package kernel

import (
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Vertical is a party of VFL-SGDMF, which owns items and holds all users' ratings of them: a
// client.Trainer. U is shared. V_k never leaves the party, except that the party may publish it at
// the end. It is private by the noise of every step (FMF paper, section 4).
type Vertical struct {
	params  *PartyParams
	items   []int32 // owned by the party, as indices of the catalogue
	ratings *table
	weight  float64 // m_k/m
	alone   bool

	steps    *stepper      // nil before the first round
	u        *model.Matrix // U as the party knows it
	source   entropy.Source
	last     protocol.Noise // of the paid steps on V alone
	finished bool
}

// NewVertical makes the party that owns the given items. rows are the ratings of
// all users for these items: Items are positions in items.
func NewVertical(p *PartyParams, items []int32, rows []model.Ratings) (*Vertical, error) {
	if len(items) == 0 {
		return nil, errors.New("fedmf: a party of VFL must own at least one item")
	}
	if len(rows) != p.Users {
		return nil, fmt.Errorf("fedmf: ratings of %d users for a party of VFL; there are %d", len(rows), p.Users)
	}
	if err := errors.Join(checkOwned("item", items, p.Items), CheckRatings(rows, len(items), p.MaxRating)); err != nil {
		return nil, err
	}
	return &Vertical{params: p, items: items, ratings: newTable(rows), weight: float64(len(items)) / float64(p.Items)}, nil
}

// Alone makes the party train by itself. It takes part in every round, for as many steps and as
// much noise, but keeps its own U and sends none. It is the local-only baseline. Call it before the
// first round.
func (t *Vertical) Alone() { t.alone = true }

// StartUsers returns the start of U: FromUsers, or else the common start.
func (p Params) StartUsers(users int) *model.Matrix {
	if p.FromUsers != nil && p.FromUsers.Rows() == users {
		return p.FromUsers.Clone()
	}
	u := model.NewMatrix(users, p.Rank)
	start := p.StartUser()
	for i := range users {
		copy(u.Row(i), start)
	}
	return u
}

// Items returns the party's own items, as indices of the catalogue.
func (t *Vertical) Items() []int32 { return t.items }

// Embeddings returns V_k, one row for each of Items, as the party may publish it. It is on the grid
// of the party's messages, since the low bits of a float may tell the number that noise was added
// to.
func (t *Vertical) Embeddings() *model.Matrix {
	v := t.exact().Clone()
	for i, x := range v.Data() {
		v.Data()[i] = math.RoundToEven(x*averageScale) / averageScale
	}
	return v
}

// exact returns V_k as the party trains it.
func (t *Vertical) exact() *model.Matrix {
	if t.steps == nil {
		return t.start()
	}
	return t.steps.v
}

// Users returns U as the party knows it; nil before its first round.
func (t *Vertical) Users() *model.Matrix { return t.u }

// Finished reports whether the last steps have been taken.
func (t *Vertical) Finished() bool { return t.finished }

// start returns the party's part of the common start of V.
func (t *Vertical) start() *model.Matrix {
	all, v := t.params.StartItems(), model.NewMatrix(len(t.items), t.params.Rank)
	for k, j := range t.items {
		copy(v.Row(k), all.Row(int(j)))
	}
	return v
}

// prepare trims the ratings and starts V_k.
func (t *Vertical) prepare(src entropy.Source) error {
	ratings := t.ratings
	if t.params.ClipRatings > 0 {
		var err error
		if ratings, err = ratings.trim(t.params.ClipRatings, src.Stream("trim", 0)); err != nil {
			return fmt.Errorf("fedmf: trimming: %w", err)
		}
	}
	t.steps, t.source = newStepper(t.params, ratings, t.start()), src
	return nil
}

// receive takes up a broadcast U. A party that trains alone takes only the first.
func (t *Vertical) receive(model []byte) error {
	if t.u != nil && t.alone {
		return nil
	}
	u, err := t.params.receive(model, t.params.Users, t.u)
	if err == nil {
		t.u = u
	}
	return err
}

// Contribute takes T' local steps on U and V_k from the broadcast U, and returns (w_k·U^(k), w_k).
func (t *Vertical) Contribute(p *protocol.Plan, src entropy.Source, _ protocol.Runner) ([]protocol.Vector, error) {
	n, err := t.params.own(p, t.params.Users, t.params.Unit == dp.User)
	if err != nil {
		return nil, err
	}
	if err = t.receive(p.Broadcast); err != nil {
		return nil, err
	}
	if t.steps == nil {
		if err = t.prepare(src); err != nil {
			return nil, err
		}
	}
	t.last = n
	t.last.Steps -= t.params.LocalSteps
	if err = t.steps.begin(n, src, "local-steps", p.Round); err != nil {
		return nil, err
	}
	for k := range t.params.LocalSteps {
		if err = t.step(int(p.Round-1)*t.params.LocalSteps+k+1, true); err != nil {
			return nil, err
		}
	}
	if t.alone {
		return []protocol.Vector{{Index: []uint32{uint32(len(t.u.Data()))}, Value: []float64{t.weight}}}, nil
	}
	return []protocol.Vector{weighted(t.u, t.weight, p.Releases[0])}, nil
}

// step is one local step, of U and V_k, or of V_k alone. Noise is for the sum
// over the sample; the sum is divided by its public expectation afterwards.
func (t *Vertical) step(number int, both bool) error {
	p, s := t.params, t.steps
	if err := s.gradients(t.u, both); err != nil {
		return err
	}
	sigma := s.z * p.Sensitivity(both)
	userRate, itemRate := p.rates(number)
	if both {
		if err := s.moveU(t.u, userRate/p.batch(len(t.items)), sigma); err != nil {
			return err
		}
	}
	return s.moveV(itemRate/p.batch(p.Users), sigma)
}

// Finish takes the last κ steps, on V_k alone, if the party took part in the round that pays
// for them (FMF paper, section 4.1.4).
func (t *Vertical) Finish(model []byte, _ protocol.Runner) error {
	if err := t.receive(model); err != nil {
		return err
	}
	if t.steps != nil && t.last.Steps > 0 {
		if err := t.steps.begin(t.last, t.source, "item-steps", 0); err != nil {
			return err
		}
		for range t.last.Steps {
			if err := t.step(t.params.Rounds*t.params.LocalSteps, false); err != nil {
				return err
			}
		}
	}
	t.last.Steps, t.finished = 0, true
	return nil
}
