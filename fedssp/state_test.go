package fedssp

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/serving"
	"github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/lab/ssp/steps"
)

// These strings begin models and states, and this many columns a design has, as the forms say.
const (
	ofModels    = "fedsim/fedssp/model/v2\n"
	ofStates    = "fedsim/fedssp/state/v4\n"
	mostColumns = 500
)

// A strategy that is saved and restored after any round continues as if nothing had happened: plans
// and model are the same to the bit.
func TestRestoreContinuesExactly(t *testing.T) {
	effort.NotShort(t, "whole runs")
	for _, name := range kindNames() {
		p := kinds(12, 2)[name]
		p.Rounds = 3
		users, _ := people(&p, 15, 0.4, 5)
		whole := newStrategy(t, p, 15, 0.01)
		var states, models [][]byte
		var kept [][][]byte
		for {
			state, err := whole.Save()
			if err != nil {
				t.Fatal(err)
			}
			states, models, kept = append(states, state), append(models, whole.Model()), append(kept, snapshots(t, users))
			if !round(t, whole, users, nil) {
				break
			}
		}
		for k := range states {
			s := newStrategy(t, p, 15, 0.01)
			if err := s.Restore(states[k]); err != nil {
				t.Fatalf("%s: after %d rounds: %v", name, k, err)
			}
			if !bytes.Equal(s.Model(), models[k]) {
				t.Fatalf("%s: restored after %d rounds, the model is another", name, k)
			}
			again, err := s.Save()
			if err != nil || !bytes.Equal(again, states[k]) {
				t.Fatalf("%s: saved again after %d rounds, the state is another (%v)", name, k, err)
			}
			others, _ := people(&p, 15, 0.4, 5)
			for i, u := range others {
				if kept[k][i] != nil {
					if err := u.Resume(kept[k][i], simulated.New(5, fmt.Sprint("client/", i))); err != nil {
						t.Fatalf("%s: user %d after %d rounds: %v", name, i, k, err)
					}
				}
			}
			train(t, s, others)
			if !bytes.Equal(s.Model(), models[len(models)-1]) {
				t.Fatalf("%s: continued after %d rounds, the run ends elsewhere", name, k)
			}
		}
	}
}

// snapshots returns the snapshots of all users.
func snapshots(t testing.TB, users []*user.User) [][]byte {
	out := make([][]byte, len(users))
	for i, u := range users {
		var err error
		if out[i], err = u.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// trained is a strategy in the middle of a run and its state.
func trained(t testing.TB) (*serving.Strategy, []byte) {
	p := full(6, 2)
	users, _ := people(&p, 10, 0.5, 5)
	s := newStrategy(t, p, 10, 0.01)
	for range 3 {
		round(t, s, users, nil)
	}
	state, err := s.Save()
	if err != nil {
		t.Fatal(err)
	}
	return s, state
}

// changedState returns a state with one part changed. A dot leads to a part of the record.
func changedState(t testing.TB, state []byte, part string, change func([]byte) []byte) []byte {
	t.Helper()
	var whole, inner map[string]any
	if err := json.Unmarshal(state[len(ofStates):], &whole); err != nil {
		t.Fatal(err)
	}
	inner = whole
	if name, ok := strings.CutPrefix(part, "own."); ok {
		inner, part = whole["own"].(map[string]any), name
	}
	b, err := base64.StdEncoding.DecodeString(inner[part].(string))
	if err != nil {
		t.Fatal(err)
	}
	inner[part] = change(b)
	text, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte(ofStates), text...)
}

// A state that does not fit is refused with the reason, and changes nothing.
func TestRestoreRefuses(t *testing.T) {
	_, state := trained(t)
	changed := func(part string, change func(b []byte) []byte) []byte {
		return changedState(t, state, part, change)
	}
	nan := binary.LittleEndian.AppendUint64(nil, math.Float64bits(math.NaN()))
	put := func(i int, x []byte) func([]byte) []byte {
		return func(b []byte) []byte { return slices.Replace(b, i, i+len(x), x...) }
	}
	shorter := func(b []byte) []byte { return b[:len(b)-1] }
	flags := len(ofModels)
	other := full(7, 2)
	s := newStrategy(t, other, 10, 0.01)
	otherState, err := s.Save()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		state []byte
		want  string
	}{
		{"nothing", nil, "0 bytes"},
		{"another version", bytes.Replace(state, []byte("v4"), []byte("v9"), 1), "another algorithm or version"},
		{"another session", changed("session", put(0, []byte{9})), "is of session 09"},
		{"a later round", bytes.Replace(state, []byte(`"round":3`), []byte(`"round":5`), 1), "of round 5; the last one is 4"},
		{"another model", changed("model", put(0, []byte{'x'})), "another algorithm or version"},
		{"flags of another form", changed("model", put(flags, []byte{0xff})), "some of the items"},
		{"NaN in the model", changed("model", put(flags+2, nan)), "mean hold NaN"},
		{"NaN in the weights", changed("weight", put(8*6, nan)), "weight counts hold NaN"},
		{"a negative deviation", changed("weight", put(0, binary.LittleEndian.AppendUint64(nil, math.Float64bits(-1)))), "the first is not negative"},
		{"cut off within the weights", changed("weight", shorter), "bytes of weight counts"},
		{"cut off", state[:len(state)-1], "unexpected end"},
		{"cut off within the record", changed("own.moments", shorter), "bytes of the record's moments"},
		{"NaN in the record", changed("own.bias", put(8, nan)), "the record's bias hold NaN"},
		{"too long", append(slices.Clone(state), 0), "invalid character"},
		{"another shape", otherState, "need"},
	} {
		fresh := newStrategy(t, full(6, 2), 10, 0.01)
		before, _ := fresh.Save()
		if err := fresh.Restore(c.state); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want an error with %q, got %v", c.name, c.want, err)
		}
		if after, _ := fresh.Save(); !bytes.Equal(before, after) {
			t.Errorf("%s: the refused state changed the strategy", c.name)
		}
	}
}

