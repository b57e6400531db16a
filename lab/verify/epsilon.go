package verify

import (
	"errors"
	"fmt"
	"math"
	"math/cmplx"
	"slices"
	"sync"

	"gonum.org/v1/gonum/dsp/fourier"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/stat/combin"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/lab/internal/binomial"
)

// This file computes ε a second time. It shares no code with the accountants of package dp but the library of Fourier transforms: of dp
// it uses the types that records are made of. Where dp has closed forms with erfc, this file integrates the density of the privacy loss.
// Where dp composes a distribution that was rounded up, this file splits each mass between two points so that the mean stays.

// cost is an ε that was computed here.
type cost struct {
	epsilon   float64
	method    string
	tolerance float64 // relative: what the method may exceed the least ε by
}

var errNoMethod = errors.New("no second method computes it")

// sampled is a release with normal noise of z times the distance, over a Poisson sample of rate q; 1: of all.
type sampled struct {
	z, q  float64
	count int
}

// epsilonOf returns the least ε of all releases and searches at δ. Drawn noise is within samplers of exact noise, in total
// variation, so that ε holds at δ if the exact noise has δ - samplers·(1+e^ε).
func epsilonOf(events []dp.Event, searches []dp.Search, delta, samplers float64) (cost, error) {
	if len(searches) > 0 {
		return renyi(events, searches, delta, samplers)
	}
	var all []sampled
	mu2, mixed := 0.0, false
	for _, e := range events {
		x, few, err := normal(e)
		switch {
		case err != nil:
			return cost{}, err
		case few:
			return renyi(events, nil, delta, samplers)
		}
		mixed = mixed || x.q < 1
		mu2 += float64(x.count) / (x.z * x.z)
		all = append(all, x)
	}
	if mixed {
		loss := []func(float64) float64{compose(all, false), compose(all, true)}
		least := solve(func(e float64) float64 { return max(loss[0](e), loss[1](e)) }, delta, samplers)
		return cost{least, "a distribution of the privacy loss on a grid, both directions", 2e-3}, nil
	}
	return cost{solve(func(e float64) float64 { return quadrature(math.Sqrt(mu2), e) }, delta, samplers), "an integral over the normal privacy loss", 1e-6}, nil
}

// normal returns the normal noise that an event is charged as: Skellam noise of variance V of at least 16 as noise that is
// narrower by 1 + 1/(2V) (dp/proofs.md). few reports a smaller variance, and only Rényi divergences are known for it.
func normal(e dp.Event) (x sampled, few bool, err error) {
	x = sampled{e.NoiseMultiplier, 1, e.Count}
	switch e.Mechanism {
	case "skellam", "subsampled-skellam":
		x.z = math.Sqrt(e.Variance) / (e.L2 * (1 + 1/(2*e.Variance)))
		few = e.Variance < 16
	case "gaussian", "subsampled-gaussian":
	default:
		return x, false, fmt.Errorf("a %s release: %w", e.Mechanism, errNoMethod)
	}
	if e.SamplingRate != 0 {
		x.q = e.SamplingRate
	}
	if !(x.z > 0 && x.q > 0 && x.q <= 1 && x.count > 0 && !math.IsInf(x.z, 1)) {
		return x, false, fmt.Errorf("a %s release with noise %v, rate %v and count %d is none", e.Mechanism, x.z, x.q, x.count)
	}
	return x, few, nil
}

// solve returns the least ε with δ(ε) + samplers·(1+e^ε) at most delta; +Inf if there is none.
func solve(deltaOf func(float64) float64, delta, samplers float64) float64 {
	above := func(e float64) bool { return deltaOf(e)+samplers*(1+math.Exp(e)) > delta }
	if !above(0) {
		return 0
	}
	low, high := 0.0, 1.0
	for above(high) && high <= 1e6 && samplers*(1+math.Exp(high)) <= delta {
		low, high = high, 2*high
	}
	_, high = binomial.Halve(low, high, 60, above)
	if above(high) {
		return math.Inf(1)
	}
	return high
}

