package dp_test

import (
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/dp"
)

// The cost of a hundred secure sums with Skellam noise: vectors of norm at most 1 over 1,000
// coordinates, in fixed point with 1,000 integers per unit.
func ExampleProblem() {
	d2, d1 := dp.IntegerBounds(dp.Fixed{L2: 1, Scale: 1000, MaxNonZero: 1000})
	problem := dp.Problem{
		Events:       []dp.Event{dp.Skellam(2e9, d2, d1).Times(100)},
		Delta:        1e-5,
		Accountant:   dp.RDP,
		SamplerError: dp.SamplerError(500, 1000, 100),
	}
	result, err := problem.Epsilon()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(dp.Statement{
		Epsilon:    result.Epsilon,
		Delta:      problem.Delta,
		Unit:       dp.User,
		Relation:   dp.ZeroOut,
		Accountant: result.Accountant,
		Sampling:   dp.NoSampling,
		Noise:      dp.SkellamNoise,
	})
	// Output: (epsilon=0.913, delta=1e-05, unit=user, relation=zero-out, accountant=rdp, sampling=none, noise=skellam)
}

// A party trains on Poisson samples of its ratings: 950 steps release two gradients, and the last
// 50 release only one, whose sensitivity is less. Distributions of the privacy loss show a smaller
// ε than Rényi divergences do.
func ExampleProblem_sampled() {
	const rate = 0.02
	events := []dp.Event{
		dp.SubsampledGaussian(1.2, rate).Times(950),
		dp.SubsampledGaussian(1.2*math.Sqrt2, rate).Times(50),
	}
	for _, accountant := range []dp.Accountant{dp.RDP, dp.Best} {
		result, err := dp.Problem{Events: events, Delta: 1e-5, Accountant: accountant}.Epsilon()
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(dp.Statement{
			Epsilon: result.Epsilon, Delta: 1e-5, Unit: dp.Rating, Relation: dp.AddRemove,
			Accountant: result.Accountant, Sampling: dp.PoissonSampling, Noise: dp.FloatGaussianNoise,
		})
	}
	// Output:
	// (epsilon=3.021, delta=1e-05, unit=rating, relation=add-remove, accountant=rdp, sampling=poisson, noise=float-gaussian)
	// (epsilon=2.745, delta=1e-05, unit=rating, relation=add-remove, accountant=pld, sampling=poisson, noise=float-gaussian)
}

// The noise that ε = 1 takes: for one Gaussian release, and for a thousand releases over Poisson
// samples of 1%.
func ExampleNoiseMultiplier() {
	budget := dp.Budget{Epsilon: 1, Delta: 1e-5, Accountant: dp.Best}
	for _, run := range []struct {
		steps int
		rate  float64
	}{{1, 1}, {1000, 0.01}} {
		z, result, err := dp.NoiseMultiplier(budget, run.steps, run.rate)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d steps at rate %v: z = %.4f by %s\n", run.steps, run.rate, z, result.Accountant)
	}
	// Output:
	// 1 steps at rate 1: z = 3.7306 by exact
	// 1000 steps at rate 0.01: z = 1.4146 by pld
}

// The variance that a distributed sum needs, by each of two proved accountants.
func ExampleSkellamVariance() {
	release := dp.Skellam(1, 500, 5000).Times(20)
	for _, accountant := range []dp.Accountant{dp.RDP, dp.GDPSkellam} {
		v, _, err := dp.SkellamVariance(dp.Budget{Epsilon: 2, Delta: 1e-5, Accountant: accountant}, release)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: standard deviation %.0f\n", accountant, math.Sqrt(v))
	}
	// Output:
	// rdp: standard deviation 4807
	// gdp-skellam: standard deviation 4458
}

// Three statistics share one budget. The first is released once and takes a tenth of μ². The others
// are released ten times each and take the rest in equal parts.
func ExampleCalibrate() {
	const rounds = 10
	budget := dp.Budget{Epsilon: 1, Delta: 1e-5, Accountant: dp.Exact}
	noise, _, err := dp.Calibrate(budget, func(noise float64) []dp.Event {
		share := func(part float64) dp.Event { return dp.Gaussian(noise / math.Sqrt(part)) }
		return []dp.Event{share(0.1), share(0.45 / rounds).Times(rounds), share(0.45 / rounds).Times(rounds)}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("noise = %.4f\n", noise)
	// Output: noise = 3.7306
}

// A client's account: charge, make the record durable, then send.
func ExampleLedger() {
	budget := dp.Budget{Epsilon: 1, Delta: 1e-5, Accountant: dp.RDP}
	ledger, err := dp.NewLedger(budget, new(dp.Cache)) // share the cache among ledgers
	if err != nil {
		fmt.Println(err)
		return
	}
	session := [16]byte{7}
	var records []dp.Record
	for round := uint64(1); ; round++ {
		record := dp.Record{Session: session, Round: round, Events: []dp.Event{dp.Skellam(1e6, 150, 1500)}}
		err = ledger.Charge(record.Session, record.Round, record.Events)
		var over *dp.OverspendError
		if errors.As(err, &over) {
			fmt.Println(err)
			break
		}
		records = append(records, record)
	}
	restored, err := dp.RestoreLedger(budget, nil, records)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d charges, epsilon=%.4f\n", len(records), restored.Spent().Epsilon)
	// Output:
	// dp: the privacy budget does not cover this: spent epsilon=0.847, asked for a total of epsilon=1.056, budget epsilon=1 (delta=1e-05, accountant=rdp)
	// 2 charges, epsilon=0.8470
}

// The published two-round noise scheme shows the sum twice.
func ExampleReplaceViews() {
	claimed := 1.0
	sigma := 1 / dp.GaussianMu(claimed, 1e-5)
	first, second, err := dp.ReplaceViews(sigma*sigma, 70, 100, 100)
	if err != nil {
		fmt.Println(err)
		return
	}
	views := []dp.Event{dp.Gaussian(math.Sqrt(first)), dp.Gaussian(math.Sqrt(second))}
	result, err := dp.Problem{Events: views, Delta: 1e-5, Accountant: dp.Exact}.Epsilon()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("claimed %v, true %.3f\n", claimed, result.Epsilon)
	// Output: claimed 1, true 1.339
}
