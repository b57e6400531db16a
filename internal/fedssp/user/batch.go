package user

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// TakesPart weighs the ratings, and tosses the coin of the round, once, from the user's own secret
// randomness. A user outside the batch sends zeros and noise, as a user without ratings does, so
// that no other party can tell.
func (c *Contribution) TakesPart() (bool, error) {
	if err := c.Weigh(); err != nil {
		return false, err
	}
	if !c.Params.Batched() || c.Timed || c.Open {
		return true, nil
	}
	if c.batch == nil {
		var b [8]byte
		if _, err := io.ReadFull(c.Source.Stream("batch", c.Round), b[:]); err != nil {
			return false, fmt.Errorf("drawing the batch: %w", err)
		}
		c.batch = new(float64(binary.LittleEndian.Uint64(b[:])>>11)*0x1p-53 < c.Params.SamplingRate)
	}
	return *c.batch, nil
}

// asSampled refuses a release that is charged at a sampling rate other than the coin's.
func (c *Contribution) asSampled(r protocol.Release) error {
	want := 0.
	if c.Params.Batched() && r.Noise.Distributed() && kernel.InStatistics(r.Name) {
		want = c.Params.SamplingRate
	}
	if got := r.Noise.SamplingRate; got != want {
		return fmt.Errorf("it is charged at a sampling rate of %v; the settings make it %v (0: no samples)", got, want)
	}
	return nil
}

// Solver is the client's computation.
type Solver interface {
	// Fit sets w.beta to the user's own solution for a broadcast model.
	Fit(w *Workspace, p *kernel.Params, m *kernel.Model)
	// Contribute computes one release of a sum.
	Contribute(c *Contribution, release string) (protocol.Vector, error)
	// Keeps counts the numbers that a client keeps from sum to sum.
	Keeps(*kernel.Params) int
}

// solverOf returns the client's part of the settings' solver.
func solverOf(p *kernel.Params) Solver { return p.Solver.(Solver) }

// User is one user's side: a client.Trainer. Its ratings, embedding and bias stay with the client.
type User struct {
	*crowd
	chosen   []int     // places of the sampled ratings among all; nil: not drawn yet, or all take part
	scale    float64   // of weights with [kernel.GlobalNorm]; 0: not computed yet
	U        []float64 // u, followed by the user's weights of public features, after the last fit; nil before the first
	Bias     float64   // the user's own, after the last fit
	at       int32     // its place among users
	fitted   uint32    // the number of the measured model that u was fitted to; 0: to none
	Finished bool      // the user was fitted to the final model
}

// Stage is the client's part of a stage of releases.
type Stage interface {
	// BeforeChoice reports whether the stage covers the whole catalogue, and may come before the
	// items to train on are chosen.
	BeforeChoice(*kernel.Params) bool
	// Contribute computes a client's addition to a sum.
	Contribute(*Contribution, protocol.Release) (protocol.Vector, error)
}

// Stages finds the stage of a release, and the number of coordinates that the settings give the
// release; 0: there is no such release.
type Stages func(release string) (of Stage, length int)

// crowd is the common state of the users of one process.
type crowd struct {
	Params *kernel.Params
	stage  Stages
	all    model.RatingsByUser
	kept   *model.RowArena // holds u of each user
	many   bool            // there are several users
	Timed  bool            // made up for timing: in every batch
	Open   bool            // all users' ratings are public: in every batch, and nothing is drawn

	opened     atomic.Pointer[opened]   // the latest broadcast
	measured   atomic.Pointer[Measured] // the latest measured model
	measurings atomic.Uint32
}

// Ratings returns the user's ratings, which may lie in the buffer.
func (t *User) Ratings(in *model.Buffer) model.Ratings { return t.all.RatingsOf(int(t.at), in) }

// read returns the ratings, and an error if they are invalid.
func (t *User) read(in *model.Buffer) (model.Ratings, error) {
	r := t.Ratings(in)
	return r, checkRatings(t.Params, r)
}

// checkRatings returns an error if a user's ratings are invalid. The error is logged, so it says
// nothing about their values.
func checkRatings(p *kernel.Params, r model.Ratings) error {
	if len(r.Items) != len(r.Values) {
		return errors.New("fedssp: there are not as many items as values; each rating is one of each")
	}
	last := int32(-1)
	for _, j := range r.Items {
		if j <= last || int(j) >= p.Items {
			return fmt.Errorf("fedssp: the items of ratings do not ascend, or one is not below %d", p.Items)
		}
		last = j
	}
	if p.Feedback != kernel.Explicit {
		return nil
	}
	low, high := p.Min, p.Max
	for _, v := range r.Values {
		if x := float64(v); !(x >= low && x <= high) {
			return fmt.Errorf("fedssp: a rating is outside of the scale; ratings are from %v to %v", p.Min, p.Max)
		}
	}
	return nil
}

