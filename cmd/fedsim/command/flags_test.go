package command

import (
	"testing"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/verb"
)

// The help of run has the groups that the flags of a run fall into, and every name in a group is a key.
func TestGroupsOfFlags(t *testing.T) {
	for heading, names := range verb.Groups {
		for _, name := range names {
			if config.Find(name) == nil {
				t.Errorf("%s there is no key %s", heading, name)
			}
		}
	}
	p := complete()
	parser, err := p.Parser(newCommands(), nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, leaf := range parser.Model.Leaves(true) {
		for _, f := range leaf.Flags {
			if k := config.Find(f.Name); leaf.Name == "run" && k != nil && k.Flag {
				seen[f.Group.Title] = true
			}
		}
	}
	for _, want := range []string{"Data:", "Privacy:", "Training:", "Dropouts:", "Output:"} {
		if !seen[want] {
			t.Errorf("no flag stands under %s", want)
		}
	}
}
