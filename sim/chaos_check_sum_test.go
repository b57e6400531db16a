package sim_test

import (
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
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

// threshold returns how many shares restore a secret, with so many clients on the roster.
func (s *Schedule) threshold(roster int) (int, error) {
	c, err := s.Params().Graph(s.setup()).ForRoster(roster)
	return c.Threshold, err
}

// summing is one of the two sums of a round. The sum of the inputs is unmasked in the stage
// unmask, and the sum of the changes of noise in the stage replace. The two have different secrets.
type summing struct {
	round uint64
	stage protocol.Stage
}

func (s summing) String() string { return fmt.Sprintf("round %d, %s", s.round, s.stage) }

// revealed takes the shares out of a client's answer, if there are any.
func revealed(m protocol.Message) (of summing, shares []protocol.RevealedShare, ok bool) {
	switch m := m.(type) {
	case *protocol.Unmask:
		return summing{m.Round, protocol.StageUnmask}, m.Shares, true
	case *protocol.Replacement:
		return summing{m.Round, protocol.StageReplace}, m.Shares, true
	default:
		return summing{}, nil, false
	}
}

// oneKind: no client ever reveals both kinds of share for one peer in a sum. The
// kinds are different random numbers, so it must not reveal two different ones, in
// one answer or in several, in one life or in several.
type oneKind struct{ seen map[holding][32]byte }

// holding is a client's share of a peer's secrets.
type holding struct {
	summing
	holder, of protocol.ClientID
}

func (*oneKind) Rule() string { return "a client reveals one kind of share of a peer" }

func (c *oneKind) Observe(o Observation) error {
	left, ok := o.(Left)
	if !ok {
		return nil
	}
	of, shares, ok := revealed(left.Envelope.Message)
	if !ok {
		return nil
	}
	for _, s := range shares {
		key := holding{of, left.Envelope.From.Client, s.Of}
		first, known := c.seen[key]
		if known && first != s.Share {
			return fmt.Errorf("%s: client %d reveals two shares of client %d", of, key.holder, key.of)
		}
		c.seen[key] = s.Share
	}
	return nil
}

// oneSecret: the shares that all clients revealed for a sum never restore both the secret of a
// client's own mask and its mask key. The clients in the sum that a holder was shown say which
// secret a share belongs to.
type oneSecret struct {
	schedule *Schedule
	rosters  map[clientRound]*protocol.Roster // as a client was shown it, whole or its part
	shown    map[shownTo]protocol.Bitmap
	held     map[dealing]*holders
}

// shownTo is a client that was shown who is in a sum.
type shownTo struct {
	summing
	client protocol.ClientID
}

// dealing is a client's sharing of its secrets for a sum.
type dealing struct {
	summing
	dealer protocol.ClientID
}

// holders lists the clients that revealed a share of each secret of a client.
type holders struct{ seed, key []protocol.ClientID }

func (*oneSecret) Rule() string { return "no client's secrets are both restored" }

func (c *oneSecret) Observe(o Observation) error {
	switch o := o.(type) {
	case Heard:
		if o.Ignored {
			return nil
		}
		switch m := o.Envelope.Message.(type) {
		case *protocol.Survivors:
			c.shown[shownTo{summing{m.Round, protocol.StageUnmask}, o.Envelope.To.Client}] = m.U1
		case *protocol.Answered:
			c.shown[shownTo{summing{m.Round, protocol.StageReplace}, o.Envelope.To.Client}] = m.U2
		}
	case Left:
		if m, ok := o.Envelope.Message.(*protocol.Roster); ok {
			c.rosters[clientRound{o.Envelope.To.Client, m.Round}] = m
		}
		if sum, shares, ok := revealed(o.Envelope.Message); ok {
			return c.revealed(o.Envelope.From.Client, sum, shares)
		}
	}
	return nil
}

func (c *oneSecret) revealed(holder protocol.ClientID, sum summing, shares []protocol.RevealedShare) error {
	shown := c.shown[shownTo{sum, holder}]
	if shown == nil {
		return fmt.Errorf("%s: client %d reveals shares without having been shown who is in the sum", sum, holder)
	}
	roster := c.rosters[clientRound{holder, sum.round}]
	if roster == nil {
		return fmt.Errorf("%s: client %d reveals shares without having been shown a roster", sum, holder)
	}
	t, err := c.schedule.threshold(roster.Clients)
	if err != nil {
		return err
	}
	for _, s := range shares {
		h := c.held[dealing{sum, s.Of}]
		if h == nil {
			h = new(holders)
			c.held[dealing{sum, s.Of}] = h
		}
		of := &h.key
		if place := slices.IndexFunc(roster.Members, func(p protocol.Member) bool { return p.Client == s.Of }); shown.Has(place) {
			of = &h.seed
		}
		if !slices.Contains(*of, holder) {
			*of = append(*of, holder)
		}
		if len(h.seed) >= t && len(h.key) >= t {
			return fmt.Errorf("%s: clients %v reveal client %d's seed and clients %v its mask key, %d restore either", sum, h.seed, s.Of, h.key, t)
		}
	}
	return nil
}

// redrawer draws the noise of clients again, from the source of their randomness, which only a
// simulator knows. The result is the noise that they must really have added, and taken back.
type redrawer struct{ tables noise.Tables }

// draw returns a client's noise in a round, by release; zero if it adds none. With survivors
// above 0 it returns the change of that noise for so many: less a part if it is split, fresh for
// old if it is replaced.
func (n *redrawer) draw(p *protocol.Plan, src entropy.Source, survivors int) ([][]int64, error) {
	added, err := entropy.NewSeed(src, "noise-seed", p.Round)
	if err != nil {
		return nil, err
	}
	thinned, err := entropy.NewSeed(src, "thinning-seed", p.Round)
	if err != nil {
		return nil, err
	}
	based, err := entropy.NewSeed(src, "base-seed", p.Round)
	if err != nil {
		return nil, err
	}
	out := make([][]int64, len(p.Releases))
	for i, r := range p.Releases {
		out[i] = make([]int64, r.Len)
		if !r.Noise.Distributed() || survivors > 0 && !r.Noise.Reduced() {
			continue
		}
		variance := r.Noise.Share(p.Cohort)
		if r.Noise.Kind == protocol.Split { // V/N' stays if no client is lost, so it always stays
			base := r.Noise.Variance / float64(p.Cohort.Honest(p.Cohort.Clients))
			variance -= base
			stays, err := n.tables.Skellam(base)
			if err == nil && survivors == 0 {
				err = stays.Add(out[i], noise.NewBits(based.Stream(r.Name)))
			}
			if err != nil {
				return nil, err
			}
			if variance == 0 {
				continue
			}
		}
		share, err := n.tables.Skellam(variance)
		if err != nil {
			return nil, err
		}
		bits := noise.NewBits(added.Stream(r.Name))
		changes := noise.NewBits(thinned.Stream(r.Name))
		switch {
		case survivors == 0:
			err = share.Add(out[i], bits)
		case r.Noise.Kind == protocol.Split:
			err = n.thin(out[i], share, p.Cohort, survivors, bits, changes)
		default:
			err = n.replace(out[i], share, r.Noise.Variance/float64(p.Cohort.Honest(survivors)), bits, changes)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// thin takes a part of the share away: (1/w - 1/u)/(1/w - 1/n) of the w honest ones that must, the u
// that do and the n that may survive.
func (n *redrawer) thin(dst []int64, share *noise.Skellam, c protocol.Cohort, survivors int, bits, changes *noise.Bits) error {
	all, least, left := c.Honest(c.Clients), c.Honest(c.Required()), c.Honest(survivors)
	if left == all {
		err := share.Add(dst, bits)
		for j := range dst {
			dst[j] = -dst[j]
		}
		return err
	}
	t, err := n.tables.Thinning(share.Variance()/2, uint64((all-left)*least), uint64((all-least)*left))
	if err != nil {
		return err
	}
	return share.Removal(dst, bits, changes, t)
}

// replace takes the share away and adds a fresh one of another variance.
func (n *redrawer) replace(dst []int64, share *noise.Skellam, variance float64, bits, changes *noise.Bits) error {
	if err := share.Add(dst, bits); err != nil {
		return err
	}
	for j, x := range dst {
		dst[j] = -x
	}
	fresh, err := n.tables.Skellam(variance)
	if err != nil {
		return err
	}
	return fresh.Add(dst, changes)
}
