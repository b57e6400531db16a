package node_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"
	"testing"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// oracle knows what every sum must be. It looks on at a tap, and trains beside each client from the
// same ratings: clients contribute all of them, without noise, so that nothing is left to chance.
// It finds the clients whose contributions give a sum.
type oracle struct {
	t     testing.TB
	party func(protocol.ClientID, *experiment.Experiment) (client.Trainer, error)

	noised bool // sums are not exact, and are not looked at

	mu     sync.Mutex
	public *experiment.Experiment // as the server published it
	lives  map[*pipe]life
	// trainers are the possible trainers of a client in a life. The first plan that the client
	// hears makes a trainer. Several plans may have been on their way, and the oracle does not know
	// which came first until the client has answered one. After that answer there are no more.
	trainers map[life][]client.Trainer
	answered map[life]bool
	inputs   map[uint64]map[protocol.ClientID][][]int64 // to each round, by trainer
	sent     map[protocol.ClientID][]uint64             // rounds whose masked input has left
	opened   []uint64
	openedOn map[uint64]*pipe               // the server's line
	said     map[protocol.Kind][]byte       // the latest, of open and result
	summed   map[uint64][]protocol.ClientID // whom the sum of a round is of
}

// life is a process of a client, as it names itself.
type life struct {
	id   protocol.ClientID
	name string
}

func newOracle(t testing.TB, x *tap, party func(protocol.ClientID, *experiment.Experiment) (client.Trainer, error)) *oracle {
	o := &oracle{t: t, party: party, lives: make(map[*pipe]life), trainers: make(map[life][]client.Trainer),
		answered: make(map[life]bool), inputs: make(map[uint64]map[protocol.ClientID][][]int64), sent: make(map[protocol.ClientID][]uint64),
		openedOn: make(map[uint64]*pipe), said: make(map[protocol.Kind][]byte), summed: make(map[uint64][]protocol.ClientID)}
	x.rule(o.watch)
	return o
}

func (o *oracle) watch(p *passing) {
	o.mu.Lock()
	defer o.mu.Unlock()
	id := p.place.Client
	switch {
	case p.said("register") && p.place.Role == protocol.Client:
		o.register(p, p.notice["register"])
	case p.said("publish"):
		o.published(p.notice["publish"])
	}
	if o.again(p) {
		return
	}
	switch m := p.message.(type) {
	case *protocol.Open:
		if p.up {
			o.opened = append(o.opened, m.Plan.Round)
			o.openedOn[m.Plan.Round] = p.on
		}
	case *protocol.Announce:
		if !p.up && !o.noised {
			o.announced(o.lives[p.on], m.Plan)
		}
	case *protocol.Advertise:
		o.answered[o.lives[p.on]] = true
	case *protocol.MaskedInput:
		if p.up {
			o.answered[o.lives[p.on]] = true
			o.sent[id] = append(o.sent[id], m.Round)
		}
	case *protocol.Result:
		if !p.up && !o.noised {
			o.released(m)
		}
	}
}

// again says whether server and aggregator say once more what they said last, since the
// line between them broke and it may not have arrived.
func (o *oracle) again(p *passing) bool {
	if k := p.kind(); k != protocol.KindOpen && k != protocol.KindResult {
		return false
	}
	same := bytes.Equal(o.said[p.kind()], p.raw)
	o.said[p.kind()] = bytes.Clone(p.raw)
	return same
}

func (o *oracle) register(p *passing, text json.RawMessage) {
	var r struct{ Life json.RawMessage }
	if err := json.Unmarshal(text, &r); err != nil {
		o.t.Error(err)
	}
	o.lives[p.on] = life{p.place.Client, string(r.Life)}
}

func (o *oracle) published(text json.RawMessage) {
	var s struct{ Descriptor session.Descriptor }
	err := json.Unmarshal(text, &s)
	var public *agreement.Public
	if err == nil {
		public, err = agreement.Decode(s.Descriptor.Experiment)
	}
	if err == nil {
		o.public, err = agreement.Open(public)
	}
	if err != nil {
		o.t.Error(err)
	}
}

func (o *oracle) announced(l life, p *protocol.Plan) {
	if !o.answered[l] {
		anew, err := o.party(l.id, o.public)
		if err != nil {
			o.t.Error(err)
			return
		}
		o.trainers[l] = append(o.trainers[l], anew)
	}
	for _, trainer := range o.trainers[l] {
		vectors, err := trainer.Contribute(p, simulated.New(seed, "oracle"), protocol.Workers(1))
		if err != nil {
			o.t.Error(err)
			return
		}
		q, err := client.Quantize(vectors[0], p.Releases[0])
		if err != nil {
			o.t.Error(err)
			return
		}
		dense := make([]int64, p.Releases[0].Len)
		q.AddTo(dense)
		if o.inputs[p.Round] == nil {
			o.inputs[p.Round] = make(map[protocol.ClientID][][]int64)
		}
		o.inputs[p.Round][l.id] = append(o.inputs[p.Round][l.id], dense)
	}
}

