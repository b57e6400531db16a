package serving

import (
	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/model"
)

// Adopt makes the strategy train on the chosen items, from their start on.
func (s *Strategy) Adopt(items []int32) error {
	c, err := s.All.Over(items)
	if err != nil {
		return err
	}
	s.turnTo(c)
	return s.begin()
}

// Narrow limits statistics to the items with the largest weights, once biases of all items are
// known: see [kernel.Params.ByWeights].
func (s *Strategy) Narrow() error {
	mean, biases := s.model.Mean, s.model.Bias
	if err := s.Adopt(kernel.MostRated(s.Weight, s.All.TopItems)); err != nil {
		return err
	}
	c := s.Chosen
	s.fresh = model.At(s.fresh, c.Items)
	s.weigh()
	s.model.Mean, s.model.Bias, s.model.RestBias = mean, model.At(biases, c.Items), model.At(biases, c.Others)
	return nil
}

// turnTo replaces the settings by the chosen items' settings.
func (s *Strategy) turnTo(c *kernel.Choice) { s.Chosen, s.Params.Params = c, *c.Inner }
