package attack

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/study"
	"github.com/fedsim/fedsim/internal/study/page"
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
	for _, kind := range Kinds {
		var of []*Report
		for _, r := range list {
			if r.Kind == kind {
				of = append(of, r)
			}
		}
		if len(of) > 0 {
			s.Figures = append(s.Figures, figures(kind, of)...)
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

// figures are the pictures of an attack on some algorithms.
func figures(kind Kind, list []*Report) []page.Drawn {
	budgets := ladder(list)
	var all []page.Drawn
	switch kind {
	case AttributeGenre:
		all = append(all, attributeFigure(list, budgets))
	case Reconstruction:
		for i, r := range list {
			all = append(all, rebuiltFigure(r, budgets, i))
		}
	case MembershipUser, MembershipRating:
		all = append(all, areaFigure(kind, list, budgets))
		for i, r := range list {
			all = append(all, rocFigure(r, i))
		}
	}
	return all
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

// anyAttack is the line above which no attack can be.
const anyAttack = "limit of any attack"

// areaFigure is the AUC over budgets.
func areaFigure(kind Kind, list []*Report, budgets []Epsilon) page.Drawn {
	what := "a user"
	if kind == MembershipRating {
		what = "a rating"
	}
	d := byBudget(string(kind), fmt.Sprintf("Was %s in the run?", what), "AUC of the attack", "Bands are intervals of 95%. "+notShown[0], budgets)
	for _, r := range list {
		for _, from := range []string{"sums", "model"} {
			line(&d, r.name()+", by the "+from, budgets, r, func(at *At) (Interval, bool) {
				for _, m := range at.Membership {
					if m.From == from {
						return m.AUC, true
					}
				}
				return Interval{}, false
			})
		}
	}
	line(&d, anyAttack, budgets, list[0], func(at *At) (Interval, bool) {
		switch {
		case math.IsInf(float64(at.Epsilon), 1):
			return Interval{1, 1, 1}, true
		case at.Limit == nil:
			return Interval{}, false
		}
		return Interval{at.Limit.AUC, at.Limit.AUC, at.Limit.AUC}, true
	})
	if last := &d.Series[len(d.Series)-1]; last.Name == anyAttack {
		last.Level, last.Low, last.High = true, nil, nil // nothing that was measured
	}
	level(&d, "guessing", 0.5)
	return numbered(d)
}

// shownRates lists the rates of false alarms at which the page gives a curve as numbers.
var shownRates = []float64{0.001, 0.01, 0.1}

// rocFigure draws the curve by the sums on logarithmic axes, since targets found with few false alarms matter most.
func rocFigure(r *Report, i int) page.Drawn {
	what := "user"
	if r.Kind == MembershipRating {
		what = "rating"
	}
	d := page.Drawn{Figure: study.Figure{ID: fmt.Sprintf("%s-roc-%d", r.Kind, i), Title: fmt.Sprintf("Was a %s in the run of %s? Found against falsely found, by the sums", what, r.name()),
		X: "share of targets not in it that are called in", Y: "share of targets in it that are called in, both logarithmic", Log: true, LogY: true,
		Note: fmt.Sprintf("Curves are of all targets together, from the runs that the attacker did not learn from; their left ends rest on few, and may cross the limit there by chance. %s", notShown[1])}}
	d.Numbers = page.Table{Caption: d.Title + ": the numbers", Head: []string{"falsely found, at most"}}
	columns := make([]Curve, 0, len(r.Budgets))
	least := 1.
	for _, at := range r.Budgets {
		for _, m := range at.Membership {
			if m.From != "sums" {
				continue
			}
			s := study.Series{Name: "ε = " + at.Epsilon.sign(), Colour: len(d.Series)}
			for _, x := range m.ROC {
				if x.False > 0 && x.True > 0 {
					s.X, s.Y = append(s.X, x.False), append(s.Y, x.True)
					least = min(least, x.False)
				}
			}
			d.Series = append(d.Series, s)
			d.Numbers.Head = append(d.Numbers.Head, s.Name)
			columns = append(columns, m.ROC)
		}
	}
	d.Series = append(d.Series, study.Series{Name: "guessing", X: []float64{least, 1}, Y: []float64{least, 1}, Level: true})
	if limit, at := tightest(r); limit != nil {
		s := study.Series{Name: "limit of any attack at ε = " + at.String(), Level: true}
		for x := least; x < 1; x *= 1.1 {
			s.X, s.Y = append(s.X, x), append(s.Y, limit.allows(x))
		}
		s.X, s.Y = append(s.X, 1), append(s.Y, 1)
		d.Series = append(d.Series, s)
	}
	for _, rate := range shownRates {
		row := []string{fmt.Sprintf("%g%%", 100*rate)}
		for _, c := range columns {
			row = append(row, fmt.Sprintf("%.4f", c.at(rate)))
		}
		d.Numbers.Rows = append(d.Numbers.Rows, row)
	}
	return d
}

// tightest is the limit of the smallest budget; nil where there is none.
func tightest(r *Report) (*Limit, Epsilon) {
	at := slices.MinFunc(r.Budgets, func(a, b At) int { return cmp.Compare(a.Epsilon, b.Epsilon) })
	return at.Limit, at.Epsilon
}

// attributeFigure draws the shares of favourites that are guessed right.
func attributeFigure(list []*Report, budgets []Epsilon) page.Drawn {
	d := byBudget(string(AttributeGenre), "Which genre does a user like best?", "share of the guesses that are right",
		"The attacker knows half of the user's ratings and has the released model. Intervals of 95% over targets, which are wider than what lines differ by, stand with the numbers. "+notShown[5], budgets)
	for _, r := range list {
		line(&d, r.name()+", user in the run", budgets, r, func(at *At) (Interval, bool) { return at.Attribute.In, true })
		line(&d, r.name()+", user not in it", budgets, r, func(at *At) (Interval, bool) { return at.Attribute.Out, true })
	}
	x := list[0].Budgets[0].Attribute
	level(&d, "the known ratings alone", x.Ratings.Value)
	level(&d, "popularity alone", x.Popularity.Value)
	level(&d, "the genre that most like best", x.Majority.Value)
	d = numbered(d)
	for i := range d.Series { // bands that lie on each other hide what they are about
		d.Series[i].Low, d.Series[i].High = nil, nil
	}
	return d
}

// rebuiltFigure draws the share of a client's rated items that is found.
func rebuiltFigure(r *Report, budgets []Epsilon, i int) page.Drawn {
	d := byBudget(fmt.Sprintf("%s-%d", Reconstruction, i), fmt.Sprintf("What did a client of %s rate?", r.name()), "share of the rated items among as many that the attacker names",
		"Without the secure sum a server sees updates; with it, it sees sums. A client's share of the noise is made to suffice in the sum of all, and does not by itself. Bands are intervals of 95% over targets.", budgets)
	for _, from := range []string{fromUpdates, fromNoised, fromOthers, fromSum} {
		line(&d, from, budgets, r, func(at *At) (Interval, bool) {
			for _, x := range at.Reconstruction {
				if x.From == from {
					return x.Precision, true
				}
			}
			return Interval{}, false
		})
	}
	for _, x := range r.Budgets[0].Reconstruction {
		if x.From == fromPopularity {
			level(&d, fromPopularity, x.Precision.Value)
		}
	}
	return numbered(d)
}
