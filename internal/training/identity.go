package training

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/experiment"
)

// Identity returns a digest of all that determines a run's bits, except the program: settings, data and session. It does
// not depend on the folder of results, the names of files, or the number of goroutines.
func Identity(e *experiment.Experiment) string {
	c := e.Config
	for _, key := range []*config.Key{algorithm.Out.Key, algorithm.RunName.Key, algorithm.Workers.Key, algorithm.Data.Key, algorithm.SplitTestFile.Key, algorithm.StartFrom.Key} {
		c.Reset(key)
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%s\n%x\n", c.YAML(), e.Data.Digest, e.Split.Digest, e.Session()) //nolint:errcheck // a hash does not fail
	return hex.EncodeToString(h.Sum(nil))
}

func roundsOf(e *experiment.Experiment) int {
	if c, ok := e.Instance().(algorithm.Central); ok {
		return c.Epochs()
	}
	return e.Schedule.Rounds()
}

// given are the settings of an experiment that are not at their default.
func given(e *experiment.Experiment) []config.Setting {
	asked := e.Asked()
	for _, key := range []*config.Key{algorithm.Out.Key, algorithm.Workers.Key} {
		asked.Reset(key)
	}
	for _, key := range []config.TextKey{algorithm.Data, algorithm.SplitTestFile, algorithm.StartFrom} {
		if _, err := os.Stat(key.Of(asked)); err == nil {
			if whole, failed := filepath.Abs(key.Of(asked)); failed == nil {
				key.Set(&asked, whole)
			}
		}
	}
	var list []config.Setting
	for _, key := range asked.Differs(config.Config{}) {
		list = append(list, config.Setting{Key: key.Name, Value: asked.Text(key)})
	}
	return list
}
