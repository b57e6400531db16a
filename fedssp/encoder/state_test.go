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

// Taken to another process between any two parts, an encoder goes on as if it had
// stayed, to the bit.
func TestRestoreGoesOn(t *testing.T) {
	o := newQuadratic(12, 3)
	for _, optimiser := range []Optimiser{Adam, SGD} {
		for _, c := range variants() {
			c.settings.Optimiser, c.settings.Steps = optimiser, 6
			whole, _ := c.build(t, 12, 3)
			var states [][]byte
			next := func(e *Encoder, at int) {
				if err := e.FitPart(o, uint64(at/3), Part{at % 3, 3}, serial); err != nil {
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

// Whatever Save could not have written is refused, and leaves the encoder as it was.
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

// A state is refused where its numbers would mean something else, though they would
// fit; what decides only how the fit goes on may differ.
func TestStateOfAnother(t *testing.T) {
	s := plain()
	s.Dense, s.Dim = true, 3
	state := func(f *dataset.ItemFeatures, s Settings, seed uint64) (*Encoder, []byte) {
		e, err := New(f, 4, 3, s, seed)
		if err != nil {
			t.Fatal(err)
		}
		return e, e.Save()
	}
	e, _ := state(films(4), s, 1)
	digest, names, values := *films(4), *films(4), *films(4)
	digest.Digest = "others"
	names.Categories[0].Name = "moods"
	// As many values in all, dealt differently.
	values.Categories[0].Values = append(values.Categories[0].Values, "noir")
	values.Categories[2].Values = nil
	norm, adam := s, s
	norm.StartNorm, adam.Optimiser = 2, Adam
	for what, b := range map[string]func() (*Encoder, []byte){
		"digest": func() (*Encoder, []byte) { return state(&digest, s, 1) },
		"names":  func() (*Encoder, []byte) { return state(&names, s, 1) },
		"values": func() (*Encoder, []byte) { return state(&values, s, 1) },
		"norm":   func() (*Encoder, []byte) { return state(films(4), norm, 1) },
		"seed":   func() (*Encoder, []byte) { return state(films(4), s, 2) },
		"adam":   func() (*Encoder, []byte) { return state(films(4), adam, 1) },
	} {
		if _, other := b(); e.Restore(other) == nil {
			t.Errorf("a state of another %s is taken up", what)
		}
	}
	faster := s
	faster.Rate, faster.Steps, faster.Batch, faster.Ridge, faster.WarmStart, faster.Decay = 1, 9, 2, 1, false, Cosine
	if _, other := state(films(4), faster, 1); e.Restore(other) != nil {
		t.Errorf("a state of another rate is refused: %v", e.Restore(other))
	}
	// Dense with dim 2 and hidden width 8 against ids in place of a category: same size.
	linear := plain()
	l, _ := state(nil, linear, 1)
	f := &dataset.ItemFeatures{Items: 4, Categories: []dataset.Category{{Name: "x", Values: make([]string, 4),
		Start: []int32{0, 1, 2, 3, 4}, Value: []int32{3, 2, 1, 0}, Weight: []float64{1, 1, 1, 1}}}}
	if _, other := state(f, linear, 1); l.Restore(other) == nil {
		t.Error("a state of features is taken for one of ids")
	}
}

// No state makes Restore fail otherwise than with an error; what it takes up it saves as
// it was, and the fit goes on or says that it diverged; what it refuses changes nothing.
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
		if err := e.Fit(still{}, 2, serial); err == nil && e.Restore(e.Save()) != nil {
			t.Errorf("after a fit: %v", e.Restore(e.Save()))
		}
	})
}
