package lab_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/experiment"
	_ "github.com/fedsim/fedsim/internal/families"
	"github.com/fedsim/fedsim/internal/training"
	_ "github.com/fedsim/fedsim/lab" // algorithms of spaces
	"github.com/fedsim/fedsim/lab/tune"
	"github.com/fedsim/fedsim/results"
)

func settingsOf(text string) (list []config.Setting) {
	for f := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(f, "=")
		list = append(list, config.Setting{Key: key, Value: value})
	}
	return list
}

func spaceOf(t *testing.T, texts ...string) tune.Space {
	t.Helper()
	s, err := tune.ParseSpace(texts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Candidates are in their ranges, and whole where the key is. Of 4,000 draws of 1 to 4 each value has
// 1,000, with a deviation of 27. A logarithmic range has half of
// its draws below the geometric mean of its ends.
func TestCandidates(t *testing.T) {
	s := spaceOf(t, "rank=1..4", "ials.ridge=log:0.001..0.1", "split.by=random,time,user-time")
	for _, even := range []bool{false, true} {
		counts, below := make(map[string]int), 0
		for _, c := range s.Candidates(4000, even, 7) {
			counts[c[0].Value]++
			counts[c[2].Value]++
			x, err := strconv.ParseFloat(c[1].Value, 64)
			if err != nil || x < 0.001 || x > 0.1 {
				t.Fatalf("ridge %v", c[1].Value)
			}
			if x < 0.01 {
				below++
			}
		}
		for _, rank := range []string{"1", "2", "3", "4"} {
			if n := counts[rank]; n < 850 || n > 1150 {
				t.Errorf("even %v: rank %s %d times", even, rank, n)
			}
		}
		if len(counts) != 7 || below < 1800 || below > 2200 {
			t.Errorf("even %v: %v, %d small ridges", even, counts, below)
		}
	}
	for _, bad := range []string{"rnak=1..2", "rank=2..1", "rank=x..2", "rank=3", "ials.ridge=log:0..1", "rank=1..Inf"} {
		if _, err := tune.ParseSpace([]string{bad}); err == nil || !strings.Contains(err.Error(), "--over "+bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, err := tune.ParseSpace([]string{"rank=1..2", "rank=2..3"}); err == nil {
		t.Error("a key is searched over twice")
	}
}

// Plain search takes the candidate whose run, made by itself, has the best validation metric, and its
// score is that metric.
func TestSearchTakesTheBestOnValidation(t *testing.T) {
	s := tune.Search{Settings: settingsOf("data=synthetic:small-120 algorithm=als split.validation=0.2 eval.top-k=none"), Space: spaceOf(t, "rank=1..3", "als.passes=2..5"), Trials: 3}
	out, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	best := math.Inf(1)
	for i, trial := range out.Trials {
		r := trainedAlone(t, append(s.Settings, trial.Settings...))
		if r.ValidationRMSE == nil || *r.ValidationRMSE != trial.Score || trial.Candidate != i+1 {
			t.Errorf("run %d: score %v, by itself %v", i, trial.Score, r.ValidationRMSE)
		}
		best = min(best, trial.Score)
	}
	if len(out.Trials) != 3 || out.Best.Score != best || out.Epsilon != 0 {
		t.Errorf("%+v", out)
	}
	if _, err = (tune.Search{Settings: settingsOf("data=- split.validation=0.1"), Space: s.Space, Trials: 2}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "can be read once") {
		t.Errorf("a search on a pipe: %v", err)
	}
	if _, err = (tune.Search{Settings: settingsOf("data=synthetic:small-120"), Space: s.Space, Trials: 2}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "split.validation") {
		t.Error(err)
	}
}

// trainedAlone makes one run.
func trainedAlone(t *testing.T, settings []config.Setting) *training.Result {
	t.Helper()
	c, err := config.Resolve(settings)
	if err != nil {
		t.Fatal(err)
	}
	e, err := experiment.Open(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := training.Run(t.Context(), e, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ε of a private search is the ε of theorem 2 over the events of the run. It is computed here for orders α
// and β on a fine grid, with normal noise in place of Skellam noise.
func TestPrivateSearch(t *testing.T) {
	effort.NotShort(t, "dozens of runs")
	settings := "data=synthetic:small-120 algorithm=private-item-bias epsilon=3 split.validation=0.2 eval.top-k=none dropout=0"
	s := tune.Search{Settings: settingsOf(settings), Space: spaceOf(t, "statistics.user-bias-ridge=1..9"), Trials: 3, Private: true, Runs: 4, Eta: 1}
	out, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Resolve(s.Settings)
	if err != nil {
		t.Fatal(err)
	}
	e, err := experiment.Open(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := geometricOfFour(e.Privacy.Run, 3, out.Delta)
	if out.Epsilon < want*(1-1e-3) || out.Epsilon > 1.03*want || out.Each != 3 {
		t.Errorf("ε is %v, want %v; one run %v", out.Epsilon, want, out.Each)
	}
	seeds := make(map[string]bool)
	for _, x := range out.Final {
		if x.Key == "seed" {
			seeds[x.Value] = true
		}
	}
	if len(out.Trials) < 1 || len(seeds) != 1 {
		t.Errorf("%d runs, seeds %v", len(out.Trials), seeds)
	}
	for settings, want := range map[string]string{
		"data=synthetic:small-120 algorithm=als split.validation=0.2":                                  "--private",
		"data=synthetic:small-120 algorithm=vfl-sgdmf unit=rating epsilon=3 split.validation=0.2":      "unit user",
		"data=synthetic:small-120 algorithm=private-item-bias epsilon=inf split.validation=0.2 seed=4": "--private",
	} {
		s.Settings, s.Space = settingsOf(settings), spaceOf(t, "eval.buckets=1..5")
		if _, err = s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", settings, err)
		}
	}
	s.Settings, s.Space = settingsOf("data=synthetic:small-120 algorithm=private-item-bias split.validation=0.2"), spaceOf(t, "epsilon=1..3")
	if _, err = s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "differ in epsilon") {
		t.Error(err)
	}
}

// geometricOfFour is the ε of theorem 2 for a geometric number of runs with mean 4, so γ = 1/4, and a run with these events and a score.
// Events beside the search compose with it: their squares of μ add to the search's curve (Mironov 2017, proposition 1).
func geometricOfFour(events []dp.Event, each, delta float64, beside ...dp.Event) float64 {
	square := 0.22 * 0.22 * math.Pow(dp.GaussianMu(each, delta), 2) // of the score
	squares := func(events []dp.Event) (sum float64) {
		for _, ev := range events {
			mu := ev.L2 / math.Sqrt(ev.Variance) * (1 + 0.5/ev.Variance)
			sum += float64(ev.Count) * mu * mu
		}
		return sum
	}
	square += squares(events)
	more := squares(beside)
	want, beyond := math.Inf(1), math.Inf(1)
	for lb := -3.0; lb < 6; lb += 0.01 {
		beta := 1 + math.Exp(lb)
		beyond = min(beyond, 2*(1-1/beta)*beta*square/2+2*math.Log(4)/beta)
	}
	for la := -3.0; la < 6; la += 0.01 {
		alpha := 1 + math.Exp(la)
		rdp := alpha*(square+more)/2 + beyond + math.Log(4)/(alpha-1)
		want = min(want, rdp+math.Log1p(-1/alpha)-(math.Log(delta)+math.Log(alpha))/(alpha-1))
	}
	return want
}

// The run that a private search released states the ε of the search, read again from its own config.yaml too. The same settings with
// another seed are a further run, and its ε is composed with the search's. So is the ε of a session that starts from the folder. The
// expected figures follow from theorem 2.
func TestRunStatesItsPrivateSearch(t *testing.T) {
	base := settingsOf("data=synthetic:small-120 algorithm=ssp-c rank=1 rounds=1 statistics.posteriors=no epsilon=5 split.validation=0.2 eval.top-k=none dropout=0 baselines=quick out=" + t.TempDir())
	s := tune.Search{Settings: base, Space: spaceOf(t, "statistics.user-bias-ridge=1..9"), Trials: 2, Private: true, Runs: 4, Eta: 1}
	out, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := keptRun(t, out.Final)
	runs := r.Experiment.Privacy.Run
	if want := geometricOfFour(runs, 5, out.Delta); r.Privacy.Epsilon != out.Epsilon || r.Privacy.Epsilon < want*(1-1e-3) || r.Privacy.Epsilon > 1.03*want ||
		r.Privacy.Chosen.By != dp.PrivateSearch || r.Privacy.Chosen.Candidates != 2 || r.Privacy.Chosen.RunEpsilon > 5 || r.Privacy.Validate() != nil {
		t.Errorf("%+v, want ε = %v; the search states %v", r.Privacy, want, out.Epsilon)
	}
	if last := r.Metrics[len(r.Metrics)-1]; last.Epsilon == nil || *last.Epsilon != out.Epsilon {
		t.Errorf("the last round states %v", last.Epsilon)
	}
	f, err := results.Read(r.Folder)
	if err != nil {
		t.Fatal(err)
	}
	for seed, beside := range map[uint64][]dp.Event{algorithm.Seed.Of(f.Config): nil, 77: runs} {
		c := f.Config
		algorithm.Seed.Set(&c, seed)
		e, err := experiment.Open(t.Context(), c, nil)
		if err != nil {
			t.Fatal(err)
		}
		planned, err := e.Planned()
		want := geometricOfFour(runs, 5, out.Delta, beside...)
		if got := e.Statement(planned).Epsilon; err != nil || got < want*(1-1e-3) || got > 1.03*want {
			t.Errorf("seed %d: ε = %v, %v, want %v", seed, got, err, want)
		}
	}
	on := keptRun(t, append(base, settingsOf("start-from="+r.Folder)...))
	want := geometricOfFour(runs, 5, out.Delta, on.Experiment.Privacy.Run...)
	if all := on.AllSessions; all == nil || all.Epsilon == nil || *all.Epsilon < want*(1-1e-3) || *all.Epsilon > 1.03*want || !strings.Contains(all.String(), "and the private search") {
		t.Errorf("together %v, want %v", all, want)
	}
}

// The run that a plain search chose states no ε. No private session starts from it, unless it states no ε either.
func TestRunStatesItsPlainSearch(t *testing.T) {
	effort.NotShort(t, "a run of the command for each way; TestRunStatesItsPrivateSearch has one")
	base := settingsOf("data=synthetic:small-120 algorithm=ssp-c rank=1 rounds=1 statistics.posteriors=no epsilon=5 split.validation=0.2 eval.top-k=none dropout=0 baselines=quick out=" + t.TempDir())
	s := tune.Search{Settings: base, Space: spaceOf(t, "statistics.user-bias-ridge=1..9"), Trials: 2}
	out, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := keptRun(t, out.Final)
	if !math.IsInf(r.Privacy.Epsilon, 1) || r.Privacy.Chosen.By != dp.PlainSearch || r.Privacy.Validate() != nil || r.Metrics[0].Epsilon != nil {
		t.Errorf("%+v", r.Privacy)
	}
	c, err := config.Resolve(append(base, settingsOf("start-from="+r.Folder)...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = experiment.Open(t.Context(), c, nil); err == nil || !strings.Contains(err.Error(), dp.NoEpsilonHolds) {
		t.Error(err)
	}
	on := keptRun(t, append(base, settingsOf("chosen-by=plain start-from="+r.Folder)...))
	if all := on.AllSessions; all == nil || all.Epsilon != nil || !strings.Contains(all.String(), dp.NoEpsilonHolds) || !math.IsInf(on.Privacy.Epsilon, 1) {
		t.Errorf("together %v; %v", all, on.Privacy)
	}
}

// The noise of a run whose clients draw their own parts is another draw than the noise of the run that won, so that ε counts both. A
// real sum of the same draws releases the same numbers again.
func TestOtherNoiseIsAFurtherRun(t *testing.T) {
	s := tune.Search{Space: spaceOf(t, "statistics.user-bias-ridge=1..9"), Trials: 2, Private: true, Runs: 4, Eta: 1,
		Settings: settingsOf("data=synthetic:small-60 algorithm=private-item-bias epsilon=3 split.validation=0.2 eval.top-k=none noise-draw=client")}
	out, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for changes, counted := range map[string]bool{"noise-draw=client": false, "secagg=real": false, "noise-draw=sum": true, "secagg=real mode=active": true} {
		settings, _ := config.Over(out.Final, settingsOf(changes))
		c, err := config.Resolve(settings)
		if err != nil {
			t.Fatal(err)
		}
		e, err := experiment.Open(t.Context(), c, nil)
		if err != nil {
			t.Fatal(err)
		}
		planned, err := e.Planned()
		if got := e.Statement(planned).Epsilon; err != nil || counted != (got > out.Epsilon+0.1) || got < out.Epsilon {
			t.Errorf("%s: ε = %v, %v; the search alone has %v", changes, got, err, out.Epsilon)
		}
	}
}

// A search compares what is alike: one metric on one validation part. ε of a private search leaves out whatever else its candidates
// release or rest on: runs that only some start from, and users whose ratings only some take for public.
func TestSearchComparesWhatIsAlike(t *testing.T) {
	out := t.TempDir()
	const settings = "data=synthetic:small-120 rank=1 rounds=1 epsilon=3 split.validation=0.2 split.seed=1 eval.top-k=none baselines=quick out="
	first := keptRun(t, settingsOf(settings+out+" algorithm=ssp-c name=first"))
	second := keptRun(t, settingsOf(settings+out+" algorithm=ssp-c name=second seed=2"))
	starts := "start-from=" + first.Folder + "," + second.Folder
	alike := tune.Search{Settings: settingsOf(settings + out + " algorithm=ssp-c"), Trials: 8, Runs: 2, Eta: 1}
	for _, tc := range []struct {
		over    string
		private bool
		want    string // "" if the search runs
	}{
		{"public-users=0,30", true, "other data or another split"},
		{"public-users=0,30", false, "other data or another split"},
		{"feedback=explicit,implicit", false, "measured by r"},
		{"split.test=0.1..0.2", true, "other data or another split"},
		{"seed=1,2", false, ""}, // with the split.seed of the settings
		{starts, true, "start from another run"},
		{starts, false, ""},
	} {
		s := alike
		s.Space, s.Private = spaceOf(t, tc.over), tc.private
		_, err := s.Run(t.Context())
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s, private %t: %v, want %q", tc.over, tc.private, err, tc.want)
		}
	}
}

// keptRun makes a run and keeps it.
func keptRun(t *testing.T, settings []config.Setting) *training.Result {
	t.Helper()
	c, err := config.Resolve(settings)
	if err != nil {
		t.Fatal(err)
	}
	e, err := experiment.Open(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := training.Keep(t.Context(), e, nil, training.KeepOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A wanted total is met from below, within a hundredth, by the formula of theorem 2 for the run that was found. All candidates
// have the epsilon that is found, and no candidate may have another.
func TestTotalEpsilon(t *testing.T) {
	const settings = "data=synthetic:small-120 algorithm=private-item-bias split.validation=0.2 eval.top-k=none dropout=0"
	s := tune.Search{Settings: settingsOf(settings), Space: spaceOf(t, "statistics.user-bias-ridge=1..9"), Trials: 2, Private: true, Runs: 4, Eta: 1}
	for _, total := range []float64{1, 5, 20} {
		s.Total = total
		out, err := s.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c, err := config.Resolve(append(settingsOf(settings), settingsOf("epsilon="+strconv.FormatFloat(out.Each, 'g', -1, 64))...))
		if err != nil {
			t.Fatal(err)
		}
		e, err := experiment.Open(t.Context(), c, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := geometricOfFour(e.Privacy.Run, out.Each, out.Delta)
		if out.Epsilon > total || out.Epsilon < 0.99*total || out.Epsilon < want*(1-1e-3) || out.Epsilon > 1.03*want {
			t.Errorf("a total of %v: ε %v of the search, %v by the formula; one run %v", total, out.Epsilon, want, out.Each)
		}
	}
	s.Total = 1e-3
	if _, err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "epsilon") {
		t.Error(err)
	}
	s.Total, s.Space = 5, spaceOf(t, "epsilon=1..3")
	if _, err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "out of --over") && !strings.Contains(err.Error(), "differ in epsilon") {
		t.Error(err)
	}
	s.Total = math.Inf(1)
	if _, err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "--total-epsilon") {
		t.Error(err)
	}
}
