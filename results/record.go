package results

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/internal/lineage"
)

// AllSessions states the cost of a session together with the sessions that it builds on, to a unit whose record was in all of them.
type AllSessions struct {
	Sessions int      `json:"sessions"`
	Epsilon  *float64 `json:"epsilon"` // null if one of them had no noise, or if a plain search chose the settings of one
	Delta    float64  `json:"delta"`
	Added    *float64 `json:"added"` // the sum of the sessions' own ε; null likewise
	Unit     dp.Unit  `json:"unit"`
	// Chosen holds the kinds of the searches that chose settings of the sessions by the same data. Epsilon covers private searches.
	Chosen []dp.SearchKind `json:"chosen,omitempty"`
}

// Together composes the releases of all sessions of a record.
func Together(s *algorithm.Start) (*AllSessions, error) {
	r, delta, err := lineage.Cost(s.Sessions)
	if err != nil {
		return nil, err
	}
	all := &AllSessions{Sessions: len(s.Sessions), Delta: delta, Unit: s.Sessions[len(s.Sessions)-1].Unit}
	for _, past := range s.Sessions {
		if past.Search != nil && !slices.Contains(all.Chosen, past.Search.Kind()) {
			all.Chosen = append(all.Chosen, past.Search.Kind())
		}
	}
	if math.IsInf(r.Epsilon, 1) {
		return all, nil
	}
	added := 0.0
	for _, past := range s.Sessions {
		added += *past.Epsilon
	}
	all.Epsilon, all.Added = &r.Epsilon, &added
	return all, nil
}

// String is the cost in a line.
func (a *AllSessions) String() string {
	if slices.Contains(a.Chosen, dp.PlainSearch) {
		return fmt.Sprintf("all %d sessions together: %s", a.Sessions, dp.NoEpsilonHolds)
	}
	if a.Epsilon == nil {
		return fmt.Sprintf("all %d sessions together: no privacy, since one of them had no noise", a.Sessions)
	}
	with := ""
	if len(a.Chosen) > 0 {
		with = " and the private search for settings"
	}
	return fmt.Sprintf("all %d sessions%s together: epsilon at most %s at delta %v, for a %s that was in all of them; their epsilons add up to %.3g",
		a.Sessions, with, dp.RoundUp(*a.Epsilon, 4), a.Delta, a.Unit, *a.Added)
}

// WriteRecord writes what a later session can start from. Only the owner may read it, since without noise it shows sums of private ratings.
func (f *Folder) WriteRecord(s *algorithm.Start) error {
	b, err := lineage.Encode(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(f.temporary, lineage.File), b, 0o600)
}

// Newest returns the folder of the newest finished run in a folder from which a session can start, except the runs of some names.
func Newest(dir string, except ...string) (string, error) {
	files, err := filepath.Glob(filepath.Join(globbed(dir), "*", lineage.File))
	if err != nil {
		return "", err
	}
	var newest string
	var at int64
	for _, file := range files {
		info, failed := os.Stat(file)
		if failed != nil || slices.Contains(except, filepath.Base(filepath.Dir(file))) {
			continue // removed meanwhile, or not meant
		}
		if t := info.ModTime().UnixNano(); newest == "" || t > at || t == at && file > newest {
			newest, at = file, t
		}
	}
	if newest == "" {
		return "", config.Errorf("start-from last: no finished run in %s left a %s; run a session first, or name its folder", dir, lineage.File)
	}
	return filepath.Dir(newest), nil
}

// Progress hears how far a run is. If Round returns an error, the run ends.
type Progress interface {
	// Start begins a phase with this number of rounds; 0: the number is unknown.
	Start(label string, rounds int)
	// Step reports the number of finished rounds of a phase without measurements.
	Step(done int)
	// Round reports a round of the run itself. skipped says why the round released nothing.
	Round(m Metrics, skipped error) error
}

// Resumer is a Progress that hears, once its phase has started, the last round before a resumed run
// continues. The round is 0 if there is no checkpoint of the run.
type Resumer interface{ Resumed(after, rounds int) }

// Noter is a Progress that hears a sentence that the owner of a run should know before the run
// begins.
type Noter interface{ Note(text string) }

// silent ignores progress.
type silent struct{}

func (silent) Start(string, int)          {}
func (silent) Step(int)                   {}
func (silent) Round(Metrics, error) error { return nil }

// OrSilent returns p, or for nil a Progress that ignores everything.
func OrSilent(p Progress) Progress {
	if p == nil {
		return silent{}
	}
	return p
}

// StoppedError is returned for a run that was stopped in the middle, and that can be resumed.
type StoppedError struct {
	Path          string // of the checkpoint
	Round, Rounds int    // the last round in the checkpoint, and the number of rounds of the run
	Err           error  // why the run was stopped
	Unwritten     error  // why later rounds are not in the checkpoint; nil if none failed to be written
}

// Error says how to resume the run.
func (e *StoppedError) Error() string {
	text := fmt.Sprintf("this command with --resume continues after round %d of %d, which is in %s", e.Round, e.Rounds, e.Path)
	if e.Unwritten != nil {
		text += fmt.Sprintf("; later rounds could not be written: %v", e.Unwritten)
	}
	return text
}

// Unwrap returns why the run was stopped.
func (e *StoppedError) Unwrap() error { return e.Err }

// UncomparedError is returned for a run that is kept but lacks some of its baselines.
type UncomparedError struct {
	Folder string
	Err    error // why
}

// Error says where the run is kept.
func (e *UncomparedError) Error() string {
	why := e.Err.Error()
	if errors.Is(e.Err, context.Canceled) {
		why = "interrupted"
	}
	return fmt.Sprintf("%s while baselines were trained; the run itself is finished and in %s, without the missing baselines", why, e.Folder)
}

// Unwrap returns why baselines are missing.
func (e *UncomparedError) Unwrap() error { return e.Err }

// RankingSummary is the part of Summary about lists of recommendations. In JSON it is one object,
// with the metrics of lists as in recall@10.
type RankingSummary struct {
	*eval.Ranking                   // with implicit feedback: has the metric that compares runs
	Lists         *eval.ListQuality // nil without cutoffs, or if no user has a relevant item
}

// MarshalJSON writes one object. A number that both parts have is written once.
func (r RankingSummary) MarshalJSON() ([]byte, error) {
	out := []byte("{")
	there := make(map[string]json.RawMessage)
	if r.Ranking != nil {
		b, err := json.Marshal(r.Ranking)
		if err != nil {
			return nil, err
		}
		if err = json.Unmarshal(b, &there); err != nil {
			return nil, err
		}
		out = b[:len(b)-1]
	}
	if r.Lists == nil {
		return append(out, '}'), nil
	}
	for _, x := range r.Lists.Named() {
		if _, twice := there[x.Name]; twice {
			continue
		}
		var err error
		if out, err = appendNumber(out, x.Name, x.Value); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

// UnmarshalJSON reads the object of MarshalJSON.
func (r *RankingSummary) UnmarshalJSON(text []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	*r = RankingSummary{}
	if _, ok := all["slices"]; ok {
		r.Ranking = new(eval.Ranking)
		if err := json.Unmarshal(text, r.Ranking); err != nil {
			return err
		}
	}
	numbers := make(map[string]float64)
	for name, raw := range all {
		var v float64
		if json.Unmarshal(raw, &v) == nil {
			numbers[name] = v
		}
	}
	r.Lists = eval.ListQualityOf(numbers)
	return nil
}
