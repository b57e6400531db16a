package encoder

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/dataset"
)

// An encoder that moves to another process between any two parts continues as if it had stayed, to
// the bit.
func TestRestoreGoesOn(t *testing.T) {
	o := newQuadratic(12, 3)
	for _, optimiser := range []Optimiser{Adam, SGD} {
		for _, c := range variants() {
			c.settings.Optimiser, c.settings.Steps = optimiser, 6
			whole, _ := c.build(t, 12, 3)
			var states [][]byte
			next := func(e *Encoder, at int) {
				if err := e.Fit(o, uint64(at/3), Slice{at % 3, 3}, serial); err != nil {
					t.Fatal(err)
				}
			}
			for at := range 6 {
				states = append(states, whole.Save())
				next(whole, at)
			}
			states = append(states, whole.Save())
			for at, state := range states {
				e, _ := c.build(t, 12, 3)
				if err := e.Restore(state); err != nil {
					t.Fatal(err)
				}
				for ; at < 6; at++ {
					next(e, at)
				}
				if !bytes.Equal(e.Save(), states[6]) {
					t.Errorf("%s, %s: restored, it ends elsewhere", c.name, optimiser)
				}
			}
		}
	}
}

// small is an encoder of two ids of rank 1 by Adam after a step.
func small(t testing.TB) *Encoder {
	t.Helper()
	s := plain()
	s.Optimiser = Adam
	e, err := New(nil, 2, 1, s, 1)
	if err != nil {
		t.Fatal(err)
	}
	fit(t, e, still{}, 1)
	return e
}

// The bytes of a state, put together here as the form says.
func TestStateBytes(t *testing.T) {
	e := small(t)
	want := append([]byte("fedsim/fedssp/encoder/v1\n"), e.fingerprint[:]...)
	want = append(want, 0, 0, 0, 0, 0, 0, 0, 9)
	numbers := []float64{0.5, -3, 1e-3, 2, 0, 0.25}
	for _, x := range numbers {
		want = binary.LittleEndian.AppendUint64(want, math.Float64bits(x))
	}
	if err := e.Restore(want); err != nil {
		t.Fatal(err)
	}
	if got := slices.Concat(e.theta, e.opt.mean, e.opt.sq); !slices.Equal(got, numbers) || e.opt.steps != 9 {
		t.Errorf("restored as %v after %d steps", got, e.opt.steps)
	}
	if got := e.Save(); !bytes.Equal(got, want) {
		t.Errorf("saved as\n%x, want\n%x", got, want)
	}
}

