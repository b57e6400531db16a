package results

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/units"
	"github.com/fedsim/fedsim/protocol"
)

// Summary is summary.json: the results of a run.
type Summary struct {
	Algorithm       string           `json:"algorithm"`
	Data            string           `json:"data"`
	Notices         []dataset.Notice `json:"notices,omitempty"` // what reading the data dropped, assumed or merged
	Secagg          string           `json:"secagg"`
	Noise           string           `json:"noise"`
	Rounds          int              `json:"rounds"`
	SkippedRounds   int              `json:"skipped_rounds"`
	Lost            []string         `json:"lost_for_good,omitempty"` // with a skipped round: the reasons why the round cannot be made up for
	DroppedPerRound float64          `json:"dropped_per_round"`
	*RatingSummary                   // with explicit feedback
	*RankingMetrics                  // with implicit feedback
	// RMSEWithDrift is [eval.Test.MeasureDrift], where data have times: corrected by times that no served model knows.
	RMSEWithDrift *float64             `json:"test_rmse_with_drift,omitempty"`
	Ranking       *RankingSummary      `json:"ranking,omitempty"` // lists of recommendations
	Sampled       *eval.SampledQuality `json:"sampled,omitempty"` // rankings among sampled items, if asked for
	// Popularity holds the metrics of lists that have the most rated items for all users, by ExactCounts and by
	// ReleasedCounts, if the run released any.
	Popularity         map[string]map[string]float64 `json:"popularity,omitempty"`
	Spread             *eval.Spread                  `json:"users,omitempty"`       // how metrics differ between users
	SharedRMSE         *float64                      `json:"shared_rmse,omitempty"` // before parties fine-tune, if they do
	Mean               *float64                      `json:"mean,omitempty"`        // the mean under the predictions, if there is one
	Baselines          Baselines                     `json:"baselines"`
	BaselinesWithDrift Baselines                     `json:"baselines_with_drift,omitempty"` // to compare with RMSEWithDrift
	Privacy            dp.Statement                  `json:"privacy"`
	AllSessions        *AllSessions                  `json:"all_sessions,omitempty"` // of a session that started from an earlier one
	BytesUpPerClient   map[string]int64              `json:"bytes_up_per_client"`
	BytesDownPerClient map[string]int64              `json:"bytes_down_per_client"`
	Seconds            map[string]float64            `json:"seconds"` // by phase on the wall clock; virtual is the time of the simulated federation
	PeakMemory         uint64                        `json:"peak_memory_bytes"`
	Clipped            *algorithm.Clipped            `json:"clipping,omitempty"`        // of an algorithm whose vectors are clipped to their bounds
	Settings           map[string]string             `json:"settings"`                  // keys that have an effect, except paths
	Asked              map[string]string             `json:"asked"`                     // settings that the user gave, and that no rule chose
	ValidationRMSE     *float64                      `json:"validation_rmse,omitempty"` // if there is a validation part
	ValidationRecall   *float64                      `json:"validation_recall@20,omitempty"`
}

// RatingSummary is the part of Summary about ratings.
type RatingSummary struct {
	TestRMSE float64 `json:"test_rmse"`
	TestMSE  float64 `json:"test_mse"`
	TestMAE  float64 `json:"test_mae"`
	// Slices holds the buckets of popularity, from head to tail.
	Slices []eval.ErrorSlice `json:"test_slices"`
}

// Baseline is the result of one comparison: the RMSE, or with implicit feedback Recall@20, on the
// same split with the same start and the same local budget.
type Baseline struct {
	Name, Note string
	Value      float64
}

// Baselines holds the baselines of a run, in the order of the table. In JSON they are an object of
// numbers.
type Baselines []Baseline

// MarshalJSON writes the object.
func (b Baselines) MarshalJSON() ([]byte, error) {
	all := make(map[string]float64, len(b))
	for _, x := range b {
		all[x.Name] = x.Value
	}
	return json.Marshal(all)
}

// UnmarshalJSON reads the object. The notes are lost, and the baselines are ordered by name.
func (b *Baselines) UnmarshalJSON(text []byte) error {
	var all map[string]float64
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	*b = nil
	for name, v := range all {
		*b = append(*b, Baseline{Name: name, Value: v})
	}
	slices.SortFunc(*b, func(x, y Baseline) int { return strings.Compare(x.Name, y.Name) })
	return nil
}

