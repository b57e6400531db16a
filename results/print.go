package results

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/units"
	"github.com/fedsim/fedsim/protocol"
)

//go:embed summary.tmpl
var summaryText string

var summaryForm = template.Must(template.New("summary").Funcs(template.FuncMap{
	"at":      func(metric string, m eval.ListMetrics) string { return fmt.Sprintf("%s@%d", metric, m.K) },
	"count":   units.Count,
	"means":   (*Summary).means,
	"less":    func(a, b int) int { return a - b },
	"f":       func(x float64) string { return fmt.Sprintf("%.4f", x) },
	"wide":    func(x float64) string { return fmt.Sprintf("%10.4f", x) },
	"percent": func(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) },
	"traffic": traffic,
}).Parse(summaryText))

// Print writes the summary as the last lines of a run: quality beside the baselines, what privacy
// means and, if the results were kept, their folder. It takes about twenty lines of 80 characters.
// verbose adds the other baselines and metrics, the statement of privacy, the cohort and the bytes.
func (s *Summary) Print(w io.Writer, e *experiment.Experiment, path string, verbose bool) error {
	p := printed{Summary: s, E: e, Path: path, Verbose: verbose}
	if x, ok := e.Instance().(algorithm.SummaryDescriber); ok {
		p.words = x.Words()
	}
	var b strings.Builder
	if err := summaryForm.Execute(&b, p); err != nil {
		return err
	}
	var next [][]string
	if _, loads := algorithm.Of(e.Config).(algorithm.Loader); path != "" && loads && e.Data.Profile == nil && len(e.Data.UserIDs) > 0 {
		next = append(next, []string{"fedsim", "recommend", "--run", path, "--user", e.Data.UserIDs[0]})
		if read.Once(algorithm.Data.Of(e.Config)) {
			next[0] = append(next[0], "--data", "FILE")
		}
	}
	if path != "" && (verbose || next == nil) {
		next = append(next, []string{"fedsim", "report", path}, []string{"fedsim", "results", filepath.Dir(path)})
	}
	return screen.Print(w, b.String(), next...)
}

// printed is a summary as summary.tmpl prints it.
type printed struct {
	*Summary
	E       *experiment.Experiment
	Path    string // of the folder; "" if nothing was kept
	Verbose bool
	words   algorithm.Words
}

// Ratings counts the ratings of all parts of the split.
func (p printed) Ratings() int {
	return p.E.Split.Train.Len() + p.E.Split.Validation.Len() + p.E.Split.Test.Len()
}

// Starred reports whether ratings are of at most five stars.
func (p printed) Starred() bool {
	d := p.E.Data
	return d.Shift == 0 && d.Min <= 1 && d.Max == 5
}

// Unit names the unit of ratings: stars, if five are the most, and points of the scale otherwise.
func (p printed) Unit() string {
	if p.Starred() {
		return "stars"
	}
	return fmt.Sprintf("points of the scale %v to %v", p.E.Data.Min-p.E.Data.Shift, p.E.Data.Max-p.E.Data.Shift)
}

// Untrained says what the model is if every round was skipped; "" otherwise.
func (p printed) Untrained() string {
	if p.E.About().Federated() && p.SkippedRounds == p.Rounds {
		return cmp.Or(p.words.Untrained, "the model is untrained")
	}
	return ""
}

// row is a line of the table of a run and its baselines, with the served figure and the figure with drift.
type row struct {
	Name         string
	Value, Drift *float64
	Note         string
}

