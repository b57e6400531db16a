package cli

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
)

// A tied command ends soon after its caller closes the pipe, whether it looks at its context or not.
func TestTied(t *testing.T) {
	if how := os.Getenv("TIED_TEST"); how != "" {
		if how == "deaf" {
			tiedRest = 0
		}
		ctx := withCaller(context.Background())
		if how == "deaf" {
			ctx = t.Context()
		}
		<-ctx.Done()
		os.Exit(42)
	}
	t.Parallel()
	for how, want := range map[string]int{"looks": 42, "deaf": Interrupted} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestTied$") //nolint:noctx // the test is about the end by the pipe
		cmd.Env = append(os.Environ(), "TIED_TEST="+how)
		pipe, err := Tie(cmd)
		if err = errors.Join(err, cmd.Start(), pipe.Close()); err != nil {
			t.Fatal(err)
		}
		err = cmd.Wait()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != want {
			t.Errorf("%s: %v, want exit code %d", how, err, want)
		}
	}
}
