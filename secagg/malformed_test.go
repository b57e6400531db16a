package secagg_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// copyOf is a message that may be spoilt without its original.
func copyOf(m protocol.Message) protocol.Message {
	switch m := m.(type) {
	case *protocol.Advertise:
		c := *m
		keys := *m.Keys
		c.Keys = &keys
		return &c
	case *protocol.Shares:
		c := *m
		c.Shares = slices.Clone(m.Shares)
		return &c
	case *protocol.MaskedInput:
		c := *m
		c.Masked = slices.Clone(m.Masked)
		for i := range c.Masked {
			c.Masked[i] = slices.Clone(c.Masked[i])
		}
		return &c
	case *protocol.Consistency:
		c := *m
		return &c
	case *protocol.Unmask:
		c := *m
		c.Shares, c.Removed = slices.Clone(m.Shares), slices.Clone(m.Removed)
		return &c
	case *protocol.Replacement:
		c := *m
		c.Shares = slices.Clone(m.Shares)
		return &c
	}
	return m
}

// spoilt are the ways to spoil a client's message of each stage.
var spoilt = map[protocol.Stage]map[string]func(m protocol.Message){
	protocol.StageAdvertise: {
		"no keys": func(m protocol.Message) { m.(*protocol.Advertise).Keys = nil },
		"a signature too short": func(m protocol.Message) {
			m.(*protocol.Advertise).Keys.Signature = append(slices.Clone(m.(*protocol.Advertise).Keys.Signature), 0)
		},
		"a key too few or too many": func(m protocol.Message) {
			if k := m.(*protocol.Advertise).Keys; k.Change == nil {
				k.Change = new(protocol.Key)
			} else {
				k.Change = nil
			}
		},
	},
	protocol.StageShare: {
		"none":           func(m protocol.Message) { m.(*protocol.Shares).Shares = nil },
		"one too few":    func(m protocol.Message) { s := m.(*protocol.Shares); s.Shares = s.Shares[1:] },
		"one too many":   func(m protocol.Message) { s := m.(*protocol.Shares); s.Shares = append(s.Shares, s.Shares[0]) },
		"out of order":   func(m protocol.Message) { s := m.(*protocol.Shares).Shares; s[0], s[1] = s[1], s[0] },
		"for a stranger": func(m protocol.Message) { m.(*protocol.Shares).Shares[0].Peer = 77 },
		"truncated":      func(m protocol.Message) { s := &m.(*protocol.Shares).Shares[0]; s.Ciphertext = s.Ciphertext[1:] },
		"oversized":      func(m protocol.Message) { s := &m.(*protocol.Shares).Shares[0]; s.Ciphertext = make([]byte, 1<<20) },
		"wrong commitments": func(m protocol.Message) {
			s := &m.(*protocol.Shares).Shares[0]
			if s.Committed == nil {
				s.Committed = &protocol.Commitments{Signature: make([]byte, 64)}
			} else {
				s.Committed = nil
			}
		},
		"a hash too few or too many": func(m protocol.Message) {
			if s := m.(*protocol.Shares); s.ChangeHash == nil {
				s.ChangeHash = new(protocol.Hash)
			} else {
				s.ChangeHash = nil
			}
		},
	},
	protocol.StageMaskedInput: {
		"no vectors":      func(m protocol.Message) { m.(*protocol.MaskedInput).Masked = nil },
		"one too few":     func(m protocol.Message) { v := m.(*protocol.MaskedInput); v.Masked = v.Masked[:1] },
		"one too many":    func(m protocol.Message) { v := m.(*protocol.MaskedInput); v.Masked = append(v.Masked, v.Masked[0]) },
		"truncated":       func(m protocol.Message) { v := m.(*protocol.MaskedInput).Masked; v[1] = v[1][1:] },
		"oversized":       func(m protocol.Message) { v := m.(*protocol.MaskedInput).Masked; v[1] = make([]byte, 1<<20) },
		"unused bits set": func(m protocol.Message) { v := m.(*protocol.MaskedInput).Masked[1]; v[len(v)-1] |= 0x80 },
		"in the clear":    func(m protocol.Message) { m.(*protocol.MaskedInput).Vectors = make([]protocol.Integers, 2) },
	},
	protocol.StageConsistency: {
		"no signature": func(m protocol.Message) { m.(*protocol.Consistency).Signature = nil },
		"another": func(m protocol.Message) {
			c := m.(*protocol.Consistency)
			c.Signature = slices.Clone(c.Signature)
			c.Signature[0] ^= 1
		},
	},
	protocol.StageUnmask: {
		"no shares":        func(m protocol.Message) { m.(*protocol.Unmask).Shares = nil },
		"one too few":      func(m protocol.Message) { u := m.(*protocol.Unmask); u.Shares = u.Shares[1:] },
		"the last missing": func(m protocol.Message) { u := m.(*protocol.Unmask); u.Shares = u.Shares[:len(u.Shares)-1] },
		"one too many":     func(m protocol.Message) { u := m.(*protocol.Unmask); u.Shares = append(u.Shares, u.Shares[0]) },
		"out of order":     func(m protocol.Message) { s := m.(*protocol.Unmask).Shares; s[0], s[1] = s[1], s[0] },
		"no scalar": func(m protocol.Message) {
			for i := range m.(*protocol.Unmask).Shares[0].Share {
				m.(*protocol.Unmask).Shares[0].Share[i] = 0xff
			}
		},
		"a removal missing":  func(m protocol.Message) { u := m.(*protocol.Unmask); u.Removed = u.Removed[:1] },
		"a removal cut off":  func(m protocol.Message) { r := m.(*protocol.Unmask).Removed; r[1] = r[1][:len(r[1])-1] },
		"a removal goes on":  func(m protocol.Message) { r := m.(*protocol.Unmask).Removed; r[1] = append(slices.Clone(r[1]), 0) },
		"no removal":         func(m protocol.Message) { m.(*protocol.Unmask).Removed[1] = nil },
		"stray bits":         func(m protocol.Message) { r := m.(*protocol.Unmask).Removed; r[1] = stray(r[1]) },
		"noise that is none": func(m protocol.Message) { r := m.(*protocol.Unmask).Removed; r[0] = []byte{0} },
		"in the clear":       func(m protocol.Message) { m.(*protocol.Unmask).Removals = make([]protocol.Integers, 2) },
	},
	protocol.StageReplace: {
		"no shares":        func(m protocol.Message) { m.(*protocol.Replacement).Shares = nil },
		"one too few":      func(m protocol.Message) { r := m.(*protocol.Replacement); r.Shares = r.Shares[1:] },
		"the last missing": func(m protocol.Message) { r := m.(*protocol.Replacement); r.Shares = r.Shares[:len(r.Shares)-1] },
		"one too many":     func(m protocol.Message) { r := m.(*protocol.Replacement); r.Shares = append(r.Shares, r.Shares[0]) },
		"out of order":     func(m protocol.Message) { s := m.(*protocol.Replacement).Shares; s[0], s[1] = s[1], s[0] },
		"no scalar": func(m protocol.Message) {
			for i := range m.(*protocol.Replacement).Shares[0].Share {
				m.(*protocol.Replacement).Shares[0].Share[i] = 0xff
			}
		},
	},
}

