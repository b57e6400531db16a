package attack

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/protocol"
)

// summing is a strategy that keeps what it absorbs.
type summing struct {
	sums    [][]float64
	skipped error
}

func (s *summing) Next() (*protocol.Plan, bool, error) { return nil, true, nil }
func (s *summing) Absorb(_ *protocol.Plan, sums protocol.Sums, _ protocol.Runner) error {
	s.sums = sums.Values
	return nil
}
func (s *summing) Skip(_ *protocol.Plan, err error) { s.skipped = err }
func (s *summing) Model() []byte                    { return nil }

// twoSums is a round of ten clients without noise and two releases, whose coordinates are at most 1.
func twoSums() *protocol.Plan {
	r := protocol.Release{Name: "first", Len: 3, L2: 1, LInf: 1, MaxNonZero: 3, Scale: 1000, Width: 32}
	second := r
	second.Name = "second"
	return &protocol.Plan{Round: 1, Cohort: protocol.Cohort{Clients: 10}, Releases: []protocol.Release{r, second}}
}

// Counted by hand. Nine honest clients sum to (4, 0, 0) in both releases, and one liar says (0, 1, 0). The server takes
// norms up to ten times a client's bound, which is 1 and half an integer of each of three coordinates for rounding.
func TestReachByHand(t *testing.T) {
	most := math.Sqrt(math.Pow(10*(1+math.Sqrt(3)/2/1000), 2) - 4*4)
	for bound, want := range map[string][2]float64{
		withinBounds: {1, 1}, withinReach: {most, most}, oneSum: {most, 1}, proved: {1, 1}, unbounded: {math.NaN(), math.NaN()},
	} {
		under, p := new(summing), twoSums()
		l := &lying{Strategy: under, bound: bound, liars: 1, said: make(map[uint64][][]float64)}
		v := protocol.Vector{Index: []uint32{1}, Value: []float64{1}}
		l.hear(p, []protocol.Vector{v, v})
		err := l.Absorb(p, protocol.Sums{Survivors: 10, Values: [][]float64{{4, 1, 0}, {4, 1, 0}}}, protocol.Workers(1))
		if err != nil {
			t.Fatal(bound, err)
		}
		if bound == unbounded {
			if under.sums != nil || under.skipped == nil || l.refused != 1 || !strings.Contains(under.skipped.Error(), "first") {
				t.Errorf("%s: absorbed %v, skipped %v, refused %d", bound, under.sums, under.skipped, l.refused)
			}
			continue
		}
		for i, x := range want {
			if got := under.sums[i]; math.Abs(got[1]-x) > 2e-3 || got[0] != 4 || got[2] != 0 {
				t.Errorf("%s: release %d is %v, want a lie of %.3f", bound, i, got, x)
			}
		}
	}
}

// Each other user keeps its ratings, and a liar has what it was given, in the order that sets have.
func TestReplacedRows(t *testing.T) {
	set := &dataset.Set{Min: 1, Max: 5, Ratings: dataset.Ratings{Users: 3, Items: 4,
		User: []int32{0, 0, 1, 2, 2}, Item: []int32{1, 3, 0, 0, 2}, Value: []float32{1, 2, 3, 4, 5}}}
	a := &attacker{full: &experiment.Experiment{Setup: algorithm.Setup{Data: set}}}
	got := a.replaced(map[int]map[int32]float32{1: {3: 5, 2: 1}})
	if !slices.Equal(got.User, []int32{0, 0, 1, 1, 2, 2}) || !slices.Equal(got.Item, []int32{1, 3, 2, 3, 0, 2}) || !slices.Equal(got.Value, []float32{1, 2, 1, 5, 4, 5}) {
		t.Errorf("users %v, items %v, values %v", got.User, got.Item, got.Value)
	}
	if !slices.Equal(set.Item, []int32{1, 3, 0, 0, 2}) {
		t.Error("the data of the honest clients changed")
	}
}

