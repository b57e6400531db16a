// Package page makes one web page of finished runs: their claims, pictures with the numbers behind
// them, and the commands that repeat each run. The page loads nothing, and has no script and no
// font. It is for a browser, a small screen, paper and a screen reader.
package page

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/study"
	"github.com/fedsim/fedsim/lab/figures"
)

//go:embed page.html
var text string

// Content is the content of a page.
type Content struct {
	Title    string
	Parts    []Part
	Sections []Section // behind the parts
}

// Section is a part of a page about something other than runs.
type Section struct {
	ID, Title string
	Words     []string // paragraphs above the pictures
	Figures   []Drawn
	Tables    []Table
	NotShown  []string // limits of the section, in sentences
	Repeat    []string // commands
}

// Drawn is a picture with the numbers behind it.
type Drawn struct {
	figures.Figure
	Numbers Table
	Command string        // draws the picture again; "" without one
	Picture template.HTML // set by Write
}

// Table is a table whose first column holds the names of rows.
type Table struct {
	Caption string
	Head    []string
	Rows    [][]string
	Of      string // the part or figure that the table belongs to; set by Write
}

// Part is a part of a page about some runs.
type Part struct {
	ID     string   // in addresses within the page: letters, digits and dashes
	Title  string   // "" where the page has one part
	Dirs   []string // of the runs, as commands name them
	Runs   study.Runs
	Claims []Claim // claims of others about such runs, checked
}

// Claim is a sentence of a paper, and the verdict of the runs on it.
type Claim struct {
	Source, Text, Verdict, Evidence string
}

type view struct {
	Title   string
	Parts   []part
	Colours []colour

	Sections []Section
}

type part struct {
	Part
	Summary    []string
	Tables     []Table
	Figures    []Drawn
	Statements []statement
	Repeat     []string
	Reproduce  []string
}

type statement struct{ Run, Text, Words string }

type colour struct {
	Index int
	Hex   template.CSS
	Dash  template.CSS
}

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"level":  func(i int) int { return i % 3 },
	"colour": func(i int) int { return i % len(figures.Palette) },
}).Parse(text))

// Write makes the page.
func Write(w io.Writer, c Content) error {
	v := view{Title: c.Title}
	for i, hex := range figures.Palette {
		dash := make([]string, len(figures.Dashes[i]))
		for k, d := range figures.Dashes[i] {
			dash[k] = strconv.Itoa(d)
		}
		if len(dash) == 0 {
			dash = []string{"none"}
		}
		v.Colours = append(v.Colours, colour{i, template.CSS(hex), template.CSS(strings.Join(dash, " "))}) //nolint:gosec // constants
	}
	for _, p := range c.Parts {
		x, err := p.view()
		if err != nil {
			return err
		}
		v.Parts = append(v.Parts, x)
	}
	for _, s := range c.Sections {
		v.Sections = append(v.Sections, s.view())
	}
	return page.Execute(w, v)
}

func (p Part) view() (part, error) {
	x := part{Part: p, Summary: summary(p.Runs), Tables: tables(p), Statements: statements(p.Runs), Reproduce: reproduce(p.Runs)}
	drawn, err := figures.Figures(p.Runs)
	if err != nil {
		return x, err
	}
	dirs := strings.Join(screen.Quoted(p.Dirs), " ")
	for _, f := range drawn {
		command := fmt.Sprintf("fedsim plot %s --figure %s --out %s.svg", dirs, f.ID, f.ID)
		x.Figures = append(x.Figures, Drawn{Figure: f, Numbers: Numbers(&f), Command: command}.within(p.ID))
	}
	for _, r := range p.Runs { // in another folder: runs are not added to the study, where they would count twice
		x.Repeat = append(x.Repeat, strings.Join(screen.Quoted([]string{"fedsim", "run", "--from", r.Path, "--out", again(p.Dirs), "--name", r.Name}), " "))
	}
	return x, nil
}

// within returns the picture as it stands in a part or section of a page.
func (d Drawn) within(id string) Drawn {
	d.ID = id + "-" + d.ID
	d.Numbers.Of, d.Picture = d.ID, draw(&d.Figure)
	return d
}

func (s Section) view() Section {
	s.Figures, s.Tables = slices.Clone(s.Figures), slices.Clone(s.Tables)
	for i, d := range s.Figures {
		s.Figures[i] = d.within(s.ID)
	}
	for i := range s.Tables {
		s.Tables[i].Of = s.ID
	}
	return s
}

