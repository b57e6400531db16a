package training_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/forecast"
	"github.com/fedsim/fedsim/internal/opened"
)

// deployable are experiments of every algorithm, and with every choice that parties
// must agree on.
var deployable = []string{
	"", "epsilon=inf", "contribution=all-ratings epsilon=3 rank=2", "accountant=gdp-skellam mode=active secagg=real data=",
	"algorithm=fmf-lfl seed=7 split.validation=0.2 rating-max=6",
	"algorithm=vfl-sgdmf rounds=10 accountant=rdp", "algorithm=vfl-sgdmf unit=user item-steps=7 rounds=3 accountant=rdp parties=5",
	"algorithm=vfl-sgdmf partition=category parties=3 accountant=rdp clipping=both clip-norm=2", "algorithm=fmf-vfl secagg=real mode=active",
	"algorithm=hfl-sgdmf train=both accountant=rdp", "algorithm=hfl-synsgd accountant=rdp rounds=20", "algorithm=fmf-hfl parties=3 tolerance=0",
	"algorithm=ssp-c", "algorithm=dp-cmf accountant=gdp-skellam features=year", "algorithm=ada-dpals rank=2 epsilon=inf", "algorithm=ssp-c feedback=implicit",
	"algorithm=ssp-c features=none statistics.shares.bias=0.3", "algorithm=private-item-bias secagg=real mode=active data=",
	"split.by=leave-one-out", "algorithm=ssp-c statistics.norm-bias=0 statistics.norm-items=0 statistics.growth=1",
}

// An agreement states each agreed key of its algorithm, defaults included, and no key of another algorithm or of a simulation.
// The names are from the page of keys.
func TestAgreementStatesKeysOfItsAlgorithm(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]struct{ stated, left []string }{
		"algorithm=ssp-c feedback=implicit split.least=2": {[]string{"split.least", "statistics.decay", "rank", "epsilon"}, []string{"cmf.sweeps", "clip-norm", "model.learning-rate", "dropout", "workers"}},
		"algorithm=ssp-c":                     {[]string{"statistics.norm-bias", "statistics.gramian"}, []string{"model.density", "gradient.clip"}},
		"split.by=leave-one-out split.seed=7": {[]string{"clip-norm", "cohort.size"}, []string{"split.by", "split.seed", "split.test", "statistics.decay", "regression.clip"}},
	} {
		p := publish(t, opened.Experiment(t, settings))
		text, err := p.Encode()
		if err != nil {
			t.Fatal(err)
		}
		var form struct{ Config map[string]string }
		if err := json.Unmarshal(text, &form); err != nil {
			t.Fatal(err)
		}
		for _, name := range want.stated {
			if _, ok := form.Config[name]; !ok {
				t.Errorf("%s: %s is missing", settings, name)
			}
		}
		for _, name := range want.left {
			if value, ok := form.Config[name]; ok {
				t.Errorf("%s: %s is stated as %q", settings, name, value)
			}
		}
		if _, err := agreement.Decode(text); err != nil {
			t.Errorf("%s: %v", settings, err)
		}
	}
}

