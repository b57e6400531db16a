package sim_test

import (
	"crypto/ed25519"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// machine is the computer of a client: it survives the client's crashes, with the records and
// nothing else.
type machine struct {
	id       protocol.ClientID
	w        *world
	identity ed25519.PrivateKey // nil in semi-honest mode
	budget   dp.Budget
	records  []dp.Record
	last     uint64              // the latest round of which there is any record
	inbox    []protocol.Envelope // what it was sent in the round, for redelivery

	life   int // from 1, counts restarts
	up     bool
	role   role
	ledger *dp.Ledger // nil where nothing is private
}

// source is where the randomness of a life comes from: as in a deployment, a
// client that restarts never draws the same secrets again.
func (d *machine) source() entropy.Source {
	return simulated.New(d.w.schedule.Seed, fmt.Sprintf("chaos/client/%d/life/%d", d.id, d.life))
}

// start brings the client up from its records.
func (d *machine) start() error {
	d.life++
	d.up = true
	cfg := client.Config{
		ID: d.id, Session: d.w.session, Trainer: trainer{d}, Entropy: d.source(), Noise: d.w.samplers,
		Rounds: uint64(d.w.schedule.Rounds) + 1, Last: d.last,
	}
	if d.w.schedule.private() {
		var err error
		if d.ledger, err = dp.RestoreLedger(d.budget, d.w.prices, d.records); err != nil {
			return err
		}
		cfg.Ledger = d.ledger
	}
	party, err := secagg.NewParty(secagg.PartyConfig{
		ID: d.id, Session: d.w.session, Params: d.w.params, Entropy: cfg.Entropy, Identity: d.identity, Last: d.last,
	})
	if err != nil {
		return err
	}
	cfg.NewSum = func(s protocol.Setup) (client.Sum, error) {
		c, err := party.Join(s)
		return &watched{Client: c, d: d}, err
	}
	d.role = client.New(cfg)
	if d.life > 1 {
		d.w.observe(Restarted{Client: d.id, Last: d.last, Spent: d.spent()})
	}
	return nil
}

// remember keeps what the client is sent, from one announcement to the next.
func (d *machine) remember(e protocol.Envelope) {
	if k := e.Message.Kind(); k == protocol.KindAnnounce || k == protocol.KindInvite {
		d.inbox = d.inbox[:0]
	}
	d.inbox = append(d.inbox, e)
}

// crash takes the client down, with all that it knew.
func (d *machine) crash() { d.up, d.role, d.ledger = false, nil, nil }

func (d *machine) spent() float64 {
	if d.ledger == nil {
		return 0
	}
	return d.ledger.Spent().Epsilon
}

// persist makes a record durable.
func (d *machine) persist(r protocol.Record) {
	o := Durable{Client: d.id, Record: r, Spent: d.spent()}
	if d.ledger != nil {
		o.Budget = d.budget.Epsilon
	}
	if r, ok := r.(protocol.Charged); ok {
		d.last = r.Round
		d.records = append(d.records, dp.Record{Session: r.Session, Round: r.Round, Events: r.Events})
	}
	d.w.observe(o)
}

func newIdentity(seed uint64, id protocol.ClientID) (ed25519.PrivateKey, error) {
	b := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(simulated.New(seed, "chaos/identities").Stream("identity", uint64(id)), b); err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(b), nil
}

// trainer contributes small integers that follow from seed, client and round,
// some of them zero, some vectors sparse, and some out of their bounds.
type trainer struct{ d *machine }

func (t trainer) Contribute(p *protocol.Plan, _ entropy.Source, _ protocol.Runner) ([]protocol.Vector, error) {
	plain, usable := t.d.w.contribution(t.d.id, p)
	out := make([]protocol.Vector, len(plain))
	for i, values := range plain {
		r := p.Releases[i]
		if !usable {
			out[i] = protocol.Vector{Value: make([]float64, r.Len)}
			out[i].Value[0] = math.NaN()
			continue
		}
		dense := protocol.Vector{Value: make([]float64, len(values))}
		sparse := protocol.Vector{Index: []uint32{}}
		for j, x := range values {
			dense.Value[j] = float64(x) / r.Scale
			if x != 0 {
				sparse.Index, sparse.Value = append(sparse.Index, uint32(j)), append(sparse.Value, dense.Value[j])
			}
		}
		if out[i] = dense; len(sparse.Index) < len(values) {
			out[i] = sparse
		}
	}
	return out, nil
}

func (t trainer) Finish(model []byte, _ protocol.Runner) error {
	t.d.w.observe(ModelReceived{Client: t.d.id, Model: slices.Clone(model)})
	return nil
}

// contribution returns a client's contribution in integers; if it is not usable, it counts as
// zeros.
func (w *world) contribution(id protocol.ClientID, p *protocol.Plan) (plain [][]int64, usable bool) {
	d := entropy.Public(w.schedule.Seed, fmt.Sprintf("chaos/contribution/%d/%d", id, p.Round))
	usable = d.Float64() >= w.schedule.Unusable
	for _, r := range p.Releases {
		v := make([]int64, r.Len)
		for range r.MaxNonZero {
			v[d.IntN(r.Len)] = int64(d.IntN(2*bound+1)) - bound
		}
		plain = append(plain, v)
	}
	return plain, usable
}

// watched is a client's side of the real sum; it reports the inputs of the sum.
type watched struct {
	*secagg.Client
	d    *machine
	plan *protocol.Plan
}

func (s *watched) Begin(p *protocol.Plan) error {
	s.plan = p
	return s.Client.Begin(p)
}

func (s *watched) MaskedInput(m *protocol.Delivery, inputs []protocol.Integers, run protocol.Runner) (*protocol.MaskedInput, error) {
	plain, usable := s.d.w.contribution(s.d.id, s.plan)
	if !usable {
		for _, v := range plain {
			clear(v)
		}
	}
	drawn, err := s.d.w.redrawer.draw(s.plan, s.d.source(), 0)
	if err != nil {
		return nil, err
	}
	s.d.w.observe(Masked{Client: s.d.id, Round: s.plan.Round, Plain: plain, Noise: drawn, Inputs: dense(s.plan, inputs)})
	return s.Client.MaskedInput(m, inputs, run)
}

func (s *watched) Unmask(m *protocol.Survivors, removals []protocol.Integers, run protocol.Runner) (*protocol.Unmask, error) {
	due, err := s.d.w.redrawer.draw(s.plan, s.d.source(), m.Count)
	if err != nil {
		return nil, err
	}
	s.d.w.observe(Thinned{Client: s.d.id, Round: s.plan.Round, Survivors: m.Count, Due: due, Removals: dense(s.plan, removals)})
	return s.Client.Unmask(m, removals, run)
}

// dense copies vectors, those left out being zero.
func dense(p *protocol.Plan, vectors []protocol.Integers) [][]int64 {
	out := make([][]int64, len(p.Releases))
	for i, r := range p.Releases {
		out[i] = make([]int64, r.Len)
		if i < len(vectors) {
			vectors[i].AddTo(out[i])
		}
	}
	return out
}

// strikes draws whether a fault of a chance strikes; none does in a healed
// federation.
func (w *world) strikes(chance float64) bool {
	return !w.healed && chance > 0 && w.dice.Float64() < chance
}

// upTo draws a duration below d.
func (w *world) upTo(d time.Duration) time.Duration {
	return time.Duration(w.dice.Float64() * float64(d))
}

// send puts a message on its way, or what the faults leave of it.
func (w *world) send(e protocol.Envelope) {
	w.observe(Left{e})
	if r := protocol.Piggyback(e.Message); r != nil {
		w.observe(Left{protocol.Envelope{From: e.From, To: e.To, Message: r}})
	}
	if e.To.Role == protocol.Client {
		w.machines[e.To.Client].remember(e)
	}
	kind := e.Message.Kind()
	lossy := e.From.Role == protocol.Client || e.To.Role == protocol.Client
	if lossy && (w.volley(e) || w.strikes(w.schedule.Faults.Drop)) {
		w.result.faults.Dropped++
		w.tell("%s from %s to %s is lost", kind, e.From, e.To)
		return
	}
	w.deliver(e, 0)
	if w.strikes(w.schedule.Faults.Duplicate) {
		w.result.faults.Duplicated++
		w.tell("%s from %s to %s arrives twice", kind, e.From, e.To)
		w.deliver(e, w.upTo(2*stageTimeout))
	}
}

// deliver has a message arrive after its latency, what delays it, and more.
func (w *world) deliver(e protocol.Envelope, more time.Duration) {
	d := latency + w.upTo(latency) + more
	if w.strikes(w.schedule.Faults.Reorder) {
		w.result.faults.Reordered++
		d += w.upTo(stageTimeout / 3)
	}
	if w.strikes(w.schedule.Faults.Delay) {
		w.result.faults.Delayed++
		d += w.upTo(3 * stageTimeout)
		w.tell("%s from %s to %s takes %v", e.Message.Kind(), e.From, e.To, d)
	}
	w.queue.add(&happening{at: w.now.Add(d), to: e.To, in: protocol.Received{Envelope: e}})
}

// volley reports whether a volley takes the message.
func (w *world) volley(e protocol.Envelope) bool {
	after := e.From.Role == protocol.Client
	id := e.To.Client
	if after {
		id = e.From.Client
	}
	for _, v := range w.schedule.Volleys {
		if !w.healed && v.Round == w.round && v.After == after && slices.Contains(v.Clients, id) && protocol.StageOf(e.Message, w.schedule.Mode == secagg.Active) == v.Stage {
			return true
		}
	}
	return false
}

// crash takes a client down for a while.
func (w *world) crash(d *machine, when string) {
	d.crash()
	w.result.faults.Crashed++
	down := w.upTo(longestDown)
	w.tell("client %d crashes %s, for %v", d.id, when, down)
	to := protocol.ClientParty(d.id)
	delete(w.busy, to)
	w.queue.add(&happening{at: w.now.Add(down), to: to})
}

// restart brings a client up, unless healing has already.
func (w *world) restart(d *machine) {
	if d.up {
		return
	}
	if err := d.start(); err != nil {
		w.observe(Failed{protocol.Event{Kind: protocol.WorkFailed, Round: w.round, Party: protocol.ClientParty(d.id), Err: err}})
		return
	}
	w.tell("client %d is up again", d.id)
	// A client that starts registers before it hears anything else.
	w.carryOut(protocol.Party{Role: protocol.Aggregator}, w.aggregator.Step(w.now, protocol.Registered{Client: d.id}))
	if w.strikes(w.schedule.Faults.Redeliver) {
		w.result.faults.Redelivered++
		w.tell("client %d is sent once more what it was sent in round %d", d.id, w.round)
		for _, e := range d.inbox {
			w.deliver(e, 0)
		}
	}
}

// heal ends the faults: all clients are up, and messages in transit arrive.
func (w *world) heal() {
	w.healed = true
	w.tell("the federation heals")
	for _, d := range w.machines {
		w.restart(d)
	}
}

// Observation is an event that a checker receives. It must not be changed.
type Observation any

// Planned says that the server has planned a round. Healed: no more faults occur.
type Planned struct {
	Plan   *protocol.Plan
	Healed bool
}

// Left says that a message has left its sender, whether or not it arrives.
type Left struct{ Envelope protocol.Envelope }

// Heard says that a message has reached a role. Ignored: the role did not accept it.
type Heard struct {
	Envelope protocol.Envelope
	Ignored  bool
}

// Masked says that a client passed its inputs to the secure sum to be masked. Plain is
// its contribution in integers, Noise its share of the noise, drawn again from its
// randomness.
type Masked struct {
	Client               protocol.ClientID
	Round                uint64
	Plain, Noise, Inputs [][]int64 // by release, dense
}

// Thinned says that a client passed the changes of its noise to the secure sum. Due are
// the changes that its randomness gives for the number of survivors that it was shown,
// drawn again.
type Thinned struct {
	Client        protocol.ClientID
	Round         uint64
	Survivors     int
	Due, Removals [][]int64 // by release, dense
}

// Durable says that a client's record is durable. Spent and Budget are epsilons of
// its ledger, both 0 in a client without one.
type Durable struct {
	Client        protocol.ClientID
	Record        protocol.Record
	Spent, Budget float64
}

// Restarted says that a client is running again, and what its durable records say.
type Restarted struct {
	Client protocol.ClientID
	Last   uint64  // the latest round recorded
	Spent  float64 // epsilon of the ledger rebuilt
}

// ModelReceived says that a client's trainer was handed the final model.
type ModelReceived struct {
	Client protocol.ClientID
	Model  []byte
}

// Absorbed says that the server's strategy absorbed a sum.
type Absorbed struct {
	Round uint64
	Sums  protocol.Sums
}

// Failed says that a computation of a role failed.
type Failed struct{ Event protocol.Event }

// Blamed says that a client was excluded for a lie, or a sum refused.
type Blamed struct{ Event protocol.Event }

// Ended says that the schedule is over: no event is left, or their number exceeded the
// limit.
type Ended struct {
	Model []byte // the server's
	Over  bool   // the server has ended the session
}
