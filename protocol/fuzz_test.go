package protocol_test

import (
	"errors"
	"math/big"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/protocol"
)

// FuzzBitmap compares bitmaps of any bytes with integers of any size.
func FuzzBitmap(f *testing.F) {
	f.Fuzz(func(t *testing.T, b, o []byte, n uint16) {
		x, y := integer(b), integer(o)
		count := 0
		for i := range x.BitLen() {
			count += int(x.Bit(i))
		}
		bitmap := protocol.Bitmap(b)
		if got := bitmap.Count(); got != count {
			t.Errorf("%x has %d members, want %d", b, got, count)
		}
		if got, want := bitmap.Fits(int(n)), len(b) == (int(n)+7)/8 && x.BitLen() <= int(n); got != want {
			t.Errorf("%x fits %d: %t, want %t", b, n, got, want)
		}
		if got, want := bitmap.Has(int(n)), x.Bit(int(n)) == 1; got != want {
			t.Errorf("%x has %d: %t, want %t", b, n, got, want)
		}
		if got, want := bitmap.Subset(o), new(big.Int).AndNot(x, y).Sign() == 0; got != want {
			t.Errorf("%x is a subset of %x: %t, want %t", b, o, got, want)
		}
	})
}

// integer reads little endian bytes.
func integer(b []byte) *big.Int {
	b = slices.Clone(b)
	slices.Reverse(b)
	return new(big.Int).SetBytes(b)
}

// FuzzPlan: using a plan that was found sound ends, without a panic, in numbers that mean
// something. Sizes do not overflow. Charges are for all steps of every client concerned, or dp
// refuses them.
func FuzzPlan(f *testing.F) {
	f.Fuzz(func(t *testing.T, clients int, tolerance, colluders float64, length, nonZero int, l2, l1, lInf, scale float64,
		width, kind uint8, variance, multiplier, rate float64, steps int, spread bool) {
		p := protocol.Plan{Round: 1, Cohort: protocol.Cohort{Clients: clients, Tolerance: tolerance, Colluders: colluders},
			Releases: []protocol.Release{{Name: "g", Len: length, L2: l2, L1: l1, LInf: lInf, MaxNonZero: nonZero, Scale: scale, Width: width,
				Noise: protocol.Noise{Kind: protocol.NoiseKind(kind), Variance: variance, Multiplier: multiplier, SamplingRate: rate, Steps: steps, Spread: spread}}}}
		if p.Validate() != nil {
			return
		}
		c := p.Cohort
		if c.Required() < 1 || c.Required() > clients || c.Honest(c.Required()) < 1 {
			t.Errorf("of %d clients %d are required, %d may collude", clients, c.Required(), c.Colluding())
		}
		size := new(big.Int).Mul(big.NewInt(int64(length)), big.NewInt(int64(width)))
		size.Rsh(size.Add(size, big.NewInt(7)), 3)
		if got := p.PackedSize(); got < 1 || big.NewInt(int64(got)).Cmp(size) != 0 {
			t.Errorf("%d coordinates of %d bits take %d bytes, want %d", length, width, got, size)
		}
		if got := p.RemovalSize(clients); got < 0 {
			t.Errorf("%+v: removals of %d bytes", p, got)
		}
		if d2, d1 := p.Releases[0].Bounds(); !(d2 > 0 && d1 >= d2) {
			t.Errorf("%+v: bounds %v and %v", p, d2, d1)
		}
		events, err := p.Charges()
		if (err != nil) != (p.Releases[0].Noise.Kind == protocol.NoNoise) || err != nil && !errors.Is(err, protocol.ErrUnprotected) {
			t.Errorf("%+v: charges %v, %v", p, events, err)
		}
		count := big.NewInt(1)
		if p.Releases[0].Noise.Kind == protocol.PartyNoise {
			count = big.NewInt(int64(steps))
			if spread {
				count.Mul(count, big.NewInt(int64(clients)))
			}
		}
		for _, e := range events {
			if e.Validate() == nil && big.NewInt(int64(e.Count)).Cmp(count) != 0 {
				t.Errorf("%+v: charge %+v, want %d times", p, e, count)
			}
		}
	})
}