// TestPublicIsTheExperiment checks that a party derives from public facts what the simulator, which has all ratings,
// derives from the data: the same cohort, release, noise, budget, settings and model.
func TestPublicIsTheExperiment(t *testing.T) {
	for i, settings := range deployable {
		t.Run(settings, func(t *testing.T) {
			if i%2 > 0 {
				effort.LongOnly(t, "every second one has each form")
			}
			if i%4 > 0 {
				effort.NotShort(t, "every fourth one is of another kind")
			}
			t.Parallel()
			if before, ok := strings.CutSuffix(settings, "data="); ok { // of the active mode it must be small
				settings = before + "data=" + opened.Crowd(t, 60, 20, 1)
			}
			from := opened.Experiment(t, settings)
			p := publish(t, from)
			arrived := carried(t, p)
			if diff := cmp.Diff(p, arrived); diff != "" {
				t.Fatalf("on the way it changes (-sent +arrived):\n%s", diff)
			}
			e, err := agreement.Open(arrived)
			if err != nil {
				t.Fatal(err)
			}
			// The simulation that sums as a deployment does, and in the same session.
			c := from.Config
			algorithm.Secagg.Set(&c, "real")
			if algorithm.NoiseDraw.Is(c, "sum") {
				algorithm.NoiseDraw.Set(&c, "client")
			}
			sim, err := experiment.Open(t.Context(), c, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(e.Schedule, sim.Schedule) || e.Cohort != sim.Cohort || e.Privacy.Budget != sim.Privacy.Budget {
				t.Errorf("release %+v, cohort %+v, budget %+v\nof the simulation %+v, %+v, %+v", e.Schedule, e.Cohort, e.Privacy.Budget, sim.Schedule, sim.Cohort, sim.Privacy.Budget)
			}
			if e.Session() != someSession || e.Mode() != sim.Mode() || e.Draw() != sim.Draw() || !e.Real() {
				t.Errorf("session %x, mode %s, real %t", e.Session(), e.Mode(), e.Real())
			}
			if diff := cmp.Diff(sim.Config, e.Config); len((&agreement.Public{Config: sim.Config}).Other(&agreement.Public{Config: e.Config})) > 0 {
				t.Errorf("configuration (-simulation +deployment):\n%s", diff)
			}
			for _, a := range []*experiment.Experiment{from, sim} {
				got, err := e.Planned()
				want, err2 := a.Planned()
				if err != nil || err2 != nil || got != want || e.Statement(got) != a.Statement(want) {
					t.Errorf("planned %v, %v, want %v, %v", got, err, want, err2)
				}
			}
			checkStrategies(t, e, sim)
		})
	}
}

// checkStrategies compares what the server's sides of two experiments plan.
func checkStrategies(t *testing.T, a, b *experiment.Experiment) {
	t.Helper()
	one, err := a.Strategy()
	if err != nil {
		t.Fatal(err)
	}
	other, err := b.Instance().Strategy(a.Session())
	if err != nil {
		t.Fatal(err)
	}
	for range a.Schedule.Rounds() {
		p, done, err := one.Next()
		q, done2, err2 := other.Next()
		if err != nil || err2 != nil || done || done2 {
			t.Fatal(err, err2, done, done2)
		}
		if diff := cmp.Diff(q, p); diff != "" {
			t.Fatalf("plan (-simulation +deployment):\n%s", diff)
		}
	}
	if _, done, err := one.Next(); !done || err != nil {
		t.Errorf("there is another round, or %v", err)
	}
}

// The encoding of a small experiment. Its hash was computed with Python's hashlib from
// the file: SHA-256 of domain and file, each behind its length in eight bytes, big endian.
func TestPublicFile(t *testing.T) {
	c, err := config.Resolve(opened.Settings("algorithm=fmf-lfl accountant=rdp rounds=2 rating-max=5 rating-min=1 tolerance=0.25"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := agreement.Publish(c, agreement.Facts{Name: "three", Min: 1, Max: 5, Users: 80, ItemIDs: []string{"<a> & b", "é", "10"}}, someSession)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/public.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("it is\n%s\nwant\n%s", got, want)
	}
	hash, err := p.Hash()
	if err != nil || hex.EncodeToString(hash[:]) != "40552d856486b5c0429038a179d1a32713631d6d2d251b350c8c8c30f2dd6b92" {
		t.Errorf("hash %x, %v", hash, err)
	}
}

// TestPublicTellsNothingElse checks that nothing public depends on a rating: the same users and items with other ratings, of
// other items each, publish the same bytes. The bytes do not contain the place of the data, the user of the program or,
// except with VFL, the ids of the users.
func TestPublicTellsNothingElse(t *testing.T) {
	for _, settings := range []string{"", "contribution=all-ratings", "algorithm=vfl-sgdmf delta=1e-7 accountant=rdp", "algorithm=vfl-sgdmf unit=user accountant=rdp", "algorithm=hfl-sgdmf accountant=rdp"} {
		var first []byte
		for seed := range 3 {
			e := opened.Experiment(t, settings+" data="+opened.Crowd(t, 60, 20, seed)+fmt.Sprintf(" workers=%d out=results-%d name=secret-%d", seed, seed, seed))
			b, err := publish(t, e).Encode()
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = b
			}
			if !bytes.Equal(first, b) {
				t.Errorf("%s: with other ratings it is\n%s\ninstead of\n%s", settings, b, first)
			}
			for _, private := range []string{filepath.Dir(algorithm.Data.Of(e.Config)), "secret", "results-", e.Data.Digest, e.Split.Digest} {
				if bytes.Contains(b, []byte(private)) {
					t.Errorf("%s: it holds %q", settings, private)
				}
			}
			if got, want := bytes.Contains(b, []byte("someone-")), strings.Contains(settings, "vfl"); got != want {
				t.Errorf("%s: users are named: %t, want %t", settings, got, want)
			}
		}
	}
}

// A server that holds no ratings publishes the same from the list of items.
func TestPublishWithoutRatings(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "films")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ratings, movies := "userId,movieId,rating,timestamp\n", "movieId,title,genres\n"
	genres := []string{"Drama", "Comedy|Drama", "War", "(no genres listed)"}
	for i := range 21 {
		movies += fmt.Sprintf("%d,Film %d (1990),%s\n", i+1, i+1, genres[i%4])
		for u := range 61 {
			if (u+i)%3 > 0 && i != 4 {
				ratings += fmt.Sprintf("%d,%d,%d,0\n", u+1, i+1, 1+(u*i)%5)
			}
		}
	}
	for name, content := range map[string]string{"ratings.csv": ratings, "movies.csv": movies} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, settings := range []string{"algorithm=lfl-sgdmf", "algorithm=vfl-sgdmf partition=category parties=3 accountant=rdp", "algorithm=vfl-sgdmf accountant=rdp", "algorithm=hfl-sgdmf accountant=rdp"} {
		e := opened.Experiment(t, settings+" data="+dir)
		want, err := publish(t, e).Encode()
		if err != nil {
			t.Fatal(err)
		}
		c, err := config.Resolve(opened.Settings(settings))
		if err != nil {
			t.Fatal(err)
		}
		items, err := read.Items(t.Context(), dir, read.Options{})
		if err != nil {
			t.Fatal(err)
		}
		items.Users = 61
		for u := range 61 {
			items.UserIDs = append(items.UserIDs, fmt.Sprint(u+1))
		}
		f, err := agreement.FactsOf(c, items)
		if err != nil {
			t.Fatal(err)
		}
		p, err := agreement.Publish(c, f, someSession)
		if err != nil {
			t.Fatalf("%s: %v", settings, err)
		}
		if got, err := p.Encode(); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: it is\n%s\nwant\n%s (%v)", settings, got, want, err)
		}
	}
}

