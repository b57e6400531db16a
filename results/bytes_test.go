package results_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	_ "github.com/fedsim/fedsim/internal/effort" // spares processor time
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/results"
)

func TestPerClient(t *testing.T) {
	var total [protocol.Kinds]int64
	total[0], total[1] = 10, 11
	got := results.PerClient(total, 4) // 2.5 and 2.75, to the nearest and up
	want := map[string]int64{protocol.Kind(0).String(): 3, protocol.Kind(1).String(): 3}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
