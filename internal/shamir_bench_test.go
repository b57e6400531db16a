package internal_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"filippo.io/edwards25519"

	"github.com/fedsim/fedsim/internal/secagg/shamir"
)

// sizes are holders and threshold per client: sparse and complete graphs of 100.
var sizes = []struct{ holders, threshold int }{{22, 11}, {48, 21}, {99, 61}}

// repeat is the number of secrets in one operation, enough for the clock. A floor does as many, and
// takes turns with the operation that it is the floor of, so that both see the same load of the
// machine.
const repeat = 100

// BenchmarkSplit has the floor of holders·threshold bare MultiplyAdd a secret.
func BenchmarkSplit(b *testing.B) {
	for _, s := range sizes {
		b.Run(fmt.Sprintf("k=%d/t=%d", s.holders, s.threshold), func(b *testing.B) {
			random := rand.NewChaCha8([32]byte{1})
			holders := holdersTo(s.holders)
			secret, err := shamir.NewSecret(random)
			if err != nil {
				b.Fatal(err)
			}
			floor := newFloor(b, repeat*s.holders*s.threshold)
			for b.Loop() {
				for range repeat {
					if _, err = shamir.Split(secret, s.threshold, holders, random); err != nil {
						b.Fatal(err)
					}
				}
				floor.measure(b)
			}
			floor.report(b)
		})
	}
}

// BenchmarkCombine has the weights at hand, and the floor of threshold bare
// MultiplyAdd a secret.
func BenchmarkCombine(b *testing.B) {
	for _, s := range sizes {
		b.Run(fmt.Sprintf("t=%d", s.threshold), func(b *testing.B) {
			holders := holdersTo(s.threshold)
			shares, err := shamir.Split(shamir.Secret{}, s.threshold, holders, rand.NewChaCha8([32]byte{1}))
			if err != nil {
				b.Fatal(err)
			}
			weights, err := shamir.NewLagrange(s.threshold, holders)
			if err != nil {
				b.Fatal(err)
			}
			floor := newFloor(b, repeat*s.threshold)
			for b.Loop() {
				for range repeat {
					if _, err = weights.Combine(shares); err != nil {
						b.Fatal(err)
					}
				}
				floor.measure(b)
			}
			floor.report(b)
		})
	}
}

// BenchmarkNewLagrange is once per set of holders, whatever the number of secrets.
func BenchmarkNewLagrange(b *testing.B) {
	for _, s := range sizes {
		b.Run(fmt.Sprintf("t=%d", s.threshold), func(b *testing.B) {
			holders := holdersTo(s.threshold)
			for b.Loop() {
				if _, err := shamir.NewLagrange(s.threshold, holders); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func holdersTo(n int) []shamir.Index {
	list := make([]shamir.Index, n)
	for i := range list {
		list[i] = shamir.Index(i + 1)
	}
	return list
}

// floor times count multiplications with additions.
type floor struct {
	count   int
	x, y, z edwards25519.Scalar
	spent   time.Duration
}

func newFloor(b *testing.B, count int) *floor {
	b.Helper()
	f := &floor{count: count}
	for i, s := range []*edwards25519.Scalar{&f.x, &f.y, &f.z} {
		seed := [64]byte{63: byte(i + 1)}
		if _, err := s.SetUniformBytes(seed[:]); err != nil {
			b.Fatal(err)
		}
	}
	return f
}

func (f *floor) measure(b *testing.B) {
	b.StopTimer()
	start := time.Now()
	for range f.count {
		f.z.MultiplyAdd(&f.x, &f.z, &f.y)
	}
	f.spent += time.Since(start)
	b.StartTimer()
}

func (f *floor) report(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed())/float64(f.spent), "of-floor")
	b.ReportMetric(float64(f.spent.Nanoseconds())/float64(b.N), "floor-ns")
}
