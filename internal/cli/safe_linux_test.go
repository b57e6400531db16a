package cli_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

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
	var b bytes.Buffer
	if screen.Safe(&b) != io.Writer(&b) {
		t.Error("what is no terminal gets other bytes")
	}
}