// How many ratings there are is not public, so δ must be small enough for as many as
// there may be, unless they are published: with the ratings at hand as without them.
func TestPublicDelta(t *testing.T) {
	data := opened.Crowd(t, 60, 20, 1) // 1,029 ratings of 1,200 pairs
	for settings, refused := range map[string]bool{
		"delta=9e-4": true, "delta=8.4e-4": true, "delta=8.3e-4": false,
	} {
		e, err := opened.Try(t, "algorithm=vfl-sgdmf parties=4 accountant=rdp data="+data+" "+settings)
		if err == nil {
			_, err = agreement.Of(e, someSession)
		}
		if got := err != nil && strings.Contains(err.Error(), "how many ratings there are is not public, there may be up to 1200"); got != refused || (err != nil) != refused {
			t.Errorf("%s: %v", settings, err)
		}
	}
	for settings, refused := range map[string]bool{"delta=5.1e-5": true, "delta=4.9e-5": false} { // 20,000 are published of synthetic:small
		e, err := opened.Try(t, "algorithm=vfl-sgdmf accountant=rdp "+settings)
		if err == nil {
			_, err = agreement.Of(e, someSession)
		}
		if (err != nil) != refused {
			t.Errorf("%s: %v", settings, err)
		}
	}
}

// TestPublicHasNoRatings checks that methods that need ratings say that there are none, and that other methods work as with ratings.
func TestPublicHasNoRatings(t *testing.T) {
	from := opened.Experiment(t, "algorithm=vfl-sgdmf accountant=rdp secagg=real")
	e := opened.Joined(t, from)
	_, federation := e.Federation()
	_, nonPrivate := e.Vary(baseline(t, from, "non_private"))
	_, local := e.Vary(baseline(t, from, "local_only"))
	for what, err := range map[string]error{"federation": federation, "without noise": nonPrivate, "local only": local} {
		if err != experiment.ErrNoRatings {
			t.Errorf("%s: %v", what, err)
		}
	}
	if list := e.Baselines(); len(list) > 0 {
		t.Errorf("%d baselines follow from nothing", len(list))
	}
	if q := e.Test.Measure(constant(3), inTurn{}); !math.IsNaN(q.RMSE) || e.Test.Validate(constant(3), inTurn{}) != nil {
		t.Errorf("quality %+v is measured on nothing", q)
	}
	got, err := forecast.New(e)
	if err != nil {
		t.Fatal(err)
	}
	want, err := forecast.New(from)
	if err != nil {
		t.Fatal(err)
	}
	want.Data.TrainingRatings, want.Data.TestRatings = 0, 0
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(forecast.Forecast{})); diff != "" {
		t.Errorf("forecast (-with ratings +without):\n%s", diff)
	}
}

