package audit

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/units"
	"github.com/fedsim/fedsim/protocol"
)

// Report holds the result of an audit.
type Report struct {
	Algorithm string  `json:"algorithm"`
	Noise     string  `json:"noise"`
	Unit      dp.Unit `json:"unit"`
	Clients   int     `json:"clients"`
	Items     int     `json:"items"`
	Colluders int     `json:"colluders"`
	Dropout   float64 `json:"dropout"`
	// Releases counts the vectors, or noised steps, of a run.
	Releases int `json:"releases"`
	Runs     int `json:"runs"` // of each of the two worlds
	// MeanRuns is the mean number of runs of a private search; Runs counts searches then. 0 of runs.
	MeanRuns float64 `json:"mean_runs,omitempty"`
	Seed     uint64  `json:"seed"`
	// Offered counts vectors beyond the bounds of releases that the client was given. Accepted lists those it did not refuse.
	Offered  int      `json:"offered"`
	Accepted []string `json:"accepted,omitempty"`

	Claim   AuditedEpsilon `json:"claim"`
	Claimed float64        `json:"claimed_epsilon"`
	Delta   float64        `json:"delta"`

	// Attack is the statistic that gave the bound.
	Attack string `json:"attack"`
	// LowerBound is the lower bound on ε at 95%. Point is the estimate without a margin. Distance is the distance between the
	// mean log-likelihood ratios of the two worlds, in standard deviations. Distance is 0 for steps on samples, which
	// have no normal curve.
	Bound    float64 `json:"bound"`
	Point    float64 `json:"point"`
	Distance float64 `json:"distance"`
	// Pairs counts the pairs of steps or releases that gave the bound; 0 of another attack.
	Pairs int `json:"pairs,omitempty"`
	// Event is the lower bound at 95% by one event, which assumes nothing of the mechanism.
	Event float64 `json:"event_bound"`
	// FalsePositives and TruePositives count the held-out empty and full runs that the threshold calls full. The threshold was
	// chosen on the other runs.
	FalsePositives int `json:"false_positives"`
	TruePositives  int `json:"true_positives"`
	HeldOut        int `json:"held_out"` // of each world
}

// tail is the chance at which a bound at 95% may be wrong. Of two attacks the learnt one has a tenth of it: it is there for gross
// mistakes, which need no tight bound.
const (
	tail       = 0.05
	learntTail = tail / 10
)

// attackNormal bounds the ε of noise summed over all coordinates. It takes the better of two attacks that share
// the tail: the log-likelihood ratio, which is not learnt, on all runs, and a learnt sum on runs that it has not seen.
func (r *Report) attackNormal(views *[worlds][]view) {
	r.attack(views, []statistic{learnt}, curve(r.Delta), learntTail)
	d := separated(apply(likelihoodRatio.learn(views), views), tail-learntTail)
	r.Distance = d.estimate
	if bound := gaussian(d.lower, r.Delta); bound >= r.Bound {
		r.Attack, r.Bound, r.Point = likelihoodRatio.name, bound, gaussian(d.estimate, r.Delta)
	}
}

// measure takes the bound by the noise and the shift of steps, if it is better. It shares the tail with the attack by counts.
func (r *Report) measure(m *measured, events []dp.Event) {
	if bound, point := m.epsilon(events, r.Delta, tail-learntTail); bound >= r.Bound {
		r.Attack, r.Bound, r.Point, r.Pairs = byPairs, bound, point, m.count
	}
}

// byPairs names the measure of pairs.
const byPairs = "noise and the unit's part measured in pairs of steps"

