package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/effort"
)

// ownPrograms is the folder of the programs, whatever folder a call of fedsim is in.
var ownPrograms, _ = filepath.Abs("../../../examples")

// built builds a program and returns its path. Without debug information a program is linked in half the time.
func built(t *testing.T, program string) string {
	t.Helper()
	effort.NotShort(t, "building the programs takes seconds")
	// The go command reads the programs, and the test cache sees only what the test reads. All else of a program is linked here.
	if err := filepath.WalkDir(ownPrograms, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			_, err = os.ReadFile(path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), program)
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", path, "./"+program)
	build.Dir = ownPrograms
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// said returns the output of a program.
func said(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
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
	expect(t, said(t, built(t, "own-ratings")), `RMSE 0\.\d{3}, item biases alone 0\.\d{3}`, statement)
}

func TestOwnAlgorithm(t *testing.T) {
	t.Parallel()
	expect(t, said(t, built(t, "own-algorithm")), `item-mean on synthetic:small`, `private model +1\.0`, `before_cooperation +1\.3`, `non_private +1\.0`, `privacy +ε = 10 and δ = 1e-05 protect all ratings of one user`)
}

// The algorithm is in help, plan and run of a command that was built with it, with dropouts
// and real sums.
func TestOwnCommand(t *testing.T) {
	effort.LongOnly(t, "building a third program takes seconds")
	t.Parallel()
	own := built(t, "own-command")
	expect(t, said(t, own, "run", "--help"), `item-mean`)
	expect(t, said(t, own, "plan", "--algorithm", "item-mean", "--data", "synthetic:small"), `algorithm: item-mean, 1 round`, `release means: `, statement)
	expect(t, said(t, own, "run", "--algorithm", "item-mean", "--data", "synthetic:small", "--secagg", "real", "--dropout", "0.2", "--baselines", "quick", "--verbose"),
		`secure sum  real, noise split`, `private model +1\.0`, statement)
	expect(t, said(t, own, "run", "--algorithm", "item-mean", "--data", "synthetic:small", "--parties", "3", "--baselines", "quick"),
		`warning: parties has no effect with item-mean`)
}
