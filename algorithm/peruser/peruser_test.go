package peruser_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/algorithm/peruser"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/training"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// counting counts how many users have a first rating of each item; with bad rows its model
// has one too many.
func counting(name string, badRows int) peruser.Algorithm {
	return peruser.Algorithm{
		Name: name, Help: "counts first ratings", Rounds: 4, Rank: 1,
		Release: func(s *algorithm.Setup) protocol.Release {
			return protocol.Release{Name: "firsts", Len: s.Data.Items, L2: 1, L1: 1, LInf: 1, MaxNonZero: 1}
		},
		Start: func(s *algorithm.Setup) *model.Matrix { return model.NewMatrix(s.Data.Items+badRows, 1) },
		Contribute: func(_ *algorithm.Setup, _ *model.Matrix, r model.Ratings, _ entropy.Source, _ uint64) (protocol.Vector, error) {
			v := protocol.Vector{Index: []uint32{}}
			if len(r.Items) > 0 {
				v.Index, v.Value = append(v.Index, uint32(r.Items[0])), append(v.Value, 1)
			}
			return v, nil
		},
		Absorb: func(_ *algorithm.Setup, m *model.Matrix, sum []float64, survivors int, round uint64) {
			for j, x := range sum {
				m.Row(j)[0] += x/float64(survivors) + float64(round)
			}
		},
		Predict: func(s *algorithm.Setup, m *model.Matrix, r model.Ratings, out []float64) {
			for j := range out {
				out[j] = s.Data.Min + m.Row(j)[0] + float64(len(r.Items))
			}
		},
	}
}

func init() {
	counting("count-firsts", 0).MustRegister()
	counting("count-badly", 1).MustRegister()
	decaying := counting("decay", 0)
	decaying.Release = func(s *algorithm.Setup) protocol.Release {
		return protocol.Release{Name: "steps", Len: s.Data.Items, L2: 1, MaxNonZero: s.Data.Items}
	}
	decaying.Contribute = func(s *algorithm.Setup, m *model.Matrix, _ model.Ratings, _ entropy.Source, _ uint64) (protocol.Vector, error) {
		v := protocol.Vector{Value: make([]float64, s.Data.Items)}
		for j := range v.Value {
			v.Value[j] = -m.Row(j)[0] / 2 // weight decay, of any user
		}
		return peruser.Clip(v, protocol.Release{Len: s.Data.Items, L2: 1, MaxNonZero: s.Data.Items}), nil
	}
	decaying.MustRegister()
	remembering := counting("remember", 0)
	last := 0.
	remembering.Contribute = func(_ *algorithm.Setup, _ *model.Matrix, r model.Ratings, _ entropy.Source, _ uint64) (protocol.Vector, error) {
		before := last
		last = float64(r.Values[0]) / 8
		return protocol.Vector{Index: []uint32{uint32(r.Items[0])}, Value: []float64{before}}, nil
	}
	remembering.MustRegister()
	peeking := counting("peek", 0)
	peeking.Start = func(s *algorithm.Setup) *model.Matrix {
		m := model.NewMatrix(s.Data.Items, 1)
		for k, j := range s.Ratings.Item {
			m.Row(int(j))[0] += float64(s.Ratings.Value[k])
		}
		for k, j := range s.Data.Item {
			m.Row(int(j))[0] += float64(s.Data.Value[k])
		}
		if s.Train != nil || s.Held != nil || s.Data.Times != nil {
			m.Row(0)[0]++
		}
		return m
	}
	peeking.MustRegister()
	centring := counting("centre", 0)
	centring.Contribute = func(_ *algorithm.Setup, _ *model.Matrix, r model.Ratings, _ entropy.Source, _ uint64) (protocol.Vector, error) {
		for k := range r.Values {
			r.Values[k] -= 3
		}
		r.Items[0] = 0
		return protocol.Vector{Index: []uint32{}}, nil
	}
	centring.MustRegister()
	for name, bad := range misshapen {
		wrong := counting(name, 0)
		wrong.Contribute = func(*algorithm.Setup, *model.Matrix, model.Ratings, entropy.Source, uint64) (protocol.Vector, error) {
			return bad, nil
		}
		wrong.MustRegister()
	}
}

// misshapen holds vectors that are not one of 400 coordinates within the bounds of the release.
var misshapen = map[string]protocol.Vector{
	"too-long": {Value: make([]float64, 401)}, "short": {Value: make([]float64, 399)}, "beyond": {Index: []uint32{400}, Value: []float64{1}},
	"uneven": {Index: []uint32{1}}, "twice": {Index: []uint32{3, 3}, Value: []float64{0.5, 0.5}}, "falling": {Index: []uint32{3, 2}, Value: []float64{0.5, 0.5}},
	"nan": {Index: []uint32{3}, Value: []float64{math.NaN()}}, "infinite": {Index: []uint32{3}, Value: []float64{math.Inf(1)}}, "large": {Index: []uint32{3}, Value: []float64{1.5}},
}

