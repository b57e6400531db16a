package experiment

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/fedssp"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// What each algorithm releases, as the papers and the design have it: names by iteration.
func TestReleasesOfStatistics(t *testing.T) {
	for settings, want := range map[string]string{
		"algorithm=dpals": "mean | weight-counts gramians moments | gramians moments | gramians moments",
		"algorithm=dpals statistics.budgeting=tail":                 "counts mean | weight-counts gramians moments | gramians moments | gramians moments",
		"algorithm=ada-dpals":                                       "counts mean | weight-counts gramians moments | gramians moments | gramians moments",
		"algorithm=dp-cmf rounds=1":                                 "mean | bias weight-counts | gramian moments",
		"algorithm=ssp-c":                                           "mean | bias weight-counts" + strings.Repeat(" | gramian moments", 6),
		"algorithm=ssp-c encoder.optimiser=adam":                    "mean | bias weight-counts | gramian moments | gramian moments | gramian moments",
		"algorithm=ssp-c statistics.mean-cap=0 rounds=1":            "bias weight-counts | gramian moments",
		"algorithm=ssp-c rounds=1 statistics.gramian=per-item":      "mean | bias weight-counts | gramians moments",
		"algorithm=ssp-i rounds=1 statistics.resample=3":            "mean | bias weight-counts | gramian moments | gramian moments | gramian moments",
		"algorithm=am-ssp rounds=1":                                 "counts mean | weight-counts gramians moments",
		"algorithm=ssp-convex rounds=1":                             "mean | bias weight-counts | gramian gradients",
		"algorithm=ssp-convex rounds=1 statistics.gramian=per-item": "mean | bias weight-counts | hessians gradients",
		"algorithm=private-item-bias":                               "mean | bias weight-counts",
		"algorithm=ssp-c feedback=implicit rounds=1":                "weight-counts gramian moments",
		"algorithm=ada-dpals feedback=implicit rounds=1":            "counts | weight-counts gramian gramians moments",
		"algorithm=ada-dpals statistics.bias-first=yes rounds=1":    "counts mean | bias weight-counts | gramians moments",
	} {
		e := open(t, settings)
		var got []string
		for iteration := uint64(1); e.plan(iteration) != nil; iteration++ {
			var names []string
			for _, r := range e.plan(iteration).Releases {
				names = append(names, r.Name)
			}
			got = append(got, strings.Join(names, " "))
		}
		if text := strings.Join(got, " | "); text != want {
			t.Errorf("%s releases %s, want %s", settings, text, want)
		}
		if n := e.Config.iterations(); n != len(got) {
			t.Errorf("%s: %d iterations are counted, and %d planned", settings, n, len(got))
		}
	}
}

// Every plan of the server's is the experiment's, and none of another iteration is.
func TestPlansOfStatistics(t *testing.T) {
	for _, settings := range []string{"algorithm=ssp-c", "algorithm=dp-cmf accountant=gdp-skellam", "algorithm=ada-dpals epsilon=inf", "algorithm=ssp-i statistics.resample=3"} {
		e := joined(t, publish(t, open(t, settings)))
		s, err := e.Strategy()
		if err != nil {
			t.Fatal(err)
		}
		var plans []*protocol.Plan
		for {
			p, done, err := s.Next()
			if err != nil {
				t.Fatal(err)
			}
			if done {
				break
			}
			if err := e.CheckPlan(p); err != nil {
				t.Errorf("%s: %v", settings, err)
			}
			if size := e.Steps.At(p.Iteration).Model; len(p.Broadcast) > size {
				t.Errorf("%s: iteration %d comes with a model of %d bytes, of at most %d", settings, p.Iteration, len(p.Broadcast), size)
			}
			plans = append(plans, p)
			s.Skip(p, errors.New("nobody came"))
		}
		for _, p := range plans {
			other := *p
			if other.Iteration = p.Iteration%uint64(len(plans)) + 1; plans[other.Iteration-1].Phase == p.Phase {
				continue
			}
			if err := e.CheckPlan(&other); !errors.Is(err, ErrTerms) || !strings.Contains(err.Error(), "phase is "+p.Phase) {
				t.Errorf("%s: the plan of iteration %d is taken in iteration %d: %v", settings, p.Iteration, other.Iteration, err)
			}
		}
	}
}

