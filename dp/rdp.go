package dp

import (
	"fmt"
	"math"
)

// renyiOrders are the orders α at which divergences are kept: 1.1 to 11 by
// 0.1, the integers to 63, then powers of two to 1024. Tenths of integers, so
// that 2.0 is exactly 2.
var renyiOrders = func() (orders []float64) {
	for i := 11; i <= 110; i++ {
		orders = append(orders, float64(i)/10)
	}
	for i := 12; i <= 63; i++ {
		orders = append(orders, float64(i))
	}
	return append(orders, 128, 256, 512, 1024)
}()

// renyiLogs are log(1-1/α) and log α of renyiOrders: a calibration converts thousands of
// times at the same orders.
var renyiLogs = func() (logs [][2]float64) {
	for _, alpha := range renyiOrders {
		logs = append(logs, [2]float64{math.Log1p(-1 / alpha), math.Log(alpha)})
	}
	return logs
}()

// renyiCurve holds a bound on the Rényi divergence D_α at each of
// renyiOrders; +Inf where the mechanism has none at that order.
type renyiCurve []float64

// eventCurve returns the curve of one release. No caller changes it: curves of sampled releases, which take milliseconds,
// are remembered.
func eventCurve(e Event) (renyiCurve, error) {
	var at func(alpha float64) float64
	switch e.Mechanism {
	case GaussianMechanism:
		at = func(alpha float64) float64 { return gaussianRenyi(e.NoiseMultiplier, alpha) }
	case SubsampledGaussianMechanism:
		at = func(alpha float64) float64 {
			return subsampledGaussianRenyi(e.NoiseMultiplier, e.SamplingRate, alpha)
		}
	case SkellamMechanism:
		at = func(alpha float64) float64 { return skellamRenyi(e.Variance, e.L2, e.L1, alpha) }
	default:
		return nil, fmt.Errorf("%w: accountant %s does not cover %s events; %s does, from a variance of %g",
			ErrNoAccountant, RDP, e.Mechanism, GDPSkellam, MinGaussianVariance)
	}
	compute := func() renyiCurve {
		curve := make(renyiCurve, len(renyiOrders))
		for i, alpha := range renyiOrders {
			curve[i] = at(alpha)
		}
		return curve
	}
	if e.Mechanism == SubsampledGaussianMechanism {
		return sampledCurves.recall(appendReals(nil, e.NoiseMultiplier, e.SamplingRate), compute), nil
	}
	return compute(), nil
}

// gaussianRenyi returns α/(2z²) (Mironov 2017, corollary 3).
func gaussianRenyi(z, alpha float64) float64 { return alpha / (2 * z * z) }

// renyiSum adds up the curves of a composition (Mironov 2017, proposition 1). An order at which a
// part has no bound stays +Inf and drops out.
func renyiSum(c composition) (privacyBound, error) {
	sum := make(renyiCurve, len(renyiOrders))
	for _, t := range c {
		curve, err := t.loss.curve()
		if err != nil {
			return nil, err
		}
		for i, d := range curve {
			sum[i] += float64(t.count) * d
		}
	}
	return sum, nil
}

// epsilon converts by Canonne, Kamath and Steinke 2020, proposition 12, at the
// best order: ε = D_α + log((α-1)/α) - (log δ + log α)/(α-1), never below 0.
func (curve renyiCurve) epsilon(delta float64) float64 {
	if !(delta > 0) {
		return math.Inf(1)
	}
	best, logDelta := math.Inf(1), math.Log(delta)
	for i, alpha := range renyiOrders {
		best = min(best, curve[i]+renyiLogs[i][0]-(logDelta+renyiLogs[i][1])/(alpha-1))
	}
	return max(0, best)
}
