//go:build unix

package admission_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/node/store"
)

// children are programs that this test binary runs, to be killed: each writes for ever, and prints
// one line for everything that it has written.
var children = map[string]func(path string) error{
	"ledger": func(path string) error {
		log, err := store.OpenLog(path, kind)
		if err != nil {
			return err
		}
		l, err := store.NewLedger(log)
		if err != nil {
			return err
		}
		l.Protect(perUser)
		for i := l.Last(one) + 1; ; i++ {
			if err := l.Persist(charged(one, i)); err != nil {
				return err
			}
			fmt.Println(i, 1)
		}
	},
	"full": func(path string) error {
		log, err := store.OpenLog(path, kind)
		if err != nil {
			return err
		}
		// Beyond this, writes fail as on a full disk.
		signal.Ignore(syscall.SIGXFSZ)
		limit := uint64(40 * os.Getpagesize())
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
			return err
		}
		for i := 0; ; i++ {
			if err := log.Append([]byte(strings.Repeat("x", 2000))); err != nil && strings.Contains(err.Error(), syscall.EFBIG.Error()) {
				break
			} else if err != nil {
				return err
			}
			fmt.Println(i, 0)
		}
		if err := log.Append([]byte("more")); !errors.Is(err, store.ErrClosed) {
			return fmt.Errorf("after a write that failed: %v", err)
		}
		if again, err := store.OpenLog(path, kind); err != nil {
			return err
		} else if err := again.Close(); err != nil {
			return err
		}
		fmt.Println(0, 1)
		never := make(chan os.Signal, 1)
		signal.Notify(never, syscall.SIGUSR1)
		<-never // until it is killed
		return nil
	},
	"create": func(path string) error {
		for i := 0; ; i++ {
			if err := store.CreateLog(fmt.Sprint(path, i), kind); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			fmt.Println(i, 0)
		}
	},
	"checkpoint": func(path string) error {
		var i uint64
		c, _, err := store.LoadCheckpoint(path, experiment)
		if err == nil {
			i = c.Round
		} else if !errors.Is(err, store.ErrNoCheckpoint) {
			return err
		}
		for i++; ; i++ {
			if err := store.SaveCheckpoint(path, checkpoint(i)); err != nil {
				return err
			}
			fmt.Println(i, 0)
		}
	},
}

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && children[os.Args[1]] != nil {
		fmt.Fprintln(os.Stderr, children[os.Args[1]](os.Args[2]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// line is a line of a child's output: a number, and what was done with it.
type line struct {
	number uint64
	what   int
}

// child runs a child, kills it once its lines are enough, and gives all of them: it
// was on its way to the next.
func child(t *testing.T, name, path string, enough func([]line) bool) (lines []line) {
	t.Helper()
	cmd := exec.Command(os.Args[0], name, path)
	var trouble strings.Builder
	cmd.Stderr = &trouble
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err = cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for r := bufio.NewReader(out); ; {
		if enough(lines) {
			if err = cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		var l line
		if _, err = fmt.Fscanln(r, &l.number, &l.what); errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	if exit, ok := errors.AsType[*exec.ExitError](cmd.Wait()); !ok || exit.Exited() || trouble.Len() > 0 {
		t.Fatalf("the child ended by itself: %s", trouble.String())
	}
	return lines
}

// kill runs a child until it has written some lines, and gives its last.
func kill(t *testing.T, name, path string, n int) (number uint64, what int) {
	t.Helper()
	lines := child(t, name, path, func(l []line) bool { return len(l) == n })
	if len(lines) == 0 {
		return 0, 0
	}
	last := lines[len(lines)-1]
	return last.number, last.what
}

// cuts are after how many lines children are killed: often at once, when they
// are still opening their files.
func cuts(seed uint64) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		r := rand.New(rand.NewPCG(seed, 0))
		for range effort.Of(12, 12, 25) {
			if !yield(max(0, r.IntN(12)-2)) {
				return
			}
		}
	}
}

// Every record that a killed client was told is durable is there when it comes back. At most one
// more is there: the record that it was writing.
func TestKilledLedger(t *testing.T) {
	path := file(t)
	var last uint64 // acknowledged
	for lines := range cuts(1) {
		if i, _ := kill(t, "ledger", path, lines); i > 0 {
			last = i
		}
		log := open(t, path)
		l := ledger(t, log)
		got := uint64(len(records(t, l)))
		if now := l.Last(one); now < last || now > last+1 || got != now {
			t.Fatalf("round %d was charged, and there are %d of %d", last, got, now)
		}
		last = l.Last(one)
		for i, r := range records(t, l) {
			if r.Round != uint64(i)+1 || r.Session != one || len(r.Events) != 2 || r.Events[0] != events()[0] {
				t.Fatalf("charge %d is %+v", i, r)
			}
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if last < 30 {
		t.Errorf("only %d rounds were recorded; the test shows little", last)
	}
}

// On a full disk a log closes itself, and holds what was acknowledged and nothing
// else.
func TestFullDisk(t *testing.T) {
	path := file(t)
	lines := child(t, "full", path, func(l []line) bool { return len(l) > 0 && l[len(l)-1].what == 1 })
	n := len(lines) - 1
	got, err := read(open(t, path))
	if err != nil || len(got) != n || n < 10 {
		t.Errorf("%d entries were acknowledged and %d are there (%v)", n, len(got), err)
	}
}

// However its making was cut off, a log is there as a whole or not at all.
func TestKilledCreation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for lines := range cuts(2) {
		last, _ := kill(t, "create", path, lines)
		for i := range last + 2 {
			log, err := store.OpenLog(fmt.Sprint(path, i), kind)
			if errors.Is(err, fs.ErrNotExist) && (i > last || lines == 0) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			logHolds(t, log)
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestKilledServer(t *testing.T) {
	dir := t.TempDir()
	var last uint64
	for lines := range cuts(3) {
		if i, _ := kill(t, "checkpoint", dir, lines); i > 0 {
			last = i
		}
		c, fallback, err := store.LoadCheckpoint(dir, experiment)
		if last == 0 && errors.Is(err, store.ErrNoCheckpoint) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if fallback != nil {
			t.Errorf("killing alone damages no file, and leaves none out: %v", fallback)
		}
		if c.Round < last || c.Round > last+1 || string(c.State) != string(checkpoint(c.Round).State) {
			t.Fatalf("round %d was saved, and there is %d", last, c.Round)
		}
		last = c.Round
	}
	if last < 30 {
		t.Errorf("only %d checkpoints were saved; the test shows little", last)
	}
}
