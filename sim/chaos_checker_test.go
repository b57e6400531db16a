package sim_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/protocol"
)

// recorder is a checker that keeps what it is told.
type recorder struct{ log []Observation }

func (*recorder) Rule() string { return "" }
func (r *recorder) Observe(o Observation) error {
	r.log = append(r.log, o)
	return nil
}

// fires returns what the checker of a rule says of a log.
func fires(s *Schedule, rule string, log []Observation) error {
	for _, c := range Checkers(s) {
		if c.Rule() != rule {
			continue
		}
		for _, o := range log {
			if err := c.Observe(o); err != nil {
				return err
			}
		}
		return nil
	}
	return errors.New("there is no such rule")
}

// edit returns the log with f applied to each observation: what f returns
// takes its place.
func edit(f func(Observation) []Observation) func([]Observation) []Observation {
	return func(log []Observation) []Observation {
		var out []Observation
		for _, o := range log {
			out = append(out, f(o)...)
		}
		return out
	}
}

// after adds an observation behind the first that a condition holds for.
func after(where func(Observation) bool, what func(Observation) []Observation) func([]Observation) []Observation {
	return func(log []Observation) []Observation {
		i := slices.IndexFunc(log, where)
		return slices.Insert(slices.Clone(log), i+1, what(log[i])...)
	}
}

func add(what ...Observation) func(Observation) []Observation {
	return func(Observation) []Observation { return what }
}

// left returns whether a message of a type left; of clients', one of client 3.
func left[M protocol.Message](o Observation) bool {
	l, ok := o.(Left)
	_, is := l.Envelope.Message.(M)
	return ok && is && (l.Envelope.From.Role != protocol.Client || l.Envelope.From.Client == 3)
}

// heard reports whether a party heard a message of a type.
func heard[M protocol.Message](o Observation) bool {
	h, ok := o.(Heard)
	_, is := h.Envelope.Message.(M)
	return ok && is
}

// unheard makes the aggregator have ignored messages of a type from the clients
// in front of one.
func unheard[M protocol.Message](below protocol.ClientID) func([]Observation) []Observation {
	return edit(func(o Observation) []Observation {
		if h, ok := o.(Heard); ok && heard[M](o) && h.Envelope.From.Client < below {
			h.Ignored = true
			return []Observation{h}
		}
		return []Observation{o}
	})
}

// resent is a message of client 3 sent once more, with changes.
func resent[M any, P interface {
	*M
	protocol.Message
}](change func(P)) func(Observation) []Observation {
	return func(o Observation) []Observation {
		e := o.(Left).Envelope
		m := *e.Message.(P)
		change(&m)
		e.Message = P(&m)
		return []Observation{Left{e}}
	}
}

// durable returns whether a charge of client 3 became durable.
func durable(o Observation) bool {
	d, ok := o.(Durable)
	_, is := d.Record.(protocol.Charged)
	return ok && is && d.Client == 3
}

func durableWith(change func(*Durable, *protocol.Charged)) func([]Observation) []Observation {
	return edit(func(o Observation) []Observation {
		if !durable(o) {
			return []Observation{o}
		}
		d := o.(Durable)
		record := d.Record.(protocol.Charged)
		change(&d, &record)
		d.Record = record
		return []Observation{d}
	})
}

func thinnedWith(change func(*Thinned)) func([]Observation) []Observation {
	return edit(func(o Observation) []Observation {
		if m, ok := o.(Thinned); ok && m.Client == 3 {
			change(&m)
			return []Observation{m}
		}
		return []Observation{o}
	})
}

// resultWith changes the integers and counts that are released.
func resultWith(change func(*protocol.Result)) func([]Observation) []Observation {
	return edit(func(o Observation) []Observation {
		if !left[*protocol.Result](o) {
			return []Observation{o}
		}
		return resent[protocol.Result](change)(o)
	})
}