// stray sets bits behind the last value.
func stray(b []byte) []byte {
	b = slices.Clone(b)
	b[len(b)-1] |= 0x80
	return b
}

// Malformed, truncated and oversized messages of clients: the sender is named,
// nothing of it counts, and the sound message that follows is taken.
func TestMalformedMessages(t *testing.T) {
	for _, c := range []struct {
		mode secagg.Mode
		kind protocol.NoiseKind
	}{{secagg.SemiHonest, protocol.Split}, {secagg.Active, protocol.Split}, {secagg.SemiHonest, protocol.TwoRound}} {
		p := plan(attacked, releases()...)
		p.Cohort = protocol.Cohort{Clients: attacked, Tolerance: 0.2, Colluders: 0.05}
		p.Releases[1].Noise = protocol.Noise{Kind: c.kind, Variance: 10}
		if c.kind == protocol.TwoRound { // beside split noise, which must not change by half of a message
			p.Releases[0].Noise = protocol.Noise{Kind: protocol.Split, Variance: 10}
		}
		f := newFederation(t, p, secagg.Params{Mode: c.mode})
		want := f.sum(func(int) bool { return true })
		for i := range f.removals {
			f.removals[i] = []protocol.Integers{{Value: []int64{3, int64(i), 0, 0, 0, 0, 0, 0, 1}}, {Value: []int64{int64(i), -5, 0}}}
			for k := range f.removals[i] {
				for j, x := range f.removals[i][k].Value {
					if p.Releases[k].Noise.Kind != protocol.NoNoise {
						want[k][j] += x
					}
				}
			}
		}
		for _, s := range f.stages() {
			for i := range f.clients {
				m, err := f.answer(s, i)
				if err != nil {
					t.Fatal(err)
				}
				for name, spoil := range spoilt[s] {
					if i > 0 {
						break
					}
					bad := copyOf(m)
					spoil(bad)
					var fault *secagg.Fault
					err = f.aggregator.Receive(0, bad.(protocol.StageMessage))
					if !errors.As(err, &fault) || fault.Culprit != protocol.ClientParty(0) || fault.Stage != s {
						t.Errorf("%s, noise %s, %s, %s: %v, want client 0 named", c.mode, c.kind, s, name, err)
					}
				}
				if err = f.aggregator.Receive(protocol.ClientID(i), m.(protocol.StageMessage)); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.aggregator.Close(s); err != nil {
				t.Fatal(err)
			}
			f.next(s)
		}
		got, err := f.aggregator.Sum(serial{})
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%s, noise %s: error %v, sum (-want +got):\n%s", c.mode, c.kind, err, d)
		}
	}
}