// TestPublicKnowsNoConnections checks that connections belong to a simulation alone: a model that would take longer than a stage
// over them can be deployed. At 10 Mbit/s its 61 million coordinates take minutes.
func TestPublicKnowsNoConnections(t *testing.T) {
	c, err := config.Resolve(opened.Settings("algorithm=fmf-lfl rank=1024 network.stage-timeout-s=60"))
	if err != nil {
		t.Fatal(err)
	}
	f := agreement.Facts{Name: "large", Min: 0, Max: 5, Users: 100}
	for j := range 60_000 {
		f.ItemIDs = append(f.ItemIDs, fmt.Sprint(j))
	}
	p, err := agreement.Publish(c, f, someSession)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = agreement.Open(p); err != nil {
		t.Fatal(err)
	}
	var ratings []read.Rating
	for j, id := range f.ItemIDs {
		ratings = append(ratings, read.Rating{User: fmt.Sprint(j % f.Users), Item: id, Value: 1})
	}
	all, err := read.FromRatings(f.Name, ratings, read.Options{Min: &f.Min, Max: &f.Max})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = experiment.OpenSet(c, all); err == nil || !strings.Contains(err.Error(), "network.stage-timeout-s") {
		t.Errorf("over the connections of a simulation it would be fast enough: nothing is shown here: %v", err)
	}
}

// An experiment in which parties train alone is nothing to agree on.
func TestLocalOnlyIsNotPublic(t *testing.T) {
	e := opened.Experiment(t, "algorithm=vfl-sgdmf epsilon=inf")
	l, err := e.Vary(baseline(t, e, "local_only"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := agreement.Of(l, someSession); err == nil {
		t.Error("published")
	}
}

// Statements of any run can be stated, an infinite ε too.
func TestPublicWithoutPrivacy(t *testing.T) {
	p := carried(t, publish(t, opened.Experiment(t, "algorithm=fmf-lfl")))
	if !math.IsInf(p.Terms.Budget.Epsilon, 1) || !math.IsInf(p.Terms.Privacy.Epsilon, 1) || p.Terms.Privacy.Accountant != dp.Unaccounted {
		t.Errorf("budget %+v, privacy %s", p.Terms.Budget, p.Terms.Privacy)
	}
}
