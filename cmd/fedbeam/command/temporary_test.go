package command

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/cli"
)

// asCommand has the binary of the tests be the command itself.
const asCommand = "FEDBEAM_TEST_COMMAND"

// emptied fails the test unless a folder is as empty as it was.
func emptied(t *testing.T, dir string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		t.Errorf("%s is left behind", e.Name())
	}
}

// A run leaves nothing among temporary files: neither its exchange folder nor what Beam makes for each of its jobs. Worker processes do neither.
func TestNothingIsLeft(t *testing.T) {
	for _, more := range [][]string{{"--rounds-per-job", "1"}, {"--processes", "1"}} {
		temporary := t.TempDir()
		t.Setenv("TMPDIR", temporary)
		args := append([]string{"run", "--set", "algorithm=lfl-sgdmf", "--set", "data=synthetic:small", "--set", "rounds=2", "--set", "baselines=quick", "--set", "out=" + t.TempDir()}, more...)
		if code, _, errors := call(t, args...); code != cli.Done {
			t.Fatalf("exit code %d: %s", code, errors)
		}
		if os.TempDir() != temporary {
			t.Errorf("temporary files go to %s from now on", os.TempDir())
		}
		emptied(t, temporary)
	}
}

// A run that is interrupted after the first of many rounds leaves no temporary files.
func TestNothingIsLeftOfAnInterruptedRun(t *testing.T) {
	temporary, out := t.TempDir(), t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, "run", "--processes", "1", "--rounds-per-job", "2", "--set", "algorithm=lfl-sgdmf", "--set", "data=synthetic:small",
		"--set", "rounds=200", "--set", "baselines=quick", "--set", "out="+out)
	c.Env = append(os.Environ(), asCommand+"=1", "TMPDIR="+temporary)
	stderr, err := c.StderrPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		said = append(said, lines.Text())
		if strings.Contains(lines.Text(), "lfl-sgdmf 1/") {
			if list, failed := os.ReadDir(temporary); failed != nil || len(list) != 1 {
				t.Errorf("while it runs there is %v of it, %v; one folder should be", list, failed)
			}
			if err = c.Process.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
		}
	}
	ended, is := errors.AsType[*exec.ExitError](c.Wait())
	if all := strings.Join(said, "\n"); !is || !ended.Exited() || !strings.Contains(all, "interrupted; nothing was left behind") {
		t.Errorf("it ended with %v:\n%s", ended, all)
	}
	emptied(t, temporary)
	emptied(t, out)
}
