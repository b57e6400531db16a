package internal_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/lineage"
	"github.com/fedsim/fedsim/model"
)

func record() *algorithm.Start {
	epsilon := 5.
	return &algorithm.Start{
		Basis: algorithm.Basis{Algorithm: "lfl-sgdmf", Feedback: "explicit", Rank: 2, Min: 0.5, Max: 5},
		Released: []model.Embeddings{
			model.NewEmbeddings("item_embeddings", model.Wrap(2, 2, []float64{1, 2.5, -3, math.Inf(1)}), []string{"a", "b"}),
			model.NewEmbeddings("none", model.NewMatrix(0, 3), nil),
		},
		Sessions: []algorithm.PastSession{{
			Session: "00ff", Epsilon: &epsilon, Delta: 1e-5, Unit: dp.User, Accountant: dp.GDPSkellam,
			Events: []dp.Event{dp.Skellam(1e6, 100, 100).Times(10)}, SamplerError: 1e-20,
		}},
	}
}

// A record is read as it was written, and every damaged byte is found.
func TestRecordIsReadAsWritten(t *testing.T) {
	want := record()
	b, err := lineage.Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := lineage.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range want.Released {
		y := got.Released[i]
		if x.Name != y.Name || !slices.Equal(x.IDs, y.IDs) || !slices.Equal(x.Matrix.Data(), y.Matrix.Data()) {
			t.Errorf("matrix %d is %v %v, want %v %v", i, y.Name, y.Matrix, x.Name, x.Matrix)
		}
	}
	if d := cmp.Diff(want.Sessions, got.Sessions); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got.Algorithm != want.Algorithm || got.Feedback != want.Feedback || got.Rank != 2 || got.Min != 0.5 || got.Max != 5 {
		t.Errorf("the header is %+v", got)
	}
	for i := range b {
		broken := slices.Clone(b)
		broken[i] ^= 1
		if _, err := lineage.Decode(broken); err == nil {
			t.Fatalf("a change of byte %d of %d is not found", i, len(b))
		}
		if _, err := lineage.Decode(b[:i]); err == nil {
			t.Fatalf("%d of %d bytes are a record", i, len(b))
		}
	}
}

// A folder without a record is refused with what is wanted.
func TestFolderWithoutRecord(t *testing.T) {
	dir := t.TempDir()
	if _, err := lineage.Read(dir); err == nil || !strings.Contains(err.Error(), "want the folder of a finished run") {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, lineage.File), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := lineage.Read(dir); err == nil || !strings.Contains(err.Error(), "no record of a session") {
		t.Errorf("%v", err)
	}
}

// Equal sessions of plain normal noise compose to one of √n times the μ, by the definition of the Gaussian trade-off
// (Dong, Roth and Su 2022, corollary 3.3). The expected ε is of that one release.
func TestCostComposesTightly(t *testing.T) {
	s := record().Sessions[0]
	s.Accountant, s.SamplerError, s.Events = dp.Best, 0, []dp.Event{dp.Gaussian(4)}
	for n, z := range map[int]float64{1: 4, 4: 2, 16: 1} {
		got, delta, err := lineage.Cost(slices.Repeat([]algorithm.PastSession{s}, n))
		if err != nil {
			t.Fatal(err)
		}
		want := dp.GaussianEpsilon(1/z, 1e-5)
		if math.Abs(got.Epsilon-want) > 1e-3*want || delta != 1e-5 {
			t.Errorf("%d sessions cost %v at %v, want %v", n, got.Epsilon, delta, want)
		}
	}
	// Two unlike sessions, by Φ alone: δ(ε) = Φ(μ/2 - ε/μ) - e^ε·Φ(-μ/2 - ε/μ) with μ² = 1/3² + 1/5² (Balle and Wang 2018, theorem 8).
	other := s
	s.Events, other.Events = []dp.Event{dp.Gaussian(3)}, []dp.Event{dp.Gaussian(5)}
	mu, phi := math.Sqrt(1./9+1./25), func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	got, _, err := lineage.Cost([]algorithm.PastSession{s, other})
	e := got.Epsilon
	if d := phi(mu/2-e/mu) - math.Exp(e)*phi(-mu/2-e/mu); err != nil || math.Abs(d-1e-5) > 1e-8 {
		t.Errorf("two unlike sessions cost %v, at which δ is %v (%v)", e, d, err)
	}
	bare := s
	bare.Epsilon, bare.Events = nil, nil
	if got, _, err := lineage.Cost([]algorithm.PastSession{s, bare}); err != nil || !math.IsInf(got.Epsilon, 1) {
		t.Errorf("with a session without noise it is %v, %v", got, err)
	}
}

// A program that knows of no searches would count too little: a record with one begins with another version. The search counts
// once for all sessions whose settings it chose, and a plain search leaves no ε. Searches of normal releases alone have the ε that
// dp.Problem gives, which dp tests against theorem 2.
func TestCostWithSearches(t *testing.T) {
	law, run := dp.Selection{Eta: 1, Gamma: 0.25}, [][]dp.Event{{dp.Gaussian(1.5)}}
	search, err := dp.NewSearch(law, run, 0)
	if err != nil {
		t.Fatal(err)
	}
	cost, err := dp.Problem{Delta: 1e-5, Accountant: dp.RDP, Searches: []dp.Search{{Law: law, Runs: run}}}.Epsilon()
	if err != nil {
		t.Fatal(err)
	}
	want := cost.Epsilon
	s := record()
	won := &s.Sessions[0]
	won.Search, won.Events, won.SamplerError = search, nil, 0
	b, err := lineage.Encode(s)
	if err != nil || strings.HasPrefix(string(b), "fedsim/released/v1") {
		t.Fatalf("%.20q, %v", b, err)
	}
	back, err := lineage.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	again := back.Sessions[0]
	for _, sessions := range [][]algorithm.PastSession{{*won}, {*won, again}} {
		if got, _, err := lineage.Cost(sessions); err != nil || math.Abs(got.Epsilon-want) > 1e-9 {
			t.Errorf("%d sessions cost %v, %v, want %v", len(sessions), got, err, want)
		}
	}
	again.Events = []dp.Event{dp.Gaussian(2)}
	if got, _, err := lineage.Cost([]algorithm.PastSession{*won, again}); err != nil || got.Epsilon < 1.1*want {
		t.Errorf("with a further run the search costs %v, %v, alone %v", got, err, want)
	}
	again.Search, again.Epsilon = &dp.Search{}, nil
	if got, _, err := lineage.Cost([]algorithm.PastSession{*won, again}); err != nil || !math.IsInf(got.Epsilon, 1) {
		t.Errorf("with a plain search it is %v, %v", got, err)
	}
}