// exposed makes all clients that revealed shares of a sum in the first round reveal as many for
// a set that they were shown. The set contains client 0, which was lost.
func exposed[M protocol.Message](lie func(all protocol.Bitmap) protocol.Message) func([]Observation) []Observation {
	all := protocol.NewBitmap(8)
	for i := range 8 {
		all.Set(i)
	}
	return edit(func(o Observation) []Observation {
		l, ok := o.(Left)
		_, is := l.Envelope.Message.(M)
		if sum, _, _ := revealed(l.Envelope.Message); !ok || !is || sum.round != 1 {
			return []Observation{o}
		}
		return []Observation{o, Heard{Envelope: protocol.Envelope{To: l.Envelope.From, Message: lie(all)}}, o}
	})
}

// otherKind changes a share in a list.
func otherKind(shares []protocol.RevealedShare) []protocol.RevealedShare {
	shares = slices.Clone(shares)
	shares[0].Share[5] ^= 1
	return shares
}

// record runs a schedule that breaks no rule.
func record(t *testing.T, s *Schedule) *recorder {
	t.Helper()
	w, err := newWorld(s, new(dp.Cache), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := new(recorder)
	w.checkers = append(w.checkers, r)
	w.run()
	for _, c := range Checkers(s) {
		if err := fires(s, c.Rule(), r.log); err != nil {
			t.Fatalf("nothing is planted yet, and still: %s: %v", c.Rule(), err)
		}
	}
	return r
}

// plant breaks a rule in a record.
type plant struct {
	rule    Checker
	planted string
	log     func([]Observation) []Observation
}

func checkFires(t *testing.T, s *Schedule, r *recorder, plants []plant) {
	t.Helper()
	for _, c := range plants {
		if err := fires(s, c.rule.Rule(), c.log(r.log)); err == nil {
			t.Errorf("%s: the checker of %q does not see it", c.planted, c.rule.Rule())
		} else {
			t.Logf("%s: %v", c.planted, err)
		}
	}
}

// Each rule is broken in a record of a schedule that kept it, and its checker says
// so. Of the record as it was, no checker has anything to say.
func TestCheckersFire(t *testing.T) {
	s := calm(t)
	r := record(t, s)
	planned := func(o Observation) bool { p, ok := o.(Planned); return ok && p.Healed }
	finished := func(change func(*ModelReceived) []Observation) func([]Observation) []Observation {
		return edit(func(o Observation) []Observation {
			if f, ok := o.(ModelReceived); ok && f.Client == 3 {
				return change(&f)
			}
			return []Observation{o}
		})
	}
	announced := func(change func(Left) []Observation) func([]Observation) []Observation {
		return edit(func(o Observation) []Observation {
			l, ok := o.(Left)
			if m, is := l.Envelope.Message.(*protocol.Announce); ok && is && m.Plan.Round == 1 && l.Envelope.To.Client == 3 {
				return change(l)
			}
			return []Observation{o}
		})
	}
	checkFires(t, s, r, []plant{
		{&exactSum{}, "one integer is off by one", resultWith(func(m *protocol.Result) {
			m.Integers = [][]int64{slices.Clone(m.Integers[0]), m.Integers[1]}
			m.Integers[0][2]++
		})},
		{&exactSum{}, "somebody's input is in the sum without having been taken", unheard[*protocol.MaskedInput](2)},
		{&exactSum{}, "a removal is in the sum without having been taken", unheard[*protocol.Unmask](2)},
		{&exactSum{}, "the same with the counts to match", func(log []Observation) []Observation {
			return resultWith(func(m *protocol.Result) { m.Answered-- })(unheard[*protocol.Unmask](2)(log))
		}},
		{&exactSum{}, "a vector is missing", resultWith(func(m *protocol.Result) { m.Integers = m.Integers[:1] })},
		{&exactSum{}, "something else is masked than was contributed and noised", edit(func(o Observation) []Observation {
			if m, ok := o.(Masked); ok && m.Client == 3 {
				m.Inputs = [][]int64{slices.Clone(m.Inputs[0]), m.Inputs[1]}
				m.Inputs[0][0]++
				return []Observation{m}
			}
			return []Observation{o}
		})},
		{&exactSum{}, "noise thinned for a survivor too many", thinnedWith(func(m *Thinned) { m.Survivors++ })},
		{&exactSum{}, "another removal than is due", thinnedWith(func(m *Thinned) { m.Removals = [][]int64{{1, 2, 3}, m.Removals[1]} })},
		{&exactSum{}, "the server takes in something else", edit(func(o Observation) []Observation {
			if a, ok := o.(Absorbed); ok && a.Round == 2 {
				a.Sums.Values = [][]float64{a.Sums.Values[0], slices.Clone(a.Sums.Values[1])}
				a.Sums.Values[1][3]++
				return []Observation{a}
			}
			return []Observation{o}
		})},
		{&exactSum{}, "the server takes in a sum before there is one", edit(func(o Observation) []Observation {
			if left[*protocol.Result](o) {
				return nil
			}
			return []Observation{o}
		})},
		{&threshold{}, "shares revealed for 5 survivors of 6 required", unheard[*protocol.MaskedInput](3)},
		{&threshold{}, "a sum that 5 answered for of 6 required", unheard[*protocol.Unmask](3)},
		{&oneKind{}, "both kinds in one answer", edit(func(o Observation) []Observation {
			if left[*protocol.Unmask](o) {
				return resent[protocol.Unmask](func(m *protocol.Unmask) {
					other := m.Shares[2]
					other.Share[5] ^= 1
					m.Shares = append(slices.Clone(m.Shares), other)
				})(o)
			}
			return []Observation{o}
		})},
		{&oneKind{}, "the other kind in a second answer", after(left[*protocol.Unmask], resent[protocol.Unmask](func(m *protocol.Unmask) { m.Shares = otherKind(m.Shares) }))},
		{&oneSecret{}, "clients were shown two sets of survivors", exposed[*protocol.Unmask](func(all protocol.Bitmap) protocol.Message {
			return &protocol.Survivors{Round: 1, Count: 8, U1: all}
		})},
		{&oneSecret{}, "shares revealed before survivors were shown", edit(func(o Observation) []Observation {
			if heard[*protocol.Survivors](o) {
				return nil
			}
			return []Observation{o}
		})},
		{&oneAnswer{}, "a second masked input", after(left[*protocol.MaskedInput], resent[protocol.MaskedInput](func(m *protocol.MaskedInput) {
			m.Masked = [][]byte{slices.Clone(m.Masked[0]), m.Masked[1]}
			m.Masked[0][0] ^= 1
		}))},
		{&oneAnswer{}, "a second removal", after(left[*protocol.Unmask], resent[protocol.Unmask](func(m *protocol.Unmask) { m.Removed = [][]byte{{0}, nil} }))},
		{&freshKeys{}, "a mask key for another round", after(left[*protocol.Advertise], resent[protocol.Advertise](func(m *protocol.Advertise) { m.Round++ }))},
		{&freshKeys{}, "a mask key for the round again", after(left[*protocol.Advertise], resent[protocol.Advertise](func(m *protocol.Advertise) { m.Ahead = true }))},
		{&freshKeys{}, "somebody else's mask key", after(left[*protocol.Advertise], func(o Observation) []Observation {
			e := o.(Left).Envelope
			e.From.Client = 4
			return []Observation{Left{e}}
		})},
		{&nobodyForgotten{}, "a client without a plan and without an invitation", announced(func(Left) []Observation { return nil })},
		{&nobodyForgotten{}, "an invitation to another round than the next", announced(func(l Left) []Observation {
			l.Envelope.Message = &protocol.Invite{Setup: protocol.Setup{Round: 3}}
			return []Observation{l}
		})},
		{&charged{}, "no record", edit(func(o Observation) []Observation {
			if durable(o) {
				return nil
			}
			return []Observation{o}
		})},
		{&charged{}, "a record that comes too late", func(log []Observation) []Observation {
			i := slices.IndexFunc(log, durable)
			return append(slices.Delete(slices.Clone(log), i, i+1), log[i])
		}},
		{&charged{}, "a charge of less than the plan costs", durableWith(func(_ *Durable, c *protocol.Charged) { c.Events = c.Events[:1] })},
		{&charged{}, "a budget overspent", durableWith(func(d *Durable, _ *protocol.Charged) { d.Budget = d.Spent * 0.999 })},
		{&charged{}, "a ledger that falls", durableWith(func(d *Durable, c *protocol.Charged) { d.Spent /= float64(c.Round * c.Round * 100) })},
		{&charged{}, "a ledger that forgot over a restart", after(durable, add(Restarted{Client: 3, Last: 1}))},
		{&forward{}, "a second charge of a round", after(durable, func(o Observation) []Observation { return []Observation{o} })},
		{&forward{}, "a masked input of a round that was not charged", func(log []Observation) []Observation {
			i := slices.IndexFunc(log, left[*protocol.MaskedInput])
			return append([]Observation{log[i]}, log...)
		}},
		{&forward{}, "a round taken up again after a restart", after(durable, add(Restarted{Client: 3, Last: 1}))},
		{&forward{}, "a restart from the beginning", after(durable, add(Restarted{Client: 3}))},
		{&forward{}, "a message of the round before", func(log []Observation) []Observation {
			return append(slices.Clone(log), log[slices.IndexFunc(log, left[*protocol.Unmask])])
		}},
		{&oneModel{}, "another model", finished(func(f *ModelReceived) []Observation {
			f.Model = []byte("another")
			return []Observation{*f}
		})},
		{&oneModel{}, "no model", finished(func(*ModelReceived) []Observation { return nil })},
		{&progress{}, "an abort after healing", after(planned, add(Left{protocol.Envelope{
			Message: &protocol.Abort{Round: 2, Reason: &protocol.TooFew{Round: 2}}}}))},
		{honest{}, "a secret restored wrongly", func(log []Observation) []Observation {
			return append([]Observation{Left{protocol.Envelope{Message: &protocol.Abort{Round: 1, Reason: &protocol.Unrecoverable{Round: 1, Left: 3, Required: 3}}}}}, log...)
		}},
		{honest{}, "somebody excluded", after(planned, add(Blamed{protocol.Event{Kind: protocol.ClientExcluded, Err: errors.New("lies")}}))},
		{&progress{}, "a computation that failed", after(planned, add(Failed{protocol.Event{Err: errors.New("out of memory")}}))},
		{&progress{}, "an end without a sum", edit(func(o Observation) []Observation {
			if _, ok := o.(Absorbed); ok {
				return nil
			}
			return []Observation{o}
		})},
		{&progress{}, "a halt", edit(func(o Observation) []Observation {
			if _, ok := o.(Ended); ok {
				return []Observation{Ended{}}
			}
			return []Observation{o}
		})},
	})
	// A secret with too few shares is the fault of no client.
	few := Left{protocol.Envelope{Message: &protocol.Abort{Round: 1, Reason: &protocol.Unrecoverable{Round: 1, Left: 2, Required: 3}}}}
	if err := fires(s, honest{}.Rule(), append([]Observation{few}, r.log...)); err != nil {
		t.Errorf("a loss is taken for a lie: %v", err)
	}
	// An invitation to the next round is as good as an announcement.
	if err := fires(s, (&nobodyForgotten{}).Rule(), announced(func(l Left) []Observation {
		l.Envelope.Message = &protocol.Invite{Setup: protocol.Setup{Round: 2}}
		return []Observation{l}
	})(r.log)); err != nil {
		t.Errorf("an invited client is taken for a forgotten one: %v", err)
	}
	// An answer that is sent once more as it was breaks nothing.
	if err := fires(s, (&oneAnswer{}).Rule(), after(left[*protocol.Unmask], resent[protocol.Unmask](func(*protocol.Unmask) {}))(r.log)); err != nil {
		t.Errorf("a resend is taken for a second answer: %v", err)
	}
}

// A further stage, and a second sum, can break rules too. In the record client 1 has its seed
// revealed for the first sum and its key for the second, and no checker minds.
func TestCheckersFireOnReplacedNoise(t *testing.T) {
	s := calmReplacing(t)
	r := record(t, s)
	kinds := make(map[holding]bool)
	for _, o := range r.log {
		if l, ok := o.(Left); ok && l.Envelope.From == protocol.ClientParty(3) {
			sum, shares, _ := revealed(l.Envelope.Message)
			for _, share := range shares {
				kinds[holding{sum, 3, share.Of}] = true
			}
		}
	}
	if !kinds[holding{summing{1, protocol.StageUnmask}, 3, 1}] || !kinds[holding{summing{1, protocol.StageReplace}, 3, 1}] {
		t.Fatal("client 3 does not reveal shares of client 1 for both sums")
	}
	checkFires(t, s, r, []plant{
		{&exactSum{}, "a change is in the sum without having been taken", unheard[*protocol.Unmask](3)},
		{&exactSum{}, "the same with the counts to match", func(log []Observation) []Observation {
			return resultWith(func(m *protocol.Result) { m.Answered-- })(unheard[*protocol.Unmask](3)(log))
		}},
		{&exactSum{}, "another change than is due", thinnedWith(func(m *Thinned) { m.Removals = [][]int64{{1, 2, 3}, m.Removals[1]} })},
		{&threshold{}, "shares revealed for 5 that replaced noise of 6 required", unheard[*protocol.Unmask](3)},
		{&threshold{}, "a sum whose replacements 5 answered for of 6 required", unheard[*protocol.Replacement](3)},
		{&oneKind{}, "both kinds in one answer", edit(func(o Observation) []Observation {
			if left[*protocol.Replacement](o) {
				return resent[protocol.Replacement](func(m *protocol.Replacement) { m.Shares = append(slices.Clone(m.Shares), otherKind(m.Shares)[0]) })(o)
			}
			return []Observation{o}
		})},
		{&oneKind{}, "the other kind in a second answer", after(left[*protocol.Replacement],
			resent[protocol.Replacement](func(m *protocol.Replacement) { m.Shares = otherKind(m.Shares) }))},
		{&oneSecret{}, "clients were shown two sets that replaced noise", exposed[*protocol.Replacement](func(all protocol.Bitmap) protocol.Message {
			return &protocol.Answered{Round: 1, Count: 8, U2: all}
		})},
		{&oneSecret{}, "shares revealed before it was shown who replaced noise", edit(func(o Observation) []Observation {
			if heard[*protocol.Answered](o) {
				return nil
			}
			return []Observation{o}
		})},
		{&oneAnswer{}, "a second answer to replace", after(left[*protocol.Replacement], resent[protocol.Replacement](func(m *protocol.Replacement) { m.Shares = m.Shares[1:] }))},
	})
}

// Where clients are shown parts of the roster, what a client's bits stand for follows from its own part.
func TestRevealedOfParts(t *testing.T) {
	const dealer = 100
	s := &Schedule{Cohort: protocol.Cohort{Clients: 520, Tolerance: 0.1, Colluders: 0.02}, Rounds: 1}
	need, err := s.threshold(510)
	if err != nil {
		t.Fatal(err)
	}
	bit := func(i int) protocol.Bitmap {
		b := protocol.NewBitmap(2)
		b.Set(i)
		return b
	}
	// answer returns the answer of a holder. The holder knows the dealer and another client, by
	// turns before and after the dealer, and is shown that one of the two survived.
	answer := func(i int, survived bool) []Observation {
		holder, a := protocol.ClientParty(protocol.ClientID(200+i)), protocol.Party{Role: protocol.Aggregator}
		members, place := []protocol.Member{{Client: dealer}, {Client: holder.Client}}, 0
		if i%2 == 1 {
			members, place = []protocol.Member{{Client: 50}, {Client: dealer}}, 1
		}
		if !survived {
			place = 1 - place
		}
		return []Observation{
			Left{protocol.Envelope{From: a, To: holder, Message: &protocol.Roster{Round: 1, Clients: 510, Members: members, Ring: new(protocol.Ring)}}},
			Heard{Envelope: protocol.Envelope{From: a, To: holder, Message: &protocol.Survivors{Round: 1, Count: 500, U1: bit(place), Digest: new(protocol.Hash)}}},
			Left{protocol.Envelope{From: holder, To: a, Message: &protocol.Unmask{Round: 1, Shares: []protocol.RevealedShare{{Of: dealer}}}}},
		}
	}
	reveal := func(seeds, keys int) error {
		var shown, answered []Observation
		for i := range seeds + keys {
			o := answer(i, i < seeds)
			shown, answered = append(shown, o[:2]...), append(answered, o[2])
		}
		return fires(s, (&oneSecret{}).Rule(), append(shown, answered...))
	}
	if err := reveal(need, need-1); err != nil {
		t.Errorf("%d shares of one secret and one less of the other: %v", need, err)
	}
	if err := reveal(need, need); err == nil {
		t.Errorf("%d shares of either secret are not seen", need)
	}
}
