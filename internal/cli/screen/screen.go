// Package screen fits texts to the width of the terminal that shows them.
package screen

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/fedsim/fedsim/internal/lists"
)

// The width of a line in characters: where it is not known, and the least that COLUMNS may ask for.
const (
	defaultWidth = 80
	leastWidth   = 20
	deep         = 8 // an indent that stands below a label
)

// Width returns how many characters a line of w holds: the number in the environment variable COLUMNS,
// else the width of the terminal, else 80. It ignores a COLUMNS below 20.
func Width(w io.Writer) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n >= leastWidth {
		return n
	}
	if IsTerminal(w) {
		if n, _, err := term.GetSize(int(file(w).Fd())); err == nil && n >= leastWidth {
			return n
		}
	}
	return defaultWidth
}

// Print writes the text, fitted to the width of w, and below it what the reader can do next: one command a
// line, each a list of words.
func Print(w io.Writer, text string, next ...[]string) error {
	width := Width(w)
	text = Fit(text, width)
	if len(next) > 0 {
		text += "\nnext\n"
		for _, words := range next { // as a shell reads them: a long one continues after a backslash
			text += filled(Quoted(words), "  ", "    ", ` \`, width)
		}
	}
	_, err := io.WriteString(w, text)
	return err
}

// Wrapped breaks a text between words into lines that begin with the indent and have at most width
// characters, if words allow it. Every line ends with a line feed.
func Wrapped(text, indent string, width int) string {
	return filled(strings.Fields(text), indent, indent, "", width)
}

// Fit breaks the lines of a text that are wider than width between words. The rest of a line stands below its
// last column: columns are two spaces or more apart. A line of one column, or with a last column right of the
// middle, continues two characters right of its beginning, or below its beginning if that is 8 characters in or more.
func Fit(text string, width int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if utf8.RuneCountInString(line) <= width {
			b.WriteString(line + "\n")
			continue
		}
		at := column(line, width)
		head := line[:at]
		rest := strings.Repeat(" ", utf8.RuneCountInString(head))
		if strings.TrimSpace(head) == "" && len(head) < deep {
			rest = head + "  "
		}
		b.WriteString(filled(strings.Fields(line[at:]), head, rest, "", width))
	}
	return b.String()
}

var gaps = regexp.MustCompile(` {2,}`)

// column returns the byte at which the last column of a line begins that is not right of the middle.
func column(line string, width int) int {
	at := len(line) - len(strings.TrimLeft(line, " "))
	for _, gap := range gaps.FindAllStringIndex(line, -1) {
		if n := utf8.RuneCountInString(line[:gap[1]]); n <= max(width/2, 2) || n <= 36 && n <= width-20 {
			at = gap[1]
		}
	}
	return at
}

// filled writes words into lines: the first begins with first, the others with rest. A line that is continued ends with
// more. A word is never broken.
func filled(words []string, first, rest, more string, width int) string {
	var b strings.Builder
	at := 0
	for k, w := range words {
		n := utf8.RuneCountInString(w)
		room := width
		if k < len(words)-1 {
			room -= utf8.RuneCountInString(more)
		}
		switch {
		case k == 0:
			b.WriteString(first)
			at = utf8.RuneCountInString(first)
		case at+1+n > room:
			b.WriteString(more + "\n" + rest)
			at = utf8.RuneCountInString(rest)
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(w)
		at += n
	}
	if len(words) > 0 {
		b.WriteByte('\n')
	}
	return b.String()
}

// Quoted quotes the words of a command for a shell, each only if it has to be.
func Quoted(words []string) []string {
	return lists.Map(words, func(s string) string {
		if special.MatchString(s) {
			return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
		return s
	})
}

// special matches a word that a shell may not read as it is: an empty one, or one with another character than these.
var special = regexp.MustCompile(`^$|[^-\w./=:,+@%]`)

// Safe returns a writer to a file that keeps the first error of writing, for its method Lost. If the file is a terminal, the
// terminal shows control characters of texts, such as titles, and does not obey them. Other files get every byte.
func Safe(f *os.File) io.Writer { return &safe{file: f, terminal: IsTerminal(f)} }

// IsTerminal reports whether a writer, or the writer of [Safe] to it, is a terminal.
func IsTerminal(w io.Writer) bool {
	f := file(w)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

type safe struct {
	file     *os.File
	terminal bool
	lost     atomic.Pointer[error]
}

func (s *safe) Write(text []byte) (int, error) {
	shown := text
	if s.terminal {
		shown = []byte(quoteControls(string(text)))
	}
	if _, err := s.file.Write(shown); err != nil {
		s.lost.CompareAndSwap(nil, &err)
		return 0, err
	}
	return len(text), nil
}

// Lost returns the first error of writing; nil if all was written.
func (s *safe) Lost() error {
	if err := s.lost.Load(); err != nil {
		return *err
	}
	return nil
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
	if s, ok := w.(*safe); ok {
		return s.file
	}
	f, _ := w.(*os.File)
	return f
}

// Table lays out rows of cells, the first row being the head. The first fixed columns are aligned to the left, the
// others to the right, with two spaces between columns. If the table is wider than width, the other columns are split
// into several tables below one another, and each repeats the fixed columns.
func Table(rows [][]string, fixed, width int) string {
	if len(rows) == 0 {
		return ""
	}
	widths := make([]int, len(rows[0]))
	for _, cells := range rows {
		for i, c := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	var b strings.Builder
	for from := fixed; ; {
		to := from
		used := 2 * fixed
		for _, w := range widths[:fixed] {
			used += w
		}
		for ; to < len(widths); to++ {
			if used += widths[to] + 2; used-2 > width && to > from {
				break
			}
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		for _, cells := range rows {
			line := ""
			for i, c := range cells {
				switch {
				case i < fixed:
					line += fmt.Sprintf("%-*s  ", widths[i], c)
				case i >= from && i < to:
					line += fmt.Sprintf("%*s  ", widths[i], c)
				}
			}
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
		if from = to; from >= len(widths) {
			return b.String()
		}
	}
}
