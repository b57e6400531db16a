package attack

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	_ "github.com/fedsim/fedsim/internal/families"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/lab/internal/binomial"
)

// attacked are the settings of an attack on the small set; on a hundred of its users unless tests are long.
func attacked(pairs ...string) []config.Setting {
	data := "synthetic:small-100"
	if effort.Long() {
		data = "synthetic:small"
	}
	list := []config.Setting{{Key: "data", Value: data}}
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, config.Setting{Key: pairs[i], Value: pairs[i+1]})
	}
	return list
}

func ran(t *testing.T, said []config.Setting, c Config) *Report {
	t.Helper()
	r, err := Run(t.Context(), said, c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// small is ssp-c with little to compute.
var small = attacked("algorithm", "ssp-c", "rank", "2", "rounds", "1", "statistics.posteriors", "no")

var inf = Epsilon(math.Inf(1))

// Counted by hand. Targets in the run score {3, 2, 2}, targets outside it {2, 1, 0}. Of the nine pairs, 3 beats
// all three, and each 2 beats two and ties with one: 3 + 2.5 + 2.5 of 9. With no false alarm, 3 alone is
// found, a third; with one in three, both 2 are found together with the 2 outside the run.
func TestAUCByHand(t *testing.T) {
	s := scored{{in: true, value: 2}, {value: 1}, {in: true, value: 3}, {value: 2}, {value: 0}, {in: true, value: 2}}
	if got := s.auc(nil); math.Abs(got-8./9) > 1e-15 {
		t.Errorf("AUC %v, want 8/9", got)
	}
	want := Curve{{0, 1. / 3}, {1. / 3, 1}, {2. / 3, 1}, {1, 1}}
	if got := s.roc(); !reflect.DeepEqual(got, want) {
		t.Errorf("curve %v, want %v", got, want)
	}
	// 1 of 3: Clopper and Pearson give 0.0084 to 0.9057 (tables of Geigy, n = 3).
	if f, x := s.at(falseAlarms); f != 0 || x.Value != 1./3 || math.Abs(x.Low-0.0084) > 5e-5 || math.Abs(x.High-0.9057) > 5e-5 {
		t.Errorf("%v at a false rate of %v", x, f)
	}
	// Weights are repetitions. With the run of the first two counted twice, the scores in the run are {2, 2, 3, 2} and
	// outside it {1, 1, 2, 0}. Of the 16 pairs, 3 wins 4, and each 2 wins 3 and ties in one.
	for i, run := range []int{0, 0, 1, 1, 1, 1} {
		s[i].run = run
	}
	if got := s.auc([]int{2, 1}); math.Abs(got-(4+3*3.5)/16) > 1e-15 {
		t.Errorf("weighted AUC %v, want 14.5/16", got)
	}
}

// For normal laws of deviation 1 whose means are μ apart, the AUC is Φ(μ/√2). The bootstrap's interval contains it
// in about 95% of trials. At 95%, fewer than 180 of 200 would be seen once in 300 times. The seed is fixed.
func TestAreaOfNormalLaws(t *testing.T) {
	const trials, runs, each = 200, 40, 10
	want := 0.5 * (1 + math.Erf(0.8/math.Sqrt2/math.Sqrt2))
	r := rand.New(rand.NewPCG(1, 2))
	held := 0
	for i := range trials {
		var s scored
		for run := range runs {
			for k := range each {
				x := score{run: run, in: k%2 == 0, value: r.NormFloat64()}
				if x.in {
					x.value += 0.8
				}
				s = append(s, x)
			}
		}
		if holds(s.area(uint64(i), runs), want) {
			held++
		}
	}
	if held < 180 {
		t.Errorf("%d of %d intervals hold the area, want about 190", held, trials)
	}
}

// The limit of (ε, 0) is the limit of randomized response: the AUC is e^ε/(1+e^ε), 0.73106 at ε = 1, and 2.718% are found at
// 1% false alarms. With δ the area is added up in small steps from the definition of the region.
func TestLimit(t *testing.T) {
	if l := newLimit(1, 0); math.Abs(l.AUC-0.7310585786300049) > 1e-12 || math.Abs(l.TPR-0.01*math.E) > 1e-12 {
		t.Errorf("%+v", l)
	}
	for _, c := range [][2]float64{{0, 0}, {0.3, 0.1}, {1, 1e-5}, {5, 0.01}, {20, 1e-5}, {1, 1}} {
		const n = 1_000_000
		e, sum := math.Exp(c[0]), 0.
		for i := range n {
			f := (float64(i) + 0.5) / n
			sum += min(1, e*f+c[1], 1-max(0, 1-f-c[1])/e) / n
		}
		if l := newLimit(c[0], c[1]); math.Abs(l.AUC-sum) > 1e-5 {
			t.Errorf("ε = %v, δ = %v: %v, want %v", c[0], c[1], l.AUC, sum)
		}
	}
}

// Two normal laws with one deviation: the ratio at x is the ratio of their densities.
func TestLaws(t *testing.T) {
	values, in := [][]float64{{1}, {3}, {6}, {8}}, [][]bool{{false}, {false}, {true}, {true}}
	l := fitLaws(values, in, 0)
	if l.without != 2 || l.with != 7 || l.variance != 2 { // (1 + 1 + 1 + 1) / (4 - 2)
		t.Fatalf("%+v", l)
	}
	density := func(x, mean float64) float64 { return math.Exp(-(x - mean) * (x - mean) / 4) }
	if got, want := l.ratio(5.5), math.Log(density(5.5, 7)/density(5.5, 2)); math.Abs(got-want) > 1e-12 {
		t.Errorf("%v, want %v", got, want)
	}
	if (laws{1, 1, 2}).ratio(9) != 0 {
		t.Error("laws that are alike tell something")
	}
}

// A linear law without noise is found, except for the penalty's shift, which is less than 0.01 with 1,000 rows.
func TestRidge(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var x, y [][]float64
	for range 1000 {
		row := []float64{r.NormFloat64(), 3 + 2*r.NormFloat64(), 7} // the last never varies
		x, y = append(x, row), append(y, []float64{1 + 2*row[0] - row[1], row[1]})
	}
	got := fitRidge(x, y).predict([]float64{1, 2, 7})
	if math.Abs(got[0]-1) > 0.05 || math.Abs(got[1]-2) > 0.05 {
		t.Errorf("%v, want [1 2]", got)
	}
}

// Without noise the sums reveal every user, and the model reveals more users than chance does.
func TestMembershipWithoutNoise(t *testing.T) {
	effort.NotShort(t, "some dozens of runs")
	statistics := effort.Of(small, small, attacked("algorithm", "ssp-c"))
	for kind, settings := range map[Kind][]config.Setting{MembershipUser: statistics, MembershipRating: attacked("algorithm", "private-item-bias")} {
		c := Config{Kind: kind, Epsilons: []Epsilon{inf}, Shadows: 8, Targets: 20}
		m := ran(t, settings, c).Budgets[0].Membership
		if m[1].AUC.Value < 0.99 || m[1].TPR.Low < 0.9 {
			t.Errorf("%s from the sums: AUC %v, TPR %v", kind, m[1].AUC, m[1].TPR)
		}
		if kind == MembershipUser && m[0].AUC.Low < 0.6 {
			t.Errorf("%s from the model: AUC %v", kind, m[0].AUC)
		}
	}
}

// In the control, where no target is ever in a run, nothing is found. The seed is fixed: the four intervals are 95%
// intervals, so with varying seeds one test in five or six would fail.
func TestControlIsChance(t *testing.T) {
	effort.NotShort(t, "some dozens of runs")
	for _, kind := range []Kind{MembershipUser, MembershipRating} {
		c := Config{Kind: kind, Epsilons: []Epsilon{inf}, Shadows: 8, Targets: 20, Control: true}
		for _, x := range ran(t, attacked("algorithm", "private-item-bias"), c).Budgets[0].Membership {
			if !holds(x.AUC, 0.5) {
				t.Errorf("%s from the %s: AUC %v", kind, x.From, x.AUC)
			}
		}
	}
}

// Every algorithm whose clients are users that are summed can be attacked. Without noise, the sums of one run tell the targets that are in
// it from the others by themselves, but where clients draw which rating they send.
func TestAllAlgorithmsAreAttacked(t *testing.T) {
	tried := 0
	for _, name := range algorithm.Names() {
		about := algorithm.Find(name).About()
		if about.Clients != algorithm.Users || about.Noise != algorithm.DistributedNoise || testing.Short() && tried > 0 {
			continue
		}
		if !effort.Long() && tried > 1 {
			break // two seconds each
		}
		tried++
		c := Config{Kind: MembershipUser, Epsilons: []Epsilon{inf}, Shadows: 8, Targets: 40}
		a, err := newAttacker(t.Context(), attacked("algorithm", name), c, inf, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		in := a.coins(2, 1)[0]
		o, err := a.observe(t.Context(), 0, in)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var s scored
		for k, x := range o[1] {
			s = append(s, score{in: in[k], value: x})
			if math.IsNaN(x) || math.IsNaN(o[0][k]) {
				t.Errorf("%s: scores %v and %v", name, x, o[0][k])
			}
		}
		drawn := about.Has(config.Find("contribution"))
		if got := s.auc(nil); !drawn && got < 0.95 {
			t.Errorf("%s: AUC %v", name, got)
		}
	}
	if tried == 0 {
		t.Error("none")
	}
}

// At ε = 1 no threshold finds more than e^ε times the false alarms and δ. The test compares bounds of Clopper and
// Pearson at 97.5% for both rates. If ε holds, they contradict it in at most 5% of the tests of one threshold. The
// only threshold tested calls half of the targets in. The limit is the region of Kairouz, Oh and Viswanath (2015). The
// same test catches a client that adds no noise. Targets are few: what each of them sends hides the others from the
// attacker. With 40 targets a millionth of the noise's variance is not caught, with 4 a thousandth is.
func TestMembershipKeepsToEpsilon(t *testing.T) {
	effort.NotShort(t, "some dozens of runs")
	for _, c := range []struct {
		epsilon Epsilon
		holds   bool
	}{{1, true}, {inf, false}} {
		a := Config{Kind: MembershipUser, Epsilons: []Epsilon{c.epsilon}, Shadows: 8, Targets: 4}
		m := ran(t, attacked("algorithm", "private-item-bias"), a).Budgets[0].Membership[1]
		n := m.Trials / 2
		x := m.ROC[slices.IndexFunc(m.ROC, func(x Rates) bool { return x.False+x.True >= 1 })]
		truly, falsely := binomial.Lower(int(math.Round(x.True*float64(n))), n, binomial.Tail), binomial.Upper(int(math.Round(x.False*float64(n))), n, binomial.Tail)
		if holds := truly <= newLimit(1, 1e-5).allows(falsely); holds != c.holds {
			t.Errorf("ε = %s: %v at least and %v at most of %d", c.epsilon, truly, falsely, n)
		}
	}
}

// Without the secure sum and without noise an update lists what its user rated. With noise that is made to suffice in the sum,
// the sum says no more than popularity does, but one update's share of it hides less.
func TestReconstruction(t *testing.T) {
	effort.NotShort(t, "some dozens of runs")
	r := ran(t, effort.Of(small, small, attacked("algorithm", "ssp-c")), Config{Kind: Reconstruction, Epsilons: []Epsilon{5, inf}, Shadows: effort.Of(8, 8, DefaultShadows), Targets: 40})
	at := func(i int, from string) Rebuilt {
		list := r.Budgets[i].Reconstruction
		return list[slices.IndexFunc(list, func(x Rebuilt) bool { return x.From == from })]
	}
	for i := range r.Budgets {
		if x := at(i, fromUpdates); x.Precision.Value < 0.99 || x.Error.High > x.Plain.Low/1.5 {
			t.Errorf("ε = %s, plain: %+v", r.Budgets[i].Epsilon, x)
		}
		if x, base := at(i, fromSum), at(i, fromPopularity); x.Precision.Low > base.Precision.High {
			t.Errorf("ε = %s, the sum finds %v, popularity %v", r.Budgets[i].Epsilon, x.Precision, base.Precision)
		}
	}
	if x := at(1, fromOthers); x.Precision.Value < 0.99 {
		t.Errorf("without noise, all others known: %v", x.Precision)
	}
	base := at(0, fromPopularity).Precision
	if x := at(0, fromOthers); x.Precision.Low > base.High {
		t.Errorf("with noise, all others known: %v, popularity %v", x.Precision, base)
	}
	if x := at(0, fromNoised); x.Precision.Low <= base.High || x.Precision.High >= 0.99 {
		t.Errorf("a share of the noise: %v, popularity %v", x.Precision, base)
	}
}

// Guesses by the model are as good as guesses by the known ratings alone, within the interval, and are not always
// right. The favourites equal a count by hand.
func TestAttribute(t *testing.T) {
	x := ran(t, attacked("algorithm", "private-item-bias"), Config{Kind: AttributeGenre, Epsilons: []Epsilon{inf}, Shadows: 8, Targets: 50}).Budgets[0].Attribute
	for _, v := range []Interval{x.In, x.Out, x.Ratings, x.Popularity, x.Majority} {
		if !(v.Low <= v.Value && v.Value <= v.High && v.High < 1) {
			t.Errorf("%+v", x)
		}
	}
	if math.Abs(x.Gain.Value-(x.In.Value-x.Out.Value)) > 1e-12 || x.Ratings.High < x.Majority.Low {
		t.Errorf("%+v", x)
	}
}

// One seed gives one report, at any number of workers, and its file is read back.
func TestAttackRepeats(t *testing.T) {
	effort.NotShort(t, "some dozens of runs")
	c := Config{Kind: MembershipUser, Epsilons: []Epsilon{inf}, Shadows: 8, Targets: 8}
	a := ran(t, attacked("algorithm", "lfl-sgdmf", "rounds", "2", "workers", "1"), c)
	b := ran(t, attacked("algorithm", "lfl-sgdmf", "rounds", "2", "workers", "3"), c)
	if !reflect.DeepEqual(a, b) {
		t.Errorf("%+v\n%+v", a, b)
	}
	other := ran(t, attacked("algorithm", "lfl-sgdmf", "rounds", "2", "seed", "2"), c)
	if reflect.DeepEqual(a.Budgets, other.Budgets) {
		t.Error("another seed gives the same")
	}
	dir := t.TempDir()
	if _, err := a.Write(dir); err != nil {
		t.Fatal(err)
	}
	list, err := Load(nil, dir)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	one, _ := json.Marshal(a)
	if two, _ := json.Marshal(list[0]); !bytes.Equal(one, two) {
		t.Errorf("%s\n%s", one, two)
	}
}

// A damaged report is left out with its name, and is an error if the folder has no other.
func TestOneDamagedReport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole := Report{Kind: Reconstruction, Budgets: []At{{Epsilon: 1, Reconstruction: []Rebuilt{{From: fromSum}}}}}
	if _, err := whole.Write(dir); err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(dir, "bad", "attack-cut.json")
	if err := errors.Join(os.Mkdir(filepath.Dir(cut), 0o700), os.WriteFile(cut, []byte(`{"attack": "rec`), 0o600)); err != nil {
		t.Fatal(err)
	}
	var said []string
	warn := func(err error) { said = append(said, err.Error()) }
	if list, err := Load(warn, dir); err != nil || len(list) != 1 || len(said) != 1 || !strings.Contains(said[0], cut) {
		t.Errorf("%d reports, %q, %v; want one, and a word about %s", len(list), said, err, cut)
	}
	if _, err := Load(warn, filepath.Dir(cut)); err == nil {
		t.Error("a damaged report alone was read")
	}
}

// Run refuses settings that cannot be attacked, and says which would be right.
func TestAttackRefusals(t *testing.T) {
	c := Config{Kind: MembershipUser, Epsilons: []Epsilon{1}, Shadows: 8}
	for _, x := range []struct {
		change func(*Config)
		said   []config.Setting
		want   string
	}{
		{func(c *Config) { c.Kind = "all" }, nil, "it must be one of [membership-user"},
		{func(c *Config) { c.Epsilons = nil }, nil, "no epsilon is given"},
		{func(c *Config) { c.Epsilons = []Epsilon{0, 1, 1} }, nil, "must be above 0"},
		{func(c *Config) { c.Epsilons = []Epsilon{1, 1} }, nil, "is there twice"},
		{func(c *Config) { c.Shadows = 7 }, nil, "must be even, and at least 8"},
		{func(c *Config) { c.Targets = 1 }, nil, "at least 2"},
		{func(c *Config) { c.Targets = 301 }, nil, "at most half can be"},
		{func(c *Config) { c.Kind, c.Control = Reconstruction, true }, nil, "control is for attacks of membership"},
		{func(*Config) {}, attacked("algorithm", "vfl-sgdmf"), "take an algorithm with such clients"},
		{func(*Config) {}, attacked("algorithm", "dp-sgld"), "take an algorithm with such clients"},
	} {
		changed, said := c, x.said
		x.change(&changed)
		if said == nil {
			said = attacked()
		}
		if _, err := Run(t.Context(), said, changed); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v, want %q", err, x.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	c.Progress = func(int, int) { cancel() }
	if _, err := Run(ctx, attacked("algorithm", "private-item-bias"), c); !errors.Is(err, context.Canceled) {
		t.Errorf("after it was stopped: %v", err)
	}
}

// The pictures have a place for every budget, the limit beside them, and say what attacks do not show.
func TestAttackSection(t *testing.T) {
	roc := Curve{{0, 0.2}, {0.01, 0.5}, {0.2, 0.8}, {1, 1}}
	at := func(e Epsilon, auc float64) At {
		x := At{Epsilon: e, Membership: []MembershipResult{{From: "model", AUC: Interval{0.5, 0.4, 0.6}}, {From: "sums", AUC: Interval{auc, auc - 0.1, auc + 0.05}, ROC: roc}}}
		if e != inf {
			x.Limit = newLimit(float64(e), 0)
		}
		return x
	}
	r := &Report{Kind: MembershipUser, Algorithm: "x", Shadows: 8, Targets: 4, Settings: []string{"data=my films", "rank=2"}, Budgets: []At{at(1, 0.6), at(inf, 0.9)}}
	s := Section([]*Report{r})
	if len(s.Figures) != 2 || len(s.Tables) != 1 || len(s.NotShown) == 0 {
		t.Fatalf("%+v", s)
	}
	areas := s.Figures[0]
	if !slices.Equal(areas.Ticks, []string{"1", "∞"}) {
		t.Errorf("places %q", areas.Ticks)
	}
	want := map[string][]float64{"x, rank 2, by the sums": {0.6, 0.9}, "x, rank 2, by the model": {0.5, 0.5}, "limit of any attack": {math.E / (1 + math.E), 1}, "guessing": {0.5, 0.5}}
	for _, x := range areas.Series {
		for i, y := range want[x.Name] {
			if math.Abs(x.Y[i]-y) > 1e-12 {
				t.Errorf("%s: %v, want %v", x.Name, x.Y, want[x.Name])
			}
		}
		delete(want, x.Name)
	}
	if len(want) > 0 {
		t.Errorf("no line of %v", want)
	}
	// The most that is found at each rate of false alarms, from the curve above.
	if got := s.Figures[1].Numbers.Rows; !reflect.DeepEqual(got, [][]string{{"0.1%", "0.2000", "0.2000"}, {"1%", "0.5000", "0.5000"}, {"10%", "0.5000", "0.5000"}}) {
		t.Errorf("numbers %q", got)
	}
	if want := "fedsim attack membership-user --epsilon 1,inf --shadows 8 --targets 4 --set 'data=my films' --set rank=2"; s.Repeat[0] != want {
		t.Errorf("%s, want %s", s.Repeat[0], want)
	}
	r.Kind, r.Targets, r.Liars = Promote, 5, []float64{0.01} // an attack without shadows or targets
	if got, want := r.text("command"), "fedsim attack promote --epsilon 1,inf --runs 5 --liars 0.01 --set 'data=my films' --set rank=2"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func holds(i Interval, v float64) bool { return i.Low <= v && v <= i.High }

// auc sorts the scores first.
func (s scored) auc(weight []int) float64 {
	sorted := slices.Clone(s)
	slices.SortFunc(sorted, func(a, b score) int { return cmp.Compare(a.value, b.value) })
	return sorted.sortedAUC(weight)
}

// TestTableOnANarrowScreen: a table that is wider than the screen is split below itself, as the other tables of the command are.
func TestTableOnANarrowScreen(t *testing.T) {
	t.Setenv("COLUMNS", "60")
	limit := &Limit{AUC: 0.7311, TPR: 0.0272}
	r := &Report{Kind: MembershipUser, Algorithm: "x", Data: "films", Shadows: 8, Targets: 4, Budgets: []At{{Epsilon: 1, Limit: limit, Membership: []MembershipResult{{From: "model"}, {From: "sums"}}}}}
	var b strings.Builder
	if err := r.Print(&b); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 60 {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	for _, want := range []string{"epsilon  seen ", "1        model ", "most active", "AUC limit", "TPR limit", "0.0272"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("there is no %q in\n%s", want, b.String())
		}
	}
}
