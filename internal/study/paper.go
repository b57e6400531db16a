package study

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/units"
)

// Paper is a table as papers print it: means over runs that differ only in some keys, mostly seeds,
// with the standard deviation of a single run. In each column of quality it marks the best row, and
// the rows that no test tells from the best.
type Paper struct {
	Title string // what all rows have in common, and what a number is; one line
	Head  []string
	Texts int // the first columns, which are settings; the rest are numbers
	Rows  [][]Cell
	Notes []string // what the marks mean, and what to doubt
}

// Cell is one entry of a table.
type Cell struct {
	Text      string
	Deviation string // "" for a number without one
	Best      bool   // the best number of its column, among rows of the same ε
	Close     bool   // not the best, and not told from it
}

// few is the number of seeds up to which a paper's table says that they are few.
const few = 3

// Paper returns the table of means, made by [Table.Means], for a paper. columns are the metrics in
// order.
func (t *Table) Paper(metrics []string) *Paper {
	same, differing := t.settings()
	p := &Paper{Texts: len(differing), Head: lists.Map(slices.Concat(differing, metrics), labelOf)}
	least, most := math.MaxInt, 0
	for _, r := range t.Rows {
		cells := lists.Map(differing, func(name string) Cell { return Cell{Text: r.Settings[name]} })
		for _, m := range metrics {
			c := Cell{Text: r.Shown(m)}
			if sd := m + " sd"; !math.IsNaN(r.value(sd)) && betterOf(m) != neither {
				c.Deviation = fmt.Sprintf("%.4f", r.value(sd))
			}
			cells = append(cells, c)
		}
		p.Rows = append(p.Rows, cells)
		least, most = min(least, len(r.runs)), max(most, len(r.runs))
	}
	fewest, tests := math.MaxInt, 0
	for i, m := range metrics {
		verdicts, n := t.verdicts(m)
		for k, v := range verdicts {
			p.Rows[k][p.Texts+i].Best, p.Rows[k][p.Texts+i].Close = v.best, v.open
		}
		if n > 0 {
			fewest, tests = min(fewest, n), max(tests, n)
		}
	}
	p.Title = strings.Join(same, " ")
	p.Notes = append(notes(least, most, fewest, tests), t.Notes...)
	return p
}

// notes says what numbers and marks mean, for groups of least to most runs.
func notes(least, most, fewest, tests int) []string {
	number := "Mean ± standard deviation over " + between(least, most) + " runs."
	if most == 1 {
		number = "One run each."
	}
	list := []string{number + " Bold: the best of its column among rows of equal ε and data."}
	if tests > 0 {
		list = append(list, "†: not told from the best by "+family(fewest, tests)+".")
	}
	if least <= few {
		list = append(list, fmt.Sprintf("Some rows rest on %d or fewer seeds, which tell only large differences apart; five or more are better (--seeds 1..5).", few))
	}
	return list
}

// between writes two numbers as a range, or the number if they are equal.
func between(least, most int) string {
	if least < most {
		return fmt.Sprintf("%d to %d", least, most)
	}
	return strconv.Itoa(most)
}

// settings returns the settings that all rows share, as NAME=VALUE, and the names of those in which
// rows differ.
func (t *Table) settings() (same, differing []string) {
	for _, k := range t.Keys {
		if slices.ContainsFunc(t.Rows, func(r Row) bool { return r.Settings[k.Name] != t.Rows[0].Settings[k.Name] }) {
			differing = append(differing, k.Name)
		} else {
			same = append(same, k.Name+"="+t.Rows[0].Settings[k.Name])
		}
	}
	return same, differing
}

// Print writes the table: as latex, a tabular of the package booktabs, or as markdown, which GitHub and Pandoc read.
func (p *Paper) Print(w io.Writer, format string) error { return forms.ExecuteTemplate(w, format, p) }

// Columns writes a sign for each column of texts, and another for each column of numbers.
func (p *Paper) Columns(text, number string) string {
	return strings.Repeat(text, p.Texts) + strings.Repeat(number, len(p.Head)-p.Texts)
}

// forLaTeX escapes what LaTeX reads as commands.
var forLaTeX = strings.NewReplacer(`\`, `\textbackslash{}`, "&", `\&`, "%", `\%`, "$", `\$`, "#", `\#`, "_", `\_`,
	"{", `\{`, "}", `\}`, "~", `\textasciitilde{}`, "^", `\textasciicircum{}`, "ε", `$\varepsilon$`, "δ", `$\delta$`)

//go:embed print.tmpl
var formText string

var forms = template.Must(template.New("study").Funcs(template.FuncMap{
	"count": units.Count,
	"f":     func(x float64) string { return fmt.Sprintf("%.4f", x) },
	"latex": forLaTeX.Replace,
	"pipes": strings.NewReplacer("|", `\|`).Replace,
}).Parse(formText))
