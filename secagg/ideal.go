package secagg

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/protocol"
)

// Draw says who draws the noise of an ideal sum.
type Draw uint8

const (
	// DrawSum: the adder draws the noise of the whole sum at once, with the variance that the clients' shares would add up to. The
	// distribution is the same, and the cost does not depend on the number of clients.
	DrawSum Draw = iota
	// DrawClient: each client draws its own share and thins it, as in the real protocol.
	DrawClient
)

func (d Draw) String() string {
	if d == DrawClient {
		return "client"
	}
	return "sum"
}

// IdealClient is the side of a client in the ideal sum of one round, or of all clients of a
// process. It keeps nothing secret: there are no keys and no masks.
type IdealClient struct {
	// Folds, if set, takes a client's integers as soon as they are computed, and returns what is left to be sent (client.StreamingSum).
	Folds func(protocol.ClientID, *protocol.Plan, []protocol.Integers) ([]protocol.Integers, error)
	// AsWork has answers scheduled as work, as a real sum has its answers.
	AsWork bool

	setup protocol.Setup
	draw  Draw
	plan  atomic.Pointer[protocol.Plan]

	// Messages that are the same for all clients are made once.
	advertise   protocol.Advertise
	shares      protocol.Shares
	replacement protocol.Replacement
	input       atomic.Pointer[protocol.MaskedInput] // without vectors
	unmask      atomic.Pointer[emptyUnmask]          // the latest
}

// emptyUnmask is an answer to survivors without removals.
type emptyUnmask struct {
	survivors int
	protocol.Unmask
}

// NewIdealClient makes a client's side of a round.
func NewIdealClient(s protocol.Setup, d Draw) *IdealClient {
	it := s.Round
	return &IdealClient{setup: s, draw: d, advertise: protocol.Advertise{Round: it}, shares: protocol.Shares{Round: it}, replacement: protocol.Replacement{Round: it}}
}

// IdealClients makes the sides of many clients of one process, who have one together: there is nothing in it that is not the same
// for all. Its clients must be told the same plan. The function, and the methods of what it makes, may be called at the same time.
// set sets the fields of each side.
func IdealClients(d Draw, set func(*IdealClient)) func(protocol.Setup) *IdealClient {
	var latest atomic.Pointer[IdealClient]
	return func(s protocol.Setup) *IdealClient {
		shared := latest.Load()
		for shared == nil || shared.setup != s {
			made := NewIdealClient(s, d)
			set(made)
			if latest.CompareAndSwap(shared, made) {
				return made
			}
			shared = latest.Load()
		}
		return shared
	}
}

// Begin takes the plan of the round, before the masked input; ErrPlan is returned for one of another round.
func (c *IdealClient) Begin(p *protocol.Plan) error {
	if p.Setup() != c.setup {
		return ErrPlan
	}
	if c.plan.CompareAndSwap(nil, p) {
		return nil
	}
	if known := c.plan.Load(); known != p && known.Hash() != p.Hash() {
		return ErrPlan
	}
	return nil
}

// Fold hands a client's integers to Folds.
func (c *IdealClient) Fold(id protocol.ClientID, p *protocol.Plan, inputs []protocol.Integers) ([]protocol.Integers, error) {
	if c.Folds == nil {
		return inputs, nil
	}
	return c.Folds(id, p, inputs)
}

// Withdraw does nothing: a trusted adder has no secrets to draw anew.
func (c *IdealClient) Withdraw() {}

// DrawsNoise reports whether the sum itself draws the noise, so that the client adds none. Only an ideal sum does.
func (c *IdealClient) DrawsNoise() bool { return c.draw == DrawSum }

// Heavy reports whether answers are to be scheduled as work.
func (c *IdealClient) Heavy() bool { return c.AsWork }

// Confirms reports that there is nothing to confirm.
func (c *IdealClient) Confirms() bool { return false }

// Advertise says that the client is here.
func (c *IdealClient) Advertise() (*protocol.Advertise, error) {
	return &c.advertise, nil
}

// Share is the client's answer to the roster.
func (c *IdealClient) Share(*protocol.Roster, protocol.Runner) (*protocol.Shares, error) {
	return &c.shares, nil
}

// MaskedInput is the client's answer to the delivery of shares: its vectors.
func (c *IdealClient) MaskedInput(_ *protocol.Delivery, vectors []protocol.Integers, _ protocol.Runner) (*protocol.MaskedInput, error) {
	p := c.plan.Load()
	if vectors != nil {
		return &protocol.MaskedInput{Round: p.Round, Vectors: vectors, Packed: p.PackedSize()}, nil
	}
	if c.input.Load() == nil {
		c.input.CompareAndSwap(nil, &protocol.MaskedInput{Round: p.Round, Packed: p.PackedSize()})
	}
	return c.input.Load(), nil
}