// Malformed deliveries, and inputs that are the client's own mistake.
func TestMalformedDeliveries(t *testing.T) {
	for name, spoil := range map[string]func(*protocol.Delivery){
		"no shares":         func(m *protocol.Delivery) { m.Shares = nil },
		"one too many":      func(m *protocol.Delivery) { m.Shares = append(m.Shares, m.Shares[0]) },
		"out of order":      func(m *protocol.Delivery) { m.Shares[0], m.Shares[1] = m.Shares[1], m.Shares[0] },
		"truncated":         func(m *protocol.Delivery) { m.Shares[0].Ciphertext = m.Shares[0].Ciphertext[:10] },
		"no commitments":    func(m *protocol.Delivery) { m.Shares[0].Committed = nil },
		"a larger count":    func(m *protocol.Delivery) { m.Clients++ },
		"a shorter bitmap":  func(m *protocol.Delivery) { m.Arrived = m.Arrived[:1] },
		"beyond the roster": func(m *protocol.Delivery) { m.Arrived.Set(12); m.Clients++ },
		"not this client":   func(m *protocol.Delivery) { m.Arrived[0] &^= 1; m.Clients-- },
		"too few":           func(m *protocol.Delivery) { m.Arrived[0], m.Clients = 1, m.Arrived[1:].Count()+1 },
	} {
		f := standing(t, secagg.Active, protocol.StageShare)
		good := f.deliveries[0]
		bad := *good
		bad.Arrived, bad.Shares = slices.Clone(good.Arrived), slices.Clone(good.Shares)
		spoil(&bad)
		f.deliveries[0] = &bad
		if m, err := f.answer(protocol.StageMaskedInput, 0); err == nil {
			t.Errorf("%s: answered with %+v", name, m)
		}
		f.deliveries[0] = good
		if _, err := f.answer(protocol.StageMaskedInput, 0); !errors.Is(err, secagg.ErrOrder) {
			t.Errorf("%s: after a malformed delivery: %v, want no answer at all", name, err)
		}
	}
	for name, inputs := range map[string][]protocol.Integers{
		"none":         nil,
		"one too few":  {{Value: make([]int64, 9)}},
		"too short":    {{Value: make([]int64, 8)}, {Value: make([]int64, 3)}},
		"off the ring": {{Value: []int64{1 << 28, 0, 0, 0, 0, 0, 0, 0, 0}}, {Value: make([]int64, 3)}},
		"bad index":    {{Index: []uint32{9}, Value: []int64{1}}, {Value: make([]int64, 3)}},
		"bad block":    {{Index: []uint32{3}, Block: 3, Narrow: []int32{1, 1, 1}}, {Value: make([]int64, 3)}},
	} {
		f := standing(t, secagg.SemiHonest, protocol.StageShare)
		f.inputs[0] = inputs
		if m, err := f.answer(protocol.StageMaskedInput, 0); err == nil {
			t.Errorf("inputs, %s: %+v", name, m)
		}
	}
}

// However its integers come, a client masks the same vector.
func TestFormsAreMaskedAlike(t *testing.T) {
	first, second := []int64{0, 0, 0, 5, 0, -7, 1 << 27, 0, 0}, []int64{0, -4, 3}
	var want protocol.Message
	for _, inputs := range [][]protocol.Integers{
		{{Value: first}, {Value: second}},
		{sparse(first), sparse(second)},
		{{Index: []uint32{1, 2}, Block: 3, Value: []int64{5, 0, -7, 1 << 27, 0, 0}}, {Index: []uint32{0}, Block: 3, Value: second}},
		{inBlocks(first, 3), {Index: []uint32{1, 2}, Block: 1, Narrow: []int32{-4, 3}}},
	} {
		f := standing(t, secagg.SemiHonest, protocol.StageShare)
		f.inputs[0] = inputs
		m, err := f.answer(protocol.StageMaskedInput, 0)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = m
		}
		if d := cmp.Diff(want, m); d != "" {
			t.Errorf("of %+v (-want +got):\n%s", inputs, d)
		}
	}
}
