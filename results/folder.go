// Package results writes and reads the results of runs. A [Folder] holds the resolved
// configuration, the metrics of every round, the model and a summary. [Read] reads a finished run.
// Package recommend asks its model.
package results

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/version"
	"github.com/fedsim/fedsim/model"
)

// Folder holds the results of a run. Everything is written to a hidden folder beside the final
// folder. The final folder appears when it is complete, or not at all.
type Folder struct {
	out, name string
	named     bool   // by the user, so that no other name will do
	path      string // the final path
	temporary string
	made      string   // the outermost folder made for it, "" if none had to be
	lock      *os.File // tells other processes that the run is under way; nil once it is complete
	metrics   *os.File
	buffered  *bufio.Writer
	timings   []byte
}

// DefaultName returns the name of a run's folder if the user gave none: a description of the run.
func DefaultName(e *experiment.Experiment) string {
	name := fmt.Sprintf("%s-%s-eps%s-seed%d", e.About().Name, e.Data.Name, algorithm.Epsilon.Of(e.Config), algorithm.Seed.Of(e.Config))
	return regexp.MustCompile(`[^A-Za-z0-9.+-]+`).ReplaceAllString(name, "-")
}

// NewFolder prepares the folder of a run. A name given by the user must be free. A name made of
// algorithm, data, epsilon and seed gets a number if it is not.
func NewFolder(e *experiment.Experiment) (*Folder, error) {
	out, name := algorithm.Out.Of(e.Config), algorithm.RunName.Of(e.Config)
	named := name != ""
	if !named {
		name = DefaultName(e)
	}
	f := &Folder{out: out, name: name, named: named}
	if err := f.choose(); err != nil {
		return nil, err
	}
	for dir := filepath.Clean(out); !exists(dir); dir = filepath.Dir(dir) {
		f.made = dir
	}
	err := atomicfile.RoomForModel(out, e.Schedule.Model())
	if err == nil {
		if err = os.MkdirAll(out, 0o777); err != nil {
			err = fmt.Errorf("--out: %w", err)
		}
	}
	if err == nil {
		err = f.reserve(filepath.Join(out, "."+filepath.Base(f.path)+"-"+rand.Text()))
	}
	if err == nil {
		f.metrics, err = os.Create(filepath.Join(f.temporary, "metrics.jsonl"))
	}
	if err != nil {
		f.Discard()
		return nil, err
	}
	f.buffered = bufio.NewWriter(f.metrics)
	return f, nil
}

// choose takes the first free name.
func (f *Folder) choose() error {
	f.path = filepath.Join(f.out, f.name)
	for i := 2; exists(f.path); i++ {
		if f.named {
			return config.Errorf("%s exists already; give another --name, or remove it", f.path)
		}
		f.path = filepath.Join(f.out, fmt.Sprintf("%s-%d", f.name, i))
	}
	return nil
}