// Rows is the table of the run and its baselines.
func (p printed) Rows() (list []row) {
	if math.IsNaN(p.PrimaryMetric()) {
		return nil
	}
	add := func(name string, v, drift *float64, note string) {
		if v != nil {
			list = append(list, row{name, v, drift, note})
		}
	}
	regression := p.E.Data.Profile != nil
	if own := p.PrimaryMetric(); p.E.Private() {
		add("private model", &own, p.RMSEWithDrift, strings.TrimSuffix("this run, "+p.words.Model, ", "))
	} else {
		add("model", &own, p.RMSEWithDrift, "this run, not private")
	}
	if p.RankingMetrics != nil {
		add("  NDCG@20", &p.NDCG, nil, "of it")
	}
	if regression {
		add("  MSE", &p.TestMSE, nil, "of it, its square")
	}
	validated := "users who are neither trained nor tested on"
	if p.E.Held != nil && p.E.Held.Seen {
		validated = "liked items that are neither trained nor tested on"
	}
	add("  on validation", p.ValidationRecall, nil, validated)
	add("  on validation", p.ValidationRMSE, nil, "the part that is neither trained nor tested on")
	add("  before tuning", p.SharedRMSE, nil, p.words.Shared)
	for _, b := range p.Baselines {
		if b.Note == "" || !p.Verbose && !regression && slices.Contains(simple, b.Name) && b.Name != p.bestSimpler().Name {
			continue
		}
		var drift *float64
		if v, ok := p.BaselinesWithDrift.Of(b.Name); ok {
			drift = &v
		}
		add(b.Name, &b.Value, drift, b.Note)
	}
	return list
}

// Names of baselines, as in summary.json: choices that the budget or a public rule buys without this model, and simple
// models of exact ratings, which leave out items or privacy.
var (
	simpler = []string{"before_cooperation", "local_only", "user_mean", "private_item_bias", "private_popularity"}
	simple  = []string{"user_mean", "global_mean", "item_bias"}
)

// bestSimpler returns the best choice without this model that is as private; "" names none.
func (s *Summary) bestSimpler() (best Baseline) {
	for _, b := range s.Baselines {
		if slices.Contains(simpler, b.Name) && (best.Name == "" || (b.Value > best.Value) == (s.RankingMetrics != nil)) {
			best = b
		}
	}
	return best
}

// means compares the private model with the best simpler choice, and says what the noise costs, if that was measured.
func (s *Summary) means() (list []string) {
	sign, metric := 1.0, fmt.Sprintf("Recall@%d", eval.RankingCutoff) // sign of an improvement
	if s.RankingMetrics == nil {
		sign, metric = -1, "RMSE"
	}
	if best := s.bestSimpler(); best.Name != "" {
		gain := sign * (s.PrimaryMetric() - best.Value)
		words := fmt.Sprintf("%s %.4f better than the best simpler choice (%s)", metric, gain, best.Name)
		if gain <= 0 {
			words = fmt.Sprintf("none: the simpler %s is %.4f better", best.Name, math.Abs(gain))
		}
		list = append(list, "gain        "+words)
	}
	if exact, measured := s.Baselines.Of("non_private"); measured {
		list = append(list, fmt.Sprintf("price       %.4f by noise at these settings; whole price: --epsilon inf", sign*(exact-s.PrimaryMetric())))
	}
	return list
}

// Middle has the metrics of lists of one length, the middle one.
func (p printed) Middle() eval.ListMetrics { return p.Ranking.Lists.At[len(p.Ranking.Lists.At)/2] }

// few bounds the lead over popularity, as a share, of lists that are hardly better.
const few = 0.02

// HardlyBetter reports whether the lists are hardly better than lists by popularity with such an NDCG.
func (p printed) HardlyBetter(popular float64) bool { return p.Middle().NDCG <= (1+few)*popular }

// traffic lists bytes by kind in the order of a round.
func traffic(m map[string]int64) string {
	var total int64
	var parts []string
	for k := range protocol.Kinds {
		if n, ok := m[k.String()]; ok {
			total += n
			parts = append(parts, fmt.Sprintf("%s %s", k, units.Bytes(n)))
		}
	}
	return fmt.Sprintf("%s (%s)", units.Bytes(total), strings.Join(parts, ", "))
}
