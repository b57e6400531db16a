package fedssp

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/stage"
	"github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// countedNames lists the kinds of runs that may train on some of the items: all except runs with
// gradients, posteriors or weights of popularity.
func countedNames() []string {
	all := kinds(10, 2)
	return slices.DeleteFunc(kindNames(), func(name string) bool { p := all[name]; return !p.TakesSome() })
}

// chosenNames adds the kinds whose items are chosen by weights.
func chosenNames() []string {
	names := countedNames()
	for _, name := range slices.Sorted(maps.Keys(chosenKinds(10, 2, 5))) {
		if strings.HasPrefix(name, "by weights") {
			names = append(names, name)
		}
	}
	return names
}

// weightsChoose reports whether weights can choose the items: they are released with the only sum of biases.
func weightsChoose(p *kernel.Params) bool {
	return p.Chooses() && p.Bias && p.Rounds > 0 && p.BiasRounds <= 1 && !p.WithCounts()
}

// chosenKinds returns settings of every such kind, training on so many of the items. Kinds that
// need no counts for weights, and release biases first, may choose by weights.
func chosenKinds(items, rank, top int) map[string]kernel.Params {
	out := map[string]kernel.Params{}
	for name, p := range kinds(items, rank) {
		p.TopItems, p.Split.Counts, p.CountCap = top, 0.05, 7
		out[name] = p
		p.Split.Counts, p.Exponent, p.Normalise, p.Headroom, p.ByWeights = 0, 0, kernel.PerUserNorm, 0, true
		if p.TakesSome() && weightsChoose(&p) {
			out["by weights, "+name] = p
		}
	}
	sampled := out["by weights, norms, pooled"]
	sampled.Budgeting, sampled.PerUser = kernel.UniformSample, 4
	out["by weights, of samples"] = sampled
	return out
}

// everyThird are items 1, 4, 7, ...
func everyThird(items int) []int32 {
	var list []int32
	for j := 1; j < items; j += 3 {
		list = append(list, int32(j))
	}
	return list
}

// A user's contribution stays within every declared bound whichever items a server chooses, and if
// it chooses others in every round: users, random and adversarial, of every kind of run. The norms
// are taken here.
func TestSensitivityOfChosenItems(t *testing.T) {
	const items, top = 30, 12
	for _, name := range chosenNames() {
		p := chosenKinds(items, 3, top)[name]
		p.UserRidge = 1e-4 // u as long as the clipping allows
		steps := complete(t, p, 0)
		rng := rand.New(rand.NewPCG(13, 13))
		worst := 0.
		for k := range effort.Of(50, 100, 1000) {
			user := NewUser(&p, record(&p, rng, k))
			for i, s := range steps {
				choice := make([]int32, 0, top)
				for _, j := range rng.Perm(items)[:top] {
					choice = append(choice, int32(j))
				}
				slices.Sort(choice)
				c, err := p.Over(choice)
				if err != nil {
					t.Fatal(err)
				}
				m := hostile(c.Inner, rng, k/8)
				m.Chosen = c
				if p.ByWeights {
					m.RestBias = []float64{math.NaN(), 1e300, -5, 0.5, 1, math.Inf(-1), 2, 3, 4, 0, 0, 0, 1, 2, 3, 4, 5, -1}
				}
				plan := &protocol.Plan{Round: uint64(i + 1), Phase: s.Phase, Cohort: protocol.Cohort{Clients: 1000}, Releases: s.Releases, Broadcast: m.Encode()}
				for r, v := range contribute(t, user, plan, k) {
					share := within(t, fmt.Sprintf("%s: user %d, step %d", name, k, i+1), s.Releases[r], v)
					if s.Releases[r].Name == kernel.WeightCounts {
						worst = max(worst, share)
					}
				}
			}
		}
		if worst < 0.99 && name != "weights of one scale" {
			t.Errorf("%s: weights reach %.3f of their bound at most: it is not tight", name, worst)
		}
	}
}