// attack chooses one of the statistics and a threshold on the first half of the runs, and measures them on the second half.
func (r *Report) attack(views *[worlds][]view, list []statistic, p price, wrong float64) {
	n := len(views[0]) / 2
	var first, second [worlds][]view
	for w, all := range views {
		first[w], second[w] = all[:n], all[n:]
	}
	var unseen *half
	var at, oneEvent float64
	best := math.Inf(-1)
	for _, s := range list {
		of := s.learn(&first)
		chosen := apply(of, &first)
		threshold, bound := chosen.choose(curve(r.Delta)) // which is quick, and near any
		if bound <= best {
			continue
		}
		unseen = apply(of, &second)
		best, r.Attack, at = bound, s.name, threshold
		oneEvent, _ = chosen.choose(event(r.Delta))
	}
	b := unseen.measure(at, p, wrong)
	r.Bound, r.Point = b.Epsilon, b.Point
	r.FalsePositives, r.TruePositives, r.HeldOut = b.FalsePositives, b.TruePositives, b.Runs
	r.Event = unseen.measure(oneEvent, event(r.Delta), tail).Epsilon
}

// Holds reports whether the bound stays below the claim, and the client refused every vector beyond its bounds.
func (r *Report) Holds() bool { return r.Bound < r.Claimed && len(r.Accepted) == 0 }

// CaughtError is returned for a claim that the audit disproves.
type CaughtError struct{ Report *Report }

// Error says by how much.
func (e *CaughtError) Error() string {
	r := e.Report
	if len(r.Accepted) > 0 {
		return fmt.Sprintf("the %s epsilon of %s does not hold: %s", r.Claim, number(r.Claimed), strings.Join(r.Accepted, "; "))
	}
	return fmt.Sprintf("the %s epsilon of %s does not hold: at least %.4g at delta %s, with 95%% confidence", r.Claim, number(r.Claimed), r.Bound, dp.RoundUp(r.Delta, 3))
}

// Err is a [CaughtError] where the claim does not hold.
func (r *Report) Err() error {
	if r.Holds() {
		return nil
	}
	return &CaughtError{r}
}

// Print writes what was tried, the bound, what the client refused, and the claim.
func (r *Report) Print(w io.Writer) error {
	var b strings.Builder
	what := "releases"
	if r.Noise == protocol.PartyNoise.String() {
		what = "noised steps"
	}
	runs := "runs"
	if r.MeanRuns > 0 {
		runs = fmt.Sprintf("private searches (%.4g runs in the mean; the best run is seen)", r.MeanRuns)
	}
	fmt.Fprintf(&b, "tried: %s, %s noise, %d clients (%d collude, dropout %g), %d items: %s %s with a %s at the bounds and as many with it empty, %s %s each; %s\n",
		r.Algorithm, r.Noise, r.Clients, r.Colluders, r.Dropout, r.Items, units.Grouped(int64(r.Runs)), runs, r.Unit, units.Grouped(int64(r.Releases)), what, r.Attack)
	fmt.Fprintf(&b, "bound: epsilon >= %.4g at delta %s with 95%% confidence (estimate %.4g; by one event, without a curve, %.4g): ",
		r.Bound, dp.RoundUp(r.Delta, 3), r.Point, r.Event)
	switch {
	case r.Attack == byPairs:
		fmt.Fprintf(&b, "%s pairs were measured\n", units.Grouped(int64(r.Pairs)))
	case r.Distance != 0 && r.Attack == likelihoodRatio.name:
		fmt.Fprintf(&b, "means of empty and full runs are %.4g deviations apart\n", r.Distance)
	default:
		fmt.Fprintf(&b, "%d of %d empty and %d of %d full called full\n", r.FalsePositives, r.HeldOut, r.TruePositives, r.HeldOut)
	}
	if r.Offered > 0 {
		fmt.Fprintf(&b, "offered: %d vectors at 1.01, 1.4 and 10 times the bounds of releases; the client refused %d\n", r.Offered, r.Offered-len(r.Accepted))
	}
	verdict := "the bound stays below it"
	if !r.Holds() {
		verdict = "it does not hold"
	}
	fmt.Fprintf(&b, "claim: epsilon %s at delta %s (%s): %s\n", number(r.Claimed), dp.RoundUp(r.Delta, 3), r.Claim, verdict)
	return screen.Print(w, b.String())
}

// number writes a claim no smaller than it is.
func number(x float64) string { return dp.RoundUp(x, 4) }
