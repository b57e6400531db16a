package client

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
)

// Samplers keeps the tables that noise is drawn from. They depend on public
// numbers only, so all clients of a process share one Samplers. It is safe for
// concurrent use; the zero value is ready.
type Samplers struct{ tables noise.Tables }

// shares holds the seeds of a client's noise in a round, except of its base. The noise is drawn
// again from them once, thinned and forgotten.
type shares struct {
	noise, thinning entropy.Seed
}

// parts divides the variance a = V/w of a client's share into a base and a surplus. The base is
// V/n, for n honest ones of all N clients: it stays for any number of survivors, so it is not drawn
// again and not thinned. Sums of independent Poissons are Poissons: both parts together are the
// Skellam of variance a.
//
// Of the surplus, whose variance is V(n-w)/(nw), a client that knows u honest survivors keeps
// V/u - V/n = V(n-u)/(nu). That is the share keep/of of the surplus, exactly. With the base it
// keeps V/u, rounded by less than 2^-51 of it. It removes a Skellam of variance a - V/u, which is
// independent of the kept part. Products of more than 2^16 honest clients are no ratio: no base then.
func parts(c protocol.Cohort, v float64) (base, surplus float64) {
	a, n := c.ShareVariance(v), uint64(c.Honest(c.Clients))
	if n*n > noise.MaxRatio {
		return 0, a
	}
	base = v / float64(n)
	return base, a - base
}

func keeps(c protocol.Cohort, base float64, survivors int) (keep, of uint64) {
	n, w, u := uint64(c.Honest(c.Clients)), uint64(c.Honest(c.Required())), uint64(c.Honest(survivors))
	if base == 0 {
		return w, u
	}
	return (n - u) * w, (n - w) * u
}

// draw returns inputs with the client's share of the noise, dense where a release is
// noised, and the seeds of it; nil where none is. The inputs stay as they are.
func (s *Samplers) draw(p *protocol.Plan, src entropy.Source, inputs []protocol.Integers) ([]protocol.Integers, *shares, error) {
	sh, failed := new(shares), [2]error{}
	sh.noise, failed[0] = entropy.NewSeed(src, "noise-seed", p.Round)
	sh.thinning, failed[1] = entropy.NewSeed(src, "thinning-seed", p.Round)
	bases, err := entropy.NewSeed(src, "base-seed", p.Round)
	if err = cmp.Or(failed[0], failed[1], err); err != nil {
		return nil, nil, err
	}
	noised, out := false, slices.Clone(inputs)
	for i, r := range p.Releases {
		if r.Noise.Variance == 0 {
			continue
		}
		noised = true
		variance := r.Noise.Share(p.Cohort)
		if r.Noise.Kind == protocol.Split && variance/2 > noise.MaxThinningMean {
			// Noise that could not be thinned later must not be added now.
			return nil, nil, fmt.Errorf("release %q: a share of variance %g cannot be thinned; at most %g can", r.Name, variance, 2.*noise.MaxThinningMean)
		}
		out[i], err = dense(inputs[i], r.Len), nil
		if r.Noise.Kind == protocol.Split {
			var base float64
			base, variance = parts(p.Cohort, r.Noise.Variance)
			err = s.add(out[i].Value, base, bases, r)
		}
		if err = errors.Join(err, s.add(out[i].Value, variance, sh.noise, r)); err != nil {
			return nil, nil, fmt.Errorf("release %q: %w", r.Name, err)
		}
	}
	if !noised {
		return inputs, nil, nil
	}
	return out, sh, nil
}

// add adds noise of a variance, which may be 0, to dst.
func (s *Samplers) add(dst []int64, variance float64, from entropy.Seed, r protocol.Release) error {
	if variance == 0 {
		return nil
	}
	sampler, err := s.tables.Skellam(variance)
	if err != nil {
		return err
	}
	return sampler.Add(dst, noise.NewBits(from.Stream(r.Name)))
}

// takeBack sets dst to minus the noise of a variance that was added.
func (s *Samplers) takeBack(dst []int64, variance float64, from entropy.Seed, r protocol.Release) error {
	err := s.add(dst, variance, from, r)
	for j := range dst {
		dst[j] = -dst[j]
	}
	return err
}

