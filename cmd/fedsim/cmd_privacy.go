package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/dp"
)

// privacyCmd is fedsim privacy.
type privacyCmd struct {
	Epsilon privacyEpsilonCmd `cmd:"" help:"What given noise costs."`
	Noise   privacyNoiseCmd   `cmd:"" help:"The least noise that keeps a given epsilon."`
}

// mechanismFlags describe the releases of both verbs.
type mechanismFlags struct {
	Mechanism    string   `required:"" placeholder:"NAME" help:"gaussian, subsampled-gaussian, skellam or subsampled-skellam."`
	SamplingRate *float64 `placeholder:"Q" help:"Poisson sampling rate of a subsampled mechanism."`
	L2           *float64 `name:"l2" placeholder:"D2" help:"L2 sensitivity in integers, of a skellam mechanism."`
	L1           *float64 `name:"l1" placeholder:"D1" help:"L1 sensitivity in integers, of a skellam mechanism."`
	Steps        int      `default:"1" placeholder:"T" help:"Releases. Default 1."`
	Delta        float64  `required:"" placeholder:"D" help:"The delta that goes with epsilon."`
	Accountant   string   `default:"best" placeholder:"NAME" help:"best (the smallest proved value; the default), rdp, exact or gdp-skellam."`
	Format       string   `enum:"table,json" default:"table" help:"table or json."`
}

// event builds the releases with the given noise, naming flags that are
// missing or that the mechanism has no use for.
func (f *mechanismFlags) event(noise *float64, noiseFlag string) (dp.Event, error) {
	m, err := dp.ParseMechanism(f.Mechanism)
	if err != nil {
		return dp.Event{}, fmt.Errorf("--mechanism: %w", err)
	}
	subsampled := m == dp.SubsampledGaussianMechanism || m == dp.SubsampledSkellamMechanism
	integer := m == dp.SkellamMechanism || m == dp.SubsampledSkellamMechanism
	var errs []error
	take := func(flag string, p *float64, used bool) float64 {
		switch {
		case used && p == nil:
			errs = append(errs, fmt.Errorf("--%s is needed with --mechanism %s", flag, m))
		case !used && p != nil:
			errs = append(errs, fmt.Errorf("--%s has no meaning with --mechanism %s", flag, m))
		case used:
			return *p
		}
		return 0
	}
	e := dp.Event{Mechanism: m, Count: f.Steps,
		SamplingRate: take("sampling-rate", f.SamplingRate, subsampled),
		L2:           take("l2", f.L2, integer), L1: take("l1", f.L1, integer)}
	if integer {
		e.Variance = take(noiseFlag, noise, true)
	} else {
		e.NoiseMultiplier = take(noiseFlag, noise, true)
	}
	return e, errors.Join(errs...)
}

func (f *mechanismFlags) integer() bool {
	return f.Mechanism == string(dp.SkellamMechanism) || f.Mechanism == string(dp.SubsampledSkellamMechanism)
}

type privacyEpsilonCmd struct {
	NoiseMultiplier *float64 `placeholder:"Z" help:"Standard deviation over L2 sensitivity, of a gaussian mechanism."`
	Variance        *float64 `placeholder:"V" help:"Variance per coordinate in integers, of a skellam mechanism."`
	mechanismFlags
}

// Run implements fedsim privacy epsilon.
func (c *privacyEpsilonCmd) Run(s streams) error {
	noise, flag, other, otherFlag := c.NoiseMultiplier, "noise-multiplier", c.Variance, "variance"
	if c.integer() {
		noise, flag, other, otherFlag = c.Variance, "variance", c.NoiseMultiplier, "noise-multiplier"
	}
	e, err := c.event(noise, flag)
	if other != nil {
		err = errors.Join(err, fmt.Errorf("--%s has no meaning with --mechanism %s", otherFlag, c.Mechanism))
	}
	if err != nil {
		return wrong(err)
	}
	p := dp.Problem{Events: []dp.Event{e}, Delta: c.Delta, Accountant: dp.Accountant(c.Accountant)}
	if err = p.Validate(); err != nil {
		return wrong(err)
	}
	r, err := p.Epsilon()
	if err != nil {
		return cannot(err)
	}
	var epsilon *float64 // null where nothing is bounded
	text := "inf"
	if !math.IsInf(r.Epsilon, 1) {
		epsilon, text = &r.Epsilon, sixUp(r.Epsilon)
	}
	if c.Format == "json" {
		return printJSON(s.out, map[string]any{"epsilon": epsilon, "delta": c.Delta, "accountant": r.Accountant})
	}
	_, err = fmt.Fprintf(s.out, "epsilon %s at delta %v (accountant %s)\n", text, c.Delta, r.Accountant)
	return err
}

// wrong reports wrong values as the flags that they came from have them: without
// the words that a library puts in front.
func wrong(err error) error {
	return &usageError{errors.New(strings.NewReplacer("dp: ", "", "event 0: ", "").Replace(err.Error()))}
}

// cannot makes what no accountant covers and no noise meets a wrong call.
func cannot(err error) error {
	if errors.Is(err, dp.ErrNoAccountant) || errors.Is(err, dp.ErrUnattainable) {
		return &usageError{err}
	}
	return err
}

type privacyNoiseCmd struct {
	Epsilon float64 `required:"" placeholder:"E" help:"The budget."`
	mechanismFlags
}

// Run implements fedsim privacy noise.
func (c *privacyNoiseCmd) Run(s streams) error {
	one := 1.0 // a place holder for what is looked for
	e, err := c.event(&one, "")
	if err == nil {
		err = e.Validate()
	}
	target := dp.Target{Epsilon: c.Epsilon, Delta: c.Delta, Accountant: dp.Accountant(c.Accountant)}
	if err = errors.Join(err, target.Validate()); err != nil {
		return wrong(err)
	}
	var noise float64
	var r dp.Result
	name := "noise_multiplier"
	if c.integer() {
		name = "variance"
		noise, r, err = dp.SkellamVariance(target, e)
	} else {
		rate := 1.0
		if e.SamplingRate > 0 {
			rate = e.SamplingRate
		}
		noise, r, err = dp.NoiseMultiplier(target, c.Steps, rate)
	}
	if err != nil {
		return cannot(err)
	}
	if c.Format == "json" {
		return printJSON(s.out, map[string]any{name: noise, "epsilon": r.Epsilon, "delta": c.Delta, "accountant": r.Accountant})
	}
	_, err = fmt.Fprintf(s.out, "%s %s keeps epsilon %s at delta %v (accountant %s)\n", name, sixUp(noise), sixUp(r.Epsilon), c.Delta, r.Accountant)
	return err
}

// sixUp writes six significant digits that are not below x: neither an ε nor
// the noise for one may be printed smaller than it is.
func sixUp(x float64) string {
	text := fmt.Sprintf("%.6g", x) // nearest
	if v, err := strconv.ParseFloat(text, 64); err == nil && v < x {
		text = fmt.Sprintf("%.6g", v+math.Pow10(int(math.Floor(math.Log10(x)))-5))
	}
	return text
}
