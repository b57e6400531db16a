package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
)

// File is a file of an aggregator's state beside its registry, as CheckState found it.
type File struct {
	Name string
	Says string // what is in it
	Err  error  // why it is not what the aggregator wrote; nil: it is
}

// StateFiles are the files that an aggregator may have in its state beside its registry.
var StateFiles = []string{headsFile, endFile, runningFile, excludedFile}

// CheckState reads the files of an aggregator's state beside its registry, and changes nothing. A file
// that is missing is left out: the aggregator can do without each.
func CheckState(state string, f *admission.Federation, list *admission.List) []File {
	var out []File
	for _, c := range []struct {
		name string
		read func(path string) (string, error)
	}{
		{headsFile, func(path string) (string, error) {
			heads, err := store.ReadHeads(path)
			return fmt.Sprintf("latest heads of %d ledgers, each signed by its client", len(heads)), err
		}},
		{endFile, func(path string) (string, error) {
			e, err := openEnd(path, f, list)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("end of session %s with a model of %d bytes, signed by the server", sessionName(e.descriptor.Terms.Session), len(e.final.Model)), nil
		}},
		{runningFile, func(path string) (string, error) {
			text, err := os.ReadFile(path)
			return "session " + strings.TrimSpace(string(text)) + " has begun and not ended", err
		}},
		{excludedFile, func(path string) (string, error) {
			var kept exclusions
			text, err := os.ReadFile(path)
			if err == nil {
				err = json.Unmarshal(text, &kept)
			}
			return fmt.Sprintf("%d clients are excluded from session %s", len(kept.List), sessionName(kept.Session)), err
		}},
	} {
		says, err := c.read(filepath.Join(state, c.name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		out = append(out, File{c.name, says, err})
	}
	return out
}