// Counted by hand: of users 0 to 3 the last lies. Lists of users 0 and 2 hold the item, so 2/3; errors of users 0 and 1
// are 1 and 3 over two ratings each: √((1 + 3)/4) = 1.
func TestLiarsAreNotMeasured(t *testing.T) {
	nan := math.NaN()
	s := &seenByUser{exposed: []float64{1, 0, 1, 1}, rank: []float64{2, 30, nan, 1}, ndcg: []float64{0.5, nan, 1, 9}, squares: []float64{1, 3, 0, 99}, errors: []float64{2, 2, 0, 1}}
	got := s.over(func(u int) bool { return u != 3 })
	if want := (over{exposed: 2. / 3, ndcg: 0.75, rmse: 1, rank: 30}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Without noise two in five clients that rate one item alone bring it into lists where no honest client does. A single
// liar that multiplies its vector does as much. The millionfold is refused in each round. Then nothing is learned, and
// lists are in random order.
func TestPromoteSmall(t *testing.T) {
	effort.NotShort(t, "federations with and without liars")
	known := append(slices.Clone(small), config.Setting{Key: "features", Value: "genres,year"})
	known[0].Value = "synthetic:small-100" // in long runs, too: the figures are of 100 users
	r := ran(t, known, Config{Kind: Promote, Epsilons: []Epsilon{inf}, Shadows: fewestShadows, Targets: 2, Liars: []float64{0.1, 0.4}})
	most := make(map[string]Lie)
	for _, x := range r.Budgets[0].Lies {
		if x.Strategy == "the item alone" {
			most[x.Bound] = x // of the most liars
		}
		if x.Honest != 0 || x.HonestRank < 10 {
			t.Errorf("%+v: honest clients promote an item that is not in the most rated tenth", x)
		}
		if x.Refused != 0 && x.Bound != unbounded || x.Largest != 0 {
			t.Errorf("%+v: nothing is to be refused, and there is no noise", x)
		}
	}
	if x := most[withinBounds]; x.Liars != 40 || x.Exposure.Low < 0.9 || x.Rank > listsOf {
		t.Errorf("of 40 liars in 100: %+v", x)
	}
	if x := most[withinReach]; x.Liars != 1 || x.Exposure.Low < 0.9 {
		t.Errorf("of one liar within the reach: %+v", x)
	}
	if x := most[unbounded]; x.Refused != 1 || x.Exposure.High > 0.2 || x.NDCG.Low < 0.1 {
		t.Errorf("of one liar without bounds: %+v", x)
	}
	head, rows := r.table()
	for _, row := range rows {
		if len(row) != len(head) {
			t.Fatalf("a row of %d cells under %d heads", len(row), len(head))
		}
	}
	if !strings.Contains(r.text("command"), "--liars 0.1 --liars 0.4") {
		t.Error("the command does not repeat the attack:", r.text("command"))
	}
}

// Organisations have no vector of one user: their liars are users with false ratings.
func TestLiarsOfOrganisations(t *testing.T) {
	r := ran(t, attacked("algorithm", "hfl-sgdmf", "rounds", "2"), Config{Kind: Degrade, Epsilons: []Epsilon{inf}, Shadows: fewestShadows, Targets: 2, Liars: []float64{0.4}})
	worst := 0.
	for _, x := range r.Budgets[0].Lies {
		if x.Bound != withinBounds {
			t.Errorf("%+v: an organisation's vector was multiplied", x)
		}
		if x.Liars > 0 { // 0.4 of the users
			worst = max(worst, x.RMSE.Value)
		}
	}
	if !(worst > 0) {
		t.Errorf("liars raise the RMSE by %v", worst)
	}
}

func TestLiarsAreAskedFor(t *testing.T) {
	for _, c := range []Config{
		{Kind: Promote}, {Kind: MembershipUser, Liars: []float64{0.1}}, {Kind: Degrade, Liars: []float64{0}}, {Kind: Degrade, Liars: []float64{0.6}},
	} {
		c.Epsilons, c.Shadows = []Epsilon{1}, DefaultShadows
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "liars") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	said := attacked("algorithm", "item-bias")
	if _, err := Run(t.Context(), said, Config{Kind: Promote, Epsilons: []Epsilon{inf}, Shadows: DefaultShadows, Liars: []float64{0.1}}); err == nil || errors.Is(err, t.Context().Err()) {
		t.Errorf("of an algorithm without clients: %v", err)
	}
}
