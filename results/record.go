package results

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/experiment"
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
	if len(s.Sessions) > 1 {
		f.sessions = s.Sessions
	}
	return os.WriteFile(filepath.Join(f.temporary, lineage.File), b, 0o600)
}

// manifest is the manifest with the sessions before.
func (f *Folder) manifest(e *experiment.Experiment) Manifest {
	m := ManifestOf(e)
	m.Sessions = f.sessions
	return m
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
