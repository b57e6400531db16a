package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/cli/screen"
)

// terminal opens a pseudoterminal (pty(7)) that passes every byte on as it is.
func terminal(t *testing.T) (shown, terminal *os.File) {
	t.Helper()
	shown, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err) // a system without terminals
	}
	t.Cleanup(func() { _ = shown.Close() })
	fd := int(shown.Fd())
	if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if terminal, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	if _, err = term.MakeRaw(int(terminal.Fd())); err != nil {
		t.Fatal(err)
	}
	return shown, terminal
}

// Sequences that clear the screen, name the window or turn a text are shown, by ECMA-48 and Unicode's list of Bidi_Control.
func TestSafe(t *testing.T) {
	shown, terminal := terminal(t)
	for text, want := range map[string]string{
		"Heat (1995)\tx\n": "Heat (1995)\tx\n", "\x1b[2JHeat": `\x1b[2JHeat`, "\x1b]0;owned\a": `\x1b]0;owned\a`, "a\rb\b\x7f": `a\rb\b\x7f`, "\u009b31mred": `\u009b31mred`, "\u202Egpj": `\u202egpj`, "Амели": "Амели", "千と千尋": "千と千尋",
	} {
		if n, err := screen.Safe(terminal).Write([]byte(text)); err != nil || n != len(text) {
			t.Errorf("%q: %d bytes are written, %v; want %d", text, n, err, len(text))
		}
		// A zero byte marks the end of the text.
		if _, err := terminal.WriteString("\x00"); err != nil {
			t.Fatal(err)
		}
		got := ""
		for b := make([]byte, 1); ; got += string(b) {
			if _, err := io.ReadFull(shown, b); err != nil {
				t.Fatal(err)
			}
			if b[0] == 0 {
				break
			}
		}
		if got != want {
			t.Errorf("%q is shown as %q; want %q", text, got, want)
		}
	}
	if !screen.IsTerminal(screen.Safe(terminal)) {
		t.Error("the writer to a terminal is none")
	}
	file := filepath.Join(t.TempDir(), "out")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = io.WriteString(screen.Safe(f), "\x1b[2JHeat"); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(file); string(b) != "\x1b[2JHeat" || errors.Join(err, f.Close()) != nil {
		t.Errorf("a file gets %q, %v", b, err)
	}
}

// sink is where the careless command writes.
type sink struct{ io.Writer }

type carelessCmd struct{}

// Run does not look whether its words were written.
func (carelessCmd) Run(out sink) error {
	_, _ = fmt.Fprintln(out, "lost")
	return nil
}

// A full disk takes nothing: /dev/full answers each write with ENOSPC (full(4)).
func TestLostOutputIsAFailure(t *testing.T) {
	fd, err := unix.Open("/dev/full", unix.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	full := os.NewFile(uintptr(fd), os.Stdout.Name())
	t.Cleanup(func() { _ = full.Close() })
	for _, args := range [][]string{{"print"}, {"--help"}, {"print", "--help"}, {"help"}, {"help", "print"}, {"--version"}, {"version"}, {"man"}} {
		var tree struct {
			Print carelessCmd `cmd:""`
			cli.PagesCmd
			Version cli.VersionFlag
		}
		out, stderr := screen.Safe(full), new(bytes.Buffer)
		p := cli.Program{Name: "tool", Version: func() string { return "1" }, Bind: func() (any, error) { return sink{out}, nil }}
		code := p.Run(t.Context(), &tree, args, out, stderr)
		if code != cli.Failed || stderr.String() != "tool: write /dev/stdout: no space left on device\n" {
			t.Errorf("%q: exit code %d, %q; want 1", args, code, stderr)
		}
	}
}