// A model comes back as it was, and a client reads the same numbers in place.
func TestModelRoundTrip(t *testing.T) {
	for _, name := range kindNames() {
		p := kinds(9, 3)[name]
		m := start(p)
		if p.Bias {
			m.Mean, m.Bias, m.Counts = 3.25, []float64{1, -1, 0.5, 0, 2, 0, 0, 1, -2}, make([]float64, 9)
			m.Counts[4] = 17
		}
		got, err := kernel.DecodeModel(m.Encode(), &p)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !bytes.Equal(got.Encode(), m.Encode()) {
			t.Errorf("%s: the model is another", name)
		}
		v, err := kernel.OpenBroadcast(m.Encode(), &p)
		if err != nil {
			t.Fatal(err)
		}
		for j := range 9 {
			row := make([]float64, p.Rank) // of an item without an embedding it stays zero
			copy(row, v.Row(j))
			near(t, name+": row", row, m.Items[3*j:3*j+3], 0)
			near(t, name+": bias", []float64{v.ItemBias(j), v.Centre()}, []float64{m.BiasesOf(9)[j], m.Mean}, 0)
		}
		if v.Counts != nil && v.Counts[4] != 17 {
			t.Errorf("%s: a count of %v", name, v.Counts[4])
		}
	}
}

// By hand: μ = 3, b_j = 0.5, b_u = -0.25, <u, v> = 1·2 + 2·(-0.5) = 1, together 4.25. For logits the
// offset is the logit of (3.5 - 1)/4 = 0.625. The prediction is 1 + 4σ(log(0.625/0.375) - 0.25 + 1).
func TestPredict(t *testing.T) {
	p := full(2, 2)
	m := start(p)
	m.Mean, m.Bias, m.Items = 3, []float64{0, 0.5}, []float64{0, 0, 2, -0.5}
	if got := m.Predict([]float64{1, 2}, -0.25, 1); got != 4.25 {
		t.Errorf("predicts %v; want 4.25", got)
	}
	withLoss(&p, steps.Convex, steps.Settings{Loss: steps.Logistic})
	l, err := kernel.DecodeModel(m.Encode(), &p)
	if err != nil {
		t.Fatal(err)
	}
	want := 1 + 4/(1+math.Exp(-(math.Log(0.625/0.375)+0.75)))
	near(t, "logistic prediction", []float64{l.Predict([]float64{1, 2}, -0.25, 1)}, []float64{want}, 1e-14)
}

func FuzzDecodeModel(f *testing.F) {
	p := full(3, 2)
	f.Add(start(p).Encode())
	implicit := kinds(3, 2)["implicit"]
	f.Add(start(implicit).Encode())
	m := start(p)
	m.Counts, m.Bias = []float64{1, 2, 3}, []float64{0, 0, 1}
	f.Add(m.Encode())
	f.Add([]byte(ofModels))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, p := range []*kernel.Params{&p, &implicit} {
			if m, err := kernel.DecodeModel(b, p); err == nil && !bytes.Equal(m.Encode(), b) {
				t.Errorf("%x is decoded and encoded as something else", b)
			}
		}
	})
}

func FuzzRestore(f *testing.F) {
	s, state := trained(f)
	f.Add(state)
	f.Add(state[:len(state)-1])
	f.Add([]byte(ofStates))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s.Restore(b) != nil {
			return
		}
		saved, err := s.Save()
		if err != nil || s.Restore(saved) != nil {
			t.Fatalf("%x is restored, and what it saves is not (%v)", b, err)
		}
		if again, err := s.Save(); err != nil || !bytes.Equal(again, saved) {
			t.Errorf("%x is restored and saved as something else (%v)", saved, err)
		}
	})
}
