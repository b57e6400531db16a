package fedssp

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	_ "github.com/fedsim/fedsim/fedmf"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/settings"
	"github.com/fedsim/fedsim/internal/fedssp/solver"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/protocol"
)

// This table holds the releases of each algorithm, as the papers and the design have them: names by
// round.
func TestReleasesOfStatistics(t *testing.T) {
	for settings, want := range map[string]string{
		"algorithm=dpals": "mean | weight-counts gramians moments | gramians moments | gramians moments",
		"algorithm=dpals statistics.budgeting=tail":          "counts mean | weight-counts gramians moments | gramians moments | gramians moments",
		"algorithm=ada-dpals":                                "counts mean | weight-counts gramians moments | gramians moments | gramians moments",
		"algorithm=dp-cmf rounds=1":                          "mean | bias weight-counts | bias weight-counts | gramian moments",
		"algorithm=ssp-c":                                    "mean | bias weight-counts | bias weight-counts | gramian moments",
		"algorithm=ssp-c epsilon=8.4":                        "mean | bias weight-counts | bias weight-counts | gramian moments",
		"algorithm=ssp-c epsilon=1":                          "mean | bias weight-counts | bias weight-counts | gramian moments",
		"algorithm=ssp-c epsilon=1 statistics.bias-rounds=1": "mean | bias weight-counts | gramian moments",
		"algorithm=ssp-c epsilon=1 statistics.top-items=0.1 statistics.choose-by=weights":       "mean | bias weight-counts | gramian moments",
		"algorithm=ssp-c epsilon=1 statistics.top-items=0.1":                                    "counts mean | bias weight-counts | bias weight-counts | gramian moments",
		"algorithm=ssp-c encoder.optimiser=adam":                                                "mean | bias weight-counts | bias weight-counts | gramian moments | gramian moments | gramian moments",
		"algorithm=ssp-c statistics.mean-cap=0 rounds=1":                                        "bias weight-counts | bias weight-counts | gramian moments",
		"algorithm=ssp-c rounds=1 statistics.gramian=per-item":                                  "mean | bias weight-counts | bias weight-counts | gramians moments",
		"algorithm=ssp-i rounds=1 statistics.resample=3":                                        "mean | bias weight-counts | bias weight-counts | gramian moments | gramian moments | gramian moments",
		"algorithm=am-ssp rounds=1":                                                             "counts mean | weight-counts gramians moments",
		"algorithm=ssp-convex rounds=1":                                                         "mean | bias weight-counts | bias weight-counts | gramian gradients",
		"algorithm=ssp-convex rounds=1 statistics.gramian=per-item":                             "mean | bias weight-counts | bias weight-counts | hessians gradients",
		"algorithm=private-item-bias":                                                           "mean | bias weight-counts | bias weight-counts",
		"algorithm=private-item-bias epsilon=8.3":                                               "mean | bias weight-counts | bias weight-counts",
		"algorithm=private-item-bias feedback=implicit":                                         "weight-counts",
		"algorithm=ssp-c feedback=implicit epsilon=1":                                           "weight-counts",
		"algorithm=ssp-c feedback=implicit statistics.learn=popularity statistics.exponent=0.1": "counts | weight-counts",
		"algorithm=dp-cmf feedback=implicit":                                                    "weight-counts",
		"algorithm=dp-cmf feedback=implicit epsilon=31":                                         "weight-counts gramian moments | gramian moments | gramian moments",
		"algorithm=ssp-c feedback=implicit rounds=1":                                            "weight-counts gramian moments",
		"algorithm=ada-dpals feedback=implicit rounds=1":                                        "counts | weight-counts gramian gramians moments",
		"algorithm=ada-dpals statistics.bias-first=yes rounds=1":                                "counts mean | bias weight-counts | bias weight-counts | gramians moments",
	} {
		e := opened.Experiment(t, settings)
		var got []string
		for round := uint64(1); e.Plan(round) != nil; round++ {
			var names []string
			for _, r := range e.Plan(round).Releases {
				names = append(names, r.Name)
			}
			got = append(got, strings.Join(names, " "))
		}
		if text := strings.Join(got, " | "); text != want {
			t.Errorf("%s releases %s, want %s", settings, text, want)
		}
		if n := e.About().Sums(e.Config); n != len(got) {
			t.Errorf("%s: %d rounds are counted, and %d planned", settings, n, len(got))
		}
	}
}

