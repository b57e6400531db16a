package fedssp

import (
	"math"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/user"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// CountsParams holds the settings of private counts. A count is the number of users who rated an
// item. Counts serve weights, samples and the choice of items.
type CountsParams struct {
	CountCap    int     // θ_c, the most items that a user counts; of releases that need counts only
	CountMargin float64 // added to the counts, in deviations of their noise; at least 0
}

// counting is the stage of private counts.
type counting struct{}

func (counting) keys() []*config.Key {
	return []*config.Key{keys.countCap.Key, keys.countMargin.Key, keys.shareCounts.Key}
}

func declareCounts() {
	keys.countMargin = config.DeclareNumber(config.Key{
		Name: "statistics.count-margin", Kind: config.Real, Default: "0", Range: config.Between(0, 100), When: condition(settings.weighsByCounts).when(),
		Help: "Margin added to the private counts, in deviations of their noise, so that noise which makes a count small gives the item no weight (multi-task, appendix B).",
	})
	keys.countCap = count("statistics.count-cap", config.Between(1, 1e6), settings.counted, "50",
		"Most items that a user is counted at in the private counts.", value(50))
	keys.shareCounts = share("counts", settings.counted, "0.01", "Share of the budget for private counts.", value(0.01))
}

func (counting) read(p *Params, s settings) {
	p.CountsParams = CountsParams{CountCap: keys.countCap.Int(s.Config), CountMargin: keys.countMargin.Value(s.Config)}
	p.Split.Counts = keys.shareCounts.Value(s.Config)
}

// withCounts reports whether weights or samples need the private counts.
func (p *Params) withCounts() bool {
	return p.Budgeting == TailSample || p.Budgeting == Weights && (p.Exponent > 0 || p.Normalise == GlobalNorm)
}

// releasesCounts reports whether private counts are released, for weights or to choose items by.
func (p *Params) releasesCounts() bool { return p.withCounts() || p.chooses() && !p.ByWeights }

func (counting) check(p *Params, e *problems) {
	e.share("counts", p.Split.Counts, p.releasesCounts())
	if p.releasesCounts() {
		e.within(keys.countCap, float64(p.CountCap))
		e.within(keys.countMargin, p.CountMargin)
	}
}

// ask adds the counts: at most θ_c ones, so that the L1 norm is at most θ_c and the L2 norm √θ_c.
func (counting) ask(p *Params, to *schedule) {
	if !p.releasesCounts() {
		return
	}
	most := min(p.CountCap, p.Items)
	to.prepare.add(protocol.Release{Name: Counts, Len: p.Items, L2: math.Sqrt(float64(most)), L1: float64(most), LInf: 1, MaxNonZero: most}, p.Split.Counts)
}

func (counting) answers(release string) bool    { return release == Counts }
func (counting) length(p *Params, _ string) int { return p.Items }
func (counting) beforeChoice(*Params) bool      { return true }
func (counting) takes(phase string) bool        { return phase == Prepare }

// contribute is 1 for each of at most θ_c items of the whole catalogue. Every rated item is equally
// likely to be among them.
func (counting) contribute(c *contribution, _ protocol.Release) (protocol.Vector, error) {
	ratings := c.all
	places, err := user.Sample(len(ratings.Items), c.params.CountCap, c.src.Stream("sample-counts", c.round))
	if err != nil {
		return protocol.Vector{}, err
	}
	v := protocol.Vector{Index: make([]uint32, len(places)), Value: make([]float64, len(places))}
	for i, k := range places {
		v.Index[i], v.Value[i] = uint32(ratings.Items[k]), 1
	}
	return v, nil
}

// absorb keeps the counts, and chooses items by them.
func (counting) absorb(s *Strategy, r absorbed, _ protocol.Runner) error {
	x := r.values[Counts]
	if x == nil {
		return nil
	}
	n := s.params.total() / r.users
	counts := dense.Scaled(x, n)
	if s.Current().unchosen {
		if err := s.adopt(most(counts, s.all.TopItems)); err != nil {
			return err
		}
	}
	for j := range x { // multi-task paper, appendix B: an item must not gain weight because noise made its count small
		counts[j] += s.params.CountMargin * r.noise[Counts] * n
	}
	if s.chosen != nil {
		counts = s.chosen.pick(counts)
	}
	if s.params.withCounts() {
		s.Current().Counts = counts
	}
	return nil
}
