//go:build unix

package command

import (
	"bufio"
	"errors"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/testutil"
)

// demonstration is deploy/demo.sh under way, with its output in a pipe.
type demonstration struct {
	cmd    *exec.Cmd
	output *bufio.Scanner
	seen   strings.Builder
}

// buildsNothing is a PATH on which go build gives the command that the tests are.
func buildsNothing(t *testing.T) string {
	t.Helper()
	m := newMachine(t)
	script := "#!/bin/sh\n[ \"$1 $2\" = 'build -o' ] && ln -s '" + m.binary + "' \"$3\"\n"
	if err := os.WriteFile(m.path("go"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return m.dir + ":" + os.Getenv("PATH")
}

// demonstrate starts it on a port, with a folder of its own for what is temporary.
func demonstrate(t *testing.T, path, temporary string, port int) *demonstration {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	d := &demonstration{cmd: exec.Command(deploy + "/demo.sh")}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	d.cmd.Stdout, d.cmd.Stderr = w, w
	d.cmd.Env = append(os.Environ(), "TMPDIR="+temporary, "PORT="+strconv.Itoa(port), "PATH="+path)
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C goes to all of them
	if err = errors.Join(d.cmd.Start(), w.Close()); err != nil {
		t.Fatal(err)
	}
	testutil.Limit(t, func() error { return syscall.Kill(-d.cmd.Process.Pid, syscall.SIGKILL) })
	d.output = bufio.NewScanner(r)
	return d
}

// until reads up to a line with a text; "" is the end, which comes when no process has the pipe.
func (d *demonstration) until(text string) {
	for d.output.Scan() {
		d.seen.WriteString(d.output.Text() + "\n")
		if text != "" && strings.Contains(d.output.Text(), text) {
			return
		}
	}
}

// end waits for the end, which leaves no process and no file behind.
func (d *demonstration) end(t *testing.T, temporary string) error {
	t.Helper()
	d.until("")
	err := d.cmd.Wait()
	if gone := syscall.Kill(-d.cmd.Process.Pid, 0); !errors.Is(gone, syscall.ESRCH) {
		t.Errorf("processes are left behind: %v", gone)
	}
	entries, failed := os.ReadDir(temporary)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "fednode-demo") {
			t.Errorf("%s is left behind", e.Name())
		}
	}
	return errors.Join(err, failed)
}

func TestDemonstration(t *testing.T) {
	long(t)
	temporary := t.TempDir()
	d := demonstrate(t, os.Getenv("PATH"), temporary, twoPorts(t))
	if err := d.end(t, temporary); err != nil {
		t.Errorf("%v\n%s", err, d.seen.String())
	}
	for _, want := range []string{"5 attempted, 0 skipped", "4 attempted, 0 skipped", "of the aggregator in round 4", "user_embeddings.npy", "STARS  ID  TITLE"} {
		if !strings.Contains(d.seen.String(), want) {
			t.Errorf("no %q in\n%s", want, d.seen.String())
		}
	}
	if strings.Contains(d.seen.String(), "warning") {
		t.Errorf("it warns:\n%s", d.seen.String())
	}
}

func TestDemonstrationSaysThatAPortIsTaken(t *testing.T) {
	effort.NotShort(t, "starts processes")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nobody connects
	temporary := t.TempDir()
	d := demonstrate(t, buildsNothing(t), temporary, l.Addr().(*net.TCPAddr).Port)
	if err = d.end(t, temporary); err == nil || !strings.Contains(d.seen.String(), "choose another: PORT=") {
		t.Errorf("%v\n%s", err, d.seen.String())
	}
}

func TestDemonstrationCanBeInterrupted(t *testing.T) {
	effort.NotShort(t, "starts processes")
	temporary := t.TempDir()
	d := demonstrate(t, buildsNothing(t), temporary, twoPorts(t))
	d.until("20 clients start")
	for range 2 { // by an impatient operator
		if err := syscall.Kill(-d.cmd.Process.Pid, syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.end(t, temporary); err == nil {
		t.Errorf("it ended as if it were done:\n%s", d.seen.String())
	}
}

// twoPorts returns a port of TCP such that the port and the next were free a moment ago.
func twoPorts(t *testing.T) int {
	t.Helper()
	for last := 0; ; {
		port, err := strconv.Atoi(testutil.Port(t))
		if err != nil {
			t.Fatal(err)
		}
		if port == last+1 {
			return last
		}
		last = port
	}
}

// No port of a pair is given twice.
func TestTwoPorts(t *testing.T) {
	for range 20 {
		p := twoPorts(t)
		if again := twoPorts(t); again == p || again == p+1 {
			t.Errorf("ports %d and %d are given twice", p, p+1)
		}
	}
}
