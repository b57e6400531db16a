package results

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/experiment"
)

// Asked returns the value of a key as it was requested, before a rule chose it. Data, a file with the test and
// the start of a session are told by their digests, so that neither a path nor a name matters. It is "" for a
// default, and for the place of the results and the number of goroutines.
func (f *FinishedRun) Asked(k *config.Key) string {
	m := &f.Manifest
	switch {
	case k == algorithm.Out.Key || k == algorithm.RunName.Key || k == algorithm.Workers.Key:
		return ""
	case k == algorithm.Data.Key:
		return cmp.Or(m.DataDigest, m.Data)
	case k == algorithm.SplitTestFile.Key && !algorithm.SplitTestFile.Is(f.Config, ""):
		return cmp.Or(m.TestDigest, m.SplitDigest)
	case k == algorithm.StartFrom.Key:
		return cmp.Or(m.StartAlike, m.StartDigest)
	case k.Scope == config.Own && k != algorithm.FeatureSpec.Key && !f.Config.IsDefault(k):
		return f.Config.Text(k) // of each machine, and not noted in the summary
	}
	return f.Summary.Asked[k.Name]
}

// Alike returns a text that two runs have in common if they are runs of one experiment, except in the keys over, such as the
// seed. Runs whose texts differ are never averaged, paired or drawn as one.
func (f *FinishedRun) Alike(over ...*config.Key) string {
	var id strings.Builder
	for _, k := range config.Keys() {
		if v := f.Asked(k); v != "" && !slices.Contains(over, k) {
			fmt.Fprintf(&id, "%s=%q\n", k.Name, v)
		}
	}
	return id.String()
}

// startAlike returns a digest that runs share if their starts are runs of one experiment, except for the
// seed; "" without a start, and if the start is not the folder of a finished run.
func startAlike(e *experiment.Experiment) string {
	if e.Start == nil {
		return ""
	}
	f, err := Read(algorithm.StartFrom.Of(e.Config))
	if err != nil {
		return ""
	}
	d := sha256.Sum256([]byte(f.Alike(algorithm.Seed.Key)))
	return hex.EncodeToString(d[:])
}

// testDigest returns a digest of the test ratings, if a file has them; otherwise "", since they follow from data and settings.
func testDigest(e *experiment.Experiment) string {
	if algorithm.SplitTestFile.Is(e.Config, "") {
		return ""
	}
	d := dataset.NewDigester()
	for u := range e.Test.Rows.Len() {
		e.Test.Rows.Lend(u, func(items []int32, values []float32) {
			one := dataset.Ratings{User: slices.Repeat([]int32{int32(u)}, len(items)), Item: items, Value: values}
			d.Columns(one)
		})
	}
	return d.Sum()
}