// ErrNotConfirmed is returned by a sum that is asked to confirm survivors although its mode has no such stage.
var ErrNotConfirmed = errors.New("secagg: survivors are confirmed in active mode only")

// Confirm is never asked for.
func (c *IdealClient) Confirm(*protocol.Survivors) (*protocol.Consistency, error) {
	return nil, ErrNotConfirmed
}

// Check accepts what the role has accepted: an ideal sum has nothing to compare it with.
func (c *IdealClient) Check(*protocol.Survivors, *protocol.Quorum, protocol.Runner) error { return nil }

// Unmask is the client's answer to the survivors: the change of its noise. Where the sum
// draws the noise there is no change, but the answer counts as large as if there were.
func (c *IdealClient) Unmask(m *protocol.Survivors, removals []protocol.Integers, _ protocol.Runner) (*protocol.Unmask, error) {
	p := c.plan.Load()
	if !c.DrawsNoise() {
		return &protocol.Unmask{Round: p.Round, Removals: removals, Packed: p.RemovalsSize(removals)}, nil
	}
	if removals != nil {
		return &protocol.Unmask{Round: p.Round, Removals: removals, Packed: p.RemovalSize(m.Count)}, nil
	}
	known := c.unmask.Load()
	if known == nil || known.survivors != m.Count {
		known = &emptyUnmask{m.Count, protocol.Unmask{Round: p.Round, Packed: p.RemovalSize(m.Count)}}
		c.unmask.Store(known)
	}
	return &known.Unmask, nil
}

// Replace acknowledges the clients that replaced their noise.
func (c *IdealClient) Replace(*protocol.Answered) (*protocol.Replacement, error) {
	return &c.replacement, nil
}

// Ideal is the trusted adder of one round. It is not safe for concurrent use.
type Ideal struct {
	// Heard, if set, is told of each client whose input is in the sum.
	Heard func(protocol.ClientID)

	setup  protocol.Setup
	plan   *protocol.Plan // nil before Begin
	draw   Draw
	noise  entropy.Source
	tables *noise.Tables
	sums   [][]int64 // per release, modulo 2^64; lift takes the low bits at the end
	counts [protocol.Stages]int
	next   [protocol.Stages]struct { // what opens the stage after each: one message for all clients
		message protocol.Message
		count   int
	}
	finished bool
}

// NewIdeal makes the adder of a round. src is where DrawSum takes the noise
// from, and t what it is drawn with, which all rounds of a session can share.
func NewIdeal(s protocol.Setup, d Draw, src entropy.Source, t *noise.Tables) *Ideal {
	return &Ideal{setup: s, draw: d, noise: src, tables: t}
}

// Begin takes the plan of the round, before the first masked input; ErrPlan is returned for one of another round.
func (s *Ideal) Begin(p *protocol.Plan) error {
	if p.Setup() != s.setup || s.plan != nil {
		return ErrPlan
	}
	s.plan = p
	s.sums = lists.Map(p.Releases, func(r protocol.Release) []int64 { return make([]int64, r.Len) })
	return nil
}

// Receive takes a client's message of a stage. The caller makes sure that each client is heard once per stage. An error means that
// the message is malformed and was not counted; nothing was added.
func (s *Ideal) Receive(from protocol.ClientID, m protocol.StageMessage) error {
	_, stage := m.At()
	var vectors []protocol.Integers
	switch m := m.(type) {
	case *protocol.MaskedInput:
		if len(m.Vectors) != len(s.sums) {
			return fmt.Errorf("masked input holds %d vectors, the plan has %d releases", len(m.Vectors), len(s.sums))
		}
		vectors = m.Vectors
	case *protocol.Unmask:
		if len(m.Removals) != 0 && len(m.Removals) != len(s.sums) {
			return fmt.Errorf("unmask holds %d removals, the plan has %d releases", len(m.Removals), len(s.sums))
		}
		vectors = m.Removals
	}
	for i, v := range vectors {
		r := s.plan.Releases[i]
		if err := v.Validate(r.Len); err != nil {
			return fmt.Errorf("release %q: %w", r.Name, err)
		}
	}
	for i, v := range vectors {
		v.AddTo(s.sums[i])
	}
	s.counts[stage]++
	if s.Heard != nil && stage == protocol.StageMaskedInput {
		s.Heard(from)
	}
	return nil
}