// The models of a run are never longer than its steps say, and the longest is as long.
func TestModelsOfStatistics(t *testing.T) {
	for _, settings := range []string{"algorithm=ssp-c", "algorithm=private-item-bias", "algorithm=ada-dpals", "algorithm=ssp-c feedback=implicit"} {
		e := opened.Experiment(t, settings)
		f := opened.Federation(t, e)
		rounds := e.Schedule.Rounds()
		for i := range rounds {
			p, _, err := f.Strategy.Next()
			if err != nil {
				t.Fatal(err)
			}
			if size := e.Schedule.At(p.Round).Model; len(p.Broadcast) > size || i < rounds-1 && len(p.Broadcast) != size {
				t.Errorf("%s: round %d comes with %d bytes, said were %d", settings, p.Round, len(p.Broadcast), size)
			}
			sums := protocol.Sums{Survivors: e.Cohort.Required()}
			for _, r := range p.Releases {
				sums.Values = append(sums.Values, slices.Repeat([]float64{1}, r.Len)) // zeros leave V out
			}
			if err := f.Strategy.Absorb(p, sums, protocol.Workers(1)); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(f.Strategy.Model()); n != e.Schedule.Model() {
			t.Errorf("%s: the final model has %d bytes, said were %d", settings, n, e.Schedule.Model())
		}
	}
}

// Steps are joined where they ask for the same at the same share of the budget only.
func TestMergedSteps(t *testing.T) {
	step := protocol.Step{Rounds: 1, Phase: "statistics", Releases: []protocol.Release{{Name: "gramian", Len: 6, L2: 1, MaxNonZero: 6, Scale: 200}, {Name: "moments", Len: 80, L2: 2, MaxNonZero: 80, Scale: 200}}}
	other := step
	other.Phase = "bias"
	steps, shares := merged(protocol.Schedule{step, step, step, other, step}, [][]float64{{0.1, 0.2}, {0.1, 0.2}, {0.2, 0.1}, {0.1, 0.2}, {0.1, 0.2}})
	var counts []int
	for _, s := range steps {
		counts = append(counts, s.Rounds)
	}
	if !slices.Equal(counts, []int{2, 1, 1, 1}) || len(shares) != 4 || shares[1][0] != 0.2 {
		t.Errorf("steps of %v rounds with shares %v", counts, shares)
	}
}

// If ε·users is small, items are known by their features. Here there are 600 users, and the limit
// is ε·users of 6,040 users at ε = 3, so ε = 30.2. Given values stay.
func TestDefaultsGoByHowMuchThereIsToLearn(t *testing.T) {
	for settings, want := range map[string]string{
		"algorithm=am-ssp epsilon=30":                                             "no 0.001 2 0.1",
		"algorithm=am-ssp-ids epsilon=30":                                         "no 0.001 2 0.1",
		"algorithm=am-ssp-ids epsilon=30.5":                                       "yes 0.03 0.3 5",
		"algorithm=am-ssp-ids epsilon=inf":                                        "yes 0.03 0.3 20",
		"algorithm=ssp-i epsilon=1":                                               "yes 0.09486832980505137 0.3 20",   // 0.3/√10
		"algorithm=ssp-i epsilon=1 feedback=implicit":                             "yes 0.09486832980505137 0.3 auto", // what many rated is all that is learned
		"algorithm=ssp-i epsilon=1 feedback=implicit statistics.learn=embeddings": "yes 0.09486832980505137 0.3 5",    // rankings are learned, or they are nothing
		"algorithm=am-ssp epsilon=inf":                                            "no 0.03 0.3 20",                   // as published, it has no embedding of an item's own
		"algorithm=am-ssp features=none":                                          "auto auto auto 5",
		"algorithm=ssp-convex epsilon=1":                                          "yes 0.03 0.3 20",
		"algorithm=dp-cmf epsilon=30":                                             "1",
		"algorithm=dp-cmf epsilon=30.5":                                           "0.2",
		"algorithm=am-ssp epsilon=1 encoder.ids=yes encoder.rate=0.5 encoder.start-norm=4 statistics.item-prior=7": "yes 0.5 4 7",
		"algorithm=dp-cmf epsilon=1 cmf.feature-weight=0.7":                                                        "0.7",
	} {
		c := opened.Experiment(t, settings).Config
		got := texts(c, "encoder.ids", "encoder.rate", "encoder.start-norm", "statistics.item-prior")
		if algorithm.Name.Is(c, "dp-cmf") {
			got = texts(c, "cmf.feature-weight")
		}
		if got != want {
			t.Errorf("%s: %s, want %s", settings, got, want)
		}
	}
}

// Noise decides how often and how much is taken; without it nothing is clipped or left out on its
// account.
func TestDefaultsWithoutNoise(t *testing.T) {
	for settings, want := range map[string]string{ // on a scale of 0.5 to 5; half of its length is 2.25
		"algorithm=dpals epsilon=1":                               "3 4 1.125 1 1 5 100",
		"algorithm=dpals epsilon=inf":                             "12 8 4.5 4 4 20 1000",
		"algorithm=dp-cmf epsilon=1":                              "4 4 1.125 1 2 10 auto",
		"algorithm=dp-cmf epsilon=inf":                            "12 8 4.5 4 4 20 auto",
		"algorithm=ssp-c epsilon=1":                               "1 1 1.125 1 2 auto auto",
		"algorithm=ssp-c epsilon=inf":                             "16 12 4.5 10.392304845413264 auto auto auto", // three times the root of the rank
		"algorithm=ssp-c epsilon=inf statistics.posteriors=no":    "12 4 1.125 1 4 auto auto",
		"algorithm=ssp-i epsilon=1":                               "2 4 1.125 1 1 20 auto",
		"algorithm=ada-dpals epsilon=1":                           "3 4 1.125 1 1 5 auto",
		"algorithm=ada-dpals epsilon=1 statistics.bias-first=yes": "3 4 1.125 1 1 20 auto",
		"algorithm=dp-cmf epsilon=1 statistics.bias-first=no":     "3 4 1.125 1 1 5 auto",
	} {
		c := opened.Experiment(t, settings).Config
		if got := texts(c, "rounds", "rank", "statistics.clip-rating", "statistics.clip-user", "statistics.user-ridge", "statistics.item-prior", "statistics.per-user"); got != want {
			t.Errorf("%s: %s, want %s", settings, got, want)
		}
	}
}

// The rank of ssp-c follows ε·users: 1 below 2,400, 2 below 12,500, else 4. Here there are 600 users, so the limits are at ε = 4
// and at ε = 20.83.
func TestRankFollowsTheBudget(t *testing.T) {
	for epsilon, want := range map[string]string{"3.99": "1", "4": "2", "20.83": "2", "20.84": "4", "inf": "4"} {
		c := opened.Experiment(t, "algorithm=ssp-c statistics.posteriors=no epsilon="+epsilon).Config
		if got := texts(c, "rank"); got != want {
			t.Errorf("epsilon %s: the rank is %s, want %s", epsilon, got, want)
		}
	}
}

// A rank above the default's takes proportionally more ridge. Tastes weigh more by the root of that
// factor, so ridge over squared weight, which holds tastes back, stays. Rankings have settings of
// their own.
func TestRidgeFollowsTheRank(t *testing.T) {
	for settings, want := range map[string]string{
		"algorithm=ssp-c rank=2":              "2 0.35",
		"algorithm=ssp-c":                     "2 0.35",
		"algorithm=ssp-c rank=16":             "8 0.7",
		"algorithm=ssp-c rank=12 epsilon=inf": "auto 0.35", // priors are learned
		"algorithm=ssp-c rank=16 epsilon=inf statistics.posteriors=no":                       "16 0.7",
		"algorithm=ssp-c rank=16 feedback=implicit":                                          "2 auto",
		"algorithm=dp-cmf rank=16":                                                           "2 0.35",
		"algorithm=ssp-c rank=16 statistics.user-ridge=3 statistics.user-feature-weight=0.1": "3 0.1",
	} {
		if got := texts(opened.Experiment(t, settings).Config, "statistics.user-ridge", "statistics.user-feature-weight"); got != want {
			t.Errorf("%s: ridge and taste weight %s, want %s", settings, got, want)
		}
	}
}

// A private bias of every item gets the whole budget of the run that it is compared with,
// and nothing else is released.
func TestPrivateItemBiasOfAnExperiment(t *testing.T) {
	e := opened.Experiment(t, "algorithm=dp-cmf epsilon=3 dropout=0.2 secagg=real statistics.clip-bias=1")
	b := opened.Vary(t, e, "private_item_bias")
	same := opened.Experiment(t, "algorithm=private-item-bias epsilon=3 dropout=0.2")
	if !slices.EqualFunc(b.Schedule, same.Schedule, func(a, b protocol.Step) bool { return a.Alike(b) && a.Rounds == b.Rounds }) {
		t.Errorf("its steps are %+v, want %+v", b.Schedule, same.Schedule)
	}
	planned, err := b.Planned()
	if err != nil || planned.Epsilon > 3 || planned.Epsilon < 2.999 || !algorithm.Secagg.Is(b.Config, "ideal") ||
		algorithm.Dropout.Of(b.Config) != config.Fixed(0.2) || b.Session() == e.Session() {
		t.Errorf("planned is %v, %v with secagg %s and dropout %v", planned, err, algorithm.Secagg.Of(b.Config), algorithm.Dropout.Of(b.Config))
	}
	if e.About().Name != "dp-cmf" || e.Features == nil || settings.Keys.ClipBias.Of(e.Config) != config.Fixed(1) || !e.Real() {
		t.Error("making the variant changed the experiment")
	}
	for _, settings := range []string{"algorithm=private-item-bias", "", "algorithm=ssp-c feedback=implicit", "algorithm=fmf-hfl"} {
		for _, b := range opened.Experiment(t, settings).Baselines() {
			if b.Name == "private_item_bias" && !b.Itself {
				t.Errorf("%q: it is to be compared with %+v", settings, b)
			}
		}
	}
}

// Features of the set are used by default. Features that were asked for must be there. A deployment
// takes them from its facts.
func TestFeaturesOfAnExperiment(t *testing.T) {
	effort.NotShort(t, "whole runs")
	for settings, want := range map[string]string{
		"algorithm=dp-cmf": "genres year", "algorithm=ssp-c": "era genre-era genres", "algorithm=ssp-c features=year": "year", "algorithm=ssp-c features=none": "",
		"algorithm=ada-dpals": "", "algorithm=private-item-bias": "", "": "",
	} {
		e := opened.Experiment(t, settings)
		other := opened.Joined(t, e)
		for _, x := range []*experiment.Experiment{e, other} {
			var names []string
			if x.Features != nil {
				for _, c := range x.Features.Categories {
					names = append(names, c.Name)
				}
			}
			if got := strings.Join(names, " "); got != want {
				t.Errorf("%q learns from features %q, want %q", settings, got, want)
			}
		}
		if got := algorithm.FeatureSpec.Of(other.Config); (got == "stated") != (want != "") {
			t.Errorf("%q: what is public says features %s", settings, got)
		}
	}
	plain := "data=" + opened.Crowd(t, 60, 20, 1)
	if e := opened.Experiment(t, "algorithm=ssp-c "+plain); e.Features != nil || !algorithm.FeatureSpec.Is(e.Config, "none") || ssp(e).Solver != solver.Pooled || ssp(e).UserFeatures != nil {
		t.Errorf("of a set without features there are %v, %s, solver %s", e.Features, algorithm.FeatureSpec.Of(e.Config), ssp(e).Solver)
	}
	for _, settings := range []string{"algorithm=dp-cmf", "algorithm=ssp-c features=genres"} {
		c, err := config.Resolve(opened.Settings(settings + " " + plain))
		if err != nil {
			t.Fatal(err)
		}
		var wrong *config.Error
		if _, err = experiment.Open(t.Context(), c, nil); !errors.As(err, &wrong) || !strings.HasPrefix(err.Error(), "features: ") {
			t.Errorf("%s: error %v, want one about features", settings, err)
		}
	}
}

// texts are the values of keys, with spaces between.
func texts(c config.Config, names ...string) string {
	var list []string
	for _, name := range names {
		list = append(list, c.Text(config.Find(name)))
	}
	return strings.Join(list, " ")
}

// ssp are the settings that an experiment trains by.
func ssp(e *experiment.Experiment) *kernel.Params { return &e.Instance().(*instance).params }

// docs/reference/configuration.md says of wide catalogues: up to 20,000 items nothing changes, for any users
// and budget.
func TestWideCatalogues(t *testing.T) {
	for _, c := range []struct {
		settings     string
		users, items int
		top          float64
		by           string // "": it has no effect
	}{
		{"algorithm=ssp-c epsilon=5", 100_000, 20_000, 0, ""},
		{"algorithm=ssp-c epsilon=5", 100_000, 20_001, 5000, settings.ByWeights},
		{"algorithm=ssp-c epsilon=1", 20_000, 160_000, 3333, settings.ByWeights},
		{"algorithm=ssp-c epsilon=1 features=none", 20_000, 160_000, 3333, settings.ByWeights},
		{"algorithm=ssp-c epsilon=1 features=none", 20_000, 16_000, 0, ""},
		{"algorithm=ssp-c epsilon=0.1", 20_000, 160_000, 1000, settings.ByWeights},
		{"algorithm=ssp-c epsilon=0.1", 20_000, 30_000, 0, ""}, // biases are refined there
		{"algorithm=ssp-c epsilon=1 statistics.exponent=0.2", 20_000, 160_000, 0, ""},
		{"algorithm=ssp-c epsilon=1 statistics.user-popularity-weight=0.1", 20_000, 160_000, 0, ""},
		{"algorithm=ssp-c epsilon=1 statistics.top-items=70", 20_000, 160_000, 70, settings.ByWeights},
		{"algorithm=ssp-c epsilon=1 statistics.top-items=70", 20_000, 16_000, 70, settings.ByCounts},
		{"algorithm=ssp-c epsilon=inf", 20_000, 160_000, 0, ""}, // posteriors
		{"algorithm=ssp-c feedback=implicit epsilon=5", 20_000, 160_000, 0, ""},
		{"algorithm=dp-cmf epsilon=5", 20_000, 160_000, 0, ""},
		{"algorithm=dp-cmf feedback=implicit epsilon=5 statistics.learn=embeddings", 20_000, 160_000, 2000, settings.ByCounts},
		{"algorithm=dp-cmf feedback=implicit epsilon=5 statistics.learn=embeddings", 20_000, 20_000, 0, ""},
		{"algorithm=dp-cmf feedback=implicit epsilon=5 statistics.learn=popularity", 20_000, 160_000, 0, ""},
		{"algorithm=dp-cmf feedback=implicit epsilon=inf", 20_000, 160_000, 0, ""},
		{"algorithm=ada-dpals feedback=implicit epsilon=1", 20_000, 160_000, 2000, settings.ByCounts},
		{"algorithm=dpals feedback=implicit epsilon=1", 20_000, 160_000, 2000, settings.ByCounts},
		{"algorithm=am-ssp feedback=implicit epsilon=1", 20_000, 160_000, 0, ""},
		{"algorithm=dpsgd epsilon=5", 20_000, 160_000, 0, ""},
	} {
		var text config.Config
		for _, s := range opened.Settings(c.settings) {
			if err := text.Set(s.Key, s.Value); err != nil {
				t.Fatal(err)
			}
		}
		facts := &config.Facts{Users: c.users, Items: c.items, Min: 1, Max: 5}
		got := text.Choose(config.Keys(), facts)
		if counts := settings.Keys.ShareCounts; counts.When(got) && got.IsAuto(counts.Key) {
			t.Errorf("%s, %d users, %d items: counts are released and have no share", c.settings, c.users, c.items)
		}
		if !got.Choose(config.Keys(), facts).Equal(got) {
			t.Errorf("%s, %d users, %d items: choosing again changes a choice", c.settings, c.users, c.items)
		}
		top, by := settings.Keys.TopItems.Value(got), settings.Keys.ChooseBy.Of(got)
		if by == "auto" {
			by = ""
		}
		if top != c.top || by != c.by {
			t.Errorf("%s, %d users, %d items: %v items by %q, want %v by %q", c.settings, c.users, c.items, top, by, c.top, c.by)
		}
		before, after := settings.Of(text).UsersOfBiases(facts), settings.Of(got).UsersOfBiases(facts)
		want := float64(c.users)
		if c.by == settings.ByWeights && strings.Contains(c.settings, "features=none") {
			want *= min(1, 20_000/float64(c.items))
		}
		if before != want || after != want {
			t.Errorf("%s, %d users, %d items: the share of biases goes by %v and then %v users", c.settings, c.users, c.items, before, after)
		}
	}
}

// Own data without genres and years: the message says what to do, and names no feature that the user did not.
func TestFactorsOfFeaturesNeedSome(t *testing.T) {
	_, err := opened.Try(t, "algorithm=dp-cmf data="+opened.Crowd(t, 60, 20, 1))
	if err == nil || !strings.Contains(err.Error(), "name some with --features FILE.csv, or use ssp-c") {
		t.Errorf("got %v", err)
	}
}

// Without noise, predictions alone order the lists of a model with embeddings: on synthetic:films they rank 0.168 (NDCG@20, seed 2), and
// 0.145 at the weight that is right for noise.
func TestOrderWithoutNoise(t *testing.T) {
	for said, want := range map[string]float64{
		"algorithm=ssp-c epsilon=inf": 0, "algorithm=ssp-c epsilon=20": 10, "algorithm=ssp-c epsilon=inf statistics.order-weight=3": 3,
	} {
		c := opened.Experiment(t, "feedback=implicit data=synthetic:small-80 "+said).Config
		if got := settings.Of(c).OrderWeight(); got != want {
			t.Errorf("%s: weight %v, want %v", said, got, want)
		}
	}
}
