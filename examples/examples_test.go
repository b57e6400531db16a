package examples

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	// The go command builds the programs, and the test cache does not see the files that it
	// reads. So the test links the packages that the programs link.
	_ "github.com/fedsim/fedsim/cmd/fedsim/command"
	_ "github.com/fedsim/fedsim/examples/own-algorithm/itemmean"
	"github.com/fedsim/fedsim/internal/effort"
)

var programs string // the folder with the programs

func TestMain(m *testing.M) {
	os.Exit(built(m))
}

// built builds the programs that this run takes, each of them once, and runs the tests. Without debug
// information they are linked in half the time.
func built(m *testing.M) int {
	flag.Parse()
	list := effort.Of(nil, []string{"./own-algorithm"}, []string{"./..."})
	if len(list) == 0 {
		return m.Run()
	}
	var err error
	if programs, err = os.MkdirTemp("", "fedsim-examples-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(programs) //nolint:errcheck // a temporary folder
	if out, err := exec.Command("go", slices.Concat([]string{"build", "-ldflags=-s -w", "-o", programs}, list)...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// said returns the output of a program.
func said(t *testing.T, program string, args ...string) string {
	t.Helper()
	effort.NotShort(t, "building the programs takes seconds")
	cmd := exec.Command(filepath.Join(programs, program), args...)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func expect(t *testing.T, text string, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile(p).MatchString(text) {
			t.Errorf("nothing like %q in\n%s", p, text)
		}
	}
}

const statement = `\(epsilon=\d+(\.\d+)?, delta=1e-05, unit=user, relation=zero-out,\s+accountant=gdp-skellam, sampling=none, noise=skellam\)`

func TestOwnRatings(t *testing.T) {
	effort.LongOnly(t, "building the program takes half a second, and the example of fedsim.Run makes the same calls")
	t.Parallel()
	expect(t, said(t, "own-ratings"), `RMSE 0\.\d{3}, item biases alone 0\.\d{3}`, statement)
}

func TestOwnAlgorithm(t *testing.T) {
	t.Parallel()
	expect(t, said(t, "own-algorithm"), `item-mean on synthetic:small`, `private model +1\.0`, `before_cooperation +1\.3`, `non_private +1\.0`, `privacy +ε = 10 and δ = 1e-05 protect all ratings of one user`)
}

// The algorithm is in help, plan and run of a command that was built with it, with dropouts
// and real sums.
func TestOwnCommand(t *testing.T) {
	effort.LongOnly(t, "building a third program takes seconds")
	t.Parallel()
	expect(t, said(t, "own-command", "run", "--help"), `item-mean`)
	expect(t, said(t, "own-command", "plan", "--algorithm", "item-mean", "--data", "synthetic:small"), `algorithm: item-mean, 1 round`, `release means: `, statement)
	expect(t, said(t, "own-command", "run", "--algorithm", "item-mean", "--data", "synthetic:small", "--secagg", "real", "--dropout", "0.2", "--baselines", "quick", "--verbose"),
		`secure sum  real, noise split`, `private model +1\.0`, statement)
	expect(t, said(t, "own-command", "run", "--algorithm", "item-mean", "--data", "synthetic:small", "--parties", "3", "--baselines", "quick"),
		`warning: parties has no effect with item-mean`)
}
