package dataset_test

import (
	"encoding/binary"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/internal/dataset/pack"
	"github.com/fedsim/fedsim/internal/effort"
)

// TestPartsPace: reading the training part of a split costs at most 1.5 times the limit, which reads the bare numbers of all records by the
// standard library. Reading the test part, a tenth of the ratings, costs at most half of it. Both are timed in turn, by the processor time of
// one thread, and the median ratio of 31 turns counts. Hashing every rating again for its part cost 3 to 5 times the limit. A run of
// lfl-sgdmf with 5 rounds reads the training part 22 times, and the test part 17 times.
func TestPartsPace(t *testing.T) {
	effort.LongOnly(t, "four seconds, beside nothing else")
	set, err := read.Open(t.Context(), "synthetic:ml-10m-7000", read.Options{})
	if err != nil {
		t.Fatal(err)
	}
	file := packedBytes(t, set)
	var records []byte
	rebuilt(t, file, func(footer map[string]any, sections []byte) []byte {
		records = sections[:int(footer["records_bytes"].(float64))]
		return sections
	})
	if set, err = pack.FromBytes(t.Context(), file, pack.Options{Packed: true}); err != nil {
		t.Fatal(err)
	}
	parts, err := split.Divide(set, split.Params{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	bare := func() (sum int) {
		for b := records; len(b) > 0; {
			x, n := binary.Uvarint(b)
			sum, b = sum+int(x), b[n:]
		}
		return sum
	}
	var items []int32
	var values []float32
	for name, c := range map[string]struct {
		part dataset.Ratings
		most float64
	}{"train": {parts.Train, 1.5}, "test": {parts.Test, 0.5}} {
		ratios := make([]float64, 31)
		for i := range ratios {
			limit := processor(t, bare)
			ratios[i] = processor(t, func() (n int) {
				for u := range set.Users {
					items, values = c.part.Packed.Row(u, items, values)
					n += len(items)
				}
				return n
			}) / limit
		}
		slices.Sort(ratios)
		ratio := ratios[len(ratios)/2]
		t.Logf("%s: %.2f of the limit, in half of the turns between %.2f and %.2f", name, ratio, ratios[len(ratios)/4], ratios[len(ratios)*3/4])
		if ratio > c.most {
			t.Errorf("%s: %.2f of the limit; at most %v is allowed", name, ratio, c.most)
		}
	}
}

// processor returns the processor time that work takes on its thread, in seconds.
func processor(t *testing.T, work func() int) float64 {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	spent := func() float64 {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
			t.Fatal(err)
		}
		return float64(now.Nano()) / 1e9
	}
	before := spent()
	if work() == 0 {
		t.Fatal("no rating was read")
	}
	return spent() - before
}