// whole returns the whole path of a file that is there, and any other text as it is: "-" is standard input, whatever files there are.
func whole(path string) string {
	if abs, err := filepath.Abs(path); err == nil && path != "" && path != "-" && exists(path) {
		return abs
	}
	return path
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Metrics is a line of metrics.jsonl: a round, whatever the wall clock and the number of workers.
type Metrics struct {
	Round           int      `json:"round"`
	*RatingMetrics           // with explicit feedback
	*RankingMetrics          // with implicit feedback
	Epsilon         *float64 `json:"epsilon"` // null without noise
	Delta           float64  `json:"delta,omitempty"`
	*Federated               // of federated algorithms only
}

// Note says in a few words how a round went. skipped says why it released nothing; nil: it did.
func (m Metrics) Note(skipped error) string {
	note := "not measured"
	if m.RatingMetrics != nil {
		note = fmt.Sprintf("rmse %.4f", m.RMSE)
	} else if m.RankingMetrics != nil {
		note = fmt.Sprintf("recall@20 %.4f", m.Recall)
	}
	if m.Epsilon != nil {
		note += fmt.Sprintf("  epsilon %.3f", *m.Epsilon)
	}
	if m.Federated != nil {
		note += fmt.Sprintf("  alive %d/%d", m.Alive, m.Alive+m.Dropped)
	}
	if skipped != nil {
		note += "  skipped: " + skipped.Error()
	}
	return note
}

// RatingMetrics is the part of Metrics about ratings.
type RatingMetrics struct {
	RMSE float64 `json:"rmse"`
	MSE  float64 `json:"mse"`
	MAE  float64 `json:"mae"`
}

// RankingMetrics is the part of Metrics about rankings.
type RankingMetrics struct {
	Recall float64 `json:"recall@20"`
	NDCG   float64 `json:"ndcg@20"`
}

// MetricsOf makes the line of a round from the quality.
func MetricsOf(q eval.Quality, round int) Metrics {
	if math.IsNaN(q.PrimaryMetric()) {
		return Metrics{Round: round} // there is no test part
	}
	if q.Ranking != nil {
		return Metrics{Round: round, RankingMetrics: &RankingMetrics{q.Ranking.Recall, q.Ranking.NDCG}}
	}
	return Metrics{Round: round, RatingMetrics: &RatingMetrics{q.RMSE, q.MSE, q.MAE}}
}

// Federated is the part of Metrics about the federation.
type Federated struct {
	Alive     int     `json:"alive"`
	Dropped   int     `json:"dropped"`
	Skipped   bool    `json:"skipped"`
	BytesUp   int64   `json:"bytes_up"`
	BytesDown int64   `json:"bytes_down"`
	Seconds   float64 `json:"seconds"` // of virtual time
	// Stages holds the virtual seconds until each stage was closed.
	Stages map[string]float64 `json:"stages,omitempty"`
}

// Append adds a line to metrics.jsonl.
func (f *Folder) Append(m Metrics) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = f.buffered.Write(append(b, '\n'))
	return err
}

// Timing is a line of timings.jsonl: the wall-clock time of a round, which differs each time.
type Timing struct {
	Round     int     `json:"round"`
	Seconds   float64 `json:"seconds"`   // of training, including the work of all roles
	Measuring float64 `json:"measuring"` // seconds to measure the model after it, which no federation does
}

// Time adds a line to timings.jsonl. A resumed run has the timings of the rounds since; the first
// includes the time to replay the earlier rounds.
func (f *Folder) Time(t Timing) error {
	b, err := json.Marshal(t)
	f.timings = append(append(f.timings, b...), '\n')
	return err
}

// Program is the program that made a folder.
type Program struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // of the program's source, see version.Info.Source
	Platform string `json:"platform"` // operating system, architecture and version of Go
}

func thisProgram() Program {
	v := version.Get()
	return Program{v.Version, v.Source(), fmt.Sprintf("%s/%s, %s", runtime.GOOS, runtime.GOARCH, runtime.Version())}
}

// Manifest is manifest.json, to check a repetition against. Its digests are of private data.
type Manifest struct {
	Program
	Data        string `json:"data"`
	DataDigest  string `json:"data_digest"`
	SplitDigest string `json:"split_digest"`
	Seed        uint64 `json:"seed"`
	Session     string `json:"session,omitempty"`
	// Sessions states the cost of every session that the run builds on, and of itself, the first session first. It is
	// there if the run started from another run. StartDigest is of the record that it started from.
	Sessions    []algorithm.PastSession `json:"sessions,omitempty"`
	StartDigest string                  `json:"start_digest,omitempty"`
	// StartAlike is of the run that it started from: settings and digests without the seed. TestDigest is of
	// test ratings that a file has, and FeaturesDigest of the features of items.
	StartAlike     string `json:"start_alike,omitempty"`
	TestDigest     string `json:"test_digest,omitempty"`
	FeaturesDigest string `json:"features_digest,omitempty"`
}