// TestMisshapenVectorsEndTheRun checks that no ε is stated of vectors beyond their release, and that none of them panics, also where a
// user is asked again.
func TestMisshapenVectorsEndTheRun(t *testing.T) {
	for name := range misshapen {
		e, err := open(t, name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = training.Run(t.Context(), e, nil); err == nil || !strings.Contains(err.Error(), "out of bounds") && !strings.Contains(err.Error(), "shape") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err = contributions(t, name); name == "too-long" && !errors.Is(err, protocol.ErrShape) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFunctionsHaveNoRatingsOfOthers has a start that sums all ratings it finds. ε covers no such model.
func TestFunctionsHaveNoRatingsOfOthers(t *testing.T) {
	e, err := open(t, "peek")
	if err != nil {
		t.Fatal(err)
	}
	b, err := model.NewBroadcast(strategy(t, e, 1).Model(), e.Data.Items, 1)
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(b.Matrix().Data(), func(x float64) bool { return x != 0 }); i >= 0 {
		t.Errorf("the start of item %d is %v by ratings", i, b.Matrix().Data()[i])
	}
}

// TestFunctionsCannotChangeRatings has a function that centres the ratings in place. The next round, the metrics and the folder of the
// run would have other ratings than the user gave.
func TestFunctionsCannotChangeRatings(t *testing.T) {
	e, err := open(t, "centre")
	if err != nil {
		t.Fatal(err)
	}
	before := e.Row(1)
	items, values := slices.Clone(before.Items), slices.Clone(before.Values)
	if _, err = training.Run(t.Context(), e, nil); err != nil {
		t.Fatal(err)
	}
	if after := e.Row(1); !slices.Equal(after.Items, items) || !slices.Equal(after.Values, values) {
		t.Errorf("a user's ratings became %v of %v, from %v of %v", after.Values, after.Items, values, items)
	}
}

func open(t *testing.T, name string) (*experiment.Experiment, error) {
	t.Helper()
	c, err := config.Resolve([]config.Setting{{Key: "algorithm", Value: name}, {Key: "data", Value: "synthetic:small"}, {Key: "epsilon", Value: "4"}})
	if err != nil {
		t.Fatal(err)
	}
	return experiment.Open(t.Context(), c, nil)
}

func TestScheduleIsCalibrated(t *testing.T) {
	e, err := open(t, "count-firsts")
	if err != nil {
		t.Fatal(err)
	}
	r := e.Schedule.First()
	if e.Schedule.Rounds() != 4 || r.Len != e.Data.Items || r.Scale != algorithm.Scale(*r) || r.Width < 8 {
		t.Errorf("schedule %+v", e.Schedule)
	}
	planned, err := e.Planned()
	if err != nil || !(planned.Epsilon <= 4 && planned.Epsilon > 3.99) || r.Noise.Kind != protocol.Split || !(r.Noise.Variance > 0) {
		t.Errorf("noise %+v costs %v, %v; want all of the 4", r.Noise, planned, err)
	}
}

// TestRebuiltProgramIsAnotherRun: what identifies a run has the digest of the executable.
func TestRebuiltProgramIsAnotherRun(t *testing.T) {
	e, err := open(t, "count-firsts")
	if err != nil {
		t.Fatal(err)
	}
	executable, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if got, want := e.FilesDigest(), fmt.Sprintf("%x", sha256.Sum256(executable)); got != want {
		t.Errorf("digest %s, want %s of this executable", got, want)
	}
}

func TestModelOfAnotherSizeIsRefused(t *testing.T) {
	_, err := open(t, "count-badly")
	var refused *config.Error
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "401 rows; there must be one for each of 400 items") {
		t.Errorf("error %v", err)
	}
}

// contributions returns the vectors of round 1 of the clients, at a model of ones. The first user of data has no ratings.
func contributions(t *testing.T, name string) (list []protocol.Vector, err error) {
	t.Helper()
	full, err := open(t, name)
	if err != nil {
		t.Fatal(err)
	}
	e, err := experiment.OpenSet(full.Config, full.Data.Where(func(user, _ int32) bool { return user > 0 }))
	if err != nil {
		t.Fatal(err)
	}
	side, err := e.Instance().ClientSide()
	if err != nil {
		t.Fatal(err)
	}
	ones := model.NewMatrix(e.Data.Items, 1)
	for j := range ones.Data() {
		ones.Data()[j] = 1
	}
	p := *e.Plan(1)
	p.Broadcast = ones.Encode()
	for u, trainer := range side.Trainers() {
		v, err := trainer.Contribute(&p, simulated.New(1, fmt.Sprint(u)), protocol.Workers(1))
		if err != nil {
			return nil, err
		}
		list = append(list, v...)
	}
	return list, nil
}

// TestUserWithoutRatingsAddsNothing has users whose vector does not depend on their ratings. ε compares with an empty
// record, which adds zero.
func TestUserWithoutRatingsAddsNothing(t *testing.T) {
	list, err := contributions(t, "decay")
	if err != nil {
		t.Fatal(err)
	}
	for u, v := range list {
		sum := 0.
		v.Each(func(_ int, x float64) { sum += x * x })
		if want := float64(min(u, 1)); math.Abs(sum-want) > 1e-9 {
			t.Errorf("the vector of user %d has the squared norm %v, want %v", u, sum, want)
		}
	}
}

// TestVectorsOfOtherUsersAreRefused has a function that keeps a rating for the next user's vector.
func TestVectorsOfOtherUsersAreRefused(t *testing.T) {
	if _, err := contributions(t, "remember"); err == nil || !strings.Contains(err.Error(), "remember: a user's vector changed when the user was asked again") {
		t.Errorf("%v", err)
	}
}

// strategy is the server's side of the session.
func strategy(t *testing.T, e *experiment.Experiment, session byte) algorithm.Strategy {
	t.Helper()
	s, err := e.Instance().Strategy(protocol.SessionID{session})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// absorb takes rounds of a sum that is the same for all items.
func absorb(t *testing.T, s algorithm.Strategy, items, rounds int, sum float64) error {
	t.Helper()
	for range rounds {
		p, done, err := s.Next()
		if err != nil || done {
			t.Fatalf("done %t, %v", done, err)
		}
		values := make([]float64, items)
		for j := range values {
			values[j] = sum
		}
		if err := s.Absorb(p, protocol.Sums{Values: [][]float64{values}, Survivors: 2}, protocol.Workers(1)); err != nil {
			return err
		}
	}
	return nil
}

// TestStrategyGoesOnFromItsState checks that a server that starts again continues with the next round and the same model.
func TestStrategyGoesOnFromItsState(t *testing.T) {
	e, err := open(t, "count-firsts")
	if err != nil {
		t.Fatal(err)
	}
	before := strategy(t, e, 1)
	if err = absorb(t, before, e.Data.Items, 2, 3); err != nil {
		t.Fatal(err)
	}
	state, err := before.Save()
	if err != nil {
		t.Fatal(err)
	}
	after := strategy(t, e, 1)
	if err = after.Restore(state); err != nil {
		t.Fatal(err)
	}
	for _, s := range []algorithm.Strategy{before, after} {
		p, done, failed := s.Next()
		if failed != nil || done || p.Round != 3 {
			t.Fatalf("plan %+v, done %t, %v; want round 3", p, done, failed)
		}
	}
	b, err := model.NewBroadcast(after.Model(), e.Data.Items, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Matrix().Row(7)[0]; got != 3./2+1+3./2+2 { // by hand: sum/survivors + round, twice
		t.Errorf("the model holds %v", got)
	}
	domain := strings.Index(string(state), "\n") + 1
	for what, bad := range map[string][]byte{
		"empty": nil, "cut short": state[:len(state)-1], "too long": append(state[:len(state):len(state)], 0), "only a head": state[:domain+10],
		"of another domain": append([]byte("x"), state[1:]...), "of a round after the last": changed(state, domain+16+7, 5),
	} {
		if err := strategy(t, e, 1).Restore(bad); err == nil {
			t.Errorf("a state that is %s was taken", what)
		}
	}
	if err := strategy(t, e, 2).Restore(state); err == nil || !strings.Contains(err.Error(), "session") {
		t.Errorf("a state of another session: %v", err)
	}
}

func changed(b []byte, at int, to byte) []byte {
	c := append([]byte(nil), b...)
	c[at] = to
	return c
}

// TestModelStaysFinite checks that a model with an infinite value is refused and not broadcast.
func TestModelStaysFinite(t *testing.T) {
	e, err := open(t, "count-firsts")
	if err != nil {
		t.Fatal(err)
	}
	if err := absorb(t, strategy(t, e, 1), e.Data.Items, 1, math.Inf(1)); err == nil || !strings.Contains(err.Error(), "became +Inf in round 1") {
		t.Errorf("error %v", err)
	}
}

func TestRegisterRefusesWhatIsMissing(t *testing.T) {
	for what, change := range map[string]func(*peruser.Algorithm){
		"a release":    func(a *peruser.Algorithm) { a.Release = nil },
		"a start":      func(a *peruser.Algorithm) { a.Start = nil },
		"a trainer":    func(a *peruser.Algorithm) { a.Contribute = nil },
		"a strategy":   func(a *peruser.Algorithm) { a.Absorb = nil },
		"a prediction": func(a *peruser.Algorithm) { a.Predict = nil },
		"rounds":       func(a *peruser.Algorithm) { a.Rounds = 0 },
		"a name":       func(a *peruser.Algorithm) { a.Name = "" },
		"a free name":  func(a *peruser.Algorithm) { a.Name = "count-firsts" },
	} {
		t.Run(what, func(t *testing.T) {
			a := counting("count-more", 0)
			change(&a)
			if err := a.Register(); err == nil {
				t.Errorf("an algorithm without %s was registered", what)
			}
		})
	}
}
