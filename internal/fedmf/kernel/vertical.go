package kernel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Vertical is a party of VFL-SGDMF, which owns items and holds all users' ratings of them: a
// client.Trainer. U is shared. V_k never leaves the party, except that the party may publish it at
// the end. It is private by the noise of every step (FMF paper, section 4).
type Vertical struct {
	party
	// Alone makes the party train by itself. It takes part in every round, for as many steps and as much noise, but keeps its
	// own U and sends none. It is the local-only baseline.
	Alone bool

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
	common, err := newParty(p, "item", items, p.Items, rows, len(items))
	return &Vertical{party: common}, err
}

// StartUsers returns the start of U: FromUsers, or else the common start.
func (p Params) StartUsers(users int) *model.Matrix {
	if p.FromUsers != nil && p.FromUsers.Rows() == users {
		return p.FromUsers.Clone()
	}
	return p.uniform(users)
}

// Embeddings returns V_k, one row for each of Own, as the party may publish it. It is on the grid
// of the party's messages, since the low bits of a float may tell the number that noise was added
// to.
func (t *Vertical) Embeddings() *model.Matrix {
	v := t.exact().Clone()
	for i, x := range v.Data() {
		v.Data()[i] = math.RoundToEven(x*averageScale) / averageScale
	}
	return v
}

// exact returns V_k as the party trains it: at first its part of the common start of V.
func (t *Vertical) exact() *model.Matrix {
	if t.steps == nil {
		return model.Wrap(len(t.Own), t.params.Rank, t.params.StartItems().AppendRows(nil, t.Own))
	}
	return t.steps.v
}

// Finished reports whether the last steps have been taken.
func (t *Vertical) Finished() bool { return t.finished }

// receive takes up a broadcast U. A party that trains alone takes only the first, and its own
// afterwards, rounded as it would be broadcast.
func (t *Vertical) receive(broadcast []byte) error {
	if t.Users != nil && t.Alone {
		model.Round(t.Users.Data())
		return nil
	}
	u, err := t.params.receive(broadcast, t.params.Users)
	if err == nil {
		t.Users = u
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
		if err = t.prepare(t.exact(), src); err != nil {
			return nil, err
		}
	}
	t.source, t.last = src, n
	t.last.Steps -= t.params.LocalSteps
	if err = t.train(p.Round, n, src, func(number int) error { return t.step(number, true) }); err != nil {
		return nil, err
	}
	if t.Alone {
		return []protocol.Vector{{Index: []uint32{uint32(len(t.Users.Data()))}, Value: []float64{t.weight}}}, nil
	}
	return []protocol.Vector{weighted(t.Users, t.weight, p.Releases[0])}, nil
}

