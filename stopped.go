package fedsim

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/experiment"
)

// StoppedRun is a run that was stopped, and can be gone on with.
type StoppedRun struct {
	Path string // of its checkpoint
	// Settings are those that were given, without where results go and how many goroutines
	// compute. Files in them are named from the root.
	Settings []config.Setting
}

// StoppedRuns are those that were stopped in a folder of runs, in the order of their files; none where
// there is no folder. A checkpoint that cannot be gone on with is an error that names it.
func StoppedRuns(dir string) ([]StoppedRun, error) {
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var list []StoppedRun
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), ".") || filepath.Ext(f.Name()) != checkpointExt {
			continue
		}
		path := filepath.Join(dir, f.Name())
		c, err := readCheckpoint(path)
		if err != nil {
			return nil, err
		}
		for i := range c.Given {
			c.Given[i].Origin = path
		}
		list = append(list, StoppedRun{Path: path, Settings: c.Given})
	}
	return list, nil
}

// checkpointExt is what names of checkpoints end in.
const checkpointExt = ".checkpoint"

// readCheckpoint reads one of any run.
func readCheckpoint(path string) (*checkpoint, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, err := decodeCheckpoint(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; without --resume, or without this file, the run starts anew", path, err)
	}
	return c, nil
}

// given are the settings of an experiment that are not at their default.
func given(e *experiment.Experiment) []config.Setting {
	asked := e.Asked()
	for _, key := range []*config.Key{algorithm.Out.Key, algorithm.Workers.Key} {
		asked.Reset(key)
	}
	for _, key := range []config.TextKey{algorithm.Data, algorithm.SplitTestFile} {
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