// The models of a run are never longer than its steps say, and the longest is as long.
func TestModelsOfStatistics(t *testing.T) {
	for _, settings := range []string{"algorithm=ssp-c", "algorithm=private-item-bias", "algorithm=ada-dpals", "algorithm=ssp-c feedback=implicit"} {
		e := open(t, settings)
		f := federation(t, e)
		iterations := e.Steps.Iterations()
		for i := range iterations {
			p, _, err := f.Strategy.Next()
			if err != nil {
				t.Fatal(err)
			}
			if size := e.Steps.At(p.Iteration).Model; len(p.Broadcast) > size || i < iterations-1 && len(p.Broadcast) != size {
				t.Errorf("%s: iteration %d comes with %d bytes, said were %d", settings, p.Iteration, len(p.Broadcast), size)
			}
			sums := protocol.Sums{Survivors: e.Cohort.Required()}
			for _, r := range p.Releases {
				sums.Values = append(sums.Values, make([]float64, r.Len))
			}
			if err := f.Strategy.Absorb(p, sums, inTurn{}); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(f.Strategy.Model()); n != e.Steps.Model() {
			t.Errorf("%s: the final model has %d bytes, said were %d", settings, n, e.Steps.Model())
		}
	}
}

// A device contributes what the simulator has it contribute, and keeps what it ends with.
func TestDevicesOfStatisticsAsSimulated(t *testing.T) {
	for _, settings := range []string{
		"algorithm=ssp-c rank=2 rounds=1", "algorithm=dp-cmf rank=2 rounds=1", "algorithm=dpals statistics.per-user=9 rounds=1 split.validation=0.1",
		"algorithm=ada-dpals epsilon=inf rank=3 rounds=1", "algorithm=private-item-bias seed=3", "algorithm=ssp-c features=none feedback=implicit rounds=1",
	} {
		t.Run(settings, func(t *testing.T) {
			t.Parallel()
			sim := open(t, settings)
			e := joined(t, publish(t, sim))
			for _, user := range []int{0, 41} {
				id := sim.Data.UserIDs[user]
				alone := writeRatings(t, sim.Data, "mine", false, func(u, _ int32) bool { return int(u) == user })
				party := partyOf(t, e, Holding{}, alone)
				items, _ := sim.train.Row(user)
				checkCounts(t, party, len(items), 0)
				f := federation(t, sim)
				checkSame(t, "user "+id, e, party, sim, f.Trainers[user], sim.Steps.Iterations())
				trained := f.parties.(sspUsers)[user]
				u := model.NewMatrix(1, len(trained.Embedding()))
				copy(u.Row(0), trained.Embedding())
				want := []model.Embeddings{model.NewEmbeddings("user_embeddings", u, []string{id})}
				if e.ssp.Bias {
					want = append(want, model.NewEmbeddings("user_bias", column([]float64{trained.Bias()}), []string{id}))
				}
				checkResult(t, party, want...)
			}
		})
	}
}

// A private bias of every item gets the whole budget of the run that it is compared with,
// and nothing else is released.
func TestPrivateItemBiasOfAnExperiment(t *testing.T) {
	e := open(t, "algorithm=dp-cmf epsilon=3 dropout=0.2 secagg=real statistics.clip-bias=1")
	b, err := e.PrivateItemBias()
	if err != nil {
		t.Fatal(err)
	}
	same := open(t, "algorithm=private-item-bias epsilon=3 dropout=0.2")
	if diff := b.Steps; !slices.EqualFunc(diff, same.Steps, func(a, b protocol.Step) bool { return a.Alike(b) && a.Iterations == b.Iterations }) {
		t.Errorf("its steps are %+v, want %+v", b.Steps, same.Steps)
	}
	planned, err := b.Planned()
	if err != nil || planned.Epsilon > 3 || planned.Epsilon < 2.999 || b.Config.Secagg != "ideal" || b.Config.Dropout != Fixed(0.2) || b.session == e.session {
		t.Errorf("planned is %v, %v with secagg %s and dropout %v", planned, err, b.Config.Secagg, b.Config.Dropout)
	}
	if e.Config.Algorithm != DPCMF || e.features == nil || e.Config.Statistics.ClipBias != Fixed(1) || !e.Real() {
		t.Error("making the variant changed the experiment")
	}
	for _, settings := range []string{"algorithm=private-item-bias", "", "algorithm=ssp-c feedback=implicit", "algorithm=fmf-hfl"} {
		if b, err := open(t, settings).PrivateItemBias(); b != nil || err != nil {
			t.Errorf("%q: it is to be compared with %v, %v", settings, b, err)
		}
	}
}

// Features that the set has are taken where nothing is said, those that were asked for
// must be there, and a deployment takes them from its facts.
func TestFeaturesOfAnExperiment(t *testing.T) {
	for settings, want := range map[string]string{
		"algorithm=dp-cmf": "genres year", "algorithm=ssp-c": "genres year", "algorithm=ssp-c features=year": "year", "algorithm=ssp-c features=none": "",
		"algorithm=ada-dpals": "", "algorithm=private-item-bias": "", "": "",
	} {
		e := open(t, settings)
		p := publish(t, e)
		for _, x := range []*Experiment{e, joined(t, p)} {
			var names []string
			if x.features != nil {
				for _, c := range x.features.Categories {
					names = append(names, c.Name)
				}
			}
			if got := strings.Join(names, " "); got != want {
				t.Errorf("%q learns from features %q, want %q", settings, got, want)
			}
		}
		if got := p.Config.Features; (got == stated) != (want != "") {
			t.Errorf("%q: what is public says features %s", settings, got)
		}
	}
	plain := "data=" + crowd(t, 60, 20, 1)
	if e := open(t, "algorithm=ssp-c "+plain); e.features != nil || e.Config.Features != "none" || e.ssp.Solver != fedssp.Pooled || e.ssp.Tastes != nil {
		t.Errorf("of a set without features there are %v, %s, solver %s", e.features, e.Config.Features, e.ssp.Solver)
	}
	for _, settings := range []string{"algorithm=dp-cmf", "algorithm=ssp-c features=genres"} {
		c, err := Resolve(set(settings + " " + plain))
		if err != nil {
			t.Fatal(err)
		}
		var wrong *ConfigError
		if _, err = Open(t.Context(), c, nil); !errors.As(err, &wrong) || !strings.HasPrefix(err.Error(), "features: ") {
			t.Errorf("%s: error %v, want one about features", settings, err)
		}
	}
}

// Facts without the features that an algorithm needs, with others than items have, or
// with some that nobody asked for, are refused.
func TestFactsAboutFeaturesRefused(t *testing.T) {
	for _, tt := range []struct {
		settings string
		change   func(*Public)
		reason   string
	}{
		{"algorithm=dp-cmf", func(p *Public) { p.Facts.Features = nil }, "there are none"},
		{"algorithm=ssp-c", func(p *Public) { p.Facts.Features[0].Value[0] = 99 }, "values are below"},
		{"algorithm=ssp-c", func(p *Public) { p.Facts.Features[0].Weight[0] = math.NaN() }, "weights are positive"},
		{"algorithm=ada-dpals", func(p *Public) { p.Facts.Features = publish(t, open(t, "algorithm=ssp-c")).Facts.Features }, "learns from none"},
	} {
		p := publish(t, open(t, tt.settings))
		tt.change(p)
		if e, err := OpenPublic(p); e != nil || err == nil || !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("%s: error %v, want %q in it", tt.settings, err, tt.reason)
		}
	}
}

