package dp

import (
	"encoding/binary"
	"math"
	"sync"
)

// pldMemory holds what this process has solved. The plan of a run, the run and its baselines ask for the same costs,
// and a calibration takes seconds. A cost is a function of its key alone, so no result depends on the memory.
type pldMemory struct {
	mu    sync.Mutex
	costs map[string]float64
}

// maxPLDCosts bounds the memory. At the bound it forgets everything.
const maxPLDCosts = 1 << 14

var solvedPLD pldMemory

// recall returns the cost of a key, and computes it if the memory has none.
func (m *pldMemory) recall(key []byte, compute func() float64) float64 {
	m.mu.Lock()
	cost, ok := m.costs[string(key)]
	m.mu.Unlock()
	if ok {
		return cost
	}
	cost = compute()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.costs == nil || len(m.costs) >= maxPLDCosts {
		m.costs = make(map[string]float64)
	}
	m.costs[string(key)] = cost
	return cost
}

// key distinguishes the cost of a composition at a δ, for the given directions, from all others.
func (p pldComposition) key(delta float64, ways []direction) []byte {
	var key []byte
	add := func(list ...float64) {
		for _, x := range list {
			key = binary.BigEndian.AppendUint64(key, math.Float64bits(x))
		}
	}
	add(delta, p.mu, p.distance, p.releases)
	for _, part := range p.parts {
		add(part.loss.z, part.loss.q, float64(part.count))
	}
	for _, d := range ways {
		key = append(key, byte(d))
	}
	return key
}
