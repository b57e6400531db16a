package kernel

import (
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// ItemGradient is the name of LFL's one release and of its phase: the gradient
// of V, summed over users.
const ItemGradient = "item-gradient"

// User is one user's side of LFL-SGDMF: a client.Trainer. Its embedding stays with the client.
type User struct {
	*crowd
	u     []float64 // nil until stage 1 has run
	at    int32     // the user's place in the crowd
	tuned bool      // stage 3 has run
}

// crowd holds the data that the users of one process share.
type crowd struct {
	params *Params
	all    model.RatingsByUser
	kept   *model.RowArena // holds every u_i
}

// NewUser makes the trainer of a user with the given ratings, which it keeps and does not change. A
// user may have no rating.
func NewUser(p *Params, r model.UserRatings) *User {
	return &NewUsers(p, 1, model.Alone(r), model.NewRowArena(1, p.Rank))[0]
}

// NewUsers makes the trainers of many users of one process. kept holds their embeddings.
func NewUsers(p *Params, n int, all model.RatingsByUser, kept *model.RowArena) []User {
	shared, list := &crowd{p, all, kept}, make([]User, n)
	for i := range list {
		list[i] = User{crowd: shared, at: int32(i)}
	}
	return list
}

func (t *User) ratings(in *model.Buffer) model.Ratings { return t.all.RatingsOf(int(t.at), in) }

// fit runs the fit, and keeps u_i.
func (t *User) fit(r model.Ratings, v rows) {
	if t.u == nil {
		t.u = t.kept.Row(int(t.at))
	}
	t.params.fit(r, v, t.u)
}

// Embedding returns the current u_i; nil before stage 1.
func (t *User) Embedding() []float64 { return t.u }

// Finished reports whether stage 3 has run.
func (t *User) Finished() bool { return t.tuned }

// Contribute returns the gradient of V. For one of the user's ratings, each equally likely, only
// one row of it is not zero. With AllRatings it is the gradient of all ratings, scaled down to norm
// Clip if it is longer. A user without a rating contributes zero. Stage 1 runs when the first plan
// arrives.
func (t *User) Contribute(p *protocol.Plan, src entropy.Source, _ protocol.Runner) ([]protocol.Vector, error) {
	if p.OwnNoise() {
		return nil, errors.New("fedmf: the plan asks users for noise of their own, which they do not add; the ledger would be charged for missing noise")
	}
	v, err := model.NewBroadcast(p.Broadcast, t.params.Items, t.params.Rank)
	if err != nil {
		return nil, err
	}
	memory := model.Borrow()
	defer memory.Return()
	r := t.ratings(memory)
	if t.u == nil {
		t.fit(r, v)
	}
	n := len(r.Items)
	if n == 0 {
		return []protocol.Vector{{Index: []uint32{}}}, nil
	}
	if t.params.Contribution == AllRatings {
		g := t.gradient(r, 0, n, v)
		clip(g.Value, t.params.Clip)
		return []protocol.Vector{g}, nil
	}
	k, err := entropy.Uniform(src.Stream("sample-rating", p.Round), uint64(n))
	if err != nil {
		return nil, err
	}
	return []protocol.Vector{t.gradient(r, int(k), int(k)+1, v)}, nil
}

// gradient returns the gradient of Σ (x_j - <u, v_j>)² over the ratings from to to-1 with respect
// to V: in each rated row -2u(x_j - <u, v_j>).
func (t *User) gradient(r model.Ratings, from, to int, v model.Broadcast) protocol.Vector {
	d := t.params.Rank
	g := protocol.Vector{Index: make([]uint32, to-from), Block: d, Value: make([]float64, (to-from)*d)}
	for k := from; k < to; k++ {
		j := r.Items[k]
		g.Index[k-from] = uint32(j)
		row := g.Value[(k-from)*d : (k-from+1)*d]
		slope := -2 * (float64(r.Values[k]) - model.Dot(t.u, v.Row(int(j), row)))
		for i := range d {
			row[i] = slope * t.u[i]
		}
	}
	return g
}

// clip scales x down to norm c if it is longer.
func clip(x []float64, c float64) {
	var norm2 float64
	for _, v := range x {
		norm2 += v * v
	}
	if norm2 <= c*c {
		return
	}
	scale := c / math.Sqrt(norm2)
	for i := range x {
		x[i] *= scale
	}
}

// Finish runs stage 3.
func (t *User) Finish(items []byte, _ protocol.Runner) error {
	v, err := model.NewBroadcast(items, t.params.Items, t.params.Rank)
	if err != nil {
		return err
	}
	memory := model.Borrow()
	defer memory.Return()
	t.fit(t.ratings(memory), v)
	t.tuned = true
	return nil
}

// LFLParams holds the settings of the server's side of LFL-SGDMF.
type LFLParams struct {
	Params
	Rounds int // T, attempts
	// LearningRate is η: in a round V moves by η·(m/|U1|) times the summed
	// gradient, which is a step of η for an item with its even share |U1|/m of
	// the sampled ratings. The paper's γ_t is η·m.
	LearningRate float64
	Session      protocol.SessionID
	Cohort       protocol.Cohort
	Release      protocol.Release // of Params.Release, with scale, width and noise set
}

// Release returns LFL's release with the bounds that hold by construction: one row of V of norm at
// most 2R^{3/2}, or, with AllRatings, any rows of norm at most Clip together. The caller must set
// scale, width and noise.
func (p Params) Release() protocol.Release {
	r := protocol.Release{Name: ItemGradient, Len: p.Items * p.Rank, L2: p.GradientBound(), MaxNonZero: p.Rank}
	if p.Contribution == AllRatings {
		r.L2, r.MaxNonZero = p.Clip, r.Len // the number of a user's ratings is private: neither the plan nor the length of a message may show it
	}
	return r
}

// LFL is the server's side of LFL-SGDMF: a server.Durable.
type LFL struct {
	strategy // of V
	params   LFLParams
}

// NewLFL makes the strategy, with V at its start.
func NewLFL(p LFLParams) (*LFL, error) {
	errs := []error{p.Validate(), p.Release.Validate(), p.Cohort.Validate()}
	if p.Rounds < 0 {
		errs = append(errs, fmt.Errorf("rounds is %d; it must not be negative", p.Rounds))
	}
	if !(p.LearningRate > 0) {
		errs = append(errs, fmt.Errorf("learning-rate is %v; it must be positive", p.LearningRate))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &LFL{strategy{domain: lflState, session: p.Session, rounds: p.Rounds, shared: p.StartItems()}, p}, nil
}

// Next returns the plan of the next round, and true after the last.
func (s *LFL) Next() (*protocol.Plan, bool, error) {
	return s.next(ItemGradient, s.params.Cohort, s.params.Release)
}

// Absorb computes V <- Π(V - γ_t/|U1| · Σ gradient) (FMF paper, figure 3(d), step s2).
func (s *LFL) Absorb(p *protocol.Plan, sums protocol.Sums, run protocol.Runner) error {
	gamma := Schedule(s.params.LearningRate, int(p.Round), s.params.Rounds) *
		float64(s.params.Items) / float64(sums.Survivors)
	g, d := sums.Values[0], s.params.Rank
	run.Each(s.params.Items, func(j int) {
		row := s.shared.Row(j)
		for i := range row {
			row[i] -= gamma * g[j*d+i]
		}
		Project(row, s.params.MaxRating)
	})
	return nil
}

// Schedule returns the learning rate of round t (from 1) of rounds: it falls linearly over the
// first 80% of the rounds to a tenth, then stays.
func Schedule(rate float64, t, rounds int) float64 {
	fall := 0.8 * float64(rounds)
	if fall == 0 {
		return rate
	}
	return rate * (1 - 0.9*min(float64(t-1)/fall, 1))
}