// ManifestOf describes an experiment.
func ManifestOf(e *experiment.Experiment) Manifest {
	m := Manifest{Program: thisProgram(), Data: e.Data.Name, DataDigest: e.Data.Digest, SplitDigest: e.Split.Digest, FeaturesDigest: e.FeaturesDigest(), Seed: algorithm.Seed.Of(e.Config),
		StartAlike: startAlike(e), TestDigest: testDigest(e)}
	if e.About().Federated() {
		m.Session = fmt.Sprintf("%x", e.Session())
	}
	if e.Start != nil {
		m.StartDigest = hex.EncodeToString(e.Start.Digest[:])
	}
	return m
}

// Complete writes the other files and gives the folder its name, which it returns. sessions are for [Evidence]. It fails if
// another run has meanwhile taken a name given by the user.
func (f *Folder) Complete(e *experiment.Experiment, s *Summary, m *model.Trained, sessions []algorithm.PastSession) (string, error) {
	err := errors.Join(f.buffered.Flush(), f.metrics.Close())
	f.metrics = nil
	c := e.Config
	c.Reset(algorithm.RunName.Key) // belongs to this folder, not to the experiment
	for _, key := range []config.TextKey{algorithm.Data, algorithm.PublicIDs, algorithm.SplitTestFile, algorithm.StartFrom} {
		key.Set(&c, whole(key.Of(c))) // so that the file repeats the run from anywhere
	}
	spec := algorithm.FeatureSpec.Of(c)
	if paths := read.MapFeatureFiles(spec, whole); strings.Count(paths, ",") == strings.Count(spec, ",") { // else a path would be two
		algorithm.FeatureSpec.Set(&c, paths)
	}
	manifest := ManifestOf(e)
	if len(sessions) > 1 {
		manifest.Sessions = sessions
	}
	err = errors.Join(err,
		os.WriteFile(filepath.Join(f.temporary, "config.yaml"), c.YAML(), 0o644),
		f.json("manifest.json", manifest),
		f.json("summary.json", s),
		f.writeSplit(e),
		os.WriteFile(filepath.Join(f.temporary, "timings.jsonl"), f.timings, 0o644),
	)
	for _, x := range m.Matrices {
		err = errors.Join(err, f.matrix(x, e.Data, m.Rows[x.Name]))
	}
	if err == nil {
		err = WriteEvidence(f.temporary, sessions, nil)
	}
	if err != nil {
		return "", err
	}
	err = errors.Join(os.Remove(filepath.Join(f.temporary, lockName)), f.lock.Close()) // no lock stands in the finished folder
	f.lock = nil
	for err == nil || errors.Is(err, fs.ErrExist) { // another run may take the name at any time
		if err = f.choose(); err != nil {
			break
		}
		if err = atomicfile.Folder(f.temporary, f.path); err == nil {
			f.temporary = ""
			return f.path, nil
		}
	}
	return "", err
}

// Amend writes the summary of a finished run anew, with its digest.
func Amend(dir string, s *Summary) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return amendEvidence(dir, "summary.json", append(b, '\n'))
}

// matrix writes a matrix with the ids of its rows, or with names if they are given.
func (f *Folder) matrix(x model.Named, data *dataset.Set, names []string) error {
	rows, _ := x.Matrix.Dims()
	for kind, ids := range map[string][]string{"item": data.ItemIDs, "user": data.UserIDs} {
		if strings.HasPrefix(x.Name, kind+"_") && rows == len(ids) {
			names = ids
		}
	}
	if names == nil {
		return atomicfile.Part(npyFile(f.temporary, x))
	}
	return errors.Join(atomicfile.Part(npyFile(f.temporary, x)), atomicfile.Part(idsFile(f.temporary, x.Name, names)))
}

func (f *Folder) json(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	return errors.Join(err, os.WriteFile(filepath.Join(f.temporary, name), append(b, '\n'), 0o644))
}

