package kernel

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/modelserver"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// ItemGradient is the name of LFL's one release and of its phase: the gradient
// of V, summed over users.
const ItemGradient = "item-gradient"

// User is one user's side of LFL-SGDMF: a client.Trainer. Its embedding stays with the client.
type User struct {
	*crowd
	U     []float64 // u_i; nil until stage 1 has run
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
func NewUser(p *Params, r model.Ratings) *User {
	return &NewUsers(p, 1, r, model.NewRowArena(1, p.Rank))[0]
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
func (t *User) fit(r model.Ratings, v model.Broadcast) {
	if t.U == nil {
		t.U = t.kept.Row(int(t.at))
	}
	f := fittings.Get().(*fitting)
	defer fittings.Put(f)
	f.rows = v.AppendRows(f.rows[:0], r.Items)
	t.params.fit(r.Values, t.U, f)
}

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
	if t.U == nil {
		t.fit(r, v)
	}
	if len(r.Items) == 0 {
		return []protocol.Vector{{Index: []uint32{}}}, nil
	}
	if t.params.Contribution == AllRatings {
		g := t.gradient(r, v)
		clip(g.Value, t.params.Clip)
		return []protocol.Vector{g}, nil
	}
	k, err := entropy.Uniform(src.Stream("sample-rating", p.Round), uint64(len(r.Items)))
	if err != nil {
		return nil, err
	}
	return []protocol.Vector{t.gradient(model.Ratings{Items: r.Items[k : k+1], Values: r.Values[k : k+1]}, v)}, nil
}

// gradient returns the gradient of Σ (x_j - <u, v_j>)² over ratings with respect to V: in each
// rated row -2u(x_j - <u, v_j>).
func (t *User) gradient(r model.Ratings, v model.Broadcast) protocol.Vector {
	d := t.params.Rank
	g := protocol.Vector{Index: make([]uint32, len(r.Items)), Block: d, Value: v.AppendRows(make([]float64, 0, len(r.Items)*d), r.Items)}
	for k, j := range r.Items {
		g.Index[k] = uint32(j)
		row := g.Value[k*d : (k+1)*d]
		Project(row, t.params.MaxRating) // the bound holds for feasible rows, and rounding may lead out
		slope := -2 * (float64(r.Values[k]) - model.Dot(t.U, row))
		for i := range d {
			row[i] = slope * t.U[i]
		}
	}
	return g
}

// clip scales x down to norm c if it is longer.
func clip(x []float64, c float64) {
	if norm2 := model.Dot(x, x); !(norm2 <= c*c) {
		floats.Scale(c/math.Sqrt(norm2), x)
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

// Snapshot returns u_i, fitted in stage 1, as little-endian float64, row by row.
func (t *User) Snapshot() ([]byte, error) {
	if t.U == nil {
		return nil, nil
	}
	return model.AppendFloats(nil, t.U...), nil
}

func (t *User) Resume(snapshot []byte, _ entropy.Source) error {
	u := make([]float64, t.params.Rank)
	if err := model.ReadFloats(u, snapshot); err != nil {
		return err
	}
	t.U = u
	return nil
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
	*modelserver.Server
	items  *modelserver.Matrix // V
	params Params
	rate   float64
}

// NewLFL makes the strategy, with V at its start. rate is η: in a round V moves by η·(m/|U1|) times the
// summed gradient, which is a step of η for an item with its even share |U1|/m of the sampled ratings.
// The paper's γ_t is η·m. run has the session, its cohort, and the schedule of T rounds with the release
// of [Params.Release], with scale, width and noise set.
func NewLFL(p Params, rate float64, run modelserver.Server) *LFL {
	items := &modelserver.Matrix{Matrix: p.StartItems()}
	return &LFL{newServer("lfl", run, items), items, p, rate}
}

// Absorb computes V <- Π(V - γ_t/|U1| · Σ gradient) (FMF paper, figure 3(d), step s2).
func (s *LFL) Absorb(p *protocol.Plan, sums protocol.Sums, run protocol.Runner) error {
	gamma := Schedule(s.rate, int(p.Round), s.Schedule.Rounds()) *
		float64(s.params.Items) / float64(sums.Survivors)
	g, d := sums.Values[0], s.params.Rank
	run.Each(s.params.Items, func(j int) {
		row := s.items.Row(j)
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

// Fit is the local fit of a user's client: it fits u_i to its ratings with V held fixed, by
// projected gradient steps on
//
//	Σ_j (x_j - <u, v_j>)² + ridge·mean·‖u - start‖².
//
// The client sends none of it.
type Fit struct {
	Steps int     // gradient steps; the same budget before and after cooperation
	Ridge float64 // weight of the start, in ratings: an item's embedding starts with ‖v‖² = mean
}

// User fits a user against V and returns u.
func (p Params) User(r model.Ratings, v *model.Matrix) []float64 {
	f, u := fittings.Get().(*fitting), make([]float64, p.Rank)
	defer fittings.Put(f)
	f.rows = v.AppendRows(f.rows[:0], r.Items)
	p.fit(r.Values, u, f)
	return u
}

// fitting holds the memory of a fit; it is used again from user to user.
type fitting struct {
	gram                 []float64 // rank x rank
	right, scratch, grad []float64
	rows                 []float64 // the embeddings of a user's items, one behind the other
}

var fittings = sync.Pool{New: func() any { return new(fitting) }}

// fit writes the fit of a user's ratings of the items of f.rows to u. It works on the Gram matrix Σ v vᵀ, so that a step
// costs p² for any number of ratings.
func (p *Params) fit(ratings []float32, u []float64, f *fitting) {
	start := p.startValue()
	for i := range u {
		u[i] = start
	}
	if len(ratings) == 0 {
		return
	}
	if d := p.Rank; len(f.right) != d {
		f.gram, f.right, f.scratch, f.grad = make([]float64, d*d), make([]float64, d), make([]float64, d), make([]float64, d)
	}
	p.normalEquations(ratings, f)
	// The trace bounds the largest eigenvalue, so that 1/trace is a step
	// that never overshoots.
	var trace float64
	for i := range p.Rank {
		trace += f.gram[i*p.Rank+i]
	}
	if trace == 0 {
		return
	}
	for range p.Fit.Steps {
		for i := range f.grad {
			f.grad[i] = model.Dot(f.gram[i*p.Rank:(i+1)*p.Rank], u) - f.right[i]
		}
		copy(f.scratch, u)
		for i := range u {
			u[i] -= f.grad[i] / trace
		}
		Project(u, p.MaxRating)
		if slices.Equal(u, f.scratch) {
			return // further steps would not move it, either
		}
	}
}

// normalEquations computes Σ v vᵀ + ridge·mean·I and Σ x v + ridge·mean·start.
func (p *Params) normalEquations(ratings []float32, f *fitting) {
	d, gram, right, rows := p.Rank, f.gram, f.right, f.rows
	clear(gram)
	clear(right)
	var gram1, right1 float64 // the sums at rank 1, the default of small budgets, which stay in registers
	for k, rating := range ratings {
		x := float64(rating)
		if d == 1 {
			gram1, right1 = gram1+rows[k]*rows[k], right1+x*rows[k]
			continue
		}
		row := rows[k*d : (k+1)*d]
		for a, va := range row {
			right[a] += x * va
			g := gram[a*d : a*d+a+1]
			for b := range g {
				g[b] += va * row[b]
			}
		}
	}
	gram[0], right[0] = gram[0]+gram1, right[0]+right1
	weight, start := p.Fit.Ridge*p.StartMean, p.startValue()
	for a := range d {
		for b := range a {
			gram[b*d+a] = gram[a*d+b]
		}
		gram[a*d+a] += weight
		right[a] += weight * start
	}
}

// FitUsers fits every user's embedding to V with the local budget of p: stages 1 and 3 alone. At
// the start of V the result is the baseline before_cooperation.
func FitUsers(p Params, rows *dataset.Rows, items *model.Matrix, run protocol.Runner) *model.Factors {
	return p.eachUser(rows, items, run, p.User)
}

// LocalOnly trains each user alone, with a copy of V that no other user moves: stage 1, then steps
// gradient steps on the rows of V that the user rated, then stage 3. A step is 1/(2R), the largest
// that cannot overshoot. Items that the user did not rate keep their start, so little is gained. The
// result predicts such items alone.
func LocalOnly(p Params, rows *dataset.Rows, steps int, run protocol.Runner) *model.Factors {
	return p.eachUser(rows, p.StartItems(), run, func(r model.Ratings, v *model.Matrix) []float64 { return p.trainAlone(r, v, steps) })
}

// eachUser computes every user's embedding from the user's ratings and V.
func (p Params) eachUser(rows *dataset.Rows, v *model.Matrix, run protocol.Runner, embed func(model.Ratings, *model.Matrix) []float64) *model.Factors {
	f := &model.Factors{Users: model.NewMatrix(rows.Len(), p.Rank), Items: v}
	run.Each(rows.Len(), func(u int) {
		rows.Lend(u, func(js []int32, xs []float32) {
			copy(f.Users.Row(u), embed(model.Ratings{Items: js, Values: xs}, v))
		})
	})
	return f
}

// trainAlone returns a user's embedding after stage 3. Its rows of V are a user's own, since no
// other row is touched. They are not kept, because no prediction of a training rating is needed.
func (p Params) trainAlone(r model.Ratings, start *model.Matrix, steps int) []float64 {
	f, u := fittings.Get().(*fitting), make([]float64, p.Rank)
	defer fittings.Put(f)
	f.rows = start.AppendRows(f.rows[:0], r.Items)
	p.fit(r.Values, u, f)
	for range steps {
		for k, x := range r.Values {
			v := f.rows[k*p.Rank : (k+1)*p.Rank]
			slope, norm := (float64(x)-model.Dot(u, v))/p.MaxRating, 0.
			for i, y := range v { // as Project does, in one loop
				if y += slope * u[i]; y < 0 {
					y = 0
				}
				v[i] = y
				norm += y * y
			}
			Shrink(v, norm, p.MaxRating)
		}
	}
	p.fit(r.Values, u, f)
	return u
}

// Pass takes one projected gradient step on u_i and v_j for each rating, in the given order: plain
// stochastic gradient descent on ratings in one place. users, items and values hold the user, the
// item and the stars of each rating.
func (p Params) Pass(u, v *model.Matrix, users, items []int32, values []float32, order []int32, rate float64) {
	type rating struct {
		user, item []float64
		value      float64
	}
	var block [32]rating
	var loaded float64
	for len(order) > 0 {
		// Loading a block's ratings and the start of its rows before its steps lets the memory
		// answer many requests at a time. A step would wait for each of its own.
		n := min(len(order), len(block))
		for i, k := range order[:n] {
			b := &block[i]
			b.user, b.item, b.value = u.Row(int(users[k])), v.Row(int(items[k])), float64(values[k])
			loaded += b.user[0] + b.item[0]
		}
		for i := range block[:n] {
			b := &block[i]
			p.step(b.user, b.item, 2*rate*(b.value-model.Dot(b.user, b.item)))
		}
		order = order[n:]
	}
	runtime.KeepAlive(loaded)
}

// step adds step·vj to ui and step·ui to vj and projects both, as Project does, in one loop:
// the two norms do not wait for each other.
func (p Params) step(ui, vj []float64, step float64) {
	vj = vj[:len(ui)]
	var normU, normV float64
	for c, x := range ui {
		y := vj[c]
		a, b := x+step*y, y+step*x
		if a < 0 {
			a = 0
		}
		if b < 0 {
			b = 0
		}
		ui[c], vj[c] = a, b
		normU += a * a
		normV += b * b
	}
	Shrink(ui, normU, p.MaxRating)
	Shrink(vj, normV, p.MaxRating)
}