// legendre is Gauss's rule on [0, 2], whose points take longer than their use.
var legendre = sync.OnceValues(func() (at, weights []float64) {
	at, weights = make([]float64, 1000), make([]float64, 1000)
	quad.Legendre{}.FixedLocations(at, weights, 0, 2)
	return at, weights
})

// quadrature returns δ(ε) of normal noise at a distance of mu deviations. The privacy loss is normal with mean μ²/2 and deviation μ, and δ(ε)
// is the mean of 1 - e^(ε-loss) where that is positive. Gauss's rule integrates it from ε upwards.
func quadrature(mu, epsilon float64) (sum float64) {
	const far = 38 // in deviations from the mean, beyond which the density is 0
	from := max((epsilon-mu*mu/2)/mu, -far)
	if from >= far {
		return 0
	}
	at, weights := legendre()
	for i, x := range at {
		t, before := x/2*(far-from)+from, sum
		sum += weights[i] * (far - from) / 2 * (-math.Expm1(epsilon-mu*mu/2-mu*t) * math.Exp(-t*t/2) / math.Sqrt(2*math.Pi))
		if t > 0 && sum == before {
			break // nor do smaller parts count
		}
	}
	return sum
}

// compose returns δ(ε) of releases over samples. The distributions P, with the unit, and Q, without it, are
// (1-q)·N(0,z²) + q·N(1,z²) and N(0,z²); with reverse their roles change.
func compose(all []sampled, reverse bool) func(epsilon float64) float64 {
	const size, points, far = 1 << 18, 1 << 15, 12.0
	type atom struct{ loss, mass float64 }
	atoms, means := make([][]atom, len(all)), make([]float64, len(all))
	mean, variance, widest := 0.0, 0.0, 0.0
	for i, x := range all {
		first, last := -far*x.z, 1+far*x.z
		step := (last - first) / points
		total, second := 0.0, 0.0
		for k := range points {
			at := first + (float64(k)+0.5)*step
			q, ratio := math.Exp(-at*at/(2*x.z*x.z)), math.Exp((2*at-1)/(2*x.z*x.z))
			p := q * (1 - x.q + x.q*ratio)
			a := atom{math.Log(1 - x.q + x.q*ratio), p}
			if reverse {
				a = atom{-a.loss, q}
			}
			atoms[i] = append(atoms[i], a)
			total, means[i], second = total+a.mass, means[i]+a.mass*a.loss, second+a.mass*a.loss*a.loss
			if at > -8*x.z && at < 1+8*x.z {
				widest = max(widest, math.Abs(a.loss))
			}
		}
		for k := range atoms[i] {
			atoms[i][k].mass /= total
		}
		means[i] /= total
		mean += float64(x.count) * means[i]
		variance += float64(x.count) * (second/total - means[i]*means[i])
	}
	h := 2 * (20*math.Sqrt(variance) + 2*widest) / size
	transform, product := fourier.NewFFT(size), slices.Repeat([]complex128{1}, size/2+1)
	for i, x := range all {
		one := make([]float64, size)
		for _, a := range atoms[i] {
			place := (a.loss - means[i]) / h
			whole := math.Floor(place)
			at, part := int(whole), place-whole
			one[at&(size-1)] += a.mass * (1 - part)
			one[(at+1)&(size-1)] += a.mass * part
		}
		for k, v := range transform.Coefficients(nil, one) {
			product[k] *= cmplx.Pow(v, complex(float64(x.count), 0))
		}
	}
	// Of the losses from each place on: their mass, and their mass times e^(the place's loss - loss).
	mass := transform.Sequence(nil, product)
	mass = append(slices.Concat(mass[size/2:], mass[:size/2]), 0)
	weight, decay := make([]float64, size+1), math.Exp(-h)
	for k := size - 1; k >= 0; k-- {
		weight[k] = mass[k]/size + decay*weight[k+1]
		mass[k] = mass[k]/size + mass[k+1]
	}
	first := mean - size/2*h
	return func(epsilon float64) float64 {
		k := min(max(0, int((epsilon-first)/h)+1), size)
		return mass[k] - math.Exp(min(0, epsilon-first-float64(k)*h))*weight[k]
	}
}

