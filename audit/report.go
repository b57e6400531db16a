package audit

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/units"
	"github.com/fedsim/fedsim/protocol"
)

// Report is what an audit comes to.
type Report struct {
	Algorithm string  `json:"algorithm"`
	Noise     string  `json:"noise"`
	Unit      dp.Unit `json:"unit"`
	Clients   int     `json:"clients"`
	Items     int     `json:"items"`
	Colluders int     `json:"colluders"`
	Dropout   float64 `json:"dropout"`
	// Releases are how many vectors, or noised steps, there are in a run.
	Releases int    `json:"releases"`
	Runs     int    `json:"runs"` // of each of the two worlds
	Seed     uint64 `json:"seed"`

	Claim   Claim   `json:"claim"`
	Claimed float64 `json:"claimed_epsilon"`
	Delta   float64 `json:"delta"`

	// Attack is which statistic told most in the runs that choose.
	Attack string `json:"attack"`
	// Bound is the lower bound on ε at 95%, Point the estimate by the same counts. Where noise
	// is summed over all coordinates they are read off the normal curve of trade-offs through
	// the counts, of parties' steps off the curve of the same steps with as much noise as
	// suits. Event is the bound by one event, which assumes nothing of the mechanism.
	Bound float64 `json:"bound"`
	Point float64 `json:"point"`
	Event float64 `json:"event_bound"`
	// Of the held-out runs, those called full that are not and that are.
	FalsePositives int `json:"false_positives"`
	TruePositives  int `json:"true_positives"`
	HeldOut        int `json:"held_out"` // of each world
}

// attack chooses the attack on the first half of the runs and measures it on the second.
func (r *Report) attack(views *[worlds][]view, p price) {
	n := len(views[0]) / 2
	var first, second [worlds][]view
	for w, all := range views {
		first[w], second[w] = all[:n], all[n:]
	}
	var unseen *half
	var at, oneEvent float64
	best := math.Inf(-1)
	for _, s := range statistics(&first) {
		chosen := s.apply(&first)
		threshold, bound := chosen.choose(curve(r.Delta)) // which is quick, and near any
		if bound <= best {
			continue
		}
		unseen = s.apply(&second)
		best, r.Attack, at = bound, s.name, threshold
		oneEvent, _ = chosen.choose(event(r.Delta))
	}
	b := unseen.measure(at, p)
	r.Bound, r.Point = b.Epsilon, b.Point
	r.FalsePositives, r.TruePositives, r.HeldOut = b.FalsePositives, b.TruePositives, b.Runs
	r.Event = unseen.measure(oneEvent, event(r.Delta)).Epsilon
}

// Holds reports whether the bound stays below the claim.
func (r *Report) Holds() bool { return r.Bound < r.Claimed }

// CaughtError is returned for a claim that the audit disproves.
type CaughtError struct{ Report *Report }

// Error says by how much.
func (e *CaughtError) Error() string {
	r := e.Report
	return fmt.Sprintf("the %s epsilon of %s does not hold: at least %.4g at delta %s, with 95%% confidence", r.Claim, number(r.Claimed), r.Bound, dp.RoundUp(r.Delta, 3))
}

// Err is a [CaughtError] where the claim does not hold.
func (r *Report) Err() error {
	if r.Holds() {
		return nil
	}
	return &CaughtError{r}
}

// Print writes three lines: what was tried, the bound and the claim.
func (r *Report) Print(w io.Writer) error {
	var b strings.Builder
	what := "releases"
	if r.Noise == protocol.PartyNoise.String() {
		what = "noised steps"
	}
	fmt.Fprintf(&b, "tried: %s, %s noise, %d clients (%d collude, dropout %g), %d items: %s runs with a %s at the bounds and as many with it empty, %s %s each; %s\n",
		r.Algorithm, r.Noise, r.Clients, r.Colluders, r.Dropout, r.Items, units.Grouped(int64(r.Runs)), r.Unit, units.Grouped(int64(r.Releases)), what, r.Attack)
	fmt.Fprintf(&b, "bound: epsilon >= %.4g at delta %s with 95%% confidence (estimate %.4g; by one event, without a curve, %.4g): %d of %d empty and %d of %d full called full\n",
		r.Bound, dp.RoundUp(r.Delta, 3), r.Point, r.Event, r.FalsePositives, r.HeldOut, r.TruePositives, r.HeldOut)
	verdict := "the bound stays below it"
	if !r.Holds() {
		verdict = "it does not hold"
	}
	fmt.Fprintf(&b, "claim: epsilon %s at delta %s (%s): %s\n", number(r.Claimed), dp.RoundUp(r.Delta, 3), r.Claim, verdict)
	_, err := io.WriteString(w, b.String())
	return err
}

// number writes a claim no smaller than it is.
func number(x float64) string { return dp.RoundUp(x, 4) }
