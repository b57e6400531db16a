package verb

import (
	"testing"

	"github.com/fedsim/fedsim/config"
	_ "github.com/fedsim/fedsim/internal/families" // whose keys have groups
)

// The help of run has the groups that the flags of a run fall into, and every name in a group is a key.
func TestGroupsOfFlags(t *testing.T) {
	for heading, names := range groups {
		for _, name := range names {
			if config.Find(name) == nil {
				t.Errorf("%s there is no key %s", heading, name)
			}
		}
	}
	seen := make(map[string]bool)
	for _, k := range config.Keys() {
		if k.Flag {
			seen[Group(k)] = true
		}
	}
	for _, want := range []string{"Data:", "Privacy:", "Training:", "Dropouts:", "Output:"} {
		if !seen[want] {
			t.Errorf("no flag stands under %s", want)
		}
	}
}
