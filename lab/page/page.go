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
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/lists"
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
	Command string // draws the picture again; "" without one
}

// Table is a table whose first column holds the names of rows.
type Table struct {
	Caption string
	Head    []string
	Rows    [][]string
	Of      string // the part or figure that the table belongs to; set by the page
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

type statement struct{ Run, Text, Words string }

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"level":   func(i int) int { return i % 3 },
	"colour":  func(i int) int { return i % len(figures.Palette) },
	"palette": func() []string { return figures.Palette },
	"dash":    func(i int) string { return cmp.Or(strings.Trim(fmt.Sprint(figures.Dashes[i]), "[]"), "none") },
	"summary": summaryOf, "tables": tables, "statements": statements, "repeat": repeat, "reproduce": reproduce,
	"picture": draw,
	"of": func(id string, t Table) Table {
		t.Of = id
		return t
	},
	"within": func(id string, d Drawn) Drawn {
		d.ID = id + "-" + d.ID
		d.Numbers.Of = d.ID
		return d
	},
}).Parse(text))

// Write makes the page.
func Write(w io.Writer, c Content) error {
	drawn := make(map[string][]Drawn) // by the ids of parts
	for _, p := range c.Parts {
		list, err := figures.Figures(p.Runs)
		if err != nil {
			return err
		}
		dirs := strings.Join(screen.Quoted(p.Dirs), " ")
		drawn[p.ID] = lists.Map(list, func(f figures.Figure) Drawn {
			return Drawn{Figure: f, Numbers: Numbers(&f), Command: fmt.Sprintf("fedsim plot %s --figure %s --out %s.svg", dirs, f.ID, f.ID)}
		})
	}
	return page.Execute(w, struct {
		Content
		Figures map[string][]Drawn
	}{c, drawn})
}

// repeat lists the commands that repeat the runs of a part in another folder: runs are not added to the study, where they would
// count twice.
func repeat(p Part) []string {
	to := again(p.Dirs)
	return lists.Map(p.Runs, func(r *study.Run) string {
		return strings.Join(screen.Quoted([]string{"fedsim", "run", "--from", r.Path, "--out", to, "--name", r.Name}), " ")
	})
}

// again names a folder for repeated runs that lies in none of the given ones.
func again(dirs []string) string {
	for _, name := range []string{"again", "again-2", "again-3"} {
		inside := slices.ContainsFunc(dirs, func(dir string) bool {
			a, err := filepath.Abs(dir)
			b, err2 := filepath.Abs(name)
			rel, err3 := filepath.Rel(a, b)
			return errors.Join(err, err2, err3) != nil || filepath.IsLocal(rel)
		})
		if !inside {
			return name
		}
	}
	return filepath.Join("..", "again-3") // a study in the working directory contains all of them
}

// summary describes the results of runs.
type summary struct {
	Standings []study.Standings
	Tests     string // what tells rows apart
	Levels    []string
}

func summaryOf(runs study.Runs) (out summary) {
	out.Standings, out.Tests = runs.Table().Means([]*config.Key{algorithm.Seed.Key}).Standings()
	f := figures.MetricByEpsilon(runs, runs[0].Primary())
	for _, s := range f.Series {
		if !s.Level {
			continue
		}
		var at []string
		for _, e := range f.Places() {
			if y, ok := s.At(e); ok {
				at = append(at, fmt.Sprintf("%.4f at ε = %g", y, e))
			}
		}
		if len(s.X) == 2 && s.Y[0] == s.Y[1] {
			at = []string{fmt.Sprintf("%.4f", s.Y[0])}
		}
		out.Levels = append(out.Levels, s.Name+": "+strings.Join(at, ", "))
	}
	return out
}

// tables returns tables of means over seeds: the metrics that are looked at first, lists beside popularity, and users.
func tables(runs study.Runs) []Table {
	t := runs.Table().Means([]*config.Key{algorithm.Seed.Key})
	list := []Table{means(t, t.Shown().Metrics, "Means over seeds; sd is the standard deviation of a single run")}
	if len(t.Notes) > 0 {
		list[0].Caption += ". " + strings.TrimSuffix(strings.Join(t.Notes, " "), ".")
	}
	var popular []string
	for _, m := range t.Metrics {
		if name, ok := strings.CutPrefix(m, "ranking."); ok && strings.HasPrefix(name, "ndcg@") {
			popular = append(popular, m, "popularity.exact."+name, "popularity.released."+name)
		}
	}
	users := "rmse"
	if !slices.Contains(t.Metrics, "users.quantiles.rmse.p50") {
		users = "recall@20"
	}
	var spread []string
	for _, q := range []string{"p5", "p25", "p50", "p75", "p95"} {
		spread = append(spread, "users.quantiles."+users+"."+q)
	}
	for k := range 5 {
		spread = append(spread, fmt.Sprintf("users.by_activity.%d.means.%s", k, users))
	}
	for _, more := range []struct {
		caption string
		metrics []string
	}{
		{"Lists, beside lists by popularity: exact counts are not private, and released counts are the run's", popular},
		{fmt.Sprintf("The %s of single users: quantiles, and means by how much users rated, from the least active fifth to the most active", users), spread},
	} {
		there := slices.DeleteFunc(more.metrics, func(m string) bool { return !slices.Contains(t.Metrics, m) })
		if len(there) > 0 {
			list = append(list, means(t, there, more.caption))
		}
	}
	return list
}

// means returns a table of some metrics.
func means(t *study.Table, metrics []string, caption string) Table {
	g := Table{Caption: caption}
	keys := slices.DeleteFunc(slices.Clone(t.Keys), func(k *config.Key) bool {
		same := !slices.ContainsFunc(t.Rows, func(r study.Row) bool { return r.Settings[k.Name] != t.Rows[0].Settings[k.Name] })
		if same {
			g.Caption += "; " + k.Name + " " + t.Rows[0].Settings[k.Name]
		}
		return same && k != algorithm.Name.Key
	})
	g.Head = append(lists.Map(keys, func(k *config.Key) string { return k.Name }), metrics...)
	for _, r := range t.Rows {
		cells := lists.Map(keys, func(k *config.Key) string { return r.Settings[k.Name] })
		g.Rows = append(g.Rows, append(cells, lists.Map(metrics, r.Shown)...))
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
			cell := "–"
			switch {
			case s.Level && there:
				cell = fmt.Sprintf("%.4f", level)
			case i < 0 || s.Level:
			case s.High != nil && f.Ticks != nil && !f.Bars: // an interval, which need not be symmetrical
				cell = fmt.Sprintf("%.4f (%.4f to %.4f)", s.Y[i], s.Low[i], s.High[i])
			case s.High != nil:
				cell = fmt.Sprintf("%.4f ± %.4f", s.Y[i], s.High[i]-s.Y[i])
			default:
				cell = fmt.Sprintf("%.4f", s.Y[i])
			}
			row = append(row, cell)
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
	return append(lines,
		fmt.Sprintf("Runs: %d, each with all settings in config.yaml of its folder. One version repeats a run to the bit on one processor architecture.", len(runs)),
		"The digests identify exact ratings, and no ε covers them.")
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