// remove returns the change of the client's noise when survivors sent a masked input: minus the
// part that thinning takes away, or, where the plan replaces noise, the new noise minus the old.
func (s *Samplers) remove(p *protocol.Plan, sh *shares, survivors int) ([]protocol.Integers, error) {
	out := make([]protocol.Integers, len(p.Releases))
	for i, r := range p.Releases {
		if !r.Noise.Reduced() {
			out[i].Index = []uint32{}
			continue
		}
		out[i].Value = make([]int64, r.Len)
		var err error
		if r.Noise.Kind == protocol.TwoRound {
			err = s.replace(out[i].Value, p.Cohort, r, sh, survivors)
		} else {
			err = s.split(out[i].Value, p.Cohort, r, sh, survivors)
		}
		if err != nil {
			return nil, fmt.Errorf("release %q: %w", r.Name, err)
		}
	}
	return out, nil
}

// split draws the surplus of the share again and thins it. If no client is lost, all of it goes.
func (s *Samplers) split(dst []int64, c protocol.Cohort, r protocol.Release, sh *shares, survivors int) error {
	base, surplus := parts(c, r.Noise.Variance)
	keep, of := keeps(c, base, survivors)
	if surplus == 0 || keep == 0 {
		return s.takeBack(dst, surplus, sh.noise, r)
	}
	sampler, err := s.tables.Skellam(surplus)
	if err != nil {
		return err
	}
	thinning, err := s.tables.Thinning(surplus/2, keep, of)
	if err != nil {
		return err
	}
	return sampler.Removal(dst, noise.NewBits(sh.noise.Stream(r.Name)), noise.NewBits(sh.thinning.Stream(r.Name)), thinning)
}

// replace takes the share out again and adds a fresh one of variance V/u.
func (s *Samplers) replace(dst []int64, c protocol.Cohort, r protocol.Release, sh *shares, survivors int) error {
	if err := s.takeBack(dst, c.ShareVariance(r.Noise.Variance), sh.noise, r); err != nil {
		return err
	}
	return s.add(dst, r.Noise.Variance/float64(c.Honest(survivors)), sh.thinning, r)
}

func dense(v protocol.Integers, n int) protocol.Integers {
	out := protocol.Integers{Value: make([]int64, n)}
	v.AddTo(out.Value)
	return out
}

// Shared is the common part of the clients of one process, and finds the part that belongs to each.
// A simulation has a million clients, so as little as possible is kept for each. The fields are the
// fields of [Config]; Ledger nil: no client has one. Functions may be called at the same time, and
// return the same for one client every time.
type Shared struct {
	Session protocol.SessionID
	Trainer func(protocol.ClientID) Trainer
	Ledger  func(protocol.ClientID) Ledger
	Entropy func(protocol.ClientID) entropy.Source
	NewSum  func(protocol.ClientID, protocol.Setup) (Sum, error)
	Noise   *Samplers
	Rounds  uint64

	agreed func(*protocol.Plan) error
	save   func() ([]byte, error)
	dense  bool
	keeps  bool // inputs until they are sent: a round may be set up anew

	// Values that clients derive from the same message are made once, as long as one client is told
	// after the other.
	setups     latest[protocol.Setup, *protocol.Setup]
	sound      latest[*protocol.Plan, error]
	prices     latest[*protocol.Plan, price]
	advertises latest[dressed, *protocol.Advertise]
	shares     latest[dressed, *protocol.Shares]
	inputs     latest[dressed, *protocol.MaskedInput]
	unmasks    latest[dressed, *protocol.Unmask]
}

// NewMany makes the clients 0 to n-1 of one process.
func NewMany(s *Shared, n int) []Client {
	list := make([]Client, n)
	for i := range list {
		list[i] = Client{Shared: s, id: protocol.ClientID(i)}
	}
	return list
}

type price struct {
	events []dp.Event
	err    error
}

func (c *Shared) price(p *protocol.Plan) price {
	return c.prices.of(p, func() price {
		events, err := p.Charges()
		return price{events, err}
	})
}

// dressed is a message of a sum with something of the role in it. Many clients of an ideal sum send the same
// message, and share one copy of it.
type dressed struct {
	of, next protocol.Message // next travels with it; nil: none does
	ahead    bool
	anew     uint32
}

// dress returns a copy of a message, with more in it. The sum's own message stays as it is.
func dress[M any](made *latest[dressed, *M], d dressed, m *M, set func(*M)) *M {
	return made.of(d, func() *M {
		with := *m
		set(&with)
		return &with
	})
}

// latest is the latest value that was made, and of what.
type latest[K comparable, V any] struct {
	known atomic.Pointer[struct {
		key   K
		value V
	}]
}

