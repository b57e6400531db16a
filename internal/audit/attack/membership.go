package attack

import (
	"context"
	"math"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/training"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/sim"
)

// observation holds one number per target for each view of one run.
type observation struct{ model, sums []float64 }

// membership attacks by LiRA (Carlini et al., "Membership inference attacks from first principles",
// 2022). For each target it fits a normal law to the observations of the shadow runs with the target, and another
// to the shadow runs without it. It scores the target in held-out runs by the ratio of the two likelihoods.
func (a *attacker) membership(ctx context.Context) ([]Membership, error) {
	runs := 2 * a.cfg.Shadows
	in := a.coins(runs, 2)
	seen := make([]observation, runs)
	err := a.each(ctx, runs, func(r int) error {
		var err error
		seen[r], err = a.observe(ctx, r, in[r])
		return err
	})
	if err != nil {
		return nil, err
	}
	var list []Membership
	for _, view := range []struct {
		from string
		of   func(observation) []float64
	}{
		{"model", func(o observation) []float64 { return o.model }},
		{"sums", func(o observation) []float64 { return o.sums }},
	} {
		values := make([][]float64, runs)
		for r, o := range seen {
			values[r] = view.of(o)
		}
		list = append(list, a.measure(view.from, values, in))
	}
	return list, nil
}

// observe makes one run with the targets that are in it.
func (a *attacker) observe(ctx context.Context, r int, in []bool) (observation, error) {
	run, err := a.open(r, a.without(func(t int) bool { return a.cfg.Control || !in[t] }))
	if err != nil {
		return observation{}, err
	}
	f, err := run.Federation()
	if err != nil {
		return observation{}, err
	}
	l, err := a.newListener(f.Strategy, algorithm.Seed.Of(run.Config))
	if err != nil {
		return observation{}, err
	}
	f.Strategy = l
	out, err := a.simulate(ctx, run, f, l.arrived.Hear)
	if err != nil {
		return observation{}, err
	}
	losses, err := a.losses(out.Model)
	return observation{model: losses, sums: l.scores}, err
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
	f, err := e.Federation()
	if err != nil {
		return nil, err
	}
	m, err := e.Final(f, shared, protocol.Workers(1))
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(a.targets))
	for i, t := range a.targets {
		r := a.full.Row(t.user)
		if t.item >= 0 {
			r = r.Only(t.item)
		}
		out[i] = -model.MSE(m.Predictor, t.user, r)
	}
	return out, nil
}

// measure learns on the first half of the runs and measures on the second.
func (a *attacker) measure(from string, values [][]float64, in [][]bool) Membership {
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
	m := Membership{From: from, Trials: len(all)}
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