// Of returns the value of a baseline, and whether there is one.
func (b Baselines) Of(name string) (float64, bool) {
	for _, x := range b {
		if x.Name == name {
			return x.Value, true
		}
	}
	return 0, false
}

// RecordSkipped notes a round that released nothing.
func (s *Summary) RecordSkipped(round uint64, e *experiment.Experiment) {
	l, ok := e.Instance().(algorithm.RoundLossDescriber)
	step := e.Schedule.At(round)
	if !ok || step == nil {
		return
	}
	if what := l.Lost(*step); what != "" && !slices.Contains(s.Lost, what) {
		s.Lost = append(s.Lost, what)
	}
}

// SetQuality notes the quality of the model that the run ends with. slices are errors by
// popularity, of explicit feedback.
func (s *Summary) SetQuality(q eval.Quality, slices []eval.ErrorSlice) {
	if q.Ranking != nil {
		s.Ranking, s.RankingMetrics = &RankingSummary{Ranking: q.Ranking}, &RankingMetrics{q.Ranking.Recall, q.Ranking.NDCG}
		return
	}
	s.RatingSummary = &RatingSummary{TestRMSE: q.RMSE, TestMSE: q.MSE, TestMAE: q.MAE, Slices: slices}
}

// SetLists notes the quality of lists of recommendations, which may be nil; after SetQuality.
func (s *Summary) SetLists(q *eval.ListQuality) {
	switch {
	case q == nil:
	case s.Ranking == nil:
		s.Ranking = &RankingSummary{Lists: q}
	default:
		s.Ranking.Lists = q
	}
}

// Names of counts in Popularity.
const (
	ExactCounts    = "exact"    // of the training ratings, not private
	ReleasedCounts = "released" // by the run, for its budget
)

// SetPopularity notes the quality of lists by popularity.
func (s *Summary) SetPopularity(counts string, q *eval.ListQuality) {
	if s.Popularity == nil {
		s.Popularity = make(map[string]map[string]float64)
	}
	s.Popularity[counts] = make(map[string]float64)
	for _, x := range q.Named() {
		if strings.Contains(x.Name, "@") {
			s.Popularity[counts][x.Name] = x.Value
		}
	}
}

// PrimaryMetric returns the metric that compares the run; NaN if all ratings were trained on.
func (s *Summary) PrimaryMetric() float64 {
	switch {
	case s.RankingMetrics != nil:
		return s.Recall
	case s.RatingSummary != nil:
		return s.TestRMSE
	}
	return math.NaN()
}

// SetValidation notes the quality on the validation part.
func (s *Summary) SetValidation(q eval.Quality) {
	v := q.PrimaryMetric()
	if q.Ranking != nil {
		s.ValidationRecall = &v
	} else {
		s.ValidationRMSE = &v
	}
}

// NoteSettings notes the settings of the run, and which of them the user gave.
func (s *Summary) NoteSettings(e *experiment.Experiment) {
	s.Settings, s.Asked = make(map[string]string), make(map[string]string)
	idle, asked := algorithm.KeysWithoutEffect(e.Config), e.Asked()
	for _, k := range config.Keys() {
		if k.Scope != config.Agreed && k.Scope != config.Simulated && k != algorithm.FeatureSpec.Key {
			continue
		}
		if !slices.Contains(idle, k) {
			s.Settings[k.Name] = e.Config.Text(k)
		}
		if !asked.IsDefault(k) {
			s.Asked[k.Name] = asked.Text(k)
		}
	}
}

// PerClient averages bytes by kind of message over clients; kinds that did not occur are left out.
func PerClient(total [protocol.Kinds]int64, clients int) map[string]int64 {
	m := make(map[string]int64)
	for k, n := range total {
		if n > 0 {
			m[protocol.Kind(k).String()] = (n + int64(clients)/2) / int64(clients)
		}
	}
	return m
}

