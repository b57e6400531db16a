package noise

import "sync"

// Tables keeps the latest samplers. A sampler's table covers some twenty standard deviations and
// depends on public numbers only, so that the rounds and the clients of a process share one
// Tables. It is safe for concurrent use; the zero value is ready.
type Tables struct {
	// Keep is the number of samplers of a kind to keep; 0 means 16, enough for a plan's releases of
	// this round and of the last. A larger number serves many runs of one schedule. A
	// sampler takes up to 20 MB.
	Keep int

	mu       sync.Mutex
	skellam  cache[divided, *Skellam]
	thinning cache[kept, *Thinning]
}

// divided is a variance and the number of parts of either Poisson.
type divided struct {
	variance float64
	parts    int
}

// kept says that num of den Poisson events of this mean stay.
type kept struct {
	mean      float64
	keep, all uint64
}

// Skellam is NewSkellam.
func (t *Tables) Skellam(variance float64) (*Skellam, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.skellam.get(t.Keep, divided{variance, 0}, func() (*Skellam, error) { return NewSkellam(variance) })
}

// SkellamFor is NewSkellam for about so many draws. For few draws a Poisson is the sum of many
// Poissons of a smaller mean, whose table is made sooner: the same law, but other draws of the same
// stream.
func (t *Tables) SkellamFor(variance float64, draws int) (*Skellam, error) {
	if err := checkVariance(variance); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	d := divided{variance, partsFor(variance/2, 2*draws)}
	return t.skellam.get(t.Keep, d, func() (*Skellam, error) { return &Skellam{half: newPoisson(variance/2, d.parts)}, nil })
}

// Thinning is NewThinning.
func (t *Tables) Thinning(mean float64, keepNum, keepDen uint64) (*Thinning, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.thinning.get(t.Keep, kept{mean, keepNum, keepDen}, func() (*Thinning, error) { return NewThinning(mean, keepNum, keepDen) })
}

// cached is the default of Tables.Keep.
const cached = 16

// cache keeps the latest values made, by key.
type cache[K comparable, V any] struct {
	values map[K]V
	order  []K
}

func (c *cache[K, V]) get(keep int, k K, build func() (V, error)) (V, error) {
	if v, ok := c.values[k]; ok {
		return v, nil
	}
	v, err := build()
	if err != nil {
		return v, err
	}
	if c.values == nil {
		c.values = make(map[K]V)
	}
	if keep == 0 {
		keep = cached
	}
	if len(c.order) == keep {
		delete(c.values, c.order[0])
		c.order = c.order[1:]
	}
	c.values[k], c.order = v, append(c.order, k)
	return v, nil
}
