package noise

import (
	"runtime"
	"sync"
	"weak"
)

// sharedTables finds the tables that some sampler of this process still holds. A table follows from public numbers
// alone, so that clients in one process need it once. It keeps no table in memory by itself.
type sharedTables struct {
	mu      sync.Mutex
	entries map[tableKey]*tableEntry
}

// tableKey names the law of a table: Binomial(n, num/den), or Poisson(mean).
type tableKey struct {
	n, num, den uint64
	mean        float64
}

// tableEntry is locked while its table is built, so that others wait for it.
type tableEntry struct {
	mu    sync.Mutex
	table weak.Pointer[table]
}

var tablesInUse sharedTables

// get returns the table of a key, and builds it if no sampler holds it.
func (s *sharedTables) get(k tableKey, build func() *table) *table {
	s.mu.Lock()
	e := s.entries[k]
	if e == nil {
		if e = new(tableEntry); s.entries == nil {
			s.entries = make(map[tableKey]*tableEntry)
		}
		s.entries[k] = e
	}
	s.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if t := e.table.Value(); t != nil {
		return t
	}
	t := build()
	e.table = weak.Make(t)
	runtime.AddCleanup(t, func(k tableKey) { s.drop(k, e) }, k)
	return t
}

// drop forgets an entry whose table is gone.
func (s *sharedTables) drop(k tableKey, e *tableEntry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.table.Value() != nil {
		return // it was built again
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries[k] == e {
		delete(s.entries, k)
	}
}