// of is the value of a key: the latest one, or made. It is made more than once where many ask at once.
func (l *latest[K, V]) of(key K, make func() V) V {
	if known := l.known.Load(); known != nil && known.key == key {
		return known.value
	}
	known := &struct {
		key   K
		value V
	}{key, make()}
	l.known.Store(known)
	return known.value
}

// In the steady state a round is set up while the previous round is under way (package aggregator): keys are
// advertised with the masked input, and shares dealt with the answer to unmask.

// ahead makes a round to come; nil if there is none, or if it asks others than this one.
func (c *Client) ahead(s protocol.Setup) (*round, error) {
	if s.Round > c.Rounds || s.Cohort.Enrolled > 0 {
		return nil, nil
	}
	r, err := c.newRound(s)
	r.ahead = true
	return r, err
}

// invited sets up the next round, since the client is to be in it again: the present round began
// without it.
func (c *Client) invited(s protocol.Setup) protocol.Effects {
	switch {
	case s.Session != c.Session || s.Round > c.Rounds || s.Round <= c.last || c.finished || s.Cohort.Enrolled > 0:
		return c.ignored(protocol.StageAdvertise, fmt.Errorf("no round %d is to come here", s.Round))
	case c.next != nil && c.next.setup.Round == s.Round || c.round != nil && c.round.setup.Round+1 >= s.Round:
		return c.ignored(protocol.StageAdvertise, fmt.Errorf("round %d is being set up here already", s.Round))
	}
	r, err := c.ahead(s)
	if err != nil {
		return c.report(protocol.PlanRefused, s.Round, err)
	}
	// The work under way is for a round that is over, and the round before the next is no longer
	// for this client.
	c.round, c.next, c.working, c.last, c.anew = nil, r, working{}, s.Round-1, 0
	return c.answer(r, false, c.advertising(r.side()))
}

// ErrOutOfBounds is returned for a contribution that breaks a bound of its release: the
// noise was calibrated for a sensitivity that would not hold.
var ErrOutOfBounds = errors.New("contribution is out of bounds")

// rounding allows a float64 norm to exceed a bound that it meets exactly, by
// what the summation may have rounded up. The integers are checked without it.
const rounding = 1e-9

// Quantize converts a contribution to integers: values · scale, rounded to nearest. The integers'
// norms are at most the release's declared D2 and D1. If rounding to nearest would exceed them, the
// whole vector is rounded towards zero; then its L2 norm cannot exceed scale · L2. If the release
// declares a sensitivity, the vector is refused instead. ErrOutOfBounds is returned for NaN, Inf,
// more non-zeros than declared, and a norm above its bound; nothing is clipped. The error may be
// logged, so it names the bound and never the value that broke it.
func Quantize(v protocol.Vector, r protocol.Release) (protocol.Integers, error) {
	largest, err := checkBounds(v, r)
	if err != nil {
		return protocol.Integers{}, fmt.Errorf("release %q: %w", r.Name, err)
	}
	d2, d1 := r.VectorBounds()
	ways := []bool{true, false}
	if r.Sensitivity > 0 { // of neighbours one would be rounded so and the other so, and lie further apart than is declared
		ways = ways[:1]
	}
	for _, nearest := range ways {
		out, l2, l1 := rounded(v, r.Scale, largest, nearest)
		if l2 <= d2*d2 && l1 <= d1 {
			return out, nil
		}
	}
	return protocol.Integers{}, fmt.Errorf("release %q: %w: an integer norm is above the declared %g (L2) or %g (L1)",
		r.Name, ErrOutOfBounds, d2, d1)
}

// checkBounds checks the shape and every bound of a contribution, and returns its
// largest absolute value.
func checkBounds(v protocol.Vector, r protocol.Release) (largest float64, err error) {
	if err = v.Validate(r.Len); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrOutOfBounds, err)
	}
	x := sizeOf(v.Value)
	if v.Factor != nil { // the size of a product is the product of the sizes, up to rounding
		f := sizeOf(v.Factor)
		x = size{l2: f.l2 * x.l2, l1: f.l1 * x.l1, largest: f.largest * x.largest, nonZero: f.nonZero * x.nonZero}
		if x.nonZero > r.MaxNonZero { // some products may be zero: they are too small for a float64
			x.nonZero = 0
			for part := range v.Parts() {
				x.nonZero += sizeOf(part).nonZero
			}
		}
	}
	largest = x.largest
	switch {
	case math.IsNaN(x.l2) || math.IsInf(x.l2, 0):
		err = fmt.Errorf("%w: it is not finite", ErrOutOfBounds)
	case x.nonZero > r.MaxNonZero:
		err = fmt.Errorf("%w: more than the %d non-zero coordinates declared", ErrOutOfBounds, r.MaxNonZero)
	case math.Sqrt(x.l2) > r.L2*(1+rounding):
		err = fmt.Errorf("%w: its L2 norm is above the %g declared", ErrOutOfBounds, r.L2)
	case r.LInf > 0 && largest > r.LInf:
		err = fmt.Errorf("%w: a coordinate is above the %g declared", ErrOutOfBounds, r.LInf)
	case r.L1 > 0 && x.l1 > r.L1*(1+rounding):
		err = fmt.Errorf("%w: its L1 norm is above the %g declared", ErrOutOfBounds, r.L1)
	case largest*r.Scale > 1<<53: // up to there a float64 knows every integer
		err = fmt.Errorf("%w: a value at scale %g is beyond the integers that a float64 counts", ErrOutOfBounds, r.Scale)
	}
	return largest, err
}