// again names a folder for repeated runs that lies in none of the given ones.
func again(dirs []string) string {
	for i := 1; ; i++ {
		name := "again"
		if i > 1 {
			name = fmt.Sprint("again-", i)
		}
		inside := slices.ContainsFunc(dirs, func(dir string) bool {
			a, err := filepath.Abs(dir)
			b, err2 := filepath.Abs(name)
			rel, err3 := filepath.Rel(a, b)
			return errors.Join(err, err2, err3) != nil || filepath.IsLocal(rel)
		})
		if !inside {
			return name
		}
		if i == 3 { // a study in the working directory contains all of them
			return filepath.Join("..", name)
		}
	}
}

// summary describes the results of the runs, in sentences.
func summary(runs study.Runs) []string {
	var out []string
	epsilons, rows, tests := runs.Table().Means([]*config.Key{algorithm.Seed.Key}).Standings()
	for i, e := range epsilons {
		out = append(out, leader(rows[i], e))
	}
	if tests != "" {
		out = append(out, "Differences here are significant by "+tests+".")
	}
	f := figures.QualityByEpsilon(runs)
	for _, s := range f.Series {
		if !s.Level {
			continue
		}
		var at []string
		even := true
		for _, e := range f.Places() {
			if y, ok := s.At(e); ok {
				at = append(at, fmt.Sprintf("%.4f at ε = %g", y, e))
			}
			even = even && len(s.X) == 2 && s.Y[0] == s.Y[1]
		}
		if even {
			at = []string{fmt.Sprintf("%.4f", s.Y[0])}
		}
		out = append(out, fmt.Sprintf("For comparison, %s: %s.", s.Name, strings.Join(at, ", ")))
	}
	return out
}

// leader says which row is the best at ε, and which others no test tells from it.
func leader(list []study.Standing, e float64) string {
	best := list[0]
	value := fmt.Sprintf("%.4f, of one seed", best.Mean)
	if best.N > 1 {
		value = fmt.Sprintf("%.4f ± %.4f over %d seeds", best.Mean, best.Deviation, best.N)
	}
	var open []string
	for _, x := range list[1:] {
		if x.Open {
			open = append(open, fmt.Sprintf("%s (%.4f)", x.Name, x.Mean))
		}
	}
	switch {
	case len(list) == 1:
		return fmt.Sprintf("At ε = %g, %s has %s.", e, best.Name, value)
	case len(open) > 0:
		return fmt.Sprintf("At ε = %g no best is established: %s has %s, which is not told from %s.", e, best.Name, value, strings.Join(open, ", "))
	default:
		return fmt.Sprintf("At ε = %g the best is %s: %s.", e, best.Name, value)
	}
}

// tables returns tables of means over seeds: the metrics that are looked at first, lists beside popularity, and users.
func tables(p Part) []Table {
	t := p.Runs.Table().Means([]*config.Key{algorithm.Seed.Key})
	list := []Table{means(p, t, t.Shown().Metrics, "Means over seeds; sd is the standard deviation of a single run")}
	if len(t.Notes) > 0 {
		list[0].Caption += ". " + strings.TrimSuffix(strings.Join(t.Notes, " "), ".")
	}
	has := func(m string) bool { return slices.Contains(t.Metrics, m) }
	var lists []string
	for _, m := range t.Metrics {
		if name, ok := strings.CutPrefix(m, "ranking.ndcg@"); ok {
			lists = append(lists, m, "popularity.exact.ndcg@"+name, "popularity.released.ndcg@"+name)
		}
	}
	if lists = slices.DeleteFunc(lists, func(m string) bool { return !has(m) }); len(lists) > 0 {
		list = append(list, means(p, t, lists, "Lists, beside lists by popularity: exact counts are not private, and released counts are the run's"))
	}
	users := "rmse"
	if !has("users.quantiles.rmse.p50") {
		users = "recall@20"
	}
	var spread []string
	for _, q := range []string{"p5", "p25", "p50", "p75", "p95"} {
		spread = append(spread, "users.quantiles."+users+"."+q)
	}
	for k := range 5 {
		spread = append(spread, fmt.Sprintf("users.by_activity.%d.means.%s", k, users))
	}
	if spread = slices.DeleteFunc(spread, func(m string) bool { return !has(m) }); len(spread) > 0 {
		list = append(list, means(p, t, spread, fmt.Sprintf("The %s of single users: quantiles, and means by how much users rated, from the least active fifth to the most active", users)))
	}
	return list
}

