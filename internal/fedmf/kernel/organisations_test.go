package kernel_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/fedmf"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/fedmf/kernel"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// chosen holds the values of the design and the FMF paper (section 4.3) for each algorithm on the
// small set: 600 users, 400 items, 18,015 training ratings.
var chosen = []struct {
	settings                           string
	rounds, localSteps, parties, theta float64
	unit, accountant, noise, secagg    string
	epsilon, delta, colluders          float64
	train                              string // "" without a choice
	clients, coordinates               int
}{
	{"algorithm=vfl-sgdmf", 100, 10, 10, 0, "rating", "pld", "own", "ideal", 10, 5e-6, 0.05, "", 10, 601},
	{"algorithm=vfl-sgdmf accountant=rdp parties=1", 100, 10, 1, 0, "rating", "rdp", "own", "none", 10, 5e-6, 0, "", 1, 601},
	{"algorithm=vfl-sgdmf accountant=rdp unit=user", 100, 10, 10, 5, "user", "rdp", "own", "ideal", 10, 1e-5, 0.05, "", 10, 601},
	{"algorithm=vfl-sgdmf accountant=rdp unit=user parties=1", 100, 10, 1, 10, "user", "rdp", "own", "none", 10, 1e-5, 0, "", 1, 601},
	{"algorithm=vfl-sgdmf accountant=rdp unit=user parties=11 rank=3", 100, 10, 11, 2, "user", "rdp", "own", "ideal", 10, 1e-5, 0.05, "", 11, 1801},
	{"algorithm=hfl-sgdmf", 100, 10, 10, 10, "user", "pld", "own", "ideal", 10, 1e-5, 0.05, "items", 10, 401},
	{"algorithm=hfl-sgdmf accountant=rdp parties=11", 100, 10, 11, 10, "user", "rdp", "own", "ideal", 10, 1e-5, 0.05, "items", 11, 401},
	{"algorithm=hfl-sgdmf accountant=rdp parties=1 colluders=0", 100, 10, 1, 10, "user", "rdp", "own", "none", 10, 1e-5, 0, "items", 1, 401},
	{"algorithm=hfl-synsgd accountant=rdp", 1000, 1, 10, 10, "user", "rdp", "own", "ideal", 10, 1e-5, 0.05, "both", 10, 401},
	{"algorithm=hfl-synsgd epsilon=inf", 1000, 1, 10, 10, "user", "pld", "none", "ideal", math.Inf(1), 1e-5, 0.05, "both", 10, 401},
	{"algorithm=fmf-vfl", 100, 10, 10, 0, "rating", "auto", "none", "ideal", math.Inf(1), 0, 0.05, "", 10, 601},
	{"algorithm=fmf-hfl", 100, 10, 10, 10, "user", "auto", "none", "ideal", math.Inf(1), 0, 0.05, "items", 10, 401},
}

func TestOpenChoosesForOrganisations(t *testing.T) {
	for _, tt := range chosen {
		t.Run(tt.settings, func(t *testing.T) {
			t.Parallel()
			e := opened.Experiment(t, tt.settings)
			c := e.Config
			for _, n := range []struct {
				what      string
				got, want float64 // 0 without effect
			}{
				{"rounds", algorithm.Rounds.Value(c), tt.rounds}, {"local-steps", opened.Number(c, "local-steps"), tt.localSteps}, {"parties", algorithm.Parties.Value(c), tt.parties},
				{"clip-ratings", opened.Number(c, "clip-ratings"), tt.theta}, {"epsilon", algorithm.Epsilon.Value(c), tt.epsilon}, {"delta", algorithm.Delta.Value(c), tt.delta},
				{"dropout", algorithm.Dropout.Value(c), 0}, {"colluders", algorithm.Colluders.Value(c), tt.colluders},
			} {
				if n.got != n.want {
					t.Errorf("%s is %v, want %v", n.what, n.got, n.want)
				}
			}
			if want := 20000. / 600 / 400; math.Abs(opened.Number(c, "model.density")-want) > 1e-12 { // as the set's description says
				t.Errorf("density is %v, want %v", opened.Number(c, "model.density"), want)
			}
			for _, w := range []struct{ what, got, want string }{
				{"unit", algorithm.Unit.Of(c), tt.unit}, {"accountant", algorithm.Accountant.Of(c), tt.accountant}, {"noise", algorithm.Noise.Of(c), tt.noise}, {"secagg", algorithm.Secagg.Of(c), tt.secagg},
			} {
				if w.got != w.want {
					t.Errorf("%s is %s, want %s", w.what, w.got, w.want)
				}
			}
			if got := c.Text(config.Find("train")); tt.train != "" && got != tt.train {
				t.Errorf("train is %s, want %s", got, tt.train)
			}
			if n := len(opened.Federation(t, e).Trainers); e.Cohort.Clients != tt.clients || n != tt.clients {
				t.Errorf("%d clients, %d parties, want %d", e.Cohort.Clients, n, tt.clients)
			}
			if e.Schedule.First().Len != tt.coordinates || e.Schedule.First().MaxNonZero != tt.coordinates {
				t.Errorf("the release has %d coordinates, want the shared embeddings and a weight, %d", e.Schedule.First().Len, tt.coordinates)
			}
			checkNoise(t, e)
		})
	}
}

