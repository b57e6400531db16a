package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/align"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/lineage"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/training"
	"github.com/fedsim/fedsim/internal/version"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/results"
	"github.com/fedsim/fedsim/secagg"
	"github.com/fedsim/fedsim/sim"
)

// again repeats a simulation in a folder of its own, and compares every file that does not depend on the clock.
func again(ctx context.Context, r *Report, f *folder, e *experiment.Experiment, o Options) (err error) {
	dir, err := os.MkdirTemp("", "fedsim-verify-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	algorithm.Out.Set(&e.Config, dir)
	algorithm.RunName.Set(&e.Config, "again")
	algorithm.Baselines.Set(&e.Config, "quick")
	if _, err = training.Keep(ctx, e, o.Progress, training.KeepOptions{}); err != nil {
		return err
	}
	same := 0
	for name, want := range f.evidence.Files {
		if slices.Contains([]string{"summary.json", "timings.jsonl", "config.yaml", "manifest.json", "predictions.csv"}, name) {
			continue // they hold seconds, paths or the version of the program, or follow from the matrices, as with --save-predictions
		}
		is, missing := version.Digest(filepath.Join(dir, "again", name))
		switch {
		case missing != nil:
			r.add(Forged, "model", "a repetition leaves no %s", name)
		case is != want:
			r.add(Forged, "model", "a repetition leaves another %s", name)
		default:
			same++
		}
	}
	platform := "of another platform or version, where a last bit may differ"
	if own, missing := results.ReadEvidence(filepath.Join(dir, "again")); missing == nil && own.Platform == f.evidence.Platform && own.Revision == f.evidence.Revision {
		platform = "of the same program and platform"
	}
	again, err := results.Read(filepath.Join(dir, "again"))
	if err != nil {
		return err
	}
	if is, want := again.Summary.Privacy.String(), f.summary.Privacy.String(); is != want {
		r.add(Forged, "epsilon", "a repetition states %s; summary.json states %s", is, want)
	}
	if !slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Verdict == Forged && strings.HasPrefix(c.Text, "a repetition") }) {
		r.add(OK, "model", "a repetition leaves the same %d files, bit for bit (%s)", same, platform)
	}
	return nil
}

// enoughToForge is the number of repetitions from which a model that lies outside of them all counts as forged: an honest
// model does so at most once in 100.
const enoughToForge = 99

// owner is one client of a deployment, with the data of its owner.
type owner struct {
	which algorithm.PartyData
	set   *dataset.Set
}

// matrices compares the matrices that people read with the model that clients were sent, which the log names.
func (f *folder) matrices(r *Report, e *experiment.Experiment) {
	is, err := os.ReadFile(filepath.Join(f.dir, results.SharedFile))
	if err != nil {
		r.add(Unchecked, "model", "%v", err)
		return
	}
	held, err := e.Instance().Shared(is)
	if err != nil {
		r.add(Forged, "model", "%s: %v", results.SharedFile, err)
		return
	}
	kept, err := results.ReadEmbeddings(f.dir)
	if err != nil {
		r.add(Unchecked, "model", "%v", err)
	}
	for _, x := range kept {
		if i := slices.IndexFunc(held, func(y model.Embeddings) bool { return y.Name == x.Name }); i < 0 || !slices.Equal(held[i].Data(), x.Data()) {
			r.add(Forged, "model", "%s.npy holds other numbers than %s", x.Name, results.SharedFile)
		}
	}
}

// repeat trains a deployment's model again, from what its parties agreed on and the owners' files. Secure sums add the same integers
// as the sums here, so without noise the bits must be equal. Noise of a deployment is drawn from the machines' secret
// entropy, and cannot be drawn again. Then the model is compared with models of repetitions that draw noise of the stated variance.
func (f *folder) repeat(ctx context.Context, r *Report, p *agreement.Public, o Options) error {
	var start *algorithm.Start
	var err error
	if p.Facts.Start != nil {
		if o.Start == "" {
			r.add(Unchecked, "model", "the session starts from earlier releases: name the folder of the model before it with --start")
			return nil
		}
		if start, err = lineage.Read(o.Start); err != nil {
			return cli.Misusef("--start: %w", err)
		}
	}
	e, err := agreement.OpenFrom(p, start)
	if err != nil {
		return cli.Misusef("--start: %w", err)
	}
	if ids := e.Data.UserIDs; e.About().Clients == algorithm.ItemParties && len(ids) > 0 && align.IsUser(ids[0]) {
		r.add(Unchecked, "model", "organisations have aligned the users, and only these know their names")
		return nil
	}
	owners, err := ownersOf(ctx, e, o.Owners)
	if err != nil {
		return err
	}
	is, err := os.ReadFile(filepath.Join(f.dir, results.SharedFile))
	if err != nil {
		r.add(Unchecked, "model", "%v", err)
		return nil
	}
	tables := new(noise.Tables)
	models := make([][]byte, 0, o.Repetitions)
	for seed := range max(2, o.Repetitions) {
		again, wrong := simulated(ctx, e, owners, uint64(seed)+1, tables)
		if wrong != nil {
			return wrong
		}
		models = append(models, again)
		if seed == 1 && bytes.Equal(models[0], models[1]) { // nothing is drawn, and further repetitions are the same
			break
		}
	}
	if bytes.Equal(models[0], models[1]) {
		return compareBits(r, e, is, models[0])
	}
	return compareSpread(r, e, is, models)
}

