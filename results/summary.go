package results

import (
	"cmp"
	"encoding/json"
	"math"
	"runtime/metrics"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/internal/experiment"
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

// Baselines holds the baselines of a run, in the order of the table; in JSON an object of numbers.
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

// SetQuality notes the quality of the final model. slices are errors by popularity, of explicit feedback.
func (s *Summary) SetQuality(q eval.Quality, slices []eval.ErrorSlice) {
	if q.Ranking != nil {
		s.Ranking, s.RankingMetrics = &RankingSummary{Ranking: q.Ranking}, &RankingMetrics{q.Ranking.Recall, q.Ranking.NDCG}
		return
	}
	s.RatingSummary = &RatingSummary{TestRMSE: q.RMSE, TestMSE: q.MSE, TestMAE: q.MAE, Slices: slices}
}

// SetLists notes the quality of lists of recommendations, which may be nil; after SetQuality.
func (s *Summary) SetLists(q *eval.ListQuality) {
	if q == nil {
		return
	}
	s.Ranking = cmp.Or(s.Ranking, new(RankingSummary))
	s.Ranking.Lists = q
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
	idle, asked := algorithm.KeysWithoutEffect(e.Config), e.Asked
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