// renyi returns ε by Rényi divergences, for releases of little Skellam noise and for private searches (Papernot and Steinke,
// ICLR 2022, theorem 2).
func renyi(events []dp.Event, searches []dp.Search, delta, samplers float64) (cost, error) {
	var orders []float64
	for i := 11; i <= 2560; i++ {
		if i < 110 || i%10 == 0 {
			orders = append(orders, float64(i)/10)
		}
	}
	orders = append(orders, 512, 1024)
	sum, err := divergences(events, orders, len(searches) > 0)
	tolerance := 1e-6
	for _, s := range searches {
		worst := make([]float64, len(orders))
		for _, run := range s.Runs {
			for _, e := range run {
				if e.SamplingRate > 0 && e.SamplingRate < 1 {
					tolerance = 2e-2 // of chords between whole orders
				}
			}
			d, wrong := divergences(run, orders, true)
			err = errors.Join(err, wrong)
			for i := range d {
				worst[i] = max(worst[i], d[i])
			}
		}
		g, eta := s.Law.Gamma, s.Law.Eta
		runs := (1/g - 1) / math.Log(1/g)
		if eta != 0 {
			runs = eta * (1/g - 1) / (1 - math.Pow(g, eta))
		}
		choice := math.Inf(1)
		for i, b := range orders {
			choice = min(choice, (1+eta)*((1-1/b)*worst[i]+math.Log(1/g)/b))
		}
		samplers += runs * s.SamplerError
		for i, a := range orders {
			sum[i] += worst[i] + choice + math.Log(runs)/(a-1)
		}
	}
	if err != nil {
		return cost{}, err
	}
	// δ(ε) = min over α of e^((α-1)(D-ε))/α·(1-1/α)^(α-1) (Canonne, Kamath and Steinke 2020).
	deltaOf := func(epsilon float64) float64 {
		least := 1.0
		for i, a := range orders {
			least = min(least, math.Exp((a-1)*(sum[i]-epsilon+math.Log1p(-1/a)))/a)
		}
		return least
	}
	return cost{solve(deltaOf, delta, samplers), "Rényi divergences", tolerance}, nil
}

// divergences sums the Rényi divergences of releases at each order. Skellam noise of little variance has one at whole orders (Agarwal, Kairouz and
// Liu 2021, theorem 3.5). Samples have moments at whole orders (Mironov, Talwar and Zhang 2019), and chords of their logarithm between them.
func divergences(events []dp.Event, orders []float64, standIn bool) ([]float64, error) {
	sum := make([]float64, len(orders))
	for _, e := range events {
		x, few, err := normal(e)
		if err != nil || few && x.q < 1 {
			return sum, errors.Join(err, fmt.Errorf("a %s release of variance %v: %w", e.Mechanism, e.Variance, errNoMethod))
		}
		skellam := e.Variance > 0 && (few || !standIn)
		for i, a := range orders {
			var d float64
			switch v, s, l := e.Variance, e.L2*e.L2, e.L1; {
			case skellam && a != math.Trunc(a):
				d = math.Inf(1)
			case skellam:
				d = a*s/(2*v) + min(((2*a-1)*s+6*l)/(4*v*v), 3*l/(2*v))
			case x.q == 1:
				d = a / (2 * x.z * x.z)
			default:
				low, part := math.Floor(a), a-math.Floor(a)
				d = (1 - part) * logMoment(x, int(low))
				if part > 0 {
					d += part * logMoment(x, int(low)+1)
				}
				d /= a - 1
			}
			sum[i] += float64(e.Count) * d
		}
	}
	return sum, nil
}

// logMoment is the logarithm of Σ C(α,k)·(1-q)^(α-k)·q^k·e^(k(k-1)/2z²).
func logMoment(x sampled, alpha int) float64 {
	terms := make([]float64, alpha+1)
	for i := range terms {
		k, n := float64(i), float64(alpha)
		terms[i] = combin.LogGeneralizedBinomial(n, k) + (n-k)*math.Log1p(-x.q) + k*math.Log(x.q) + k*(k-1)/(2*x.z*x.z)
	}
	return max(0, floats.LogSumExp(terms))
}