// What a client has to make room for in an iteration is bounded, and not only the model: one Gramian for each of
// 400 items at rank 1024 is 400·524,800 coordinates, where the embeddings are 409,600.
func TestFactsOfLongStatisticsRefused(t *testing.T) {
	e := open(t, "algorithm=dpals rank=1024 epsilon=inf rounds=1 network.stage-timeout-s=10000")
	const want = "with rank 1024 an iteration of phase statistics sums 210330000 coordinates of every client; at most 134217728"
	if _, err := e.Public(protocol.SessionID{1}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q in it", err, want)
	}
}

// The model of a deployment comes with what predictions are made of.
func TestSharedModelOfStatistics(t *testing.T) {
	e := joined(t, publish(t, open(t, "algorithm=ssp-c rank=2")))
	model := &fedssp.Model{Mean: 3.25, Bias: make([]float64, 400), Items: make([]float64, 800)}
	model.Bias[7], model.Items[15] = 0.5, -1.5
	shared, err := e.Shared(model.Encode())
	if err != nil || len(shared) != 3 {
		t.Fatalf("%d parts, %v", len(shared), err)
	}
	if mean, items, bias := shared[0], shared[1], shared[2]; mean.Name != "mean" || mean.Data()[0] != 3.25 || len(mean.IDs) != 1 ||
		items.Name != "item_embeddings" || items.Row(7)[1] != -1.5 || bias.Name != "item_bias" || bias.Row(7)[0] != 0.5 || !slices.Equal(bias.IDs, e.Data.ItemIDs) {
		t.Errorf("the model's parts are %s %v, %s %v, %s %v", mean.Name, mean.Data(), items.Name, items.Row(7), bias.Name, bias.Row(7))
	}
	if _, err := e.Shared(model.Encode()[1:]); err == nil {
		t.Error("a damaged model was read")
	}
}

