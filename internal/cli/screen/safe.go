package screen

import (
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// Safe returns a writer to a terminal that shows control characters of texts, such as titles, and does not obey them. Any other
// writer stays as it is: programs and files get every byte.
func Safe(w io.Writer) io.Writer {
	if IsTerminal(w) {
		return safe{w}
	}
	return w
}

// IsTerminal reports whether a writer, or the writer of [Safe] to it, is a terminal.
func IsTerminal(w io.Writer) bool {
	f := file(w)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// safe quotes control characters of what is written to a terminal.
type safe struct{ terminal io.Writer }

func (s safe) Write(text []byte) (int, error) {
	if _, err := io.WriteString(s.terminal, quoteControls(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// quoteControls writes as in Go each character that moves the cursor, colours, or turns the direction of a text, except line feeds and tabs.
func quoteControls(text string) string {
	acts := func(r rune) bool {
		return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
	}
	if strings.IndexFunc(text, acts) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if !acts(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteToASCII(string(r))
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// file returns the file that a writer ends in; nil if it ends in none.
func file(w io.Writer) *os.File {
	if s, ok := w.(safe); ok {
		w = s.terminal
	}
	f, _ := w.(*os.File)
	return f
}
