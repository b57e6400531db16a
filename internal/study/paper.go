package study

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
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
	Close     bool   // not the best, but not distinguished from it
}

// few is the number of seeds up to which a paper's table says that they are few.
const few = 3

// Paper returns the table of means, made by [Table.Means], for a paper. columns are the metrics in
// order.
func (t *Table) Paper(metrics []string) *Paper {
	same, differing := t.settings()
	p := &Paper{Texts: len(differing)}
	for _, name := range differing {
		p.Head = append(p.Head, labelOf(name))
	}
	for _, m := range metrics {
		p.Head = append(p.Head, labelOf(m))
	}
	least, most := math.MaxInt, 0
	for _, r := range t.Rows {
		var cells []Cell
		for _, name := range differing {
			cells = append(cells, Cell{Text: r.Settings[name]})
		}
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
	var tests []test
	for i, m := range metrics {
		tests = append(tests, t.mark(p, p.Texts+i, m)...)
	}
	values := make([]float64, len(tests))
	for i, x := range tests {
		values[i] = x.p
	}
	for i, adjusted := range holm(values) {
		tests[i].cell.Close = adjusted >= 0.05
	}
	p.Title = strings.Join(same, " ")
	p.Notes = notes(least, most, len(tests))
	return p
}

// notes says what numbers and marks mean, for groups of least to most runs.
func notes(least, most, tested int) []string {
	number := fmt.Sprintf("Mean ± standard deviation over %d runs.", most)
	switch {
	case most == 1:
		number = "One run each."
	case least < most:
		number = fmt.Sprintf("Mean ± standard deviation over %d to %d runs.", least, most)
	}
	list := []string{number + " Bold: the best of its column among rows of equal ε."}
	if tested > 0 {
		list = append(list, fmt.Sprintf("†: not told from the best by Student's paired test over seeds at 5%%, with Holm's correction for the table's %d tests.", tested))
	}
	if least <= few {
		list = append(list, fmt.Sprintf("Some rows rest on %d or fewer seeds, which tell only large differences apart; five or more are better (--seeds 1..5).", few))
	}
	return list
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

// test compares a cell with the best of its column.
type test struct {
	cell *Cell
	p    float64
}

// mark marks the best cells of a column, among rows of equal ε, and returns Student's paired tests
// of the others against them. A row without two seeds in common with the best is not tested, and a
// row alone at its ε is not the best of anything.
func (t *Table) mark(p *Paper, column int, metric string) (tests []test) {
	better := betterOf(metric)
	if better == neither {
		return nil
	}
	byEpsilon := make(map[string][]int)
	for i, r := range t.Rows {
		if e := r.Settings[algorithm.Epsilon.Name]; !math.IsNaN(r.value(metric)) {
			byEpsilon[e] = append(byEpsilon[e], i)
		}
	}
	for _, e := range slices.Sorted(maps.Keys(byEpsilon)) {
		rows := byEpsilon[e]
		best := slices.MinFunc(rows, func(a, b int) int {
			c := cmp.Compare(t.Rows[a].value(metric), t.Rows[b].value(metric))
			if better == higher {
				return -c
			}
			return c
		})
		for _, i := range rows {
			cell := &p.Rows[i][column]
			if i == best {
				cell.Best = len(rows) > 1
			} else if s := differences(t.Rows[i].runs, t.Rows[best].runs, metric); s.N > 1 {
				tests = append(tests, test{cell, s.P()})
			}
		}
	}
	return tests
}

// differences describes the differences of a metric between runs of the same seed.
func differences(a, b Runs, metric string) Sample {
	bySeed := make(map[string]float64)
	for _, r := range b {
		if v, ok := r.Values[metric]; ok {
			bySeed[r.Setting(algorithm.Seed.Key)] = v
		}
	}
	var x []float64
	for _, r := range a {
		v, ok := r.Values[metric]
		if w, paired := bySeed[r.Setting(algorithm.Seed.Key)]; ok && paired {
			x = append(x, v-w)
		}
	}
	return describe(x)
}

// holm adjusts p-values for their number, so that the probability of any false rejection stays
// below the level (Holm 1979). The k-th smallest of m, counted from 0, is multiplied by m-k. It
// becomes at least as large as the smaller ones, and at most 1.
func holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	adjusted, before := make([]float64, len(p)), 0.
	for k, i := range order {
		before = max(before, min(1, p[i]*float64(len(p)-k)))
		adjusted[i] = before
	}
	return adjusted
}

// LaTeX writes a tabular of the package booktabs.
func (p *Paper) LaTeX(w io.Writer) error {
	var b strings.Builder
	b.WriteString("% needs \\usepackage{booktabs}\n")
	if p.Title != "" {
		b.WriteString("% " + p.Title + "\n")
	}
	for _, n := range p.Notes {
		b.WriteString("% " + n + "\n")
	}
	fmt.Fprintf(&b, "\\begin{tabular}{%s%s}\n\\toprule\n", strings.Repeat("l", p.Texts), strings.Repeat("r", len(p.Head)-p.Texts))
	var head []string
	for _, h := range p.Head {
		head = append(head, escape(h))
	}
	b.WriteString(strings.Join(head, " & ") + " \\\\\n\\midrule\n")
	for _, r := range p.Rows {
		var cells []string
		for _, c := range r {
			text := escape(c.Text)
			if c.Best {
				text = "\\textbf{" + text + "}"
			}
			if c.Deviation != "" {
				text += " $\\pm$ " + c.Deviation
			}
			if c.Close {
				text += "$^\\dagger$"
			}
			cells = append(cells, text)
		}
		b.WriteString(strings.Join(cells, " & ") + " \\\\\n")
	}
	b.WriteString("\\bottomrule\n\\end{tabular}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// latex escapes what LaTeX reads as commands.
var latex = strings.NewReplacer(`\`, `\textbackslash{}`, "&", `\&`, "%", `\%`, "$", `\$`, "#", `\#`, "_", `\_`,
	"{", `\{`, "}", `\}`, "~", `\textasciitilde{}`, "^", `\textasciicircum{}`, "ε", `$\varepsilon$`, "δ", `$\delta$`)

func escape(text string) string { return latex.Replace(text) }

// Markdown writes a table as GitHub and Pandoc read it.
func (p *Paper) Markdown(w io.Writer) error {
	var b strings.Builder
	if p.Title != "" {
		b.WriteString(p.Title + "\n\n")
	}
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(p.Head)
	rule := make([]string, len(p.Head))
	for i := range rule {
		rule[i] = "---"
		if i >= p.Texts {
			rule[i] = "---:"
		}
	}
	line(rule)
	for _, r := range p.Rows {
		var cells []string
		for _, c := range r {
			text := strings.ReplaceAll(c.Text, "|", `\|`)
			if c.Best {
				text = "**" + text + "**"
			}
			if c.Deviation != "" {
				text += " ± " + c.Deviation
			}
			if c.Close {
				text += " †"
			}
			cells = append(cells, text)
		}
		line(cells)
	}
	for _, n := range p.Notes {
		b.WriteString("\n" + n + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
