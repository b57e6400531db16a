package experiment

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every file in experiments/ is one that runs, without a setting that has no
// effect, and is what its name says.
func TestExperimentFiles(t *testing.T) {
	files, err := filepath.Glob("../experiments/*.yaml")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		list, err := ReadFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		c, err := Resolve(list)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if w := c.Warnings(); len(w) > 0 {
			t.Errorf("%s: %v", file, w)
		}
		name := string(c.Algorithm)
		if c.Algorithm.Organisations() {
			name += fmt.Sprintf("-s%d", c.parties())
		}
		name += "-" + regexp.MustCompile(`[^a-z0-9-]+`).ReplaceAllString(c.Data, "-")
		name += fmt.Sprintf("-eps%v", c.Epsilon)
		if got := strings.TrimSuffix(filepath.Base(file), ".yaml"); got != name {
			t.Errorf("%s holds %s", file, name)
		}
	}
}