// The plan shows both forms of the second-order statistics before anyone runs: m·d(d+1)/2
// coordinates against d(d+1)/2, in rings of whole bits. A client that has to send more than
// 8 MB is told of the other one.
func TestGramianForms(t *testing.T) {
	_, f := forecast(t, "algorithm=ssp-c encoder.optimiser=adam epsilon=inf rank=5") // which takes either form with the same settings
	if len(f.Forms) != 2 || f.Forms[0].Gramian != "per-item" || f.Forms[0].Chosen || f.Forms[1].Gramian != "one" || !f.Forms[1].Chosen {
		t.Fatalf("forms %+v", f.Forms)
	}
	if one := f.Forms[1]; one.Iteration != f.Bytes.Iteration || one.Run != f.Bytes.Run {
		t.Errorf("the form chosen takes %+v, the run %+v", one, f.Bytes)
	}
	// Rings are about as wide: the difference is one of coordinates, at the bits of the one.
	moments, gramian := f.Releases[len(f.Releases)-1], f.Releases[len(f.Releases)-2]
	if moments.Name != "moments" || gramian.Name != "gramian" || gramian.Len != 15 || moments.Len != 2000 {
		t.Fatalf("releases %+v", f.Releases)
	}
	more := float64(399*15*int(gramian.Width)) / 8
	if got := float64(f.Forms[0].Iteration.Up - f.Forms[1].Iteration.Up); math.Abs(got-more) > 0.35*more {
		t.Errorf("per item %v bytes more are sent, want about %v", got, more)
	}
	// The other form is what it would be if it were asked for, whatever else is chosen by it.
	for _, algorithm := range []string{"ssp-c encoder.optimiser=adam", "ssp-c", "ssp-c rank=3", "ssp-i", "am-ssp", "ssp-convex", "dp-cmf", "ada-dpals", "dpals"} {
		for _, epsilon := range []string{"1", "inf"} {
			settings := "algorithm=" + algorithm + " epsilon=" + epsilon
			_, one := forecast(t, settings+" statistics.gramian=one")
			_, each := forecast(t, settings+" statistics.gramian=per-item")
			if one.Forms[0].Iteration != each.Bytes.Iteration || one.Forms[0].Run != each.Bytes.Run || each.Forms[1].Run != one.Bytes.Run {
				t.Errorf("%s: forms %+v of one, %+v of per-item", settings, one.Forms, each.Forms)
			}
		}
	}
	// Where there is none its reason names the setting.
	_, f = forecast(t, "algorithm=ssp-c encoder.optimiser=exact")
	if got := f.Forms[0]; !strings.Contains(got.Refused, "encoder.optimiser: exact") || got.Run != (Traffic{}) {
		t.Errorf("a form that the exact solver has not: %+v", got)
	}
	warned := 0
	for rank := 80; rank <= 140; rank += 10 {
		e, f := forecast(t, fmt.Sprintf("algorithm=ssp-c epsilon=inf statistics.gramian=per-item rank=%d", rank))
		got, err := e.Warnings()
		if much := f.Bytes.Iteration.Up > 8e6; err != nil || much != (len(got) == 1) {
			t.Errorf("%d bytes an iteration: warnings %q, %v", f.Bytes.Iteration.Up, got, err)
		}
		warned += len(got)
	}
	if warned == 0 || warned == 7 {
		t.Errorf("%d of 7 ranks are warned of; the limit should lie between", warned)
	}
	for settings, want := range map[string]string{
		"algorithm=ssp-c rank=180 statistics.gramian=per-item epsilon=inf": "with statistics.gramian one it would be ",
		"algorithm=ssp-c rank=180 epsilon=inf":                             "",
		"algorithm=ssp-c statistics.gramian=per-item":                      "",
		"algorithm=private-item-bias":                                      "",
		"algorithm=vfl-sgdmf epsilon=inf":                                  "",
	} {
		got, err := open(t, settings).Warnings()
		if err != nil || (want == "") != (len(got) == 0) || want != "" && !strings.Contains(got[0], want) {
			t.Errorf("%s: warnings %q, %v; want %q", settings, got, err, want)
		}
	}
}