// step is one local step, of U and V_k, or of V_k alone. Noise is for the sum
// over the sample; the sum is divided by its public expectation afterwards.
func (t *Vertical) step(number int, both bool) error {
	p, s := t.params, t.steps
	if err := s.gradients(t.Users, both); err != nil {
		return err
	}
	sigma := s.z * p.Sensitivity(both)
	userRate, itemRate := p.rates(number)
	if both {
		if err := s.move(t.Users, s.gradU, s.touched, userRate/p.batch(len(t.Own)), sigma); err != nil {
			return err
		}
	}
	return s.move(s.v, s.gradV.Data(), nil, itemRate/p.batch(p.Users), sigma)
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

// verticalDomain begins a party's state of VFL for a restart. A verticalState in JSON follows. The keeper of a state must
// detect damage.
const verticalDomain = "fedsim/fedmf/vertical/v2\n"

// verticalState is as private as V_k: more exact than the embeddings that the party may publish.
type verticalState struct {
	Finished bool `json:"finished"`
	// Last is the noise of the steps on V_k that are paid for and not taken.
	Last       protocol.Noise `json:"last"`
	Items      []int32        `json:"items"`
	Embeddings []byte         `json:"embeddings"` // V_k with every bit
}

// Save returns nil before the first round.
func (t *Vertical) Save() ([]byte, error) {
	if t.Alone {
		return nil, errors.New("fedmf: a party that trains alone is a baseline, and has no state to keep")
	}
	if t.steps == nil {
		return nil, nil
	}
	b, err := json.Marshal(verticalState{t.finished, t.last, t.Own, model.AppendFloats(nil, t.steps.v.Data()...)})
	return append([]byte(verticalDomain), b...), err
}

// Restore takes up a saved state, before the first round. It draws the trimmed ratings of a
// user again from src: a step's sensitivity is the same for any choice.
func (t *Vertical) Restore(state []byte, src entropy.Source) error {
	if state == nil {
		return nil
	}
	rest, ok := bytes.CutPrefix(state, []byte(verticalDomain))
	if !ok {
		return fmt.Errorf("fedmf: a state of %d bytes that does not begin with %q: it is of another algorithm or version", len(state), verticalDomain)
	}
	var s verticalState
	if err := json.Unmarshal(rest, &s); err != nil {
		return fmt.Errorf("fedmf: the state: %w", err)
	}
	switch n := s.Last; {
	case n.Kind != protocol.NoNoise && n.Kind != protocol.PartyNoise:
		return fmt.Errorf("fedmf: the state has noise of the kind %s; a party noises its own steps", n.Kind)
	case n.Steps > t.params.ItemSteps || !(n.SamplingRate > 0 && n.SamplingRate <= 1) || !(n.Multiplier >= 0):
		return fmt.Errorf("fedmf: the state has %d steps paid for, at the rate %v and multiplier %v; at most %d follow the last round",
			n.Steps, n.SamplingRate, n.Multiplier, t.params.ItemSteps)
	case !slices.Equal(s.Items, t.Own):
		return fmt.Errorf("fedmf: the state is of other items than the %d that the party owns", len(t.Own))
	}
	v := model.NewMatrix(len(t.Own), t.params.Rank)
	if err := model.ReadFloats(v.Data(), s.Embeddings); err != nil {
		return err
	}
	if err := t.params.accept("state", v); err != nil {
		return err
	}
	if err := t.prepare(v, src); err != nil {
		return err
	}
	t.source, t.last, t.finished = src, s.Last, s.Finished
	return nil
}

func (t *Vertical) Snapshot() ([]byte, error) { return t.Save() }

func (t *Vertical) Resume(state []byte, src entropy.Source) error { return t.Restore(state, src) }

// watchGain is the length of a watched step: short enough that no row is projected, since
// projection hides a part of the step.
const watchGain = 1e-6

// Watch prepares local steps of a party on the data of one unit, which moves embeddings as far as its bound allows, if full, or else on no
// data. They are on users and items (both) or on items alone. The returned function takes a step and returns how far it went towards the
// unit's gradient, in sensitivities: 0, or 1 if the unit exists and is sampled, plus noise of deviation z.
//
// The worst embeddings are u = v_j = √R·e for a rating of 0, whose error is the whole scale. Its gradient is 2R^{3/2} long
// in both (FMF paper, section 4.1.1), and the gradients of all ratings of a user point the same way. The moved embeddings
// are in the middle of the ball.
func (p PartyParams) Watch(both, full bool, n protocol.Noise, src entropy.Source) (func() (float64, error), error) {
	ratings := 1
	if p.Unit == dp.User {
		ratings = max(1, p.ClipRatings)
	}
	corner := func(rows int) *model.Matrix {
		m := model.NewMatrix(rows, p.Rank)
		for i := range rows {
			m.Row(i)[0] = math.Sqrt(p.MaxRating)
		}
		return m
	}
	one := model.Ratings{Items: model.Indices(ratings), Values: make([]float32, ratings)}
	s, at := newStepper(&p, newTable([]model.Ratings{one}), corner(ratings)), corner(1)
	s.sampler = newSampler(1, nil) // a step that samples everything, without noise, finds the gradient of the unit
	if err := s.gradients(at, both); err != nil {
		return nil, err
	}
	toward := slices.Concat(s.gradU, s.gradV.Data())
	norm := math.Sqrt(model.Dot(toward, toward))
	for i := range toward {
		toward[i] /= norm
	}
	if !full {
		s.ratings = newTable([]model.Ratings{{}})
	}
	if err := s.begin(n, src, "local-steps", 1); err != nil {
		return nil, err
	}
	bound, middle := p.Sensitivity(both), math.Sqrt(p.MaxRating/float64(p.Rank))/2
	start := func(rows int) *model.Matrix {
		return model.Wrap(rows, p.Rank, slices.Repeat([]float64{middle}, rows*p.Rank))
	}
	return func() (float64, error) {
		if err := s.gradients(at, both); err != nil {
			return 0, err
		}
		if p.Gradients {
			err := s.addNoise(s.gradV.Data(), s.z*bound)
			return model.Dot(s.gradV.Data(), toward) / bound, err
		}
		var moved []float64
		if both {
			u := start(1)
			if err := s.move(u, s.gradU, s.touched, watchGain, s.z*bound); err != nil {
				return 0, err
			}
			moved = u.Data()
		}
		v := start(ratings)
		if err := s.move(v, s.gradV.Data(), nil, watchGain, s.z*bound); err != nil {
			return 0, err
		}
		moved = append(moved, v.Data()...)
		for i := range moved {
			moved[i] = (moved[i] - middle) / watchGain
		}
		return model.Dot(moved, toward) / bound, nil
	}, nil
}
