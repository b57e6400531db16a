package secagg_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// With a bound on coordinates, the ring holds N times ⌊s·LInf + 1/2⌋, the largest
// integer that such a coordinate is rounded to, or N·⌊D2⌋ if that is less: in
// exact arithmetic.
func TestWidthWithCoordinateBound(t *testing.T) {
	check := func(clients, scale int, most, l2 *big.Rat, length int) {
		t.Helper()
		r := exact("g", length*length, 8)
		r.Scale = float64(scale)
		r.LInf, _ = most.Float64()
		r.L2, _ = l2.Float64()
		coordinate := floor(new(big.Rat).Add(new(big.Rat).Mul(most, big.NewRat(int64(scale), 1)), big.NewRat(1, 2)))
		norm := floor(new(big.Rat).Add(new(big.Rat).Mul(l2, big.NewRat(int64(scale), 1)), big.NewRat(int64(length), 2)))
		if norm.Cmp(coordinate) < 0 {
			coordinate = norm
		}
		top := coordinate.Mul(coordinate, big.NewInt(int64(clients)))
		want := 8
		for new(big.Int).Lsh(big.NewInt(1), uint(want-1)).Cmp(top) <= 0 {
			want++
		}
		if got, err := secagg.Width(protocol.Cohort{Clients: clients}, r, 1); err != nil || int(got) != want {
			t.Errorf("%d clients, scale %d, coordinates to %v, norms to %v: %d bits, %v; want %d", clients, scale, most, l2, got, err, want)
		}
	}
	check(10, 1<<24, big.NewRat(9, 4), big.NewRat(3000, 1), 1000) // ten parties' embeddings: 30 bits
	check(1, 4, big.NewRat(127, 4), big.NewRat(1000, 1), 5)       // 127: fits 8 bits
	check(1, 4, big.NewRat(255, 8), big.NewRat(1000, 1), 5)       // 127.5 may become 128
	check(1, 4, big.NewRat(509, 16), big.NewRat(1000, 1), 5)      // 127.25 may not
	check(1, 1, big.NewRat(1000, 1), big.NewRat(126, 1), 2)       // the norm decides: 127
	rng := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		l2 := big.NewRat(1+rng.Int64N(1<<20), 16)
		check(1+rng.IntN(1<<rng.IntN(12)), 1<<rng.IntN(20), new(big.Rat).Mul(l2, big.NewRat(1+rng.Int64N(16), 16)), l2, 1+rng.IntN(30))
	}
}

func floor(x *big.Rat) *big.Int { return new(big.Int).Div(x.Num(), x.Denom()) }

// Values that a client quantizes from the largest coordinates, of either sign, do not wrap in the
// ring of that width. Every client is at the bound here, and the sum is over all of them.
func TestWidthHoldsWhatIsQuantized(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 200 {
		n := 1 + rng.IntN(40)
		r := exact("g", 2, 8)
		r.L2, r.LInf, r.Scale = 10, 0.01+rng.Float64(), math.Ldexp(rng.Float64()+0.1, rng.IntN(20))
		p := protocol.Cohort{Clients: n}
		var err error
		if r.Width, err = secagg.Width(p, r, 1); err != nil {
			t.Fatal(err)
		}
		pl := plan(n, r)
		sum := ideal(pl, secagg.DrawSum, simulated.New(1, "ideal-sum"))
		want := make([]int64, 2)
		for id := range n {
			v, quantizeErr := client.Quantize(protocol.Vector{Value: []float64{r.LInf, -r.LInf}}, r)
			if quantizeErr != nil {
				t.Fatal(quantizeErr)
			}
			for i, x := range v.Value {
				want[i] += x
			}
			if receiveErr := sum.Receive(protocol.ClientID(id), &protocol.MaskedInput{Vectors: []protocol.Integers{v}}); receiveErr != nil {
				t.Fatal(receiveErr)
			}
		}
		got, err := sum.Sum(serial{})
		if err != nil || got[0][0] != want[0] || got[0][1] != want[1] {
			t.Errorf("%d clients of ±%v at scale %v in %d bits: %v, %v; want %v", n, r.LInf, r.Scale, r.Width, got, err, want)
		}
	}
}

// Noise that is inside the inputs takes no room in the ring, and the sum, ideal
// as it is, adds none.
func TestOwnNoiseInSums(t *testing.T) {
	r := exact("g", 2, 8)
	r.L2, r.LInf, r.Scale = 1000, 127, 1
	r.Noise = protocol.Noise{Kind: protocol.PartyNoise, Multiplier: 1e9, SamplingRate: 0.5, Steps: 1 << 40}
	if got, err := secagg.Width(protocol.Cohort{Clients: 1}, r, 1<<30); err != nil || got != 8 {
		t.Errorf("%d bits, %v; want 8", got, err)
	}
	sum := ideal(plan(1, r), secagg.DrawSum, simulated.New(1, "ideal-sum"))
	for _, m := range []protocol.StageMessage{&protocol.MaskedInput{Vectors: []protocol.Integers{{Value: []int64{127, -127}}}}, &protocol.Unmask{}} {
		if err := sum.Receive(0, m); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := sum.Sum(serial{}); err != nil || got[0][0] != 127 || got[0][1] != -127 {
		t.Errorf("sum %v, %v; want 127 and -127", got, err)
	}
}
