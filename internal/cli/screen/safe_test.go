package screen

import (
	"bytes"
	"io"
	"testing"
)

// Sequences that clear the screen, name the window or turn a text are shown, by ECMA-48 and Unicode's list of Bidi_Control.
func TestSafe(t *testing.T) {
	for text, want := range map[string]string{
		"Heat (1995)\tx\n": "Heat (1995)\tx\n", "\x1b[2JHeat": `\x1b[2JHeat`, "\x1b]0;owned\a": `\x1b]0;owned\a`, "a\rb\b\x7f": `a\rb\b\x7f`, "\u009b31mred": `\u009b31mred`, "\u202Egpj": `\u202egpj`, "Амели": "Амели", "千と千尋": "千と千尋",
	} {
		var b bytes.Buffer
		if n, err := (safe{&b}).Write([]byte(text)); err != nil || n != len(text) || b.String() != want {
			t.Errorf("%q is shown as %q, %d, %v; want %q", text, b.String(), n, err, want)
		}
	}
	var b bytes.Buffer
	if Safe(&b) != io.Writer(&b) {
		t.Error("what is no terminal gets other bytes")
	}
}