// Keep stores the solution in the workspace as the user's own.
func (t *User) Keep(w *Workspace) {
	if t.U == nil {
		t.U = t.kept.Row(int(t.at))
	}
	t.U = w.embedding(t.Params, t.U[:0])
	t.Bias, t.fitted = w.bias(t.Params), 0
}

// Contribution computes a user's releases of one round, each when it is asked for.
type Contribution struct {
	*User
	Params  *kernel.Params // of the items that are trained on
	All     model.Ratings  // all ratings of the user
	Ratings model.Ratings  // the ratings of those items, by their places among them
	from    []int          // places of these ratings among all; nil: all
	Chosen  []int          // the ratings that take part
	Model   *kernel.Model
	Source  entropy.Source
	Round   uint64
	Phase   string
	fitted  bool // when the model was measured
	clients int

	batch   *bool      // whether the user is in the batch of the round; nil: not tossed yet. One toss serves all releases of the round
	memory  *[]float64 // of the weights
	Work    *Workspace
	Weights []float64 // of the chosen ratings; nil: not computed yet. Valid until the contribution ends
	slopes  []float64 // of moments or gradients: the factors of u, after the fit
	share   float64   // the factor of the user's statistics that NormItems allows; set with slopes
}

// weightsPool holds memory of weights, as pointers to slices.
var weightsPool = sync.Pool{New: func() any { return new([]float64) }}

func (c *Contribution) free() {
	if c.memory != nil {
		weightsPool.Put(c.memory)
	}
	if c.Work != nil {
		c.Work.Free()
	}
}

// The users of one process read the same broadcast one after the other, and a model is measured
// between two rounds by fitting each user to it. The next round begins with the same fits. So a
// broadcast is opened once, and the fits that measuring made are kept until the next model.

// opened is a broadcast that users of one process read.
type opened struct {
	form  []byte
	model *kernel.Model
	as    *Measured // the measured model, if the broadcast is that model; else nil
}

// of reports whether the broadcast was opened from these very bytes, which do not change.
func (o *opened) of(b []byte) bool {
	return o != nil && len(o.form) == len(b) && len(b) > 0 && &o.form[0] == &b[0]
}

// open opens a broadcast, once for all users.
func (t *crowd) open(b []byte) (*opened, error) {
	if o := t.opened.Load(); o.of(b) {
		return o, nil
	}
	m, err := kernel.OpenBroadcast(b, t.Params)
	if err != nil {
		return nil, err
	}
	o := &opened{form: b, model: m}
	if t.many {
		m.Tabulate()
		if of := t.measured.Load(); of != nil && bytes.Equal(of.form, b) {
			o.as = of
		}
		t.opened.Store(o)
	}
	return o, nil
}

// Measured is a model that users are fitted to between two rounds.
type Measured struct {
	*kernel.Model
	form   []byte
	number uint32 // counts the models that were measured, from 1
}

// Measure begins to measure a model by fits of some users of one process.
func Measure(users []User, shared []byte) (of *Measured, err error) {
	t := users[0].crowd
	of = &Measured{form: shared}
	if of.Model, err = kernel.DecodeModel(shared, t.Params); err != nil {
		return nil, err
	}
	of.Tabulate()
	of.number = t.measurings.Add(1)
	t.measured.Store(of)
	return of, nil
}

// FitTo fits the user to a model that is measured. It returns what [Fit] returns, valid until the
// user is fitted again. A user with parameters of its own, which follow no model, keeps those.
func (t *User) FitTo(of *Measured, r model.Ratings) (u []float64, bias float64) {
	if of.Unchosen || solverOf(t.Params).Keeps(t.Params) > 0 {
		return Fit(of.Model, r)
	}
	t.fit(of.Model, r)
	t.fitted = of.number
	return t.U, t.Bias
}

// fit fits the user to a model, and keeps the result.
func (t *User) fit(m *kernel.Model, all model.Ratings) {
	w := fitted(m, all)
	defer w.Free()
	t.Keep(w)
}

// isFitted reports whether the user was fitted to a broadcast when it was measured.
func (t *User) isFitted(to *opened) bool { return to.as != nil && t.fitted == to.as.number }

// take sets the solution to the user's kept solution.
func (w *Workspace) take(p *kernel.Params, t *User) {
	copy(w.Beta, t.U[:p.Rank])
	copy(w.Beta[p.Rank+p.BiasWidth():], t.U[p.Rank:])
	if p.Bias {
		w.Beta[p.Rank] = t.Bias
	}
}
