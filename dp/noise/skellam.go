package noise

import (
	"errors"
	"fmt"
)

// ErrSharedStream is returned if a call needs two independent streams but got the same stream
// twice.
var ErrSharedStream = errors.New("noise: noise and thinning need two independent streams, got one for both")

// Skellam draws P - Q for independent P, Q ~ Poisson(variance/2): symmetric
// integer noise. It is immutable, so any number of goroutines may share it, each
// with its own Bits.
type Skellam struct {
	half *Poisson
}

// NewSkellam returns the Skellam distribution of mean 0 and the given variance. Half of the
// variance is the mean of either Poisson (exact in a float64, except for the smallest subnormal).
// The variance must be positive and finite and at most 2·MaxMean; above that the error wraps
// ErrTooLarge.
func NewSkellam(variance float64) (*Skellam, error) {
	if err := checkVariance(variance); err != nil {
		return nil, err
	}
	half, err := NewPoisson(variance / 2)
	if err != nil {
		return nil, fmt.Errorf("noise: Skellam of variance %v: %w", variance, err)
	}
	return &Skellam{half: half}, nil
}

func checkVariance(variance float64) error {
	if err := checkMean("variance", variance, 2*MaxMean); err != nil {
		return fmt.Errorf("noise: Skellam: %w", err)
	}
	return nil
}

// Variance returns the variance.
func (s *Skellam) Variance() float64 {
	return 2 * s.half.mean
}

// Add adds an independent draw to every coordinate of dst. Sums beyond an int64
// wrap, as in the ring the vectors live in.
//
// If the stream fails, Add clears dst, so that nothing with too little noise can
// leave by mistake, and returns the stream's error.
func (s *Skellam) Add(dst []int64, b *Bits) error {
	for i := range dst {
		p := s.half.Draw(b)
		q := s.half.Draw(b)
		dst[i] += int64(p - q)
	}
	return checkStreams(dst, b)
}

// Removal writes to dst the vector that turns the noise of an earlier Add into its kept part. noise
// must yield the stream that Add read, from the same place. t thins both Poissons of a coordinate
// with fresh bits from thin. With
//
//	dst[i] = -((P - keptP) - (Q - keptQ)),
//
// the noise of Add plus dst is keptP - keptQ. With keep probability r the kept noise is Skellam of
// variance r·Variance(), the removed noise is Skellam of variance (1-r)·Variance(), and the two are
// independent.
//
// Equal streams give equal removals. Removal reads noise exactly as far as Add read its stream, so
// several vectors may follow each other on one stream. A client must answer with one removal: a
// second removal with fresh bits from thin would let the receiver average noise away.
//
// If a stream fails, Removal clears dst and returns that stream's error; if noise and thin are the
// same Bits, it returns ErrSharedStream.
func (s *Skellam) Removal(dst []int64, noise, thin *Bits, t *Thinning) error {
	if noise == thin {
		clear(dst)
		return ErrSharedStream
	}
	for i := range dst {
		p := s.half.Draw(noise)
		q := s.half.Draw(noise)
		keptP := t.Draw(p, thin)
		keptQ := t.Draw(q, thin)
		dst[i] = int64((q - keptQ) - (p - keptP))
	}
	return checkStreams(dst, noise, thin)
}

// checkStreams clears dst and returns the errors of the streams if any failed.
func checkStreams(dst []int64, streams ...*Bits) error {
	var err error
	for _, b := range streams {
		err = errors.Join(err, b.Err())
	}
	if err != nil {
		clear(dst)
	}
	return err
}
