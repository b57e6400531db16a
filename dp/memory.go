package dp

import (
	"encoding/binary"
	"math"
	"sync"
)

// memory holds what this process has computed. The plan of a run, the run, its parties and its baselines calibrate the
// same noise, and a calibration takes seconds. A value is a function of its key alone, so no result depends on the
// memory.
type memory[V any] struct {
	mu     sync.Mutex
	values map[string]V
}

// maxRemembered bounds a memory. At the bound it forgets everything.
const maxRemembered = 1 << 12

var (
	solvedPLD     memory[float64]    // by pldComposition.key
	sampledCurves memory[renyiCurve] // of subsampled Gaussians, by z and q
)

// recall returns the value of a key, and computes it if the memory has none.
func (m *memory[V]) recall(key []byte, compute func() V) V {
	m.mu.Lock()
	v, ok := m.values[string(key)]
	m.mu.Unlock()
	if ok {
		return v
	}
	v = compute()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil || len(m.values) >= maxRemembered {
		m.values = make(map[string]V)
	}
	m.values[string(key)] = v
	return v
}

func appendReals(key []byte, list ...float64) []byte {
	for _, x := range list {
		key = binary.BigEndian.AppendUint64(key, math.Float64bits(x))
	}
	return key
}

// key distinguishes the cost of a composition at a δ, for the given directions, from all others.
func (p pldComposition) key(delta float64, ways []direction) []byte {
	key := appendReals(nil, delta, p.mu, p.distance, p.releases)
	for _, part := range p.parts {
		key = appendReals(key, part.loss.z, part.loss.q, float64(part.count))
	}
	for _, d := range ways {
		key = append(key, byte(d))
	}
	return key
}