// Discard removes an incomplete folder, and the empty folders made for it; after Complete nothing.
func (f *Folder) Discard() {
	if f.metrics != nil {
		f.metrics.Close() //nolint:errcheck // it is removed next
		f.metrics = nil
	}
	if f.lock != nil {
		f.lock.Close() //nolint:errcheck // likewise
		f.lock = nil
	}
	if f.temporary != "" {
		os.RemoveAll(f.temporary) //nolint:errcheck // nothing better can be done about it
		f.temporary = ""
	}
	if f.made == "" || exists(f.path) {
		return
	}
	for dir := filepath.Dir(f.path); strings.HasPrefix(dir, f.made); dir = filepath.Dir(dir) {
		if os.Remove(dir) != nil && exists(dir) { // not empty: another program uses it
			return
		}
	}
}

// lockName is a file in the hidden folder of a run under way, locked by its process.
const lockName = ".lock"

// hidden matches the hidden folder of a run under way: the run's name and a value of rand.Text.
var hidden = regexp.MustCompile(`^\.(.+)-[A-Z2-7]{26}$`)

// Alone waits until no other process holds the lock of a folder, and holds it until release is called or the process ends. It
// makes the folder if there is none. waits is called if another process holds the lock. The error is the context's if that
// ends first. On systems without locks Alone returns at once.
func Alone(ctx context.Context, dir string, waits func()) (release func(), err error) {
	if err = os.MkdirAll(dir, 0o777); err != nil || !atomicfile.LocksFolders {
		return func() {}, err
	}
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, err
	}
	free := func() { f.Close() } //nolint:errcheck // which frees the lock
	if atomicfile.Lock(f, false, false) == nil {
		return free, nil
	}
	waits()
	held := make(chan struct{})
	go func() { _ = atomicfile.Lock(f, false, true); close(held) }() // a file system without locks lets all in
	select {
	case <-held:
		return free, nil
	case <-ctx.Done():
		go func() { <-held; free() }() // the file stays open until it is locked
		return nil, ctx.Err()
	}
}

// reserve makes the hidden folder and locks it. It removes a folder that a killed process left. It
// fails if a living run has already reserved a name given by the user.
func (f *Folder) reserve(temporary string) (err error) {
	dir, err := os.Open(f.out)
	if err != nil {
		return err
	}
	defer dir.Close()                     //nolint:errcheck // it is only locked
	_ = atomicfile.Lock(dir, false, true) // one process at a time looks and reserves, where folders can be locked; it holds the lock for an instant
	files, err := dir.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, x := range files {
		found := hidden.FindStringSubmatch(x.Name())
		if found == nil || !x.IsDir() {
			continue
		}
		path := filepath.Join(f.out, x.Name())
		held, failed := abandon(path)
		if failed != nil {
			return failed
		}
		if held && f.named && found[1] == f.name {
			return config.Errorf("another run called %s is under way, in %s; give another --name, or await its end", f.name, path)
		}
	}
	if err = os.Mkdir(temporary, 0o777); err != nil {
		return err
	}
	f.temporary = temporary
	if f.lock, err = os.Create(filepath.Join(temporary, lockName)); err == nil {
		_ = atomicfile.Lock(f.lock, false, true)
	}
	return err
}

// abandon removes the hidden folder of a run whose process is gone, and reports whether it is still held. A
// folder without a lock file is left alone: its owner is unknown. So is any folder where nothing can be locked.
func abandon(path string) (held bool, err error) {
	l, err := os.Open(filepath.Join(path, lockName))
	if err != nil {
		return false, nil //nolint:nilerr // see above
	}
	defer l.Close() //nolint:errcheck // it is only locked
	if !atomicfile.LocksFolders || atomicfile.Lock(l, false, false) != nil {
		return true, nil
	}
	return false, os.RemoveAll(path)
}