// PeakMemory returns the memory that the Go runtime has mapped, which never shrinks.
func PeakMemory() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// Print writes the summary as the last lines of a run: quality beside the baselines, what privacy
// means and, if the results were kept, their folder. It takes about twenty lines of 80 characters.
// verbose adds the other baselines and metrics, the statement of privacy, the cohort and the bytes.
func (s *Summary) Print(w io.Writer, e *experiment.Experiment, path string, verbose bool) error {
	p := &printer{s: s, e: e, verbose: verbose}
	if x, ok := e.Instance().(algorithm.SummaryDescriber); ok {
		p.words = x.Words()
	}
	p.head()
	p.quality()
	p.lists()
	p.privacy()
	if verbose || s.SkippedRounds > 0 {
		p.cost()
	}
	if path == "" {
		return screen.Print(w, p.String())
	}
	p.line("results     %s", path)
	var next [][]string
	if _, loads := algorithm.Of(e.Config).(algorithm.Loader); loads && e.Data.Profile == nil && len(e.Data.UserIDs) > 0 {
		next = append(next, []string{"fedsim", "recommend", "--run", path, "--user", e.Data.UserIDs[0]})
	}
	if verbose || next == nil {
		next = append(next, []string{"fedsim", "report", path}, []string{"fedsim", "results", filepath.Dir(path)})
	}
	if !verbose {
		p.line("            summary.json in there has every figure; --verbose prints them")
	}
	return screen.Print(w, p.String(), next...)
}

// printer collects the text.
type printer struct {
	strings.Builder
	s       *Summary
	e       *experiment.Experiment
	words   algorithm.Words
	verbose bool
}

func (p *printer) line(format string, args ...any) { p.WriteString(fmt.Sprintf(format+"\n", args...)) }

// row writes a line of the table: a name, the served figure, the figure with drift if there is one, and a note.
func (p *printer) row(name string, v float64, drift *float64, note string) {
	both := fmt.Sprintf("%.4f", v)
	switch {
	case drift != nil:
		both += fmt.Sprintf("  %10.4f", *drift)
	case p.s.RMSEWithDrift != nil:
		both += strings.Repeat(" ", 12)
	}
	p.line("  %-19s %s  %s", name, both, note)
}

func (p *printer) optional(name string, v *float64, note string) {
	if v != nil {
		p.row(name, *v, nil, note)
	}
}

func (p *printer) head() {
	s, d := p.s, p.e.Data
	test := units.Count(p.e.Split.Test.Len())
	all := units.Count(p.e.Split.Train.Len() + p.e.Split.Validation.Len() + p.e.Split.Test.Len())
	if d.Profile != nil {
		p.line("%s on %s: %s examples with %s features", s.Algorithm, s.Data, units.Count(d.Users), units.Count(d.Profile.Features()))
		p.line("test RMSE, in units of the label: the typical error on %s examples kept from training", test)
		return
	}
	p.line("%s on %s: %s users, %s items, %s ratings", s.Algorithm, s.Data, units.Count(d.Users), units.Count(d.Items), all)
	if s.RankingMetrics != nil {
		p.line("Recall@%d of %s %s; higher is better", eval.RankingCutoff, units.Count(s.Ranking.Users), p.ranked())
	} else if s.RatingSummary == nil {
		p.line("no test: all ratings were trained on, as in a deployment (split.test=0)")
	} else {
		p.line("test RMSE, in %s: the typical error on %s ratings kept from training", p.unit(), test)
	}
	if s.RMSEWithDrift != nil {
		p.line("                      served  with drift (given the time of the test rating)")
	}
}

// unit names the unit of ratings: stars, if five are the most, and points of the scale otherwise.
func (p *printer) unit() string {
	if d := p.e.Data; !starred(d) {
		return fmt.Sprintf("points of the scale %v to %v", d.Min-d.Shift, d.Max-d.Shift)
	}
	return "stars"
}

// starred reports whether ratings are of at most five stars.
func starred(d *dataset.Set) bool {
	return d.Shift == 0 && d.Min <= 1 && d.Max == 5
}

