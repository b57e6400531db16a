package results

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/lineage"
	"github.com/fedsim/fedsim/internal/strictjson"
	"github.com/fedsim/fedsim/internal/version"
)

// EvidenceFile names the file of a folder by which others check the folder.
const EvidenceFile = "evidence.json"

const evidenceFormat = "fedsim/results/evidence/v1"

// Evidence is the content of EvidenceFile: the program that made the folder, the releases that ε rests on, and the digest
// of every file. It holds no rating; files such as split.csv, whose digests it has, are private.
type Evidence struct {
	Format string `json:"format"`
	Program
	// Sessions states every session that the model depends on, its own last, with the releases of the unit that spent most.
	Sessions []algorithm.PastSession `json:"sessions"`
	Files    map[string]string       `json:"files"` // SHA-256 in hex by name, of every other file
	// Before has the digest of a file that is being written anew. A crash may have left the earlier content.
	Before map[string]string `json:"before,omitempty"`
}

// WriteEvidence writes the evidence of a folder, whose other files are complete. wrote says which files are the run's; nil: all are.
func WriteEvidence(dir string, sessions []algorithm.PastSession, wrote func(name string) bool) error {
	x := &Evidence{Format: evidenceFormat, Program: thisProgram(), Sessions: sessions, Files: make(map[string]string)}
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if name := f.Name(); f.Type().IsRegular() && !strings.HasPrefix(name, ".") && !strings.HasSuffix(name, ".tmp") && name != EvidenceFile && (wrote == nil || wrote(name)) {
			if x.Files[name], err = version.Digest(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return x.write(dir)
}

func (x *Evidence) write(dir string) error {
	return atomicfile.WriteJSON(filepath.Join(dir, EvidenceFile), x)
}

// amendEvidence writes a file of a folder anew, after its digest.
func amendEvidence(dir, name string, content []byte) error {
	x, err := ReadEvidence(dir)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	x.Before = map[string]string{name: x.Files[name]}
	x.Files[name] = hex.EncodeToString(sum[:])
	if err = x.write(dir); err == nil {
		err = atomicfile.Write(filepath.Join(dir, name), content, 0o644)
	}
	if err != nil {
		return err
	}
	x.Before = nil // else the earlier content could be put back
	return x.write(dir)
}

// ReadEvidence reads the evidence of a folder. The error for a folder without evidence wraps fs.ErrNotExist.
func ReadEvidence(dir string) (*Evidence, error) {
	path := filepath.Join(dir, EvidenceFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	x := new(Evidence)
	if err = strictjson.Read(text, x); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if x.Format != evidenceFormat || len(x.Sessions) == 0 {
		return nil, fmt.Errorf("%s: its format is %q and it states %d sessions; this version reads %q, of at least 1 session", path, x.Format, len(x.Sessions), evidenceFormat)
	}
	return x, nil
}

// Changed names every file of a folder that is missing or differs from its digest, in order.
func (x *Evidence) Changed(dir string) (names []string, err error) {
	for name, want := range x.Files {
		if name != filepath.Base(name) {
			return nil, fmt.Errorf("%s names the file %q, outside the folder", EvidenceFile, name)
		}
		is, err := version.Digest(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if is != want && (is == "" || is != x.Before[name]) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// ErrForged is wrapped by the error for a folder that contradicts its evidence.
var ErrForged = errors.New("the folder was changed after the run")

// CheckEvidence refuses a folder that contradicts its evidence: with a file that was changed, or with an ε below the cost of its
// releases. The error for a folder without evidence wraps fs.ErrNotExist. [ErrForged] is wrapped by the others.
func CheckEvidence(dir string) error {
	x, err := ReadEvidence(dir)
	if err != nil {
		return err
	}
	changed, err := x.Changed(dir)
	if err != nil {
		return err
	}
	if len(changed) > 0 {
		return fmt.Errorf("%w: %s: other content than the digests in %s", ErrForged, strings.Join(changed, ", "), EvidenceFile)
	}
	var summary struct {
		Privacy dp.Statement `json:"privacy"`
	}
	if err = atomicfile.ReadJSON(filepath.Join(dir, "summary.json"), &summary); err != nil {
		return err
	}
	last := x.Sessions[len(x.Sessions)-1]
	if len(last.Events) == 0 {
		return nil // ε has a proof without releases, or there is no noise
	}
	cost, _, err := lineage.Cost([]algorithm.PastSession{last})
	if err != nil {
		return fmt.Errorf("%s: %w", EvidenceFile, err)
	}
	if stated := summary.Privacy.Epsilon; stated < cost.Epsilon*(1-1e-9) {
		return fmt.Errorf("%w: summary.json states epsilon=%v, and the releases in %s cost epsilon=%v",
			ErrForged, stated, EvidenceFile, cost.Epsilon)
	}
	return nil
}

// registryFacts are the facts of a run's or a deployment's folder that a registry of deployments asks for.
type registryFacts struct {
	Algorithm   string       `json:"algorithm"`
	Data        string       `json:"data"`
	Secagg      string       `json:"secagg"`
	Mode        string       `json:"mode"`
	Rounds      int          `json:"rounds"`
	Privacy     dp.Statement `json:"privacy"`
	AllSessions *AllSessions `json:"all_sessions"`

	Status   string  `json:"-"`
	Sessions int     `json:"-"`
	Total    float64 `json:"-"` // ε of all sessions
}

//go:embed registry.tmpl
var registryText string

var registryForm = template.Must(template.New("registry").Funcs(template.FuncMap{"json": func(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}}).Parse(registryText))

// Registry describes a folder for a public registry of deployments and for a hub of models, in files by name.
func Registry(dir string) (map[string][]byte, error) {
	f := registryFacts{Status: "simulation, not deployed", Sessions: 1}
	if err := atomicfile.ReadJSON(filepath.Join(dir, "summary.json"), &f); err != nil {
		return nil, err
	}
	all := f.AllSessions
	if f.Total = f.Privacy.Epsilon; math.IsInf(f.Total, 1) || all != nil && all.Epsilon == nil {
		return nil, fmt.Errorf("%s has no ε of all its sessions, so that a registry of private deployments has no entry for it: train each with --epsilon, and search settings with tune --private", dir)
	}
	if IsDeployed(dir) {
		f.Status = "deployed"
	}
	if all != nil {
		f.Sessions, f.Total = all.Sessions, *all.Epsilon
	}
	f.Secagg = strings.TrimSpace(f.Secagg + " " + f.Mode)
	var entry, indented, card bytes.Buffer
	err := errors.Join(registryForm.ExecuteTemplate(&entry, "entry", f), registryForm.ExecuteTemplate(&card, "card", f))
	if err == nil {
		err = json.Indent(&indented, entry.Bytes(), "", "  ")
	}
	return map[string][]byte{"registry.json": indented.Bytes(), "README.md": card.Bytes()}, err
}

// AllSessions states the cost of a session together with the sessions that it builds on, to a unit whose record was in all of them.
type AllSessions struct {
	Sessions int      `json:"sessions"`
	Epsilon  *float64 `json:"epsilon"` // null if one has none, or if the samplers' errors together leave none
	Delta    float64  `json:"delta"`
	Added    *float64 `json:"added"` // the sum of the sessions' own ε; null if one has none: without noise, or after a plain search
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
	added := 0.0
	for _, past := range s.Sessions {
		if past.Epsilon == nil {
			return all, nil
		}
		added += *past.Epsilon
	}
	if all.Added = &added; !math.IsInf(r.Epsilon, 1) {
		all.Epsilon = &r.Epsilon
	}
	return all, nil
}

// String is the cost in a line.
func (a *AllSessions) String() string {
	if slices.Contains(a.Chosen, dp.PlainSearch) {
		return fmt.Sprintf("all %d sessions together: %s", a.Sessions, dp.NoEpsilonHolds)
	}
	switch {
	case a.Added == nil:
		return fmt.Sprintf("all %d sessions together: no privacy, since one of them had no noise", a.Sessions)
	case a.Epsilon == nil:
		return fmt.Sprintf("all %d sessions together: no epsilon holds at delta %v, since the noise of each was drawn finely enough for its own epsilon alone; "+
			"their epsilons add up to %.3g", a.Sessions, a.Delta, *a.Added)
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

// Noter is a Progress that hears what the owner of a run should know before the run begins.
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
	all := make(map[string]any)
	if r.Lists != nil {
		for _, x := range r.Lists.Named() {
			all[x.Name] = x.Value
		}
	}
	if r.Ranking != nil {
		b, err := json.Marshal(r.Ranking)
		if err == nil {
			err = json.Unmarshal(b, &all)
		}
		if err != nil {
			return nil, err
		}
	}
	return json.Marshal(all)
}

// UnmarshalJSON reads the part of rankings. Lists are read by the names of their numbers (package study).
func (r *RankingSummary) UnmarshalJSON(text []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	*r = RankingSummary{}
	if _, ok := all["slices"]; !ok {
		return nil
	}
	r.Ranking = new(eval.Ranking)
	return json.Unmarshal(text, r.Ranking)
}
