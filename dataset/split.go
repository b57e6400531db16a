package dataset

import (
	"crypto/sha256"
	"errors"
	"fmt"
)

// DefaultTest is the share of ratings held out for the test when [SplitParams] names none.
const DefaultTest = 0.1

// SplitParams say how to split a set.
type SplitParams struct {
	Test       float64 // share of ratings held out for the test, 0 < Test < 1; zero means DefaultTest
	Validation float64 // share held out for tuning, 0 for none; Test + Validation < 1
	Seed       uint64  // public; another seed gives another split
}

// Validate reports everything that is wrong with the parameters.
func (p SplitParams) Validate() error {
	var errs []error
	test := p.test()
	if !(test > 0 && test < 1) {
		errs = append(errs, fmt.Errorf("split: test share is %v; want more than 0 and less than 1", p.Test))
	}
	if !(p.Validation >= 0 && p.Validation < 1) {
		errs = append(errs, fmt.Errorf("split: validation share is %v; want at least 0 and less than 1", p.Validation))
	}
	if len(errs) == 0 && test+p.Validation >= 1 {
		errs = append(errs, fmt.Errorf("split: test share %v and validation share %v leave nothing to train on; want a sum below 1", test, p.Validation))
	}
	return errors.Join(errs...)
}

func (p SplitParams) test() float64 {
	if p.Test == 0 {
		return DefaultTest
	}
	return p.Test
}

// Split is a set cut into three disjoint parts, which keep its indices and its
// counts of users and items. A user or an item may have no rating in a part.
type Split struct {
	Train, Validation, Test Ratings

	// Digest is a hex SHA-256 over the set's digest and the part of every
	// rating: equal exactly when the same content is cut in the same way.
	Digest string
}

// Parts of a split, as they are hashed.
const (
	partTrain byte = iota
	partValidation
	partTest
)

// Split sends every rating, independently of all others, to the test part with
// probability p.Test, to the validation part with p.Validation, else to the
// training part. The draw is a hash of the seed and the rating's user and item
// index, so it depends on neither the order of rows nor the other ratings; and
// with the same seed a larger test share holds all of a smaller one.
//
// It is an error when a part that was asked for stays empty, which happens
// with very few ratings only.
func (s *Set) Split(p SplitParams) (*Split, error) {
	if err := errors.Join(p.Validate(), s.Ratings.Validate()); err != nil {
		return nil, err
	}
	parts := make([]byte, s.Len())
	var counts [3]int
	for k := range parts {
		parts[k] = p.part(s.User[k], s.Item[k])
		counts[parts[k]]++
	}
	var errs []error
	for _, part := range []struct {
		name   string
		count  int
		want   bool
		remedy string
	}{
		{"training", counts[partTrain], true, "lower the test and validation shares"},
		{"validation", counts[partValidation], p.Validation > 0, "raise the validation share or set it to 0"},
		{"test", counts[partTest], true, "raise the test share"},
	} {
		if part.want && part.count == 0 {
			errs = append(errs, fmt.Errorf("split: the %s part of %d ratings is empty; %s, or use more ratings or another seed",
				part.name, s.Len(), part.remedy))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	d := digester{hash: sha256.New()}
	d.text("fedsim split v1")
	d.text(s.Digest)
	d.text(string(parts))
	return &Split{
		Train:      s.pick(parts, partTrain, counts[partTrain]),
		Validation: s.pick(parts, partValidation, counts[partValidation]),
		Test:       s.pick(parts, partTest, counts[partTest]),
		Digest:     d.sum(),
	}, nil
}

// part draws the part of one rating.
func (p SplitParams) part(user, item int32) byte {
	const golden = 0x9e3779b97f4a7c15 // keeps the zero seed off the fixed point of mix
	h := mix(mix(p.Seed+golden) ^ (uint64(uint32(user))<<32 | uint64(uint32(item))))
	u := float64(h>>11) / (1 << 53)
	switch {
	case u < p.test():
		return partTest
	case u < p.test()+p.Validation:
		return partValidation
	default:
		return partTrain
	}
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection
// whose every output bit depends on every input bit.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// pick returns the ratings of one part.
func (r Ratings) pick(parts []byte, part byte, count int) Ratings {
	out := newRatings(r.Users, r.Items, count)
	n := 0
	for k, p := range parts {
		if p == part {
			out.User[n], out.Item[n], out.Value[n] = r.User[k], r.Item[k], r.Value[k]
			n++
		}
	}
	return out
}
