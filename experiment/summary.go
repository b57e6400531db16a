package experiment

import (
	"fmt"
	"io"
	"runtime/metrics"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/fedssp"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Summary is summary.json: what a run came to.
type Summary struct {
	Algorithm          Algorithm          `json:"algorithm"`
	Data               string             `json:"data"`
	Secagg             string             `json:"secagg"`
	Noise              string             `json:"noise"`
	Rounds             int                `json:"rounds"`
	SkippedRounds      int                `json:"skipped_rounds"`
	Unweighted         bool               `json:"unweighted,omitempty"` // see Lost
	DroppedPerRound    float64            `json:"dropped_per_round"`
	*RatingSummary                        // with explicit feedback
	*RankingMetrics                       // with implicit feedback
	Ranking            *eval.Ranking      `json:"ranking,omitempty"`     // likewise
	SharedRMSE         *float64           `json:"shared_rmse,omitempty"` // before parties fine-tune, where they do
	Mean               *float64           `json:"mean,omitempty"`        // what predictions are on top of, where there is one
	Baselines          Baselines          `json:"baselines"`
	Privacy            dp.Statement       `json:"privacy"`
	BytesUpPerClient   map[string]int64   `json:"bytes_up_per_client"`
	BytesDownPerClient map[string]int64   `json:"bytes_down_per_client"`
	Seconds            map[string]float64 `json:"seconds"` // by phase on the wall clock, but virtual: of the simulated federation
	PeakMemory         uint64             `json:"peak_memory_bytes"`
	ValidationRMSE     *float64           `json:"validation_rmse,omitempty"` // where a validation part was asked for
	ValidationRecall   *float64           `json:"validation_recall@20,omitempty"`
}

// RatingSummary is the part of Summary about ratings.
type RatingSummary struct {
	TestRMSE float64 `json:"test_rmse"`
	TestMSE  float64 `json:"test_mse"`
	TestMAE  float64 `json:"test_mae"`
	// Slices are the buckets of popularity, from head to tail.
	Slices [eval.PopularityBuckets]eval.ErrorSlice `json:"test_slices"`
}

// Lost notes an iteration that released nothing. Where users sum statistics one of them says how
// many ratings, by weight, an item has; without it nothing is learned of items, and the run is unweighted.
func (s *Summary) Lost(iteration uint64, e *Experiment) {
	step := e.Steps.At(iteration)
	s.Unweighted = s.Unweighted || step != nil &&
		slices.ContainsFunc(step.Releases, func(r protocol.Release) bool { return r.Name == fedssp.WeightCounts })
}

// Measured notes the quality of the model that the run of an experiment ends with.
func (s *Summary) Measured(q eval.Quality, e *Experiment, m *model.Trained, run protocol.Runner) {
	if q.Ranking != nil {
		s.Ranking, s.RankingMetrics = q.Ranking, &RankingMetrics{q.Ranking.Recall, q.Ranking.NDCG}
		return
	}
	s.RatingSummary = &RatingSummary{TestRMSE: q.RMSE, TestMSE: q.MSE, TestMAE: q.MAE, Slices: e.Test.Slices(m, run)}
}

// headline is what the run is compared by.
func (s *Summary) headline() float64 {
	if s.RankingMetrics != nil {
		return s.Recall
	}
	return s.TestRMSE
}

// Validated notes the quality on the validation part.
func (s *Summary) Validated(q eval.Quality) {
	v := q.PrimaryMetric()
	if q.Ranking != nil {
		s.ValidationRecall = &v
	} else {
		s.ValidationRMSE = &v
	}
}

// PerClient averages bytes by kind of message over clients; kinds that did not
// occur are left out.
func PerClient(total [protocol.Kinds]int64, clients int) map[string]int64 {
	m := make(map[string]int64)
	for k, n := range total {
		if n > 0 {
			m[protocol.Kind(k).String()] = (n + int64(clients)/2) / int64(clients)
		}
	}
	return m
}

// PeakMemory is the memory that the Go runtime has mapped, which never shrinks.
func PeakMemory() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// Print writes the summary as the last lines of a run: quality beside the
// baselines, the privacy, what it cost, and where the results are.
func (s *Summary) Print(w io.Writer, e *Experiment, path string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s: %s users, %s items, %s training and %s test ratings\n\n", s.Algorithm, s.Data,
		grouped(int64(e.Data.Users)), grouped(int64(e.Data.Items)), grouped(int64(e.Split.Train.Len())), grouped(int64(e.Split.Test.Len())))
	if s.Ranking != nil {
		fmt.Fprintf(&b, "Recall@%d of %s held-out users (the simulator measures it; no budget is spent on that)\n", eval.RankingCutoff, grouped(int64(s.Ranking.Users)))
	} else {
		fmt.Fprintf(&b, "test RMSE, in stars (the simulator measures it; no budget is spent on that)\n")
	}
	row := func(name string, v float64, note string) {
		fmt.Fprintf(&b, "  %-19s %.4f  %s\n", name, v, note)
	}
	horizontal := e.Config.Algorithm.horizontal()
	switch {
	case e.Config.Private() && horizontal:
		row("private model", s.headline(), "this run, fine-tuned by each party for itself")
	case e.Config.Private():
		row("private model", s.headline(), "this run")
	default:
		row("model", s.headline(), "this run, not private")
	}
	optional := func(name string, v *float64, note string) {
		if v != nil {
			row(name, *v, note)
		}
	}
	if s.Ranking != nil {
		row("  NDCG@20", s.NDCG, "of it")
	}
	optional("  on validation", s.ValidationRecall, "users who are neither trained nor tested on")
	optional("  on validation", s.ValidationRMSE, "the part that is neither trained nor tested on")
	optional("  before tuning", s.SharedRMSE, "the shared item embeddings, before parties fine-tune them for themselves")
	l := s.Baselines
	before, alone := "the same start, each user fitted on its own device", "each user trains alone"
	if e.Config.Algorithm.Organisations() {
		before, alone = "the same start, without any iteration", "each party trains alone, with noise for the same privacy"
		if !e.Config.Private() {
			alone = "each party trains alone, for as many steps"
		}
		if horizontal {
			before, alone = "the same start, each party fine-tunes for itself", "each party trains alone and without noise"
		}
	}
	row("before_cooperation", l.BeforeCooperation, before)
	optional("local_only", l.LocalOnly, alone)
	optional("private_item_bias", l.PrivateItemBias, "a private bias of every item for the same budget, users' own on their devices")
	if e.Config.Private() {
		optional("non_private", l.NonPrivate, "the same algorithm without noise, at the learning rate for that")
	}
	optional("popularity", l.Popularity, "the same for everybody, by exact counts, not private")
	if l.RatingBaselines != nil {
		row("user_mean", l.UserMean, "each user's own mean")
		row("global_mean", l.GlobalMean, "one mean for all, not private")
		row("item_bias", l.ItemBias, "regularised user and item bias, not private")
	}
	if e.Config.Algorithm.Federated() && s.SkippedRounds == s.Rounds {
		left := "the model is untrained"
		if e.Config.Algorithm.vertical() {
			left = "each party trained its items by itself"
		}
		fmt.Fprintf(&b, "\nevery iteration was skipped: %s\n", left)
	} else if s.Unweighted {
		fmt.Fprintf(&b, "\nthe iteration that tells how much each item was rated was skipped: nothing is learned of items without it\n")
	}
	fmt.Fprintf(&b, "\nprivacy     %s\n", s.Privacy)
	fmt.Fprintf(&b, "secure sum  %s, noise %s\n", s.Secagg, s.Noise)
	if e.Config.Algorithm.Federated() {
		fmt.Fprintf(&b, "cohort      %s clients, of whom %s may be lost in an iteration and %s may collude\n", grouped(int64(e.Cohort.Clients)),
			grouped(int64(e.Cohort.Clients-e.Cohort.Required())), grouped(int64(e.Cohort.Colluding())))
		fmt.Fprintf(&b, "iterations  %d attempted, %d skipped; %.1f clients dropped out in each on average\n", s.Rounds, s.SkippedRounds, s.DroppedPerRound)
		fmt.Fprintf(&b, "per client  %s\n", traffic("up", s.BytesUpPerClient))
		fmt.Fprintf(&b, "            %s\n", traffic("down", s.BytesDownPerClient))
	}
	fmt.Fprintf(&b, "results     %s\n", path)
	_, err := io.WriteString(w, b.String())
	return err
}

// traffic lists bytes by kind in the order of an iteration.
func traffic(way string, m map[string]int64) string {
	var total int64
	var parts []string
	for k := range protocol.Kinds {
		if n, ok := m[k.String()]; ok {
			total += n
			parts = append(parts, fmt.Sprintf("%s %s", k, Bytes(n)))
		}
	}
	return fmt.Sprintf("%s %s (%s)", way, Bytes(total), strings.Join(parts, ", "))
}

// Bytes writes a count of bytes for people.
func Bytes(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprintf("%d B", n)
	case n < 10_000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	default:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
}

func grouped(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