// ranked is a model that recommends the same to everybody.
type ranked []float64

func (r ranked) Predict(int, []int32, []float64)                    {}
func (r ranked) Score(_ int, _ []int32, _ []float32, out []float64) { copy(out, r) }

// unranked predicts, and ranks nothing.
type unranked struct{}

func (unranked) Predict(int, []int32, []float64) {}

// With implicit feedback users are held out: who is, has nothing in training, and quality
// is that of rankings for them, as package experiment ranks.
func TestImplicitFeedbackRanks(t *testing.T) {
	e := open(t, "algorithm=ada-dpals feedback=implicit split.test=0.2 split.validation=0.1 split.positive=3.5")
	for _, u := range e.held.Test.Users {
		if items, _ := e.train.Row(int(u)); len(items) > 0 {
			t.Fatalf("user %d is held out and trains on %d ratings", u, len(items))
		}
	}
	for _, v := range e.Split.Train.Value {
		if v < 3.5 {
			t.Fatalf("%v stars count as consumed", v)
		}
	}
	scores := make(ranked, e.Data.Items)
	for j := range scores {
		scores[j] = float64(j * 7 % 400)
	}
	want := eval.Rank(e.held.Test, scores, eval.NewBuckets(e.Split.Train), protocol.Workers(1))
	got := e.Test.Measure(&model.Trained{Predictor: scores}, protocol.Workers(2))
	if got.Ranking == nil || got.Ranking.Recall != want.Recall || got.PrimaryMetric() != want.Recall || got.Ranking.Users != want.Users || want.Users == 0 {
		t.Errorf("quality %+v, want %+v", got.Ranking, want)
	}
	if v := e.Test.Validate(scores, protocol.Workers(1)); v == nil || v.Ranking == nil || v.Ranking.Users != eval.Rank(e.held.Validation, scores, e.Test.Buckets, protocol.Workers(1)).Users {
		t.Errorf("on validation %+v", v)
	}
	if q := e.Test.Measure(unranked{}, protocol.Workers(1)); !math.IsNaN(q.PrimaryMetric()) {
		t.Errorf("what ranks nothing has a recall of %v", q.PrimaryMetric())
	}
	// What a run ends with has the held-out users fitted to their histories.
	s, err := e.Strategy()
	if err != nil {
		t.Fatal(err)
	}
	m, err := e.Final(federation(t, e), s.Model(), protocol.Workers(2))
	if err != nil {
		t.Fatal(err)
	}
	start, err := e.ssp.Start()
	if err != nil {
		t.Fatal(err)
	}
	rows, fitted := e.held.Test.History.ByUser(), 0
	for _, u := range e.held.Test.Users {
		items, values := rows.Row(int(u))
		want, _ := e.ssp.FitUser(start, model.Ratings{Items: items, Values: values})
		got := m.Matrices[len(m.Matrices)-1]
		if got.Name != "user_embeddings" || !slices.Equal(got.Row(int(u)), want) {
			t.Errorf("%s of user %d is %v, want %v", got.Name, u, got.Row(int(u)), want)
		}
		if len(items) > 0 {
			fitted++
		}
	}
	if fitted == 0 {
		t.Error("no held-out user has a history")
	}
	b, err := e.Baselines(protocol.Workers(2))
	if err != nil || b.Popularity == nil || b.RatingBaselines != nil || b.LocalOnly != nil {
		t.Errorf("baselines %+v, %v", b, err)
	}
}

// Steps are joined where they ask for the same at the same share of the budget only.
func TestMergedSteps(t *testing.T) {
	step := protocol.Step{Iterations: 1, Phase: "statistics", Releases: mixed()[1].Releases}
	other := step
	other.Phase = "bias"
	steps, shares := merged(Schedule{step, step, step, other, step}, [][]float64{{0.1, 0.2}, {0.1, 0.2}, {0.2, 0.1}, {0.1, 0.2}, {0.1, 0.2}})
	var counts []int
	for _, s := range steps {
		counts = append(counts, s.Iterations)
	}
	if !slices.Equal(counts, []int{2, 1, 1, 1}) || len(shares) != 4 || shares[1][0] != 0.2 {
		t.Errorf("steps of %v iterations with shares %v", counts, shares)
	}
}

