package screen

import (
	"strings"
	"unicode/utf8"
)

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
		for used := total(widths[:fixed]); to < len(widths); to++ {
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
				pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
				switch {
				case i < fixed:
					line += c + pad + "  "
				case i >= from && i < to:
					line += pad + c + "  "
				}
			}
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
		if from = to; from >= len(widths) {
			return b.String()
		}
	}
}

// total returns the width of columns with two spaces after each.
func total(widths []int) int {
	n := 0
	for _, w := range widths {
		n += w + 2
	}
	return n
}
