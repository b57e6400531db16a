package chaos

import (
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/protocol"
)

// exactSum: the released sum covers exactly the clients whose masked input was taken. It adds their
// contributions, their noise, and the changes of the clients that answered. All three come from
// schedule and randomness, not from the clients, whose own figures must be equal. The server takes
// in this sum, under its round.
type exactSum struct {
	schedule *Schedule
	rounds   map[uint64]*contributions
}

// contributions holds the clients' parts of a round.
type contributions struct {
	plan     *protocol.Plan
	masked   map[protocol.ClientID]Masked
	thinned  map[protocol.ClientID]Thinned
	u1       []protocol.ClientID // whose masked input was taken, in ascending order
	answered []protocol.ClientID
	released [][]int64 // the sum; nil before
}

func (*exactSum) Rule() string { return "the sum is that over exactly the survivors" }

func (c *exactSum) Observe(o Observation) error {
	switch o := o.(type) {
	case Planned:
		c.rounds[o.Plan.Round] = &contributions{plan: o.Plan,
			masked: make(map[protocol.ClientID]Masked), thinned: make(map[protocol.ClientID]Thinned)}
	case Masked:
		c.rounds[o.Round].masked[o.Client] = o
		return c.input(o)
	case Thinned:
		c.rounds[o.Round].thinned[o.Client] = o
		return c.removal(o)
	case Absorbed:
		return c.rounds[o.Round].absorbed(o)
	case Heard:
		c.heard(o)
	case Left:
		if m, ok := o.Envelope.Message.(*protocol.Result); ok {
			return c.rounds[m.Round].check(m)
		}
	}
	return nil
}

// input holds what a client masks against what it contributed and its noise.
func (c *exactSum) input(m Masked) error {
	for i, r := range c.schedule.Releases {
		for j, x := range m.Inputs[i] {
			if plain, noise := m.Plain[i][j], m.Noise[i][j]; x != plain+noise {
				return fmt.Errorf("round %d: client %d masks %d as coordinate %d of %s, it has to contribute %d and noise of %d",
					m.Round, m.Client, x, j, r.Name, plain, noise)
			}
		}
	}
	return nil
}

// removal compares the changes of a client's noise with the changes due for the survivors, the
// clients whose masked inputs were taken.
func (c *exactSum) removal(t Thinned) error {
	if u1 := c.rounds[t.Round].u1; t.Survivors != len(u1) {
		return fmt.Errorf("round %d: client %d thins its noise for %d survivors, the masked inputs of %v were taken", t.Round, t.Client, t.Survivors, u1)
	}
	for i, r := range c.schedule.Releases {
		if !slices.Equal(t.Due[i], t.Removals[i]) {
			return fmt.Errorf("round %d: client %d changes the noise of %s by %v, due is %v", t.Round, t.Client, r.Name, t.Removals[i], t.Due[i])
		}
	}
	return nil
}

func (c *exactSum) heard(o Heard) {
	m, ok := o.Envelope.Message.(protocol.StageMessage)
	if !ok || o.Ignored {
		return
	}
	round, _ := m.At()
	it := c.rounds[round]
	switch m.(type) {
	case *protocol.MaskedInput:
		it.u1 = ascending(it.u1, o.Envelope.From.Client)
	case *protocol.Unmask:
		it.answered = ascending(it.answered, o.Envelope.From.Client)
	}
}

func ascending(ids []protocol.ClientID, id protocol.ClientID) []protocol.ClientID {
	at, _ := slices.BinarySearch(ids, id)
	return slices.Insert(ids, at, id)
}

// absorbed holds what the server takes in against what was released.
func (it *contributions) absorbed(o Absorbed) error {
	if it.released == nil {
		return fmt.Errorf("round %d: the server takes in a sum before there is one", o.Round)
	}
	for i, r := range it.plan.Releases {
		for j, x := range it.released[i] {
			if got := o.Sums.Values[i][j]; got != float64(x)/r.Scale {
				return fmt.Errorf("round %d: the server takes in %g as coordinate %d of %s, released was %d at scale %g", o.Round, got, j, r.Name, x, r.Scale)
			}
		}
	}
	return nil
}

// check adds up what the survivors gave.
func (it *contributions) check(m *protocol.Result) error {
	if m.Survivors != len(it.u1) || m.Answered != len(it.answered) {
		return fmt.Errorf("round %d: a sum over %d clients of whom %d answered, but the masked inputs of %v and answers of %v were taken",
			m.Round, m.Survivors, m.Answered, it.u1, it.answered)
	}
	if len(m.Integers) != len(it.plan.Releases) {
		return fmt.Errorf("round %d: %d vectors for %d releases", m.Round, len(m.Integers), len(it.plan.Releases))
	}
	it.released = m.Integers
	for i, r := range it.plan.Releases {
		want := make([]int64, r.Len)
		for _, id := range it.u1 {
			in, ok := it.masked[id]
			if !ok {
				return fmt.Errorf("round %d: client %d survived without having masked anything", m.Round, id)
			}
			for j := range want {
				want[j] += in.Plain[i][j] + in.Noise[i][j]
			}
		}
		for _, id := range it.answered {
			for j, x := range it.thinned[id].Due[i] {
				want[j] += x
			}
		}
		for j, x := range want {
			want[j] = x << (64 - r.Width) >> (64 - r.Width) // the ring's integer nearest zero
		}
		if !slices.Equal(want, m.Integers[i]) {
			return fmt.Errorf("round %d: the sum %s over clients %v is %v, released was %v", m.Round, r.Name, it.u1, want, m.Integers[i])
		}
	}
	return nil
}