// ownersOf reads the owners' data. Where clients are users, each user of each file is one, and the places of the others have empty
// records. Where clients are organisations, each file is one of them.
func ownersOf(ctx context.Context, e *experiment.Experiment, paths []string) (owners []owner, err error) {
	var files []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, cli.Misusef("--owners: %w", err)
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		files = append(files, lists.Map(entries, func(x os.DirEntry) string { return filepath.Join(path, x.Name()) })...)
	}
	var none *dataset.Set
	for _, path := range files {
		set, err := experiment.OpenOwn(ctx, e, path, func(*dataset.FileError) {})
		if err != nil {
			return nil, cli.Misusef("--owners: %w", err)
		}
		none = set
		switch e.About().Clients {
		case algorithm.ItemParties:
			owners = append(owners, owner{algorithm.PartyData{IDs: set.ItemIDs}, set})
		case algorithm.UserParties:
			owners = append(owners, owner{algorithm.PartyData{IDs: set.UserIDs}, set})
		default:
			owners = append(owners, lists.Map(set.UserIDs, func(id string) owner { return owner{algorithm.PartyData{User: id}, set} })...)
		}
	}
	n := e.Cohort.All()
	if is := len(owners); is > n || is == 0 || is < n && e.About().Clients != algorithm.Users {
		return nil, cli.Misusef("--owners: the files have data of %d clients, and the session has %d", is, n)
	}
	for k := len(owners); k < n; k++ {
		owners = append(owners, owner{algorithm.PartyData{User: fmt.Sprintf("place %d, without a record", k)}, none})
	}
	return owners, nil
}

// simulated returns the model of a session in the simulator, without losses.
func simulated(ctx context.Context, e *experiment.Experiment, owners []owner, seed uint64, tables *noise.Tables) ([]byte, error) {
	f := &experiment.Federation{Session: e.Session()}
	var err error
	if f.Strategy, err = e.Strategy(); err != nil {
		return nil, err
	}
	check := func(p *protocol.Plan) error { return agreement.CheckPlan(e, p) }
	for _, x := range owners {
		party, wrong := e.Party(x.which, x.set, check)
		if wrong != nil {
			return nil, cli.Misusef("--owners: %w", wrong)
		}
		f.Trainers = append(f.Trainers, client.Trainer(party))
	}
	if e.Private() {
		if f.Ledgers, err = dp.NewLedgers(e.Privacy.Budget, len(f.Trainers)); err != nil {
			return nil, err
		}
	}
	c := training.Simulation(e, f, nil)
	c.Real, c.Mode, c.Seed, c.Tables, c.Faults = false, secagg.SemiHonest, seed, tables, sim.Faults{}
	c.Network = sim.Network{Up: 1, Down: 1, StageTimeout: math.MaxInt64 / 4} // no client is late
	out, err := sim.Run(ctx, c)
	if err != nil {
		return nil, err
	}
	return out.Model, nil
}

// compareBits compares a model with the only model that a repetition can leave.
func compareBits(r *Report, e *experiment.Experiment, is, want []byte) error {
	if bytes.Equal(is, want) {
		r.add(OK, "model", "a repetition from the owners' files leaves the same model, bit for bit (%d bytes)", len(is))
		return nil
	}
	a, err := e.Instance().Shared(is)
	b, wrong := e.Instance().Shared(want)
	if err = errors.Join(err, wrong); err != nil {
		return err
	}
	for k, x := range a {
		differ, most, first := 0, 0.0, ""
		for i, v := range x.Data() {
			if d := math.Abs(v - b[k].Data()[i]); d != 0 {
				if differ++; differ == 1 {
					first = x.IDs[i/x.Cols()]
				}
				most = max(most, d)
			}
		}
		if differ > 0 {
			r.add(Differs, "model", "a repetition leaves other %s: %d of %d numbers, the first of %q, by at most %.3g. A client that was lost in a round, another file of an owner, "+
				"another platform or a forgery explains it", x.Name, differ, len(x.Data()), first, most)
		}
	}
	if r.Err() == nil {
		r.add(Differs, "model", "a repetition leaves the same matrices, and another %s", results.SharedFile)
	}
	return nil
}

// compareSpread compares a model with repetitions whose noise is drawn anew. The models are exchangeable if the deployment drew the
// stated noise, so each is farthest from the mean of all with the same probability. That holds for any algorithm.
func compareSpread(r *Report, e *experiment.Experiment, is []byte, again [][]byte) error {
	var all [][]float64
	for _, m := range append([][]byte{is}, again...) {
		parts, err := e.Instance().Shared(m)
		if err != nil {
			return err
		}
		var flat []float64
		for _, x := range parts {
			flat = append(flat, x.Data()...)
		}
		all = append(all, flat)
	}
	distance := make([]float64, len(all))
	for i := range all[0] {
		mean := 0.0
		for _, m := range all {
			mean += m[i] / float64(len(all))
		}
		for k, m := range all {
			distance[k] += (m[i] - mean) * (m[i] - mean)
		}
	}
	own, most := math.Sqrt(distance[0]), math.Sqrt(slices.Max(distance[1:]))
	text := fmt.Sprintf("noise cannot be drawn again. Of %d repetitions with the stated noise the farthest is %.4g from the mean, and this model %.4g", len(again), most, own)
	switch farther := own > most; {
	case !farther:
		r.add(OK, "model", "%s", text)
	case len(again) >= enoughToForge:
		r.add(Forged, "model", "%s: an honest model is so far at most once in %d", text, len(all))
	default:
		r.add(Unchecked, "model", "%s: an honest model is so far once in %d. Ask for --repetitions %d", text, len(all), enoughToForge)
	}
	return nil
}