func (p *printer) quality() {
	s := p.s
	if !math.IsNaN(s.PrimaryMetric()) {
		p.measured()
	}
	if p.e.About().Federated() && s.SkippedRounds == s.Rounds {
		left := p.words.Untrained
		left = cmp.Or(left, "the model is untrained")
		p.line("\nevery round was skipped: %s", left)
		return
	}
	for _, lost := range s.Lost {
		p.line("\n%s", lost)
	}
	if p.e.Private() && p.e.About().Federated() {
		for _, said := range s.means() {
			p.line("%s", said)
		}
	}
}

func (p *printer) measured() {
	s, note := p.s, "this run"
	if p.words.Model != "" {
		note += ", " + p.words.Model
	}
	if p.e.Private() {
		p.row("private model", s.PrimaryMetric(), s.RMSEWithDrift, note)
	} else {
		p.row("model", s.PrimaryMetric(), s.RMSEWithDrift, "this run, not private")
	}
	if s.RankingMetrics != nil {
		p.row("  NDCG@20", s.NDCG, nil, "of it")
	}
	if p.e.Data.Profile != nil {
		p.row("  MSE", s.TestMSE, nil, "of it, its square")
	}
	validated := "users who are neither trained nor tested on"
	if p.e.Held != nil && p.e.Held.Seen {
		validated = "liked items that are neither trained nor tested on"
	}
	p.optional("  on validation", s.ValidationRecall, validated)
	p.optional("  on validation", s.ValidationRMSE, "the part that is neither trained nor tested on")
	p.optional("  before tuning", s.SharedRMSE, p.words.Shared)
	for _, b := range s.Baselines {
		if b.Note == "" || !p.verbose && p.e.Data.Profile == nil && slices.Contains(simple, b.Name) && b.Name != s.bestSimpler().Name {
			continue
		}
		var drift *float64
		if v, ok := s.BaselinesWithDrift.Of(b.Name); ok {
			drift = &v
		}
		p.row(b.Name, b.Value, drift, b.Note)
	}
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

// means compares the private model with the best simpler choice, and says what the noise costs. It says nothing without a
// measurement.
func (s *Summary) means() (list []string) {
	sign, metric := 1.0, fmt.Sprintf("Recall@%d", eval.RankingCutoff) // sign of an improvement
	if s.RankingMetrics == nil {
		sign, metric = -1, "RMSE"
	}
	if best := s.bestSimpler(); best.Name != "" {
		if gain := sign * (s.PrimaryMetric() - best.Value); gain > 0 {
			list = append(list, fmt.Sprintf("gain        %s %.4f better than the best simpler choice (%s)", metric, gain, best.Name))
		} else {
			list = append(list, fmt.Sprintf("gain        none: the simpler %s is %.4f better", best.Name, -gain))
		}
	}
	if exact, measured := s.Baselines.Of("non_private"); measured {
		list = append(list, fmt.Sprintf("price       %.4f by noise at these settings; whole price: --epsilon inf", sign*(exact-s.PrimaryMetric())))
	}
	return list
}

// ranked names the users of rankings.
func (p *printer) ranked() string {
	if p.e.Held != nil && p.e.Held.Seen {
		return "users, some of their liked items held out"
	}
	return "held-out users"
}

// lists shows the lists of one length, the middle one.
func (p *printer) lists() {
	if p.s.Ranking == nil || p.s.Ranking.Lists == nil {
		return
	}
	q := p.s.Ranking.Lists
	m := q.At[len(q.At)/2]
	if !p.verbose {
		liked := ""
		if q.Relevant != nil {
			liked = fmt.Sprintf(" rated %v or more", *q.Relevant)
		}
		p.line("lists       top %d: %.1f%% of %s users find a test item%s there (hit rate); of at most 1: NDCG %.4f, recall %.4f", m.K, 100*m.Hit, units.Count(q.Users), liked, m.NDCG, m.Recall)
		p.popularity(at("ndcg", m.K), m.NDCG)
		return
	}
	who := fmt.Sprintf("%s %s", units.Count(q.Users), p.ranked())
	if q.Relevant != nil {
		who = fmt.Sprintf("%s users with test ratings of at least %v", units.Count(q.OfUsers), *q.Relevant)
		if starred(p.e.Data) {
			who += " stars"
		}
		if q.Users < q.OfUsers {
			who = fmt.Sprintf("%s of %s", units.Count(q.Users), who)
		}
	}
	p.line("\nlists       top %d of the items that a user has not rated; %s", m.K, who)
	p.line("            recall %.4f, precision %.4f, NDCG %.4f, MAP %.4f, MRR %.4f, hit rate %.4f", m.Recall, m.Precision, m.NDCG, m.MAP, m.MRR, m.Hit)
	p.line("            coverage %.1f%% of the items, novelty %.2f bits, mean popularity %.1f ratings", 100*m.ItemCoverage, m.Novelty, m.AveragePopularity)
	p.popularity(at("ndcg", m.K), m.NDCG)
	if x := p.s.Sampled; x != nil {
		p.line("            among %d sampled items (for papers that sample): hit rate %.4f, NDCG %.4f", x.Negatives, x.Values[at("sampled_hit", m.K)], x.Values[at("sampled_ndcg", m.K)])
		p.line("            corrected for sampling: hit rate %.4f, NDCG %.4f", x.Values[at("corrected_hit", m.K)], x.Values[at("corrected_ndcg", m.K)])
	}
}

// few bounds the lead over popularity, as a share, of lists that are hardly better.
const few = 0.02

// popularity compares a metric of the lists with lists by popularity, and says how it differs between users.
func (p *printer) popularity(metric string, own float64) {
	if exact := p.s.Popularity[ExactCounts][metric]; exact > 0 {
		said := fmt.Sprintf("popularity  NDCG %.4f by exact counts", exact)
		if released, ok := p.s.Popularity[ReleasedCounts]; ok {
			said += fmt.Sprintf(", %.4f by the run's", released[metric])
		}
		if own <= (1+few)*exact {
			said += ": as good"
		}
		p.line("%s", said)
	}
	if s := p.s.Spread; s != nil && p.verbose {
		worst, name, side, q := s.Quantiles["rmse"].P95, "RMSE", "below", s.Quantiles["rmse"]
		if p.s.RankingMetrics != nil {
			q = s.Quantiles[metric]
			worst, name, side = q.P95, "NDCG", "above"
		}
		p.line("users       half have an %s %s %.4f, and 5%% above %.4f", name, side, q.P50, worst)
	}
}

// at names a metric of lists of k items.
func at(metric string, k int) string { return fmt.Sprintf("%s@%d", metric, k) }

func (p *printer) privacy() {
	s := p.s
	if p.verbose {
		p.line("\nprivacy     %s", s.Privacy.Words(p.e.Observers()))
		p.line("statement   %s", s.Privacy)
		if line := s.Privacy.ReplacementLine(p.e.Released()); line != "" {
			p.line("            %s", line)
		}
	} else {
		p.line("privacy     %s", s.Privacy.Brief(p.e.Observers()))
	}
	if all := s.AllSessions; all != nil {
		p.line("with before %s", all)
	}
}

func (p *printer) cost() {
	s := p.s
	p.line("secure sum  %s%s, noise %s", s.Secagg, p.e.InputsWords(), s.Noise)
	if !p.e.About().Federated() {
		return
	}
	n := p.e.Cohort
	if n.Enrolled > 0 {
		p.line("turns       a round asks %s of %s clients and continues with the first %s", units.Count(n.Clients), units.Count(n.Enrolled), units.Count(n.Goal))
	}
	p.line("cohort      %s clients; %s may be lost in a round and %s may collude", units.Count(n.Wanted()),
		units.Count(n.Wanted()-n.Required()), units.Count(n.Colluding()))
	p.line("rounds      %d attempted, %d skipped; %.1f clients dropped out in each on average", s.Rounds, s.SkippedRounds, s.DroppedPerRound)
	p.line("per client  %s", traffic("up", s.BytesUpPerClient))
	p.line("            %s", traffic("down", s.BytesDownPerClient))
}

// traffic lists bytes by kind in the order of a round.
func traffic(way string, m map[string]int64) string {
	var total int64
	var parts []string
	for k := range protocol.Kinds {
		if n, ok := m[k.String()]; ok {
			total += n
			parts = append(parts, fmt.Sprintf("%s %s", k, units.Bytes(n)))
		}
	}
	return fmt.Sprintf("%s %s (%s)", way, units.Bytes(total), strings.Join(parts, ", "))
}
