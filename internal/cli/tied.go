package cli

import (
	"context"
	"io"
	"os"
	"os/exec"
	"time"
)

// tied names the environment variable of a command that ends with its caller. The value is "stdin": the command is
// interrupted when its standard input ends. The system closes the caller's side of the pipe however the caller ends.
const tied = "FEDSIM_TIED"

// parentLook is the time between two looks at the parent's number.
const parentLook = 500 * time.Millisecond

// tiedRest is the time of a tied command to clean up. Tests shorten it.
var tiedRest = 2 * time.Second

// Tie has a command of this program end with this process. It must be called before the command starts, and takes the
// command's standard input. Closing the pipe interrupts the command, and cmd.Wait closes it after the end. A non-nil
// cmd.Env must hold the whole environment.
func Tie(cmd *exec.Cmd) (io.Closer, error) {
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, tied+"=stdin")
	return cmd.StdinPipe()
}

// withCaller returns a context that ends when the caller of a tied command ends. The process follows soon, even if it
// does not look at the context. A process that the caller forked may hold the pipe open, so the parent counts too.
func withCaller(ctx context.Context) context.Context {
	if os.Getenv(tied) != "stdin" {
		return ctx
	}
	_ = os.Unsetenv(tied) // commands that this process starts have another standard input
	ctx, interrupt := context.WithCancel(ctx)
	gone := make(chan struct{}, 2)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // an error is an end too
		gone <- struct{}{}
	}()
	go func() {
		for parent := os.Getppid(); os.Getppid() == parent; {
			time.Sleep(parentLook)
		}
		gone <- struct{}{}
	}()
	go func() {
		<-gone
		interrupt()
		time.Sleep(tiedRest)
		os.Exit(Interrupted)
	}()
	return ctx
}