// means returns a table of some metrics.
func means(p Part, t *study.Table, metrics []string, caption string) Table {
	g := Table{Caption: caption, Of: p.ID}
	keys := slices.DeleteFunc(slices.Clone(t.Keys), func(k *config.Key) bool {
		same := !slices.ContainsFunc(t.Rows, func(r study.Row) bool { return r.Settings[k.Name] != t.Rows[0].Settings[k.Name] })
		if same {
			g.Caption += "; " + k.Name + " " + t.Rows[0].Settings[k.Name]
		}
		return same && k != algorithm.Name.Key
	})
	for _, k := range keys {
		g.Head = append(g.Head, k.Name)
	}
	g.Head = append(g.Head, metrics...)
	for _, r := range t.Rows {
		var cells []string
		for _, k := range keys {
			cells = append(cells, r.Settings[k.Name])
		}
		for _, m := range metrics {
			cells = append(cells, r.Shown(m))
		}
		g.Rows = append(g.Rows, cells)
	}
	return g
}

// Numbers returns the numbers behind a figure.
func Numbers(f *figures.Figure) Table {
	g := Table{Caption: f.Title + ": the numbers", Head: []string{f.X}}
	for _, s := range f.Series {
		g.Head = append(g.Head, s.Name)
	}
	for _, x := range f.Places() {
		name := number(x)
		if f.Ticks != nil {
			name = f.Ticks[int(x)]
		}
		row := []string{name}
		for _, s := range f.Series {
			i := slices.Index(s.X, x)
			level, there := s.At(x)
			switch {
			case s.Level && there:
				row = append(row, fmt.Sprintf("%.4f", level))
			case i < 0 || s.Level:
				row = append(row, "–")
			case s.High != nil && f.Ticks != nil && !f.Bars: // an interval, which need not be symmetrical
				row = append(row, fmt.Sprintf("%.4f (%.4f to %.4f)", s.Y[i], s.Low[i], s.High[i]))
			case s.High != nil:
				row = append(row, fmt.Sprintf("%.4f ± %.4f", s.Y[i], s.High[i]-s.Y[i]))
			default:
				row = append(row, fmt.Sprintf("%.4f", s.Y[i]))
			}
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// statements returns the claims of the runs, one for each budget.
func statements(runs study.Runs) (list []statement) {
	seen := make(map[string]bool)
	for _, r := range runs {
		e := algorithm.Epsilon.Value(r.Config)
		key := fmt.Sprint(r.Algorithm(), e, r.Summary.Privacy.Chosen.By)
		if seen[key] {
			continue
		}
		seen[key] = true
		list = append(list, statement{fmt.Sprintf("%s, ε = %s", r.Algorithm(), r.Setting(algorithm.Epsilon.Key)), r.Summary.Privacy.String(), r.Summary.Privacy.Words("")})
	}
	return list
}

// reproduce returns the reproducibility appendix of runs, in lines of plain text that a paper can print: program, data, splits, seeds and
// settings. Everything is from the runs' folders.
func reproduce(runs study.Runs) []string {
	var lines []string
	add := func(name string, of func(*study.Run) string) {
		lines = append(lines, name+": "+strings.Join(distinct(runs, of), "; "))
	}
	add("Program", func(r *study.Run) string {
		return fmt.Sprintf("fedsim %s, revision %s", cmp.Or(r.Manifest.Version, "unknown"), cmp.Or(r.Manifest.Revision, "unknown"))
	})
	add("Machine", func(r *study.Run) string { return cmp.Or(r.Manifest.Platform, "unknown") })
	add("Data", func(r *study.Run) string {
		return fmt.Sprintf("%s, digest %s", r.Manifest.Data, cmp.Or(r.Manifest.DataDigest, "unknown"))
	})
	add("Split of seed", func(r *study.Run) string {
		return fmt.Sprintf("%d, digest %s", r.Manifest.Seed, cmp.Or(r.Manifest.SplitDigest, "unknown"))
	})
	add("Algorithms", func(r *study.Run) string { return r.Algorithm() })
	add("Budgets", func(r *study.Run) string {
		p := r.Summary.Privacy
		text := fmt.Sprintf("ε = %s, δ = %v, unit %s, relation %s", r.Config.Text(algorithm.Epsilon.Key), p.Delta, p.Unit, p.Relation)
		if p.Chosen.By != "" {
			text += fmt.Sprintf(", settings chosen by the same data (%s): statement %s", p.Chosen, p)
		}
		return text
	})
	lines = append(lines, fmt.Sprintf("Runs: %d, each with all settings in config.yaml of its folder. One version repeats a run to the bit on one processor architecture.", len(runs)))
	return append(lines, "The digests identify exact ratings, and no ε covers them.")
}

// distinct lists the values of runs, each once, in the order of the runs.
func distinct(runs study.Runs, of func(*study.Run) string) (list []string) {
	for _, r := range runs {
		if v := of(r); !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}