// A state that Save cannot write is refused, and leaves the encoder as it was.
func TestRestoreRefuses(t *testing.T) {
	e := small(t)
	good := e.Save()
	header := len(stateDomain) + 32
	number := func(i int, x float64) func([]byte) []byte {
		return func(b []byte) []byte {
			binary.LittleEndian.PutUint64(b[header+8+8*i:], math.Float64bits(x))
			return b
		}
	}
	for _, c := range []struct {
		want   string
		change func([]byte) []byte
	}{
		{"a state of 0 bytes; of this encoder it has 113", func([]byte) []byte { return nil }},
		{"a state of 112 bytes", func(b []byte) []byte { return b[:len(b)-1] }},
		{"a state of 114 bytes", func(b []byte) []byte { return append(b, 0) }},
		{`begins with "fedsim/fedssp/encoder/v2\n"`, func(b []byte) []byte { b[len(stateDomain)-2]++; return b }},
		{"other features, settings or another seed", func(b []byte) []byte { b[header-1]++; return b }},
		{"has taken 9007199254740993 steps", func(b []byte) []byte {
			binary.BigEndian.PutUint64(b[header:], 1<<53+1)
			return b
		}},
		{"number 1 of the state is NaN", number(1, math.NaN())},
		{"number 2 of the state is -Inf", number(2, math.Inf(-1))},
		{"number 5 of the state is +Inf", number(5, math.Inf(1))},
		{"number 4 of the state is -1", number(4, -1)},
	} {
		err := e.Restore(c.change(slices.Clone(good)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want an error with %q", err, c.want)
		}
		if !bytes.Equal(e.Save(), good) {
			t.Errorf("%q: the encoder has changed", c.want)
		}
	}
	for i := range 4 { // θ and means may be negative
		if err := e.Restore(number(i, -1)(slices.Clone(good))); err != nil {
			t.Errorf("number %d is -1: %v", i, err)
		}
	}
	sgd, err := New(nil, 2, 1, plain(), 1)
	if err != nil {
		t.Fatal(err)
	}
	state := sgd.Save()
	state[header+7] = 1
	if err := sgd.Restore(state); err == nil || !strings.Contains(err.Error(), "has taken 1 steps; 0 is the most") {
		t.Errorf("SGD with steps: %v", err)
	}
}

// A state is refused if its numbers would mean something else, even if they would fit. Settings
// that matter only for later steps may differ.
func TestStateOfAnother(t *testing.T) {
	s := plain()
	s.Dense, s.Dim = true, 3
	base := fingerprint(films(4), 3, s, 1)
	changed := map[string]func(*dataset.ItemFeatures, *Settings) (rank int, seed uint64){
		"digest":   func(f *dataset.ItemFeatures, _ *Settings) (int, uint64) { f.Digest = "others"; return 3, 1 },
		"items":    func(f *dataset.ItemFeatures, _ *Settings) (int, uint64) { f.Items = 5; return 3, 1 },
		"category": func(f *dataset.ItemFeatures, _ *Settings) (int, uint64) { f.Categories = f.Categories[:2]; return 3, 1 },
		"name":     func(f *dataset.ItemFeatures, _ *Settings) (int, uint64) { f.Categories[0].Name = "moods"; return 3, 1 },
		"values":   func(f *dataset.ItemFeatures, _ *Settings) (int, uint64) { f.Categories[2].Values = nil; return 3, 1 },
		"rank":     func(*dataset.ItemFeatures, *Settings) (int, uint64) { return 4, 1 },
		"seed":     func(*dataset.ItemFeatures, *Settings) (int, uint64) { return 3, 2 },
		"dim":      func(_ *dataset.ItemFeatures, s *Settings) (int, uint64) { s.Dim = 2; return 3, 1 },
		"dense":    func(_ *dataset.ItemFeatures, s *Settings) (int, uint64) { s.Dense = false; return 3, 1 },
		"ids":      func(_ *dataset.ItemFeatures, s *Settings) (int, uint64) { s.IDs = true; return 3, 1 },
		"norm":     func(_ *dataset.ItemFeatures, s *Settings) (int, uint64) { s.StartNorm = 2; return 3, 1 },
		"adam":     func(_ *dataset.ItemFeatures, s *Settings) (int, uint64) { s.Optimiser = Adam; return 3, 1 },
	}
	for what, change := range changed {
		f, other := films(4), s
		rank, seed := change(f, &other)
		if fingerprint(f, rank, other, seed) == base {
			t.Errorf("another %s has the same fingerprint", what)
		}
	}
	faster := s
	faster.Rate, faster.Steps, faster.Batch, faster.Ridge = 1, 9, 2, 1
	if fingerprint(films(4), 3, faster, 1) != base {
		t.Error("another rate has another fingerprint")
	}
	// One value for each item takes as many numbers as ids do.
	f := &dataset.ItemFeatures{Items: 4, Categories: []dataset.Category{{Name: "x", Values: make([]string, 4),
		Start: []int32{0, 1, 2, 3, 4}, Value: []int32{3, 2, 1, 0}, Weight: []float64{1, 1, 1, 1}}}}
	of, err := New(f, 4, 3, plain(), 1)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := New(nil, 4, 3, plain(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := ids.Restore(of.Save()); err == nil || !strings.Contains(err.Error(), "other features") {
		t.Errorf("a state of features is taken for one of ids: %v", err)
	}
}

// Any state that Restore cannot read gives an error and changes nothing. A state that it reads is
// saved again unchanged, and the fit continues or says that it diverged.
func FuzzRestore(f *testing.F) {
	good := small(f).Save()
	f.Add(good)
	f.Add(good[:len(good)-8])
	f.Add([]byte(stateDomain))
	f.Fuzz(func(t *testing.T, state []byte) {
		e := small(t)
		want := state
		if err := e.Restore(state); err != nil {
			want = good
		}
		if got := e.Save(); !bytes.Equal(got, want) {
			t.Errorf("%x is saved as %x, want %x", state, got, want)
		}
		if err := e.Fit(still{}, 2, Slice{0, 1}, serial); err == nil && e.Restore(e.Save()) != nil {
			t.Errorf("after a fit: %v", e.Restore(e.Save()))
		}
	})
}