// size holds the squared L2 norm of numbers, their L1 norm, the largest magnitude, and how many are
// not zero.
type size struct {
	l2, l1, largest float64
	nonZero         int
}

// sizeOf takes sums in four parts, so that additions do not wait for each other.
func sizeOf(values []float64) size {
	var parts [4]size
	for ; len(values) >= len(parts); values = values[len(parts):] {
		for i, x := range (*[4]float64)(values) {
			parts[i].add(x)
		}
	}
	for i, x := range values {
		parts[i].add(x)
	}
	s := parts[0]
	for _, p := range parts[1:] {
		s.l2, s.l1, s.largest, s.nonZero = s.l2+p.l2, s.l1+p.l1, max(s.largest, p.largest), s.nonZero+p.nonZero
	}
	return s
}

func (s *size) add(x float64) {
	if x != 0 {
		s.nonZero++
	}
	a := math.Abs(x)
	s.l2 += x * x
	s.l1 += a
	if a > s.largest {
		s.largest = a
	}
}

// rounded returns values · scale as integers, to nearest or towards zero, with their squared L2
// norm and L1 norm. Sparse integers are narrow if the largest fits. A dense vector is not narrow,
// since noise is added to it.
func rounded(v protocol.Vector, scale, largest float64, nearest bool) (out protocol.Integers, l2, l1 float64) {
	out = protocol.Integers{Block: v.Block}
	if v.Index != nil {
		out.Index = append(memory[uint32](&indexPool, len(v.Index))[:0], v.Index...)
	}
	n := len(v.Value)
	if v.Factor != nil {
		n *= len(v.Factor)
	}
	if v.Index != nil && largest*scale <= math.MaxInt32 {
		out.Narrow = memory[int32](&narrowPool, n)
		l2, l1 = roundInto(out.Narrow, v, scale, nearest)
	} else {
		out.Value = make([]int64, n)
		l2, l1 = roundInto(out.Value, v, scale, nearest)
	}
	return out, l2, l1
}

// Memory of sparse integers, as pointers to slices.
var indexPool, narrowPool sync.Pool

// memory returns n numbers, which may be of integers that were given back.
func memory[T int32 | uint32](pool *sync.Pool, n int) []T {
	if known, ok := pool.Get().(*[]T); ok && cap(*known) >= n {
		return (*known)[:n]
	}
	return make([]T, n)
}

// giveBack keeps the memory of integers from [Quantize] that are of no more use.
func giveBack(inputs []protocol.Integers) {
	for i := range inputs {
		if x := &inputs[i]; x.Narrow != nil {
			indexPool.Put(&x.Index)
			narrowPool.Put(&x.Narrow)
		}
	}
}

func roundInto[T int32 | int64](dst []T, v protocol.Vector, scale float64, nearest bool) (l2, l1 float64) {
	if v.Factor == nil {
		return roundRow(dst, 1, v.Value, scale, nearest)
	}
	for _, f := range v.Factor {
		row2, row1 := roundRow(dst, f, v.Value, scale, nearest)
		dst = dst[len(v.Value):]
		l2 += row2
		l1 += row1
	}
	return l2, l1
}

// roundRow rounds a multiple of values.
func roundRow[T int32 | int64](dst []T, f float64, values []float64, scale float64, nearest bool) (l2, l1 float64) {
	dst = dst[:len(values)]
	for i, x := range values {
		x = f * x * scale
		if nearest {
			x = math.RoundToEven(x)
		} else {
			x = math.Trunc(x)
		}
		dst[i] = T(x)
		l2 += x * x
		l1 += math.Abs(x)
	}
	return l2, l1
}