// Where ε times users is small, items are known by their features: 600 users here, and the limit is what
// 6,040 have at ε = 3, so 30.2. What is given stays.
func TestDefaultsGoByHowMuchThereIsToLearn(t *testing.T) {
	for settings, want := range map[string]string{
		"algorithm=am-ssp epsilon=30":    "no 0.001 2 0.1",
		"algorithm=am-ssp epsilon=30.5":  "yes 0.03 0.3 5",
		"algorithm=am-ssp epsilon=inf":   "yes 0.03 0.3 20",
		"algorithm=ssp-i epsilon=1":      "yes 0.09486832980505137 0.3 20", // 0.3/√10
		"algorithm=am-ssp features=none": "auto auto auto 5",
		"algorithm=ssp-convex epsilon=1": "yes 0.03 0.3 20",
		"algorithm=dp-cmf epsilon=30":    "1",
		"algorithm=dp-cmf epsilon=30.5":  "0.2",
		"algorithm=am-ssp epsilon=1 encoder.ids=yes encoder.rate=0.5 encoder.start-norm=4 statistics.item-prior=7": "yes 0.5 4 7",
		"algorithm=dp-cmf epsilon=1 cmf.feature-weight=0.7":                                                        "0.7",
	} {
		c := open(t, settings).Config
		got := fmt.Sprint(c.Encoder.IDs, " ", c.Encoder.Rate, " ", c.Encoder.StartNorm, " ", c.Statistics.ItemPrior)
		if c.Algorithm == DPCMF {
			got = c.CMF.FeatureWeight.String()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", settings, got, want)
		}
	}
}

// Noise decides how often and how much is taken; without it nothing is clipped or left out on its account.
func TestDefaultsWithoutNoise(t *testing.T) {
	for settings, want := range map[string]string{ // on a scale of .5 to 5, half of which is 2.25
		"algorithm=dpals epsilon=1":                               "3 4 1.125 1 1 5 100",
		"algorithm=dpals epsilon=inf":                             "12 8 4.5 4 4 20 1000",
		"algorithm=dp-cmf epsilon=1":                              "4 4 1.125 1 2 10 auto",
		"algorithm=dp-cmf epsilon=inf":                            "12 8 4.5 4 4 20 auto",
		"algorithm=ssp-c epsilon=1":                               "6 4 1.125 1 2 auto auto",
		"algorithm=ssp-c epsilon=inf":                             "12 4 1.125 1 4 auto auto",
		"algorithm=ssp-i epsilon=1":                               "2 4 1.125 1 1 20 auto",
		"algorithm=ada-dpals epsilon=1":                           "3 4 1.125 1 1 5 auto",
		"algorithm=ada-dpals epsilon=1 statistics.bias-first=yes": "3 4 1.125 1 1 20 auto",
		"algorithm=dp-cmf epsilon=1 statistics.bias-first=no":     "3 4 1.125 1 1 5 auto",
	} {
		c := open(t, settings).Config
		s := c.Statistics
		if got := fmt.Sprint(c.Rounds, " ", c.Rank, " ", s.ClipRating, " ", s.ClipUser, " ", s.UserRidge, " ", s.ItemPrior, " ", s.PerUser); got != want {
			t.Errorf("%s: %s, want %s", settings, got, want)
		}
	}
}

// A rank above the default's takes as much more ridge, and tastes the root of that more weight, so that
// ridge over squared weight, which is what holds tastes back, stays as it is. Rankings have settings of their own.
func TestRidgeFollowsTheRank(t *testing.T) {
	for settings, want := range map[string]string{
		"algorithm=ssp-c rank=2":                    "2 0.35",
		"algorithm=ssp-c":                           "2 0.35",
		"algorithm=ssp-c rank=16":                   "8 0.7",
		"algorithm=ssp-c rank=16 epsilon=inf":       "16 0.7",
		"algorithm=ssp-c rank=16 feedback=implicit": "2 auto",
		"algorithm=dp-cmf rank=16":                  "2 0.35",
		"algorithm=ssp-c rank=16 statistics.user-ridge=3 statistics.taste-weight=0.1": "3 0.1",
	} {
		s := open(t, settings).Config.Statistics
		if got := fmt.Sprint(s.UserRidge, " ", s.TasteWeight); got != want {
			t.Errorf("%s: ridge and taste weight %s, want %s", settings, got, want)
		}
	}
}
