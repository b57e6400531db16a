package command

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/lab/attack"
)

// attacked returns what the verb attack prints: as a result, and as an error.
func attacked(t *testing.T, args ...string) (out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	_ = run(t.Context(), append([]string{"attack"}, args...), verb.Streams{Out: &o, Err: &e})
	return o.String(), e.String()
}

// TestEveryAttackIsOffered compares the words of the command with the kinds of the package.
func TestEveryAttackIsOffered(t *testing.T) {
	t.Setenv("COLUMNS", "2000")
	help, _ := attacked(t, "--help")
	for _, k := range attack.Kinds() {
		if !strings.Contains(help, string(k)+", ") {
			t.Errorf("the help says nothing of %s", k)
		}
	}
	want := strings.Join(lists.Map(attack.Kinds(), func(k attack.Kind) string { return fmt.Sprintf("%q", k) }), ",")
	if _, got := attacked(t, "everything"); !strings.Contains(got, "must be one of "+want+" but") {
		t.Errorf("the command says %q, want %s", got, want)
	}
}

// TestNumbersOfOtherAttacksAreRefused has numbers that an attack does not take: runs are of lies, targets and shadows of others.
func TestNumbersOfOtherAttacksAreRefused(t *testing.T) {
	for _, args := range [][]string{{"promote", "--targets", "5"}, {"degrade", "--shadows", "8"}, {"membership-user", "--runs", "5"}} {
		if out, err := attacked(t, args...); out != "" || !strings.Contains(err, "--runs") {
			t.Errorf("%s: %q and the error %q, want an error that names --runs", args, out, err)
		}
	}
}
