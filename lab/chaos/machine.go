package chaos

import (
	"crypto/ed25519"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/entropy/simulated"
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