// Add takes the sums that other processes have added up, in place of messages. For each release it
// takes the sum of inputs clients' vectors, modulo 2^64; answered of these clients answered the
// survivors. The sum then has the same noise as if every client had been heard here.
func (s *Ideal) Add(sums [][]int64, inputs, answered int) error {
	if s.plan == nil {
		return ErrOrder
	}
	if len(sums) != len(s.sums) {
		return fmt.Errorf("%d sums; the plan has %d releases", len(sums), len(s.sums))
	}
	if inputs < 0 || answered < 0 || answered > inputs {
		return fmt.Errorf("%d clients answered of %d whose inputs were added", answered, inputs)
	}
	for i, r := range s.plan.Releases {
		if len(sums[i]) != r.Len {
			return fmt.Errorf("release %q: %d coordinates, %d expected", r.Name, len(sums[i]), r.Len)
		}
	}
	for i, v := range sums {
		for j, x := range v {
			s.sums[i][j] += x
		}
	}
	s.counts[protocol.StageMaskedInput] += inputs
	s.counts[protocol.StageUnmask] += answered
	return nil
}

// Verify is nil: nothing in an ideal sum is signed.
func (s *Ideal) Verify(protocol.ClientID, protocol.StageMessage) func(protocol.Runner) func() error {
	return nil
}

// Close does nothing in an ideal sum.
func (s *Ideal) Close(protocol.Stage) error { return nil }

// Culprits returns nil: the process that runs an ideal sum is trusted, and so are its clients.
func (s *Ideal) Culprits() []protocol.Culprit { return nil }

// Drop does nothing: an ideal sum keeps nothing outside memory.
func (s *Ideal) Drop() {}

// Confirms reports that there is nothing to confirm.
func (s *Ideal) Confirms() bool { return false }

// Next is the message that opens the stage after the closed one, for one client. In an ideal sum it is the same for all.
func (s *Ideal) Next(closed protocol.Stage, _ protocol.ClientID) protocol.Message {
	if s.next[closed].message == nil || s.next[closed].count != s.counts[closed] {
		s.next[closed].message, s.next[closed].count = s.opening(closed, s.counts[closed]), s.counts[closed]
	}
	return s.next[closed].message
}

// opening returns the message that opens the stage after a closed stage, which n clients have answered.
func (s *Ideal) opening(closed protocol.Stage, n int) protocol.Message {
	it := s.setup.Round
	switch closed {
	case protocol.StageAdvertise:
		return &protocol.Roster{Round: it, Clients: n}
	case protocol.StageShare:
		return &protocol.Delivery{Round: it, Clients: n}
	case protocol.StageUnmask:
		return &protocol.Answered{Round: it, Count: n}
	default:
		return &protocol.Survivors{Round: it, Count: n}
	}
}

// ErrFinished is returned when a sum is asked for twice: with fresh noise over the same sum, the two could be averaged.
var ErrFinished = errors.New("secagg: the sum was already released")

// Sum returns, per release, the sum over the clients whose masked input arrived, with the
// noise that the plan asks for. It returns a sum once only (ErrFinished).
func (s *Ideal) Sum(protocol.Runner) ([][]int64, error) {
	if s.finished {
		return nil, ErrFinished
	}
	if s.plan == nil {
		return nil, ErrOrder
	}
	s.finished = true
	out := make([][]int64, len(s.sums))
	for i, r := range s.plan.Releases {
		out[i] = make([]int64, r.Len)
		if s.draw == DrawSum && r.Noise.Variance > 0 {
			if err := s.addNoise(out[i], r); err != nil {
				return nil, fmt.Errorf("release %q: %w", r.Name, err)
			}
		}
		for j := range out[i] {
			out[i][j] = lift(uint64(s.sums[i][j]+out[i][j]), r.Width)
		}
	}
	return out, nil
}

// addNoise draws the noise that the u1 survivors leave in the sum if u2 of them answered: b = V/(u1-c) from each client that
// answered and a = V/w from each that fell silent. Where noise is local it is V from each client.
func (s *Ideal) addNoise(dst []int64, r protocol.Release) error {
	u1, u2 := s.counts[protocol.StageMaskedInput], s.counts[protocol.StageUnmask]
	sampler, err := s.tables.SkellamFor(r.Noise.Final(s.plan.Cohort, u1, u2), len(dst))
	if err != nil {
		return err
	}
	return sampler.Add(dst, noise.NewBits(s.noise.Stream("sum-noise/"+r.Name, s.plan.Round)))
}
