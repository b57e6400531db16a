package stage

import (
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/fedssp/solver"
	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/protocol"
)

// checkTop checks the settings that choose items.
func checkTop(p *kernel.Params, e *problems.List) {
	e.If(p.ByWeights && ProblemOfWeights(p) != "", "items are to be chosen by weights: %s", ProblemOfWeights(p))
	if p.TopItems == 0 && p.Listed == nil {
		return
	}
	if p.TopItems < 1 || p.TopItems >= p.Items {
		e.Add("top-items are %d of %d items; there must be from 1 to %d, or 0 to train on all", p.TopItems, p.Items, p.Items-1)
		return
	}
	e.If(!p.TakesSome(),
		"top-items are %d, and gradients, posteriors and weights of popularity are of all items; there must be 0", p.TopItems)
	if p.Listed != nil {
		if err := p.CheckChoice(p.Listed); err != nil {
			e.Add("%w", err)
		}
	}
}

// ProblemOfWeights says why weights cannot choose the items; "" if they can.
func ProblemOfWeights(p *kernel.Params) string {
	switch {
	case !p.Chooses():
		return "top-items must say how many, and no list which"
	case !p.Bias || p.Rounds == 0:
		return "there must be a bias stage, which releases them, and rounds after it"
	case p.BiasRounds > 1:
		return "bias-rounds must be 1"
	case p.WithCounts():
		return "counts are released for weights or samples; choose by them"
	default:
		return ""
	}
}

// Validate reports everything that makes the settings unusable, apart from numbers outside the ranges
// of their keys: a configuration is checked for these.
func Validate(p kernel.Params) error {
	var e problems.List
	if p.Solver == nil {
		return errors.New("there is no solver; name one")
	}
	if p.Items < 1 || p.Rank < 1 || p.Rounds < 0 {
		return fmt.Errorf("there are %d items, rank %d and %d rounds; items and rank are at least 1, rounds at least 0", p.Items, p.Rank, p.Rounds)
	}
	checkTop(&p, &e)
	e.If(p.Single && p.Solver.Traits().Exact,
		"solver %s broadcasts numbers that must be exact; models must be in double precision", p.Solver)
	e.If(float64(p.Trained())*float64(p.Rank)*float64(p.Rank+1)/2 > protocol.MaxLen,
		"%d items of rank %d make statistics of more than %d coordinates; lower the rank", p.Trained(), p.Rank, protocol.MaxLen)
	e.If(!(p.Min < p.Max) || math.IsInf(p.Min, 0) || math.IsInf(p.Max, 0),
		"the rating scale is %v to %v; it must be two finite numbers, the lower first", p.Min, p.Max)
	checkForm(&p, &e)
	checkUserFeatures(&p, &e)
	e.If(p.Popularity > 0 && !p.Bias, "popularity is %v without a bias stage, which releases it", p.Popularity)
	if p.Encodes() {
		if _, x := p.Solver.Encoder(&p); x.Validate(p.Rank) != nil {
			e.Add("%w", x.Validate(p.Rank))
		}
	}
	solver.Of(&p).Check(&p, &e)
	checkSums(&p, &e)
	if sum := p.Split.Counts + p.Split.Mean + p.Split.Bias; !(sum < 1) && p.Rounds > 0 {
		e.Add("the shares of counts, mean and bias are %v together; the statistics need some of 1", sum)
	}
	return errors.Join(e...)
}

// checkForm checks what is learned from which statistics.
func checkForm(p *kernel.Params, e *problems.List) {
	switch p.Feedback {
	case kernel.Explicit:
	case kernel.Implicit:
		e.If(p.Bias || p.MeanCap > 0, "implicit feedback has no rating scale: the bias stage and the mean must be off")
	default:
		e.Add("feedback is %q; it must be %s or %s", p.Feedback, kernel.Explicit, kernel.Implicit)
	}
	if f := p.Features; f != nil && f.Items != p.Items {
		e.Add("the features are of %d items; there are %d", f.Items, p.Items)
	}
}

// checkUserFeatures checks the settings of the features that a client weighs.
func checkUserFeatures(p *kernel.Params, e *problems.List) {
	if p.UserFeatures == nil {
		return
	}
	e.If(p.Feedback == kernel.Implicit, "weights of public features are for explicit feedback")
	if n := p.UserFeatures.Items(); n != p.Items {
		e.Add("the weights are of features of %d items; there are %d", n, p.Items)
	}
	if x := p.UserFeatures.Largest(); !(x > 0) || math.IsInf(x, 1) {
		e.Add("the features that users weigh are as large as %v; they must be finite, and not all zero", x)
	}
}
