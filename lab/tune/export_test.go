package tune

import (
	"context"

	"github.com/fedsim/fedsim/algorithm"
)

// Cost returns what the search costs, without making it.
func (s Search) Cost(ctx context.Context) (*Cost, error) {
	c, err := s.resolve()
	if err != nil {
		return nil, err
	}
	return s.cost(ctx, s.Space.Candidates(s.Trials, s.Even, algorithm.Seed.Of(c)))
}
