package noise

import (
	"runtime"
	"testing"
	"weak"
)

// forget has the next sampler build its tables, as in a benchmark.
func (s *sharedTables) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.entries)
}

// Samplers of one process share tables as long as one of them is there; then nothing is kept.
func TestSharedTables(t *testing.T) {
	t.Parallel()
	s := sharedTables{entries: make(map[tableKey]weak.Pointer[table])}
	built := 0
	build := func() *table { built++; return poissonTable(3) }
	k := tableKey{mean: 3}
	first := s.get(k, build)
	if second := s.get(k, build); second != first || built != 1 {
		t.Errorf("the same table: %t; built %d times", second == first, built)
	}
	other := s.get(tableKey{n: 3, num: 1, den: 2}, func() *table { return binomialTable(3, 1, 2) })
	if other == first {
		t.Error("two laws have one table")
	}
	runtime.KeepAlive(first)
	for range 100 {
		runtime.GC()
		runtime.Gosched() // cleanups run in a goroutine of their own
		s.mu.Lock()
		_, left := s.entries[k]
		s.mu.Unlock()
		if !left {
			runtime.KeepAlive(other)
			return
		}
	}
	t.Error("an entry is left of a table that no sampler holds")
}
