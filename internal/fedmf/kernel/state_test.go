package kernel

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/internal/modelserver"
	"github.com/fedsim/fedsim/protocol"
)

// durable is the interface of a strategy with a state.
type durable interface {
	Next() (*protocol.Plan, bool, error)
	Absorb(*protocol.Plan, protocol.Sums, protocol.Runner) error
	Skip(*protocol.Plan, error)
	Model() []byte
	Save() ([]byte, error)
	Restore([]byte) error
}

// stateSession is the session of the states in testdata: bytes 0 to 15.
var stateSession = protocol.SessionID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

// strategies makes a strategy of each kind, of 3 x 2 embeddings and 5 rounds, at its start.
func strategies(t testing.TB) map[string]durable {
	t.Helper()
	cohort := protocol.Cohort{Clients: 4, Tolerance: 0.5}
	p := soundParams(7, 3, 2)
	p.Rounds, p.ItemRate, p.Seed = 5, 0.3, 9
	r := p.Params.Release()
	r.Scale, r.Width = 100, 40
	run := func(r protocol.Release) modelserver.Server {
		return modelserver.Server{Session: stateSession, Cohort: cohort, Schedule: scheduleOf(p, r)}
	}
	out := map[string]durable{"lfl": NewLFL(p.Params, 0.01, run(r))}
	for name, gradients := range map[string]bool{"average": false, "gradients": true} {
		r := p.Release(3)
		r.Width = 40
		p.Gradients = gradients
		out[name] = NewAverage(p, p.StartItems(), run(r))
	}
	return out
}

