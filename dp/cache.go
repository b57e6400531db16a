package dp

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
)

// Cache stores the costs of events and compositions for all ledgers that share it. Most clients of
// a simulation have the same compositions. The zero Cache is ready for use, and safe for concurrent
// use. It does not change a ledger's results.
type Cache struct {
	mu     sync.Mutex
	meters map[settings]*meter
}

func (c *Cache) meter(s settings) *meter {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.meters[s]
	if !ok {
		m = &meter{
			settings: s, losses: map[Event]*loss{}, results: map[string]Result{}, accounts: map[string]*account{},
			empty: &account{spent: Result{Epsilon: 0, Accountant: s.accountant}},
		}
		if c.meters == nil {
			c.meters = map[settings]*meter{}
		}
		c.meters[s] = m
	}
	return m
}

// meter measures compositions under one setting.
type meter struct {
	settings settings
	empty    *account // the account with no charge

	mu       sync.RWMutex
	losses   map[Event]*loss     // by the event with count 1
	results  map[string]Result   // by key
	accounts map[string]*account // by key, sessions and protection
}

// maxResults bounds the memory of a meter whose ledgers diverge. At the bound the meter forgets
// everything, which costs one recomputation of each live composition.
const maxResults = 1 << 16

// intern returns this meter's loss of an event, the same pointer every time.
func (m *meter) intern(e Event) *loss {
	e.Count = 1
	m.mu.RLock()
	l, ok := m.losses[e]
	m.mu.RUnlock()
	if ok {
		return l
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if l, ok = m.losses[e]; !ok {
		l = newLoss(e, uint32(len(m.losses)))
		m.losses[e] = l
	}
	return l
}

// appendKey appends a key that distinguishes a composition from all others of its meter.
func (c composition) appendKey(key []byte) []byte {
	for _, t := range c {
		key = binary.BigEndian.AppendUint32(key, t.loss.id)
		key = binary.BigEndian.AppendUint64(key, uint64(t.count))
	}
	return key
}

// share returns this meter's account that is equal to a.
func (m *meter) share(a *account) *account {
	key := binary.BigEndian.AppendUint32(nil, uint32(len(a.charged)))
	key = a.charged.appendKey(key)
	for _, s := range a.sessions {
		key = binary.BigEndian.AppendUint64(append(key, s.session[:]...), s.round)
	}
	key = fmt.Appendf(key, "%q %q", a.protects.Unit, a.protects.Relation)
	m.mu.Lock()
	defer m.mu.Unlock()
	if same, ok := m.accounts[string(key)]; ok {
		return same
	}
	if len(m.accounts) >= maxResults {
		clear(m.accounts)
	}
	m.accounts[string(key)] = a
	return a
}

// measure returns the cost of a composition of this meter's losses. It does not keep errors.
func (m *meter) measure(c composition) (Result, error) {
	var buf [128]byte // enough for ten distinct events without allocating
	key := c.appendKey(buf[:0])
	m.mu.RLock()
	r, ok := m.results[string(key)]
	m.mu.RUnlock()
	if ok {
		return r, nil
	}
	r, err := m.settings.epsilon(c)
	if err != nil {
		return Result{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.results) >= maxResults {
		clear(m.results)
	}
	m.results[string(key)] = r
	return r, nil
}

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
