package attack

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/study"
	"github.com/fedsim/fedsim/lab/page"
)

// notShown lists the limits of attacks that the page states beside every picture.
var notShown = []string{
	"An attack that fails proves nothing. Another attacker, with more runs or a better idea, may succeed; only ε bounds all of them, and these here are a few that are known.",
	"Attacks find a lower bound on what leaks, ε is an upper bound, and the truth lies between. Where ε = 20 allows everything and an attack finds nothing, neither says which of the two is near.",
	"The targets are the most active users and some drawn at random. A user whose tastes no other shares may be told more easily than all of them.",
	"The attacker of membership knows all ratings, whom it is after included, and the settings, and has many runs to learn from: real ones know less. It does not choose ratings to be found, as the worst case of ε may.",
	"The simulator knows the truth, who was in a run and what every user rated, and measures with it. One process sees all data: nothing here protects any user.",
	"A model that helps to guess a favourite genre does so of people who were never in it as well. Only what it helps more where they were is a leak, and ε bounds only that.",
	"Intervals are of 95% over the runs or targets of this measurement: they say nothing of other data, other settings or another attacker.",
	"Without noise other defaults hold, longer embeddings say: lines to ε = ∞ join runs that differ in more than the noise.",
}

// Section returns the section of a page on attacks. The list holds at least one report.
func Section(list []*Report) page.Section {
	s := page.Section{ID: "attacks", Title: "Results of attacks in practice", NotShown: notShown, Words: []string{
		"These attacks were made on simulated runs, each figure in that run or in runs like it. An AUC of 0.5 is guessing: it is the chance that a target that was in a run looks more like it than a target that was not. " +
			"The limit is the most that ε allows any attack.",
	}}
	for _, kind := range Kinds() {
		var of []*Report
		for _, r := range list {
			if r.Kind == kind {
				of = append(of, r)
			}
		}
		if len(of) > 0 {
			m, _ := kind.method()
			s.Figures = append(s.Figures, m.figures(of, ladder(of))...)
		}
	}
	for _, r := range list {
		head, rows := r.table()
		s.Tables = append(s.Tables, page.Table{Caption: r.tried() + "; with intervals of 95%", Head: head, Rows: rows})
		s.Repeat = append(s.Repeat, r.command())
	}
	return s
}

// command repeats the attack.
func (r *Report) command() string {
	var budgets []string
	for _, at := range r.Budgets {
		budgets = append(budgets, at.Epsilon.String())
	}
	c := fmt.Sprintf("fedsim attack %s --epsilon %s --shadows %d --targets %d", r.Kind, strings.Join(budgets, ","), r.Shadows, r.Targets)
	if r.Control {
		c += " --control"
	}
	for _, s := range r.Settings {
		c += " --set " + screen.Quoted([]string{s})[0]
	}
	return c
}

// name is an algorithm with what was asked for besides, and whether it is the control.
func (r *Report) name() string {
	name := r.Algorithm
	for _, s := range r.Settings {
		key, _, _ := strings.Cut(s, "=")
		if !slices.Contains([]string{algorithm.Name.Name, algorithm.Data.Name, algorithm.Seed.Name}, key) {
			name += ", " + strings.Replace(s, "=", " ", 1)
		}
	}
	if r.Control {
		name += " (control)"
	}
	return name
}

// ladder are the budgets of some attacks, ascending.
func ladder(list []*Report) (budgets []Epsilon) {
	for _, r := range list {
		for _, at := range r.Budgets {
			budgets = append(budgets, at.Epsilon)
		}
	}
	slices.Sort(budgets)
	return slices.Compact(budgets)
}

// byBudget begins a figure over budgets, which are places of their own: there is no room for ∞ on a line of numbers.
func byBudget(id, title, y, note string, budgets []Epsilon) page.Drawn {
	d := page.Drawn{Figure: study.Figure{ID: id, Title: title, X: "ε of the whole run (smaller is more private)", Y: y, Note: note}}
	for _, e := range budgets {
		d.Ticks = append(d.Ticks, e.sign())
	}
	return d
}

// sign is a budget in a picture.
func (e Epsilon) sign() string {
	if math.IsInf(float64(e), 1) {
		return "∞"
	}
	return e.String()
}

// line adds a series of what is measured at each budget; where there is nothing it has no point.
func line(d *page.Drawn, name string, budgets []Epsilon, r *Report, of func(*At) (Interval, bool)) {
	s := study.Series{Name: name, Colour: len(d.Series), Runs: 1}
	for k, e := range budgets {
		for i := range r.Budgets {
			if at := &r.Budgets[i]; at.Epsilon == e {
				if v, is := of(at); is {
					s.X, s.Y, s.Low, s.High = append(s.X, float64(k)), append(s.Y, v.Value), append(s.Low, v.Low), append(s.High, v.High)
				}
			}
		}
	}
	if len(s.X) > 0 {
		d.Series = append(d.Series, s)
	}
}

// level adds a horizontal line to compare with.
func level(d *page.Drawn, name string, y float64) {
	d.Series = append(d.Series, study.Series{Name: name, X: []float64{0, float64(len(d.Ticks) - 1)}, Y: []float64{y, y}, Level: true})
}

// numbered puts the numbers behind a figure.
func numbered(d page.Drawn) page.Drawn {
	d.Numbers = page.Numbers(&d.Figure)
	return d
}