// released finds whom a sum is of: there is one set of as many clients as survived, or
// the sum is not exact. It is of the round that was opened last, or of one whose server was lost: a
// sum that it has not heard of may come when the next server has opened another.
func (o *oracle) released(m *protocol.Result) {
	on := o.openedOn[m.Round]
	if last := len(o.opened) - 1; on == nil || m.Round != o.opened[last] && on == o.openedOn[o.opened[last]] || len(m.Integers) != 1 {
		o.t.Errorf("a result of round %d, not of the one that was opened last on the line", m.Round)
		return
	}
	found := search(o.inputs[m.Round], m.Integers[0], m.Survivors, nil, 0)
	if len(found) != 1 {
		o.t.Errorf("round %d: the sum is that of %v; of one set of %d clients, if it is exact", m.Round, found, m.Survivors)
		return
	}
	o.summed[m.Round] = found[0]
}

// search finds the sets of so many clients, from one on, whose inputs add up to the rest of a sum.
func search(inputs map[protocol.ClientID][][]int64, left []int64, survivors int, of []protocol.ClientID, from protocol.ClientID) (found [][]protocol.ClientID) {
	if len(of) == survivors {
		if slices.ContainsFunc(left, func(x int64) bool { return x != 0 }) {
			return nil
		}
		return [][]protocol.ClientID{slices.Clone(of)}
	}
	for id := from; id < clients; id++ {
		var with [][]protocol.ClientID
		for _, input := range inputs[id] {
			rest := slices.Clone(left)
			for j, x := range input {
				rest[j] -= x
			}
			if sets := search(inputs, rest, survivors, append(of, id), id+1); len(sets) > len(with) {
				with = sets
			}
		}
		found = append(found, with...)
	}
	return found
}

// of is whom the sum of a round was of; nil if there was none.
func (o *oracle) of(round uint64) []protocol.ClientID {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.summed[round]
}

// took says whether a client is in the sum of a round.
func (o *oracle) took(id protocol.ClientID, round uint64) bool {
	return slices.Contains(o.of(round), id)
}

// charge is an entry of a ledger, as store writes it.
type charge struct {
	Round  uint64          `json:"round"`
	Events json.RawMessage `json:"events"`
}

// charges returns the charges in a ledger's log, in order.
func charges(t testing.TB, log store.Log) (list []charge) {
	t.Helper()
	err := log.Entries(func(text []byte) error {
		var e charge
		if err := json.Unmarshal(text, &e); err != nil {
			return err
		}
		list = append(list, e)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// checkLedger: every round whose masked input has left is charged, once, and
// nothing is but rounds that were opened.
func (o *oracle) checkLedger(id protocol.ClientID, list []charge) {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	charged := make(map[uint64]int)
	for _, e := range list {
		charged[e.Round]++
		if !slices.Contains(o.opened, e.Round) {
			o.t.Errorf("client %d was charged for round %d, which was never opened", id, e.Round)
		}
	}
	for i, n := range charged {
		if n != 1 {
			o.t.Errorf("client %d was charged %d times for round %d", id, n, i)
		}
	}
	for _, i := range o.sent[id] {
		if charged[i] != 1 {
			o.t.Errorf("client %d sent its masked input of round %d, and was charged %d times for it", id, i, charged[i])
		}
	}
	if extra := len(charged) - len(o.sent[id]); extra < 0 || extra > 1 { // one may have been stopped between the two
		o.t.Errorf("client %d was charged for %v, and sent %v", id, charged, o.sent[id])
	}
}

// openedOnce: no number of a round is used twice.
func (o *oracle) openedOnce() {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.IsSorted(o.opened) || len(slices.Compact(slices.Clone(o.opened))) != len(o.opened) {
		o.t.Errorf("rounds were opened as %v", o.opened)
	}
}

// chargesIn returns the charges in the ledger's file of a client that has ended.
func chargesIn(t testing.TB, path string, owner admission.PublicKey) []charge {
	t.Helper()
	log, err := store.OpenLog(path, store.Kind{Format: "fedsim-ledger-v1", Owner: owner})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() //nolint:errcheck // nothing is written
	return charges(t, log)
}
