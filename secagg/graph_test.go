package secagg

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"
)

func numbered(i int) (seed [32]byte) {
	binary.BigEndian.PutUint64(seed[:], uint64(i))
	return seed
}

// The vector was made in Python from the documentation of NewGraph, with hashlib's
// SHA-256 and the AES-CTR of the package cryptography.
func TestGoldenGraph(t *testing.T) {
	text, err := os.ReadFile("testdata/permutation.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Seed            string
		Clients, Degree int
		Ring            []int32
		Neighbours      [][]int
	}
	if err = json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	seed, err := hex.DecodeString(want.Seed)
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGraph(want.Clients, want.Degree, [32]byte(seed))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Ring, g.ring); diff != "" {
		t.Errorf("ring (-want +got):\n%s", diff)
	}
	for i, peers := range want.Neighbours {
		if diff := cmp.Diff(peers, g.Neighbours(i)); diff != "" {
			t.Errorf("neighbours of %d (-want +got):\n%s", i, diff)
		}
	}
}

// Being neighbours is mutual, and every client has the same number of neighbours. Around the ring,
// the clients at most k/2 steps away are its neighbours: the definition of the graph.
func TestGraphProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 60).Draw(t, "clients")
		k := 2 * rapid.IntRange(1, 40).Draw(t, "half the degree")
		g, err := NewGraph(n, k, numbered(rapid.Int().Draw(t, "seed")))
		if err != nil {
			t.Fatal(err)
		}
		if g.Degree() != min(k, n-1) {
			t.Fatalf("%d clients of degree %d, want %d", n, g.Degree(), min(k, n-1))
		}
		for i := range n {
			peers := g.Neighbours(i)
			if len(peers) != g.Degree() || !slices.IsSorted(peers) || len(slices.Compact(slices.Clone(peers))) != len(peers) {
				t.Fatalf("neighbours of %d: %v; want %d different ones in ascending order", i, peers, g.Degree())
			}
			for j := range n {
				near := slices.Contains(peers, j)
				if g.Adjacent(i, j) != near || g.Adjacent(j, i) != near || i == j && near {
					t.Fatalf("%d and %d: adjacent %v and %v, neighbours %v", i, j, g.Adjacent(i, j), g.Adjacent(j, i), near)
				}
			}
		}
		for p, client := range g.ring {
			for step := 1; step < n; step++ {
				if got, want := g.Adjacent(int(client), int(g.ring[(p+step)%n])), min(step, n-step) <= k/2; got != want {
					t.Fatalf("%d steps apart: adjacent %v, want %v", step, got, want)
				}
			}
		}
	})
}

func TestNobodyElseIsANeighbour(t *testing.T) {
	for _, k := range []int{4, 9} {
		g, err := NewGraph(10, k, numbered(1))
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range []int{-1, 10} {
			if peers := g.Neighbours(i); peers != nil {
				t.Errorf("neighbours of client %d of 10: %v", i, peers)
			}
			if g.Adjacent(i, 0) || g.Adjacent(0, i) {
				t.Errorf("client %d of 10 is adjacent to 0", i)
			}
		}
		g.Neighbours(3)[0] = 7
		if peers := g.Neighbours(3); slices.Contains(peers[1:], peers[0]) || peers[0] != slices.Min(peers) {
			t.Errorf("a caller changed the graph: %v", peers)
		}
	}
}

func TestGraphIsCompleteWhateverTheSeed(t *testing.T) {
	for _, k := range []int{9, 10, 1000} {
		g, err := NewGraph(10, k, numbered(k))
		if err != nil {
			t.Fatal(err)
		}
		if g.Degree() != 9 || !slices.Equal(g.Neighbours(4), []int{0, 1, 2, 3, 5, 6, 7, 8, 9}) {
			t.Errorf("degree %d: %d neighbours, %v", k, g.Degree(), g.Neighbours(4))
		}
	}
}

func TestNewGraphRefuses(t *testing.T) {
	for _, c := range []struct {
		clients, degree int
		want            string
	}{
		{1, 2, "graph: 1 clients; it takes 2 to 1048576"},
		{MaxClients + 1, 2, "graph: 1048577 clients; it takes 2 to 1048576"},
		{10, 3, "graph: degree 3 for 10 clients; it must be even and at least 2, or at least 9 for the complete graph"},
		{10, 0, "graph: degree 0 for 10 clients; it must be even and at least 2, or at least 9 for the complete graph"},
		{10, -2, "graph: degree -2 for 10 clients; it must be even and at least 2, or at least 9 for the complete graph"},
	} {
		if _, err := NewGraph(c.clients, c.degree, numbered(0)); err == nil || err.Error() != c.want {
			t.Errorf("%d clients, degree %d: %v, want %q", c.clients, c.degree, err, c.want)
		}
	}
}

// chiSquare fails when the counts are less likely than 1 in 10^6 under the
// expectation (which must be at least 5 everywhere): the false-alarm rate of
// each of the two tests that use it.
func chiSquare(t *testing.T, counts []int, expected []float64) {
	t.Helper()
	x := 0.0
	for i, n := range counts {
		x += (float64(n) - expected[i]) * (float64(n) - expected[i]) / expected[i]
	}
	if limit := (distuv.ChiSquared{K: float64(len(counts) - 1)}).Quantile(1 - 1e-6); x > limit {
		t.Errorf("chi-square %.1f of %v, above %.1f; expected %.0f", x, counts, limit, expected)
	}
}

// All 24 orders of 4 clients are equally likely.
func TestEveryOrderIsEquallyLikely(t *testing.T) {
	const each = 400
	counts := make([]int, 24)
	for seed := range 24 * each {
		g, err := NewGraph(4, 2, numbered(seed))
		if err != nil {
			t.Fatal(err)
		}
		rank := 0 // in the factorial number system
		for i, a := range g.ring {
			smaller := 0
			for _, b := range g.ring[i+1:] {
				if b < a {
					smaller++
				}
			}
			rank = rank*(4-i) + smaller
		}
		counts[rank]++
	}
	chiSquare(t, counts, slices.Repeat([]float64{each}, 24))
}

// The number of colluding neighbours, which the bounds are about, in graphs that are
// really drawn: hypergeometric by the exact rationals.
func TestColludingNeighboursAreHypergeometric(t *testing.T) {
	const clients, colluding, degree, graphs = 30, 8, 6, 4000
	counts, expected := make([]int, 5), make([]float64, 5) // the last: 4 or more
	for x := range expected {
		p, _ := exactTail(clients-1, colluding, degree, x).Float64()
		if x < 4 {
			more, _ := exactTail(clients-1, colluding, degree, x+1).Float64()
			p -= more
		}
		expected[x] = p * graphs
	}
	for seed := range graphs {
		g, err := NewGraph(clients, degree, numbered(seed))
		if err != nil {
			t.Fatal(err)
		}
		x := 0
		for _, peer := range g.Neighbours(clients - 1) {
			if peer < colluding {
				x++
			}
		}
		counts[min(x, 4)]++
	}
	chiSquare(t, counts, expected)
}

func BenchmarkNewGraph(b *testing.B) {
	for b.Loop() {
		if _, err := NewGraph(10_000, 108, numbered(1)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNeighbours(b *testing.B) {
	g, err := NewGraph(10_000, 108, numbered(1))
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		g.Neighbours(i % 10_000)
	}
}
