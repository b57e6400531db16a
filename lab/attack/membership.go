package attack

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/training"
	"github.com/fedsim/fedsim/lab/figures"
	"github.com/fedsim/fedsim/lab/internal/observe"
	"github.com/fedsim/fedsim/lab/page"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/sim"
)

// views name the attacker's sources: the model that is released in the end, or the sums of all rounds.
var views = [...]string{"model", "sums"}

// observation holds one number per target for each view of one run.
type observation [len(views)][]float64

// membership attacks by LiRA (Carlini et al., "Membership inference attacks from first principles",
// 2022). For each target it fits a normal law to the observations of the shadow runs with the target, and another
// to the shadow runs without it. It scores the target in held-out runs by the ratio of the two likelihoods.
func (a *attacker) membership(ctx context.Context, at *At) error {
	runs := 2 * a.cfg.Shadows
	in := a.coins(runs, 2)
	seen := make([]observation, runs)
	err := a.each(ctx, runs, func(r int) error {
		var err error
		seen[r], err = a.observe(ctx, r, in[r])
		return err
	})
	if err != nil {
		return err
	}
	for k, from := range views {
		values := lists.Map(seen, func(o observation) []float64 { return o[k] })
		at.Membership = append(at.Membership, a.measure(from, values, in))
	}
	return nil
}

// observe makes one run with the targets that are in it.
func (a *attacker) observe(ctx context.Context, r int, in []bool) (observation, error) {
	run, f, err := a.open(r, a.without(func(t int) bool { return a.cfg.Control || !in[t] }))
	if err != nil {
		return observation{}, err
	}
	l, err := a.newListener(algorithm.Seed.Of(run.Config))
	if err != nil {
		return observation{}, err
	}
	f.Strategy = observe.Strategy{Strategy: f.Strategy, Told: l.listen}
	out, err := a.simulate(ctx, run, f, l.arrived.Hear)
	if err != nil {
		return observation{}, err
	}
	losses, err := a.losses(out.Model)
	return observation{losses, l.scores}, err
}

// simulate runs a federation on one goroutine: many run at once.
func (a *attacker) simulate(ctx context.Context, run *experiment.Experiment, f *experiment.Federation, hear func(time.Duration, protocol.Envelope)) (*sim.Outcome, error) {
	cfg := training.Simulation(run, f, nil)
	cfg.Workers, cfg.Sent, cfg.Tables = protocol.Workers(1), hear, a.tables
	return sim.Run(ctx, cfg)
}

// losses returns how badly a released model predicts the ratings of each target, from below 0 at best. If users
// are attacked, the attacker fits the user to the model by its ratings and predicts these. If ratings are
// attacked, it leaves the attacked rating out of the fit and predicts it alone.
func (a *attacker) losses(shared []byte) ([]float64, error) {
	e := a.full
	if a.cfg.Kind == MembershipRating {
		e = a.bare
	}
	m, err := observe.Fitted(e, shared, protocol.Workers(1))
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(a.targets))
	for i, t := range a.targets {
		r := observe.Only(a.full.Row(t.user), t.item)
		out[i] = -observe.MSE(m.Predictor, t.user, r)
	}
	return out, nil
}

// measure learns on the first half of the runs and measures on the second.
func (a *attacker) measure(from string, values [][]float64, in [][]bool) MembershipResult {
	shadows := a.cfg.Shadows
	var all, active, others scored
	for t := range a.targets {
		law := fitLaws(values[:shadows], in[:shadows], t)
		for r := shadows; r < len(values); r++ {
			s := score{run: r - shadows, in: in[r][t], value: law.ratio(values[r][t])}
			all = append(all, s)
			if a.targets[t].active {
				active = append(active, s)
			} else {
				others = append(others, s)
			}
		}
	}
	m := MembershipResult{From: from, Trials: len(all)}
	m.AUC, m.Active, m.Random = all.area(a.seed, shadows), active.area(a.seed, shadows), others.area(a.seed, shadows)
	m.FPR, m.TPR = all.at(falseAlarms)
	m.ROC = all.roc()
	return m
}

// laws holds the normal laws of the observations of one target, without and with it. They share one variance.
type laws struct{ without, with, variance float64 }

// fitLaws fits them to shadow runs.
func fitLaws(values [][]float64, in [][]bool, target int) laws {
	var sum, squares, n [2]float64 // without the target, and with it
	for r, v := range values {
		w := 0
		if in[r][target] {
			w = 1
		}
		n[w]++
		sum[w] += v[target]
		squares[w] += v[target] * v[target]
	}
	mean := [2]float64{sum[0] / n[0], sum[1] / n[1]}
	rest := max(0, squares[0]-n[0]*mean[0]*mean[0]) + max(0, squares[1]-n[1]*mean[1]*mean[1])
	return laws{without: mean[0], with: mean[1], variance: rest / (n[0] + n[1] - 2)}
}

// ratio is the logarithm of how much likelier x is with the target.
func (l laws) ratio(x float64) float64 {
	d := l.with - l.without
	if d == 0 {
		return 0
	}
	const least = 1e-12 // of d²: where runs are alike, a variance that is none
	return d * (x - (l.with+l.without)/2) / math.Max(l.variance, least*d*d)
}

// membershipFigures draws the AUC over budgets, and the curve of each report.
func membershipFigures(list []*Report, budgets []Epsilon) []page.Drawn {
	return append([]page.Drawn{areaFigure(list[0].Kind, list, budgets)}, figureOfEach(rocFigure)(list, budgets)...)
}

// anyAttack is the line above which no attack can be.
const anyAttack = "limit of any attack"

// areaFigure is the AUC over budgets.
func areaFigure(kind Kind, list []*Report, budgets []Epsilon) page.Drawn {
	d := byBudget(string(kind), fmt.Sprintf("Was a %s in the run?", kind.target()), "AUC of the attack", "Bands are intervals of 95%. "+notShown[0], budgets)
	for _, r := range list {
		for _, from := range []string{"sums", "model"} {
			line(&d, r.name()+", by the "+from, budgets, r, func(at *At) *Interval { return at.seen(from) })
		}
	}
	line(&d, anyAttack, budgets, list[0], func(at *At) *Interval {
		switch {
		case math.IsInf(float64(at.Epsilon), 1):
			return &Interval{1, 1, 1}
		case at.Limit == nil:
			return nil
		}
		return &Interval{at.Limit.AUC, at.Limit.AUC, at.Limit.AUC}
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
func rocFigure(r *Report, _ []Epsilon, i int) page.Drawn {
	d := page.Drawn{Figure: figures.Figure{ID: fmt.Sprintf("%s-roc-%d", r.Kind, i), Title: fmt.Sprintf("Was a %s in the run of %s? Found against falsely found, by the sums", r.Kind.target(), r.name()),
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
			s := figures.Series{Name: "ε = " + at.Epsilon.sign(), Colour: len(d.Series)}
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
	d.Series = append(d.Series, figures.Series{Name: "guessing", X: []float64{least, 1}, Y: []float64{least, 1}, Level: true})
	tightest := slices.MinFunc(r.Budgets, func(a, b At) int { return cmp.Compare(a.Epsilon, b.Epsilon) })
	if tightest.Limit != nil {
		s := figures.Series{Name: "limit of any attack at ε = " + tightest.Epsilon.String(), Level: true}
		for x := least; x < 1; x *= 1.1 {
			s.X, s.Y = append(s.X, x), append(s.Y, tightest.Limit.allows(x))
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