func save(t testing.TB, s durable) []byte {
	t.Helper()
	b, err := s.Save()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// next plans a round and absorbs sums that follow from its number.
func next(t *testing.T, s durable) *protocol.Plan {
	t.Helper()
	p, done, err := s.Next()
	if err != nil || done {
		t.Fatal(done, err)
	}
	rng := rand.New(rand.NewPCG(1, p.Round))
	sum := make([]float64, p.Releases[0].Len)
	for i := range sum {
		sum[i] = rng.Float64()
	}
	if err := s.Absorb(p, protocol.Sums{Values: [][]float64{sum}, Survivors: 3}, serial{}); err != nil {
		t.Fatal(err)
	}
	return p
}

// Python's struct wrote the states in testdata, of round 2 and the embeddings below. Restored,
// they give the model, the next round is the third, and saving gives the same bytes.
func TestStateFiles(t *testing.T) {
	embeddings := []float64{0.5, 1, 1.5, 2, 0, 0.25}
	var model []byte
	for _, x := range embeddings {
		model = binary.LittleEndian.AppendUint32(model, math.Float32bits(float32(x)))
	}
	for _, name := range []string{"lfl", "average"} {
		state, err := os.ReadFile("testdata/" + name + ".state")
		if err != nil {
			t.Fatal(err)
		}
		s := strategies(t)[name]
		if err = s.Restore(state); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := save(t, s); !bytes.Equal(got, state) {
			t.Errorf("%s: saved as\n%x, restored from\n%x", name, got, state)
		}
		p, done, err := s.Next()
		if err != nil || done || p.Round != 3 || !bytes.Equal(p.Broadcast, model) || !bytes.Equal(s.Model(), model) {
			t.Errorf("%s: the next plan is %+v (done %t, %v), want round 3 of the model %x", name, p, done, err, model)
		}
	}
}

// A strategy whose state moves to another process at any time continues as if it had stayed: the
// same plans and models, to the bit.
func TestRestoreGoesOn(t *testing.T) {
	for name := range strategies(t) {
		whole := strategies(t)[name]
		var plans []*protocol.Plan
		var states [][]byte
		for range 5 {
			states = append(states, save(t, whole))
			plans = append(plans, next(t, whole))
		}
		if bytes.Equal(plans[0].Broadcast, plans[4].Broadcast) {
			t.Fatalf("%s: nothing changes", name)
		}
		states = append(states, save(t, whole))
		for i, state := range states {
			resumed := strategies(t)[name]
			if err := resumed.Restore(state); err != nil {
				t.Fatal(err)
			}
			for _, want := range plans[i:] {
				if d := cmp.Diff(want, next(t, resumed)); d != "" {
					t.Fatalf("%s, from round %d: plan (-whole +resumed):\n%s", name, i, d)
				}
			}
			if !bytes.Equal(resumed.Model(), whole.Model()) {
				t.Errorf("%s, from round %d: another model", name, i)
			}
			if _, done, err := resumed.Next(); !done || err != nil {
				t.Errorf("%s, from round %d: not done after the last round: %v", name, i, err)
			}
		}
	}
}

// The state belongs to its keeper alone: later steps of the strategy do not change it, and changes
// of the bytes do not change the strategy.
func TestStateIsACopy(t *testing.T) {
	for name, s := range strategies(t) {
		state := save(t, s)
		kept := bytes.Clone(state)
		next(t, s)
		if !bytes.Equal(state, kept) {
			t.Errorf("%s: training changes a saved state", name)
		}
		if err := s.Restore(state); err != nil {
			t.Fatal(err)
		}
		clear(state)
		if !bytes.Equal(save(t, s), kept) {
			t.Errorf("%s: the strategy changes with the bytes it was restored from", name)
		}
	}
}

// Offsets of the parts of a state, behind a domain of the given length.
const (
	atSession = 0
	atRound   = 16
	atValues  = 24
)

func TestRestoreRefuses(t *testing.T) {
	domains := map[string]string{"lfl": "fedsim/fedmf/lfl/v3\n", "average": "fedsim/fedmf/average/v3\n", "gradients": "fedsim/fedmf/average/v3\n"}
	put := func(at int, value uint64, size int) func([]byte) []byte {
		return func(b []byte) []byte {
			word := binary.BigEndian.AppendUint64(nil, value)
			copy(b[at:at+size], word[8-size:])
			return b
		}
	}
	float := func(x float64) func([]byte) []byte {
		return func(b []byte) []byte {
			binary.LittleEndian.PutUint32(b[atValues+4*3:], math.Float32bits(float32(x)))
			return b
		}
	}
	for _, tt := range []struct {
		what   string
		change func(body []byte) []byte // of the part behind the domain
		reason string
	}{
		{"empty", func([]byte) []byte { return nil }, "a state of "},
		{"of a head alone", func(b []byte) []byte { return b[:atValues-1] }, "a state of "},
		{"without embeddings", func(b []byte) []byte { return b[:atValues] }, "has 0 bytes, 3 x 2 embeddings need 24"},
		{"cut", func(b []byte) []byte { return b[:len(b)-1] }, "has 23 bytes, 3 x 2 embeddings need 24"},
		{"longer", func(b []byte) []byte { return append(b, 0) }, "has 25 bytes, 3 x 2 embeddings need 24"},
		{"of another session", put(atSession+8, 7, 8), "is of session 0001020304050607000000000000000"},
		{"of a round after the last", put(atRound, 6, 8), "is of round 6; the last one is 5"},
		{"of a round that no int holds", put(atRound, math.MaxUint64, 8), "is of round 18446744073709551615; the last one is 5"},
		{"with a NaN", float(math.NaN()), "row 1 of the state's model holds NaN"},
		{"with an infinity", float(math.Inf(-1)), "row 1 of the state's model holds -Inf"},
	} {
		for name, s := range strategies(t) {
			domain := domains[name]
			before := save(t, s)
			state := append([]byte(domain), tt.change(bytes.Clone(before[len(domain):]))...)
			if err := s.Restore(state); err == nil || !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("%s, a state %s: error %v, want %q in it", name, tt.what, err, tt.reason)
			}
			if !bytes.Equal(save(t, s), before) {
				t.Errorf("%s, a state %s: refused, and taken up", name, tt.what)
			}
		}
	}
	for name, s := range strategies(t) {
		for _, domain := range []string{"fedsim/fedmf/lfl/v2\n", "fedsim/fedmf/lfl/v3\n", "fedsim/fedmf/average/v3\n"} {
			if domain == domains[name] {
				continue
			}
			state := append([]byte(domain), save(t, s)[len(domains[name]):]...)
			if err := s.Restore(state); err == nil || !strings.Contains(err.Error(), "of another algorithm or version") {
				t.Errorf("%s: a state of %q: %v", name, domain, err)
			}
		}
	}
}

// Restoring arbitrary bytes does not panic, and an accepted state is saved as it came: there is one
// form for each state.
func FuzzRestore(f *testing.F) {
	for _, name := range []string{"lfl", "average"} {
		state, err := os.ReadFile("testdata/" + name + ".state")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(state)
		f.Add(state[:len(state)-8])
	}
	f.Fuzz(func(t *testing.T, state []byte) {
		for name, s := range strategies(t) {
			before := save(t, s)
			want := before
			if err := s.Restore(state); err == nil {
				want = state
			}
			if got := save(t, s); !bytes.Equal(got, want) {
				t.Errorf("%s: restored from %x it saves %x, want %x", name, state, got, want)
			}
		}
	})
}
