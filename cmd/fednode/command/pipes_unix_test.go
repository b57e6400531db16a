//go:build unix

package command

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/cli"
)

// named makes a named pipe (mkfifo(3)) that no program writes to: opening it waits for ever.
func named(t *testing.T, path ...string) string {
	t.Helper()
	pipe := filepath.Join(path...)
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	return pipe
}

// A file that becomes a pipe while a client waits for sessions is refused at the next session, and is not waited for.
func TestFileThatBecomesAPipe(t *testing.T) {
	t.Parallel()
	for _, folder := range []bool{false, true} {
		dir := t.TempDir()
		data := filepath.Join(dir, "ratings.csv")
		if err := os.WriteFile(data, []byte("userId,movieId,rating\n7,1,4\n7,2,5\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		d := &clientHost{clientCmd: &clientCmd{Data: data, User: "7"}}
		if folder {
			d.Data = dir
		}
		log := zerolog.Nop()
		train := func() error {
			e, err := agreement.Open(published(t, "algorithm=lfl-sgdmf rounds=5"))
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() {
				_, failed := d.party(context.Background(), e, clientSpec{holding: algorithm.PartyData{User: "7"}}, &log)
				done <- failed
			}()
			select {
			case err = <-done:
				return err
			case <-time.After(10 * time.Second):
				t.Fatal("the client waits for a writer of the pipe")
				return nil
			}
		}
		if err := train(); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(data); err != nil {
			t.Fatal(err)
		}
		named(t, data)
		if err := train(); err == nil || !strings.Contains(err.Error(), "is a pipe, which can be read for one session; name a file") {
			t.Errorf("folder %v: %v", folder, err)
		}
	}
}

// The list of users is read at the start and again for each session.
func TestListOfUsersInAPipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := named(t, dir, "ids")
	for _, sessions := range []string{"0", "1"} {
		code, _, stderr := call(t, "client", "--data", dir, "--user", "7", "--ids", pipe, "--sessions", sessions, "--state", t.TempDir())
		if code != cli.Misuse || !strings.Contains(stderr, "is a pipe, and the list is read again") {
			t.Errorf("--sessions %s: exit code %d\n%s", sessions, code, stderr)
		}
	}
}