// With chosen items the result is as if there were no others. A run over these items
// alone, of users who rated nothing else, ends with the same embeddings and biases, to the bit.
func TestChosenItemsAreACatalogueOfTheirOwn(t *testing.T) {
	const items = 30
	list := everyThird(items)
	for _, name := range countedNames() {
		p := chosenKinds(items, 2, len(list))[name]
		p.CountCap, p.MeanCap = items, 0 // counts are of all ratings, and none is of other items
		alone := p
		alone.Items, alone.TopItems = len(list), 0
		if p.Features != nil {
			alone.Features = p.Features.Pick(list)
		}
		alone.UserFeatures = p.UserFeatures.Pick(list)
		users, rows := people(&p, 40, 0.5, 9)
		same := make([]*user.User, len(rows))
		for i, r := range rows {
			var own model.Ratings
			for k, j := range r.Items {
				if at, in := slices.BinarySearch(list, j); in {
					own.Items, own.Values = append(own.Items, int32(at)), append(own.Values, r.Values[k])
				}
			}
			same[i] = NewUser(&alone, own)
		}
		if p.Budgeting != kernel.Weights { // a sample of others' is drawn from other ratings
			p.PerUser, alone.PerUser = items, items
		}
		got, want := newStrategy(t, p, 40, 0), newStrategy(t, alone, 40, 0)
		if err := got.Adopt(list); err != nil {
			t.Fatal(err)
		}
		train(t, got, users)
		train(t, want, same)
		if !slices.Equal(got.Current().Items, want.Current().Items) || !slices.Equal(got.Current().Bias, want.Current().Bias) || !slices.Equal(got.Current().Gramian, want.Current().Gramian) {
			t.Errorf("%s: with other items in the catalogue the run ends elsewhere", name)
		}
		m, err := kernel.DecodeModel(got.Model(), &p)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range rows {
			u, bias := fit(t, &p, m, r)
			v, own := fit(t, &alone, want.Current(), same[i].Ratings(nil))
			if !slices.Equal(u, v) || bias != own {
				t.Fatalf("%s: user %d is fitted otherwise", name, i)
			}
			for at, j := range list {
				if x, y := m.Predict(u, bias, int(j)), want.Current().Predict(v, own, at); x != y {
					t.Fatalf("%s: item %d is predicted at %v, and at %v without others", name, j, x, y)
				}
			}
		}
	}
}

// The chosen items have the largest released sums, noise included: here the noise makes the least
// rated item the first. Among equals the lower index comes first.
func TestItemsAreChosenByReleasedCounts(t *testing.T) {
	p := plain(6, 2)
	p.TopItems, p.CountCap, p.Split.Counts = 3, 6, 0.1
	s := newStrategy(t, p, 10, 1)
	plan, _, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	if plan.Phase != kernel.Prepare || len(plan.Releases) != 1 || plan.Releases[0].Name != kernel.Counts || plan.Releases[0].Len != 6 {
		t.Fatalf("the first round is %q with %+v", plan.Phase, plan.Releases)
	}
	if len(plan.Broadcast) != p.ModelSize(kernel.Prepare) {
		t.Errorf("it comes with a model of %d bytes, of %d", len(plan.Broadcast), p.ModelSize(kernel.Prepare))
	}
	if err = s.Absorb(plan, protocol.Sums{Values: [][]float64{{4, -2, 4, 4, 1, 9}}, Survivors: 10}, serial{}); err != nil {
		t.Fatal(err)
	}
	if want := []int32{0, 2, 5}; !slices.Equal(s.Chosen.Items, want) {
		t.Errorf("items %v are chosen, want %v", s.Chosen.Items, want)
	}
	plan, _, err = s.Next()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range plan.Releases { // 3 items, of rank 2 with 3 numbers of a packed matrix
		if want := map[string]int{kernel.WeightCounts: 3, kernel.Gramians: 9, kernel.Moments: 6}[r.Name]; r.Len != want {
			t.Errorf("release %q has %d coordinates, want %d", r.Name, r.Len, want)
		}
	}
}

// Without counts the items to train on are unknown: the round after a lost one is refused.
func TestLostCounts(t *testing.T) {
	p := chosenKinds(20, 2, 5)["full"]
	s := newStrategy(t, p, 10, 0)
	plan, _, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	s.Skip(plan, errors.New("nobody came"))
	state, err := s.Save()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = s.Next(); !errors.Is(err, kernel.ErrNotCounted) {
		t.Errorf("the round after: %v", err)
	}
	again := newStrategy(t, p, 10, 0)
	if err = again.Restore(state); err != nil {
		t.Fatal(err)
	}
	if _, _, err = again.Next(); !errors.Is(err, kernel.ErrNotCounted) {
		t.Errorf("the round after, of a server that was restarted: %v", err)
	}
	m, err := kernel.DecodeModel(s.Model(), &p)
	if err != nil {
		t.Fatal(err)
	}
	if x := m.Predict([]float64{1, 1}, 0.25, 3); x != 3.25 { // the middle of 1 to 5, and the user's own bias
		t.Errorf("a model without items predicts %v", x)
	}
}

