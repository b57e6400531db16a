package command

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
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

// TestAuditRefusesOtherData has flags for data that an audit on its own twelve clients does not read, by the flag and by --set. An experiment
// file may name data, which fedsim run reads; the scale and the public users are of the audited federation, too.
func TestAuditRefusesOtherData(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(file, []byte("data: ratings.csv\nbad-rows: skip\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for refused, sets := range map[bool][][]string{
		true:  {{"--data", "x.csv"}, {"--set", "data=x.csv"}, {"--bad-rows", "skip"}, {"--set", "unrated=-1"}, {"--duplicates", "last"}, {"--columns", "user=u"}},
		false: {{file}, {"--rating-max", "10"}, {"--public-users", "2"}},
	} {
		for _, args := range sets {
			var out, errs bytes.Buffer
			code := run(t.Context(), append([]string{"audit", "--neighbours", "--algorithm", "ssp-c", "--epsilon", "1"}, args...), verb.Streams{Out: &out, Err: &errs})
			if (code == 2) != refused || strings.Contains(errs.String(), "an audit has data of its own") != refused {
				t.Errorf("%s: exit %d: %s", args, code, errs.String())
			}
		}
	}
}
