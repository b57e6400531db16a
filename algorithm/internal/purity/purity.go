// Package purity keeps what ε of an own algorithm rests on: a user without ratings adds zero, and a user's vector follows
// from that user's ratings and the model alone.
package purity

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Compute returns a vector for each of some users, in their order.
type Compute func(users []model.Ratings) ([]protocol.Vector, error)

// Check computes the vectors of a few users again.
type Check struct {
	// Again computes the vector of one user, apart from the others. nil: nothing is checked.
	Again   Compute
	Name    string // of the algorithm
	Release protocol.Release
	Round   uint64
	// First is the number of the first user, among Users that are asked in the round.
	First, Users int
}

// few is about the number of users of a round whose vectors are computed again.
const few = 8

// tolerance allows for floats that other shapes of arrays round otherwise, as a share of a vector's norm or bound.
const tolerance = 1e-4

// Vectors computes the vectors of users. A user without ratings has a vector of zeros, whatever compute says, since ε
// compares with such a record. compute is not called for such users alone. Vectors refuses a vector that differs if its
// user is asked again.
func Vectors(users []model.Ratings, compute Compute, c Check) (list []protocol.Vector, err error) {
	if !slices.ContainsFunc(users, func(r model.Ratings) bool { return len(r.Items) > 0 }) {
		list = make([]protocol.Vector, len(users))
	} else if list, err = compute(users); err != nil {
		return nil, err
	}
	for k, r := range users {
		switch {
		case len(r.Items) == 0:
			list[k] = protocol.Vector{Index: []uint32{}}
		case c.Again != nil && c.chooses(k):
			again, err := c.Again(users[k : k+1])
			if err == nil {
				err = c.compare(list[k], again[0])
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// chooses picks about few users of a round, other users in every round.
func (c *Check) chooses(k int) bool {
	stride := uint64(max(1, c.Users/few))
	const odd = 0x9E3779B97F4A7C15 // spreads the rounds
	return uint64(c.First+k)%stride == c.Round*odd>>32%stride
}

// compare refuses two vectors of one user that differ by more than rounding.
func (c *Check) compare(first, again protocol.Vector) error {
	if err := errors.Join(first.Validate(c.Release.Len), again.Validate(c.Release.Len)); err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	difference := make([]float64, c.Release.Len)
	var norm, apart float64
	first.Each(func(j int, x float64) { difference[j], norm = x, norm+x*x })
	again.Each(func(j int, x float64) { difference[j] -= x })
	for _, x := range difference {
		apart += x * x
	}
	if apart = math.Sqrt(apart); apart <= tolerance*max(math.Sqrt(norm), c.Release.L2) {
		return nil
	}
	return fmt.Errorf("%s: a user's vector changed when the user was asked again alone: the two are %.2g apart, and the L2 bound is %g. "+
		"So the vector depends on other users' ratings (statistics over a batch, memory between calls) or on chance, and epsilon does not hold. "+
		"Contribute must be pure: compute a vector from its user's ratings and the model alone", c.Name, apart, c.Release.L2)
}