// A restored state equals the saved one, before items are chosen and after, and models have the
// planned length.
func TestRestoreChosen(t *testing.T) {
	for _, name := range chosenNames() {
		p := chosenKinds(12, 2, 5)[name]
		users, _ := people(&p, 15, 0.4, 5)
		whole := newStrategy(t, p, 15, 0.01)
		var states, models [][]byte
		for {
			state, err := whole.Save()
			if err != nil {
				t.Fatal(err)
			}
			states, models = append(states, state), append(models, whole.Model())
			if !round(t, whole, users, nil) {
				break
			}
		}
		if n, want := len(models[len(models)-1]), p.FinalSize(); n != want {
			t.Errorf("%s: the final model has %d bytes, %d were planned", name, n, want)
		}
		for k := range states {
			s := newStrategy(t, p, 15, 0.01)
			if err := s.Restore(states[k]); err != nil {
				t.Fatalf("%s: after %d rounds: %v", name, k, err)
			}
			if !bytes.Equal(s.Model(), models[k]) {
				t.Fatalf("%s: restored after %d rounds, the model is another", name, k)
			}
			train(t, s, users)
			if !bytes.Equal(s.Model(), models[len(models)-1]) {
				t.Fatalf("%s: continued after %d rounds, the run ends elsewhere", name, k)
			}
		}
	}
}

// Every model of a run is as long as its phase says, where everything is released that can be.
func TestChosenModelSizes(t *testing.T) {
	for _, name := range chosenNames() {
		p := chosenKinds(12, 2, 5)[name]
		users, _ := people(&p, 15, 0.4, 5)
		s := newStrategy(t, p, 15, 0.01)
		for {
			plan, done, err := s.Next()
			if err != nil {
				t.Fatal(err)
			}
			if done {
				break
			}
			if n, want := len(plan.Broadcast), p.ModelSize(plan.Phase); n != want {
				t.Errorf("%s: round %d, %s, comes with a model of %d bytes; %d were planned", name, plan.Round, plan.Phase, n, want)
			}
			s.Round--
			round(t, s, users, nil)
		}
	}
}

// Choices that are none, and models that do not go with the settings, are refused by what they are.
func TestChoicesAreRefused(t *testing.T) {
	p := chosenKinds(6, 2, 3)["plain"]
	c, err := p.Over([]int32{0, 2, 5})
	if err != nil {
		t.Fatal(err)
	}
	m := start(*c.Inner)
	m.Chosen = c
	good := m.Encode()
	if _, err = kernel.DecodeModel(good, &p); err != nil {
		t.Fatal(err)
	}
	at := len(ofModels) + 2 + 8
	put := func(i int, x byte) []byte {
		b := slices.Clone(good)
		b[i] = x
		return b
	}
	all := plain(6, 2)
	for _, bad := range []struct {
		model []byte
		want  string
	}{
		{put(at, 0b110101), "4 items are chosen; 3 are trained on"},
		{put(at, 0b1000101), "not below 6"},
		{good[:len(good)-8], "bytes"},
		{put(len(ofModels), 1), "does not say which items"},
		{start(all).Encode(), "bytes; before items are chosen it has"},
	} {
		if _, err := kernel.DecodeModel(bad.model, &p); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%v, want %q", err, bad.want)
		}
	}
	if _, err := kernel.DecodeModel(good, &all); err == nil || !strings.Contains(err.Error(), "all are trained on") {
		t.Errorf("a choice where there is none: %v", err)
	}
	one, empty := NewUser(&p, model.Ratings{Items: []int32{2}, Values: []float32{3}}), NewUser(&p, model.Ratings{})
	step := complete(t, p, 0)[1]
	plan := &protocol.Plan{Round: 2, Phase: step.Phase, Releases: step.Releases, Broadcast: p.Unchosen().Encode()}
	for _, u := range []*user.User{one, empty} {
		if _, err := u.Contribute(plan, simulated.New(5, "client"), serial{}); err == nil || !strings.Contains(err.Error(), "does not say which items") {
			t.Errorf("statistics before items are chosen: %v", err)
		}
	}
}

func TestTopItemsAreChecked(t *testing.T) {
	for _, c := range []struct {
		top  int
		want string
	}{
		{10, "top-items are 10 of 10 items; there must be from 1 to 9, or 0 to train on all"},
		{-1, "top-items are -1 of 10"},
	} {
		p := full(10, 2)
		p.TopItems = c.top
		if err := stage.Validate(p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d: %v, want %q", c.top, err, c.want)
		}
	}
}
