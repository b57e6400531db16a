package training

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fedsim/fedsim/config"
)

// InterruptedRun is a run that was stopped and can continue.
type InterruptedRun struct {
	Path string // of its checkpoint
	// Settings holds the given settings, without the folder of results and the number of
	// goroutines. Paths in them are absolute.
	Settings []config.Setting
}

// InterruptedRuns lists the runs that were stopped in a folder of runs, in the order of their files; none where
// there is no folder. A checkpoint that cannot be gone on with is an error that names it.
func InterruptedRuns(dir string) ([]InterruptedRun, error) {
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var list []InterruptedRun
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
		list = append(list, InterruptedRun{Path: path, Settings: c.Given})
	}
	return list, nil
}
