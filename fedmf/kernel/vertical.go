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
	return p.uniform(users)
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
	trimmed, err := t.params.trimmed(t.ratings, src)
	if err != nil {
		return err
	}
	t.steps, t.source = newStepper(t.params, trimmed, t.start()), src
	return nil
}

// receive takes up a broadcast U. A party that trains alone takes only the first, and its own
// afterwards, rounded as it would be broadcast.
func (t *Vertical) receive(broadcast []byte) error {
	if t.u != nil && t.alone {
		model.Round(t.u.Data())
		return nil
	}
	u, err := t.params.receive(broadcast, t.params.Users, t.u)
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
	if t.alone {
		return nil, errors.New("fedmf: a party that trains alone is a baseline, and has no state to keep")
	}
	if t.steps == nil {
		return nil, nil
	}
	b, err := json.Marshal(verticalState{t.finished, t.last, t.items, model.AppendFloats(nil, t.steps.v.Data()...)})
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
	case !slices.Equal(s.Items, t.items):
		return fmt.Errorf("fedmf: the state is of other items than the %d that the party owns", len(t.items))
	}
	v := model.NewMatrix(len(t.items), t.params.Rank)
	if err := model.ReadFloats(v.Data(), s.Embeddings); err != nil {
		return err
	}
	for i := range t.items { // as of a broadcast: the sensitivity holds for feasible embeddings only
		if err := t.params.acceptable(v.Row(i)); err != nil {
			return fmt.Errorf("fedmf: row %d of the state %w", i, err)
		}
		if t.params.projects() {
			t.params.project(v.Row(i))
		}
	}
	if err := t.prepare(src); err != nil {
		return err
	}
	t.steps.v, t.last, t.finished = v, s.Last, s.Finished
	return nil
}

func (t *Vertical) Snapshot() ([]byte, error) { return t.Save() }

func (t *Vertical) Resume(state []byte, src entropy.Source) error { return t.Restore(state, src) }

// watchGain is the length of a watched step: short enough that no row is projected, since
// projection hides a part of the step.
const watchGain = 1e-6

// watched is one party's local step on the data of one unit, which moves embeddings as far as its
// bound allows, or on no data.
type watched struct {
	steps  *stepper
	at     *model.Matrix // U, at the worst point
	both   bool
	toward []float64 // direction of the unit's gradient, of U followed by V; of length 1
	bound  float64
}

// Watched says which local step to watch.
type Watched struct {
	Gradients bool // the step sends normalised gradients
	Both      bool // it is on users and items, not on items alone
	Full      bool // it has the data of the unit, not none
	Noise     protocol.Noise
}

// Watch prepares steps. The worst embeddings are u = v_j = √R·e for a rating of 0, whose error is
// the whole scale. Its gradient is 2R^{3/2} long in both (FMF paper, section 4.1.1), and the
// gradients of all ratings of a user point the same way. The moved embeddings are in the middle of
// the ball.
func (p PartyParams) Watch(o Watched, src entropy.Source) (func() (float64, error), error) {
	ratings := 1
	if p.Unit == dp.User {
		ratings = max(1, p.ClipRatings)
	}
	one := model.Ratings{Items: model.Indices(ratings), Values: make([]float32, ratings)}
	w := &watched{steps: newStepper(&p, newTable([]model.Ratings{one}), corner(ratings, p)), at: corner(1, p), both: o.Both, bound: p.Sensitivity(o.Both)}
	if err := w.aim(); err != nil {
		return nil, err
	}
	if !o.Full {
		w.steps.ratings = newTable([]model.Ratings{{}})
	}
	if err := w.steps.begin(o.Noise, src, "local-steps", 1); err != nil {
		return nil, err
	}
	if o.Gradients {
		return w.gradient, nil
	}
	return w.step, nil
}

// corner returns a matrix with all rows √R·e.
func corner(rows int, p PartyParams) *model.Matrix {
	m := model.NewMatrix(rows, p.Rank)
	for i := range rows {
		m.Row(i)[0] = math.Sqrt(p.MaxRating)
	}
	return m
}

// aim finds the gradient of the unit by a step that samples everything and adds no noise.
func (w *watched) aim() error {
	w.steps.sampler = newSampler(1, nil)
	if err := w.steps.gradients(w.at, w.both); err != nil {
		return err
	}
	w.toward = w.seen(w.steps.gradU, w.steps.gradV.Data())
	norm := math.Sqrt(model.Dot(w.toward, w.toward))
	for i := range w.toward {
		w.toward[i] /= norm
	}
	return nil
}

// seen returns the visible parts: of U, if it is moved, and of V.
func (w *watched) seen(u, v []float64) []float64 {
	var list []float64
	if w.both {
		list = append(list, u...)
	}
	return append(list, v...)
}

// step takes a noised step and returns how far it went towards the unit's gradient, in
// sensitivities: 0, or 1 if the unit exists and is sampled, plus noise of deviation z.
func (w *watched) step() (float64, error) {
	s := w.steps
	if err := s.gradients(w.at, w.both); err != nil {
		return 0, err
	}
	sigma := s.z * w.bound
	middle := func(rows int) *model.Matrix {
		m := model.NewMatrix(rows, w.at.Cols())
		for i := range m.Data() {
			m.Data()[i] = math.Sqrt(s.params.MaxRating/float64(m.Cols())) / 2
		}
		return m
	}
	from := middle(1).Data()[0]
	u, v := middle(1), middle(s.v.Rows())
	if w.both {
		if err := s.moveU(u, watchGain, sigma); err != nil {
			return 0, err
		}
	}
	if err := s.move(v, s.gradV.Data(), nil, watchGain, sigma); err != nil {
		return 0, err
	}
	moved := w.seen(u.Data(), v.Data())
	for i := range moved {
		moved[i] = (moved[i] - from) / watchGain
	}
	return model.Dot(moved, w.toward) / w.bound, nil
}

// gradient is step for parties that send the noisy gradient instead of the embeddings.
func (w *watched) gradient() (float64, error) {
	s := w.steps
	if err := s.gradients(w.at, w.both); err != nil {
		return 0, err
	}
	g := s.gradV.Clone()
	if err := s.addNoise(g, s.z*w.bound); err != nil {
		return 0, err
	}
	return model.Dot(g.Data(), w.toward) / w.bound, nil
}