// checkNoise compares the noise of the release with the configuration.
func checkNoise(t *testing.T, e *experiment.Experiment) {
	t.Helper()
	n, c := e.Schedule.First().Noise, e.Config
	if !algorithm.Private(c) {
		if n != (protocol.Noise{}) || e.Privacy.Run != nil || !math.IsInf(e.Privacy.Budget.Epsilon, 1) {
			t.Errorf("without privacy the noise is %+v, the run costs %v of %v", n, e.Privacy.Run, e.Privacy.Budget)
		}
		return
	}
	want := protocol.Noise{Kind: protocol.PartyNoise, Multiplier: n.Multiplier, SamplingRate: opened.Number(c, "sampling-rate"), Steps: int(opened.Number(c, "local-steps")),
		Spread: algorithm.Name.Is(c, "vfl-sgdmf") && algorithm.Unit.Is(c, "user")} // all parties have a user's ratings
	if n != want || !(n.Multiplier > 0) {
		t.Errorf("the noise is %+v, want %+v with a multiplier", n, want)
	}
}

// A density never comes from ratings: without a published density it is a guess.
func TestDensityOfDataThatIsNotPublished(t *testing.T) {
	data := filepath.Join(t.TempDir(), "ratings.csv")
	text := "user,item,rating\n"
	for i := range 40 {
		text += string(rune('a'+i/5)) + "," + string(rune('a'+i%5)) + ",3\n"
	}
	if err := os.WriteFile(data, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	e := opened.Experiment(t, "algorithm=fmf-vfl parties=2 data="+data)
	if x := opened.Number(e.Config, "model.density"); x != 0.01 {
		t.Errorf("density is %v, want 0.01", x)
	}
	// The default of δ, and with it the noise, does not come from ratings either: 8 users, 5 items.
	if n := algorithm.PublicUnits(e.Config, algorithm.FactsOf(e.Data)); n != 40 || e.Split.Train.Len() == 40 {
		t.Errorf("δ is for %d ratings, want all 40 pairs; %d are in training", n, e.Split.Train.Len())
	}
}

// The more noise, the smaller the steps; rates that the user gave stay.
func TestRatesFallWithNoise(t *testing.T) {
	for _, a := range []string{"vfl-sgdmf", "hfl-sgdmf", "hfl-synsgd"} {
		t.Run(a, func(t *testing.T) {
			t.Parallel()
			item, user := 0.0, 0.0
			for _, epsilon := range []string{"1", "10", "100", "inf"} {
				c := opened.Experiment(t, "accountant=rdp algorithm="+a+" epsilon="+epsilon).Config
				u, v := opened.Number(c, userRate), opened.Number(c, itemRate)
				if !(v > item) || !(u >= user) || !(u > 0) || math.IsInf(u+v, 0) {
					t.Errorf("epsilon %s: rates %v and %v, after %v and %v with more noise", epsilon, u, v, user, item)
				}
				user, item = u, v
			}
			given := opened.Experiment(t, "accountant=rdp model.user-rate=0.125 model.item-rate=0.25 algorithm="+a).Config
			if u, v := opened.Number(given, userRate), opened.Number(given, itemRate); u != 0.125 || v != 0.25 {
				t.Errorf("rates %v and %v were given 0.125 and 0.25", u, v)
			}
		})
	}
}

// The keys of learning rates.
const userRate, itemRate = "model.user-rate", "model.item-rate"

// owned returns each party's items or users.
func owned(t *testing.T, e *experiment.Experiment) (parts [][]int32) {
	t.Helper()
	for _, p := range opened.Federation(t, e).Trainers {
		switch p := p.(type) {
		case *kernel.Vertical:
			parts = append(parts, p.Own)
		case *kernel.Horizontal:
			parts = append(parts, p.Own)
		}
	}
	return parts
}

// started returns the settings of a factorization, and the users' embeddings at the start as they are broadcast.
func started(t *testing.T, e *experiment.Experiment) (kernel.Params, *model.Matrix) {
	t.Helper()
	p, err := fedmf.ParamsOf(&e.Setup)
	if err != nil {
		t.Fatal(err)
	}
	users := p.StartUsers(e.Data.Users)
	model.Round(users.Data())
	return p, users
}

// rated is a training rating.
type rated struct {
	user, item int32
	value      float32
}

// training returns the columns of the split, in order.
func training(e *experiment.Experiment) []rated {
	train := e.Split.Train
	all := make([]rated, train.Len())
	for k := range all {
		all[k] = rated{train.User[k], train.Item[k], train.Value[k]}
	}
	slices.SortFunc(all, byUserAndItem)
	return all
}

func byUserAndItem(a, b rated) int {
	return int(a.user-b.user)<<20 + int(a.item-b.item)
}

// Every training rating reaches exactly one party, under its own user and item. Without noise and sampling a step moves a party's items
// and users by the sums of the gradients of all its ratings (FMF paper, section 4.1). The sum of an item is over the number of users times
// the density, and the sum of a user over the number of the party's items times the density. No user has the embedding of another user.
func TestPartiesOfVFLHoldTheTrainingPart(t *testing.T) {
	for _, settings := range []string{"parties=1", "parties=10", "parties=7 seed=3", "partition=category parties=3", "parties=400"} {
		e := opened.Experiment(t, "algorithm=fmf-vfl rounds=1 local-steps=1 sampling-rate=1 model.density=0.5 model.item-rate=0.125 model.user-rate=0.25 "+settings)
		params, users := started(t, e)
		start := params.StartItems()
		want, gain := start.Clone(), kernel.Schedule(0.125, 1, 1)/(0.5*float64(e.Data.Users))
		slopes := make([][]float64, e.Data.Items) // of users, by item
		for j := range slopes {
			slopes[j] = make([]float64, e.Data.Users)
		}
		for _, r := range training(e) { // of rank 1
			u, v := users.Row(int(r.user))[0], start.Row(int(r.item))[0]
			slope := 2 * (float64(r.value) - u*v)
			want.Row(int(r.item))[0] += gain * slope * u
			slopes[r.item][r.user] = slope * v
		}
		f := opened.Federation(t, e)
		plan, _, err := f.Strategy.Next()
		if err != nil {
			t.Fatal(err)
		}
		found := make([]int, e.Data.Items)
		for k, of := range f.Trainers {
			p := of.(*kernel.Vertical)
			if _, err := p.Contribute(plan, simulated.New(1, fmt.Sprint(k)), protocol.Workers(1)); err != nil {
				t.Fatal(err)
			}
			got, moved := p.Embeddings(), users.Clone()
			for i, j := range p.Own {
				found[j]++
				floats.AddScaled(moved.Data(), kernel.Schedule(0.25, 1, 1)/(0.5*float64(len(p.Own))), slopes[j])
				kernel.Project(want.Row(int(j)), params.MaxRating)
				if math.Abs(got.Row(i)[0]-want.Row(int(j))[0]) > 1./(1<<24) { // the grid of messages
					t.Errorf("%s: item %d of party %d is at %v after a step, want %v", settings, j, k, got.Row(i), want.Row(int(j)))
				}
			}
			for u := range moved.Rows() {
				if kernel.Project(moved.Row(u), params.MaxRating); math.Abs(moved.Row(u)[0]-p.Users.Row(u)[0]) > 1e-9 {
					t.Errorf("%s: user %d is at %v with party %d after a step, want %v", settings, u, p.Users.Row(u), k, moved.Row(u))
				}
			}
		}
		if j := slices.IndexFunc(found, func(n int) bool { return n != 1 }); j >= 0 {
			t.Errorf("%s: item %d is with %d parties", settings, j, found[j])
		}
	}
}

// Parties by category differ from random ones, and the trainers own what the
// partition says.
func TestPartitionReachesTheParties(t *testing.T) {
	random, category := opened.Experiment(t, "algorithm=fmf-vfl parties=3"), opened.Experiment(t, "algorithm=fmf-vfl parties=3 partition=category")
	if cmp.Equal(owned(t, random), owned(t, category)) {
		t.Error("dealt by category, parties own the same items as at random")
	}
	for by, e := range map[split.Partitioning]*experiment.Experiment{split.RandomPartition: random, split.CategoryPartition: category} {
		want, err := split.PartitionItems(e.Data, by, 3, algorithm.Seed.Of(e.Config))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([][]int32(want), owned(t, e)); d != "" {
			t.Errorf("%s: parties own other items (-want +got):\n%s", by, d)
		}
	}
}

// Every user is with exactly one party of HFL, which fits it to all its
// training ratings: by an embedding that depends on each of them.
func TestPartiesOfHFLHoldTheTrainingPart(t *testing.T) {
	e := opened.Experiment(t, "algorithm=fmf-hfl parties=7 rounds=1")
	own := make([]model.Ratings, e.Data.Users)
	for _, r := range training(e) {
		own[r.user].Items, own[r.user].Values = append(own[r.user].Items, r.item), append(own[r.user].Values, r.value)
	}
	f, err := e.Federation()
	if err != nil {
		t.Fatal(err)
	}
	plan, _, err := f.Strategy.Next()
	if err != nil {
		t.Fatal(err)
	}
	params, _ := started(t, e)
	found, start := make([]int, e.Data.Users), params.StartItems()
	model.Round(start.Data()) // as it is broadcast
	for k, of := range f.Trainers {
		p := of.(*kernel.Horizontal)
		if _, err := p.Contribute(plan, simulated.New(1, fmt.Sprint(k)), protocol.Workers(1)); err != nil {
			t.Fatal(err)
		}
		for i, u := range p.Own {
			found[u]++
			want := params.User(own[u], start)
			if got := p.Users.Row(i); math.Abs(got[0]-want[0]) > 1e-9 {
				t.Errorf("user %d of party %d is fitted to %v, want %v", u, k, got, want)
			}
		}
	}
	if u := slices.IndexFunc(found, func(n int) bool { return n != 1 }); u >= 0 {
		t.Errorf("user %d is with %d parties", u, found[u])
	}
}

// A run without noise and a run of parties training alone have the same parties, data and start,
// but another session: the draws of one say nothing about the other's.
func TestVariantsOfOrganisations(t *testing.T) {
	for _, a := range []string{"vfl-sgdmf", "hfl-sgdmf", "hfl-synsgd"} {
		e := opened.Experiment(t, "accountant=rdp dropout=0.2 leave=0.1 away=0.1 algorithm="+a)
		n := opened.Vary(t, e, "non_private")
		if n.Schedule.First().Noise != (protocol.Noise{}) || algorithm.Private(n.Config) || n.Privacy.Run != nil || n.Session() == e.Session() {
			t.Errorf("%s: without noise it has noise %+v and session %x", a, n.Schedule.First().Noise, n.Session())
		}
		if with, without := opened.Number(e.Config, itemRate), opened.Number(n.Config, itemRate); !(without > with) || algorithm.Dropout.Of(n.Config) != config.Fixed(0.2) || algorithm.Leave.Value(n.Config) != 0.1 {
			t.Errorf("%s: without noise the rate is %v, with noise %v; dropout %v", a, without, with, algorithm.Dropout.Of(n.Config))
		}
		if n.Split != e.Split || !cmp.Equal(owned(t, n), owned(t, e)) || !bytes.Equal(opened.Federation(t, n).Strategy.Model(), opened.Federation(t, e).Strategy.Model()) {
			t.Errorf("%s: without noise there are other parties", a)
		}
		if e.Schedule.First().Noise.Kind != protocol.PartyNoise || !algorithm.Private(e.Config) {
			t.Errorf("%s: making the variant changed the experiment", a)
		}
	}
	e := opened.Experiment(t, "algorithm=vfl-sgdmf accountant=rdp dropout=0.2 leave=0.1 away=0.1")
	l := opened.Vary(t, e, "local_only")
	// The noise is the same, and no averaging reduces it.
	if alone, together := opened.Number(l.Config, userRate), opened.Number(e.Config, userRate); !(alone < together) {
		t.Errorf("alone the rate is %v, together %v", alone, together)
	}
	var differ []string
	for _, k := range l.Config.Differs(e.Config) {
		differ = append(differ, k.Name)
	}
	slices.Sort(differ)
	if want := []string{"away", "dropout", "leave", userRate}; !slices.Equal(differ, want) {
		t.Errorf("alone %q are other settings, want %q", differ, want)
	}
	if !reflect.DeepEqual(l.Schedule, e.Schedule) || l.Session() == e.Session() || algorithm.Dropout.Of(l.Config) != config.Fixed(0) || algorithm.Leave.Value(l.Config) != 0 || algorithm.Away.Value(l.Config) != 0 {
		t.Errorf("alone: release %+v, session %x, dropout %v", l.Schedule, l.Session(), algorithm.Dropout.Of(l.Config))
	}
	for _, a := range []string{"lfl-sgdmf", "hfl-sgdmf"} {
		for _, b := range opened.Experiment(t, "accountant=rdp algorithm="+a).Baselines() {
			if b.Alone || b.Name == "local_only" && b.Predict == nil {
				t.Errorf("%s: training alone is a run of its own: %+v", a, b)
			}
		}
	}
}
