package command

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/verb"
)

// Each algorithm and each key is explained, without an empty line of what there is. The command line is parsed for one of them.
func TestExplainAll(t *testing.T) {
	whole, _ := called(t, []string{"explain", "ssp-c"})
	names := algorithm.Names()
	for _, k := range config.Keys() {
		names = append(names, k.Name)
	}
	for _, name := range names {
		var printed bytes.Buffer
		if err := (&explainCmd{Name: name}).Run(verb.Streams{Out: &printed, Err: io.Discard}); err != nil {
			t.Errorf("explain %s: %v", name, err)
		}
		out := printed.String()
		if name == "ssp-c" && out != string(whole) {
			t.Errorf("explain %s by the command line:\n%s\nwant\n%s", name, whole, out)
		}
		if !strings.HasPrefix(out, name+"\n") || strings.Contains(out, ": \n") || strings.Contains(out, "NaN") {
			t.Errorf("explain %s:\n%s", name, out)
		}
		for line := range strings.Lines(out) {
			if len([]rune(line)) > 120 {
				t.Errorf("explain %s: a line of %d characters", name, len([]rune(line)))
			}
		}
	}
}
